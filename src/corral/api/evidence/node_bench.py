"""Use cases: measure networks, shared folders and GPUs through Slurm, and judge."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, cast

from corral import agents
from corral.api.evidence.past_proofs import BENCH, keep_proof
from corral.api.workload import batch, queue
from corral.api.workload.job_reports import JobReports
from corral.apply.journal import Journal, read_journal
from corral.doctor.catalog import catalog
from corral.doctor.model import Failure
from corral.errors import Code, CorralError
from corral.events import Emit, ignore
from corral.jobs.handle import JobHandle
from corral.prove.fabric.verdict import Outcome
from corral.prove.measure.gpu import judge_gpus, peer_matrix, read_gpus
from corral.prove.measure.measurement import Measured, Remark
from corral.prove.measure.network import Expected, judge_links, matrix_of, read_links
from corral.prove.measure.storage import judge_shares, medians, read_shares
from corral.prove.model import Proof
from corral.spec.models import ClusterSpec, DataNetwork
from corral.spec.slurm.hostlist import expand
from corral.state_dir import cluster_dir

HISTORY: Final = "bench.jsonl"
PROGRAMS: Final = agents.FOLDER / "benchmarks"
ENOUGH: Final = 3
"""Earlier measurements that make a reference."""


@dataclass(frozen=True, slots=True)
class Where:
    """Where to measure.

    Attributes:
        nodes: how many; 0: all of the partition.
        partition: "" for the default one.
        time: limit for the job, in Slurm's or Corral's grammar.
    """

    nodes: int = 0
    partition: str = ""
    time: str = "30m"


OnSubmit = Callable[[JobHandle], None]
OnText = Callable[[str], None]


async def bench_network(
    spec: ClusterSpec,
    where: Where | None = None,
    emit: Emit = ignore,
    *,
    seconds: float = 1.0,
    streams: int = 4,
    on_line: OnText = lambda _: None,
    on_submit: OnSubmit = lambda _: None,
) -> Measured:
    """Measure each pair of nodes in both directions: throughput, latency, MTU, interface used.

    Disjoint pairs are measured at the same time; what is slow then is measured again alone.

    Args:
        spec: the cluster; ``network.data`` declares the expected rates.
        where: which nodes; None: all of the default partition.
        emit: receives the job's states.
        seconds: of each direction of each pair.
        streams: TCP connections at a time.
        on_line: called with each line that the program prints.
        on_submit: called once Slurm has the job.

    Raises:
        CorralError: USAGE, there is one node; COMMAND_FAILED, the job failed; PARSE_FAILED, it
            gave no result; and what ``run`` raises.
    """
    at = where or Where()
    expected = _expected_network(spec, at)
    args = (
        f"--interface={expected.interface}",
        f"--seconds={seconds}",
        f"--streams={streams}",
        f"--expect={expected.rate}",
    )
    asked = job_of(spec, at, "network", args)
    if asked.nodes < 2:  # noqa: PLR2004
        raise usage("a network measurement needs two nodes: this is one")
    ran = await measure(spec, asked, emit, on_line=on_line, on_submit=on_submit)
    seen = read_links(ran.lines)
    charts = (matrix_of(seen, expected),) if seen.flows else ()
    measurement = ran.measured("network", judge_links(seen, expected), seen.as_dict())
    return keep(spec, replace(measurement, charts=charts), asdict(expected))


async def bench_gpu(
    spec: ClusterSpec,
    where: Where | None = None,
    emit: Emit = ignore,
    *,
    seconds: float = 1.0,
    on_line: OnText = lambda _: None,
    on_submit: OnSubmit = lambda _: None,
) -> Measured:
    """Measure each GPU: matrices, memory, copies, clocks under load, errors.

    Args:
        spec: the cluster.
        where: which nodes; None: all of the default partition that have GPUs.
        emit: receives the job's states.
        seconds: for each thing measured.
        on_line: called with each line that the program prints.
        on_submit: called once Slurm has the job.

    Raises:
        CorralError: USAGE, there is no GPU to measure; COMMAND_FAILED, the job failed;
            PARSE_FAILED, it gave no result; and what ``run`` raises.
    """
    at = where or Where()
    having = [g for g in batch.groups_of(spec, at.partition) if g.gpu is not None]
    if not having:
        raise usage("no node of this partition declares a GPU", "name one with --partition")
    if not any(group.computing_gpus for group in having):
        raise usage(
            "these GPUs are stand-ins: there is nothing to measure",
            "measure on the machines themselves, or write source: host for this machine's GPUs",
        )
    count = min(group.gpu.count for group in having if group.gpu is not None)
    nodes = at.nodes or sum(len(expand(group.nodes)) for group in having)
    args = ("--line", f"--seconds={seconds}")
    fields = {"gpus_per_node": count, "ranks_per_node": 1}
    asked = job_of(spec, replace(at, nodes=nodes), "gpu", args, **fields)
    ran = await measure(spec, asked, emit, on_line=on_line, on_submit=on_submit)
    seen = read_gpus(ran.lines)
    figures = {"nodes": [asdict(node) for node in seen]}
    measurement = ran.measured("gpu", judge_gpus(seen, count), figures)
    charts = tuple(m for m in map(peer_matrix, seen) if m is not None)
    return keep(spec, replace(measurement, charts=charts), {"gpus": count})


@dataclass(frozen=True, slots=True)
class Ran:
    """A measurement's job that came to a good end."""

    outcome: queue.JobOutcome
    lines: tuple[str, ...]

    def measured(
        self, kind: str, remarks: tuple[Remark, ...], figures: Mapping[str, Any]
    ) -> Measured:
        """What was measured, with the job's number and nodes."""
        return Measured(kind, remarks, figures, job=self.outcome.id, nodes=self.outcome.nodes)


