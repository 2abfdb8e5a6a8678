"""Breaks that are made together: they touch other things, and each has its own finding. Data.

One proof finds all of a group, so that ten proofs and ten looks afterwards are saved. What each
does alone is replayed from recordings (tests/unit/prove/test_replay.py), which are made one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.embedded.prove_breaks import BREAKS, CTL, RECONFIGURE, Break, edit, restore

from corral.hosts.quote import Script, join

TOGETHER: tuple[frozenset[str], ...] = (
    frozenset(
        {
            "the installer's line in /etc/hosts",
            "an older slurmd on one node",
            "a clock 60 s ahead",
            "a setting changed on one node only",
            "slurmrestd on all addresses",
            "a shared folder closed to the user",
        }
    ),
    frozenset({"ConstrainDevices=no", "ConstrainRAMSpace=no", "ConstrainCores=no"}),
    frozenset({"slurmdbd stopped", "slurmrestd stopped"}),
    frozenset(
        {
            "no route between two nodes",
            "something on the port that answers everybody",
            "a shared folder not mounted on one node",
        }
    ),
)
"""Names of breaks, by the group they are made in."""

Group = tuple[Break, ...]


def groups(*, alone: bool = False) -> tuple[Group, ...]:
    """All breaks once, those of a group together, in their order.

    Args:
        alone: each alone, as recordings want it.
    """
    grouped: dict[frozenset[str], list[Break]] = {}
    for fault in BREAKS:
        single = frozenset({fault.name})
        name = single if alone else next((g for g in TOGETHER if fault.name in g), single)
        grouped.setdefault(name, []).append(fault)
    return tuple(tuple(group) for group in grouped.values())


def label(group: Group) -> str:
    """What pytest calls it."""
    return "; ".join(f"{fault.check}: {fault.name}" for fault in group)


def doing(group: Group) -> Iterator[tuple[str, Script]]:
    """What makes it so, node by node; one file is edited once, and Slurm reads it once."""
    for fault in group:
        if fault.sed is None:
            yield from fault.do.items()
    edits = [edit(path, "\n".join(expressions)) for path, expressions in _edits(group).items()]
    if edits:
        yield CTL, join([*edits, RECONFIGURE], " && ")


def undoing(group: Group) -> Iterator[tuple[str, Script]]:
    """What fixes it."""
    for fault in reversed(group):
        if fault.sed is None:
            yield from fault.undo.items()
    if edits := _edits(group):
        yield CTL, join([*map(restore, edits), RECONFIGURE])


def _edits(group: Iterable[Break]) -> dict[str, list[str]]:
    edits: dict[str, list[str]] = {}
    for fault in group:
        if fault.sed is not None:
            edits.setdefault(fault.sed[0], []).append(fault.sed[1])
    return edits
