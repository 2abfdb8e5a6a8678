"""Logins that need no Slurm token: by a reverse proxy's header, by a person's own password."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from corral.errors import Code, CorralError
from corral.web import schemas
from corral.web.login.proxy import word_of
from corral.web.login.session import opened
from corral.web.slurm.slurmrest import Login
from corral.web.state import Here, State, peer_of, ways_of
from corral.web.users.sessions import LoginKind

router = APIRouter(prefix="/api/login", tags=["login"])
REFUSALS: Final = frozenset({Code.LOGIN_REFUSED, Code.FORBIDDEN})
REFUSED_S: Final = 3.0
"""A refused password is answered after this time, whatever was wrong."""


class PasswordLogin(BaseModel):
    """A person's name on the cluster, and password."""

    user: str = Field(max_length=256)
    password: str = Field(max_length=1024, repr=False)


@router.post("/header", response_model=schemas.Me)
async def log_in_by_header(request: Request, response: Response, state: Here) -> Any:
    """Open a session for the person whom the reverse proxy names."""
    word = word_of(request, ways_of(state).header)
    if word is None or state.token_program is None:
        raise CorralError(
            Code.LOGIN_REFUSED, "no reverse proxy names you here", hint="log in with a token"
        )
    asked = partial(state.token_program.by_header, word.user, word.secret)
    login = await limited(request, state, "login-header", asked)
    return await opened(state, request, response, login, kind=LoginKind.HEADER)


@router.post("/password", response_model=schemas.Me)
async def log_in_by_password(
    request: Request, credentials: PasswordLogin, response: Response, state: Here
) -> Any:
    """Open a session for a person's own password; PAM judges it on the controller.

    Raises:
        CorralError: LOGIN_REFUSED; TOO_MANY wrong ones, from there or for this name.
    """
    if not ways_of(state).passwords or state.token_program is None:
        raise CorralError(
            Code.LOGIN_REFUSED, "nobody logs in by a password here", hint="log in with a token"
        )
    user, begun = credentials.user, time.monotonic()
    state.passwords.take(user)
    asked = partial(state.token_program.by_password, user, credentials.password)
    try:
        login = await limited(request, state, "login-password", asked)
    except CorralError as error:
        if error.code not in REFUSALS:
            state.passwords.forgive(user)
        await state.pause(max(0.0, begun + REFUSED_S - time.monotonic()))
        raise
    state.passwords.forgive(user)
    return await opened(state, request, response, login, kind=LoginKind.PASSWORD)


async def limited(
    request: Request, state: State, what: str, asked: Callable[[], Awaitable[Login]]
) -> Login:
    """The login of a proof that is checked; wrong ones count against who sends them alone.

    Raises:
        CorralError: LOGIN_REFUSED; FORBIDDEN; TOO_MANY wrong ones came from there.
    """
    peer = peer_of(request)
    state.logins.take(peer)  # before it is checked: many at once do not get around it
    try:
        login = await asked()
        await state.rest.check(login)
    except CorralError as error:
        state.audit.note("", what, peer, error.code.value)
        if error.code not in REFUSALS:
            state.logins.forgive(peer)
        raise
    state.logins.forgive(peer)
    return login
