"""Logins by an OpenID provider: away to it, back from it, and the session.

A browser comes back by an address of another site, and no cookie of the session's kind
(SameSite=Strict) comes with that request. So it opens no session: the outcome waits under a cookie
for the page, which asks for it from its own origin. No secret of a session is in an address.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, Field

from corral.errors import Code, CorralError
from corral.spec.sections.page_login import OidcLogin
from corral.web import schemas
from corral.web.listener.request_checks import port_of
from corral.web.login.client import ProviderPlaces, TokenProgram
from corral.web.login.handshake import ARRIVED_S, AWAY_S, Arrivals, Handshakes
from corral.web.login.routes import limited
from corral.web.login.session import opened, secure
from corral.web.state import Here, State, prefix_of, ways_of
from corral.web.users.sessions import LoginKind

PATH: Final = "/api/login/oidc"
BACK: Final = f"{PATH}/back"
SIGNED_IN: Final = "/#signed-in"
"""Where the page asks for the session: a fixed address, whatever the request names."""
KEPT_S: Final = 300.0
"""The provider's addresses are asked for again after this time."""
FAILED_S: Final = 5.0
_WORD: Final = re.compile(r"[a-z_]{1,40}")

router = APIRouter(prefix=PATH, tags=["login"])


class SentBack(BaseModel):
    """What the provider writes into the address that the browser comes back by."""

    state: Annotated[str, Field(max_length=512)] = ""
    code: Annotated[str, Field(max_length=4096)] = ""
    error: Annotated[str, Field(max_length=4096)] = ""
    iss: Annotated[str, Field(max_length=2048)] = ""


@dataclass(slots=True)
class ProviderMemory:
    """The provider's addresses, asked for by one at a time, however many log in.

    Attributes:
        clock: returns seconds that only grow.
    """

    clock: Callable[[], float] = time.monotonic
    _places: ProviderPlaces | CorralError | None = None
    _until: float = 0.0
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def places(self, program: TokenProgram) -> ProviderPlaces:
        """The addresses.

        Raises:
            CorralError: as ``TokenProgram.provider``; for some seconds without asking again.
        """
        async with self._turn:
            if self._places is None or self.clock() >= self._until:
                await self._asked(program)
        if isinstance(self._places, ProviderPlaces):
            return self._places
        raise self._places or CorralError(Code.UNREACHABLE, "the login provider is unknown")

    async def _asked(self, program: TokenProgram) -> None:
        try:
            self._places, kept = await program.provider(), KEPT_S
        except CorralError as error:
            self._places, kept = error, FAILED_S
        self._until = self.clock() + kept


@dataclass(slots=True)
class OidcState:
    """What one server has of logins at the provider."""

    handshakes: Handshakes = field(default_factory=Handshakes)
    arrivals: Arrivals = field(default_factory=Arrivals)
    provider: ProviderMemory = field(default_factory=ProviderMemory)


def oidc_of(request: Request) -> OidcState:
    """The server's."""
    return request.app.state.oidc


# Not of the API: addresses that browsers go to.
@router.get("", response_class=RedirectResponse, include_in_schema=False)
async def go_to_provider(request: Request, state: Here) -> Response:
    """Send the browser to the OpenID provider."""
    oidc = oidc_of(request)
    try:
        declared, program = _declared(request, state)
        places = await oidc.provider.places(program)
    except CorralError as error:
        return _arrived(request, state, oidc.arrivals.add(error))
    handshake = oidc.handshakes.begin()
    asked = {
        "response_type": "code",
        "client_id": declared.client,
        "redirect_uri": _back(request),
        "scope": " ".join(dict.fromkeys(("openid", *declared.scopes))),
        "state": handshake.state,
        "nonce": handshake.nonce,
        "code_challenge": handshake.challenge,
        "code_challenge_method": "S256",
    }
    mark = "&" if "?" in places.authorize else "?"
    reply = RedirectResponse(f"{places.authorize}{mark}{urlencode(asked)}", 303)
    # Lax: it comes with the request by which the provider sends the browser back.
    _Cookies(request, state).set(reply, _away(request), handshake.cookie, AWAY_S, site="lax")
    return reply


