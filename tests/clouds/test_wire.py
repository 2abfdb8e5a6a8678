"""Clouds that misbehave on real sockets: what httpx's own limits and retries would not notice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from corral.errors import CorralError
from corral.mesh import control
from corral.providers.cloud.client import http
from corral.providers.cloud.client.rate_limit import Pacer
from corral.providers.cloud.errors import CloudError, Reason
from corral.providers.lambda_cloud.client import LambdaCloud

KEY = "secret-key-0123456789"
GOOD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def drip(writer: asyncio.StreamWriter, first: bytes) -> None:
    writer.write(first)
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.05)


async def slow_body(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await drip(writer, GOOD + b"content-length: 1000000\r\n\r\n")


async def slow_head(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await drip(writer, GOOD + b"x-slow: ")


async def nothing(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


async def closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readline()
    writer.close()


async def short(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(GOOD + b'content-length: 500\r\n\r\n{"data": []}')
    writer.close()


async def not_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readline()
    writer.write(b"SSH-2.0-OpenSSH_9.6\r\n")
    writer.close()


@pytest.mark.parametrize(
    ("serve", "reason", "calls"),
    [
        (slow_body, Reason.SLOW, 3),
        (slow_head, Reason.SLOW, 3),
        (nothing, Reason.SLOW, 3),
        (closed, Reason.CUT, 5),
        (short, Reason.CUT, 5),
        (not_http, Reason.CUT, 5),
    ],
)
def test_each_ends_in_time(
    serve: Serve, reason: Reason, calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte now and then kept a call waiting for ever: each read was in time."""
    monkeypatch.setattr(http, "ATTEMPT_S", 0.4)
    monkeypatch.setattr(http, "_PAUSE", lambda _: 0.01)
    seen = 0

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        seen += 1
        await serve(reader, writer)

    async def ask() -> CloudError:
        server = await asyncio.start_server(count, "127.0.0.1")
        port = server.sockets[0].getsockname()[1]
        api = LambdaCloud(f"http://127.0.0.1:{port}", KEY, Pacer(tmp_path, "a", {}))
        try:
            await api.instances()
        except CloudError as error:
            return error
        finally:
            server.close()
            await api.close()
        raise AssertionError("taken for a list")

    began = time.monotonic()
    error = asyncio.run(ask())
    assert time.monotonic() - began < 10
    assert (error.reason, seen) == (reason, calls)
    assert "Lambda Cloud" in error.message and error.command == "GET /api/v1/instances"


def test_nobody_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_PAUSE", lambda _: 0.01)
    api = LambdaCloud("http://127.0.0.1:9", KEY, Pacer(tmp_path, "a", {}))
    with pytest.raises(CloudError, match="Lambda Cloud cannot be reached") as caught:
        asyncio.run(api.instances())
    assert not caught.value.unsure


@pytest.mark.parametrize("serve", [slow_body, nothing, short, not_http])
def test_a_control_server_ends_in_time_too(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "ATTEMPT_S", 0.4)
    monkeypatch.setattr(control, "TRIES", 1)

    async def ask() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1")
        port = server.sockets[0].getsockname()[1]
        try:
            await control.Http(f"http://127.0.0.1:{port}").ask("GET", "/node?x=1")
        finally:
            server.close()

    with pytest.raises(CorralError, match="the control server did not answer") as caught:
        asyncio.run(ask())
    assert caught.value.command.startswith("GET http://127.0.0.1:")
