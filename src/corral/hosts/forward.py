"""Forwards connections on this machine, as ``ssh -L`` does to another: ends with its input.

    python -m corral.hosts.forward NEAR FAR [NEAR FAR...]

NEAR: the path of a socket, for this user alone, or HOST:PORT. FAR: HOST:PORT,
an IPv6 address in brackets.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

CHUNK = 1 << 16
UP = "corral-tunnel-up"
"""The line on standard output once it listens; a tunnel by ssh has the same."""


async def forward(pairs: Sequence[tuple[str, str]]) -> None:
    """Listen on the first of each pair, until standard input ends."""
    async with contextlib.AsyncExitStack() as stack:
        for near, far in pairs:
            await stack.enter_async_context(await _listen(near, far))
        print(UP, flush=True)
        await asyncio.to_thread(sys.stdin.buffer.read)


async def _listen(near: str, far: str) -> asyncio.Server:
    host, _, port = far.rpartition(":")
    host = host.strip("[]")

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_copy(reader, back))
                both.create_task(_copy(there, writer))
        except* OSError:  # one side is gone: the other would wait for it without end
            _reset(back)
            _reset(writer)
        finally:
            back.close()
            writer.close()

    if near.startswith("/"):
        Path(near).unlink(missing_ok=True)  # noqa: ASYNC240  # one local file
        before = os.umask(0o177)
        try:
            return await asyncio.start_unix_server(accept, near)
        finally:
            os.umask(before)
    address, _, number = near.rpartition(":")
    return await asyncio.start_server(accept, address, int(number))


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Copy to the end, and pass the end on: the other direction may have more to come.

    Raises:
        OSError: one of the connections is broken.
    """
    while data := await source.read(CHUNK):
        sink.write(data)
        await sink.drain()
    sink.write_eof()


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection so that its other end sees a failure, where the network can: no end."""
    with contextlib.suppress(OSError):
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


if __name__ == "__main__":
    words = sys.argv[1:]
    asyncio.run(forward(list(zip(words[::2], words[1::2], strict=True))))
