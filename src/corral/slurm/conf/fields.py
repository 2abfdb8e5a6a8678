"""Fields of the cluster file that are keys of slurm.conf: ``field`` in keys.yaml. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Final, cast

from corral.durations import interval_seconds, max_time
from corral.slurm.conf.conf_file import Pairs, Setting
from corral.spec.models import ClusterSpec
from corral.spec.slurm.written_keys import Form, Key, all_keys

_FORMS: Final[Mapping[Form, Callable[[Any], Any]]] = MappingProxyType(
    {
        "value": lambda value: value,
        "interval": lambda interval: interval_seconds(interval) or None,
        "time limit": max_time,
        "MiB": lambda gib: gib * 1024,
        "sharing": lambda word: None if word == "no" else word.upper(),
        "switch": lambda on: on or None,
        "state": lambda state: None if state == "up" else state.upper(),
        "licenses": lambda licenses: [f"{each.name}:{each.count}" for each in licenses],
    }
)


@cache
def keys_of_fields() -> tuple[Key, ...]:
    """The keys whose value is a field of the cluster file."""
    return tuple(key for key in all_keys() if key.field)


def settings_of_fields(spec: ClusterSpec) -> Iterator[Setting]:
    """Global keys whose value is a field of the cluster file, as the table of keys lists them."""
    for name, value in pairs_of_fields("", spec, keys_of_fields()):
        yield Setting(name, value)


def pairs_of_fields(line: str, model: object, keys: Iterable[Key]) -> Pairs:
    """Keys of a line whose value is a field of the cluster file.

    Args:
        line: NodeName, PartitionName, "" for global keys.
        model: the group, the partition, the cluster file.
        keys: keys that are fields.
    """
    pairs: list[tuple[str, str]] = []
    for key in keys:
        if key.line != line:
            continue
        value: Any = model
        for name in key.field.split(".")[1 if line else 0 :]:
            value = None if value is None else getattr(value, name)
        if value is not None:
            value = _FORMS[key.form](value)
        if text := written(value):
            pairs.append((key.name, text))
    return tuple(pairs)


def written(value: object) -> str:
    """A field's value in Slurm's words, "" for none."""
    if isinstance(value, bool):
        return "YES" if value else "NO"
    if isinstance(value, tuple | list):
        return ",".join(map(str, cast("Sequence[object]", value)))
    return "" if value is None else str(value)
