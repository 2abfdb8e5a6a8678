"""Use cases: JupyterLab as a job, and its page on this machine."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from corral import agents
from corral.api.workload.batch import JobSpec, job_spec
from corral.api.workload.queue import JobOutcome, JobRef, handle_of, own_job
from corral.api.workload.tunnel import (
    HERE,
    Forwarded,
    JobEnd,
    acting_as,
    listening,
    tunnel_into,
)
from corral.apply.session import Session
from corral.errors import BAD_JSON, Code, CorralError
from corral.events import Emit, Event, Kind, ignore
from corral.hosts.fleet import Fleet
from corral.hosts.quote import call
from corral.hosts.transport import check
from corral.jobs import control
from corral.jobs.follow import as_user
from corral.jobs.handle import JobHandle
from corral.jobs.listeners import Listener
from corral.slurm.states.jobs import JobState
from corral.slurm.states.reasons import explain
from corral.spec.models import ClusterSpec

PROGRAM: Final = agents.FOLDER / "jobs/notebook_server.py"
POLL_S: Final = 1.0
PENDING_POLL_S: Final = 5.0
START_S: Final = 180.0
"""Seconds that JupyterLab may take from the start of its job until it listens."""
OTHER: Final = 3
"""Exit status of the script that reads where JupyterLab listens, for a job of another kind."""
TAIL_LINES: Final = 10
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{20,100}")


@dataclass(frozen=True, slots=True)
class Notebook:
    """JupyterLab in a job, as this machine reaches it.

    Attributes:
        tunnel: to its port.
        token: opens it; whoever has it acts as the job's user.
    """

    tunnel: Forwarded
    token: str = field(repr=False)

    @property
    def url(self) -> str:
        """Its address here, with the token."""
        return f"http://{HERE}:{self.tunnel.local_port}/lab?token={self.token}"

    def as_dict(self) -> dict[str, Any]:
        """The token is in it."""
        return {**self.tunnel.as_dict(), "url": self.url, "token": self.token}


@dataclass(frozen=True, slots=True)
class _Place:
    """Where JupyterLab listens, as its job has written it; ``missing``: the Python without it."""

    node: str = ""
    port: int = 0
    token: str = field(default="", repr=False)
    missing: str = ""


def notebook_job(fields: Mapping[str, Any], *, python: str = "") -> JobSpec:
    """The job that runs JupyterLab, for ``submit``: one process on one node.

    Args:
        fields: of ``JobSpec``, such as gpus_per_node, time, partition, environment and container.
        python: the Python that has JupyterLab, a path on the node; "" for the job's own.

    Raises:
        CorralError: USAGE, the job cannot run as asked.
    """
    words = [] if fields.get("workdir") else ["--home"]
    words += ["--python", python] if python else []
    fixed = {"script": str(PROGRAM), "folder": "none", "args": tuple(words), "ranks_per_node": 1}
    return job_spec({"name": "notebook", **fields, **fixed})


@asynccontextmanager
async def open_notebook(
    spec: ClusterSpec,
    job_id: JobRef,
    emit: Emit = ignore,
    *,
    user: str = "",
    local_port: int = 0,
) -> AsyncGenerator[tuple[Notebook, JobEnd]]:
    """Wait until a job's JupyterLab listens, and keep a tunnel to it while the context is open.

    Args:
        spec: the cluster.
        job_id: a job of ``notebook_job``.
        emit: receives why the job is pending.
        user: whose job it must be; "" for the cluster's first user.
        local_port: where to listen on this machine's loopback; 0 takes a free port.

    Yields:
        JupyterLab, and a coroutine function as ``forward`` yields it.

    Raises:
        CorralError: NOT_FOUND, no such job, or it is not a notebook; USAGE, it is another user's;
            FORBIDDEN, as ``own_job``; MISSING_TOOL, JupyterLab is not installed for the job's
            Python; NOT_GOOD, the job ended; TIMED_OUT, JupyterLab does not start; UNREACHABLE.
    """
    owner = acting_as(spec, user)
    for last in (False, True):
        async with await Session.open(spec, root=False) as session:
            session.require_running()
            fleet = session.fleet
            handle = own_job(session, await handle_of(session, job_id))
            if handle.user != owner:
                raise CorralError(
                    Code.USAGE,
                    f"job {handle.ref} is {handle.user}'s, not {owner}'s",
                    hint=f"corral notebook --user {handle.user} {handle.ref}, if you may act for "
                    f"{handle.user}",
                )
            place, far = await _listening(fleet, handle, emit)
            if far is None:
                if last:
                    raise _damaged(handle)
                continue  # a node that was rented meanwhile: a new session knows it
            async with tunnel_into(session.spec, fleet, handle, place.node, far, local_port) as (
                tunnel,
                ended,
            ):
                yield Notebook(tunnel, place.token), ended
            return


async def _listening(fleet: Fleet, handle: JobHandle, emit: Emit) -> tuple[_Place, Listener | None]:
    """Wait until JupyterLab listens; no listener: on a node that this fleet does not know."""
    loop = asyncio.get_running_loop()
    late, words = 0.0, ""
    while True:
        outcome, place = await _job_now(fleet, handle)
        if (state := _words(outcome)) != words:
            words = state
            emit(Event(Kind.JOB, handle.ref, node=outcome.nodes, message=words))
        if outcome.state.ended or place.missing:
            raise await _without(fleet, handle, outcome, place)
        if place.port and place.node not in fleet.nodes:
            return place, None
        if outcome.state is JobState.RUNNING:
            late = late or loop.time() + START_S
            far = await _listener(fleet, handle, place) if place.port else None
            if far is not None:
                return place, far
            if loop.time() > late:
                raise CorralError(
                    Code.TIMED_OUT,
                    f"JupyterLab in job {handle.ref} did not start within {START_S:g} s",
                    hint=f"corral logs {handle.ref} shows what it printed; then: corral notebook "
                    f"{handle.ref}, or corral cancel {handle.ref}",
                )
        await asyncio.sleep(PENDING_POLL_S if outcome.state.waiting else POLL_S)


async def _job_now(fleet: Fleet, handle: JobHandle) -> tuple[JobOutcome, _Place]:
    """The job and where JupyterLab is; a controller that restarts is asked again for a while."""
    end = asyncio.get_running_loop().time() + control.BROKEN_S
    while True:
        try:
            return await control.state(fleet, handle), await _place(fleet, handle)
        except CorralError as error:
            passes = error.code in (Code.UNREACHABLE, Code.COMMAND_FAILED)
            if not passes or asyncio.get_running_loop().time() > end:
                raise
        await asyncio.sleep(POLL_S)


def _words(outcome: JobOutcome) -> str:
    if outcome.state.waiting:
        why = explain(outcome.reason)
        return f"pending: {why}" if why else "pending"
    where = f" on {outcome.nodes}" if outcome.nodes else ""
    return f"{outcome.state.lower().replace('_', ' ')}{where}"


async def _listener(fleet: Fleet, handle: JobHandle, place: _Place) -> Listener | None:
    """JupyterLab's socket; None while it has none."""
    try:
        return await listening(fleet, place.node, place.port, job=handle.ref, user=handle.user)
    except CorralError as error:
        if error.code is Code.NOT_FOUND:
            return None
        raise


