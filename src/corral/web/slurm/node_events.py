"""What happened to nodes, out of what Slurm reported. Pure.

slurmctld's record of a node has the last reason with who set it and when, and the last boot. What
was before is seen by comparing two answers, while somebody has the page open; ``node_event_file``
keeps it on disk. Where there is
accounting, slurmdbd keeps each outage with its begin, end, reason and who set that (``sacctmgr show
event``). Who resumed a node is in no record of Slurm's, so it is known only where the page did it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from corral.slurm.records import Node, Outage
from corral.web.slurm.snapshot import Snapshot

KEPT: Final = 50
"""Of one node."""
MOST_NODES: Final = 20_000
OURS_S: Final = 60.0
"""A change that the page asked for is seen within this time."""
SAME_S: Final = 120.0
"""A boot time that differs by less is the same boot: slurmd computes it from the uptime."""

What = Literal["drained", "resumed", "down", "answers again", "rebooted"]
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """One event. by: "" where Slurm does not record who; why: its reason."""

    at: float
    what: str
    by: str = ""
    why: str = ""
    source: str = "page"

    def as_dict(self) -> dict[str, Any]:
        fields = {"at": self.at, "what": self.what, "by": self.by, "why": self.why}
        return {**fields, "source": self.source, "run": ""}


@dataclass(slots=True)
class NodeEvents:
    """Events of all nodes, the last ones of each.

    Args:
        clock: returns unix seconds.

    Attributes:
        since: when this record begins.
        count: how many were ever added: another number, and there is something new.
    """

    clock: Clock = time.time
    since: float = field(init=False)
    count: int = field(default=0, init=False)
    _events: dict[str, deque[NodeEvent]] = field(
        default_factory=dict[str, deque[NodeEvent]], init=False
    )
    _ours: dict[str, tuple[str, float]] = field(
        default_factory=dict[str, tuple[str, float]], init=False
    )

    def __post_init__(self) -> None:
        self.since = self.clock()

    def done(self, node: str, user: str) -> None:
        """Record that the page changed a node for a user: its next change in Slurm is theirs."""
        self._ours[node] = (user, self.clock())

    def note(self, before: Snapshot, now: Snapshot) -> None:
        """Compare two answers; a node that did not change is the same object."""
        if before.nodes is now.nodes:
            return
        for name, node in now.nodes.items():
            old = before.nodes.get(name)
            if old is None or old is node:
                continue
            for event in self._changes(old, node):
                self.add(name, event)

    def of(self, node: Node, outages: Iterable[Outage] = ()) -> list[NodeEvent]:
        """Events of a node, newest first, with what Slurm's records have of the time before.

        Args:
            node: as slurmctld reports it.
            outages: as slurmdbd keeps them.
        """
        seen = [*self._events.get(node.name, ())]
        for events in ([*kept(outages)], [*recorded(node)]):
            seen += [e for e in events if not any(_same(e, other) for other in seen)]
        return sorted(seen, key=lambda event: -event.at)

    def _changes(self, old: Node, new: Node) -> Iterator[NodeEvent]:
        now = self.clock()
        user, at = self._ours.get(new.name, ("", 0.0))
        ours = user if now - at <= OURS_S else ""
        if new.state.drained and not old.state.drained:
            yield NodeEvent(_at(new, now), "drained", new.reason_by or ours, new.reason)
        elif old.state.drained and not new.state.drained:
            yield NodeEvent(now, "resumed", ours)
        if new.state.broken and not old.state.broken:
            yield NodeEvent(now, "down", new.reason_by, new.reason)
        elif old.state.broken and not new.state.broken:
            yield NodeEvent(now, "answers again")
        if new.boot_at and old.boot_at and new.boot_at - old.boot_at > SAME_S:
            asked = any(flag.startswith("REBOOT") for flag in old.state.flags)
            yield NodeEvent(
                new.boot_at, "rebooted", old.reason_by if asked else "", old.reason if asked else ""
            )

    def kept(self) -> Iterator[tuple[str, NodeEvent]]:
        """All events with their nodes."""
        return ((name, event) for name, events in self._events.items() for event in events)

    def add(self, name: str, event: NodeEvent) -> None:
        """Add an event of a node, where it is not known yet; the oldest one makes room for it."""
        kept = self._events.get(name)
        if kept is None:
            if len(self._events) >= MOST_NODES:
                self._events.pop(next(iter(self._events)))
            kept = self._events[name] = deque(maxlen=KEPT)
        # Where Slurm hides users from each other, several pollers see the same change.
        if not any(e.what == event.what and abs(e.at - event.at) < 1 for e in kept):
            kept.append(event)
            self.count += 1


def recorded(node: Node) -> Iterator[NodeEvent]:
    """What Slurm's record of a node has of its past: the last reason, the last boot."""
    if node.reason and isinstance(node.reason_at, int):
        what = "drained" if node.state.drained else "down" if node.state.broken else "reason set"
        yield NodeEvent(node.reason_at, what, node.reason_by, node.reason, "slurm")
    if node.boot_at:
        yield NodeEvent(node.boot_at, "booted", source="slurm")


def kept(outages: Iterable[Outage]) -> Iterator[NodeEvent]:
    """The begin and the end of each outage in slurmdbd's records."""
    for outage in outages:
        drained = "DRAIN" in outage.state.upper()
        what, over = ("drained", "resumed") if drained else ("down", "answers again")
        yield NodeEvent(outage.start, what, outage.by, outage.reason, "slurm")
        if outage.end is not None:
            yield NodeEvent(outage.end, over, source="slurm")


def _same(recorded_event: NodeEvent, seen: NodeEvent) -> bool:
    """Whether a record of Slurm's is of an event that was seen; there a reboot is a boot."""
    return seen.what.endswith(recorded_event.what) and abs(seen.at - recorded_event.at) < SAME_S


def _at(node: Node, now: float) -> float:
    return float(node.reason_at) if isinstance(node.reason_at, int) else now
