"""A poller for all viewers, or one for each user where Slurm hides users from each other.

It asks Slurm, finds what changed, and sends it to its viewers. It works with the token of somebody
who is logged in, or of an API token in use, and asks while there are viewers, or requests. Calls to
slurmctld depend on its own speed and on the number of pollers, never on the number of viewers.

Where Slurm hides users from each other, operators and administrators have one poller: slurmctld and
slurmdbd exempt them from all of PrivateData (``validate_operator``, 22.05 to 26.05). Other users
have one each, with the own token, as only Slurm knows whose coordinator somebody is. Nodes and
partitions are read once for all of them, unless these are what is hidden.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final, Protocol
from weakref import WeakSet

from corral.errors import Code, CorralError
from corral.slurm.tres import listed
from corral.web.slurm.readers.jobs import JobChanges, JobReader
from corral.web.slurm.readers.nodes import NodeReader
from corral.web.slurm.slurmrest import Login, Slurm, dumps
from corral.web.slurm.snapshot import Snapshot, delta

SLOWEST_S: Final = 30.0
BACK_OFF: Final = 4.0
"""Pause after a poll, as a multiple of the time that Slurm took to answer: all polls together never
keep slurmctld busy for more than a fifth of its time. Lists that are read next to them have a share
that is separate (``readers.jobs.REST``)."""
ANSWER_S: Final = 1.5
"""After this time without an answer slurmctld is pinged: it is slow, or a daemon is down."""
NOTICED_S: Final = 5.0
"""A daemon that does not answer is named within this time: ANSWER_S of the rest without a ping, as
much of the poll after it, and the ping's own limit (slurmrest.BRIEF_S)."""
TROUBLE_S: Final = 5.0
"""How often it is asked while Slurm does not answer."""
FRESH_S: Final = 10.0
PATIENCE_S: Final = 0.3
QUEUE: Final = 64
KEEP_S: Final = 15.0
REVISIONS: Final = 1 << 32
"""Of one poller at most."""
SHARED: Final = 0.9
"""What several pollers share is asked for again after this share of their shortest pause."""
OPERATORS: Final = "*operators"
"""The view of operators and administrators; no user has this name."""
OWN_ERROR: Final = "an error in Corral: the page could not read Slurm's answer; its log has why"

log = logging.getLogger(__name__)

Tokens = Callable[[], list[Login]]


