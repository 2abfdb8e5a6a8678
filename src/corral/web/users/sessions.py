"""Who is logged in: sessions, one-time codes, and how often somebody may try.

A session lives in this process's memory only and ends with its token, after hours, or unused. The
cookie holds a random number, of which only a digest is kept here; Slurm's token stays here and is
sent to slurmrestd alone. root has no session: what a stolen one can do, Slurm lets its user do.

The cookie alone opens nothing: browsers send it to every port of the host (RFC 6265, 8.5), to
servers of other users too. So each request carries a second secret in a header, which the page
gets at login and keeps in the storage of its origin, and an origin has a port. Where a browser
sends no header (server-sent events, downloads, frames) a ticket in the address takes its place:
good once and for 30 s, and only together with the cookie.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from corral.errors import Code, CorralError
from corral.slurm.rest.read import ADMINISTRATOR, OPERATOR, USER
from corral.web.slurm.slurmrest import Login

CODE_S: Final = 120.0
CHECKED_S: Final = 60.0
"""How long Slurm's verdict about a login and its role are kept."""
ROLE_S: Final = 3 * CHECKED_S
"""An operator's login polls for others while its role was checked within this time."""
MAX_SESSIONS: Final = 2000
MAX_OF_USER: Final = 50
TICKET_S: Final = 30.0
MAX_CODES: Final = 10
"""Open at once for one user."""
MANY_KEYS: Final = 10_000
"""Of a limit: then those that are quiet are forgotten."""
_NEVER: Final = frozenset({"root", "slurm"})
_USER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}\$?")
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{2,4096}\.[A-Za-z0-9_-]{2,8192}\.[A-Za-z0-9_-]{2,4096}")

Clock = Callable[[], float]


class LoginKind(StrEnum):
    """How a session was opened."""

    TOKEN = "token"  # noqa: S105  # a word, not a secret
    CODE = "code"
    HEADER = "header"
    OIDC = "oidc"
    PASSWORD = "password"  # noqa: S105  # a word, not a secret


@dataclass(slots=True)
class Session:
    """One login.

    Attributes:
        login: Slurm user and token.
        role: Slurm's: user, operator or administrator.
        owner: it was opened by who runs Corral here, by the one-time code.
        csrf: must be in a header of every request, or a ticket in its place.
        ends: unix seconds.
        kind: how it was opened.
        checked: when Slurm was asked last about the login and its role, unix seconds.
        named: when a reverse proxy named the user last, of a session by its header.
    """

    login: Login
    role: str
    owner: bool
    ends: float
    used: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    kind: LoginKind = LoginKind.TOKEN
    checked: float = 0.0
    named: float = field(default_factory=time.time)

    @property
    def user(self) -> str:
        """The Slurm user."""
        return self.login.user

    @property
    def operates(self) -> bool:
        """May touch others' jobs."""
        return self.role in (OPERATOR, ADMINISTRATOR)

    def as_dict(self) -> dict[str, Any]:
        """What the page may know of it; never the token."""
        return {
            "user": self.user,
            "role": self.role,
            "owner": self.owner,
            "ends": self.ends,
        }


