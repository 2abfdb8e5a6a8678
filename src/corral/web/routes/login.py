"""Log in by Slurm token or one-time code, log out, who am I."""

from __future__ import annotations

import sys
import time
from typing import Any, Final
from urllib.parse import urlsplit

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from corral.errors import Code, CorralError
from corral.web import schemas
from corral.web.login.oidc_routes import leave_provider
from corral.web.login.proxy import named_by_proxy
from corral.web.login.session import described, opened
from corral.web.slurm.slurmrest import Login
from corral.web.state import (
    Changer,
    Here,
    State,
    Viewer,
    address_of,
    cookie_of,
    here_of,
    key_of,
    peer_of,
    prefix_of,
    ways_of,
)
from corral.web.users.sessions import LoginKind, expiry, login_of

router = APIRouter(prefix="/api", tags=["login"])
TYPED_S: Final = 60.0
"""A code that is good for so long can still be typed."""


class TokenLogin(BaseModel):
    """A token of ``scontrol token``."""

    token: str = Field(max_length=16384, repr=False)


class CodeLogin(BaseModel):
    """The one-time code that ``corral ui`` shows."""

    code: str = Field(max_length=64, repr=False)


@router.post("/login", response_model=schemas.Me)
async def log_in(request: Request, credentials: TokenLogin, response: Response, state: Here) -> Any:
    """Open a session for the user of a token; Slurm itself judges the token."""
    login = await checked_login(request, credentials.token, "login", state)
    return await opened(state, request, response, login)


@router.post("/login/code", response_model=schemas.Me)
async def log_in_by_code(
    request: Request, credentials: CodeLogin, response: Response, state: Here
) -> Any:
    """Open the session of who runs ``corral ui``; a code works once, for two minutes.

    A right code always opens it, whoever has tried wrong ones from where: it has 72 bits, so that
    no limit is needed against guessing (2,000 open codes and 10^6 guesses a second for their two
    minutes find one with a chance of 5 in 10^11).
    """
    login = state.sessions.owner_of(credentials.code)
    if login is not None:
        # Before the code is used up: with a silent slurmctld it is good for the next try.
        await state.rest.check(login)
        login = state.sessions.redeem(credentials.code)  # None where another one was faster
    if login is None:
        peer = peer_of(request)
        state.logins.take(peer)
        state.audit.note("", "login-code", peer, Code.LOGIN_REFUSED.value)
        raise CorralError(
            Code.LOGIN_REFUSED,
            "this code is used up, too old or wrong",
            hint="the login has a button for a new one in the terminal of corral ui"
            if state.settings.handover
            else "run corral ui --controller again for a new one",
        )
    owner = here_of(state) is not None
    return await opened(state, request, response, login, owner=owner, kind=LoginKind.CODE)


@router.get("/login", response_model=schemas.Logins)
async def logins(request: Request, state: Here) -> Any:
    """How one logs in here: by a terminal's codes, as whom a proxy names, at which provider."""
    ways = ways_of(state)
    return {
        "codes": state.settings.handover is not None,
        "header": named_by_proxy(request, ways.header),
        "oidc": urlsplit(ways.oidc.issuer).hostname or "" if ways.oidc else "",
        "password": ways.passwords,
    }


@router.post("/login/code/new", response_model=schemas.Done)
async def new_code(request: Request, state: Here) -> Any:
    """Show another code in the terminal in which ``corral ui`` runs; nobody else sees it.

    Whoever reaches the page may ask for it: while the terminal shows a code that is good, and long
    enough to be typed, that one stays.

    Raises:
        CorralError: NOT_FOUND, no terminal shows codes here; TOO_MANY; LOGIN_REFUSED, the login of
            ``corral ui`` has ended.
    """
    if state.settings.handover is None:
        raise CorralError(
            Code.NOT_FOUND, "no terminal shows codes of this page", hint="log in with a token"
        )
    state.logins.take(peer_of(request))
    if not _shown_in_terminal(state):
        raise CorralError(
            Code.LOGIN_REFUSED, "the login of corral ui has ended", hint="run corral ui again"
        )
    return {"ok": True}


def _shown_in_terminal(state: State) -> bool:
    """Whether the terminal shows a code that is good; another one where the last was used."""
    if state.settings.handover is None:
        return False
    login = Login(*state.settings.handover)
    ends = expiry(login.token)
    if ends is not None and ends <= time.time():
        return False
    if not state.sessions.open_code(login, TYPED_S):
        code = state.sessions.code(login)
        sys.stderr.write(f"a new code for the page: {code}   (once, within two minutes)\n")
        sys.stderr.flush()
    return True


@router.post("/login/handover", response_model=schemas.LoginCode)
async def issue_code(request: Request, credentials: TokenLogin, state: Here) -> Any:
    """A one-time code for a token's user: ``corral ui --controller`` shows that, not the token."""
    login = await checked_login(request, credentials.token, "handover", state)
    state.audit.note(login.user, "handover", address_of(request))
    return {"code": state.sessions.code(login), "user": login.user}


@router.get("/me", response_model=schemas.Me)
async def me(session: Viewer, state: Here) -> Any:
    """The session, and what this server can do."""
    return described(session, state)


@router.post("/ticket", response_model=schemas.Ticket)
async def ticket(session: Changer, state: Here) -> Any:
    """Opens one GET within 30 s, as ``?ticket=...``, where no header can be sent."""
    return {"ticket": state.sessions.ticket(session)}


@router.post("/logout", response_model=schemas.LoggedOut)
async def log_out(request: Request, session: Changer, response: Response, state: Here) -> Any:
    """End the session; ``leave`` is where the provider's login ends, where it is to."""
    state.sessions.close(key_of(request))
    path = f"{prefix_of(request)}/"
    response.delete_cookie(cookie_of(request), path=path, httponly=True, samesite="strict")
    state.audit.note(session.user, "logout")
    if session.owner:
        _shown_in_terminal(state)
    leave = await leave_provider(request, state) if session.kind is LoginKind.OIDC else ""
    return {"ok": True, "leave": leave}


async def checked_login(request: Request, token: str, what: str, state: State) -> Login:
    """The login of a token that Slurm takes; wrong ones count against who sends them alone.

    Raises:
        CorralError: LOGIN_REFUSED; TOO_MANY wrong ones came from there.
    """
    peer = peer_of(request)
    state.logins.take(peer)  # before slurmrestd is asked: many at once do not get around it
    try:
        login = login_of(token)
        await state.rest.check(login)
    except CorralError as error:
        state.audit.note("", what, peer, error.code.value)
        if error.code is not Code.LOGIN_REFUSED:
            state.logins.forgive(peer)
        raise
    state.logins.forgive(peer)
    return login
