"""What the files declare together: lines in the order Slurm reads them, nodes, partitions, GPUs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import Final

from corral.errors import CorralError
from corral.slurm.adopt.machine import Machine
from corral.slurm.adopt.source import CONFS, Edit, Kind, Source, Spot, physical
from corral.slurm.adopt.system_files import Export, Host, exports_of, hosts_of
from corral.slurm.conf.parse import Line, Pair, parse
from corral.slurm.version import SlurmVersion
from corral.spec.slurm.hostlist import NODES_AT_MOST, count, expand

NOT_GIVEN: Final = "the file is not among those given"
"""Why a file that is included is not read."""
NAMES_AT_MOST: Final = 2_000_000
"""Of all hostlists together: 10,000 nodes in 200 partitions."""
_HOSTLISTS: Final = frozenset(
    {"nodename", "nodes", "nodeaddr", "nodehostname", "downnodes", "file"}
)


@dataclass(frozen=True, slots=True)
class Placed:
    """One line and where it is; ``at`` is the offset of its first character."""

    source: Source
    line: Line
    at: int

    @property
    def spot(self) -> Spot:
        """The entire line without leading blanks and its line end."""
        bare = self.line.raw.rstrip("\r\n")
        lead = len(bare) - len(bare.lstrip())
        return Spot(self.source, self.at + lead, self.at + len(bare))

    def commented_out(self) -> tuple[Edit, ...]:
        """Edits that make every physical line of it a comment."""
        return tuple(
            Edit(self.source.name, self.at + at, self.at + at, "# ")
            for at, text in physical(self.line.raw)
            if text.strip()
        )

    def before(self, text: str) -> Edit:
        """An edit that inserts a line before this one."""
        return Edit(self.source.name, self.at, self.at, text + self.source.end_of_line)


@dataclass(frozen=True, slots=True)
class Setting:
    """One ``key=value`` and where it is."""

    placed: Placed
    pair: Pair

    @property
    def key(self) -> str:
        """The key as written."""
        return self.pair.key

    @property
    def value(self) -> str:
        """The value without quotes."""
        return self.pair.value

    @property
    def spot(self) -> Spot:
        """Key and value."""
        at = self.placed.at
        return Spot(self.placed.source, at + self.pair.begin, at + self.pair.stop)

    def becomes(self, value: str) -> Edit:
        """An edit that gives it another value."""
        at = self.placed.at
        return Edit(self.placed.source.name, at + self.pair.start, at + self.pair.stop, value)

    def renamed(self, key: str) -> Edit:
        """An edit that gives it another key."""
        start = self.placed.at + self.pair.begin
        return Edit(self.placed.source.name, start, start + len(self.pair.key), key)

    def replaced_by(self, text: str) -> Edit:
        """An edit that puts other text in place of key and value."""
        return Edit(self.placed.source.name, self.spot.start, self.spot.stop, text)

    def followed_by(self, text: str) -> Edit:
        """An edit that puts text behind it."""
        return Edit(self.placed.source.name, self.spot.stop, self.spot.stop, text)


class Keyed(ABC):
    """What has settings by their keys."""

    __slots__ = ()

    @abstractmethod
    def get(self, key: str) -> Setting | None:
        """The setting of a key."""

    def text(self, key: str, default: str = "") -> str:
        """The value of a key."""
        setting = self.get(key)
        return setting.value if setting else default


@dataclass(frozen=True, slots=True)
class Row(Keyed):
    """A line about named things: nodes, a partition, a kind of GPU.

    Attributes:
        first: the key that begins it.
        names: names its hostlist gives; the value itself where it is none.
        settings: all keys of the line in lower case, those of DEFAULT lines above it among them.
        broken: why its hostlist cannot be read, "" for a good one.
    """

    first: Setting
    names: tuple[str, ...]
    settings: Mapping[str, Setting]
    broken: str = ""

    def get(self, key: str) -> Setting | None:
        """The setting of a key, its own or of a DEFAULT line."""
        return self.settings.get(key.lower())

    def number(self, key: str) -> int | None:
        """The value of a key as a number; None for none, and for what is not a number."""
        try:
            return int(self.text(key), 0)
        except ValueError:
            return None

    @property
    def last(self) -> Setting:
        """The last setting on its line."""
        placed = self.first.placed
        return Setting(placed, placed.line.pairs[-1])

    def adds(self, text: str) -> Edit:
        """An edit that puts ``key=value`` at the end of the line's settings."""
        return self.last.followed_by(f" {text}")


