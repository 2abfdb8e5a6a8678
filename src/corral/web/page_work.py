"""What the page computes for viewers, without its server: the door for ``benchmarks``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from corral.slurm.records import Job
from corral.slurm.rest.read import jobs_of
from corral.web.slurm.search import ordered, parse
from corral.web.slurm.slurmrest import dumps
from corral.web.slurm.snapshot import job_rows
from corral.web.tasks.use_case_thread import in_thread


def many_jobs(body: object, version: int, count: int) -> tuple[Job, ...]:
    """So many jobs of 200 users, made of those in an answer of slurmrestd.

    Args:
        body: the answer.
        version: of its API.
        count: how many jobs.
    """
    known = jobs_of(body, version)
    return tuple(
        replace(known[n % len(known)], id=n, user=f"user{n % 200}", name=f"train-{n}")
        for n in range(count)
    )


def first_page(jobs: Sequence[Job], query: str, column: str) -> bytes:
    """The first 100 rows of a viewer's filter, as they are sent."""
    test = parse(query)
    chosen = [job for job in jobs if test(job)]
    return dumps(job_rows(ordered(chosen, column, down=True)[:100]))


def in_own_loop(work: Callable[[], object]) -> Awaitable[None]:
    """Work as the page runs a use case: in a thread with its own event loop."""

    async def use_case(_: object) -> None:
        work()

    return in_thread(use_case)
