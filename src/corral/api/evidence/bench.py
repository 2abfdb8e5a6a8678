"""Use case: what does a benchmark's log show, and is it good?"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from corral.doctor.logs.diagnosis import explain
from corral.doctor.model import Severity
from corral.errors import CorralError
from corral.prove.fabric.benchmark_log import Reading, read_all
from corral.prove.fabric.comparison import Known, compared
from corral.prove.fabric.model import Table
from corral.prove.fabric.transport import Transport, transport_of
from corral.prove.fabric.verdict import Outcome, Verdict


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
    return Benchmark(compared(reading, given), reading.transport)
