"""What needs Corral itself: proof, doctor, plan, apply, history. For who runs Corral here.

Looking is the owner's session alone. Changing machines besides needs a code that only the terminal
shows in which ``corral ui`` runs: a stolen session can neither apply nor fix. A program with a
bearer token may plan, and apply nothing.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from corral import api
from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.plan.model import Plan
from corral.spec.models import ClusterSpec
from corral.web import schemas
from corral.web.routes.streams import LiveView
from corral.web.slurm.slurmrest import dumps
from corral.web.state import Changer, Here, Owner, State, bearer_of, state_of, still_in
from corral.web.tasks.pending_plans import ChangedFile, Pending
from corral.web.tasks.use_case_thread import in_thread
from corral.web.users.sessions import Session
from corral.web.users.worker_process import MAX_TEXT

router = APIRouter(prefix="/api/corral", tags=["corral"])


class Text(BaseModel):
    """A cluster file as edited."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(max_length=MAX_TEXT)


class PlannedText(Text):
    """A cluster file as edited; ``digest`` of the content that was edited: applying saves it."""

    digest: str = Field(default="", max_length=64)


class Confirm(BaseModel):
    """The code that the terminal shows, and the plan that it is for."""

    model_config = ConfigDict(extra="forbid")

    plan: str = Field(max_length=32)
    code: str = Field(max_length=32)


@router.get("/file", response_model=schemas.ClusterFile)
async def file(owner: Owner, state: Here) -> Any:
    """The cluster file as it is on this machine."""
    path = state.settings.source
    text = await asyncio.to_thread(_read, path) if path else ""
    text = text or api.spec_text(owner[1])
    return {"path": path, "text": text, "cluster": owner[1].name}


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as stream:  # noqa: PTH123  # a plain read
            return stream.read(1 << 20)
    except (OSError, ValueError):
        return ""


@router.post("/lint", response_model=schemas.Lint)
async def lint(edited: Text, owner: Owner, session: Changer, state: Here) -> Any:
    """What is wrong with a text, each finding with its line."""
    source = state.settings.source or "cluster file"
    _, findings = await state.workers.lint(edited.text, source, session.user)
    return {"findings": findings}


@router.post("/plan", response_model=schemas.StartedWork)
async def plan(
    request: Request, edited: PlannedText, owner: Owner, session: Changer, state: Here
) -> Any:
    """What applying the text would change; then the terminal shows the code to apply it."""
    source = state.settings.source or "cluster file"
    spec, _ = await state.workers.lint(edited.text, source, session.user)
    if spec is None:
        raise CorralError(
            Code.SPEC_INVALID, "the cluster file has errors", hint="each is shown at its line"
        )
    if spec.name != owner[1].name:
        raise CorralError(
            Code.USAGE,
            f"this page serves cluster {owner[1].name}, the text declares {spec.name}",
            hint="another cluster needs its own corral ui",
        )

    if not edited.digest:
        return begin_plan(request, spec, session)
    saves = ChangedFile(state.settings.source, edited.digest, edited.text)
    await asyncio.to_thread(api.require_unchanged, saves.path, saves.digest)
    return begin_plan(request, spec, session, saves)


@router.post("/apply", response_model=schemas.StartedWork)
async def apply(confirmation: Confirm, owner: Owner, session: Changer, state: Here) -> Any:
    """Do exactly the plan that was shown, with the code from the terminal."""
    pending = _confirmed(confirmation, session, state)

    async def work(emit: Emit) -> Any:
        try:
            await in_thread(lambda relay: _applied(pending, relay), emit)
        except CorralError:
            if pending.begun:
                state.applied(pending.spec)
            raise
        state.applied(pending.spec)
        return {"ok": True}

    identity = state.background.start("apply", work)
    state.plans.clear()
    state.audit.note(session.user, "apply", pending.spec.name)
    return {"id": identity}


@router.post("/doctor", response_model=schemas.StartedWork)
async def doctor(owner: Owner, session: Changer, state: Here) -> Any:
    """Diagnose all machines; findings with cause and fix."""

    async def work(emit: Emit) -> Any:
        return await in_thread(lambda _: _diagnosis(owner[1]))

    identity = state.background.start("doctor", work)
    state.audit.note(session.user, "doctor", owner[1].name)
    return {"id": identity}


@router.get("/proof", responses={200: {"model": schemas.LastProof}})
async def proof(owner: Owner) -> Any:
    """The last proof with its evidence."""
    return {"proof": await asyncio.to_thread(api.last_proof, owner[1].name)}


@router.post("/prove", response_model=schemas.StartedWork)
async def prove(owner: Owner, session: Changer, state: Here) -> Any:
    """Prove the cluster again."""

    async def work(emit: Emit) -> Any:
        return await in_thread(lambda relay: _proven(owner[1], relay), emit)

    state.audit.note(session.user, "prove", owner[1].name)
    return {"id": state.background.start("prove", work)}


