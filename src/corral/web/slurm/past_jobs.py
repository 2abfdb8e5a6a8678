"""Jobs that slurmctld has forgotten, out of accounting: asked on demand only, kept a minute.

Each viewer's own token asks, so that Slurm decides what it shows (PrivateData); an answer is kept
for the user who asked only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from corral.errors import Code, CorralError
from corral.slurm.job_use import JobUse
from corral.slurm.records import Job
from corral.slurm.rest.past_jobs import Past, job_of, settled
from corral.web.slurm.slurmrest import Login, Slurm

T = TypeVar("T")
KEEP_S: Final = 60.0
KEEP_TROUBLE_S: Final = 10.0
MOST_KEPT: Final = 64
"""Answers of some 2 MB each."""
AT_ONCE: Final = 2
"""Questions to accounting, of all viewers together: each may read much of its database."""
PATIENCE_S: Final = 45.0


@dataclass(slots=True)
class _Kept:
    """One viewer's answer to one question; the last one that had jobs, and when that was."""

    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    until: float = 0.0
    answer: Past | CorralError | None = None
    last: tuple[Job, ...] = ()
    at: float = 0.0


class PastJobs:
    """Asks accounting, and remembers its answers for a while.

    Args:
        rest: how Slurm is asked.
        spare: how else, where that has no accounting (an old slurmrestd); None: not at all.
        clock: seconds that only grow.
        uncounted: whether the cluster may have GPUs that accounting does not count.
    """

    def __init__(
        self,
        rest: Slurm,
        spare: Slurm | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        uncounted: Callable[[], bool] = lambda: True,
    ) -> None:
        self._rest = rest
        self._spare = spare
        self._clock = clock
        self._uncounted = uncounted
        self._kept: dict[tuple[str, int, str], _Kept] = {}
        self._few = asyncio.Semaphore(AT_ONCE)

    async def ended(self, login: Login, days: int, user: str) -> Past:
        """Jobs that ended in the last days; of one user, or "" for all that the viewer may see.

        Raises:
            CorralError: NOT_FOUND, without accounting; else it does not answer.
        """
        key = (login.user, days, user)
        kept = self._kept.pop(key, None) or _Kept()
        self._kept[key] = kept  # the last one asked for is the last one forgotten
        while len(self._kept) > MOST_KEPT:
            self._kept.pop(next(iter(self._kept)))
        async with kept.asking:
            if self._clock() >= kept.until:
                kept.answer, lasts = await self._past(login, days, user)
                kept.until = self._clock() + lasts
                if isinstance(kept.answer, Past):
                    kept.last, kept.at = kept.answer.jobs, time.time()
        if isinstance(kept.answer, Past):
            return kept.answer
        raise kept.answer or _slow()

    async def job(self, login: Login, job_id: int) -> Job | None:
        """One job; None where accounting does not know it, or there is none.

        Raises:
            CorralError: accounting does not answer.
        """
        try:
            job = job_of(await self.ask(lambda slurm: slurm.past_tasks(login, job_id)), job_id)
            return job and settled(Past((job,)), uncounted=self._uncounted()).jobs[0]
        except CorralError as error:
            if error.code is Code.NOT_FOUND:
                return None
            raise

    def kept(self, login: Login, job_id: int) -> tuple[Job, float] | None:
        """A job as one of the viewer's lists had it last, and when that was; asks nobody."""
        lists = sorted(
            (kept for (user, *_), kept in self._kept.items() if user == login.user),
            key=lambda kept: kept.at,
            reverse=True,
        )
        jobs = ((job_of(kept.last, job_id), kept.at) for kept in lists)
        return next(((job, at) for job, at in jobs if job), None)

    async def tasks(self, login: Login, array: int) -> tuple[Job, ...]:
        """The tasks of an array.

        Raises:
            CorralError: accounting does not answer, or there is none.
        """
        return await self.ask(lambda slurm: slurm.past_tasks(login, array))

    async def use(self, login: Login, job_id: int) -> JobUse:
        """What an ended job used.

        Raises:
            CorralError: accounting does not answer, or there is none.
        """
        return await self.ask(lambda slurm: slurm.past_use(login, job_id))

    async def _past(self, login: Login, days: int, user: str) -> tuple[Past | CorralError, float]:
        try:
            past = await self.ask(lambda slurm: slurm.past(login, days, user))
            return settled(past, uncounted=self._uncounted()), KEEP_S
        except CorralError as error:
            return error, KEEP_TROUBLE_S

    async def ask(self, question: Callable[[Slurm], Awaitable[T]]) -> T:
        """The answer of accounting, by REST or, where that has none, by command; not kept.

        Raises:
            CorralError: TIMED_OUT; NOT_FOUND, there is no accounting.
        """
        try:
            async with asyncio.timeout(PATIENCE_S), self._few:  # the wait for a place counts too
                return await self._either(question)
        except TimeoutError as error:
            raise _slow() from error

    async def _either(self, question: Callable[[Slurm], Awaitable[T]]) -> T:
        try:
            return await question(self._rest)
        except CorralError as error:
            if error.code is not Code.NOT_FOUND or self._spare is None:
                raise
        return await question(self._spare)


def _slow() -> CorralError:
    return CorralError(
        Code.TIMED_OUT,
        f"accounting does not answer within {PATIENCE_S:g} s",
        hint="ask for a shorter period, or for your own jobs",
    )
