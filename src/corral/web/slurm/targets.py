"""What is cancelled where several jobs are chosen: as few requests as they need. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from corral.slurm.records import Job
from corral.web.slurm.arrays import tasks_of

TARGET: Final = r"^[1-9][0-9]{0,9}(_[0-9]{1,9}|_\[[0-9,:%-]{1,400}\]|\+[0-9]{1,4})?$"
_CUT: Final = re.compile(r"\.\.\.|[^0-9_\[\],:%+-]")


@dataclass(frozen=True, slots=True)
class Choice:
    """What a request chooses.

    Attributes:
        targets: as scancel takes them: a job, a task, an array, the pending tasks of one.
        tasks: how many jobs and tasks they stand for; exact: not at least so many.
        users: whose, and how many of each.
        others: jobs of others, which who asks may not cancel, and which are left out.
    """

    targets: tuple[str, ...]
    tasks: int
    exact: bool
    users: Mapping[str, int]
    others: int


def choose(chosen: Iterable[Job], known: Mapping[int, Job], user: str, *, operates: bool) -> Choice:
    """What ends the chosen jobs that have not ended.

    Args:
        chosen: the jobs.
        known: all jobs, of which some belong to the same arrays.
        user: who asks.
        operates: others' jobs too.
    """
    live = [job for job in chosen if not job.ended]
    mine = [job for job in live if operates or job.user == user]
    users: Counter[str] = Counter()
    exact = True
    for job in mine:
        tasks = tasks_of(job)
        users[job.user] += tasks.count
        exact = exact and tasks.exact
    return Choice(
        targets=_targets(mine, known),
        tasks=users.total(),
        exact=exact,
        users=dict(users.most_common()),
        others=sum(tasks_of(job).count for job in live) - users.total(),
    )


def _targets(jobs: list[Job], known: Mapping[int, Job]) -> tuple[str, ...]:
    """An array all of whose live tasks are chosen is one target."""
    live: Counter[str] = Counter(j.array for j in known.values() if j.array and not j.ended)
    chosen: Counter[str] = Counter(job.array for job in jobs if job.array)
    targets = dict[str, None]()
    for job in jobs:
        complete = job.array and chosen[job.array] >= live[job.array]
        targets[job.array if complete else target_of(job)] = None
    return tuple(targets)


def target_of(job: Job) -> str:
    """One job or task by its number; pending tasks of an array by their list.

    The number of their record is the array's: with it all of the array would end.
    """
    if "[" in job.label and not _CUT.search(job.label):
        return job.label
    return str(job.id)


def matching(target: str, known: Mapping[int, Job]) -> list[Job]:
    """The jobs that a target stands for and that have not ended."""
    if target.isdecimal():
        number = int(target)
        job = known.get(number)
        # Slurm ends all of an array where its number is given.
        own = [job] if job is not None and (not job.array or job.array != target) else []
        return own or [j for j in known.values() if j.array == target and not j.ended]
    return [job for job in known.values() if job.label == target]
