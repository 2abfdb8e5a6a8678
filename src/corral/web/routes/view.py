"""What all viewers see: the cluster, its nodes, and the live events."""

from __future__ import annotations

import asyncio
import gzip
import math
import re
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal

from fastapi import APIRouter, Request, Response

from corral.spec.slurm.hostlist import fold_in_order
from corral.web import schemas
from corral.web.history import Span
from corral.web.routes.streams import LiveView
from corral.web.slurm.poller import KEEP_S, Poller
from corral.web.slurm.slurmrest import dumps
from corral.web.slurm.snapshot import JOB_COLUMNS, NODE_COLUMNS, Snapshot, node_row
from corral.web.state import (
    RENEW_S,
    Here,
    Viewer,
    checked_again,
    nodes_shared_by,
    poller_for,
    poller_of,
    state_of,
    still_in,
)
from corral.web.users.sessions import LoginKind

router = APIRouter(prefix="/api", tags=["view"])
GZIP_FROM: Final = 2048
Layout = Literal["rows", "columns"]
MOST_ANSWERS: Final = 64
"""That are kept: many people use different filters."""
MOST_BYTES: Final = 64 << 20
"""Of all of them together: where users are hidden from each other each has large ones."""
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
                self.made.pop(key, None)
                self._make_room(len(known[1]) + len(known[2]))
                self.made[key] = known
        takes = "gzip" in request.headers.get("accept-encoding", "")
        if takes and known[2]:
            return Response(
                known[2], media_type="application/json", headers={"content-encoding": "gzip"}
            )
        return Response(known[1], media_type="application/json")

    def _make_room(self, size: int) -> None:
        """Forget the oldest answers where there are too many or too large ones."""
        kept = sum(len(plain) + len(packed) for _, plain, packed in self.made.values())
        while self.made and (len(self.made) >= MOST_ANSWERS or kept + size > MOST_BYTES):
            _, plain, packed = self.made.pop(next(iter(self.made)))
            kept -= len(plain) + len(packed)


def _packed(rev: int, body: Callable[[], dict[str, Any]]) -> tuple[int, bytes, bytes]:
    plain = dumps(body())
    return rev, plain, gzip.compress(plain, 3) if len(plain) > GZIP_FROM else b""


def packed_of(request: Request) -> Packed:
    """The server's packed answers."""
    packed = getattr(request.app.state, "packed", None)
    if packed is None:
        packed = request.app.state.packed = Packed()
    return packed


@router.get("/cluster", response_model=schemas.Head)
async def cluster(request: Request, session: Viewer) -> Any:
    """Figures of the entire cluster: how old they are, why newer ones do not come."""
    now = await poller_of(request, session).fresh()
    return {"at": time.time(), **now.head()}


@router.get("/nodes", response_model=schemas.Nodes | schemas.NodeColumns)
async def nodes(request: Request, session: Viewer, layout: Layout = "rows") -> Response:
    """All nodes, as rows of the named columns; ``columns``: of each column the values of all.

    That is a quarter less to transfer, since values of one kind are next to each other.
    """
    now = await poller_of(request, session).fresh(jobs=False)
    key = f"nodes:{layout}:{nodes_shared_by(state_of(request), session)}"
    return await packed_of(request).reply(request, key, now.nodes_rev, lambda: _nodes(now, layout))


def _nodes(now: Snapshot, layout: Layout = "rows") -> dict[str, Any]:
    rows = [node_row(node) for node in now.nodes.values()]
    head = {"nodes_rev": now.nodes_rev, "columns": NODE_COLUMNS}
    if layout == "rows":
        return {**head, "rows": rows}
    return {**head, "values": [[row[at] for row in rows] for at in range(len(NODE_COLUMNS))]}