async def measure(
    spec: ClusterSpec,
    job: batch.JobSpec,
    emit: Emit,
    *,
    on_line: OnText,
    on_submit: OnSubmit,
) -> Ran:
    """Run a program that measures, to its good end.

    Raises:
        CorralError: COMMAND_FAILED, it ended otherwise; and what ``run`` raises.
    """
    lines: list[str] = []

    reports = JobReports()

    def take(line: queue.RankLine) -> None:
        text = reports.line(line).text
        lines.append(text)
        on_line(text)

    job = reports.job(job)
    outcome = await batch.run(spec, job, emit, on_line=take, on_submit=on_submit)
    if not isinstance(outcome, queue.JobOutcome):
        raise usage("a measurement is one job and no array")
    if not outcome.good:
        failed = outcome.failed
        raise CorralError(
            Code.COMMAND_FAILED,
            f"the measurement's job {outcome.id} ended as {outcome.state.value}",
            node=failed.node if failed else "",
            tail=failed.tail if failed and failed.tail else "\n".join(lines[-20:]),
            hint=f"corral logs {outcome.id} has all of it",
        )
    return Ran(outcome, tuple(lines))


def keep(spec: ClusterSpec, measurement: Measured, expected: Mapping[str, Any]) -> Measured:
    """Write a measurement to the cluster's history, and return it."""
    journal = Journal(cluster_dir(spec.name) / HISTORY, f"job-{measurement.job}")
    journal.write(measurement.kind, {"expected": dict(expected), **measurement.as_dict()})
    keep_proof(as_proof(spec, measurement), BENCH, partial=True)
    return measurement


def as_proof(spec: ClusterSpec, measurement: Measured) -> Proof:
    """A measurement as a proof of one check: for the cluster's history and for pages."""
    command = f"corral bench {measurement.kind} {spec.name}"
    return Proof(spec.name, time.time(), (measurement.as_check(command),))


def causes_of(measurement: Measured) -> tuple[Failure, ...]:
    """What the failure catalogue contains about all that went wrong, each once."""
    bad = (Outcome.FAIL, Outcome.WARN)
    ids = dict.fromkeys(r.failure for r in measurement.remarks if r.failure and r.outcome in bad)
    return tuple(catalog()[failure] for failure in ids)


def measured_before(name: str, kind: str) -> tuple[Mapping[str, Any], ...]:
    """Earlier measurements of one kind, oldest first, as ``Measured.as_dict`` with ``at``."""
    return tuple(
        record
        for record in read_journal(cluster_dir(name, create=False) / HISTORY)
        if record.get("kind") == kind and isinstance(record.get("figures"), dict)
    )