class Sessions:
    """All sessions of one server.

    Args:
        longest: seconds a session may last.
        idle: seconds it may be unused.
        clock: returns unix seconds.
    """

    def __init__(self, longest: float, idle: float, clock: Clock = time.time) -> None:
        self._longest = longest
        self._idle = idle
        self._clock = clock
        self._open: dict[str, Session] = {}
        self._codes: dict[str, tuple[Login, float]] = {}
        self._tickets: dict[str, tuple[Session, float]] = {}

    def open(
        self,
        login: Login,
        role: str = USER,
        *,
        owner: bool = False,
        kind: LoginKind = LoginKind.TOKEN,
    ) -> tuple[str, Session]:
        """A new session and the cookie's value; Slurm has accepted the token already."""
        now = self._clock()
        self._sweep(now)
        if len(self._open) >= MAX_SESSIONS:
            raise CorralError(Code.TOO_MANY, "too many people are logged in", hint="try later")
        ends = min(now + self._longest, expiry(login.token) or now + self._longest)
        mine = [k for k, s in self._open.items() if s.user == login.user]
        if len(mine) >= MAX_OF_USER:  # nobody takes the places of all others
            del self._open[min(mine, key=lambda k: self._open[k].used)]
        key = secrets.token_urlsafe(32)
        session = Session(login, role, owner, ends, now, kind=kind, checked=now)
        self._open[_digest(key)] = session
        return key, session

    def find(self, key: str, *, touch: bool = True) -> Session | None:
        """The session of a cookie; None when there is none any more."""
        session = self._open.get(_digest(key)) if key else None
        now = self._clock()
        if session is None:
            return None
        if now >= session.ends or now - session.used > self._idle:
            del self._open[_digest(key)]
            return None
        if touch:
            session.used = now
        return session

    def expired(self, session: Session) -> bool:
        """Whether Slurm is to be asked again about a session; the one who asks marks it."""
        now = self._clock()
        if now - session.checked < CHECKED_S:
            return False
        session.checked = now
        return True

    def drop(self, session: Session) -> None:
        """End a session whose login Slurm does not take any more."""
        self._open = {k: s for k, s in self._open.items() if s is not session}

    def close(self, key: str) -> None:
        """Log out."""
        self._open.pop(_digest(key), None)

    def logins(self, user: str = "") -> list[Login]:
        """Logins to poll with, the one that lasts longest first; of one user, or "" for all."""
        now = self._clock()
        open_sessions = [
            s for s in self._open.values() if s.ends > now and (not user or s.user == user)
        ]
        return _longest_first(open_sessions)

    def operators(self) -> list[Login]:
        """Logins of operators and administrators, the one that lasts longest first.

        Whose role was not checked for a while may be one no more: then Slurm shows that one less.
        """
        now = self._clock()
        return _longest_first(
            s
            for s in self._open.values()
            if s.ends > now and s.operates and now - s.checked < ROLE_S
        )

    def code(self, login: Login) -> str:
        """A one-time code that opens a session for this login, good for two minutes.

        Raises:
            CorralError: TOO_MANY codes are open.
        """
        text = "-".join(secrets.token_hex(3) for _ in range(3))
        now = self._clock()
        self._codes = {k: v for k, v in self._codes.items() if v[1] > now and v[0] != login}
        mine = [k for k, v in self._codes.items() if v[0].user == login.user]
        for oldest in mine[: max(0, len(mine) - MAX_CODES + 1)]:
            del self._codes[oldest]
        if len(self._codes) >= MAX_SESSIONS:
            raise CorralError(Code.TOO_MANY, "too many people are logging in", hint="try later")
        self._codes[_digest(text)] = (login, now + CODE_S)
        return text

    def open_code(self, login: Login, left: float) -> bool:
        """Whether a code of this login stays valid for at least this number of seconds."""
        soonest = self._clock() + left
        return any(owner == login and until > soonest for owner, until in self._codes.values())

    def owner_of(self, code: str) -> Login | None:
        """The login of a code, which stays good."""
        login, until = self._codes.get(_digest(code.strip().lower()), (None, 0.0))
        return login if self._clock() < until else None

    def redeem(self, code: str) -> Login | None:
        """The login of a code, once."""
        login = self.owner_of(code)
        self._codes.pop(_digest(code.strip().lower()), None)
        return login

    def ticket(self, session: Session) -> str:
        """What stands for the session's second secret in one request's address."""
        now = self._clock()
        self._tickets = {k: v for k, v in self._tickets.items() if v[1] > now}
        mine = [k for k, v in self._tickets.items() if v[0] is session]
        for oldest in mine[: max(0, len(mine) - MAX_OF_USER + 1)]:
            del self._tickets[oldest]
        text = secrets.token_urlsafe(24)
        self._tickets[_digest(text)] = (session, now + TICKET_S)
        return text

    def takes(self, session: Session, secret: str, ticket: str) -> bool:
        """Whether a request that came with a session's cookie is its own."""
        if secret:
            return hmac.compare_digest(secret.encode(), session.csrf.encode())
        owner, until = self._tickets.pop(_digest(ticket), (None, 0.0)) if ticket else (None, 0.0)
        return owner is session and self._clock() < until

    def _sweep(self, now: float) -> None:
        self._open = {
            k: s for k, s in self._open.items() if s.ends > now and now - s.used <= self._idle
        }


def _longest_first(open_sessions: Iterable[Session]) -> list[Login]:
    return [s.login for s in sorted(open_sessions, key=lambda s: -s.ends)]


def login_of(token: str) -> Login:
    """The login that a token claims; Slurm decides whether it is true.

    Raises:
        CorralError: LOGIN_REFUSED, it is not a token of Slurm, expired, or root's.
    """
    token = token.strip().removeprefix("SLURM_JWT=")
    claims = _claims(token)
    user = claims.get("sun")
    if not isinstance(user, str) or not _USER.fullmatch(user):
        raise CorralError(
            Code.LOGIN_REFUSED,
            "this is not a Slurm token",
            hint="paste what scontrol token prints, with or without SLURM_JWT=",
        )
    if user in _NEVER:
        raise CorralError(
            Code.LOGIN_REFUSED,
            f"{user} cannot log in to the page",
            hint="make a token for a person: scontrol token username=NAME lifespan=28800",
        )
    ends = expiry(token)
    if ends is not None and ends <= time.time():
        raise CorralError(
            Code.LOGIN_REFUSED,
            "this token has expired",
            hint="make a new one on the controller: scontrol token lifespan=28800",
        )
    return Login(user, token)


def expiry(token: str) -> float | None:
    """When a token expires, unix seconds; None where it has no expiry."""
    ends = _claims(token).get("exp")
    if isinstance(ends, bool) or not isinstance(ends, (int, float)):
        return None
    try:
        return float(ends)
    except OverflowError:  # a number that no clock has; Slurm judges the token
        return None


def _claims(token: str) -> dict[str, Any]:
    if not _TOKEN.fullmatch(token):
        return {}
    part = token.split(".")[1]
    try:
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}  # pyright: ignore


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class RateLimit:
    """So many events per window and key; keys that are quiet are forgotten.

    Args:
        events: how many.
        seconds: in how long.
    """

    def __init__(self, events: int, seconds: float, clock: Clock = time.monotonic) -> None:
        self._events = events
        self._seconds = seconds
        self._clock = clock
        self._seen: dict[str, deque[float]] = {}
        self._sweep_above = MANY_KEYS

    def take(self, key: str) -> None:
        """Count one.

        Raises:
            CorralError: TOO_MANY.
        """
        now = self._clock()
        if len(self._seen) > self._sweep_above:
            self._seen = {k: q for k, q in self._seen.items() if q and now - q[-1] < self._seconds}
            self._sweep_above = max(MANY_KEYS, 2 * len(self._seen))  # so that it stays linear
        times = self._seen.setdefault(key, deque())
        while times and now - times[0] >= self._seconds:
            times.popleft()
        if len(times) >= self._events:
            wait = int(self._seconds - (now - times[0])) + 1
            raise CorralError(Code.TOO_MANY, "too many requests", hint=f"wait {wait} s")
        times.append(now)

    def forgive(self, key: str) -> None:
        """The last one does not count: it was not a wrong guess."""
        if times := self._seen.get(key):
            times.pop()
