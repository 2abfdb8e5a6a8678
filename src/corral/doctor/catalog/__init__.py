"""All known failures; the reference is made of them.

They are in the YAML files of the folders next to this one, and those of one provider alone in its
folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType

from corral.doctor.model import Failure
from corral.spec.providers import packages_with
from corral.tables import read_table


def tables() -> tuple[tuple[str, str], ...]:
    """Package and name of each file of the catalogue."""
    names = sorted(_below(files(__name__)))
    own = ((package, "failures.yaml") for package in packages_with("failures.yaml"))
    return (*((__name__, name) for name in names), *own)


def _below(folder: Traversable, path: str = "") -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _below(entry, f"{path}{entry.name}/")
        elif entry.name.endswith(".yaml"):
            yield f"{path}{entry.name}"


@cache
def catalog() -> Mapping[str, Failure]:
    """Failure by id."""
    failures = [failure for table in tables() for failure in read_table(*table, list[Failure])]
    return MappingProxyType({f.id: f for f in sorted(failures, key=lambda f: int(f.id[1:]))})
