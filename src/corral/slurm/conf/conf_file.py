"""Slurm's files as typed values: changed and compared as such, text only when they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, TypeAlias

from corral.slurm.conf.keys import every_key
from corral.slurm.conf.parse import parse
from corral.slurm.version import SlurmVersion
from corral.spec.slurm.written_keys import SECTIONS, Key, Section, keys_by_id

HEADER: Final = (
    "# Written by Corral from the cluster file: edits here are lost at the next apply.\n"
    "# Why each key is set: docs/reference/slurm-keys.md\n"
)

Pairs: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """A global key of slurm.conf with its value.

    Attributes:
        key: its name, which must be in the table of keys.
        value: as it is written.
        section: where it is written, "" for the section that the table names.
    """

    key: str
    value: str
    section: Section = ""


@dataclass(frozen=True, slots=True)
class ConfLine:
    """One line: a global key alone, or the keys of a node, a partition, a switch.

    Attributes:
        pairs: keys and values in order; the first key shows what the line is about.
        section: the heading it is under, "" for none.
    """

    pairs: Pairs
    section: Section = ""

    @property
    def key(self) -> str:
        """The key that begins the line."""
        return self.pairs[0][0]

    @property
    def value(self) -> str:
        """The value of that key."""
        return self.pairs[0][1]

    def get(self, key: str) -> str | None:
        """The value of a key on this line."""
        return dict(self.pairs).get(key)

    def changed(self, values: Mapping[str, str]) -> ConfLine:
        """The line with other values of keys that it has."""
        return replace(self, pairs=tuple((k, values.get(k, v)) for k, v in self.pairs))

    def __str__(self) -> str:
        """As it is written."""
        return " ".join(f"{key}={value}" for key, value in self.pairs)


@dataclass(frozen=True)
class ConfFile:
    """One of Slurm's ``key=value`` files.

    Attributes:
        name: such as slurm.conf.
        lines: what it sets, in order.
        notes: comments above all lines.
        header: the text above the notes.
    """

    name: str
    lines: tuple[ConfLine, ...] = ()
    notes: tuple[str, ...] = ()
    header: str = HEADER

    def get(self, key: str) -> str | None:
        """The value of a key that begins a line; the last one counts, as in Slurm."""
        return next((line.value for line in reversed(self.lines) if line.key == key), None)

    def lines_of(self, key: str) -> tuple[ConfLine, ...]:
        """The lines that begin with a key, such as NodeName."""
        return tuple(line for line in self.lines if line.key == key)

    def changed(self, values: Mapping[str, str]) -> ConfFile:
        """The file with other values of global keys that it has."""
        return self.mapped(lambda line: line.changed(values) if len(line.pairs) == 1 else line)

    def without(self, *keys: str) -> ConfFile:
        """The file without the lines that begin with these keys."""
        return replace(self, lines=tuple(line for line in self.lines if line.key not in keys))

    def mapped(self, change: Callable[[ConfLine], ConfLine]) -> ConfFile:
        """The file with each line changed."""
        return replace(self, lines=tuple(map(change, self.lines)))

    @cached_property
    def text(self) -> str:
        """The file as it is written."""
        lines = [f"# {note}" for note in self.notes]
        section = ""
        for line in self.lines:
            if line.section != section:
                section = line.section
                lines += ["", f"# {section}"]
            lines.append(str(line))
        return self.header + "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file of Slurm's in another grammar, such as plugstack.conf."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class SlurmFiles:
    """Slurm's files of a cluster.

    Attributes:
        slurm: slurm.conf.
        gres: gres.conf.
        cgroup: cgroup.conf.
        dbd: slurmdbd.conf, None without accounting.
        more: files that roles add, such as topology.conf.
    """

    slurm: ConfFile
    gres: ConfFile
    cgroup: ConfFile
    dbd: ConfFile | None = None
    more: tuple[ConfFile | TextFile, ...] = ()

    @property
    def shared(self) -> tuple[ConfFile | TextFile, ...]:
        """Those that slurmctld hands out to the nodes."""
        return (self.slurm, self.gres, self.cgroup, *self.more)


def assembled(
    name: str,
    version: SlurmVersion,
    settings: Iterable[Setting] = (),
    *,
    defaults: Iterable[Setting] = (),
    declared: Iterable[Setting] = (),
    lines: Iterable[Pairs] = (),
    notes: tuple[str, ...] = (),
) -> ConfFile:
    """A file for one release; what the release does not know is left out.

    The table of keys holds in which order and under which headings the keys are written, and of
    which keys several values are joined by commas.

    Args:
        name: the file.
        version: the release.
        settings: global keys.
        defaults: global keys that are written unless ``settings`` have them.
        declared: global keys of ``slurm.settings``: they take the place of all others, or their
            words are added to those of the others where the key is ``joined``.
        lines: the other lines.
        notes: comments above all lines.

    Raises:
        KeyError: the table has no such key: write down its reason first.
        ValueError: two settings give one key two values.
    """
    table = every_key()
    rank = {key: at for at, key in enumerate(table)}
    values = _values(name, settings, defaults)
    for setting in declared:
        at = (name, "", setting.key.lower())
        before = values.get(at)
        if before is not None and table[at].joined:
            values[at] = replace(before, value=_joined(before.value, setting.value))
        else:
            values[at] = setting
    written = [
        ConfLine(((table[at].name, setting.value),), setting.section or table[at].section)
        for at, setting in sorted(values.items(), key=lambda entry: rank[entry[0]])
        if table[at].known_to(version.release)
    ]
    for pairs in lines:
        keys = [table[name, pairs[0][0].lower(), key.lower()] for key, _ in pairs]
        known = tuple(
            p for p, key in zip(pairs, keys, strict=True) if key.known_to(version.release)
        )
        written.append(ConfLine(known, keys[0].section))
    written.sort(key=lambda line: SECTIONS.index(line.section))
    return ConfFile(name, tuple(written), notes)


def _values(
    name: str, settings: Iterable[Setting], defaults: Iterable[Setting]
) -> dict[tuple[str, str, str], Setting]:
    """Corral's own global keys, by their place in the table."""
    table: Mapping[tuple[str, str, str], Key] = keys_by_id()
    values: dict[tuple[str, str, str], Setting] = {}
    for given, setting in (*((True, s) for s in settings), *((False, s) for s in defaults)):
        at = (name, "", setting.key.lower())
        joined = table[at].joined
        before = values.setdefault(at, setting)
        if before is not setting and joined:
            values[at] = replace(before, value=f"{before.value},{setting.value}")
        elif given and before != setting:
            raise ValueError(f"{name}: {setting.key} is {before.value} and {setting.value}")
    return values


def _joined(own: str, declared: str) -> str:
    """Corral's words and the cluster file's; of ``NAME=VALUE`` the cluster file's counts."""
    names = {word.partition("=")[0].lower() for word in declared.split(",")}
    kept = [word for word in own.split(",") if word.partition("=")[0].lower() not in names]
    return ",".join([*kept, declared])


def read(name: str, text: str) -> ConfFile:
    """What a text sets, such as that of a file on a machine; layout and comments are lost."""
    return ConfFile(
        name,
        tuple(
            ConfLine(tuple((pair.key, pair.operator + pair.value) for pair in line.pairs))
            for line in parse(text).lines()
            if line.pairs
        ),
    )
