"""Pickles of plain values, read without running code of who wrote them.

A pickle names what is called to make its objects again. Here it may name only what makes values:
containers, numbers, times, exceptions of Python, arrays of numpy. Anything else is refused by name.
"""

from __future__ import annotations

import builtins
import io
import pickle
from typing import Any, Final

_VALUES: Final = frozenset(
    {
        *(("builtins", name) for name in ("set", "frozenset", "bytearray", "complex")),
        *(("builtins", name) for name in ("range", "slice")),
        *(("collections", name) for name in ("OrderedDict", "deque", "Counter")),
        *(("datetime", name) for name in ("date", "datetime", "time", "timedelta", "timezone")),
        ("decimal", "Decimal"),
        ("fractions", "Fraction"),
        ("uuid", "UUID"),
        *(("numpy", name) for name in ("ndarray", "dtype")),
        *((f"numpy.{core}.multiarray", "scalar") for core in ("core", "_core")),
        *((f"numpy.{core}.multiarray", "_reconstruct") for core in ("core", "_core")),
        *((f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")),
    }
)


class NotPlainError(Exception):
    """A pickle names something else; the text is its name."""


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        known = getattr(builtins, name, None) if module == "builtins" else None
        exception = isinstance(known, type) and issubclass(known, Exception)
        if not exception and (module, name) not in _VALUES:
            raise NotPlainError(f"{module}.{name}")
        return super().find_class(module, name)


def plain_value(data: bytes) -> Any:
    """The value of a pickle.

    Raises:
        NotPlainError: it would call something that may run code.
        Exception: whatever a damaged pickle raises.
    """
    return _Plain(io.BytesIO(data)).load()
