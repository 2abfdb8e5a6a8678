"""A simulated cloud without a socket: as an httpx transport."""

from __future__ import annotations

import json
from urllib.parse import unquote

import httpx

from corral.testing.clouds.wire import Answer, Request
from corral.testing.clouds.world import Sim


class InProcess(httpx.AsyncBaseTransport):
    """Hands requests to a simulated cloud of the same process.

    Args:
        sim: the cloud.
        prefix: path of its address, which its routes do not have.
    """

    def __init__(self, sim: Sim, prefix: str = "") -> None:
        self._sim, self._prefix = sim, prefix

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request, or break the connection."""
        text = await request.aread()
        answer = self._sim.handle(
            Request(
                request.method,
                unquote(request.url.path).removeprefix(self._prefix),
                dict(request.url.params),
                {k.lower(): v for k, v in request.headers.items()},
                json.loads(text) if text else None,
            )
        )
        if answer.status == 0:
            raise httpx.ReadTimeout("no answer", request=request)
        return httpx.Response(answer.status, headers=dict(answer.headers), content=content(answer))


def content(answer: Answer) -> bytes:
    """The bytes of an answer."""
    if answer.raw is not None:
        return answer.raw
    return b"" if answer.body is None else json.dumps(answer.body).encode()
