"""What all viewers see: the cluster, its nodes, and the live events."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from corral.web.history import Span
from corral.web.routes.streams import LiveView
from corral.web.slurm.poller import KEEP_S, Poller
from corral.web.slurm.slurmrest import dumps
from corral.web.slurm.snapshot import JOB_COLUMNS, NODE_COLUMNS, Snapshot, node_row
from corral.web.state import Here, Viewer, poller_of, state_of, still_in

router = APIRouter(prefix="/api", tags=["view"])
GZIP_FROM: Final = 2048
AT_ONCE: Final = 2
"""Answers that are packed at the same time; they share the processor with the event loop."""


@dataclass(slots=True)
class Packed:
    """Answers made once per revision and sent to all who ask: 10,000 nodes are packed once."""

    made: dict[str, tuple[int, bytes, bytes]] = field(
        default_factory=dict[str, tuple[int, bytes, bytes]]
    )
    _few: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def reply(
        self, request: Request, key: str, rev: int, body: Callable[[], dict[str, Any]]
    ) -> Response:
        """The answer for ``key`` at ``rev``; ``body`` is called when it is not there yet.

        That is in a thread: a filter over 50,000 jobs takes as long as a hundred other requests.
        """
        async with self._few:
            known = self.made.get(key)
            if known is None or known[0] != rev:
                known = await asyncio.to_thread(_packed, rev, body)
                if len(self.made) > 64:  # noqa: PLR2004  # many different filters
                    self.made.clear()
                self.made[key] = known
        takes = "gzip" in request.headers.get("accept-encoding", "")
        if takes and known[2]:
            return Response(
                known[2], media_type="application/json", headers={"content-encoding": "gzip"}
            )
        return Response(known[1], media_type="application/json")


def _packed(rev: int, body: Callable[[], dict[str, Any]]) -> tuple[int, bytes, bytes]:
    plain = dumps(body())
    return rev, plain, gzip.compress(plain, 3) if len(plain) > GZIP_FROM else b""


def packed_of(request: Request) -> Packed:
    """The server's packed answers."""
    packed = getattr(request.app.state, "packed", None)
    if packed is None:
        packed = request.app.state.packed = Packed()
    return packed


@router.get("/cluster")
async def cluster(request: Request, session: Viewer) -> Any:
    """Figures of the entire cluster: how old they are, why newer ones do not come."""
    now = await poller_of(request, session).fresh()
    return {"at": time.time(), **now.head()}


@router.get("/nodes")
async def nodes(request: Request, session: Viewer) -> Response:
    """All nodes, as rows of the named columns."""
    now = await poller_of(request, session).fresh(jobs=False)
    key = f"nodes:{session.user if state_of(request).settings.private else ''}"
    return await packed_of(request).reply(request, key, now.nodes_rev, lambda: _nodes(now))


def _nodes(now: Snapshot) -> dict[str, Any]:
    return {
        "nodes_rev": now.nodes_rev,
        "columns": NODE_COLUMNS,
        "rows": [node_row(node) for node in now.nodes.values()],
    }


@router.get("/figures")
async def figures(session: Viewer, state: Here) -> dict[str, Any]:
    """Temperature, power and GPU use of each node, where the cluster has metrics."""
    if state.figures is None:
        return {"nodes": {}}
    return {"nodes": await state.figures.nodes()}


@router.get("/figures/history")
async def history(session: Viewer, state: Here, span: Span = "day") -> dict[str, Any]:
    """Nodes, GPUs, queue and power over a span; null: unknown. Nothing without Prometheus."""
    if state.figures is None:
        return {"from": "", "at": [], "curves": []}
    return await state.figures.cluster(span)


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}}},
)
async def events(request: Request, session: Viewer) -> StreamingResponse:
    """What changes, as it changes (server-sent events): the first one is the complete head."""
    poller = poller_of(request, session)

    async def stream() -> AsyncGenerator[bytes]:
        async with poller.watching() as queue:
            yield _event(_hello(poller))
            while still_in(request):
                try:
                    async with asyncio.timeout(KEEP_S):
                        yield _event(await queue.get())
                except TimeoutError:
                    # Nothing changed; how fresh that is, is news too.
                    yield _event(dumps({"seen_at": poller.now.seen_at, "at": time.time()}))
            yield b"event: logout\ndata: {}\n\n"

    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return LiveView(state_of(request).streams, session.user, stream(), headers)


def _hello(poller: Poller) -> bytes:
    return dumps({"columns": JOB_COLUMNS, "at": time.time(), **poller.now.head()})


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"
