"""Jump hosts: the chain that a cluster file names, and one connection to each for all nodes behind.

A jump host is pinned as a node is, under a separate name (``SshTarget.alias``). It is logged in
to once: 64 nodes that each opened a login there would be dropped by its sshd (MaxStartups, ten
unfinished ones). docs/decisions/0014.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Protocol

from corral.errors import Code, CorralError
from corral.hosts.target import SSH_PORT, SshTarget

FORGET_S: Final = 2.0
"""A login that just failed is not tried again for each of the nodes that waited for it."""


def chain(text: str, known_hosts: Path | None) -> SshTarget | None:
    """The jump hosts of ``ssh.jump``, the last one, each with the one before as its ``via``.

    Args:
        text: ``[user@]host[:port]``, several with commas between; "" for none.
        known_hosts: the file of the cluster's pins.
    """
    last: SshTarget | None = None
    for hop in text.split(",") if text else ():
        user, _, place = hop.rpartition("@")
        host, _, port = place.partition(":")
        last = SshTarget(
            host,
            port=int(port) if port else SSH_PORT,
            user=user,
            known_hosts=known_hosts,
            user_config=True,
            pin_new=True,
            only_key=False,
            via=last,
        )
    return last


def along(target: SshTarget) -> tuple[SshTarget, ...]:
    """The jump hosts on the way to a target, in the order in which they are passed."""
    return () if target.via is None else (*along(target.via), target.via)


class Connection(Protocol):
    """What a hop needs of ``openssh.OpenSSH``."""

    async def connect(self) -> None:
        """Have it open."""
        ...

    async def renew(self) -> bool:
        """Give it up if another process opened it and nothing has come through it here."""
        ...

    def trust(self) -> None:
        """Something came through it."""
        ...


class Hop:
    """The one connection to a jump host.

    Args:
        target: how it is reached.
        connection: to it.
    """

    def __init__(self, target: SshTarget, connection: Connection) -> None:
        self._target = target
        self._connection = connection
        self._lock = asyncio.Lock()
        self._failed: tuple[float, CorralError] | None = None
        self._renewed = 0

    async def ready(self) -> int:
        """Have the connection open; how often it was given up before.

        Raises:
            CorralError: as ``OpenSSH.connect``, in words about the jump host.
        """
        async with self._lock:
            now = asyncio.get_running_loop().time
            if self._failed and now() - self._failed[0] < FORGET_S:
                raise self._of_hop(self._failed[1])
            try:
                await self._connection.connect()
            except CorralError as error:
                self._failed = (now(), error)
                raise self._of_hop(error) from error
            self._failed = None
            return self._renewed

    async def through(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do what needs the connection; once more when it was an old, broken one."""
        seen = await self.ready()
        try:
            await work()
        except CorralError as error:
            if error.code is Code.HOST_KEY_CHANGED or not await self._renew(seen):
                raise
            await self.ready()
            await work()
        self._connection.trust()

    async def _renew(self, seen: int) -> bool:
        async with self._lock:
            if self._renewed == seen:
                if not await self._connection.renew():
                    return False
                self._renewed += 1
            return True

    def _of_hop(self, error: CorralError) -> CorralError:
        """The error as each node behind it reports it."""
        hop_error = copy.copy(error)
        hop_error.node = ""
        words = f"jump host {self._target.address}: "
        hop_error.message = words + error.message.removeprefix(words)
        if error.code is Code.HOST_KEY_CHANGED:
            hop_error.hint = error.hint.replace(self._target.alias, self._target.address)
        return hop_error
