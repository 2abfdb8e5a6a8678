"""TCP ports: a free one of this machine, and whether an SSH server answers at one."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Generator
from typing import Final, Self

from corral.errors import Code, CorralError

GREETS_S: Final = 5.0
"""Seconds that an SSH server has to send its first line."""


def free_port() -> int:
    """A port of the loopback that nothing listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class HeldPort:
    """A port of the loopback that no other program gets until it is released.

    It is bound and not listened to: connections are refused. A child process that has ``handle``
    may listen; the port stays held when that process ends.

    Args:
        number: the port; 0 takes a free one.

    Raises:
        CorralError: USAGE, another program has it.
    """

    def __init__(self, number: int = 0) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        # Without SO_REUSEADDR Linux refuses the port of a server that ended within the last 60 s
        # (TIME_WAIT). While it is set another program that sets it too may bind the held port and
        # listen there (seen with Linux 6.18), so it is set for bind alone.
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with _chosen(number) as port:
                self._socket.bind(("127.0.0.1", port))
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        except OSError as error:
            self._socket.close()
            message = f"port {number} is taken: {error.strerror}"
            raise CorralError(Code.USAGE, message, hint="name another with --port") from error
        self.number = int(self._socket.getsockname()[1])

    @property
    def handle(self) -> int:
        """Its descriptor, for a child process that is to listen on it."""
        return self._socket.fileno()

    def refuse(self) -> None:
        """Refuse connections from now on: who listened has ended."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        with contextlib.suppress(OSError):  # nobody has listened on it
            self._socket.shutdown(socket.SHUT_RDWR)

    def release(self) -> None:
        """Let other programs take it now."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.release()


@contextlib.contextmanager
def _chosen(number: int) -> Generator[int]:
    """The port of a number; of 0 a free one, which is nobody else's meanwhile.

    Linux releases a port that it has chosen when its socket no longer listens, and keeps one that
    was bound by its number (SOCK_BINDPORT_LOCK; seen with 6.18).
    """
    if number:
        yield number
        return
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as any_port:
        any_port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        any_port.bind(("127.0.0.1", 0))
        yield int(any_port.getsockname()[1])


async def greets(address: str, port: int) -> bool:
    """True when an SSH server sends its first line."""
    try:
        async with asyncio.timeout(GREETS_S):
            reader, writer = await asyncio.open_connection(address, port)
            try:
                return (await reader.readline()).startswith(b"SSH-")
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False