@dataclass(slots=True)
class Conf(Keyed):
    """All lines of one kind of file, with included files at their place.

    Attributes:
        sources: the files, the first one first.
        lines: the lines as Slurm reads them.
        lost: Include lines whose file was not given, and why.
    """

    sources: list[Source] = field(default_factory=list[Source])
    lines: list[Placed] = field(default_factory=list[Placed])
    lost: list[tuple[Placed, str]] = field(default_factory=list[tuple[Placed, str]])
    # Rules ask for keys within loops over all lines: lines are read once, as they are added.
    _firsts: dict[str, list[Setting]] = field(default_factory=dict[str, list[Setting]], repr=False)
    _indexed: int = field(default=0, repr=False)

    def __bool__(self) -> bool:
        return bool(self.sources)

    @property
    def source(self) -> Source:
        """The file itself, not those it includes."""
        return self.sources[0]

    @property
    def spot(self) -> Spot:
        """Where something that is missing is reported: the file's first setting."""
        first = next((p.spot for p in self.lines if p.line.pairs and p.source is self.source), None)
        return first or Spot(self.source, 0, 0)

    def near(self, *keys: str) -> Spot:
        """The first line that begins with one of the keys, where something is to be put in."""
        spots = [self.begin(key)[0].spot for key in keys if self.begin(key)]
        return spots[0] if spots else self.spot

    def begin(self, first: str) -> list[Setting]:
        """Settings that begin a line with this key."""
        for placed in self.lines[self._indexed :]:
            if placed.line.pairs:
                pair = placed.line.pairs[0]
                self._firsts.setdefault(pair.key.lower(), []).append(Setting(placed, pair))
        self._indexed = len(self.lines)
        return list(self._firsts.get(first.lower(), ()))

    def get(self, key: str) -> Setting | None:
        """The setting that counts: the last one."""
        settings = self.begin(key)
        return settings[-1] if settings else None

    def adds(self, text: str, *before: str) -> Edit:
        """An edit that adds a line: before the first line that begins with one of the keys."""
        places = [self.begin(key)[0].placed for key in before if self.begin(key)]
        own = [placed for placed in places if placed.source is self.source]
        if own:
            return min(own, key=lambda placed: placed.at).before(text)
        content = self.source.text
        ending = self.source.end_of_line
        lead = "" if not content or content.endswith("\n") else ending
        if content.rstrip("\r\n").endswith("\\"):
            lead += ending
        return Edit(self.source.name, len(content), len(content), lead + text + ending)


