"""What ended jobs used of what they were given, and how many hours of GPUs and CPUs. Pure.

What was not measured is None, never 0: a job without samples wastes nothing that is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from corral.slurm.job_use import JobUse, shares
from corral.slurm.records import Job
from corral.spec.slurm.hostlist import expand
from corral.web.slurm.arrays import array_row, grouped
from corral.web.slurm.node_gpus import given
from corral.web.slurm.snapshot import job_kind

HOUR_S: Final = 3600.0
DAY_S: Final = 86400.0
MIB: Final = 1024.0
MOST: Final = 500
"""Entries of one answer, an array is one: the newest."""
MEASURED: Final = 1000
"""Jobs and tasks whose use is asked for. One with its steps is some 10 kB of accounting."""
NAMED: Final = 64
"""Idle GPUs of one job or array that an answer names."""
IDLE: Final = 0.05
"""A GPU below that share of its time is idle."""
SETTLED_S: Final = 600.0
"""A job that has run for less may still load its data: none of its GPUs is called idle."""


def seconds_of(job: Job, now: float) -> float:
    """How long a job ran."""
    if job.elapsed is not None and job.ended:
        return float(job.elapsed)
    if not job.start_at or job.waiting:
        return 0.0
    end = job.end_at if job.ended and job.end_at else now
    return max(0.0, end - job.start_at)


def hours(jobs: Iterable[Job], days: int, now: float) -> dict[str, Any]:
    """GPU and CPU hours of a period, of jobs that ended in it or run; clipped to it."""
    since = now - days * DAY_S
    count, gpu, cpu, exact = 0, 0.0, 0.0, True
    for job in jobs:
        if not job.start_at or job.waiting:
            continue
        end = job.end_at if job.ended and job.end_at else now
        length = max(0.0, min(end, now) - max(job.start_at, since)) / HOUR_S
        if not length:
            continue
        count += 1
        cpu += length * job.cpus
        gpu += length * (job.gpus or 0)
        exact = exact and job.gpus is not None and job.gpus_exact
    return {"days": days, "jobs": count, "gpu_hours": gpu, "gpus_exact": exact, "cpu_hours": cpu}


@dataclass(frozen=True, slots=True)
class Ended:
    """Ended jobs of a period, as an answer has them.

    Attributes:
        entries: the newest first, the tasks of one array together.
        measured: the newest of these jobs, whose use is asked for.
        seconds: how long ago the oldest of those ended.
        cut: there are more entries.
    """

    entries: list[list[Job]]
    measured: list[Job]
    seconds: int
    cut: bool


def newest(jobs: Sequence[Job], days: int, now: float) -> Ended:
    """The ended jobs that an answer has, an array as one.

    Accounting is asked for the steps of the newest alone, by the time since the oldest of them.
    """
    since = now - days * DAY_S
    recent = [job for job in jobs if job.ended and job.start_at and (job.end_at or 0) >= since]
    entries = grouped(sorted(recent, key=lambda job: -(job.end_at or 0)))
    shown = entries[:MOST]
    by_end = sorted((job for entry in shown for job in entry), key=lambda job: -(job.end_at or 0))
    measured = by_end[:MEASURED]
    oldest = min((job.end_at or 0 for job in measured), default=now)
    return Ended(shown, measured, int(now - oldest) + 60, len(entries) > MOST)


@dataclass(frozen=True, slots=True)
class _Measure:
    """A share that one task used, of how much, and the hours of it that were not used."""

    share: float
    asked: float

    @property
    def waste(self) -> float:
        return max(0.0, 1.0 - self.share) * self.asked


def row(
    jobs: Sequence[Job], uses: Mapping[int, JobUse], busy: Mapping[int, float]
) -> dict[str, Any]:
    """One ended job, or an array's tasks: the shares that they used, and hours that they did not.

    Of an array shares are means over the tasks that were measured, by their hours.

    Args:
        jobs: as accounting has them, the newest first.
        uses: processors and memory, by number; none of a job where accounting has no samples.
        busy: seconds that GPUs were busy, of all of a job together; none: not measured.
    """
    job, lengths = jobs[0], [seconds_of(job, job.end_at or 0.0) for job in jobs]
    cpu, memory, gpu = list[_Measure](), list[_Measure](), list[_Measure]()
    for task, length in zip(jobs, lengths, strict=True):
        used = shares(task, length, uses.get(task.id), busy.get(task.id))
        hours_ran = length / HOUR_S
        _note(cpu, used.cpu, task.cpus * hours_ran)
        _note(memory, used.memory, task.memory / MIB * hours_ran)
        _note(gpu, used.gpu, (task.gpus or 0) * hours_ran)
    return {
        "id": job.id,
        "label": job.label,
        "name": job.name,
        "state": job.state,
        "kind": job_kind(job),
        "array": array_row(jobs) if job.array else None,
        "measured": len(cpu),
        "end_at": job.end_at,
        "elapsed": sum(lengths),
        "cpus": job.cpus,
        "gpus": job.gpus or 0,
        "gpus_exact": all(task.gpus is not None and task.gpus_exact for task in jobs),
        "memory": job.memory,
        "cpu": _mean(cpu),
        "memory_used": _mean(memory),
        "gpu": _mean(gpu),
        "cpu_waste": _wasted(cpu),
        "gpu_waste": _wasted(gpu),
        "memory_waste": _wasted(memory),
    }


def _note(measures: list[_Measure], share: float | None, asked: float) -> None:
    if share is not None:
        measures.append(_Measure(share, asked))


def _mean(measures: Sequence[_Measure]) -> float | None:
    asked = sum(each.asked for each in measures)
    if len(measures) <= 1 or not asked:
        return measures[0].share if measures else None
    return sum(each.share * each.asked for each in measures) / asked


def _wasted(measures: Sequence[_Measure]) -> float | None:
    return sum(each.waste for each in measures) if measures else None


@dataclass(frozen=True, slots=True)
class GpuUse:
    """Use of the GPUs of some nodes.

    Attributes:
        shares: 0 to 1, by node and GPU.
        jobs: numbers of the jobs with a process there, by node and GPU.
        over_s: it is the mean of so many seconds; 0: of this moment.
    """

    shares: Mapping[tuple[str, int], float]
    jobs: Mapping[tuple[str, int], frozenset[str]]
    over_s: float = 0.0


def running(
    jobs: Sequence[Job], use: GpuUse, now: float, *, together: bool = True
) -> dict[str, Any]:
    """GPUs of a running job, or of an array's tasks: which are idle; ``known`` are measured.

    Args:
        jobs: one, or tasks of one array.
        use: of their GPUs.
        now: unix seconds.
        together: tasks stand for their array, also a single one.
    """
    job, shares_of, idle = jobs[0], list[float](), list[dict[str, Any]]()
    for task in jobs:
        settled = seconds_of(task, now) >= SETTLED_S
        mine = [place for node in expand(task.nodes) for place in _places(task, node, use)]
        for node, index in mine:
            share = use.shares.get((node, index))
            if share is None:
                continue
            shares_of.append(share)
            if settled and share < IDLE:
                idle.append({"node": node, "index": index})
    return {
        "id": job.id,
        "label": job.label,
        "name": job.name,
        "array": array_row(jobs) if together and job.array else None,
        "start_at": min((task.start_at for task in jobs if task.start_at), default=None),
        "limit": job.limit,
        "cpus": sum(task.cpus for task in jobs),
        "gpus": sum(task.gpus or 0 for task in jobs),
        "gpus_exact": all(task.gpus is not None and task.gpus_exact for task in jobs),
        "known": len(shares_of),
        "use": sum(shares_of) / len(shares_of) if shares_of else None,
        "idle": idle[:NAMED],
        "idle_count": len(idle),
    }


def _places(job: Job, node: str, use: GpuUse) -> list[tuple[str, int]]:
    """A job's GPUs on a node: Slurm's list of them, else those that it has a process on."""
    indices = given(node, job)
    if indices is not None:
        return [(node, index) for index in indices]
    return [place for place, jobs in use.jobs.items() if place[0] == node and str(job.id) in jobs]
