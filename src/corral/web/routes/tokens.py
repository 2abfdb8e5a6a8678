"""Bearer tokens of the API: make, list and revoke them, with a session and never with a token."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from corral.api.page.token_store import LONGEST_DAYS, NAME, Bearer, Scope, Wish
from corral.errors import Code, CorralError
from corral.slurm.rest.read import ADMINISTRATOR
from corral.web import schemas
from corral.web.routes.login import checked_login
from corral.web.state import Changer, Here, Viewer
from corral.web.users.sessions import Session, expiry

router = APIRouter(prefix="/api/tokens", tags=["login"])
DAY_S: Final = 86400
Identity = Annotated[str, Path(max_length=64, pattern=NAME)]


class NewToken(BaseModel):
    """Properties of a new token; ``token`` is Slurm's, which a stolen session does not have."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(pattern=NAME)
    scopes: list[Scope] = Field(min_length=1, max_length=3)
    days: float = Field(default=30, gt=0, le=LONGEST_DAYS)
    token: str = Field(max_length=16384, repr=False, description="What scontrol token prints.")


@router.get("", response_model=schemas.ApiTokens)
async def listed(session: Viewer, state: Here) -> Any:
    """Tokens that are good: your own ones; all for who runs Corral here and for administrators."""
    return {"tokens": [b.as_dict() for b in state.bearers.listed() if _may(session, b)]}


@router.post("", response_model=schemas.MadeToken)
async def make(request: Request, wish: NewToken, session: Changer, state: Here) -> Any:
    """Make a token for the user of the session; only the answer has it.

    It ends with the Slurm token that it is made with, at the latest.
    """
    login = await checked_login(request, wish.token, "token-create", state)
    if login.user != session.user:
        raise CorralError(
            Code.FORBIDDEN,
            f"this Slurm token is {login.user}'s, and you are {session.user}",
            hint="make yours on the controller: scontrol token lifespan=SECONDS",
        )
    ends = min(time.time() + wish.days * DAY_S, expiry(login.token) or float("inf"))
    scopes = tuple(dict.fromkeys(wish.scopes))
    secret, bearer = state.bearers.make(Wish(wish.name, login.user, login.token, scopes, ends))
    state.audit.note(session.user, "token-create", f"{bearer.id} {bearer.name}")
    return {"token": secret, **bearer.as_dict()}


@router.delete("/{identity}", response_model=schemas.Done)
async def revoke(identity: Identity, session: Changer, state: Here) -> Any:
    """End a token at once."""
    bearer = state.bearers.revoke(identity, lambda known: _may(session, known))
    state.audit.note(session.user, "token-revoke", f"{bearer.id} {bearer.name} of {bearer.user}")
    return {"ok": True}


def _may(session: Session, bearer: Bearer) -> bool:
    return session.owner or session.role == ADMINISTRATOR or bearer.user == session.user