@dataclass(frozen=True)
class Existing:
    """Everything that was given.

    Attributes:
        sources: the files.
        version: the Slurm in use; None when unknown.
        machines: the machines' own facts, by node name.
        complete: a complete configuration folder was given, so a file that is missing is missing.
    """

    sources: tuple[Source, ...]
    version: SlurmVersion | None = None
    machines: Mapping[str, Machine] = field(default_factory=dict[str, Machine])
    complete: bool = True

    def of(self, kind: Kind) -> list[Source]:
        return [source for source in self.sources if source.kind is kind]

    @cached_property
    def confs(self) -> Mapping[Kind, Conf]:
        """Slurm's files with what they include."""
        return {kind: self._conf(kind) for kind in CONFS}

    @property
    def slurm(self) -> Conf:
        return self.confs[Kind.SLURM]

    @cached_property
    def all_nodes(self) -> list[Row]:
        """NodeName lines, DEFAULT lines among them."""
        return _rows(self.slurm, "NodeName")

    @cached_property
    def nodes(self) -> list[Row]:
        """NodeName lines, DEFAULT lines merged into those below them."""
        return [row for row in self.all_nodes if row.first.value.upper() != "DEFAULT"]

    @cached_property
    def partitions(self) -> list[Row]:
        """PartitionName lines, DEFAULT lines merged into those below them."""
        rows = _rows(self.slurm, "PartitionName")
        return [row for row in rows if row.first.value.upper() != "DEFAULT"]

    @cached_property
    def gres(self) -> list[Row]:
        """Lines of gres.conf; ``names`` are the nodes they are for, none for all of them."""
        conf = self.confs[Kind.GRES]
        rows: list[Row] = []
        for placed in conf.lines:
            if not placed.line.pairs:
                continue
            settings = {p.key.lower(): Setting(placed, p) for p in placed.line.pairs}
            names, broken = (
                _expanded(settings["nodename"].value) if "nodename" in settings else ((), "")
            )
            rows.append(Row(Setting(placed, placed.line.pairs[0]), names, settings, broken))
        return rows

    @cached_property
    def node_names(self) -> tuple[str, ...]:
        """Names of all nodes, in order."""
        return tuple(name for row in self.nodes for name in row.names)

    @cached_property
    def node_index(self) -> Mapping[str, Row]:
        """Each node's line by the node's name; of two lines the first."""
        rows: dict[str, Row] = {}
        for name, row in named(self.nodes):
            rows.setdefault(name, row)
        return rows

    @cached_property
    def node_sets(self) -> Mapping[str, tuple[str, ...]]:
        """Nodes of each NodeSet, by its Nodes= and its Feature=."""
        sets: dict[str, tuple[str, ...]] = {}
        for setting in self.slurm.begin("NodeSet"):
            values = setting.placed.line.values()
            names = dict.fromkeys(expanded(values.get("nodes", "")))
            if feature := values.get("feature"):
                for row in self.nodes:
                    if feature in (row.text("Feature") or row.text("Features")).split(","):
                        names |= dict.fromkeys(row.names)
            sets[setting.value] = tuple(names)
        return sets

    @cached_property
    def hosts(self) -> Mapping[str, list[Host]]:
        """Entries of each hosts file, by the file's name."""
        return {source.name: hosts_of(source) for source in self.of(Kind.HOSTS)}

    @cached_property
    def exports(self) -> list[Export]:
        """Every client of every export."""
        return [export for source in self.of(Kind.EXPORTS) for export in exports_of(source)]

    def gres_for(self, node: str) -> list[Row]:
        """Lines of gres.conf that one node reads."""
        common, own = self._gres_index
        return [self.gres[at] for at in sorted([*common, *own.get(node, ())])]

    @cached_property
    def _gres_index(self) -> tuple[list[int], Mapping[str, list[int]]]:
        """Lines of gres.conf for all nodes, and those for each node, by position."""
        own: dict[str, list[int]] = {}
        common: list[int] = []
        for at, row in enumerate(self.gres):
            if not row.names:
                common.append(at)
            for name in row.names:
                own.setdefault(name, []).append(at)
        return common, own

    @cached_property
    def controllers(self) -> tuple[str, ...]:
        """Host names of the controllers, backups too."""
        hosts = [s.value.partition("(")[0] for s in self.slurm.begin("SlurmctldHost")]
        if not hosts:
            hosts = [self.slurm.text("ControlMachine"), self.slurm.text("BackupController")]
        return tuple(host for host in hosts if host)

    @cached_property
    def gpus(self) -> bool:
        """Whether anything declares that nodes have GPUs."""
        words = [self.slurm.text("GresTypes"), *(row.text("Gres") for row in self.nodes)]
        words += [row.text("Name") + row.text("AutoDetect") for row in self.gres]
        return any(
            "gpu" in w.lower() or w.lower() in ("nvml", "nvidia", "rsmi", "full") for w in words
        ) or any(machine.devices for machine in self.machines.values())

    def _conf(self, kind: Kind) -> Conf:
        conf = Conf()
        for source in self.of(kind)[:1]:
            self._read(conf, source, ())
        return conf

    def _read(self, conf: Conf, source: Source, above: tuple[str, ...]) -> None:
        conf.sources.append(source)
        at = 0
        for line in parse(source.text).lines():
            placed = Placed(source, line, at)
            at += len(line.raw)
            if line.include:
                self._include(conf, placed, (*above, source.name))
            else:
                conf.lines.append(placed)

    def _include(self, conf: Conf, placed: Placed, above: tuple[str, ...]) -> None:
        path = placed.line.include.replace("%c", conf.text("ClusterName").lower())
        if "*" in path:
            conf.lost.append((placed, "Slurm reads no patterns: each file needs its own line"))
            return
        target = str(PurePosixPath(placed.source.name).parent / path)
        source = next((s for s in self.sources if s.name in (target, path)), None)
        if source is None:
            last = PurePosixPath(path).name
            close = [s for s in self.sources if PurePosixPath(s.name).name == last]
            source = close[0] if len(close) == 1 else None
        if source is None:
            conf.lost.append((placed, NOT_GIVEN))
        elif source.name in above:
            conf.lost.append((placed, "it includes itself"))
        else:
            self._read(conf, source, above)


def _rows(conf: Conf, first: str) -> list[Row]:
    """Lines that begin with a key; DEFAULT lines give their settings to those below them."""
    rows: list[Row] = []
    defaults: dict[str, Setting] = {}
    for setting in conf.begin(first):
        own = {p.key.lower(): Setting(setting.placed, p) for p in setting.placed.line.pairs}
        if setting.value.upper() == "DEFAULT":
            defaults = {**defaults, **own}
            rows.append(Row(setting, (), own))
            continue
        names, broken = _expanded(setting.value)
        inherited = {k: v for k, v in defaults.items() if k != first.lower()}
        rows.append(Row(setting, names, {**inherited, **own}, broken))
    return rows


def names_in_all(existing: Existing) -> int:
    """How many names all hostlists have together; one that is broken or too long has none."""
    values = (
        pair.value
        for conf in existing.confs.values()
        for placed in conf.lines
        for pair in placed.line.pairs
        if pair.key.lower() in _HOSTLISTS and "[" in pair.value
    )
    return sum(map(_size, values))


def _size(hostlist: str) -> int:
    try:
        size = count(hostlist, strict=False)
    except CorralError:
        return 0
    return size if size <= NODES_AT_MOST else 0


def _expanded(hostlist: str) -> tuple[tuple[str, ...], str]:
    try:
        return tuple(expand(hostlist)), ""
    except CorralError as error:
        return (), error.message


def expanded(hostlist: str) -> tuple[str, ...]:
    """Names of a hostlist; none where it cannot be read."""
    return _expanded(hostlist)[0]


def named(rows: list[Row]) -> Iterator[tuple[str, Row]]:
    """Each node with its line."""
    for row in rows:
        for name in row.names:
            yield name, row
