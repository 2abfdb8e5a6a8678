"""Rules about racks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from corral.errors import CorralError
from corral.spec.findings import Level
from corral.spec.sections.racks import Slot, slots_of, units_of
from corral.spec.slurm.hostlist import NODES_AT_MOST, expand
from corral.spec.tree import Path
from corral.spec.view import Problem, Rule, View, some


def _at(index: int, *path: str | int) -> Path:
    return ("racks", index, *path)


def _names(view: View) -> Iterator[tuple[int, list[str]]]:
    """Nodes of each line whose hostlist can be read, while they are not more than Slurm takes."""
    room = NODES_AT_MOST
    for i, line in enumerate(view.spec.racks):
        try:
            names = expand(line.nodes, strict=True)
        except CorralError:
            continue
        room -= len(names)
        if room < 0:
            return
        yield i, names


def nodes_unknown(view: View) -> Iterator[Problem]:
    """Names that cannot be read, or of no node."""
    for i, line in enumerate(view.spec.racks):
        try:
            expand(line.nodes, strict=True)
        except CorralError as error:
            yield Problem(_at(i, "nodes"), error.message, error.hint)
    if not view.complete:
        return
    for i, names in _names(view):
        strange = [name for name in names if name not in view.names]
        if strange:
            message = f"no node is called {some(strange)}"
            yield Problem(_at(i, "nodes"), message, f"nodes: {some(list(view.names))}")


def nodes_twice(view: View) -> Iterator[Problem]:
    """Nodes that are in two places."""
    first: dict[str, str] = {}
    for i, names in _names(view):
        rack = view.spec.racks[i].name
        again: list[str] = []
        for name in names:
            if name in first:
                again.append(name)
            else:
                first[name] = rack
        if again:
            message = f"{some(again)} is in rack {first[again[0]]} already"
            yield Problem(_at(i, "nodes"), message, "leave each node in one place")


def units(view: View) -> Iterator[Problem]:
    """Nodes beyond the ends of their rack, and two nodes in one place."""
    sizes = units_of(view.spec.racks)
    taken: dict[tuple[str, int], list[Slot]] = defaultdict(list)
    for i, names in _names(view):
        line = view.spec.racks[i]
        outside: list[Slot] = []
        shared: list[tuple[Slot, Slot]] = []
        for slot in slots_of(line, names):
            if slot.unit < 1 or slot.top > sizes[line.name]:
                outside.append(slot)
                continue
            levels = [taken[line.name, unit] for unit in range(slot.unit, slot.top + 1)]
            other = next((o for level in levels for o in level if _meet(o, slot)), None)
            if other is not None:
                shared.append((slot, other))
                continue
            for level in levels:
                level.append(slot)
        if outside:
            yield _outside(_at(i, "nodes"), line.name, sizes[line.name], outside)
        if shared:
            yield _shared(_at(i, "nodes"), line.name, shared)


def _meet(slot: Slot, other: Slot) -> bool:
    """Whether two nodes of the same unit have a part of its width in common."""
    return (
        slot.column * other.across < (other.column + 1) * slot.across
        and other.column * slot.across < (slot.column + 1) * other.across
    )


def _where(slot: Slot) -> str:
    return f"unit {slot.unit}" if slot.height == 1 else f"units {slot.unit} to {slot.top}"


def _outside(at: Path, rack: str, size: int, slots: list[Slot]) -> Problem:
    names = some([slot.node for slot in slots])
    message = f"rack {rack} has units 1 to {size}, and {names} "
    message += f"would be at {_where(slots[0])}" if len(slots) == 1 else "would be outside of them"
    return Problem(at, message, "correct unit, height, gap, across or order, or the rack's units")


def _shared(at: Path, rack: str, pairs: list[tuple[Slot, Slot]]) -> Problem:
    slot, other = pairs[0]
    more = f", and {len(pairs) - 1} more" if len(pairs) > 1 else ""
    message = f"{slot.node} and {other.node} are both at {_where(slot)} of rack {rack}{more}"
    return Problem(at, message, "give this line another unit")


def sizes(view: View) -> Iterator[Problem]:
    """Lines of one rack that differ in what the rack is."""
    for field in ("units", "row"):
        first: dict[str, object] = {}
        for i, line in enumerate(view.spec.racks):
            value = getattr(line, field)
            if value is None:
                continue
            known = first.setdefault(line.name, value)
            if value != known:
                message = f"{field} of rack {line.name} is {known} in another line"
                yield Problem(_at(i, field), message, "write it once for each rack")


_PLACE: Final = ("racks.unit", "racks.height", "racks.gap", "racks.across", "racks.order")
_E: Final = Level.ERROR
RULES: Final = (
    Rule("rack-node-unknown", _E, "A rack with a node that does not exist, or with names that "
         "cannot be read.", ("racks.nodes",), nodes_unknown, ("groups.nodes",)),
    Rule("rack-node-twice", _E, "A node in two places of the racks.",
         (), nodes_twice, ("racks.nodes", "racks.name")),
    Rule("rack-units", _E, "Nodes that do not fit into their rack, or two nodes at the same units.",
         (), units, ("racks.nodes", "racks.name", "racks.units", *_PLACE)),
    Rule("rack-lines-differ", _E, "Two lines of one rack with other units or another row.",
         (), sizes, ("racks.name", "racks.units", "racks.row")),
)  # fmt: skip
