"""Several jobs or nodes at once: what is chosen, then each done with the user's own token.

Nothing is done that was not shown first: the answer of the first request has the list that the
second one sends. Each failure is reported for its job or node, and ends nothing else.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from corral.errors import Code, CorralError
from corral.runtime.tasks import concurrently
from corral.slurm.records import Job
from corral.slurm.rest import write
from corral.slurm.rest.read import ADMINISTRATOR
from corral.spec.slurm.hostlist import fold
from corral.web import schemas
from corral.web.routes.nodes import NAME
from corral.web.slurm.search import SHOWN, parse
from corral.web.slurm.targets import PENDING, TARGET, choose, matching
from corral.web.state import Changer, Here, State, Viewer, poller_of
from corral.web.users.sessions import Session

router = APIRouter(prefix="/api/bulk", tags=["bulk"])
MOST: Final = 500
"""Jobs of one request at most; the page sends one request after the other."""
AT_ONCE: Final = 8
JobNumber = Annotated[int, Field(ge=1, le=0x7FFFFFFF, strict=True)]
ArrayNumber = Annotated[str, Field(pattern=r"^[0-9]{1,10}$")]


class Chosen(BaseModel):
    """Jobs by their numbers and arrays, or all that a list shows."""

    model_config = ConfigDict(extra="forbid")

    ids: list[JobNumber] = Field(default=[], max_length=50_000)
    arrays: list[ArrayNumber] = Field(default=[], max_length=50_000)
    show: Literal["", "all", "running", "waiting"] = Field(
        default="", description='A list; "": no list, only the numbers.'
    )
    q: str = Field(default="", max_length=300, description="The filter of the list.")


class Cancel(BaseModel):
    """Jobs to cancel, as the choice named them."""

    model_config = ConfigDict(extra="forbid")

    targets: list[Annotated[str, Field(pattern=TARGET)]] = Field(min_length=1, max_length=MOST)


class NodesAction(BaseModel):
    """What to do to several nodes."""

    model_config = ConfigDict(extra="forbid")

    do: Literal["drain", "resume"]
    names: list[Annotated[str, Field(max_length=128, pattern=NAME)]] = Field(
        min_length=1, max_length=MOST
    )
    reason: str = Field(
        default="", max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$", description="With drain."
    )


@router.post("/jobs", response_model=schemas.ChosenJobs)
async def chosen_jobs(
    request: Request, asked: Chosen, session: Viewer, state: Here
) -> dict[str, Any]:
    """How many jobs a choice is, whose, and what is to be sent to cancel them."""
    test = parse(asked.q)
    now = await poller_of(request, session).fresh()

    def body() -> dict[str, Any]:
        arrays, ids = {*asked.arrays}, {*asked.ids}
        jobs = [job for job in now.jobs.values() if job.id in ids or job.array in arrays]
        if asked.show:
            jobs = [job for job in now.jobs.values() if SHOWN[asked.show](job) and test(job)]
        made = choose(jobs, now.jobs, session.user, operates=session.operates)
        return {
            "targets": list(made.targets),
            "tasks": made.tasks,
            "exact": made.exact,
            "users": [{"user": user, "count": count} for user, count in made.users.items()],
            "others": made.others,
            "nodes": fold(sorted(made.nodes)),
            "node_count": len(made.nodes),
        }

    return await asyncio.to_thread(body)  # of 50,000 jobs


@router.post("/jobs/cancel", response_model=schemas.BulkResult)
async def cancel(request: Request, asked: Cancel, session: Changer, state: Here) -> Any:
    """Cancel jobs; each that Slurm refuses is reported, and the others are cancelled."""
    poller = poller_of(request, session)
    now = await poller.fresh()
    by_target = await asyncio.to_thread(matching, asked.targets, now.jobs)

    async def cancelled(target: str) -> None:
        _permit(session, target, by_target[target])
        if target.endswith(PENDING):
            await state.rest.cancel_pending(session.login, int(target.removesuffix(PENDING)))
        elif "_" in target:
            await state.rest.cancel(session.login, by_target[target][0])
        else:
            doing = f"cancel job {target}"
            try:
                await state.rest.change(session.login, "DELETE", f"job/{target}", None, doing)
            except CorralError as error:
                # Of an array, tasks that have ended before are errors of the answer (24.11).
                if not by_target[target][0].array or not _all_ended(error.message):
                    raise

    answer = await _each(state, session, "cancel", "job", asked.targets, cancelled)
    poller.nudge()
    return answer


@router.post("/nodes", response_model=schemas.BulkResult)
async def act_on_nodes(request: Request, asked: NodesAction, session: Changer, state: Here) -> Any:
    """Drain or resume nodes, for administrators; each failure is reported for its node."""
    if session.role != ADMINISTRATOR:
        raise CorralError(
            Code.FORBIDDEN,
            "only administrators drain and resume nodes",
            hint="sacctmgr modify user NAME set adminlevel=administrator",
        )
    if asked.do == "drain" and not asked.reason.strip():
        raise CorralError(
            Code.USAGE, "draining needs a reason", hint="state why, for the next person who looks"
        )
    poller = poller_of(request, session)
    now = await poller.fresh(jobs=False)
    body = write.drain_body(asked.reason) if asked.do == "drain" else write.resume_body()

    async def changed(name: str) -> None:
        if name not in now.nodes:
            raise CorralError(Code.NOT_FOUND, f"Slurm knows no node {name}")
        await state.rest.change(session.login, "POST", f"node/{name}", body, f"{asked.do} {name}")
        state.node_events.done(name, session.user)

    answer = await _each(state, session, asked.do, "node", asked.names, changed)
    poller.nudge()
    return answer


def _all_ended(message: str) -> bool:
    """Whether Slurm's words name only tasks that have ended already."""
    return all("already completing or completed" in part for part in message.split("; "))


def _permit(session: Session, target: str, jobs: list[Job]) -> None:
    """Refuse what Slurm would: asked without accounting it may stop answering (24.11 to 26.05).

    Raises:
        CorralError: NOT_FOUND, it has ended; FORBIDDEN, it is somebody else's.
    """
    if not jobs:
        raise CorralError(Code.NOT_FOUND, f"job {target} has ended, or Slurm does not know it")
    owners = {job.user for job in jobs} - {session.user}
    if owners and not session.operates:
        raise CorralError(Code.FORBIDDEN, f"job {target} is {', '.join(sorted(owners))}'s")


async def _each(  # noqa: PLR0917  # one call site each
    state: State, session: Session, do: str, what: str, names: list[str], change: Any
) -> dict[str, Any]:
    few = asyncio.Semaphore(AT_ONCE)

    async def guarded(name: str) -> CorralError | None:
        async with few:
            try:
                await change(name)
            except CorralError as error:
                state.audit.note(session.user, do, f"{what} {name}", error.code.value)
                return error
        state.audit.note(session.user, do, f"{what} {name}")
        return None

    unique = list(dict.fromkeys(names))
    outcomes = await concurrently(*map(guarded, unique))
    pairs = list(zip(unique, outcomes, strict=True))
    return {
        "done": [name for name, error in pairs if error is None],
        "failed": [
            {"name": name, "message": error.message, "hint": error.hint}
            for name, error in pairs
            if error is not None
        ],
    }
