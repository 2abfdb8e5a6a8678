"""The metrics' exporter listens on loopback, where any user of the controller can connect."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
import uvicorn

from corral.web.metrics import config

REQUEST = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


async def app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"up 1\n"})


@pytest.mark.enable_socket
@pytest.mark.parametrize("sent", [b"", b"GET /metrics HTTP/1.1\r\nX: "])
def test_half_open_requests_keep_nobody_out(sent: bytes) -> None:
    """40 of them, for as long as they stayed open, gave Prometheus 503 alone."""

    async def work() -> bytes:
        listening = socket.create_server(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        server = uvicorn.Server(config(app, port))
        serving = asyncio.create_task(server.serve([listening]))
        others = []
        for _ in range(200):
            others.append(await asyncio.open_connection("127.0.0.1", port))
            others[-1][1].write(sent)
        await asyncio.sleep(0.2)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        answer = await asyncio.wait_for(reader.read(), 10)
        for _, connection in others:
            connection.close()
        server.should_exit = True
        await serving
        return answer

    assert asyncio.run(work()).startswith(b"HTTP/1.1 200")
