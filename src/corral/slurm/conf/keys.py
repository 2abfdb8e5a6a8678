"""Why each key is written, and what changing a file does to a live cluster."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from corral.slurm.conf.hostlist import expand_in_order
from corral.slurm.conf.key import IMPACTS, ImpactWord, Key
from corral.slurm.conf.parse import parse
from corral.tables import read_table

UNKNOWN: Final[ImpactWord] = "restart"
"""What changing a key does that Corral never wrote: a restart covers every key but a few."""

_NAME: Final = "clustername"
"""Lost and written again it is no other name: no daemon starts without one (F31)."""

_Settings = dict[tuple[str, str, str], str]


@cache
def all_keys() -> tuple[Key, ...]:
    """Every key Corral writes, in the order of the reference page."""
    return read_table("corral.slurm.conf", "keys.yaml", tuple[Key, ...])


@cache
def keys_by_id() -> Mapping[tuple[str, str, str], Key]:
    """By file, first key of the line ("" for a global key) and name, in lower case."""
    return MappingProxyType({key.id: key for key in all_keys()})


def impact_of(file: str, before: str, after: str) -> tuple[ImpactWord, tuple[str, ...]]:
    """What replacing one text of a file by another does to a live cluster.

    Args:
        file: its name, such as slurm.conf.
        before: the text that is there; "" for a file that is not there yet.
        after: the text that will be there.

    Returns:
        The sternest word, and the keys that change, in the table's order. Layout and comments are
        no change. A file that was not there had no daemon that read it: ``none``.
    """
    old, new = _settings(file, before), _settings(file, after)
    changed: set[tuple[str, str]] = set()
    gone = False
    for entry in old.keys() | new.keys():
        if old.get(entry) != new.get(entry):
            line, _, key = entry
            changed.add((line, key))
            gone = gone or (line == key == "nodename" and entry not in new)
    if not before:
        return "none", _names(file, changed)
    there = {key for _, _, key in old}
    words: list[ImpactWord] = [
        _impact(file, line, key) if key in there or key != _NAME else UNKNOWN
        for line, key in changed
    ]
    if gone and file == "slurm.conf":
        words.append("drain")  # jobs on a node that is taken away are lost
    return IMPACTS[max(map(IMPACTS.index, words), default=0)], _names(file, changed)


def _impact(file: str, line: str, key: str) -> ImpactWord:
    known = keys_by_id().get((file, line, key))
    return known.impact if known else UNKNOWN


def _names(file: str, changed: set[tuple[str, str]]) -> tuple[str, ...]:
    known = [key.name for key in all_keys() if key.file == file and key.id[1:] in changed]
    other = sorted(key for line, key in changed if (file, line, key) not in keys_by_id())
    return tuple(dict.fromkeys([*known, *other]))


def _settings(file: str, text: str) -> _Settings:
    """Every value by line key, what the line is about, and key; node lines one node at a time."""
    found: _Settings = {}
    for line in parse(text).lines():
        if not line.pairs:
            continue
        first = line.pairs[0].key.lower()
        if (file, first, first) not in keys_by_id():
            written = " ".join(f"{pair.operator}={pair.value}" for pair in line.pairs)
            _add(found, ("", first, first), written)
        elif first == "nodename":
            _spread(found, line.values())
        else:
            for key, value in line.values().items():
                _add(found, (first, line.pairs[0].value, key), value)
    return found


def _spread(found: _Settings, values: dict[str, str]) -> None:
    """A NodeName line, node by node: one that is folded into another line is no change."""
    names = expand_in_order(values.pop("nodename"))
    addresses = expand_in_order(values.pop("nodeaddr", ""))
    for at, name in enumerate(names):
        _add(found, ("nodename", name, "nodename"), name)
        if at < len(addresses):
            _add(found, ("nodename", name, "nodeaddr"), addresses[at])
        for key, value in values.items():
            _add(found, ("nodename", name, key), value)


def _add(found: _Settings, entry: tuple[str, str, str], value: str) -> None:
    """Several lines may say something about one node, such as two kinds of GPU in gres.conf."""
    found[entry] = f"{found[entry]}\n{value}" if entry in found else value