async def _place(fleet: Fleet, handle: JobHandle) -> _Place:
    """Where JupyterLab listens; an empty one while its job has not written it.

    Raises:
        CorralError: NOT_FOUND, the job is not a notebook; PARSE_FAILED.
    """
    # The job's user made these files: they are read with that user's rights.
    folder = handle.folder or "/nonexistent"
    script = call("jobs/user.sh", "notebook_place", folder, PROGRAM.name, OTHER)
    result = await fleet.run(handle.controller, as_user(handle.user, script), timeout=60)
    if result.status == OTHER:
        raise CorralError(
            Code.NOT_FOUND,
            f"job {handle.ref} is not a notebook",
            hint=f"corral notebook without a number starts one; corral forward {handle.ref} PORT "
            "leads to another server",
        )
    text = check(result, f"asking where JupyterLab of job {handle.ref} listens").stdout
    if not text.strip():
        return _Place()
    try:
        answer = json.loads(text)
        place = _Place(
            str(answer.get("node", "")),
            int(answer.get("port", 0)),
            str(answer.get("token", "")),
            str(answer.get("missing", "")),
        )
    except BAD_JSON as error:
        raise _damaged(handle) from error
    if not place.missing and not _TOKEN.fullmatch(place.token):
        raise _damaged(handle)
    return place


def _damaged(handle: JobHandle) -> CorralError:
    return CorralError(
        Code.PARSE_FAILED,
        f"{handle.folder}/notebook.json is damaged",
        hint=f"corral cancel {handle.ref}, then corral notebook",
    )


async def _without(
    fleet: Fleet, handle: JobHandle, outcome: JobOutcome, place: _Place
) -> CorralError:
    """Why there is no JupyterLab to reach."""
    if place.missing:
        return CorralError(
            Code.MISSING_TOOL,
            f"JupyterLab is not installed for the job's Python, {place.missing}",
            node=outcome.nodes,
            hint="name a Python that has it with --python PATH, a lock that lists jupyterlab with "
            "--environment, or an image with --container",
        )
    lines, _ = await control.logs(fleet, handle)
    return CorralError(
        Code.NOT_GOOD,
        f"job {handle.ref} ended as {outcome.state.value}: there is no JupyterLab to reach",
        tail="\n".join(line.text for line in lines[-TAIL_LINES:]),
        hint=f"corral logs {handle.ref} has all of it; corral notebook starts another",
    )
