"""All known failures; the reference is made of them.

They are in the YAML files next to this one, and those of one provider alone in its folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from corral.doctor.model import Failure
from corral.spec.providers import packages_with
from corral.tables import read_table


def tables() -> tuple[tuple[str, str], ...]:
    """Package and name of each file of the catalogue."""
    names = sorted(f.name for f in files(__name__).iterdir() if f.name.endswith(".yaml"))
    own = ((package, "failures.yaml") for package in packages_with("failures.yaml"))
    return (*((__name__, name) for name in names), *own)


@cache
def catalog() -> Mapping[str, Failure]:
    """Failure by id."""
    failures = [failure for table in tables() for failure in read_table(*table, list[Failure])]
    return MappingProxyType({f.id: f for f in sorted(failures, key=lambda f: int(f.id[1:]))})
