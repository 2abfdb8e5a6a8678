"""Use case: measure a cluster's collectives through Slurm, judge them, keep the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import PurePosixPath
from statistics import median
from typing import Any, Final

from corral.api.evidence.bench import Benchmark, judged
from corral.api.workload import batch, queue
from corral.api.workload.job_reports import JobReports
from corral.apply.connection import Connection
from corral.apply.journal import Journal, read_journal
from corral.doctor.logs.diagnosis import read as shown
from corral.doctor.logs.diagnosis import report
from corral.doctor.model import Diagnosis, Source
from corral.errors import Code, CorralError
from corral.events import Emit, ignore
from corral.inspect.slurm import MPI
from corral.jobs.handle import JobHandle
from corral.jobs.model import JobSpec
from corral.prove.fabric.benchmark_log import Reading, read
from corral.prove.fabric.charts import bench_charts, pair_matrix
from corral.prove.fabric.comparison import Known, refuse_unreachable, with_declared
from corral.prove.fabric.corral_benchmark import (
    MEASURES,
    PROGRAM,
    Progress,
    progress_of,
    read_halves,
    read_program,
)
from corral.prove.fabric.model import Collective
from corral.prove.fabric.slow_parts import Bisected, Half, Pair, Slow, bisected, slow
from corral.prove.fabric.transport import transport_of
from corral.prove.fabric.verdict import Outcome
from corral.prove.figures import Chart
from corral.prove.measure.measurement import TITLES
from corral.spec.models import ClusterSpec
from corral.spec.slurm.hostlist import expand
from corral.state_dir import cluster_dir

OnRow = Callable[[Progress], None]
HISTORY: Final = "bench.jsonl"
ENOUGH: Final = 3
"""Earlier measurements that make a reference."""
_PAIR_GPU: Final = 256 << 20
_PAIR_CPU: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """What to measure.

    Attributes:
        collectives: names out of ``MEASURES``.
        nodes: how many; 0: all of the partition.
        smallest: first size in bytes.
        largest: last size in bytes; no buffer takes more than a quarter of the free memory.
        type: float32, float16 or bfloat16.
        partition: "" for the default one.
        time: limit for the job, in Slurm's or Corral's grammar.
        nccl_tests: folder of nccl-tests' programs on the nodes, or in the container, used instead
            of Corral's own.
        container: image that the ranks run in by Pyxis, "" for none.
        spoil: rank that damages one element of each result, to see it found; -1: none.
    """

    collectives: tuple[str, ...] = MEASURES
    nodes: int = 0
    smallest: int = 1 << 20
    largest: int = 1 << 30
    type: str = "float32"
    partition: str = ""
    time: str = "30m"
    nccl_tests: str = ""
    spoil: int = -1
    container: str = ""


@dataclass(frozen=True, slots=True)
class Benched:
    """A measurement through Slurm: verdicts, pairs and halves of the nodes, likely causes."""

    job: int
    nodes: str
    benchmark: Benchmark
    pairs: tuple[Pair, ...] = ()
    causes: tuple[Diagnosis, ...] = ()
    halves: tuple[Half, ...] = ()

    @property
    def bisected(self) -> Bisected:
        """Which half is slow, and of that which half."""
        return bisected(self.halves)

    @property
    def slow(self) -> Slow:
        """What stands out among the pairs."""
        return slow(self.pairs)

    def as_dict(self) -> dict[str, object]:
        """Job and nodes, the benchmark, and the figures of pairs and halves."""
        return {
            "job": self.job,
            "nodes": self.nodes,
            **self.benchmark.as_dict(),
            "pairs": [asdict(pair) for pair in self.pairs],
            "causes": [cause.as_dict() for cause in self.causes],
            "halves": [asdict(half) for half in self.halves],
            "slow_half": list(self.bisected.nodes),
            "slow_nodes": list(self.slow.nodes),
            "slow_links": [[pair.first, pair.second] for pair in self.slow.links],
        }


async def run_bench(
    spec: ClusterSpec,
    request: BenchRequest,
    known: Known | None = None,
    emit: Emit = ignore,
    *,
    on_row: OnRow = lambda _: None,
    on_submit: Callable[[JobHandle], None] = lambda _: None,
) -> Benched:
    """Measure collectives with one rank per GPU, or per node (gloo) where there are none.

    Args:
        spec: the cluster.
        request: what to measure.
        known: what to compare with; None: what the declared data network should reach.
        emit: receives the job's states.
        on_row: called with each size as it was measured.
        on_submit: called once Slurm has the job.

    Raises:
        CorralError: USAGE, it cannot be measured so; COMMAND_FAILED, the job failed; PARSE_FAILED,
            it gave no table; and what ``run`` raises.
    """
    job, gpus = bench_job(spec, request)
    if request.nccl_tests and job.nodes > 1:
        job = await _with_mpi(spec, job)
    given = given_or_declared(spec, known, nodes=job.nodes, gpus=gpus)
    for name in request.collectives:
        refuse_unreachable(Collective(name), given, job.nodes)
    lines: list[str] = []

    reports = JobReports()

    def on_line(line: queue.RankLine) -> None:
        text = reports.line(line).text
        lines.append(text)
        row = progress_of(text)
        if row is not None:
            on_row(row)

    job = reports.job(job)
    outcome = await batch.run(spec, job, emit, on_line=on_line, on_submit=on_submit)
    if not isinstance(outcome, queue.JobOutcome):
        raise TypeError("a benchmark is not an array")
    if not outcome.good:
        raise _failed(request, outcome, lines)
    if request.nccl_tests:
        reading, pairs = _one_table(read("\n".join(lines)), job.nodes), ()
    else:
        reading, pairs = read_program(lines)
    verdicts = judged(reading, given)
    causes = () if verdicts.good else _likely(lines)
    halves = read_halves(lines)
    measurement = Benched(outcome.id, outcome.nodes, verdicts, pairs, causes, halves)
    keep(spec.name, request, measurement)
    return measurement


def bench_job(spec: ClusterSpec, request: BenchRequest) -> tuple[JobSpec, int]:
    """The job that measures, and the GPUs it takes of each node.

    Raises:
        CorralError: USAGE.
    """
    groups = batch.groups_of(spec, request.partition)
    gpus = min(group.computing_gpus for group in groups)
    most = sum(len(expand(group.nodes)) for group in groups)
    nodes = request.nodes or most
    unknown = sorted(set(request.collectives) - set(MEASURES))
    if unknown or not request.collectives:
        raise _usage(
            f"no collective is called {', '.join(unknown)}", f"one of {', '.join(MEASURES)}"
        )
    if not 0 < request.smallest <= request.largest:
        raise _usage("--smallest is above --largest", "such as --smallest 1M --largest 1G")
    if nodes * max(1, gpus) < 2:  # noqa: PLR2004
        raise _usage("a collective needs two ranks: this is one node with one GPU at most", "")
    fields: dict[str, Any] = {
        "name": "corral-bench",
        "folder": "none",
        "nodes": nodes,
        "gpus_per_node": gpus,
        "partition": request.partition or None,
        "time": request.time,
        "env": {"NCCL_DEBUG": "INFO"} if gpus else {},
        "container": request.container or None,
    }
    if request.nccl_tests:
        return batch.job_spec(fields | _nccl_tests(request, nodes, gpus)), gpus
    apart = min(request.largest, _PAIR_GPU if gpus else _PAIR_CPU) if nodes > 2 else 0  # noqa: PLR2004
    args = {
        "--collectives": ",".join(request.collectives),
        "--smallest": request.smallest,
        "--largest": request.largest,
        "--type": request.type,
        "--apart": apart,
        "--spoil": request.spoil,
    }
    words = tuple(f"{name}={value}" for name, value in args.items())
    # Its folder is uploaded: halves.py is in it.
    own = {"script": str(PROGRAM), "args": words, "folder": str(PROGRAM.parent)}
    return batch.job_spec(fields | own), gpus


def given_or_declared(spec: ClusterSpec, known: Known | None, *, nodes: int, gpus: int) -> Known:
    """What to compare with: what was given, and for the rest what the file declares."""
    given = known or Known()
    usual = usual_of(spec, nodes)
    given = replace(given, nodes=given.nodes or nodes, usual=usual, gloo=not gpus)
    return with_declared(given, spec.network.data, nodes=nodes, gpus=gpus)


def bench_history(name: str) -> tuple[Mapping[str, Any], ...]:
    """Earlier measurements of collectives, oldest first: ``Benched.as_dict``, ``at``, ``kind``."""
    return tuple(record for record in all_measured(name) if record["kind"] == "bench")


def all_measured(name: str) -> tuple[Mapping[str, Any], ...]:
    """All earlier measurements of a cluster, oldest first, with ``at`` and ``kind``.

    Kind is bench (collectives, as ``Benched.as_dict``), network, storage, gpu or scaling (as
    ``Measured.as_dict``). Records that cannot be read are left out.
    """
    shapes = {"bench": "tables", **dict.fromkeys(TITLES, "remarks")}
    return tuple(
        record
        for record in read_journal(cluster_dir(name, create=False) / HISTORY)
        if isinstance(record.get(shapes.get(str(record.get("kind")), "")), list)
    )


def usual_of(spec: ClusterSpec, nodes: int) -> dict[Collective, float]:
    """GB/s that each collective reached on so many nodes before: medians of what did not fail.

    Empty where too little was measured, and for nodes in containers, whose links are this
    machine's memory and whoever else uses it.
    """
    if all(group.capabilities.containers for group in spec.groups):
        return {}
    by_collective: dict[Collective, list[float]] = {}
    for record in bench_history(spec.name):
        for table in record["tables"]:
            if table["nodes"] == nodes and table["outcome"] != Outcome.FAIL and table["collective"]:
                by_collective.setdefault(Collective(table["collective"]), []).append(
                    table["busbw_gb_s"]
                )
    return {name: median(rates) for name, rates in by_collective.items() if len(rates) >= ENOUGH}


def _nccl_tests(request: BenchRequest, nodes: int, gpus: int) -> dict[str, Any]:
    if len(request.collectives) != 1:
        raise _usage("nccl-tests measures one collective at a time", "--collectives all_reduce")
    name = {"all_to_all": "alltoall"}.get(request.collectives[0], request.collectives[0])
    kinds = {"float32": "float", "float16": "half", "bfloat16": "bfloat16"}
    # One node: one process with all its GPUs, which needs no MPI. Several: one for each GPU.
    threads, ranks = (max(1, gpus), 1) if nodes == 1 else (1, max(1, gpus))
    return {
        "script": str(PROGRAM.with_name("exec.sh")),
        "args": (
            str(PurePosixPath(request.nccl_tests) / f"{name}_perf"),
            *("-b", str(request.smallest), "-e", str(request.largest), "-f", "2"),
            *("-g", str(threads), "-d", kinds[request.type]),
        ),
        "ranks_per_node": ranks,
    }


async def _with_mpi(spec: ClusterSpec, job: JobSpec) -> JobSpec:
    """The job with Slurm as the starter of its MPI.

    Raises:
        CorralError: USAGE, Slurm was built without PMIx and PMI2.
    """
    async with await Connection.open(spec) as session:
        session.require_running()
        answer = await session.fleet.run(session.controller, MPI.shell, timeout=30)
    kinds = MPI.parse(answer.stdout)
    mpi = next((kind for kind in ("pmix", "pmi2") if kind in kinds), "")
    if not mpi:
        raise _usage(
            "this Slurm starts no MPI: it has neither pmix nor pmi2",
            "leave out --nccl-tests: Corral's own benchmark needs no MPI",
        )
    # srun reads it as --mpi (srun(1), INPUT ENVIRONMENT VARIABLES). A JobSpec of a user may hold no
    # SLURM_* variable, so it is added after the check.
    return job.model_copy(update={"env": {**job.env, "SLURM_MPI_TYPE": mpi}})


def _one_table(reading: Reading, nodes: int) -> Reading:
    if nodes > 1 and len(reading.tables) > 1:
        raise CorralError(
            Code.COMMAND_FAILED,
            f"nccl-tests printed {len(reading.tables)} tables: each process measured alone",
            hint="build it with MPI=1, against an MPI that speaks Slurm's PMIx or PMI2",
        )
    return reading


def _failed(request: BenchRequest, outcome: queue.JobOutcome, lines: list[str]) -> CorralError:
    failed = outcome.failed
    causes = _likely(lines)
    where = "in its image" if request.container else "on its nodes"
    needs = f"nccl-tests in {request.nccl_tests}" if request.nccl_tests else "python3 with PyTorch"
    hint = f"corral logs {outcome.id} has all of it; it needs {needs} {where}"
    if causes:
        first = causes[0].failure
        hint = f"{first.id} {first.title}: {first.fix}; corral logs {outcome.id} has all of it"
    return CorralError(
        Code.COMMAND_FAILED,
        f"the benchmark's job {outcome.id} ended as {outcome.state.value}",
        node=failed.node if failed else "",
        tail=failed.tail if failed and failed.tail else "\n".join(lines[-20:]),
        hint=hint,
    )


def _likely(lines: list[str]) -> tuple[Diagnosis, ...]:
    """First causes of what the job printed, without what follows from them."""
    text = "\n".join(lines)
    findings = report(shown(text, Source.JOB)).findings
    if not transport_of(text).within_nodes:
        return findings
    # NCCL names a network in any case; nothing went over it.
    return tuple(f for f in findings if f.failure.name != "silent-socket-fallback")


def keep(name: str, request: BenchRequest, measurement: Benched) -> None:
    """Write a measurement, with its plots, to a cluster's history."""
    journal = Journal(cluster_dir(name) / HISTORY, f"job-{measurement.job}")
    charts: list[Chart] = [*bench_charts(measurement.benchmark.tables)]
    if measurement.pairs:
        charts.append(pair_matrix(measurement.pairs, measurement.slow.usual))
    drawn = [chart.as_dict() for chart in charts]
    journal.write("bench", {"request": asdict(request), **measurement.as_dict(), "charts": drawn})


def _usage(what: str, hint: str) -> CorralError:
    return CorralError(Code.USAGE, what, hint=hint)
