"""Use case: what does a benchmark's log show, and is it good?"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from corral.doctor.logs.diagnosis import explain
from corral.doctor.model import Severity
from corral.errors import Code, CorralError
from corral.prove.fabric.benchmark_log import Reading, read_all
from corral.prove.fabric.hardware import known_hardware, reference
from corral.prove.fabric.limits import (
    Algorithm,
    Topology,
    between,
    limit,
)
from corral.prove.fabric.model import Collective, Table
from corral.prove.fabric.transport import SOCKETS, Transport, complaints, transport_of
from corral.prove.fabric.verdict import Outcome, Reference, Verdict, judge

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
        fabric: infiniband, roce, ethernet, efa, tcpx or tcpxo: what NCCL should have used.
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


@dataclass(frozen=True, slots=True)
class RunFailure:
    """Why a run gave no complete measurement.

    Attributes:
        cause: one sentence.
        hint: what to do, "" when nothing is known to help.
        finding: the failure's number in the doctor's catalogue, "" when it has none.
        lines: lines of the log that show it.
    """

    cause: str
    hint: str = ""
    finding: str = ""
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One log, read and judged: its tables with a verdict each, and what NCCL used."""

    tables: tuple[tuple[Table, Verdict], ...]
    transport: Transport
    failure: RunFailure | None = None

    @property
    def good(self) -> bool:
        """True when the run did not fail and no verdict is fail."""
        failed = any(verdict.outcome is Outcome.FAIL for _, verdict in self.tables)
        return self.failure is None and not failed

    def as_dict(self) -> dict[str, object]:
        """Whether it is good, the failure, the transport, and a verdict for each table."""
        return {
            "good": self.good,
            "failure": dataclasses.asdict(self.failure) if self.failure else None,
            "transport": dataclasses.asdict(self.transport),
            "tables": [
                {
                    **verdict.as_dict(),
                    "certain": table.certain,
                    "ranks": table.ranks,
                    "nodes": table.nodes,
                    "complete": table.complete,
                    "checked": table.checked,
                    "wrong": table.wrong,
                    "average_gb_s": table.average,
                    "rows": [dataclasses.asdict(row) for row in table.rows],
                }
                for table, verdict in self.tables
            ],
        }


def read_benchmark(text: str, known: Known | None = None) -> Benchmark:
    """Read a log of nccl-tests, or a file it wrote with -J, and judge each table.

    A run that failed is not a parse error: ``failure`` of the result reports why, and the tables
    that it completed are judged.

    Raises:
        CorralError: PARSE_FAILED, the log is none, cut or contradicts itself, and shows no failure;
            USAGE, what is known contradicts itself (a reference above the limit, unknown hardware).
    """
    try:
        reading = read_all(text)
    except CorralError:
        failure = run_failure(text)
        if failure is None:
            raise
        return Benchmark((), transport_of(text), failure)
    benchmark = judged(reading, known or Known())
    if reading.processes:
        return dataclasses.replace(benchmark, failure=_alone(reading.processes))
    ended = all(table.complete for table in reading.tables)
    failure = None if ended and not reading.refused else run_failure(text)
    if reading.refused and failure is None:
        raise reading.refused[0]
    return dataclasses.replace(benchmark, failure=failure)


def run_failure(text: str) -> RunFailure | None:
    """Why a run failed, by the doctor's rules; None where the log shows no failure.

    Args:
        text: the log.
    """
    report = explain(text)
    worse = [f for f in report.findings if f.failure.severity is not Severity.WARNING]
    first = worse[0] if worse else None
    if first is not None:
        cause = f"the run failed: {first.failure.title}"
        detail = f" ({first.detail})" if first.detail else ""
        return RunFailure(cause + detail, first.failure.fix, first.failure.id, first.evidence)
    if report.unknown:
        lines = tuple(f"line {line.number}: {line.text}" for line in report.unknown)
        hint = "run it again with NCCL_DEBUG=INFO, which names the call that failed"
        return RunFailure("the run failed; no known failure matched", hint, "", lines)
    return None


def _alone(processes: int) -> RunFailure:
    return RunFailure(
        f"{processes} processes each measured alone, as rank 0 of a separate run: nothing was "
        "sent between them, and their figures do not measure the cluster",
        "build nccl-tests with MPI (make clean; make MPI=1 MPI_HOME=...) and start it by mpirun, "
        "or by srun with the --mpi type that this MPI was built for",
    )


def judged(reading: Reading, given: Known) -> Benchmark:
    """Judge what was read.

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
    return Benchmark(
        tuple(_judged(table, given, bad) for table in reading.tables), reading.transport
    )


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
