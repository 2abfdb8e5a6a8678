"""Plans that wait for the code that only the terminal shows in which ``corral ui`` runs.

A code is good for one plan in the session that asked for it: no other session and no program puts
another plan in place of the one that a person reads.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from corral.errors import Code, CorralError
from corral.plan.model import Plan
from corral.spec.models import ClusterSpec
from corral.web.users.sessions import RateLimit, Session

CONFIRM_S: Final = 300.0
TRIES: Final = 5
"""For one plan."""
TRIES_AN_HOUR: Final = 20
"""For all plans: six digits, so that an hour's guesses hit with a probability of 2e-5."""

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A cluster file's new text.

    Attributes:
        path: of the file.
        digest: of the content that was changed.
        text: the new content.
    """

    path: str
    digest: str
    text: str


@dataclass(slots=True)
class Pending:
    """A plan that waits for the terminal's code.

    Attributes:
        session: the one that asked for it.
        until: unix seconds.
        saves: the changed cluster file that goes with it; None: the file stays.
        begun: something of it has been done to machines.
    """

    session: Session
    spec: ClusterSpec
    plan: Plan
    code: str
    until: float
    saves: ChangedFile | None = None
    tries: int = 0
    begun: bool = False


@dataclass(slots=True)
class PendingPlans:
    """At most one plan of each session.

    Args:
        clock: returns unix seconds.
    """

    clock: Clock = time.time
    _plans: dict[str, Pending] = field(default_factory=dict[str, Pending], repr=False)
    _wrong: RateLimit = field(default_factory=lambda: RateLimit(TRIES_AN_HOUR, 3600), repr=False)

    def keep(
        self, session: Session, spec: ClusterSpec, plan: Plan, saves: ChangedFile | None = None
    ) -> tuple[str, str]:
        """Store a plan for approval in place of the session's last one; returns its id and code."""
        self.forget(session)
        now = self.clock()
        self._plans = {k: p for k, p in self._plans.items() if p.until > now}
        identity, code = secrets.token_hex(4), f"{secrets.randbelow(10**6):06d}"
        self._plans[identity] = Pending(session, spec, plan, code, now + CONFIRM_S, saves)
        return identity, code

    def forget(self, session: Session) -> None:
        """The session's plan is not applied any more."""
        self._plans = {k: p for k, p in self._plans.items() if p.session is not session}

    def clear(self) -> None:
        """No plan is applied any more: the machines change."""
        self._plans = {}

    def confirm(self, session: Session, identity: str, code: str) -> Pending:
        """The plan of an id, with its code.

        Raises:
            CorralError: STALE_PLAN, this session has no such plan; FORBIDDEN, another code;
                TOO_MANY wrong codes in an hour, for whatever plan.
        """
        pending = self._plans.get(identity)
        if (
            pending is None
            or pending.session is not session
            or self.clock() > pending.until
            or pending.tries >= TRIES
        ):
            raise CorralError(
                Code.STALE_PLAN,
                "this session has no such plan to apply, or it is too old",
                hint="plan again",
            )
        try:
            self._wrong.take("")
        except CorralError as error:
            raise CorralError(
                Code.TOO_MANY,
                f"{TRIES_AN_HOUR} wrong codes in an hour",
                hint=f"{error.hint}, or start corral ui again",
            ) from error
        pending.tries += 1
        if not hmac.compare_digest(code.strip().encode(), pending.code.encode()):
            raise CorralError(
                Code.FORBIDDEN,
                "this is not the code that the terminal shows",
                hint=f"read the one of plan {identity} in the terminal in which corral ui runs",
            )
        self._wrong.forgive("")
        return pending
