"""Jobs that ended: accounting's, where the cluster keeps one, and those slurmctld still knows."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request

from corral.errors import Code, CorralError
from corral.slurm.records import Job
from corral.slurm.rest.past_jobs import MOST, Past
from corral.web import schemas
from corral.web.routes.jobs import page_of
from corral.web.slurm.search import ORDERS, ordered, parse
from corral.web.state import DIGITS, Here, Viewer, poller_of

router = APIRouter(prefix="/api/past", tags=["jobs"])
DAY_S: Final = 86400


@router.get("", response_model=schemas.Past)
async def past(  # noqa: PLR0917  # FastAPI calls it by name
    request: Request,
    session: Viewer,
    state: Here,
    days: Literal["1", "7", "30"] = "7",
    q: Annotated[str, Query(max_length=300)] = "",
    by: Annotated[str, Query(max_length=20)] = "end_at",
    down: bool = True,
    limit: Annotated[int, DIGITS, Query(ge=1, le=1000)] = 100,
    offset: Annotated[int, DIGITS, Query(ge=0, le=10_000_000)] = 0,
    arrays: bool = False,
) -> dict[str, Any]:
    """One page of the jobs that ended in the last days; ``cut``: older ones are left out.

    Where there is no accounting, or it does not answer, ``why`` holds that, and the jobs are those
    that slurmctld has not forgotten yet.
    """
    test = parse(q)
    if by not in ORDERS:
        ordered((), by, down=down)
    # Others' jobs then do not fill up what is asked for; only one's own name is passed on.
    user = session.user if f"user={session.user}" in q.split() else ""
    why, history = "", Past(())
    try:
        history = await state.past.ended(session.login, int(days), user)
    except CorralError as error:
        if error.code is Code.LOGIN_REFUSED:
            raise
        why = error.message
    now = await poller_of(request, session).fresh()
    since = 0 if why else time.time() - int(days) * DAY_S

    def body() -> dict[str, Any]:
        jobs = {job.id: job for job in history.jobs}
        jobs |= {job.id: job for job in now.jobs.values() if _ended(job, since)}
        chosen = [job for job in jobs.values() if test(job)]
        return page_of(ordered(chosen, by, down=down), offset, limit, arrays=arrays)

    # In a thread: slurmctld may know 50,000 jobs that ended.
    return {"why": why, "cut": history.cut, "most": MOST, **await asyncio.to_thread(body)}


def _ended(job: Job, since: float) -> bool:
    """Slurmctld knows more of a job than accounting, and knows of its end a moment before."""
    return job.ended and (job.end_at or time.time()) >= since
