"""Every key of Slurm's files that Corral may write, those of ``slurm.settings`` among them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from corral.spec.slurm.keys import slurm_keys
from corral.spec.slurm.written_keys import Key, keys_by_id


@cache
def settable_keys() -> Mapping[tuple[str, str, str], Key]:
    """Global keys of slurm.conf that only ``slurm.settings`` sets, as ``keys_by_id`` has them."""
    keys: dict[tuple[str, str, str], Key] = {}
    for low, key in sorted(slurm_keys().items()):
        if key.use != "free":
            continue
        keys["slurm.conf", "", low] = Key(
            file="slurm.conf",
            name=key.name,
            value="slurm.settings",
            reason="The cluster file sets it.",
            source="slurm.conf(5)",
            impact=key.impact,
            section="Settings of the cluster file",
            since=key.since,
            until=key.until,
        )
    return MappingProxyType(keys)


@cache
def every_key() -> Mapping[tuple[str, str, str], Key]:
    """The keys that Corral writes, and behind them those that only ``slurm.settings`` sets."""
    return MappingProxyType({**keys_by_id(), **settable_keys()})
