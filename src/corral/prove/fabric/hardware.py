"""Known hardware: what it can carry and what it was seen to carry (``hardware.yaml``).

Hardware of one provider alone is in a table of that name in the provider's folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Annotated, Final

from pydantic import BeforeValidator

from corral.prove.fabric.limits import Topology
from corral.prove.fabric.model import Collective
from corral.spec.providers import packages_with
from corral.tables import Row, read_table

ALL: Final = tuple(Collective)
RINGS: Final = (
    Collective.ALL_REDUCE,
    Collective.ALL_GATHER,
    Collective.REDUCE_SCATTER,
    Collective.BROADCAST,
    Collective.REDUCE,
)
"""Those that use all interfaces of a node; a figure of these does not bound all_to_all."""
_NAMED: Final = {"all": ALL, "rings": RINGS}


def _collectives(value: object) -> object:
    return _NAMED.get(value, value) if isinstance(value, str) else value


class Seen(Row):
    """A healthy figure.

    Attributes:
        collectives: what it holds for.
        several: over several nodes, or within one.
        busbw: GB/s on the plateau.
        source: where it was published or measured.
    """

    collectives: Annotated[tuple[Collective, ...], BeforeValidator(_collectives)]
    several: bool
    busbw: float
    source: str


class Hardware(Row):
    """A kind of node: its title, topology, references, and what NCCL takes between nodes."""

    title: str
    topology: Topology
    seen: tuple[Seen, ...] = ()
    fabric: str = ""


@cache
def known_hardware() -> Mapping[str, Hardware]:
    """Each kind by its name."""
    packages = ("corral.prove.fabric", *packages_with("hardware.yaml"))
    tables = [read_table(package, "hardware.yaml", dict[str, Hardware]) for package in packages]
    return MappingProxyType({name: row for table in tables for name, row in table.items()})


def reference(hardware: Hardware, collective: Collective, nodes: int) -> Seen | None:
    """The healthy figure for a collective over so many nodes; None when nobody published one."""
    several = nodes > 1
    return next(
        (s for s in hardware.seen if s.several == several and collective in s.collectives), None
    )
