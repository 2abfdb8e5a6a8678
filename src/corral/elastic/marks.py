"""What Slurm's cloud nodes need, from their states. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from corral.slurm.records import Job, Node
from corral.slurm.states.nodes import POWERED_DOWN, POWERED_OFF, POWERING_UP, NodeBase
from corral.spec.slurm.hostlist import expand

BY_HAND: Final = "BY_HAND"
TAKEN_BACK: Final = "TAKEN_BACK"
TAKEN_REASON: Final = "corral: the cloud takes this machine back"
"""The reason of a drain by the program that waits for a cloud's announcement, ``preemption.sh``."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What is to be done.

    Attributes:
        come: a pending job needs these nodes.
        go: these are powered down, and their machines are still rented.
        failed: these did not come in time, or were given up.
        wake: these are to be powered up, so that ``min`` nodes stay.
        lost: Slurm counts on these, and no cloud lists a machine of theirs.
        taken: the cloud announced that it takes their machines back, and their jobs have left: to
            be ended and powered down at once, not held as one that failed.
        back: powered down and still DOWN for a reason that went with their machine: no job would
            get them again.
    """

    come: tuple[str, ...] = ()
    go: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    wake: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    back: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()


def states(nodes: Mapping[str, Node]) -> dict[str, frozenset[str]]:
    """The words of each node's state.

    ``BY_HAND`` is added where a person gave the reason, and not Corral or slurmctld;
    ``TAKEN_BACK`` where the cloud announced the machine's end.
    """
    words: dict[str, frozenset[str]] = {}
    for name, node in nodes.items():
        own = node.reason.startswith("corral: ") or node.reason_by == "slurm"
        by_hand = {BY_HAND} if node.reason and not own else set[str]()
        taken = {TAKEN_BACK} if node.reason == TAKEN_REASON else set[str]()
        words[name] = node.state.flags | {node.state.base.value} | by_hand | taken
    return words


def nodes_of_jobs(jobs: Iterable[Job]) -> dict[str, tuple[str, ...]]:
    """The nodes of each job that has some."""
    return {str(job.id): tuple(expand(job.nodes)) for job in jobs if job.nodes}


def together(nodes: Collection[str], jobs: Iterable[Collection[str]]) -> list[tuple[str, ...]]:
    """Nodes in groups of which all come or none: those that one pending job needs."""
    groups: list[set[str]] = [{node} for node in nodes]
    for job in jobs:
        mine = [g for g in groups if g & set(job)]
        rest = [g for g in groups if not g & set(job)]
        groups = [*rest, set[str]().union(*mine)] if mine else rest
    order = {node: place for place, node in enumerate(nodes)}
    ordered = [tuple(sorted(group, key=order.__getitem__)) for group in groups]
    return sorted(ordered, key=lambda group: order[group[0]])


def decide(
    seen: Mapping[str, frozenset[str]],
    rented: Collection[str],
    joined: Collection[str],
    groups: Mapping[str, tuple[tuple[str, ...], int]],
) -> Marks:
    """What is to be done now.

    Level, not edge: a mark that was set while nothing polled is still set, and what an earlier
    process began goes on.

    Args:
        seen: state words by node.
        rented: nodes that have a machine.
        joined: nodes that this process has set up, and that may still be registering.
        groups: of each elastic group its nodes and how many of them stay.
    """
    elastic = [name for nodes, _ in groups.values() for name in nodes]
    words = {name: seen.get(name, frozenset[str]()) for name in elastic}
    wake: list[str] = []
    for nodes, least in groups.values():
        up = [n for n in nodes if n in seen and not words[n] & POWERED_OFF]
        away = [n for n in nodes if POWERED_DOWN in words[n] and POWERING_UP not in words[n]]
        wake += away[: max(0, least - len(up))]
    return Marks(
        tuple(n for n in elastic if POWERING_UP in words[n] and n not in joined),
        tuple(n for n in elastic if words[n] & POWERED_OFF and n in rented),
        tuple(
            n
            for n in elastic
            if NodeBase.DOWN.value in words[n] and not words[n] & (POWERED_OFF | {TAKEN_BACK})
        ),
        tuple(wake),
        tuple(
            n
            for n in elastic
            if n in seen
            and n not in rented
            and not words[n] & (POWERED_OFF | {POWERING_UP, NodeBase.DOWN.value})
        ),
        tuple(
            n
            for n in elastic
            if words[n] >= {NodeBase.DOWN.value, POWERED_DOWN}
            and BY_HAND not in words[n]
            and n not in rented
        ),
        tuple(
            n
            for n in elastic
            if words[n] >= {NodeBase.DOWN.value, TAKEN_BACK} and not words[n] & POWERED_OFF
        ),
    )
