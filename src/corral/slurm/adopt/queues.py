"""Settings, licences and partitions of slurm.conf as fields of the cluster file.

Only what is complete in itself: keys that name no program, plugin, account or file, and that change
nothing about who may use what.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from corral.slurm.adopt.carried import carried
from corral.slurm.adopt.view import Existing
from corral.spec import values as texts
from corral.spec.models import Partition
from corral.spec.slurm.keys import SlurmKey, slurm_keys, words_of
from corral.spec.slurm.written_keys import keys_by_id

_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_LICENSES: Final = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]{0,62}:[1-9][0-9]{0,6},?)+")
_SHARING: Final = re.compile(r"(?i:exclusive|(yes|force)(:[1-9][0-9]{0,2})?)")
_STATES: Final = ("down", "drain", "inactive")
_COUNTS: Final = MappingProxyType(
    {
        "maxnodes": "max_nodes",
        "maxcpuspernode": "max_cpus_per_node",
        "prioritytier": "priority_tier",
        "priorityjobfactor": "priority_job_factor",
    }
)
"""Keys of a partition's line that are numbers, and the fields that they are carried to."""


def settings_of(existing: Existing) -> Mapping[str, str]:
    """The keys for ``slurm.settings`` with their values, by Slurm's own spelling."""
    settings: dict[str, str] = {}
    for low in carried().settings:
        lines = existing.slurm.begin(low)
        key = slurm_keys().get(low)
        if len(lines) != 1 or key is None or key.use == "owned":
            continue
        value = lines[0].value
        own = keys_by_id().get(("slurm.conf", "", low))
        if own is not None and own.value == value:
            continue  # Corral writes it anyway
        if _fits(key, value) and _known(key, existing):
            settings[key.name] = value
    return settings


def _fits(key: SlurmKey, value: str) -> bool:
    if not re.fullmatch(texts.SETTING.pattern, value):
        return False
    words = words_of(key.name)
    if words and any(word.lower() not in words for word in value.split(",")):
        return False
    return not key.number or _NUMBER.fullmatch(value) is not None


def _known(key: SlurmKey, existing: Existing) -> bool:
    """The release has it; where it is unknown, all of them."""
    if existing.version is None:
        return not key.since and not key.until
    return not key.until and key.known_to(existing.version.release)


def licenses_of(existing: Existing) -> Iterator[tuple[str, str]]:
    """Names and numbers of local licences; none where one of them cannot be written."""
    value = existing.slurm.text("Licenses")
    if not _LICENSES.fullmatch(value):
        return
    pairs = [each.partition(":") for each in value.split(",") if each]
    if len({name for name, *_ in pairs}) == len(pairs):
        yield from ((name, count) for name, _, count in pairs)


def _takes(field: str, number: int) -> bool:
    """Whether a number is within the limits of a partition's field."""
    limits = Partition.model_fields[field].metadata
    return all(getattr(n, "ge", number) <= number <= getattr(n, "le", number) for n in limits)


def field_of(key: str, value: str) -> tuple[str, str] | None:
    """The partition's field for a key of its line and what is written there; None for no field."""
    low = key.lower()
    if low in _COUNTS:
        field = _COUNTS[low]
        fits = _NUMBER.fullmatch(value) and _takes(field, int(value))
        return (field, str(int(value))) if fits else None
    if low == "state" and value.lower() in _STATES:
        return "state", value.lower()
    if low == "oversubscribe" and _SHARING.fullmatch(value):
        return "oversubscribe", f'"{value.lower()}"'
    return None
