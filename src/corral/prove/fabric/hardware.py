"""Known hardware: what it can carry and what it was seen to carry (``hardware.yaml``).

Hardware of one provider alone is in a table of that name in the provider's folder.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Annotated, Final, Literal

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


Link = Literal["infiniband", "roce", "ethernet"]


class Shows(Row):
    """What a node of a kind shows of itself, next to GPUs, NICs and rate as in its topology.

    Attributes:
        link: what carries NCCL's data between nodes.
        gpu: a regular expression that each GPU's name contains, "" for any.
        product: the machine's name in its firmware, "" for any.
    """

    link: Link
    gpu: str = ""
    product: str = ""


class Hardware(Row):
    """A kind of node: its title, topology, references, and what NCCL takes between nodes.

    ``shows`` is None where nodes do not show what they are.
    """

    title: str
    topology: Topology
    seen: tuple[Seen, ...] = ()
    fabric: str = ""
    shows: Shows | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """What one node shows of itself.

    Attributes:
        gpus: names of its GPUs, as nvidia-smi gives them.
        link: what carries NCCL's data to other nodes; "" where that is not known.
        nics: how many of them NCCL takes.
        gbps: the rate of each in Gb/s; 0 where it is not known, or they differ.
        product: the machine's name in its firmware.
    """

    gpus: tuple[str, ...]
    link: Link | Literal[""] = ""
    nics: int = 0
    gbps: float = 0.0
    product: str = ""


def recognised(machines: Collection[Machine]) -> str:
    """The one kind of hardware that all of them are; "" for none of those that are known."""
    kinds = {_kind(machine) for machine in machines}
    return kinds.pop() if len(kinds) == 1 else ""


def _kind(machine: Machine) -> str:
    return next((name for name, kind in known_hardware().items() if _is(machine, kind)), "")


def _is(machine: Machine, kind: Hardware) -> bool:
    shows, topology = kind.shows, kind.topology
    return (
        shows is not None
        and machine.link == shows.link
        and (len(machine.gpus), machine.nics) == (topology.gpus, topology.nics)
        and machine.gbps == topology.gbps
        and all(re.search(shows.gpu, name) for name in machine.gpus)
        and shows.product in ("", machine.product)
    )


@cache
def known_hardware() -> Mapping[str, Hardware]:
    """Each kind by its name."""
    packages = ("corral.prove.fabric", *packages_with("hardware.yaml"))
    tables = [read_table(package, "hardware.yaml", dict[str, Hardware]) for package in packages]
    return MappingProxyType({name: row for table in tables for name, row in table.items()})


def reference(hardware: Hardware, collective: Collective, nodes: int) -> Seen | None:
    """The healthy figure for a collective over so many nodes; None when nobody published one.

    Figures of a domain of NVLink are not those of nodes in several.
    """
    several = nodes > 1
    if 1 < hardware.topology.domain < nodes:
        return None
    return next(
        (s for s in hardware.seen if s.several == several and collective in s.collectives), None
    )
