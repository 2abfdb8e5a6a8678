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
from corral.web.slurm.node_gpus import given
from corral.web.slurm.snapshot import job_kind

HOUR_S: Final = 3600.0
DAY_S: Final = 86400.0
MIB: Final = 1024.0
MOST: Final = 500
"""Jobs of one answer: the newest. A job with its steps is some 10 kB of accounting."""
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


def newest(jobs: Sequence[Job], days: int, now: float) -> tuple[list[Job], int]:
    """The ended jobs that an answer has, newest first, and how many seconds ago the oldest ended.

    So that accounting is asked for the steps of these alone.
    """
    since = now - days * DAY_S
    recent = [job for job in jobs if job.ended and job.start_at and (job.end_at or 0) >= since]
    recent = sorted(recent, key=lambda job: -(job.end_at or 0))[:MOST]
    oldest = min((job.end_at or 0 for job in recent), default=now)
    return recent, int(now - oldest) + 60


def row(job: Job, use: JobUse | None, busy_gpu_s: float | None) -> dict[str, Any]:
    """One ended job: the shares that it used, and hours that it had and did not use.

    Args:
        job: as accounting has it.
        use: its processors and memory; None where accounting has no samples.
        busy_gpu_s: seconds that its GPUs were busy, of all together; None: not measured.
    """
    length = seconds_of(job, job.end_at or 0.0)
    used = shares(job, length, use, busy_gpu_s)
    return {
        "id": job.id,
        "label": job.label,
        "name": job.name,
        "state": job.state,
        "kind": job_kind(job),
        "end_at": job.end_at,
        "elapsed": length,
        "cpus": job.cpus,
        "gpus": job.gpus or 0,
        "gpus_exact": job.gpus is not None and job.gpus_exact,
        "memory": job.memory,
        "cpu": used.cpu,
        "memory_used": used.memory,
        "gpu": used.gpu,
        "cpu_waste": _waste(used.cpu, job.cpus * length),
        "gpu_waste": _waste(used.gpu, (job.gpus or 0) * length),
        "memory_waste": _waste(used.memory, job.memory / MIB * length),
    }


def _waste(share: float | None, asked: float) -> float | None:
    return None if share is None else max(0.0, 1.0 - share) * asked / HOUR_S


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


def running(job: Job, use: GpuUse, now: float) -> dict[str, Any]:
    """A running job's GPUs: which are idle; ``known`` of them are measured."""
    mine = [place for node in expand(job.nodes) for place in _places(job, node, use)]
    measured = [(place, use.shares[place]) for place in mine if place in use.shares]
    settled = seconds_of(job, now) >= SETTLED_S
    return {
        "id": job.id,
        "label": job.label,
        "name": job.name,
        "start_at": job.start_at,
        "limit": job.limit,
        "cpus": job.cpus,
        "gpus": job.gpus or 0,
        "gpus_exact": job.gpus is not None and job.gpus_exact,
        "known": len(measured),
        "use": sum(share for _, share in measured) / len(measured) if measured else None,
        "idle": [
            {"node": node, "index": index}
            for (node, index), share in measured
            if settled and share < IDLE
        ],
    }


def _places(job: Job, node: str, use: GpuUse) -> list[tuple[str, int]]:
    """A job's GPUs on a node: Slurm's list of them, else those that it has a process on."""
    indices = given(node, job)
    if indices is not None:
        return [(node, index) for index in indices]
    return [place for place, jobs in use.jobs.items() if place[0] == node and str(job.id) in jobs]
