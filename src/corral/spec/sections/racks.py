"""Racks: where each node is mounted, for the page alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from corral.spec.values import Feature, HostList, Model, about

USUAL_UNITS: Final = 42
"""Height of a rack whose lines give none."""


class Rack(Model):
    """Nodes of one height in a rack; several lines of one name are one rack."""

    name: Feature = about("none", "Name of the rack. Several lines of one name are one rack.")
    nodes: HostList = about("none", "Its nodes, the first one at `unit`, the others as in `order`.")
    unit: int = about(
        "none", "Lowest unit of the first node; 1 is at the bottom.", default=1, ge=1, le=100
    )
    height: int = about("none", "Units of each node.", default=1, ge=1, le=100)
    gap: int = about("none", "Empty units between two nodes.", default=0, ge=0, le=50)
    across: int = about(
        "none",
        "Nodes next to each other in the same units, as in a chassis of several.",
        default=1,
        ge=1,
        le=12,
    )
    order: Literal["up", "down"] = about(
        "none", "up: the next node is above the one before it; down: below it.", default="up"
    )
    units: int | None = about(
        "none",
        f"Units of the rack; left out: as in its other lines, else {USUAL_UNITS}.",
        default=None,
        ge=1,
        le=100,
    )
    row: Feature | None = about(
        "none", "Row of racks that it is in; the page draws each row separately.", default=None
    )


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a node is in its rack.

    Attributes:
        node: its name.
        unit: its lowest unit, from 1; outside of the rack where the node does not fit.
        height: its units.
        column: from 0 at the left, of ``across`` columns.
    """

    node: str
    unit: int
    height: int
    column: int
    across: int

    @property
    def top(self) -> int:
        """Its highest unit."""
        return self.unit + self.height - 1


def slots_of(line: Rack, names: Sequence[str]) -> Iterator[Slot]:
    """Where each node of a line is.

    Args:
        line: the line.
        names: its nodes, read from its hostlist.
    """
    step = (line.height + line.gap) * (1 if line.order == "up" else -1)
    for i, name in enumerate(names):
        level, column = divmod(i, line.across)
        yield Slot(name, line.unit + level * step, line.height, column, line.across)


def units_of(lines: Sequence[Rack]) -> dict[str, int]:
    """Units of each rack by name, in the order of the file."""
    units: dict[str, int | None] = {}
    for line in lines:
        units[line.name] = units.get(line.name) or line.units
    return {name: count or USUAL_UNITS for name, count in units.items()}
