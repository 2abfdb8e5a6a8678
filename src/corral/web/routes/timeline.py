"""Jobs of an hour, a day or a week by node: what the page's timeline draws."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from corral.errors import Code, CorralError
from corral.slurm.rest.past_jobs import MOST, Past
from corral.web import schemas
from corral.web.history import SPANS, Span
from corral.web.routes.view import packed_of
from corral.web.slurm.job_timeline import timeline
from corral.web.state import Here, State, Viewer, poller_of
from corral.web.users.sessions import Session

router = APIRouter(prefix="/api/timeline", tags=["view"])
KEEP_S: Final = 30.0
WEEK: Final = 7


@router.get("", response_model=schemas.Timeline)
async def jobs_by_node(
    request: Request, session: Viewer, state: Here, span: Span = "day"
) -> Response:
    """The jobs that ran in a span, with the nodes of each as runs of positions in ``nodes``.

    ``end_at`` null: it is still running. ``why_no_past``: accounting does not answer, and the jobs
    are those that slurmctld has not forgotten yet. ``cut``: older jobs are left out; all that ended
    after ``complete_from`` are there.
    """
    # One answer for each user: slurmdbd may hide jobs (its own PrivateData) that slurmctld shows.
    who = session.user

    async def ask() -> dict[str, Any]:
        return await _timeline(request, session, state, span)

    answered = await state.responses.get(("timeline", span, who), KEEP_S, ask)
    body = {**answered.head(), **(answered.value or _none(span))}
    rev, key = hash((answered.at, answered.why)), f"timeline:{span}:{who}"
    return await packed_of(request).reply(request, key, rev, lambda: body)


async def _timeline(request: Request, session: Session, state: State, span: Span) -> dict[str, Any]:
    why, past = "", Past(())
    try:
        past = await state.past.ended(session.login, WEEK if span == "week" else 1, "")
    except CorralError as error:
        if error.code is Code.LOGIN_REFUSED:
            raise
        why = error.message
    now = await poller_of(request, session).fresh()
    until = time.time()
    since = until - SPANS[span]
    # In a thread: slurmctld may know 50,000 jobs.
    drawn = await asyncio.to_thread(timeline, list(now.nodes), list(now.jobs.values()), past, since)
    return {"from": since, "to": until, "why_no_past": why, "most": MOST, **drawn}


def _none(span: Span) -> dict[str, Any]:
    """What is drawn while nothing is known."""
    until = time.time()
    empty: dict[str, Any] = {"nodes": [], "jobs": [], "cut": False, "complete_from": until}
    return {"from": until - SPANS[span], "to": until, "why_no_past": "", "most": MOST, **empty}
