"""Nodes and partitions of a cluster, asked once for all pollers whose users see the same of them.

PrivateData may hide jobs from users and not nodes: then each user's poller asks for the own jobs
alone. Whoever of them is first asks for the nodes, and the others get that answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from corral.errors import Code, CorralError
from corral.slurm.records import Partition
from corral.web.slurm.slurmrest import Login, Slurm
from corral.web.slurm.snapshot import Snapshot

PARTITIONS_S: Final = 60.0
SILENT_S: Final = 1.0
"""So long a ping's answer is that of all who share a reader."""


Spent = Callable[[float], None]
"""Takes the seconds that Slurm kept a question waiting."""


@contextmanager
def timed(rest: Slurm, spent: Spent) -> Generator[None]:
    """Measure what is asked inside, also where it fails.

    No longer than it took itself: other pollers and a list that is read next to it also add what
    they waited.
    """
    waited, begin = rest.waited, time.monotonic()
    try:
        yield
    finally:
        spent(min(rest.waited - waited, time.monotonic() - begin))


@dataclass(frozen=True, slots=True)
class NodesRead:
    """Nodes, as Slurm last reported them.

    Attributes:
        now: nodes, when they were in use, and their revision.
        at: when they were asked for, in unix seconds.
        unread: what of them could not be read, in words.
    """

    now: Snapshot
    at: float
    unread: str


class NodeReader:
    """Reads nodes and partitions, for one poller or for several.

    Args:
        rest: how Slurm is asked.
        lasts: for so many seconds an answer, or a failure, is that of all who ask; 0: of one.
        first: the revision that the nodes begin with.

    Attributes:
        unread: what of the partitions could not be read, in words.
    """

    def __init__(self, rest: Slurm, *, lasts: float = 0.0, first: int = 0) -> None:
        self._rest = rest
        self._lasts = lasts
        self._now = Snapshot(rev=first, nodes_rev=first)
        self._since = 0
        self._unread = ""
        self._at = 0.0
        self._until = float("-inf")  # on the clock
        self._failed: CorralError | None = None
        self._asking = asyncio.Lock()
        self._partitions_at = 0.0
        self._pinging = asyncio.Lock()
        self._silent = ("", float("-inf"))
        self.unread = ""

    async def nodes(self, login: Login, spent: Spent) -> NodesRead:
        """All nodes; those of before are the same mapping, of the same revision.

        Args:
            login: who asks.
            spent: takes what this question took; an answer that is there already takes none.

        Raises:
            CorralError: UNREACHABLE, TIMED_OUT, SLURM_REFUSED; LOGIN_REFUSED, of this login alone.
        """
        async with self._asking:
            if time.monotonic() < self._until:
                if self._failed is not None:
                    raise self._failed
                return NodesRead(self._now, self._at, self._unread)
            at = time.time()
            try:
                with timed(self._rest, spent):
                    await self._ask(login)
            except CorralError as error:
                if error.code is not Code.LOGIN_REFUSED:
                    self._failed, self._until = error, time.monotonic() + self._lasts
                raise
            self._at, self._failed, self._until = at, None, time.monotonic() + self._lasts
            return NodesRead(self._now, at, self._unread)

    async def _ask(self, login: Login) -> None:
        listed = await self._rest.nodes(login, self._since)
        if listed.records is not None:
            self._now = self._now.with_nodes(listed.records)
            self._unread = listed.unread
        self._since = listed.changed_at

    async def partitions(self, login: Login, spent: Spent) -> tuple[Partition, ...]:
        """All partitions, read again after a minute.

        Raises:
            CorralError: as ``nodes``.
        """
        async with self._asking:
            clock = time.monotonic()
            if clock >= self._partitions_at:
                with timed(self._rest, spent):
                    listed = await self._rest.partitions(login)
                self._now = self._now.with_partitions(listed.records or ())
                self.unread = listed.unread
                self._partitions_at = clock + PARTITIONS_S
            return self._now.partitions

    async def silent(self, login: Login) -> str:
        """Which daemon does not answer, in words; "" where slurmctld answers."""
        if not self._lasts:
            return await self._rest.silent(login)
        async with self._pinging:
            trouble, until = self._silent
            if time.monotonic() >= until:
                trouble = await self._rest.silent(login)
                self._silent = trouble, time.monotonic() + SILENT_S
            return trouble
