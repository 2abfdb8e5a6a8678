"""Jobs by form: ``corral run``'s job out of JobSpec, with nothing of this server's disk in it."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any, Final

from fastapi import APIRouter, Request

from corral import api
from corral.errors import Code, CorralError
from corral.spec.models import ClusterSpec
from corral.spec.nodes import users_of
from corral.web.routes.jobs import audited, elsewhere, own_commands
from corral.web.state import Changer, Here, State, Viewer, poller_of
from corral.web.users.sessions import Session

router = APIRouter(prefix="/api/jobs", tags=["jobs"])
OF_THIS_MACHINE: Final = frozenset({"folder", "in_place", "environment"})
"""JobSpec's fields that name files of the machine that submits (decision 0057)."""


@router.get("/form")
async def form(session: Viewer, state: Here) -> Any:
    """The form of a job: JobSpec's JSON Schema, the partitions and the shared folders."""
    spec = state.spec
    schema = api.JobSpec.model_json_schema()
    for name in OF_THIS_MACHINE | {"user"}:
        del schema["properties"][name]
    return {
        "schema": schema,
        "can_spec": spec is not None
        and state.own is not None
        and session.user in {u.name for u in users_of(spec)},
        "storage": [s.mount for s in spec.storage] if spec else [],
    }


@router.post("/preview")
async def preview(fields: dict[str, Any], session: Changer, state: Here) -> Any:
    """The batch script that a filled form stands for; nothing is submitted."""
    _, script = await _filled(fields, session, state)
    return {"script": script}


@router.post("/spec")
async def submit_spec(
    request: Request, fields: dict[str, Any], session: Changer, state: Here
) -> Any:
    """Submit a filled form as ``corral run`` does, as the session's user."""
    job, _ = await _filled(fields, session, state)
    sent = own_commands(state).submit(session.login, job)
    number = await audited(state, session, "submit", job.title, sent)
    poller_of(request, session).nudge()
    return {"id": number}


def _spec(state: State) -> ClusterSpec:
    if state.spec is None:
        raise elsewhere()
    return state.spec


async def _filled(
    fields: dict[str, Any], session: Session, state: State
) -> tuple[api.JobSpec, str]:
    """A filled form as a job that takes nothing of this server's disk along, and its script.

    What ``corral run`` sends from here is its user's own; here it would be the files of who runs
    the page, keys to the machines among them, in the hands of whoever is logged in.
    """
    if wrong := sorted(OF_THIS_MACHINE & fields.keys()):
        raise CorralError(
            Code.USAGE,
            f"{', '.join(wrong)}: a job from the page takes no files of the page's own machine",
            hint="corral run sends files, from where they are",
        )
    spec = _spec(state)
    script_ = fields.get("script")
    if fields.get("command") and not script_:  # a command takes no file along
        return await state.limited.job({**fields, "user": session.user}, spec)
    path = PurePosixPath(script_ if isinstance(script_, str) else "")
    mounts = [s.mount for s in spec.storage]
    if ".." in path.parts or not any(path.is_relative_to(mount) for mount in mounts):
        raise CorralError(
            Code.USAGE,
            "the script must be a path on the cluster's shared storage",
            hint=f"such as {mounts[0]}/train.py; or give a command"
            if mounts
            else "this cluster has none",
        )
    # Its size is the viewer's: 100,000 points of a sweep take seconds.
    return await state.limited.job({**fields, "user": session.user, "in_place": True}, spec)