@router.get("/figures", response_model=schemas.AllFigures | schemas.FigureColumns)
async def figures(
    request: Request, session: Viewer, state: Here, layout: Layout = "rows"
) -> Response:
    """Temperature, power and GPU use of each node, where the cluster has metrics.

    ``columns``: the names as a hostlist, and of each column the values in that order, rounded as
    the page shows them, from 1,000 W on to 10 W; null where there is none.
    """
    nodes = await state.figures.nodes() if state.figures is not None else {}
    rev, who = _figures_of(request).rev(nodes), nodes_shared_by(state, session)
    if who:  # PrivateData may hide nodes; Prometheus knows nothing of it
        now = await poller_of(request, session).fresh(jobs=False)
        nodes = {name: each for name, each in nodes.items() if name in now.nodes}
        rev = hash((rev, now.nodes_rev))

    def made() -> dict[str, Any]:
        return figure_columns(nodes) if layout == "columns" else {"nodes": nodes}

    return await packed_of(request).reply(request, f"figures:{layout}:{who}", rev, made)


@dataclass(slots=True)
class _Numbered:
    """Numbers the figures: those that are the same object are packed once for all viewers."""

    last: Mapping[str, Mapping[str, float]] | None = None
    count: int = 0

    def rev(self, figures: Mapping[str, Mapping[str, float]]) -> int:
        """The number of these; a new one where they are others than the last."""
        if figures is not self.last:
            self.last, self.count = figures, self.count + 1
        return self.count


def _figures_of(request: Request) -> _Numbered:
    numbered = getattr(request.app.state, "numbered", None)
    if numbered is None:
        numbered = request.app.state.numbered = _Numbered()
    return numbered


_DIGITS: Final[Mapping[str, Callable[[float], float]]] = MappingProxyType(
    {
        "celsius": lambda celsius: math.floor(celsius + 0.5),  # round() has 402 of 402.5
        "watts": lambda watts: _tens(watts) if watts >= _MANY_WATTS else math.floor(watts + 0.5),
        "gpu": lambda share: round(share, 2),
    }
)
"""How exactly the page shows each."""
_MANY_WATTS: Final = 1000


def _tens(watts: float) -> int:
    return 10 * math.floor(watts / 10 + 0.5)


def figure_columns(nodes: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Figures by column, of nodes whose names a hostlist can have."""
    names = sorted(name for name in nodes if _NODE.fullmatch(name))
    return {
        "names": fold_in_order(names),
        "columns": list(_DIGITS),
        "values": [
            [None if (value := nodes[name].get(what)) is None else exact(value) for name in names]
            for what, exact in _DIGITS.items()
        ],
    }


_NODE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@router.get("/figures/history", response_model=schemas.ClusterCurves)
async def history(session: Viewer, state: Here, span: Span = "day") -> dict[str, Any]:
    """Nodes, GPUs, queue and power over a span; null: unknown. Nothing without Prometheus."""
    if state.figures is None:
        return {"from": "", "at": [], "curves": []}
    return await state.figures.cluster(span)


@router.get(
    "/events",
    status_code=200,
    response_class=LiveView,
    responses={200: {"model": schemas.LiveState | schemas.LiveAge}},
)
async def events(request: Request, session: Viewer, state: Here) -> LiveView:
    """What changes, as it changes (server-sent events): the first one is the complete head."""
    poller = poller_of(request, session)

    by_proxy = session.kind is LoginKind.HEADER
    renew_at = time.monotonic() + RENEW_S if by_proxy else math.inf

    async def stream() -> AsyncGenerator[bytes]:
        async with poller.watching() as queue:
            yield _event(_hello(poller))
            while still_in(request):
                try:
                    async with asyncio.timeout(KEEP_S):
                        news = await queue.get()
                except TimeoutError:
                    # Nothing changed; how fresh that is, is news too.
                    now = poller.now
                    ages = {"seen_at": now.seen_at, "jobs_at": now.jobs_at}
                    news = dumps({**ages, "at": time.time()})
                await state.private_data.checked()
                now_session = await checked_again(request, session)
                if poller_for(state, now_session) is not poller or time.monotonic() >= renew_at:
                    return  # the page connects again: for its own view; as whom its proxy names
                if not still_in(request):
                    break
                yield _event(news)
            yield b"event: logout\ndata: {}\n\n"

    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return LiveView(state.streams, session.user, stream(), headers)


def _hello(poller: Poller) -> bytes:
    return dumps({"columns": JOB_COLUMNS, "at": time.time(), **poller.now.head()})


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"
