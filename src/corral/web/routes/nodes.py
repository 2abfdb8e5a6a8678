"""Drain and resume: for Slurm's administrators, with their own token.

slurmctld lets operators change jobs and reservations, but no nodes (validate_super_user, 24.11).
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from corral.errors import Code, CorralError
from corral.slurm.rest import write
from corral.web.state import Changer, Here, poller_of

router = APIRouter(prefix="/api/nodes", tags=["nodes"])
NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
NodeName = Annotated[str, Path(max_length=128, pattern=NAME)]


class NodeAction(BaseModel):
    """What to do to a node."""

    model_config = ConfigDict(extra="forbid")

    do: Literal["drain", "resume"]
    reason: str = Field(
        default="", max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$", description="With drain."
    )


@router.post("/{name}")
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
    poller_of(request, session).nudge()
    return {"ok": True}
