"""The sessions that bearer tokens stand for: Slurm is asked about each again once a minute."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from corral.api.page.token_store import Bearer, Bearers
from corral.errors import Code, CorralError
from corral.slurm.rest.read import USER
from corral.web.slurm.slurmrest import Login, Slurm, role_of
from corral.web.users.sessions import CHECKED_S, Session

USED_S: Final = 60.0
"""The page polls Slurm for so long after a token's last request."""
_DECIDED: Final = (Code.LOGIN_REFUSED, Code.FORBIDDEN)

Clock = Callable[[], float]


@dataclass(slots=True)
class _Used:
    session: Session
    checked: float


@dataclass(slots=True)
class BearerSessions:
    """Sessions by token; nothing of them outlives the token.

    Args:
        bearers: the tokens.
        rest: Slurm, which judges the login of each.
        clock: returns unix seconds.
    """

    bearers: Bearers
    rest: Slurm
    clock: Clock = time.time
    _used: dict[str, _Used] = field(default_factory=dict[str, _Used], repr=False)

    async def of(self, secret: str) -> tuple[Bearer, Session] | None:
        """A token and its session; None where the token is unknown, revoked or expired.

        Raises:
            CorralError: LOGIN_REFUSED, Slurm does not take the login any more; UNREACHABLE.
        """
        known = self.bearers.find(secret)
        if known is None:
            return None
        bearer, token = known
        now = self.clock()
        used = self._used.get(bearer.id)
        if used is None or now - used.checked >= CHECKED_S:
            used = await self._checked(bearer, Login(bearer.user, token), used)
        used.session.used = now
        return bearer, used.session

    def logins(self, user: str = "") -> list[Login]:
        """Logins to poll with, of tokens in use; of one user, or "" for all."""
        return [s.login for s in self._in_use() if not user or s.user == user]

    def operators(self) -> list[Login]:
        """Those of operators and administrators."""
        return [s.login for s in self._in_use() if s.operates]

    def _in_use(self) -> list[Session]:
        since = self.clock() - USED_S
        self._used = {k: u for k, u in self._used.items() if self.bearers.alive(k)}
        return [u.session for u in self._used.values() if u.session.used >= since]

    async def _checked(self, bearer: Bearer, login: Login, before: _Used | None) -> _Used:
        try:
            await self.rest.check(login)
            last = USER if before is None else before.session.role
            role = await role_of(self.rest, login, last)
        except CorralError as error:
            if error.code is Code.LOGIN_REFUSED:
                self._used.pop(bearer.id, None)
                raise CorralError(
                    Code.LOGIN_REFUSED,
                    f"Slurm does not accept the login of API token {bearer.name!r} any more",
                    hint="make a new token: corral ui token create",
                ) from error
            if before is None or error.code in _DECIDED:
                raise
            return before  # Slurm is silent: the last known state is shown, as in the page
        now = self.clock()
        key = f"token {bearer.id}"
        session = Session(login, role, bearer.owner, bearer.ends, now, csrf=key)
        self._used[bearer.id] = used = _Used(session, now)
        return used
