"""What a fabric can carry at most: busbw limits from NICs, GPU links and declared rates. Pure.

Sources: nccl-tests doc/PERFORMANCE.md for the bus bandwidth. Hierarchical all-reduce over k nodes
and n ranks shows up to (n-1)/n x k/(k-1) times the NIC rate, as less data crosses the NICs than the
formula of the bus bandwidth assumes (nccl-tests issue 196: "you may want to force NCCL_ALGO=RING").
What each rank sends to single others goes by its own interface, and not over all of a node's as a
ring does: of all_to_all (n-g)/(n-1) leaves a node of g GPUs, of sendrecv one rank's share.
NVLink SHARP (NVLS) lets each GPU send and receive the data once instead of 2(n-1)/n times, so that
all-reduce within a node may pass the link's rate by as much.

Shares of the line rate: reference/baselines.md, section 6. NVIDIA's rules of thumb (nccl-tests
issues 119 and 290): 46 to 48 GB/s of a 400G card; TCP costs CPU time from 25 Gb/s on.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from pydantic import ConfigDict

from corral.prove.fabric.model import Collective, bus_factor


class Algorithm(StrEnum):
    """How NCCL moves the data."""

    RING = "ring"
    TREE = "tree"  # Tree, NVLSTree, CollNet: NCCL's choice for all-reduce over several nodes


@dataclass(frozen=True, slots=True)
class Topology:
    """What carries the data.

    Attributes:
        nics: network interfaces per node that carry GPU traffic.
        gbps: rate of each in Gb/s.
        intra: effective bandwidth between GPUs of a node in GB/s; 0 when it is not known or does
            not matter (one GPU per node).
        gpus: GPUs per node.
        nvls: the switch between the GPUs does the sum (NVSwitch of Hopper and later).
        domain: nodes whose GPUs are all on one NVLink; their interfaces carry nothing.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    nics: int
    gbps: float
    intra: float = 0.0
    gpus: int = 1
    nvls: bool = False
    domain: int = 1

    @property
    def nic_gb_s(self) -> float:
        """All interfaces of a node together, GB/s."""
        return self.nics * self.gbps / 8

    @property
    def gpu_gb_s(self) -> float:
        """The interfaces of one GPU, GB/s: its share of them, and one at least."""
        return max(self.nic_gb_s / self.gpus, self.gbps / 8)


def algorithm_of(collective: Collective, nodes: int) -> Algorithm:
    """NCCL's own choice at large sizes: trees only for all-reduce, and only over several nodes."""
    several = nodes > 1 and collective is Collective.ALL_REDUCE
    return Algorithm.TREE if several else Algorithm.RING


def between(topology: Topology, collective: Collective, nodes: int) -> float:
    """GB/s busbw that interfaces can carry at most between nodes, by rings or from rank to rank.

    Args:
        topology: what carries the data.
        collective: what was measured.
        nodes: how many took part, at least 2.
    """
    ranks, gpus = nodes * topology.gpus, topology.gpus
    leaving = (ranks - gpus) / (ranks - 1)
    match collective:
        case Collective.ALL_TO_ALL:
            return topology.nic_gb_s / gpus / leaving
        case Collective.GATHER | Collective.SCATTER:
            return topology.gpu_gb_s / leaving
        case Collective.SENDRECV:
            return topology.gpu_gb_s
        case _:
            return topology.nic_gb_s


def limit(
    topology: Topology, collective: Collective, nodes: int, algorithm: Algorithm | None = None
) -> float:
    """The highest busbw in GB/s that this topology can show; 0 when it cannot be known.

    Args:
        topology: what carries the data.
        collective: what was measured.
        nodes: how many nodes took part.
        algorithm: None: as ``algorithm_of`` has it.
    """
    inside = topology.intra
    if topology.nvls and collective is Collective.ALL_REDUCE and algorithm is not Algorithm.RING:
        inside *= bus_factor(collective, topology.gpus * min(max(1, nodes), topology.domain))
    if nodes <= topology.domain:
        return inside
    used = algorithm or algorithm_of(collective, nodes)
    bandwidth = between(topology, collective, nodes)
    if used is Algorithm.TREE and collective is Collective.ALL_REDUCE:
        ranks = nodes * topology.gpus
        bandwidth *= (ranks - 1) / ranks * nodes / (nodes - 1)
    # One GPU per node: nothing moves within a node.
    return min(bandwidth, inside) if inside and topology.gpus > 1 else bandwidth


_TCP: Final = ((10.0, 0.94), (25.0, 0.75))
_TCP_ABOVE: Final = 0.45
_RDMA: Final = 0.94


def efficiency(fabric: str, gbps: float) -> float:
    """The share of the line rate that a healthy network of this kind reaches."""
    if fabric != "ethernet":
        return _RDMA
    return next((share for rate, share in _TCP if gbps <= rate), _TCP_ABOVE)
