"""What changing one of Slurm's files does to a live cluster. Pure."""

from __future__ import annotations

from typing import Final

from corral.slurm.conf.conf_file import ConfFile, ConfLine
from corral.slurm.conf.keys import every_key
from corral.spec.impacts import IMPACTS, ImpactWord
from corral.spec.slurm.hostlist import expand

UNKNOWN: Final[ImpactWord] = "restart"
"""What changing a key does that no table has: a restart covers every key but a few."""

_NAME: Final = "clustername"
"""Lost and written again it is no other name: no daemon starts without one (F31)."""

_Settings = dict[tuple[str, str, str], str]


def impact_of(before: ConfFile | None, after: ConfFile) -> tuple[ImpactWord, tuple[str, ...]]:
    """What replacing one of Slurm's files by another does to a live cluster.

    Args:
        before: what is there; None for a file that is not there yet.
        after: what will be there.

    Returns:
        The most disruptive word, and the keys that change, in the table's order. Layout and
        comments do not count. A file that was not there had no daemon that read it: ``none``.
    """
    file = after.name
    old, new = _settings(before or ConfFile(file)), _settings(after)
    changed: set[tuple[str, str]] = set()
    gone = False
    for entry in old.keys() | new.keys():
        if old.get(entry) != new.get(entry):
            line, _, key = entry
            changed.add((line, key))
            gone = gone or (line == key == "nodename" and entry not in new)
    if before is None:
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
    known = every_key().get((file, line, key))
    return known.impact if known else UNKNOWN


def _names(file: str, changed: set[tuple[str, str]]) -> tuple[str, ...]:
    table = every_key()
    known = [table[id_].name for id_ in table if id_[0] == file and id_[1:] in changed]
    other = sorted(key for line, key in changed if (file, line, key) not in table)
    return tuple(dict.fromkeys([*known, *other]))


def _settings(file: ConfFile) -> _Settings:
    """Every value by line key, what the line is about, and key; node lines one node at a time."""
    settings: _Settings = {}
    for line in file.lines:
        first = line.key.lower()
        values = {key.lower(): value for key, value in line.pairs}
        if (file.name, first, first) not in every_key():
            written = " ".join(f"={value}" for _, value in line.pairs)
            _add(settings, ("", first, first), written)
        elif first == "nodename":
            _spread(settings, values)
        else:
            for key, value in values.items():
                _add(settings, (first, line.value, key), value)
    return settings


def _spread(settings: _Settings, values: dict[str, str]) -> None:
    """A NodeName line, node by node: one that is folded into another line is not a change."""
    names = expand(values.pop("nodename"))
    addresses = expand(values.pop("nodeaddr", ""))
    for at, name in enumerate(names):
        _add(settings, ("nodename", name, "nodename"), name)
        if at < len(addresses):
            _add(settings, ("nodename", name, "nodeaddr"), addresses[at])
        for key, value in values.items():
            _add(settings, ("nodename", name, key), value)


def _add(settings: _Settings, entry: tuple[str, str, str], value: str) -> None:
    """Several lines may be about one node, such as two kinds of GPU in gres.conf."""
    settings[entry] = f"{settings[entry]}\n{value}" if entry in settings else value


def read_at_start(file: ConfFile) -> tuple[ConfLine, ...]:
    """The global keys that ``scontrol reconfigure`` does not bring to a running daemon."""
    return tuple(
        line
        for line in file.lines
        if (key := every_key().get((file.name, "", line.key.lower()))) is not None
        and key.impact in ("restart", "drain", "recreate")
    )