def _expected_network(spec: ClusterSpec, at: Where) -> Expected:
    data = spec.network.data
    expected = Expected() if data is None else _declared(data)
    # Containers share one machine: what they measure is never a reference.
    rented = any(not group.capabilities.containers for group in batch.groups_of(spec, at.partition))
    return replace(expected, usual=_usual(spec.name)) if rented and not expected.gbps else expected


def _declared(data: DataNetwork) -> Expected:
    return Expected(data.interface or "", data.gbps or 0.0, data.fabric, data.mtu or 0)


def _usual(name: str) -> float:
    """Gb/s of a healthy link here: the median of earlier measurements that did not fail."""
    medians: list[float] = []
    for record in measured_before(name, "network"):
        flows = [f for f in record["figures"].get("flows", []) if not f.get("alone")]
        if record.get("good") and flows:
            medians.append(statistics.median(float(f["gbps"]) for f in flows))
    return statistics.median(medians) if len(medians) >= ENOUGH else 0.0


def job_of(
    spec: ClusterSpec, at: Where, program: str, args: Sequence[str], **fields: Any
) -> batch.JobSpec:
    """The job that runs one of the programs, one process per node.

    Raises:
        CorralError: USAGE.
    """
    most = sum(len(expand(group.nodes)) for group in batch.groups_of(spec, at.partition))
    return batch.job_spec(
        {
            "name": f"corral-{program}",
            "script": str(PROGRAMS / f"{program}.py"),
            # The folder is uploaded: programs share modules in it.
            "folder": str(PROGRAMS),
            "args": tuple(args),
            "nodes": at.nodes or most,
            "partition": at.partition or None,
            "time": at.time,
            **fields,
        }
    )


def usage(what: str, hint: str = "") -> CorralError:
    """It cannot be measured so."""
    return CorralError(Code.USAGE, what, hint=hint)


async def bench_storage(
    spec: ClusterSpec,
    where: Where | None = None,
    emit: Emit = ignore,
    *,
    mounts: tuple[str, ...] = (),
    size: int = 256 << 20,
    files: int = 500,
    on_line: OnText = lambda _: None,
    on_submit: OnSubmit = lambda _: None,
) -> Measured:
    """Measure writing, reading and names in each shared folder, from each node and from all.

    Args:
        spec: the cluster.
        where: which nodes; None: all of the default partition.
        emit: receives the job's states.
        mounts: folders; empty: all that the file declares.
        size: bytes of each node's file; no more than a quarter of what is free is taken.
        files: small files of each node.
        on_line: called with each line that the program prints.
        on_submit: called once Slurm has the job.

    Raises:
        CorralError: USAGE, no folder; COMMAND_FAILED, the job failed; PARSE_FAILED, it gave no
            result; and what ``run`` raises.
    """
    declared = tuple(storage.mount for storage in spec.storage)
    unknown = sorted(set(mounts) - set(declared))
    if unknown or not declared:
        raise usage(
            f"no shared folder {', '.join(unknown)} is declared",
            f"declared: {', '.join(declared) or 'none'}",
        )
    chosen = mounts or declared
    args = (*(f"--mount={m}" for m in chosen), f"--bytes={size}", f"--files={files}")
    asked = job_of(spec, where or Where(), "storage", args)
    ran = await measure(spec, asked, emit, on_line=on_line, on_submit=on_submit)
    shares = read_shares(ran.lines)
    usual = {mount: _usual_rates(spec.name, mount, size) for mount in chosen}
    figures = {
        "size": size,
        "shares": [share.as_dict() for share in shares],
        "medians": {mount: medians(shares, mount) for mount in chosen},
    }
    measurement = ran.measured("storage", judge_shares(shares, usual), figures)
    return keep(spec, measurement, {"usual": usual})


def _usual_rates(name: str, mount: str, size: int) -> dict[str, float]:
    """Rates of earlier measurements with files of the same size; empty when there are too few."""
    before = [
        cast("Mapping[str, Any]", record["figures"]["medians"][mount])
        for record in measured_before(name, "storage")
        if record["figures"].get("size") == size and mount in record["figures"].get("medians", {})
    ]
    if len(before) < ENOUGH:
        return {}
    return {rate: statistics.median(float(rates[rate]) for rates in before) for rate in before[0]}
