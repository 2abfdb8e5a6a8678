"""What binds a browser that goes to the provider to the one that comes back.

The browser keeps a random text in a cookie; state, nonce and PKCE's verifier are made of it with a
key of this process, so that nothing is kept here of those who never come back.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from corral.errors import CorralError
from corral.web.slurm.slurmrest import Login

AWAY_S: Final = 600
"""How long somebody may be at the provider."""
ARRIVED_S: Final = 120
"""How long who came back waits for the session: the page asks for it at once."""
MOST: Final = 2000

T = TypeVar("T")
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Handshake:
    """One login at the provider.

    Attributes:
        cookie: what the browser keeps.
        state: what comes back in the address.
        nonce: what the ID token must have.
        verifier: PKCE's, for who exchanges the code.
    """

    cookie: str = field(repr=False)
    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)

    @property
    def challenge(self) -> str:
        """PKCE's S256 (RFC 7636, 4.2)."""
        return _coded(hashlib.sha256(self.verifier.encode()).digest())


class Handshakes:
    """Makes them, and knows them again.

    Args:
        clock: returns unix seconds.
    """

    def __init__(self, clock: Clock = time.time) -> None:
        self._key = secrets.token_bytes(32)
        self._clock = clock

    def begin(self) -> Handshake:
        """A new one."""
        return self._of(f"{int(self._clock()):x}.{secrets.token_urlsafe(32)}")

    def known(self, cookie: str, state: str) -> Handshake | None:
        """The one of a browser that comes back; None: not begun in it, or too long ago."""
        begun, _, rest = cookie.partition(".")
        if not rest:
            return None
        handshake = self._of(cookie)
        if not hmac.compare_digest(handshake.state.encode(), state.encode()):
            return None
        # Nobody else has the key, so that the time is what it was made with.
        return handshake if self._clock() - int(begun, 16) < AWAY_S else None

    def _of(self, cookie: str) -> Handshake:
        return Handshake(cookie, *(self._made(cookie, use) for use in ("state", "nonce", "pkce")))

    def _made(self, cookie: str, use: str) -> str:
        text = f"{use} {cookie}".encode()
        return _coded(hmac.new(self._key, text, hashlib.sha256).digest())


class Arrivals:
    """Who came back from the provider, until the page asks for the session; once.

    Failures, which anybody can cause without a login, are kept apart: many of them push out only
    each other.

    Args:
        clock: returns unix seconds.
    """

    def __init__(self, clock: Clock = time.time) -> None:
        self._clock = clock
        self._logins: dict[str, tuple[Login, float]] = {}
        self._failures: dict[str, tuple[CorralError, float]] = {}

    def add(self, outcome: Login | CorralError) -> str:
        """Keep a login, or why there is none; gives what the browser asks by."""
        key = secrets.token_urlsafe(32)
        if isinstance(outcome, CorralError):
            self._keep(self._failures, key, outcome)
        else:
            self._keep(self._logins, key, outcome)
        return key

    def _keep(self, waiting: dict[str, tuple[T, float]], key: str, outcome: T) -> None:
        """Add one behind the others, of which the old ones go: they are in the order they came."""
        now = self._clock()
        while waiting and (len(waiting) >= MOST or next(iter(waiting.values()))[1] <= now):
            del waiting[next(iter(waiting))]
        waiting[_digest(key)] = (outcome, now + ARRIVED_S)

    def take(self, key: str) -> Login | CorralError | None:
        """What became of a login; None: nothing is known of it."""
        digest = _digest(key)
        login, until = self._logins.pop(digest, (None, 0.0))
        if login is not None:
            return login if self._clock() < until else None
        failure, until = self._failures.pop(digest, (None, 0.0))
        return failure if self._clock() < until else None


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _coded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
