"""Concurrency: as many one-GPU jobs as there are GPUs run at the same time, one more waits."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from corral.hosts.framing import Inquiry
from corral.hosts.quote import Script, call, sh
from corral.inspect.jobs import QueueColumns, running_on
from corral.inspect.question import Answer, Question, inquiry
from corral.plurals import plural
from corral.prove.context import (
    ProveContext,
    as_user,
    clip,
    failed,
    left_out,
    verdict_of,
    warned,
)
from corral.prove.launch import (
    MEMORY,
    WAIT,
    Batch,
    batches,
    by_limit,
    limit_of,
)
from corral.prove.model import Evidence, Figure, Judgement, Verdict
from corral.prove.survey import Survey, survey
from corral.runtime.tasks import concurrently
from corral.slurm.records import Job
from corral.slurm.states.jobs import JobState
from corral.spec.slurm.hostlist import fold

WAITS: Final = frozenset({"Resources", "Priority"})
NO_DATABASE: Final = frozenset({"InvalidAccount"})
"""What Slurm before 24.11 reports for any pending job, without accounting: its main
scheduler refuses what it cannot look up (``slurm/conf/cluster.py``)."""
JOBS_PER_NODE: Final = 4  # of nodes without GPUs; more jobs would prove no more
_COLUMNS: Final = QueueColumns(("%i", "%T", "%r", "%S", "%e", "%N"))
_OTHERS: Final = ("%u", "%j")
_JOB: Final = 'trap "exit 0" USR1; sleep 100 & wait'


@dataclass(frozen=True, slots=True)
class Slots:
    """What one batch should hold: ``count`` jobs of ``cores`` cores (and one GPU each)."""

    batch: Batch
    count: int
    cores: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Run:
    """What was seen of the jobs of one batch.

    Attributes:
        snapshot: the jobs while all that could ran.
        others: jobs of other users on the same nodes then.
        records: the jobs when all had ended; none where the snapshot is the verdict already.
        unwatched: why nothing is known, "" when something is.
        text: all that was printed.
    """

    snapshot: tuple[Job, ...]
    others: str
    records: tuple[Job, ...]
    unwatched: str
    text: str


def slots_of(batch: Batch, gpus: Mapping[str, int]) -> Slots:
    """How many jobs of which size fill the batch exactly, by the GPUs each node declares."""
    if batch.gpu:
        count = sum(min(gpus.get(node.name, 0), node.cores) for node in batch.nodes)
        return Slots(batch, count, 1, sum(gpus.get(name, 0) for name in batch.names))
    cores = max(-(-node.cores // JOBS_PER_NODE) for node in batch.nodes)
    return Slots(batch, sum(node.cores // cores for node in batch.nodes), cores, 0)


async def slots(ctx: ProveContext) -> Judgement:
    seen = await survey(ctx)
    declared = {n.name: n.group.gpu_count for n in ctx.nodes if n.group.gpu_kinds}
    capacities = [slots_of(batch, declared) for batch in batches(seen.free)]
    capacities = [capacity for capacity in capacities if capacity.gpus] or capacities
    if not capacities:
        return left_out("no idle node")
    waits = WAITS if ctx.spec.slurm.accounting else WAITS | NO_DATABASE
    each = (_run(ctx, seen, i, capacity, waits) for i, capacity in enumerate(capacities))
    runs = await concurrently(*each)
    problems: list[str] = []
    evidence: list[Evidence] = []
    for capacity, result in zip(capacities, runs, strict=True):
        if result.others:
            return left_out(f"other jobs came in between: {clip(result.others)}")
        if result.unwatched:
            shown = Evidence(ctx.controller, "sbatch; squeue", result.text)
            return failed(f"the jobs could not be watched: {result.unwatched}", shown)
        problems += judge_slots(capacity, result.snapshot, result.records, waits)
        evidence.append(_evidence(ctx, capacity, result))
    total = sum(capacity.count for capacity in capacities)
    kind = "one-GPU job" if capacities[0].gpus else "job"
    judged = verdict_of(problems, f"{plural(total, kind)} ran at once, one more waited", *evidence)
    judged = by_limit(judged, limit_of(" ".join(problems)), ctx.user)
    short = sum(capacity.gpus - capacity.count for capacity in capacities if capacity.gpus)
    if judged.verdict is Verdict.PASS and short > 0:
        return warned(f"{short} GPUs stay idle: fewer cores than GPUs on their nodes", *evidence)
    return judged


def others_of(jobs: Iterable[Job], name: str) -> str:
    """Jobs whose name does not hold this one, for people."""
    return "\n".join(f"{job.name} of {job.user}" for job in jobs if name not in job.name)


def judge_slots(
    capacity: Slots,
    snapshot: tuple[Job, ...],
    records: tuple[Job, ...],
    waits: frozenset[str] = WAITS,
) -> list[str]:
    """Just as many run as there are slots, one waits for them, and their times overlap."""
    running = [job for job in snapshot if job.running]
    waiting = [job for job in snapshot if job.state == JobState.PENDING]
    where = fold(capacity.batch.names)
    if len(running) > capacity.count:
        return [f"{len(running)} jobs ran at once on {where}, which has {capacity.count} slots"]
    if len(running) < capacity.count:
        reasons = ", ".join(sorted({job.reason for job in waiting})) or "none waited"
        return [f"{len(running)} of {capacity.count} jobs ran at once on {where} ({reasons})"]
    problems = [
        f"job {job.label} waits for {job.reason}, not for resources"
        for job in waiting
        if job.reason not in waits
    ]
    if len(waiting) != 1:
        problems.append(f"{len(waiting)} jobs waited on {where}, not one")
    by_id = {job.label: job for job in records}
    times = [by_id[job.label] for job in running if job.label in by_id]
    starts = [job.start_at for job in times if job.start_at]
    ends = [job.end_at for job in times if job.end_at]
    if not len(running) == len(starts) == len(ends):
        return [*problems, "the records of the jobs are incomplete"]
    first_end = min(ends)
    if max(starts) > first_end:
        problems.append("by their records the jobs did not overlap in time")
    for job in waiting:
        later = by_id.get(job.label)
        if later is None or not later.start_at or later.start_at < first_end:
            problems.append(f"job {job.label}, which waited, did not run after the others")
    return problems


def _evidence(ctx: ProveContext, capacity: Slots, result: Run) -> Evidence:
    snapshot = result.snapshot
    figures: dict[str, Figure] = {
        "slots": capacity.count,
        "running": sum(r.running for r in snapshot),
        "waiting": sum(r.state == JobState.PENDING for r in snapshot),
        "reason": ", ".join(r.reason for r in snapshot if r.state == JobState.PENDING),
    }
    gres = "--gres=gpu:1 " if capacity.gpus else ""
    command = (
        f"{capacity.count + 1} times: sbatch -p {capacity.batch.partition} {gres}-n 1"
        f" -c {capacity.cores}; squeue -o '{_COLUMNS.format}'"
    )
    return Evidence(ctx.controller, command, result.text, figures)


_PROGRAM: Final = "prove/jobs.sh"
SNAPSHOT: Final = Answer("snapshot", _COLUMNS.read)
_RECORDS: Final = Answer("records", _COLUMNS.read)
_FULL: Final = 3
"""Exit status for a snapshot that is the verdict already: too many or too few jobs run."""


async def _run(
    ctx: ProveContext, seen: Survey, index: int, capacity: Slots, waits: frozenset[str] = WAITS
) -> Run:
    others = running_on(fold(capacity.batch.names), _OTHERS, f"m{secrets.token_hex(8)}")
    name = f"{ctx.job_name}-slots{index}"
    start = _start(name, seen, capacity, waits, round(WAIT + ctx.slack))
    asked = _questions(ctx, name, start, others)
    result = await ctx.control(asked.script, timeout=90.0)
    sections = asked.read(result.stdout)
    texts = sections.texts()
    first = sections.get(SNAPSHOT.name)
    watched = first is not None and first.status in (0, _FULL) and set(texts) == set(asked.names)
    return Run(
        SNAPSHOT.read_or_empty(texts),
        others_of(others.read_or_empty(texts), ctx.job_name),
        _RECORDS.read_or_empty(texts),
        "" if watched else result.stderr.strip()[-200:] or "no output",
        clip(f"{sections.shown()}\n{result.stderr.strip()}"),
    )


def _questions(
    ctx: ProveContext, name: str, start: Script, others: Question[tuple[Job, ...]]
) -> Inquiry:
    """Three steps, framed by root: users choose names of jobs, and see arguments of processes."""
    snapshot = as_user(ctx.user, start)
    end = call(_PROGRAM, "slots_end", name, _COLUMNS.format, round(WAIT + ctx.slack))
    cancel = as_user(ctx.user, sh("scancel -Q -n {name} 2>/dev/null", name=name))
    return inquiry(
        (
            SNAPSHOT.by(sh("( {snapshot} ); full=$?; ( exit $full )", snapshot=snapshot)),
            others,
            _RECORDS.by(sh("[ $full -ne 0 ] || ( {end} )", end=as_user(ctx.user, end))),
        ),
        before=sh("trap {cancel} EXIT", cancel=str(sh("( {c} )", c=cancel))),
    )


def _start(
    name: str, seen: Survey, capacity: Slots, waits: frozenset[str], patience: int
) -> Script:
    """Submit the jobs and wait until as many run as can; prints the queue then."""
    others = [
        name
        for name, node in seen.slurm.items()
        if capacity.batch.partition in node.partitions and name not in capacity.batch.names
    ]
    threads = max(node.threads for node in capacity.batch.nodes)
    return call(
        _PROGRAM,
        "slots_start",
        name,
        _COLUMNS.format,
        capacity.count,
        patience,
        rf"\|{JobState.PENDING}\|({'|'.join(sorted(waits))})\|",
        _FULL,
        _JOB,
        *("-p", capacity.batch.partition, *(("-x", fold(others)) if others else ())),
        *(("--gres=gpu:1",) if capacity.gpus else ()),
        *("-n", 1, "-c", capacity.cores * threads, f"--mem={MEMORY}M", "-t", 3),
    )
