"""Keys of slurm.conf that ``slurm.settings`` may have: which release knows which. Pure.

The tables are Slurm's language and data: rules of the cluster file, slurm.conf and adoption read
them here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Final, Literal

from corral.spec.impacts import ImpactWord
from corral.spec.slurm.releases import QuotedRelease, Release, between
from corral.spec.slurm.written_keys import Key, all_keys
from corral.tables import Row, read_table

_FILE: Final = "slurm.conf"


class KeyGroup(Row):
    """Keys of one kind of line that the same releases know.

    Attributes:
        file: the file.
        line: the first key of its lines; "" for a separate line.
        since: first release with them; None for all that were read.
        until: first release without them; None for none.
        dead: first release that reads them and ignores them with an error; None for none.
        keys: with a mark behind a key: ``*`` may stand more than once, ``?`` is yes or no, ``#`` is
            a number.
    """

    file: str
    line: str = ""
    since: QuotedRelease | None = None
    until: QuotedRelease | None = None
    dead: QuotedRelease | None = None
    keys: str


class KeyTable(Row):
    """All keys of Slurm's files, and the oldest and the newest release that were read."""

    first: QuotedRelease
    last: QuotedRelease
    groups: tuple[KeyGroup, ...]


class Obsolete(Row):
    """A key that is still read, and what became of it; ``obsolete.yaml`` has the meanings."""

    key: str
    since: QuotedRelease
    fatal: bool = True
    why: str
    hint: str
    new: str = ""
    file: Literal["slurm.conf", "cgroup.conf", "slurmdbd.conf"] = _FILE
    harmless: tuple[str, ...] = ()
    leaves: bool = True


class WordGroup(Row):
    """Words of a key of slurm.conf that the same releases know.

    Attributes:
        key: the key.
        since: first release with them; None for all that were read.
        until: first release without them; None for none.
        words: plugins or flags.
    """

    key: str
    since: QuotedRelease | None = None
    until: QuotedRelease | None = None
    words: str


class WordTable(Row):
    """All words, and the keys whose words are plugins, such as select/cons_tres."""

    plugins: str
    groups: tuple[WordGroup, ...]


class _Reserved(Row):
    """Keys that are refused, and why."""

    keys: str
    why: str
    owner: str = ""


class _Settings(Row):
    """What the YAML table states about ``slurm.settings``."""

    reserved: tuple[_Reserved, ...]
    restart: str
    drain: str


@dataclass(frozen=True, slots=True)
class SlurmKey:
    """A global key of slurm.conf.

    Attributes:
        name: as Slurm's source writes it.
        since: first release with it; None for all that were read.
        until: first release without it, or that ignores or refuses it; None for none.
        number: its value is a number.
        switch: its value is yes or no.
        impact: what a change of it does to a live cluster.
        use: free; joined: Corral has words for it too; replaceable: Corral has another value for
            it; owned: Corral alone sets it.
        owner: the field of the cluster file that decides over an owned key; "" for none.
        why: why an owned key is refused, where Corral writes no line for it; why a key of the past
            has no effect.
    """

    name: str
    since: Release | None = None
    until: Release | None = None
    number: bool = False
    switch: bool = False
    impact: ImpactWord = "reload"
    use: Literal["free", "joined", "replaceable", "owned"] = "free"
    owner: str = ""
    why: str = ""

    def known_to(self, release: Release) -> bool:
        """Whether a release understands this key."""
        return between(self.since, release, self.until)


@cache
def slurm_keys() -> Mapping[str, SlurmKey]:
    """All global keys of slurm.conf, by name in lower case."""
    keys = {key.name.lower(): key for key in _known()}
    for row in obsolete_table():
        key = keys.get(row.key.lower())
        if row.file == _FILE and key is not None:
            until = min(filter(None, (key.until, row.since)))
            keys[row.key.lower()] = replace(key, until=until, why=f"{row.why}; {row.hint}")
    for row in _written():
        if not row.line:
            key = keys.get(row.name.lower(), SlurmKey(row.name))
            use = "joined" if row.joined else "replaceable" if row.replaceable else "owned"
            owner = row.field or row.owner
            keys[row.name.lower()] = replace(key, impact=row.impact, use=use, owner=owner)
    for reserved in _settings().reserved:
        for name in reserved.keys.split():
            key = keys.get(name, SlurmKey(name))
            keys[name] = replace(key, use="owned", owner=reserved.owner, why=reserved.why)
    return MappingProxyType(keys)


def _known() -> Iterator[SlurmKey]:
    """The keys that Slurm's source reads, with the impact of those that Corral does not write."""
    settings = _settings()
    start = {name.lower() for name in (*settings.restart.split(), *word_table().plugins.split())}
    drain = {name.lower() for name in settings.drain.split()}
    for group in key_table().groups:
        for word in group.keys.split() if group.file == _FILE and not group.line else ():
            name = word.rstrip("*?#")
            low = name.lower()
            at_start = low in start or name.endswith(("Type", "Plugin", "Plugins"))
            yield SlurmKey(
                name,
                group.since,
                min(filter(None, (group.until, group.dead)), default=None),
                number=word.endswith("#"),
                switch=word.endswith("?"),
                impact="drain" if low in drain else "restart" if at_start else "reload",
            )


@cache
def words_of(key: str) -> tuple[str, ...]:
    """The words that a key takes, in lower case; none where any goes."""
    groups = [group for group in word_table().groups if group.key.lower() == key.lower()]
    return tuple(dict.fromkeys(word.lower() for g in groups for word in g.words.split()))


@cache
def elsewhere(key: str) -> str:
    """Where a key belongs that is not a global one of slurm.conf, in words; "" for nowhere."""
    for row in _written():
        if row.line and row.name.lower() == key.lower():
            owner = row.field or row.owner
            if owner:
                return f"{owner} of the cluster file sets it"
    for group in key_table().groups:
        names = {word.rstrip("*?#").lower() for word in group.keys.split()}
        if key.lower() in names:
            place = f"lines of {group.file} that begin with {group.line}"
            return f"it belongs in {place if group.line else group.file}, which Corral writes"
    return ""


def _written() -> Iterator[Key]:
    return (key for key in all_keys() if key.file == _FILE)


@cache
def obsolete_table() -> tuple[Obsolete, ...]:
    """The keys that are still read, or refused, and what became of them."""
    return read_table("corral.spec.slurm", "obsolete.yaml", tuple[Obsolete, ...])


@cache
def key_table() -> KeyTable:
    """The keys of Slurm's files: which release knows which (``key_releases.yaml``)."""
    return read_table("corral.spec.slurm", "key_releases.yaml", KeyTable)


@cache
def word_table() -> WordTable:
    """The words that keys of slurm.conf take: which release knows which."""
    return read_table("corral.spec.slurm", "word_releases.yaml", WordTable)


@cache
def _settings() -> _Settings:
    return read_table("corral.spec.slurm", "settings.yaml", _Settings)