@router.get("/back", response_class=RedirectResponse, include_in_schema=False)
async def come_back(request: Request, state: Here, sent: Annotated[SentBack, Query()]) -> Response:
    """Where the OpenID provider sends the browser back to."""
    oidc = oidc_of(request)
    try:
        declared, program = _declared(request, state)
        handshake = oidc.handshakes.known(request.cookies.get(_away(request), ""), sent.state)
        if handshake is None:
            raise CorralError(
                Code.LOGIN_REFUSED,
                "this login was not begun in this browser, or more than 10 minutes ago",
                hint="log in again",
            )
        _refuse(declared, sent)
        asked = partial(
            program.by_code,
            code=sent.code,
            verifier=handshake.verifier,
            nonce=handshake.nonce,
            redirect=_back(request),
        )
        outcome = await limited(request, state, "login-oidc", asked)
    except CorralError as refused:
        outcome = refused
    reply = _arrived(request, state, oidc.arrivals.add(outcome))
    _Cookies(request, state).set(reply, _away(request), "", 0, site="lax")
    return reply


@router.post("/session", response_model=schemas.Me)
async def session_of_arrival(request: Request, response: Response, state: Here) -> Any:
    """Open the session of who came back from the OpenID provider in this browser; once."""
    outcome = oidc_of(request).arrivals.take(request.cookies.get(_arrival(request), ""))
    if isinstance(outcome, CorralError):
        raise outcome
    if outcome is None:
        raise CorralError(
            Code.LOGIN_REFUSED, "no login at the provider waits here", hint="log in again"
        )
    _Cookies(request, state).set(response, _arrival(request), "", 0, site="strict")
    return await opened(state, request, response, outcome, kind=LoginKind.OIDC)


async def leave_provider(request: Request, state: State) -> str:
    """Where a browser goes after a log-out to end the provider's login too; "" for nowhere."""
    declared = ways_of(state).oidc
    if declared is None or not declared.logout or state.token_program is None:
        return ""
    if not secure(request, state):
        return ""
    try:
        places = await oidc_of(request).provider.places(state.token_program)
    except CorralError:
        return ""  # the page's own session has ended all the same
    if not places.end:
        return ""
    mark = "&" if "?" in places.end else "?"
    page = f"{_origin(request)}{prefix_of(request)}/"
    asked = {"client_id": declared.client, "post_logout_redirect_uri": page}
    return f"{places.end}{mark}{urlencode(asked)}"


def _declared(request: Request, state: State) -> tuple[OidcLogin, TokenProgram]:
    declared = ways_of(state).oidc
    if declared is None or state.token_program is None:
        raise CorralError(
            Code.NOT_FOUND, "nobody logs in by a provider here", hint="log in with a token"
        )
    if not secure(request, state):
        name = (*state.settings.names, "")[0]
        raise CorralError(
            Code.FORBIDDEN,
            "the login provider sends nobody back without TLS",
            hint=f"open the page at https://{name}",
        )
    return declared, state.token_program


def _refuse(declared: OidcLogin, sent: SentBack) -> None:
    if sent.iss and sent.iss != declared.issuer:  # RFC 9207: another provider's answer
        raise CorralError(
            Code.LOGIN_REFUSED, "another login provider has answered", hint="log in again"
        )
    if sent.error or not sent.code:
        word = sent.error if _WORD.fullmatch(sent.error) else "no code"
        raise CorralError(
            Code.LOGIN_REFUSED, f"the login provider lets nobody in: {word}", hint="log in again"
        )


def _origin(request: Request) -> str:
    """Only where ``secure``: the Host is a declared name (``RequestChecks``), by TLS."""
    return f"https://{request.headers['host'].lower()}"


def _back(request: Request) -> str:
    return f"{_origin(request)}{prefix_of(request)}{BACK}"


def _away(request: Request) -> str:
    return _of_port(request, "corral_oidc")


def _arrival(request: Request) -> str:
    return _of_port(request, "corral_arrival")


def _of_port(request: Request, name: str) -> str:
    port = port_of(request.headers.get("host", ""))
    return f"{name}_{port}" if port else name


def _arrived(request: Request, state: State, key: str) -> RedirectResponse:
    reply = RedirectResponse(f"{prefix_of(request)}{SIGNED_IN}", 303)
    _Cookies(request, state).set(reply, _arrival(request), key, ARRIVED_S, site="strict")
    return reply


class _Cookies:
    """Sets cookies of these addresses alone, which no script reads."""

    def __init__(self, request: Request, state: State) -> None:
        self._secure = secure(request, state)
        self._path = f"{prefix_of(request)}{PATH}"

    def set(
        self,
        reply: Response,
        name: str,
        value: str,
        seconds: int,
        *,
        site: Literal["lax", "strict"],
    ) -> None:
        """One cookie; with 0 seconds it goes."""
        reply.set_cookie(
            name,
            value,
            max_age=seconds,
            httponly=True,
            samesite=site,
            secure=self._secure,
            path=self._path,
        )
