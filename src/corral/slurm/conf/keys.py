"""The table of keys that Corral writes to Slurm's files: ``keys.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from corral.slurm.conf.key import Key
from corral.tables import read_table


@cache
def all_keys() -> tuple[Key, ...]:
    """Every key Corral writes, in the order of the reference page."""
    return read_table("corral.slurm.conf", "keys.yaml", tuple[Key, ...])


@cache
def keys_by_id() -> Mapping[tuple[str, str, str], Key]:
    """By file, first key of the line ("" for a global key) and name, in lower case."""
    return MappingProxyType({key.id: key for key in all_keys()})
