"""Names of a package that load their module at first use (PEP 562), read from its stub."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any


def names_of_stub(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package.

    Its ``__init__.pyi`` holds a line ``from MODULE import NAME as NAME`` for each name. It is read
    when the first name is asked for, and type checkers read the same lines: a name is written once,
    and one that is not there is an error for both.

    Args:
        package: the package's ``__name__``.
        file: its ``__file__``.
    """

    @cache
    def modules() -> dict[str, str]:
        homes: dict[str, str] = {}
        with open(f"{file}i", encoding="utf-8") as stub:  # noqa: PTH123  # pathlib: 5 ms
            for line in stub:
                words = line.split()
                if words[:1] == ["from"]:
                    homes[words[-1]] = words[1]
        return homes

    def __getattr__(name: str) -> Any:  # noqa: N807
        module = modules().get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(module), name)

    def __dir__() -> list[str]:  # noqa: N807
        return sorted(modules())

    return __getattr__, __dir__
