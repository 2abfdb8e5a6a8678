"""Which jobs ran on which nodes in a time, for the page's timeline. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from corral.errors import CorralError
from corral.slurm.records import Job
from corral.slurm.rest.past_jobs import Past
from corral.spec.slurm.hostlist import expand
from corral.web.slurm.snapshot import job_kind

MOST: Final = 10_000
"""Jobs of one timeline: the newest."""


def timeline(names: Iterable[str], jobs: Iterable[Job], past: Past, since: float) -> dict[str, Any]:
    """The nodes, and the jobs that ran on them since a time, the newest first.

    A job's nodes are runs of positions in ``nodes``, first and last: most jobs are on nodes that
    follow one another, and a job of 1,000 nodes would otherwise send 1,000 names.

    Args:
        names: the nodes that Slurm knows, in its order; those that are gone follow them.
        jobs: what slurmctld knows, which is newer than what accounting has.
        past: what accounting has.
        since: unix seconds.
    """
    known = {job.id: job for job in past.jobs} | {job.id: job for job in jobs}
    chosen = [job for job in known.values() if _ran(job, since)]
    chosen.sort(key=lambda job: (job.start_at or 0, job.id), reverse=True)
    places = {name: place for place, name in enumerate(names)}
    rows = [_row(job, places) for job in chosen[:MOST]]
    oldest = min((job.end_at or since for job in past.jobs), default=since)
    return {
        "nodes": list(places),
        "jobs": [row for row in rows if row["runs"]],
        "cut": (past.cut and oldest > since) or len(chosen) > MOST,
        "complete_from": max(since, oldest) if past.cut else since,
    }


def _ran(job: Job, since: float) -> bool:
    """Whether a job began, and was running after a time."""
    if not job.start_at or not job.nodes or job.waiting:
        return False
    return not job.ended or (job.end_at or 0) >= since


def _row(job: Job, places: dict[str, int]) -> dict[str, Any]:
    return {
        "id": job.id,
        "label": job.label,
        "name": job.name,
        "user": job.user,
        "state": job.state,
        "kind": job_kind(job),
        "start_at": job.start_at,
        "end_at": job.end_at if job.ended else None,
        "runs": _runs([places.setdefault(name, len(places)) for name in _names(job.nodes)]),
    }


def _names(hostlist: str) -> list[str]:
    try:
        return expand(hostlist)
    except CorralError:  # more nodes than any cluster has, or what a later Slurm writes
        return []


def _runs(places: Sequence[int]) -> list[tuple[int, int]]:
    """Positions as runs that follow one another: 0, 1, 2, 7 are 0-2 and 7-7."""
    runs: list[tuple[int, int]] = []
    for place in sorted(places):
        if runs and place <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], place)
        else:
            runs.append((place, place))
    return runs
