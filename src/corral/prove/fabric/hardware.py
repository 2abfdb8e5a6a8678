"""Known hardware: what it can carry and what it was seen to carry, each with its source.

Data, not code: a new machine is a new entry. A reference above its own limit cannot be entered
(``Verdict`` refuses it, and a test goes through all of them).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.prove.fabric.limits import Topology
from corral.prove.fabric.model import Collective

ALL: Final = tuple(Collective)
RINGS: Final = (
    Collective.ALL_REDUCE,
    Collective.ALL_GATHER,
    Collective.REDUCE_SCATTER,
    Collective.BROADCAST,
    Collective.REDUCE,
)
"""Those that use all interfaces of a node; a figure of these says nothing of all_to_all."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A healthy figure.

    Attributes:
        collectives: what it holds for.
        several: over several nodes, or within one.
        busbw: GB/s on the plateau.
        source: where it was published or measured.
    """

    collectives: tuple[Collective, ...]
    several: bool
    busbw: float
    source: str


@dataclass(frozen=True, slots=True)
class Hardware:
    """A kind of node: its title, topology, references, and what NCCL takes between nodes."""

    title: str
    topology: Topology
    seen: tuple[Seen, ...] = ()
    fabric: str = ""


_REDUCE: Final = (Collective.ALL_REDUCE,)
_GATHER: Final = (Collective.ALL_GATHER, Collective.REDUCE_SCATTER)
_OWN: Final = "0.94 of the line: TCP over Ethernet frames of 1500 bytes"

HARDWARE: Final = {
    "1gbe": Hardware("1 GbE, 1 GPU per node", Topology(1, 1), (Seen(ALL, True, 0.117, _OWN),)),
    "2.5gbe": Hardware(
        "2.5 GbE, 1 GPU per node", Topology(1, 2.5), (Seen(ALL, True, 0.293, _OWN),)
    ),
    "10gbe": Hardware("10 GbE, 1 GPU per node", Topology(1, 10), (Seen(ALL, True, 1.17, _OWN),)),
    "25gbe": Hardware(
        "25 GbE, sockets",
        Topology(1, 25),
        (Seen(ALL, True, 2.3, "0.75 of the line: TCP at 25 Gb/s costs CPU"),),
    ),
    "100gbe": Hardware(
        "100 GbE, sockets",
        Topology(1, 100),
        (Seen(ALL, True, 5.6, "4 to 6 seen with V100 (nccl issue 450)"),),
    ),
    "dgx1": Hardware(
        "DGX-1, 4x100G InfiniBand",
        Topology(4, 100, intra=150, gpus=8),
        (Seen(_REDUCE, True, 54.06, "DeepOps, 2 nodes at 512 MiB"),),
        "infiniband",
    ),
    "dgx-a100": Hardware(
        "DGX A100, 8x200G InfiniBand",
        Topology(8, 200, intra=300, gpus=8),
        (
            Seen(RINGS, True, 188.0, "DeepOps, 188.5 on 2 nodes and 191.1 on 4 at 4 GiB"),
            Seen(_REDUCE, False, 234.9, "Azure, 16 GiB"),
        ),
        "infiniband",
    ),
    "dgx-h100": Hardware(
        "DGX or HGX H100/H200, 8x400G InfiniBand",
        Topology(8, 400, intra=450, gpus=8, nvls=True),
        (
            Seen(_REDUCE, False, 480.0, "nccl-tests issue 212: 480 to 483 with NVLS"),
            Seen(_GATHER, False, 361.0, "361 to 363 on H200"),
            Seen(RINGS, True, 370.0, "nccl-tests issue 212: ring about 370"),
        ),
        "infiniband",
    ),
    "a3-high": Hardware(
        "GCP A3 High, GPUDirect-TCPX",
        Topology(4, 200, intra=450, gpus=8, nvls=True),
        (Seen(_GATHER, True, 70.0, "cluster-toolkit: 70.9 at 512 MiB"),),
        "tcpx",
    ),
    "a3-mega": Hardware(
        "GCP A3 Mega, GPUDirect-TCPXO",
        Topology(8, 200, intra=450, gpus=8, nvls=True),
        (Seen(_GATHER, True, 188.0, "188.2 to 188.5 at 8 GiB, 2 nodes"),),
        "tcpxo",
    ),
    "a3-ultra": Hardware(
        "GCP A3 Ultra, 8x400G RoCE",
        Topology(8, 400, intra=450, gpus=8, nvls=True),
        (Seen(_GATHER, True, 330.0, "cluster-toolkit: 328.9 to 335.7 at 8 GiB"),),
        "roce",
    ),
}


def reference(hardware: Hardware, collective: Collective, nodes: int) -> Seen | None:
    """The healthy figure for a collective over so many nodes; None when nobody published one."""
    several = nodes > 1
    return next(
        (s for s in hardware.seen if s.several == several and collective in s.collectives), None
    )
