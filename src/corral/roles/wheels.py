"""The wheels a program of Corral's consists of, pinned with digests, by the system's Python. Pure.

The locks are in ``data/``, one section per Python: ``FILE SHA256`` a line, made by
``.ci/lock_wheels``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Final

from corral.errors import Code, CorralError
from corral.inspect.facts import Facts
from corral.state.pyenv import Wheel

PYTHONS: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("debian", "12"): "3.11",
        ("debian", "13"): "3.13",
        ("ubuntu", "22.04"): "3.10",
        ("ubuntu", "24.04"): "3.12",
        ("ubuntu", "26.04"): "3.14",
    }
)
"""The python3 that each release of a system has (packages python3-defaults)."""

_ELSE: Final[Mapping[str, str]] = MappingProxyType(
    {"mlflow": "else run the server yourself: services: {mlflow_uri: ...}"}
)


def wheels_of(program: str, facts: Facts) -> tuple[Wheel, ...]:
    """The wheels of a program for a machine's Python.

    Args:
        program: its lock, such as ``mlflow``.
        facts: what the machine is.

    Raises:
        CorralError: NOT_GOOD, there is no lock for this system.
    """
    python = PYTHONS.get((facts.os_id, facts.os_version), "")
    wheels = locked(program).get(python, ())
    if not wheels:
        known = ", ".join(
            f"{name} {release}" for (name, release), p in PYTHONS.items() if p in locked(program)
        )
        raise CorralError(
            Code.NOT_GOOD,
            f"no wheels of {program} are known for {facts.os_id} {facts.os_version}",
            node=facts.node,
            hint=f"known are {known}; {_ELSE.get(program, 'it needs Python 3.11 or newer')}",
        )
    return wheels


@cache
def locked(program: str) -> Mapping[str, tuple[Wheel, ...]]:
    """A program's lock: wheels by Python's version."""
    return parse_lock((resources.files("corral.roles") / "data" / f"{program}.lock").read_text())


def parse_lock(text: str) -> Mapping[str, tuple[Wheel, ...]]:
    """Wheels by Python's version, of the text of a lock."""
    by_python: dict[str, list[Wheel]] = {}
    wheels: list[Wheel] = []
    for line in text.splitlines():
        if line.startswith("["):
            wheels = by_python.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            file, digest = line.split()
            wheels.append(Wheel(file, digest))
    return MappingProxyType({python: tuple(each) for python, each in by_python.items()})
