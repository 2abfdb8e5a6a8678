"""What the rules look at: the cluster with its hostlists read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from corral.errors import CorralError
from corral.spec.findings import Level
from corral.spec.models import ClusterSpec, NodeGroup
from corral.spec.providers import Capabilities
from corral.spec.slurm.hostlist import NODES_AT_MOST, count, expand, fold
from corral.spec.tree import Path

NAMED_AT_MOST: Final = 8


@dataclass(frozen=True, slots=True)
class Problem:
    """What a rule reports about one place.

    Attributes:
        path: the place, such as ``("groups", 0, "addresses")``.
        message: what is wrong, one sentence without a full stop.
        hint: what to write instead.
    """

    path: Path
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group with its names and addresses, empty where the hostlist is broken."""

    index: int
    group: NodeGroup
    names: tuple[str, ...]
    addresses: tuple[str, ...]
    broken: tuple[Problem, ...]

    def at(self, *path: str | int) -> Path:
        """The path of a field of this group."""
        return ("groups", self.index, *path)

    @property
    def gpu_paths(self) -> tuple[Path, ...]:
        """Where each of the group's GPU types is declared, below the group."""
        several = tuple(("gpus", i) for i, _ in enumerate(self.group.gpus))
        return several or ((("gpu",),) if self.group.gpu else ())


@dataclass(frozen=True)
class View:
    """The cluster as rules see it.

    Attributes:
        spec: the cluster.
        groups: its groups; without names and addresses where the cluster is too large.
        size: how many nodes it declares.
    """

    spec: ClusterSpec
    groups: tuple[GroupView, ...]
    size: int

    @property
    def too_large(self) -> bool:
        """Whether it declares more nodes than Slurm takes; their names are not made then."""
        return self.size > NODES_AT_MOST

    @cached_property
    def names(self) -> dict[str, GroupView]:
        """All node names that could be read, each with its (last) group."""
        return {name: group for group in self.groups for name in group.names}

    @property
    def controller(self) -> str:
        """The node that runs slurmctld, "" when its hostlist could not be read."""
        if self.spec.controller:
            return self.spec.controller
        names = self.groups[0].names
        return names[0] if names else ""

    @property
    def complete(self) -> bool:
        """True when every hostlist could be read and its names were made."""
        return not self.too_large and not any(group.broken for group in self.groups)

    def where(self, able: Callable[[Capabilities], bool]) -> tuple[GroupView, ...]:
        """The groups whose provider has a capability."""
        return tuple(group for group in self.groups if able(group.group.capabilities))


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule over the entire file.

    Attributes:
        id: kebab-case; printed in findings and in the reference page.
        level: how bad each of its problems is.
        meaning: what it finds and why that is wrong, for the reference page.
        reads: fields of one entry it looks at (dotted, without positions). Where one of them could
            not be read, what the rule reports about that entry is dropped: it would complain about
            what the user never wrote.
        check: pure; gives each problem.
        across: fields of all entries that it compares; where one of them could not be read
            anywhere, the rule is not asked at all.
    """

    id: str
    level: Level
    meaning: str
    reads: tuple[str, ...]
    check: Callable[[View], Iterator[Problem]]
    across: tuple[str, ...] = ()


def view_of(spec: ClusterSpec) -> View:
    """The cluster with its hostlists read.

    A file of 1 MiB has room for 10,000 groups of 65,536 nodes each: names and addresses are made
    only while all groups together stay within the limit of one cluster.
    """
    size = sum(_counted(group.nodes) for group in spec.groups)
    groups: list[GroupView] = []
    room = NODES_AT_MOST
    for index, group in enumerate(spec.groups):
        if size > NODES_AT_MOST:
            groups.append(GroupView(index, group, (), (), ()))
            continue
        groups.append(_group(index, group, room))
        room -= len(groups[-1].addresses)
    return View(spec, tuple(groups), size)


def some(names: list[str] | tuple[str, ...]) -> str:
    """Names folded, or the first of them where there are many."""
    if len(names) <= NAMED_AT_MOST:
        return ", ".join(names)
    folded = fold(list(names[:1000]))
    return folded if len(folded) <= len(names[0]) * NAMED_AT_MOST else f"{names[0]} and more"


def repeated(values: list[str]) -> list[str]:
    """Values that are listed more than once, each once, in the order seen."""
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for value in values:
        if value in seen:
            twice[value] = None
        seen.add(value)
    return list(twice)


def _group(index: int, group: NodeGroup, room: int) -> GroupView:
    """A group read; ``room`` is how many addresses are left for it."""
    names, problems = _expanded(group.nodes, ("groups", index, "nodes"))
    path = ("groups", index, "addresses")
    if _counted(group.addresses or "") > room:
        message = f"more than {NODES_AT_MOST} addresses in all groups"
        crowded = Problem(path, message, "write one address for each node, in the same order")
        return GroupView(index, group, names, (), (*problems, crowded))
    addresses, more = _expanded(group.addresses or "", path)
    return GroupView(index, group, names, addresses, (*problems, *more))


def _counted(hostlist: str) -> int:
    if not hostlist:
        return 0
    try:
        number = count(hostlist)
    except CorralError:
        return 0
    return number if number <= NODES_AT_MOST else 0  # reported by nodes-syntax


def _expanded(hostlist: str, path: Path) -> tuple[tuple[str, ...], tuple[Problem, ...]]:
    if not hostlist:
        return (), ()
    try:
        return tuple(expand(hostlist, strict=True)), ()
    except CorralError as error:
        return (), (Problem(path, error.message, error.hint),)
