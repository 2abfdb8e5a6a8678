"""What accounting is asked about jobs that ended, by slurmrestd and by sacct. Pure.

The times are sacct(1)'s (``now-7days``): slurmctld's clock counts then, not that of who asks, and
all API versions read them, while v0.0.40 and v0.0.41 refuse a bare number as ``end_time`` (24.11).
With states, accounting gives the jobs that came to one of them in the time asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from corral.slurm.command import Command
from corral.slurm.records import Job, gpus_settled
from corral.slurm.states.jobs import recorded_states
from corral.slurm.text import parse_history, show_history

MOST: Final = 2000
"""Jobs of one period that are kept: the newest. slurmrestd has no such limit."""
FIRST_VERSION: Final = 40
"""The first API version whose accounting is read; older ones name their fields otherwise."""
Params = Mapping[str, str | Sequence[str]]
_EDGES: Final = (0, 1, 3, 7, 15, 30)


@dataclass(frozen=True, slots=True)
class Past:
    """Jobs that ended in a period.

    Attributes:
        jobs: the newest ``MOST``, newest first.
        cut: there are more.
    """

    jobs: tuple[Job, ...]
    cut: bool = False


def windows(days: int) -> tuple[tuple[int, int], ...]:
    """A period in parts, newest first, as days ago: who has enough leaves out the others.

    The parts begin at "now" when each is asked: they overlap by that moment, and lose nothing.
    """
    inner = [edge for edge in _EDGES if edge < days]
    return tuple(zip([*inner[1:], days], inner, strict=True))


def params(window: tuple[int, int], user: str, cluster: str) -> Params:
    """The query of ``/slurmdb/v0.0.NN/jobs``; empty ``user`` or ``cluster``: of all.

    Several states are several parameters: 24.11 takes one with commas for an unknown flag.
    """
    start, end = (_ago(days) for days in window)
    fixed = {"start_time": start, "end_time": end, "skip_steps": "true", "state": recorded_states()}
    return fixed | {k: v for k, v in (("users", user), ("cluster", cluster)) if v}


def measured_params(seconds: int, user: str, cluster: str) -> Params:
    """The query for jobs with their steps, which ended in the last seconds, of one user."""
    fixed = {
        "start_time": ago(seconds),
        "end_time": "now",
        "state": recorded_states(),
        "users": user,
    }
    return fixed | ({"cluster": cluster} if cluster else {})


def ago(seconds: int) -> str:
    """A time before now, as sacct(1) reads it."""
    return f"now-{seconds}seconds"


def command(days: int, user: str, mark: str) -> Command[Past]:
    """Jobs that ended in the last days; of one user, or "" for all.

    Args:
        days: how many.
        user: whose.
        mark: separates fields; letters and digits nobody can know beforehand.
    """
    return _command(
        mark,
        *(f"--starttime={_ago(days)}", "--endtime=now", f"--state={','.join(recorded_states())}"),
        f"--user={user}" if user else "--allusers",
    )


def command_for(job_id: int, mark: str) -> Command[Past]:
    """One job, or the parts of one array; the mark as of ``command``."""
    return _command(mark, f"--jobs={job_id}")


def _command(mark: str, *options: str) -> Command[Past]:
    words = ("env", "SLURM_TIME_FORMAT=%s", *show_history(mark), *options)
    return Command(words, lambda answer: newest(parse_history(answer, mark)))


def _ago(days: int) -> str:
    return f"now-{days}days" if days else "now"


def settled(past: Past, *, uncounted: bool) -> Past:
    """As ``gpus_settled``."""
    return replace(past, jobs=gpus_settled(past.jobs, uncounted=uncounted))


def job_of(jobs: Iterable[Job], number: int) -> Job | None:
    """The job of a number, of it and the tasks of its array; None where it is not among them."""
    return next((job for job in jobs if job.id == number), None)


def newest(jobs: Iterable[Job], most: int = MOST) -> Past:
    """The newest of them; of a job that ran several times the last time."""
    last = dict[int, Job]()
    for job in jobs:
        known = last.get(job.id)
        if known is None or (job.end_at or 0) >= (known.end_at or 0):
            last[job.id] = job
    ordered = sorted(last.values(), key=lambda job: (job.end_at or 0, job.id), reverse=True)
    return Past(tuple(ordered[:most]), len(ordered) > most)
