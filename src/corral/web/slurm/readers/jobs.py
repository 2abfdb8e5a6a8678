"""All jobs of a cluster, as new as slurmctld can be asked for them without keeping it busy.

slurmctld has no list of the jobs that changed: ``jobs?update_time=`` is nothing, or all of them
(``_slurm_rpc_dump_jobs``, 22.05 to 26.05). From 5,000 jobs on each poll asks for all jobs' states,
which are a small table, and for each job whose state is another one. What else changes of a job (it
is held, its priority, limit, name, why it is pending, when it may start) is in the complete list
alone. That is read next to the polls, so that news of states never waits for it, and rests so long
that it takes at most a tenth of the time. A job that a viewer changed is asked for at once. Those
that somebody looks at, on their page or in a list, are asked for one by one: so many a poll,
however many look.

A task of an array that begins has a number that is not known yet. The number of its array is asked
for, to which slurmctld answers with all its tasks and with those that have not begun.

Where Slurm hides users' jobs from each other each user's token asks for what that user may see.
Shared is then only that no job changed at all (``JobChanges``).
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from corral.slurm.records import Job
from corral.slurm.rest.stream import Memory
from corral.web.slurm.readers.nodes import Spent, timed
from corral.web.slurm.slurmrest import Listing, Login, Slurm

_NUMBER: Final = re.compile(r"\d+")
BIG: Final = 5000
STATES_FROM: Final = 41
"""The first API version that lists states alone (Slurm 24.05)."""
MAX_SINGLE: Final = 25
"""Jobs asked for one by one; with more the complete list is asked for."""
ALL_JOBS_S: Final = 300.0
"""In a big cluster all jobs are read again after this time at the latest."""
LEAST_S: Final = 10.0
"""Nor sooner than after this: also an answer that nothing changed is a question."""
REST: Final = 9.0
"""Pause after a complete list, as a multiple of the time that it took."""
LOOKED_S: Final = 300.0
"""Somebody looks at a job for so long after its page, or the page of a list, was asked for."""
LOOKED_AGAIN_S: Final = 1.5
"""It is asked for again after this time."""
LOOKED_AT_ONCE: Final = 10
"""Such jobs that one poll asks for: with more each has its turn."""
MOST_LOOKED: Final = 200
LISTS_PER_S: Final = 10
"""Lists of users' own jobs that all users together ask for in a second, at most."""
ASKS_S: Final = 10.0
"""Whose list was not asked for since, has nobody who looks."""


class JobChanges:
    """Whether any job changed, for the readers of users whom Slurm hides from each other.

    slurmctld answers ``update_time`` by one time, that of the last change of all jobs: where it has
    nothing new since then for one user, it has nothing for any other, and no word of a job passes
    from one user to another. So one question a second is enough while nothing changes.

    Args:
        lasts: an answer is good for so many seconds.
        readers: how many have somebody who looks.
    """

    def __init__(self, lasts: float, readers: Callable[[], int]) -> None:
        self._lasts = lasts
        self._readers = readers
        self._since = 0
        self._at = 0.0
        self._until = float("-inf")
        self._asked: dict[object, tuple[int, float]] = {}  # since when, and when last
        self.turn = asyncio.Lock()

    @property
    def spacing(self) -> float:
        """Seconds between two lists of one user."""
        return self._readers() / LISTS_PER_S

    def none_since(self, since: int) -> float:
        """When it was asked whether any job changed, unix seconds; 0: one may have changed."""
        known = since and since >= self._since and time.monotonic() < self._until
        return self._at if known else 0.0

    def oldest(self, reader: object, since: int) -> int:
        """The time to ask with: of all lists that are looked at, when the oldest was read."""
        clock = time.monotonic()
        self._asked = {k: v for k, v in self._asked.items() if clock - v[1] < ASKS_S}
        self._asked[reader] = since, clock
        return min(known for known, _ in self._asked.values())

    def unchanged(self, since: int, at: float) -> None:
        """Nothing changed since then, Slurm answered to a question of ``at`` (unix seconds)."""
        self._since, self._at, self._until = since, at, time.monotonic() + self._lasts


@dataclass(slots=True)
class _Reading:
    """A complete list that is being read.

    Attributes:
        at: when it began, in unix seconds.
        task: gives the jobs, and the seconds that it took.
        newer: jobs that were read one by one meanwhile, by ``_key``; None: it is gone.
    """

    at: float
    task: asyncio.Task[tuple[Listing[Job], float]]
    newer: dict[str, Job | None] = field(default_factory=dict[str, Job | None])


