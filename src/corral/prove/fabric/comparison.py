"""A measurement of collectives compared with what is known about its machines. Pure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from corral.errors import Code, CorralError
from corral.prove.fabric.benchmark_log import Reading
from corral.prove.fabric.hardware import known_hardware, reference
from corral.prove.fabric.limits import Algorithm, Topology, between, efficiency, limit
from corral.prove.fabric.model import Collective, Table
from corral.prove.fabric.transport import SOCKETS, complaints
from corral.prove.fabric.verdict import Outcome, Reference, Verdict, judge
from corral.spec.models import DataNetwork

_AS_FAST_BY_GLOO: Final = (Collective.ALL_REDUCE, Collective.ALL_TO_ALL, Collective.SENDRECV)
"""What reaches a link's rate by gloo, as Corral's program calls it. Its broadcast is a tree, whose
root sends more than once, and its reduce_scatter a complete all_reduce: three nodes on healthy
links of 1 Gb/s had 49 and 44 % of it, all_gather 73 to 85 (PyTorch 2.6)."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known about the machines that a log comes from.

    Attributes:
        hardware: a name of ``known_hardware()``, "" when it is none of those.
        topology: what carries the data, for unknown hardware.
        busbw: the healthy figure in GB/s; 0: the hardware's own, or none.
        share: of the limit between nodes that a healthy network of this kind reaches, where
            nothing else is known; 0: that is not known either.
        gloo: the ranks have no GPUs and talked by gloo, not by NCCL.
        nodes: how many took part; 0: as the log lists them.
        collective: what was measured, where the log does not state it.
        algorithm: what NCCL was forced to, None when nothing was.
        usual: GB/s that this cluster's own collectives reached before.
        fabric: what NCCL should have used, a key of ``transport.NETWORKS``.
    """

    hardware: str = ""
    topology: Topology | None = None
    busbw: float = 0.0
    nodes: int = 0
    collective: Collective | None = None
    algorithm: Algorithm | None = None
    fabric: str = ""
    share: float = 0.0
    gloo: bool = False
    usual: Mapping[Collective, float] = dataclasses.field(default_factory=dict[Collective, float])


def compared(reading: Reading, given: Known) -> tuple[tuple[Table, Verdict], ...]:
    """Each table with its verdict.

    Raises:
        CorralError: USAGE, what is known contradicts itself.
    """
    nodes = given.nodes or max((_nodes(table, given)[0] for table in reading.tables), default=0)
    fabric = given.fabric
    if reading.transport.network == SOCKETS and given.hardware in known_hardware():
        # Other hosts of the same GPUs may have another fast network, and none of them has sockets.
        fabric = fabric or known_hardware()[given.hardware].fabric
    # Within one node NCCL names a network all the same, and sends nothing over it.
    bad = complaints(reading.transport, fabric) if fabric and nodes != 1 else ()
    return tuple(_judged(table, given, bad) for table in reading.tables)


def with_declared(given: Known, data: DataNetwork | None, *, nodes: int, gpus: int) -> Known:
    """What was given, and for the rest what the cluster file declares about its data network."""
    if data is None or nodes < 2:  # noqa: PLR2004 - within a node the network carries nothing
        return given
    if gpus and not given.fabric:
        given = dataclasses.replace(given, fabric=data.fabric)
    if data.gbps and not (given.hardware or given.topology):
        # gloo has one interface, that of the node's name, however many the GPUs have.
        topology = Topology(data.nics if gpus else 1, data.gbps, gpus=max(1, gpus))
        share = efficiency(data.fabric, data.gbps)
        given = dataclasses.replace(given, topology=topology, share=share)
    return given


def _judged(table: Table, known: Known, complained: Sequence[str]) -> tuple[Table, Verdict]:
    if known.collective is not None:
        table = dataclasses.replace(table, collective=known.collective)
    nodes, taken = _nodes(table, known)
    part = _part_of_nodes(table, known, nodes)
    comparable = dataclasses.replace(known, hardware="") if part else known
    verdict = judge(table, _reference(table.collective, comparable, nodes), nodes)
    if part and verdict.reference is None:
        verdict = dataclasses.replace(verdict, reasons=(part, *verdict.reasons[1:]))
    if known.gloo and verdict.reference is None and table.collective not in _AS_FAST_BY_GLOO:
        reason = f"gloo's {table.collective} is not a ring: the rate of a link does not bound it"
        verdict = dataclasses.replace(verdict, reasons=(reason, *verdict.reasons[1:]))
    if taken:
        verdict = dataclasses.replace(verdict, reasons=(*verdict.reasons, taken))
    if complained:
        reasons = (*complained, *verdict.reasons)
        verdict = dataclasses.replace(verdict, outcome=Outcome.FAIL, reasons=reasons)
    return table, verdict


def _nodes(table: Table, known: Known) -> tuple[int, str]:
    """How many nodes took part, and a word where that was inferred; 0: not known."""
    hardware = known_hardware().get(known.hardware)
    topology = known.topology or (hardware.topology if hardware else None)
    if known.nodes or table.nodes or not table.ranks or topology is None:
        return known.nodes or table.nodes, ""
    count = math.ceil(table.ranks / topology.gpus)
    gpus = f"{table.ranks} ranks, {topology.gpus} GPU{'s' * (topology.gpus > 1)} a node"
    return count, f"taken for {count} node{'s' * (count > 1)} ({gpus}): --nodes overrides it"


def _part_of_nodes(table: Table, known: Known, nodes: int) -> str:
    """Why published figures, of nodes with all GPUs, do not apply; "" where they do."""
    hardware = known_hardware().get(known.hardware)
    if (
        hardware is None
        or known.busbw
        or not (nodes and 1 < table.ranks < nodes * hardware.topology.gpus)
    ):
        return ""
    return (
        f"the figures known of {known.hardware} are of {hardware.topology.gpus} GPUs a node, and "
        f"{table.ranks} on {nodes} node{'s' * (nodes > 1)} took part: compare it by --reference"
    )


def refuse_unreachable(collective: Collective, known: Known, nodes: int) -> None:
    """Refuse a reference that so many nodes cannot reach, before anything is measured.

    Raises:
        CorralError: USAGE, naming the collective.
    """
    try:
        _reference(collective, known, nodes)
    except CorralError as error:
        raise CorralError(error.code, f"{collective}: {error.message}", hint=error.hint) from error


def _reference(collective: Collective | None, known: Known, nodes: int) -> Reference | None:
    if known.hardware and known.hardware not in known_hardware():
        raise CorralError(
            Code.USAGE,
            f"no hardware called {known.hardware!r} is known",
            hint=f"one of {', '.join(sorted(known_hardware()))}; "
            "or give --nics, --gbps and --reference",
        )
    if collective is None:
        return None
    hardware = known_hardware().get(known.hardware)
    topology = known.topology or (hardware.topology if hardware else None)
    slower_by_gloo = known.gloo and collective not in _AS_FAST_BY_GLOO
    # Where it is not known: most pasted tables are of several nodes, and 2 claims the least.
    several = nodes or 2
    bound = limit(topology, collective, several, known.algorithm) if topology else 0.0
    if known.busbw:
        return Reference(known.busbw, bound, "as given")
    seen = reference(hardware, collective, several) if hardware and not slower_by_gloo else None
    if seen:
        return Reference(seen.busbw, bound, seen.source)
    if known.share and topology and several > 1 and not slower_by_gloo:
        expected = known.share * between(topology, collective, several)
        return Reference(expected, bound, f"{known.share:g} of the declared network's rate")
    before = known.usual.get(collective, 0.0)
    return Reference(before, bound, "earlier measurements of this cluster") if before else None
