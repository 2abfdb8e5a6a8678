"""One node: its jobs, GPUs, events, curves and health; drain and resume, for administrators.

slurmctld lets operators change jobs and reservations, but no nodes (validate_super_user, 24.11).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from corral import api
from corral.errors import Code, CorralError
from corral.roles.slurm.health import TAG, health_checks
from corral.slurm.command import outages_of
from corral.slurm.records import Node, Outage
from corral.slurm.rest import write
from corral.web import schemas
from corral.web.slurm.node_gpus import gpus_of, jobs_on
from corral.web.slurm.snapshot import job_rows
from corral.web.state import Changer, Here, Owner, State, Viewer, here_of, poller_of
from corral.web.tasks.use_case_thread import in_thread
from corral.web.users.sessions import Session

router = APIRouter(prefix="/api/nodes", tags=["nodes"])
NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
MOST_EVENTS: Final = 200
READINGS_S: Final = 10.0
OUTAGES_SINCE: Final = "now-30days"
KEEP_OUTAGES_S: Final = 30.0
_HEALTH_CHECK: Final = "corral_health_check"
_HEALTH_AT: Final = "corral_health_time_seconds"
_HEALTH: Final = frozenset({_HEALTH_CHECK, _HEALTH_AT})
_RESULTS: Final[Mapping[int, str]] = MappingProxyType({0: "ok", 1: "warn", 2: "fail", -1: "none"})
"""Values of the metric that ``agents/figures.sh`` prints."""
_NO_HEALTH: Final = "no metrics of this node report them (services: metrics, health: every)"
NodeName = Annotated[str, Path(max_length=128, pattern=NAME)]


class NodeAction(BaseModel):
    """What to do to a node."""

    model_config = ConfigDict(extra="forbid")

    do: Literal["drain", "resume"]
    reason: str = Field(
        default="", max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$", description="With drain."
    )


@router.get("/{name}", response_model=schemas.NodeDetail)
async def node(request: Request, name: NodeName, session: Viewer, state: Here) -> Any:
    """What is known of a node: its jobs, whose each GPU is, and what happened to it.

    ``since``: before that time only the last reason, the last boot, outages where ``outages`` is
    true (accounting's, of 30 days) and, for who runs Corral here, the journal are known.
    ``readings``: whether there are metrics of its GPUs. ``health`` is the last check of its health
    by its metrics, else what it was drained for, and ``why`` what is unknown of it.
    """
    now = await poller_of(request, session).fresh()
    record = now.nodes.get(name)
    if record is None:
        raise CorralError(Code.NOT_FOUND, f"Slurm knows no node {name}")
    jobs = await asyncio.to_thread(jobs_on, name, now.jobs.values())
    readings = await _readings(state, name)
    outages = await _outages(state, name)
    events = [event.as_dict() for event in state.node_events.of(record, outages or ())]
    events += await _journal(state, session, name)
    return {
        "machine": machine_of(record, now.busy_at.get(name)),
        "jobs": job_rows(jobs),
        "gpus": gpus_of(record, jobs, readings),
        "readings": any(reading.name not in _HEALTH for reading in readings),
        "health": last_health(record, readings),
        "events": sorted(events, key=lambda event: -event["at"])[:MOST_EVENTS],
        "since": state.node_events.since,
        "outages": outages is not None,
        "journal": _owns(state, session),
        "cut": len(events) > MOST_EVENTS,
    }


def machine_of(node: Node, busy_at: int | None) -> dict[str, Any]:
    """What the page of one node shows of its machine; the list of all has it not.

    Args:
        node: as Slurm reported it when anything else of it changed.
        busy_at: when it was last in use.
    """
    return {
        "kernel": node.system,
        "architecture": node.architecture,
        "sockets": node.sockets,
        "cores": node.socket_cores,
        "threads": node.threads,
        "busy_at": busy_at,
    }


def last_health(node: Node, readings: Sequence[api.Reading]) -> dict[str, Any]:
    """The last check of a node's health.

    The program keeps it on the node, for root; the node's metrics have each check's result, and
    Slurm's reason has what one that drained the node saw. The rest is the table of checks.

    Args:
        node: as Slurm reports it.
        readings: of its metrics.
    """
    drained, _, words = node.reason.partition(": ") if node.reason.startswith(TAG) else ("", "", "")
    at = next((r.value for r in readings if r.name == _HEALTH_AT), None)
    results = {
        f"{TAG}{r.labels.get('check', '')}": _RESULTS[int(r.value)]
        for r in readings
        if r.name == _HEALTH_CHECK and int(r.value) in _RESULTS
    }
    known = health_checks()
    if at is None or not results:
        lines = [{"check": drained, "word": "fail", "text": words}] if drained else []
        return {"at": node.reason_at if drained else None, "checks": lines, "why": _NO_HEALTH}

    def text(check: str, word: str) -> str:
        if check == drained:
            return words
        row = known.get(check) if word in ("fail", "warn") else None
        return f"{row.title}. {row.fix}" if row else ""

    lines = [{"check": c, "word": word, "text": text(c, word)} for c, word in results.items()]
    return {"at": at, "checks": lines, "why": ""}


@router.get("/{name}/figures", response_model=schemas.Curves)
async def node_figures(request: Request, name: NodeName, session: Viewer, state: Here) -> Any:
    """What a node used in the last day; nothing where the cluster has no metrics."""
    if name not in (await poller_of(request, session).fresh(jobs=False)).nodes:
        raise CorralError(Code.NOT_FOUND, f"Slurm knows no node {name}")
    if state.figures is None:
        return {"from": "", "curves": []}
    return await state.figures.node(name)


@router.post("/{name}/health", response_model=schemas.NodeHealth)
async def health(name: NodeName, owner: Owner, session: Changer, state: Here) -> Any:
    """Run the node's health check now; it changes nothing and drains no node."""
    result = await in_thread(lambda _: api.node_health(owner[1], name))
    return {
        "at": time.time(),
        "checks": [{"check": c.check, "word": c.word, "text": c.text} for c in result.lines],
        "silent": [error.message for error in result.silent],
    }


async def _readings(state: State, name: str) -> tuple[api.Reading, ...]:
    """Metrics of a node's GPUs now; none where they do not answer: the page shows unknown."""
    if state.figures is None:
        return ()
    try:
        async with asyncio.timeout(READINGS_S):
            return await state.figures.readings(name)
    except (TimeoutError, CorralError):
        return ()


async def _outages(state: State, name: str) -> tuple[Outage, ...] | None:
    """Outages of a node as accounting keeps them; None where it does not answer, or hides some."""

    async def ask() -> tuple[Outage, ...]:
        return await state.private_data.asked(outages_of(name, OUTAGES_SINCE))

    try:
        async with asyncio.timeout(READINGS_S):
            return (await state.responses.get(("outages", name), KEEP_OUTAGES_S, ask)).value
    except TimeoutError:
        return None


def _owns(state: State, session: Session) -> bool:
    return session.owner and here_of(state) is not None


async def _journal(state: State, session: Session, name: str) -> list[dict[str, Any]]:
    """What Corral did to a node, for who runs it here."""
    spec = here_of(state)
    if spec is None or not session.owner:
        return []
    records = await asyncio.to_thread(api.history, spec.name, 2000)
    return [
        {
            "at": record["at"],
            "what": record["what"],
            "by": record["by"],
            "why": record["text"],
            "source": "journal",
            "run": record["run"],
        }
        for record in records
        if record.get("node") == name
    ]


@router.post("/{name}", response_model=schemas.Done)
async def act(
    request: Request, name: NodeName, action: NodeAction, session: Changer, state: Here
) -> Any:
    """Let a node take no new jobs, or take them again."""
    if action.do == "drain" and not action.reason.strip():
        raise CorralError(
            Code.USAGE,
            "draining needs a reason",
            hint="state why, for the next person who looks",
        )
    if name not in (await poller_of(request, session).fresh(jobs=False)).nodes:
        raise CorralError(Code.NOT_FOUND, f"Slurm knows no node {name}")
    body = write.drain_body(action.reason) if action.do == "drain" else write.resume_body()
    doing = f"{action.do} {name}"
    try:
        # Slurm decides; the role here only hides buttons.
        await state.rest.change(session.login, "POST", f"node/{name}", body, doing)
    except CorralError as error:
        state.audit.note(session.user, action.do, name, error.code.value)
        raise
    state.audit.note(session.user, action.do, name)
    state.node_events.done(name, session.user)
    poller_of(request, session).nudge()
    return {"ok": True}