@router.get("/history", responses={200: {"model": schemas.Journal}})
async def history(owner: Owner) -> Any:
    """The journal, newest first."""
    return {"records": await asyncio.to_thread(api.history, owner[1].name)}


@router.get("/work", response_model=schemas.Work)
async def work_now(owner: Owner, state: Here) -> Response:
    """The work in progress, or the last one."""
    return Response(state.background.as_json(), media_type="application/json")


@router.get(
    "/work/events",
    status_code=200,
    response_class=LiveView,
    responses={200: {"model": schemas.WorkEvents}},
)
async def work_events(request: Request, owner: Owner, state: Here) -> LiveView:
    """Events of the work in progress, from its beginning (server-sent events)."""

    async def stream() -> AsyncGenerator[bytes]:
        index = 0
        while True:
            more = await state.background.since(index)
            index += len(more)
            if not still_in(request):
                return
            yield b"data: " + dumps({"events": more}) + b"\n\n"
            if not state.background.running and not await state.background.since(index):
                break
        yield b"event: end\ndata: " + state.background.as_json() + b"\n\n"

    return LiveView(state.streams, owner[0].user, stream())


async def _applied(pending: Pending, emit: Emit) -> None:
    """Save the file that goes with a plan, and apply the plan; a file is not kept without it."""
    saves = pending.saves
    before = api.save_file(saves.path, saves.digest, saves.text) if saves else None

    def noted(event: Event) -> None:
        if event.kind is Kind.CHANGE_DONE:
            pending.begun = True
        emit(event)

    try:
        await api.apply(pending.spec, pending.plan, noted)
    except CorralError as error:
        # Another corral may also come between two stages: then the file stays, as what was done.
        if saves and before and not pending.begun and error.code in (Code.STALE_PLAN, Code.BUSY):
            api.save_file(saves.path, api.FileText(before.path, saves.text).digest, before.text)
        raise


async def _diagnosis(spec: ClusterSpec) -> dict[str, Any]:
    report = await api.doctor(spec)
    last = await asyncio.to_thread(api.last_proof, spec.name)
    failed = [r for r in (last or {}).get("results", ()) if r["verdict"] == "fail"]
    return {
        "healthy": report.healthy,
        "fixable": api.fixed_by_plan(report),
        "findings": [f.as_dict() for f in report.findings],
        "out_of_service": [out.as_dict() for out in report.out_of_service],
        "failed_checks": [r.get("title") or r["check"] for r in failed],
    }


async def _proven(spec: ClusterSpec, emit: Emit) -> dict[str, Any]:
    return (await api.prove(spec, emit)).as_dict()


def begin_plan(
    request: Request, spec: ClusterSpec, session: Session, saves: ChangedFile | None = None
) -> dict[str, Any]:
    """Make a plan in the background, as a person reads it, and keep it for its code.

    Args:
        request: who asks.
        spec: what the plan leads to.
        session: who may apply it.
        saves: the changed file that is saved with it.
    """

    async def planned(emit: Emit) -> dict[str, Any]:
        proposal = await api.plan(spec, emit)
        return plan_dict(proposal, _kept(request, spec, session, proposal, saves))

    async def work(emit: Emit) -> Any:
        return await in_thread(planned, emit)

    state = state_of(request)
    identity = state.background.start("plan", work)
    state.audit.note(session.user, "plan", spec.name)
    return {"id": identity}


def plan_dict(proposal: Plan, identity: str = "") -> dict[str, Any]:
    """What a person reads of a plan; without the shell, which only apply needs.

    Args:
        proposal: the plan.
        identity: names it when it is applied; "": nobody can apply it.
    """
    fields = proposal.as_dict()
    for stage in fields["stages"]:
        stage.pop("gates", None)
        for entry in stage["changes"]:
            entry["change"].pop("script", None)
            entry["change"].pop("secrets", None)
    about = {"id": identity, "empty": proposal.empty, "impact": proposal.impact.word}
    return {**about, **fields}


def _kept(
    request: Request,
    spec: ClusterSpec,
    session: Session,
    proposal: Plan,
    saves: ChangedFile | None,
) -> str:
    """Let a plan wait for its code, which only the terminal shows; returns its id.

    A program's plan waits for nothing: it cannot apply it.
    """
    if bearer_of(request) is not None:
        return ""
    plans = state_of(request).plans
    if proposal.empty and saves is None:
        plans.forget(session)
        return ""
    identity, code = plans.keep(session, spec, proposal, saves)
    # Only who sees this terminal can apply.
    sys.stderr.write(f"to apply plan {identity} of the page, type there: {code}\n")
    sys.stderr.flush()
    return identity


def _confirmed(confirmation: Confirm, session: Session, state: State) -> Pending:
    try:
        return state.plans.confirm(session, confirmation.plan, confirmation.code)
    except CorralError as error:
        if error.code is not Code.STALE_PLAN:  # a guess
            cluster = state.spec.name if state.spec else ""
            state.audit.note(session.user, "apply", cluster, error.code.value)
        raise