class JobReader:
    """Reads the jobs of one poller.

    Args:
        rest: how Slurm is asked.
        changes: shared with the readers of other users, where Slurm hides these from each other.

    Attributes:
        complete_at: since when nothing of the jobs is older, in unix seconds.
        unread: what of the last complete list could not be read, in words.
        asked_at: the jobs' states are as Slurm reported them then, in unix seconds.
    """

    def __init__(self, rest: Slurm, changes: JobChanges | None = None) -> None:
        self._rest = rest
        self._changes = changes
        self._listed_at = float("-inf")  # on the clock
        self._hurried = False
        self._memory = Memory[Job]()
        self._since = 0
        self._states: dict[str, str] | None = None  # those that the jobs are known to have
        self._reading: _Reading | None = None
        self._next_at = 0.0
        self._complete = float("-inf")  # on the clock, as complete_at
        self._named = set[int]()
        self._looked: dict[int, tuple[float, float]] = {}  # until when, and when asked for last
        self.complete_at = 0.0
        self.unread = ""
        self.asked_at = 0.0

    def hurry(self) -> None:
        """Ask at the next poll, whatever others were answered."""
        self._hurried = True

    def name(self, numbers: Iterable[int]) -> None:
        """Ask for these jobs at the next poll, and for the records of arrays of these numbers."""
        self._named.update(numbers)

    def keep_new(self, numbers: Iterable[int]) -> None:
        """Keep these jobs new for a while: somebody looks at them."""
        until = time.monotonic() + LOOKED_S
        for number in numbers:
            _, asked = self._looked.pop(number, (0.0, float("-inf")))
            self._looked[number] = until, asked
        while len(self._looked) > MOST_LOOKED:
            self._looked.pop(next(iter(self._looked)))

    async def close(self) -> None:
        """Read no more."""
        if self._reading is not None:
            self._reading.task.cancel()
            await asyncio.gather(self._reading.task, return_exceptions=True)

    async def read(
        self, login: Login, known: Mapping[int, Job], spent: Spent
    ) -> tuple[Job, ...] | None:
        """All jobs as they are known now; None where none is another one.

        Args:
            login: who asks.
            known: the jobs as they were last known.
            spent: takes the seconds that Slurm took to answer.
        """
        if self._changes is None or len(known) >= BIG:
            return await self._asked(login, known, self._since, spent)
        if self._is_early():
            return None
        async with self._changes.turn:
            if (at := self._changes.none_since(self._since)) and not (self._hurried or self._named):
                self.asked_at = self.complete_at = at
                return None
            self._hurried = False
            since = self._changes.oldest(self, self._since) if self._since else 0
            jobs = await self._asked(login, known, since, spent)
            self._listed_at = time.monotonic() if jobs is not None else self._listed_at
            return jobs

    def _is_early(self) -> bool:
        """Whether it is the turn of other users' lists."""
        if self._changes is None or self._hurried or self._named:
            return False
        return time.monotonic() - self._listed_at < self._changes.spacing

    async def _asked(
        self, login: Login, known: Mapping[int, Job], since: int, spent: Spent
    ) -> tuple[Job, ...] | None:
        at = time.time()
        with timed(self._rest, spent):
            jobs = await self._read(login, known, since)
        self.asked_at = at
        return jobs

    async def _read(
        self, login: Login, known: Mapping[int, Job], since: int
    ) -> tuple[Job, ...] | None:
        big = len(known) >= BIG and await self._rest.version(login) >= STATES_FROM
        clock = time.monotonic()
        if not big or clock - self._complete >= 2 * ALL_JOBS_S:  # or nobody looked for a while
            return await self._all(login, known, since)
        if clock >= self._next_at and self._reading is None:
            self._begin(login, self._since)
        named = frozenset(self._named)
        ready = self._reading if self._reading and self._reading.task.done() else None
        states = await self._rest.states(login)
        looked = await self._looked_at(login, known)
        if states is self._states and not named and not looked and ready is None:
            return None
        jobs = {_key(job.label): job for job in known.values()}
        other = ready is not None and self._merge(ready, jobs)
        other |= self._put(jobs, looked)
        same = states is self._states and not other
        by_key = {} if same else {_key(label): state for label, state in states.items()}
        if self._changes is None:
            changed = _changed(jobs, by_key)
            changed |= {job.id for job in jobs.values() if job.id in named} if named else set()
        else:  # slurmctld lists the states of all users' jobs to each of them
            changed = _changed(jobs, _of_known(jobs, by_key)) | named
        if len(changed) > MAX_SINGLE:
            return await self._all(login, known, 0)
        other |= await self._single(login, jobs, changed)
        if not same:
            other |= self._left_out(jobs, by_key)
        # Here nothing can fail any more: what was read would be lost with it.
        self._states = states
        self._named -= named
        if ready is not None:
            self._finish(ready)
        return tuple(jobs.values()) if other else None

    async def _all(
        self, login: Login, known: Mapping[int, Job], since: int
    ) -> tuple[Job, ...] | None:
        """The complete list, waited for; one that is being read already is not asked for again.

        What changed after that one began is seen at the next poll. One that has been read is as old
        as its beginning, also where nobody looked since: it is dropped.
        """
        named = frozenset(self._named)
        if self._reading is not None and self._reading.task.done():
            await asyncio.gather(self._reading.task, return_exceptions=True)
            self._reading = None
        own = self._reading is None
        reading = self._reading or self._begin(login, since)
        await asyncio.wait({reading.task})
        jobs = {_key(job.label): job for job in known.values()}
        other = self._merge(reading, jobs)
        self._finish(reading)
        self._states = None
        self._named -= named if own else set()
        return tuple(jobs.values()) if other else None

    def _begin(self, login: Login, since: int) -> _Reading:
        async def listed() -> tuple[Listing[Job], float]:
            begin = time.monotonic()
            jobs = await self._rest.jobs(login, since, self._memory)
            return jobs, time.monotonic() - begin

        task = asyncio.create_task(listed(), name="all jobs")
        self._reading = _Reading(time.time(), task)
        return self._reading

    def _merge(self, reading: _Reading, jobs: dict[str, Job]) -> bool:
        """Replace the jobs by those of a complete list, but for those that are newer.

        Raises:
            CorralError: Slurm refused the list, or did not answer.
        """
        try:
            listed = reading.task.result()[0].records
        except BaseException:
            self._reading, self._next_at = None, time.monotonic() + LEAST_S
            raise
        if listed is None:
            return False
        jobs.clear()
        jobs |= {_key(job.label): job for job in listed}
        for key, job in reading.newer.items():
            if job is None:
                jobs.pop(key, None)
            else:
                jobs[key] = job
        return True

    def _finish(self, reading: _Reading) -> None:
        listed, took = reading.task.result()
        if listed.records is not None:
            self._since, self.unread = listed.changed_at, listed.unread
        elif self._changes is not None:
            self._changes.unchanged(listed.changed_at, reading.at)
        clock = time.monotonic()
        self._next_at = clock + min(max(LEAST_S, took * REST), ALL_JOBS_S)
        self._complete, self.complete_at = clock, reading.at
        self._reading = None

    async def _single(self, login: Login, jobs: dict[str, Job], numbers: set[int]) -> bool:
        """Ask for jobs one by one; of an array all tasks come together."""
        for number in sorted(numbers):
            self._put(jobs, await self._rest.jobs_of(login, number))
        return bool(numbers)

    async def _looked_at(self, login: Login, known: Mapping[int, Job]) -> list[Job]:
        """Those of the jobs that somebody looks at that are others than known.

        The number of an array is left out: slurmctld answers it with all tasks.
        """
        clock = time.monotonic()
        self._looked = {
            number: (until, asked)
            for number, (until, asked) in self._looked.items()
            if until > clock and (job := known.get(number)) is not None and not job.ended
        }
        waiting = [
            number
            for number, (_, asked) in sorted(self._looked.items(), key=lambda pair: pair[1][1])
            if clock - asked >= LOOKED_AGAIN_S and known[number].array != str(number)
        ]
        other = list[Job]()
        for number in waiting[:LOOKED_AT_ONCE]:
            self._looked[number] = self._looked[number][0], clock
            records = await self._rest.jobs_of(login, number)
            other += [job for job in records if job != known.get(job.id)]
        return other

    def _put(self, jobs: dict[str, Job], records: Iterable[Job]) -> bool:
        """Put newer records in their places."""
        put = False
        for job in records:
            put, jobs[_key(job.label)] = True, job
            if self._reading is not None:
                self._reading.newer[_key(job.label)] = job
        return put

    def _left_out(self, jobs: dict[str, Job], states: Mapping[str, str]) -> bool:
        """Leave out jobs that slurmctld has forgotten."""
        gone = [key for key in jobs if key not in states]
        for key in gone:
            del jobs[key]
            if self._reading is not None:
                self._reading.newer[key] = None
        return bool(gone)


def _key(label: str) -> str:
    """A label by which a job of both lists is found: without which tasks of an array are pending.

    They have one record, whose ``12_[4-7%2]`` the list of jobs cuts where it is long.
    """
    return label if "[" not in label else f"{label.partition('[')[0]}["


def _of_known(jobs: Mapping[str, Job], states: Mapping[str, str]) -> dict[str, str]:
    """The states of these jobs, and of tasks of their arrays that are not among them yet."""
    arrays = {job.array for job in jobs.values() if job.array}
    return {
        key: state
        for key, state in states.items()
        if key in jobs or key.partition("_")[0] in arrays
    }


def _changed(jobs: Mapping[str, Job], states: Mapping[str, str]) -> set[int]:
    """The numbers of jobs whose state is another one; of a new task the number of its array."""
    return {
        jobs[key].id if key in jobs else int(number[0])
        for key, state in states.items()
        if (key not in jobs or jobs[key].state != state) and (number := _NUMBER.match(key))
    }
