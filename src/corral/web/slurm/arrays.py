"""Arrays as one entry of a list of jobs: their tasks, counted by state. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from corral.slurm.array_tasks import array_label, written_tasks
from corral.slurm.records import Job
from corral.web.slurm.snapshot import job_kind

TASKS: Final = 2000
"""Tasks of an array that are listed on its page."""
FAILED: Final = 200
"""Of those that failed."""


MOST_NUMBERS: Final = 4_000_001
"""The most that MaxArraySize may be."""


@dataclass(frozen=True, slots=True)
class Tasks:
    """How many tasks a record of Slurm's stands for; exact: none is left out of its text."""

    count: int
    exact: bool = True


def tasks_of(job: Job) -> Tasks:
    """One task, or those of an array that have not begun, which share one record."""
    label = array_label(job.label)
    if label is None:
        return Tasks(1, exact="[" not in job.label)
    count, exact = label.tasks.counted()
    return Tasks(max(1, count), exact)


def grouped(jobs: Iterable[Job]) -> list[list[Job]]:
    """Jobs of one array together, where the first of them is; any other job alone."""
    return page_of_groups(jobs)[0]


def page_of_groups(
    jobs: Iterable[Job], offset: int = 0, limit: int | None = None
) -> tuple[list[list[Job]], int]:
    """Some of the groups, and how many there are.

    A list is made for an array, and for each job of the page alone: of 50,000 lists the garbage
    collector goes through all that is known, which takes longer than the rest.
    """
    entries, arrays = list[Job | list[Job]](), dict[str, list[Job]]()
    for job in jobs:
        array = job.array
        if not array:
            entries.append(job)
        elif array in arrays:
            arrays[array].append(job)
        else:
            arrays[array] = [job]
            entries.append(arrays[array])
    end = None if limit is None else offset + limit
    page = entries[offset:end]
    return [entry if isinstance(entry, list) else [entry] for entry in page], len(entries)


def array_rows(groups: Iterable[Sequence[Job]]) -> dict[str, dict[str, Any]]:
    """What a list shows of each array, by the number of the job whose row it has."""
    return {str(group[0].id): array_row(group) for group in groups if group[0].array}


def array_row(jobs: Sequence[Job]) -> dict[str, Any]:
    """An array's tasks, counted by state.

    Args:
        jobs: the records of the array that are to be counted.
    """
    counted: Counter[tuple[str, str]] = Counter()
    total, exact = 0, True
    for job in jobs:
        tasks = tasks_of(job)
        counted[job.state, job_kind(job)] += tasks.count
        total += tasks.count
        exact = exact and tasks.exact
    return {
        "array": jobs[0].array,
        "tasks": total,
        "exact": exact,
        "alike": len({(job.gpus, job.cpus) for job in jobs}) == 1,
        "ended": all(job.ended for job in jobs),
        "running": any(job.running for job in jobs),
        "counts": [
            {"state": state, "kind": kind, "count": count}
            for (state, kind), count in counted.most_common()
        ],
    }


def array_tasks_of(jobs: Sequence[Job]) -> dict[str, Any]:
    """What the page of an array shows of it.

    Args:
        jobs: all records of the array that are known.
    """
    labels = [(array_label(job.label), job) for job in jobs]
    begun = [(label.task, job) for label, job in labels if label and label.task is not None]
    tasks = [
        {
            **{"id": job.id, "label": job.label, "task": task},
            **{"state": job.state, "kind": job_kind(job), "waiting": job.waiting},
        }
        for task, job in sorted(begun, key=lambda pair: pair[0])
    ]
    failed = [task for task in tasks if task["kind"] == "bad"]
    row = array_row(jobs)
    return {"array": row, "tasks": tasks[:TASKS], "total": len(tasks), "failed": failed[:FAILED]}


def all_tasks(jobs: Iterable[Job]) -> str:
    """The numbers of an array's tasks as ``--array`` takes them; "" where some are left out."""
    numbers = set[int]()
    for job in jobs:
        label = array_label(job.label)
        if label is None or not label.tasks.exact:
            return ""
        numbers.update(label.tasks.numbers(MOST_NUMBERS))
    return written_tasks(numbers)
