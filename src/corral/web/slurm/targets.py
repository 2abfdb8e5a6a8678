"""What is cancelled where several jobs are chosen: as few requests as they need. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from corral.slurm.records import Job
from corral.spec.slurm.hostlist import expand
from corral.web.slurm.arrays import tasks_of

PENDING: Final = ":pending"
"""Behind an array's number: those of its tasks that have not begun, which share one record. That
record has the number of the array, with which all of it ends. slurmrestd of 23.02 ends all of it
for ``12_[3-30]`` too: it reads the number alone (_handle_job_delete, slurmctld/jobs.c)."""
TARGET: Final = r"^[1-9][0-9]{0,9}(:pending|_[0-9]{1,10})?$"


@dataclass(frozen=True, slots=True)
class Choice:
    """What a request chooses.

    Attributes:
        targets: numbers of jobs, of tasks and of complete arrays; ``12:pending``: see ``PENDING``;
            ``12_3``: the last task of an array, whose own number is the array's too.
        tasks: how many jobs and tasks they stand for; exact: not at least so many.
        users: whose, and how many of each.
        others: jobs of others, which who asks may not cancel, and which are left out.
        nodes: where they run.
    """

    targets: tuple[str, ...]
    tasks: int
    exact: bool
    users: Mapping[str, int]
    others: int
    nodes: frozenset[str]


def choose(chosen: Iterable[Job], known: Mapping[int, Job], user: str, *, operates: bool) -> Choice:
    """What ends the chosen jobs that have not ended.

    Args:
        chosen: the jobs.
        known: all jobs, of which some belong to the same arrays.
        user: who asks.
        operates: others' jobs too.
    """
    live = [job for job in chosen if not job.ended]
    permitted = [job for job in live if operates or job.user == user]
    others = sum(tasks_of(job).count for job in live if not operates and job.user != user)
    mine, targets = _targets(permitted, known)
    users: Counter[str] = Counter()
    running = {job.nodes for job in mine if job.nodes and not job.waiting}
    exact = True
    for job in mine:
        tasks = tasks_of(job)
        users[job.user] += tasks.count
        exact = exact and tasks.exact
    return Choice(
        targets=targets,
        tasks=users.total(),
        exact=exact,
        users=dict(users.most_common()),
        others=others,
        nodes=frozenset(name for text in running for name in expand(text)),
    )


def _targets(jobs: list[Job], known: Mapping[int, Job]) -> tuple[list[Job], tuple[str, ...]]:
    """What ends the jobs and no other, and the jobs that this ends.

    An array all of whose live tasks are chosen is one target. The record of tasks that have not
    begun is left out where a task that was requeued is not chosen with it.
    """
    arrays = [job for job in known.values() if job.array and not job.ended]
    live: Counter[str] = Counter(job.array for job in arrays)
    waiting: Counter[str] = Counter(job.array for job in arrays if job.waiting)
    chosen: Counter[str] = Counter(job.array for job in jobs if job.array)
    pending: Counter[str] = Counter(job.array for job in jobs if job.array and job.waiting)
    named, targets = list[Job](), dict[str, None]()
    for job in jobs:
        if job.array and chosen[job.array] >= live[job.array]:
            target = job.array
        elif "[" not in job.label:
            target = job.ref
        elif pending[job.array] >= waiting[job.array]:
            target = job.array + PENDING
        else:
            continue
        named.append(job)
        targets[target] = None
    return named, tuple(targets)


def matching(targets: Iterable[str], known: Mapping[int, Job]) -> dict[str, list[Job]]:
    """The jobs that each target stands for and that have not ended; one pass over all jobs."""
    arrays: defaultdict[str, list[Job]] = defaultdict(list)
    for job in known.values():
        if job.array:
            arrays[job.array].append(job)
    return {target: _matching(target, known, arrays.get) for target in targets}


def _matching(
    target: str, known: Mapping[int, Job], array: Callable[[str], list[Job] | None]
) -> list[Job]:
    if target.endswith(PENDING):
        return [job for job in array(target.removesuffix(PENDING)) or () if job.waiting]
    if "_" in target:
        return [job for job in array(target.partition("_")[0]) or () if job.label == target]
    job = known.get(int(target))
    # Slurm ends all of an array where its number is given.
    if job is not None and job.array != target:
        return [job]
    return [job for job in array(target) or () if not job.ended]
