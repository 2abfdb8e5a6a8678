"""Downloads of who does not read, or reads a little: their places are free again in time."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any, cast

import pytest
import uvicorn

from corral.web.listener.connections import BODY_S, HEADERS_S, Bounded, Waiting
from corral.web.routes.output import BLOCK
from corral.web.routes.streams import LiveView, Streams
from corral.web.state import State

STALL_S = 0.5
Reader = Callable[[asyncio.StreamReader], Any]


def downloads() -> Streams:
    """The places of a server."""
    made: Streams = State.__dataclass_fields__["downloads"].default_factory()  # type: ignore[misc,operator]
    return made


async def nothing(_: asyncio.StreamReader) -> None:
    await asyncio.sleep(60)


async def a_byte_at_a_time(reader: asyncio.StreamReader) -> None:
    byte = b"x"
    while byte:
        byte = await reader.read(1)
        await asyncio.sleep(0.05)


async def until(reached: Callable[[], bool]) -> None:
    while not reached():  # noqa: ASYNC110  # the server sets no event
        await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def serving(places: Streams) -> AsyncGenerator[int]:
    async def source() -> AsyncGenerator[bytes]:
        while True:
            await asyncio.sleep(0)  # a block is read by a process
            yield b"x" * BLOCK

    async def app(scope: Any, receive: Any, send: Any) -> None:
        user = scope["path"].strip("/")
        with contextlib.suppress(Exception):
            await LiveView(places, user, source())(scope, receive, send)

    http = partial(Bounded, Waiting(times=(HEADERS_S, BODY_S, STALL_S)))
    config = uvicorn.Config(app, http=cast("Any", http), lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        task = asyncio.create_task(server.serve([listener]))
        yield listener.getsockname()[1]
        server.should_exit = server.force_exit = True
        await task


@pytest.mark.enable_socket
@pytest.mark.parametrize("read", [nothing, a_byte_at_a_time])
def test_who_does_not_read_keeps_no_place(read: Reader) -> None:
    async def work() -> None:
        places = downloads()
        async with serving(places) as port, asyncio.TaskGroup() as group:
            readers: list[asyncio.Task[None]] = []
            writers: list[asyncio.StreamWriter] = []
            for number in range(16):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
                writer.write(f"GET /user{number // 2} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                readers.append(group.create_task(read(reader)))
                writers.append(writer)
            async with asyncio.timeout(10):
                await until(lambda: places._open.total() == 16)
                await until(lambda: not places._open)
            for task, writer in zip(readers, writers, strict=True):
                task.cancel()
                writer.close()

    asyncio.run(work())