class Poller:
    """Keeps one snapshot fresh while there are viewers.

    Args:
        rest: slurmrestd.
        tokens: returns the logins to ask with, best first; none while nobody is logged in.
        fastest: shortest pause between two polls, in seconds.
        max_viewers: live views at once.
        changed: is called with each state and the one before.
        first: the revision it begins with.
        others: seconds that the last polls of others took who also ask now: together they keep
            slurmctld no busier than one.
        nodes: reads nodes for several pollers; None: for this one alone.
        changes: shared with the pollers of other users, whose jobs are hidden from each other.
    """

    def __init__(
        self,
        rest: Slurm,
        tokens: Tokens,
        *,
        fastest: float = 1.0,
        max_viewers: int = 1000,
        changed: Callable[[Snapshot, Snapshot], None] | None = None,
        first: int = 0,
        others: Callable[[], float] = lambda: 0.0,
        nodes: NodeReader | None = None,
        changes: JobChanges | None = None,
    ) -> None:
        self.now = Snapshot(rev=first, nodes_rev=first, jobs_rev=first)
        self._changed = changed
        self._others = others
        self._rest = rest
        self._tokens = tokens
        self._fastest = fastest
        self._max = max_viewers
        self._viewers: set[asyncio.Queue[bytes]] = set()
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._jobs = JobReader(rest, changes)
        self._nodes = nodes or NodeReader(rest, first=first)
        self._gone = False  # a daemon does not answer
        self._looking = asyncio.Lock()
        self._poll: asyncio.Task[Exception | None] | None = None
        self._known = {"nodes": asyncio.Event(), "jobs": asyncio.Event()}
        self.took = 0.0
        self._took = 0.0  # by the poll that goes on

    @property
    def used(self) -> bool:
        """Whether there are viewers, or somebody who is logged in and may come back."""
        polling = self._poll is not None and not self._poll.done()
        return bool(self._viewers) or polling or bool(self._tokens())

    @property
    def watched(self) -> bool:
        """Whether there are viewers, for whom it polls."""
        return bool(self._viewers)

    @property
    def pause(self) -> float:
        """Seconds until the next poll."""
        slow = TROUBLE_S if self.now.trouble else 0.0
        # The others' share is of the same fifth.
        share = self.took * BACK_OFF + self._others() * (BACK_OFF + 1)
        return min(max(self._fastest, share, slow), SLOWEST_S)

    def nudge(self, *jobs: int) -> None:
        """Poll soon: a viewer has just changed something.

        Args:
            jobs: numbers of jobs that were changed, perhaps without another state.
        """
        self._jobs.name(jobs)
        self._jobs.hurry()
        self._wake.set()

    def keep_new(self, jobs: Iterable[int]) -> None:
        """Keep these jobs new for a while: a viewer has them in sight.

        Args:
            jobs: their numbers; those that the viewer may not see are left out.
        """
        self._jobs.keep_new(jobs)

    async def fresh(self, *, jobs: bool = True) -> Snapshot:
        """The snapshot, polled now when it is older than 10 s and there are no viewers.

        A viewer waits at most 0.3 s where a state is known: newer ones come as events.
        Without one this waits for the first poll, of nodes alone where ``jobs`` are not wanted.
        """
        known = self._known["jobs" if jobs else "nodes"]
        if known.is_set() and (self._viewers or time.time() - self.now.seen_at <= FRESH_S):
            return self.now
        if self._poll is None or self._poll.done():
            self._poll = asyncio.create_task(self._polled(), name="poll")
        waits = {self._poll}
        if known.is_set():
            await asyncio.wait(waits, timeout=PATIENCE_S)
            return self.now
        answered = asyncio.create_task(known.wait())
        try:
            await asyncio.wait({*waits, answered}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            answered.cancel()
        if not known.is_set() and (error := await self._poll):  # it has ended
            raise error
        return self.now

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator[asyncio.Queue[bytes]]:
        """A queue of events, as they go to a viewer; polling goes on while one is open.

        Raises:
            CorralError: TOO_MANY viewers.
        """
        if len(self._viewers) >= self._max:
            raise CorralError(Code.TOO_MANY, "too many live views", hint="close some of them")
        queue: asyncio.Queue[bytes] = asyncio.Queue(QUEUE)
        self._viewers.add(queue)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="poller")
        try:
            yield queue
        finally:
            self._viewers.discard(queue)

    async def close(self) -> None:
        """End it."""
        tasks = [task for task in (self._task, self._poll) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._jobs.close()

    async def _run(self) -> None:
        while self._viewers:
            try:
                await self.poll()
                self._wake.clear()
                await self._rested()
            except Exception:  # an error of ours: the task's end would end the news for everybody
                self._failed()
                await asyncio.sleep(TROUBLE_S)

    async def _polled(self) -> Exception | None:
        """Poll; returns an error of ours, which the state then has too."""
        try:
            await self.poll()
        except Exception as error:
            self._failed()
            return error
        return None

    def _failed(self) -> None:
        """Log the error of ours that is being handled, and show that there is one."""
        log.exception("a poll failed")
        try:
            self._is(replace(self.now, trouble=OWN_ERROR))
        except Exception:  # what is called with each state fails, perhaps
            log.exception("the trouble could not be passed on")

    async def _rested(self) -> None:
        """Until the next poll; whether Slurm is there at all is asked in between.

        Where a daemon was gone and answers again the next poll is now.
        """
        end = time.monotonic() + self.pause
        while (left := end - time.monotonic()) > 0:
            try:
                async with asyncio.timeout(min(left, TROUBLE_S if self._gone else ANSWER_S)):
                    await self._wake.wait()
                await asyncio.sleep(0.05)  # what was nudged about reaches slurmctld's answer
                return
            except TimeoutError:
                gone = self._gone
                if left > ANSWER_S and (logins := self._tokens()):
                    await self._ping(logins[0])
                if gone and not self._gone:
                    return

    async def _ping(self, login: Login, asked: asyncio.Task[None] | None = None) -> None:
        """Set the trouble where a daemon does not answer, nor has answered meanwhile."""
        trouble = await self._nodes.silent(login)
        if asked is not None and asked.done() and asked.exception() is None:
            return
        self._gone = bool(trouble)
        if trouble:
            self._is(replace(self.now, trouble=trouble))

    async def poll(self) -> None:
        """Ask Slurm once and send all viewers what changed, as soon as it is known."""
        async with self._looking:
            if logins := self._tokens():
                self._took = 0.0
                await self._first(logins)
                self.took = self._took

    async def _first(self, logins: list[Login]) -> None:
        """Poll with the first login whose token Slurm still takes."""
        trouble = ""
        for login in logins[:3]:
            try:
                return await self._answered(login)
            except CorralError as error:
                trouble = error.message
                if error.code is not Code.LOGIN_REFUSED:
                    silent = await self._nodes.silent(login)
                    self._gone, trouble = bool(silent), silent or trouble
                    self._rest.forget()
                    break
        self._is(replace(self.now, trouble=trouble))
        return None

    async def _answered(self, login: Login) -> None:
        """Poll; while no answer comes, find out whether one can come.

        The question goes on: each one that is given up keeps a thread of slurmrestd for half a
        minute.
        """
        asked = asyncio.create_task(self._asked(login))
        patience = ANSWER_S
        try:
            while not (await asyncio.wait({asked}, timeout=patience))[0]:
                await self._ping(login, asked)
                patience = TROUBLE_S if self.now.trouble else ANSWER_S
        finally:
            asked.cancel()
        await asked
        self._gone = False

    async def _asked(self, login: Login) -> None:
        begin = time.time()
        nodes = await self._nodes.nodes(login, self._add)
        if nodes.now.nodes_rev != self.now.nodes_rev or not self._known["nodes"].is_set():
            now = self.now.with_nodes_of(nodes.now)
            self._is(replace(now, seen_at=nodes.at, release=self._rest.release))
        elif nodes.now.busy_at is not self.now.busy_at:
            self._is(self.now.with_nodes_of(nodes.now))
        self._known["nodes"].set()
        self._is(self.now.with_partitions(await self._nodes.partitions(login, self._add)))
        # Last: what comes after them must not fail, or changed jobs would be lost with it.
        jobs = await self._jobs.read(login, self.now.jobs, self._add)
        now = self.now if jobs is None else self.now.with_jobs(jobs)
        if not now.complete:
            now = replace(now, rev=now.rev + 1, complete=True)
        unread = "; ".join(filter(None, (nodes.unread, self._nodes.unread, self._jobs.unread)))
        age = max(0.0, begin - nodes.at, begin - self._jobs.asked_at)  # of answers to other users
        now = replace(now, seen_at=time.time() - age, jobs_at=self._jobs.complete_at)
        self._is(replace(now, trouble="", unread=unread, release=self._rest.release))
        self._known["jobs"].set()

    def _add(self, seconds: float) -> None:
        self._took += seconds

    def _is(self, now: Snapshot) -> None:
        """Set the state; viewers are notified where it is new.

        They come first: the next state is compared with this one, also where ``changed`` fails.
        """
        before, self.now = self.now, now
        if (now.rev, now.trouble, now.unread) != (before.rev, before.trouble, before.unread):
            self._publish(dumps(delta(before, now)))
        if self._changed is not None:
            self._changed(before, now)

    def _publish(self, event: bytes) -> None:
        for queue in self._viewers:
            if queue.full():  # a viewer who does not read: it starts over from the complete state
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(dumps({"again": True, **self.now.head()}))
            else:
                queue.put_nowait(event)


class Hides(Protocol):
    """What Slurm's PrivateData hides, or may hide; it may change."""

    @property
    def hidden(self) -> bool: ...
    @property
    def nodes_hidden(self) -> bool: ...


Make = Callable[[str, int, NodeReader | None, JobChanges | None], Poller]


class Pollers:
    """One poller for all, or several where Slurm hides users' jobs from each other.

    Args:
        rest: slurmrestd.
        make: makes a poller for a view (``view``), whose revisions begin with a number: they are
            never those of one that was dropped, whose answers may still be kept. Then what it
            shares with the other pollers.
        private: what Slurm hides.
        lasts: what is shared is asked for again after so many seconds.
    """

    def __init__(self, rest: Slurm, make: Make, private: Hides, *, lasts: float = SHARED) -> None:
        self._rest = rest
        self._make = make
        self._private = private
        self._lasts = lasts
        self._made = 0
        self._mode = (False, False)
        self._nodes: NodeReader | None = None
        self._changes: JobChanges | None = None
        self._pollers: dict[str, Poller] = {}
        self._left = WeakSet[Poller]()  # until their viewers notice

    def view(self, user: str, *, operates: bool) -> str:
        """Whose answers a user shares: "" with all, ``OPERATORS`` with these, else the name."""
        if not self._private.hidden:
            return ""
        return OPERATORS if operates else user

    def of(self, user: str, *, operates: bool = False) -> Poller:
        """The poller whose view this user may have."""
        mode = (self._private.hidden, self._private.nodes_hidden)
        if mode != self._mode:  # what was read before may be hidden now
            self._left.update(self._pollers.values())
            self._mode, self._pollers = mode, {}
            self._nodes = self._changes = None
        key = self.view(user, operates=operates)
        if key not in self._pollers:
            self._drop_unused()
            changes = self._changes_of() if key not in {"", OPERATORS} else None
            self._pollers[key] = self._make(key, self._revision(), self._nodes_of(), changes)
        return self._pollers[key]

    def _revision(self) -> int:
        self._made += 1
        return (self._made - 1) * REVISIONS

    def _nodes_of(self) -> NodeReader | None:
        """What all pollers share of nodes; None where that is hidden, or there is one poller."""
        hidden, nodes_hidden = self._mode
        if nodes_hidden or not hidden:
            return None
        if self._nodes is None:
            self._nodes = NodeReader(self._rest, lasts=self._lasts, first=self._revision())
        return self._nodes

    def _changes_of(self) -> JobChanges:
        if self._changes is None:
            self._changes = JobChanges(self._lasts, lambda: self.watched)
        return self._changes

    @property
    def watched(self) -> int:
        """How many of them poll for viewers."""
        return sum(poller.watched for poller in self._pollers.values())

    def took(self, view: str) -> float:
        """Seconds that the last polls for viewers took, apart from those of a view."""
        watched = ((k, poller) for k, poller in self._pollers.items() if poller.watched)
        return sum(poller.took for key, poller in watched if key != view)

    @property
    def counts_gpus(self) -> bool:
        """Whether a node was seen whose TRES have GPUs: Slurm tracks them then for jobs, too."""
        seen = (node for poller in self._pollers.values() for node in poller.now.nodes.values())
        return any(listed(node.tres) is not None for node in seen)

    def _drop_unused(self) -> None:
        """Forget pollers of users who are gone: each holds all jobs and nodes."""
        self._pollers = {k: poller for k, poller in self._pollers.items() if poller.used}

    async def close(self) -> None:
        """End all."""
        for poller in (*self._pollers.values(), *self._left):
            await poller.close()
