"""What pages of other clusters show of this one: a summary and a search, and the reader of both."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

from corral.slurm.rest import policy as questions
from corral.web import schemas
from corral.web.clusters import search
from corral.web.clusters.others import READER
from corral.web.routes.policy import asked
from corral.web.routes.view import packed_of
from corral.web.slurm.search import MAX_QUERY
from corral.web.state import Here, State, Viewer, poller_of, shared_by
from corral.web.users.sessions import Session

router = APIRouter(tags=["view"])
PATIENCE_S: Final = 1.5
"""How long a search waits for accounting; the answer is there for the next one."""
_open: Final = set[asyncio.Task[Any]]()


@router.get("/api/summary", response_model=schemas.Summary)
async def summary(request: Request, session: Viewer, state: Here) -> Any:
    """The cluster in a few figures: nodes, free GPUs, jobs and yours; null: unknown."""
    poller = poller_of(request, session)
    now = await poller.fresh()
    counted = await state.tallies.of(poller, now)
    return {
        "cluster": state.settings.cluster,
        "user": session.user,
        "at": time.time(),
        **search.summary(now, counted, session.user),
    }


@router.get("/api/search", response_model=schemas.SearchResult)
async def search_jobs(request: Request, session: Viewer, state: Here, q: str = "") -> Response:
    """Jobs, nodes and users that a search finds, the first 20 of each, and how many there are.

    Users are those who have jobs, and those of accounting where that answers.
    """
    now = await poller_of(request, session).fresh()
    users = await _users(state, session)
    # Jobs are slurmctld's, users are slurmdbd's: each has its own PrivateData.
    who = shared_by(state, session) or shared_by(state, session, accounting=True)
    key = f"search:{who}:{q[: MAX_QUERY + 1]}"
    rev = hash((now.rev, now.trouble, users))
    return await packed_of(request).reply(request, key, rev, lambda: search.results(now, q, users))


async def _users(state: State, session: Session) -> frozenset[str] | None:
    """Users whom accounting knows; None where it does not answer at once, as a later search may."""
    asking = asyncio.create_task(asked(state, session, questions.ASSOCIATIONS))
    _open.add(asking)
    asking.add_done_callback(_open.discard)
    done, _ = await asyncio.wait({asking}, timeout=PATIENCE_S)
    members = asking.result().value if done else None
    if members is None:
        return None
    return frozenset(member.of.user for member in members if member.of.user)


@router.get(READER, include_in_schema=False)
async def reader(state: Here) -> HTMLResponse:
    """The document that pages of other clusters load in a hidden frame."""
    if not state.clusters:
        raise HTTPException(404, "this page belongs to no other clusters")
    return HTMLResponse(state.clusters.reader(), headers={"cache-control": "no-cache"})
