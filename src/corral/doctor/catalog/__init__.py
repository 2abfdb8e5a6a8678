"""All known failures: the YAML files next to this one; the reference is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from corral.doctor.model import Failure
from corral.tables import read_table


@cache
def catalog() -> Mapping[str, Failure]:
    """Failure by id."""
    names = sorted(f.name for f in files(__name__).iterdir() if f.name.endswith(".yaml"))
    failures = [failure for name in names for failure in read_table(__name__, name, list[Failure])]
    return MappingProxyType({f.id: f for f in sorted(failures, key=lambda f: int(f.id[1:]))})
