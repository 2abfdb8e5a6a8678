"""What Slurm hides of each user from the others: PrivateData of slurm.conf and of slurmdbd.conf.

Answers may be shared by users only where Slurm is known to hide nothing. So what is unknown counts
as hidden: then each user's own token asks, and Slurm decides.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Final, TypeVar

from corral import api
from corral.errors import Code, CorralError
from corral.hosts import process
from corral.runtime.tasks import concurrently
from corral.slurm import command as slurm
from corral.slurm.command import Command
from corral.web.settings import Declared

T = TypeVar("T")
EVERYTHING: Final = frozenset(
    {"accounts", "events", "jobs", "nodes", "partitions", "reservations", "usage", "users"}
)
"""The words of slurm.conf(5) that hide something, 22.05 to 26.05."""
_NOT_OF_NODES: Final = EVERYTHING - {"nodes", "partitions"}
CHECKED_S: Final = 60.0
"""How long an answer is taken as it is: slurm.conf may have been changed meanwhile."""
RETRY_S: Final = 10.0
"""When Slurm is asked again that did not answer; its last answer is kept until then."""
FIRST_S: Final = 2.0
"""How long viewers wait for the first answer, all together."""
COMMAND_S: Final = 20.0
Run = Callable[[tuple[str, ...]], Awaitable[str]]
"""Runs a client command of Slurm's and returns what it printed."""


class PrivateData:
    """Whether Slurm hides users from each other; asked while there are viewers.

    Args:
        run: runs a command; None: Slurm cannot be asked here.
        known: what slurmctld and slurmdbd hide, where that is known already.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        run: Run | None = None,
        *,
        known: Collection[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._slurmctld = self._slurmdbd = None if known is None else frozenset(known)
        self._clock = clock
        self._ask_at = 0.0
        self._asking: asyncio.Task[None] | None = None
        self._patience_ends: float | None = None

    @property
    def hidden(self) -> bool:
        """Slurmctld hides users' jobs or nodes from each other, or may do so."""
        return self._slurmctld is None or bool(self._slurmctld)

    @property
    def nodes_hidden(self) -> bool:
        """Slurmctld hides nodes or partitions, or may do so: a new word may be about them."""
        return self._slurmctld is None or bool(self._slurmctld - _NOT_OF_NODES)

    @property
    def accounting_hidden(self) -> bool:
        """Slurmdbd hides users, accounts or jobs, or may do so."""
        return self._slurmdbd is None or bool(self._slurmdbd)

    def changed(self) -> None:
        """Slurm may have read its configuration again: ask at the next request."""
        self._ask_at = 0.0

    async def checked(self) -> None:
        """Ask where that is due; waits only while nothing is known of slurmctld, and not long."""
        if self._run is None:
            return
        if self._clock() >= self._ask_at and (self._asking is None or self._asking.done()):
            self._ask_at = self._clock() + CHECKED_S
            self._asking = asyncio.create_task(self._asked(self._run), name="PrivateData")
            if self._patience_ends is None:
                self._patience_ends = self._clock() + FIRST_S
        left = (self._patience_ends or 0.0) - self._clock()
        if self._slurmctld is None and self._asking is not None and left > 0:
            await asyncio.wait({self._asking}, timeout=left)

    async def asked(self, command: Command[T]) -> T:
        """What a command prints, of what accounting shows to everybody.

        Raises:
            CorralError: FORBIDDEN, it may hide some of it; else there is none.
        """
        if self._run is None or self.accounting_hidden:
            raise CorralError(Code.FORBIDDEN, "accounting hides users from each other, or may")
        return command.parse(await self._run(command.words))

    async def close(self) -> None:
        """Ask no more."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _asked(self, run: Run) -> None:
        slurmctld, slurmdbd = await concurrently(
            _hides(run, slurm.PRIVATE), _hides(run, slurm.PRIVATE_ACCOUNTING)
        )
        if slurmctld is not None:
            self._slurmctld = slurmctld
        if slurmdbd is not None:
            self._slurmdbd = slurmdbd
        if slurmctld is None:
            self._ask_at = self._clock() + RETRY_S


async def _hides(run: Run, command: Command[frozenset[str] | None]) -> frozenset[str] | None:
    """What a daemon hides; None where it does not answer."""
    try:
        return command.parse(await run(command.words))
    except CorralError:
        return None


def here() -> Run:
    """Runs commands as this process's user: the page's service on the controller."""

    async def run(words: tuple[str, ...]) -> str:
        try:
            ended = await process.run(list(words), timeout=COMMAND_S)
        except (OSError, TimeoutError) as error:
            raise CorralError(Code.UNREACHABLE, f"{words[0]}: {error}") from error
        if ended.status != 0:
            raise CorralError(Code.SLURM_REFUSED, f"{words[0]}: {ended.err.strip()[-300:]}")
        return ended.out

    return run


def on_controller(declared: Declared, user: str) -> Run:
    """Runs commands on the controller as a user: the page of ``corral ui``."""

    async def run(words: tuple[str, ...]) -> str:
        result = await api.slurm_command(declared.spec, user, words)
        if result.status != 0:
            raise CorralError(Code.SLURM_REFUSED, f"{words[0]}: {result.err.strip()[-300:]}")
        return result.out

    return run
