"""How many connections and requests a second: of one peer, of one session, of all strangers.

A flood of connections costs the server's time, of which who is logged in comes first: a session's
requests never count with the strangers of the same address or user, and strangers share what is
left. Numbers: ``benchmarks/page_flood.py``.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, Final, cast

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from corral.api.page.token_store import Bearers
from corral.web.listener.connections import Bounded
from corral.web.listener.peers import Peer
from corral.web.listener.request_checks import reply
from corral.web.state import COOKIE
from corral.web.users.sessions import MANY_KEYS, Sessions

PEER: Final = (50.0, 400.0)
"""A second, and at once. A page that is opened for the first time takes about 25."""
STRANGERS: Final = (200.0, 800.0)
SESSION: Final = (200.0, 1000.0)
_COOKIE: Final = re.compile(rb"(?:^|[;,:\s])" + COOKIE.encode() + rb"(?:_\d{1,5})?=([\w-]{20,64})")
_COOKIES: Final = 8
_BEARER: Final = re.compile(rb"bearer[ \t]+(corral_[\w-]{43})(?![\w-])", re.I)

_SHOWING: Final = (b"cookie", b"authorization")

Clock = Callable[[], float]


class Budget:
    """So many a second and key, and more at once where there were fewer before.

    Args:
        rate: how many a second.
        burst: how many at once.
        clock: seconds that only grow.
    """

    def __init__(self, rate: float, burst: float, clock: Clock = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left: dict[str, tuple[float, float]] = {}
        self._sweep_above = MANY_KEYS

    def take(self, key: str) -> bool:
        """Count one, where there is one left."""
        now = self._clock()
        if len(self._left) > self._sweep_above:
            full = now - self._burst / self._rate
            self._left = {k: v for k, v in self._left.items() if v[1] > full}
            self._sweep_above = max(MANY_KEYS, 2 * len(self._left))  # so that it stays linear
        left, at = self._left.get(key, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        self._left[key] = (max(0.0, left - 1), now)
        return left >= 1


class Admission:
    """Decides about each connection and each request.

    Args:
        sessions: who is logged in.
        clock: seconds that only grow.
        bearers: the API's tokens.
    """

    def __init__(
        self,
        sessions: Sessions,
        clock: Clock = time.monotonic,
        bearers: Bearers | None = None,
    ) -> None:
        self._sessions = sessions
        self._bearers = bearers
        self._of_peers = Budget(*PEER, clock)
        self._of_strangers = Budget(*STRANGERS, clock)
        self._of_sessions = Budget(*SESSION, clock)

    def stranger(self, peer: Peer) -> bool:
        """Whether one more of a peer may come that nothing else is known of."""
        return self._of_peers.take(peer.name) and self._of_strangers.take("")

    def viewer(self, head: bytes) -> bool | None:
        """Whether one more may come with these headers; None where they show no login."""
        for key in _COOKIE.findall(head)[:_COOKIES]:
            session = self._sessions.find(key.decode(), touch=False)
            if session is not None:
                return self._of_sessions.take(session.csrf)
        bearer = _BEARER.search(head) if self._bearers is not None else None
        if bearer is not None and self._bearers is not None:
            identity = self._bearers.knows(bearer[1].decode())
            return self._of_sessions.take(f"token {identity}") if identity else None
        return None


class Admitted:
    """ASGI in front of the application: requests beyond the limits are refused at little cost.

    A reverse proxy's word for who somebody is counts where it is a service of this machine: any
    user here can connect and send such headers.

    Args:
        app: the application.
        admission: decides.
        proxied: there is a declared reverse proxy.
    """

    def __init__(self, app: ASGIApp, admission: Admission, *, proxied: bool) -> None:
        self._app = app
        self._admission = admission
        # uvicorn and starlette have different types for the same ASGI.
        self._proxied: Any = ProxyHeadersMiddleware(cast("Any", app), "*") if proxied else app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        connection: Bounded = scope["state"]["connection"]
        head = b";".join(value for name, value in scope["headers"] if name in _SHOWING)
        may = self._admission.viewer(head)
        connection.viewer = may is not None
        connection.requests += 1
        if may is None:  # its first request has been counted with the connection
            may = connection.requests == 1 or self._admission.stranger(connection.peer)
        if not may:
            await reply(send, 429, "too many requests: wait a little", (b"connection", b"close"))
            return
        app = self._proxied if connection.peer.service else self._app
        await app(scope, receive, send)
