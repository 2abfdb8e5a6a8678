"""The page's side of the program that makes tokens."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

from corral.errors import Code, CorralError
from corral.web.slurm.slurmrest import Login
from corral.web.users.sessions import login_of
from corral.web.users.user_commands import helper_replies, limited

UNIT: Final = "corral-web-login"
AT_ONCE: Final = 4
"""Processes of root's: a flood of logins takes no more of the controller."""
MOST: Final = 64
"""Questions, those that wait included."""


@dataclass(frozen=True, slots=True)
class ProviderPlaces:
    """Addresses of the OpenID provider to which browsers go.

    Attributes:
        authorize: where people log in.
        end: where they log out; "" for nowhere.
    """

    authorize: str
    end: str


@dataclass(slots=True)
class TokenProgram:
    """Asks it; each question is a process of root's on the controller.

    Attributes:
        path: its socket.
    """

    path: str
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    _waiting: int = 0

    async def by_header(self, user: str, secret: str) -> Login:
        """The login of whom a proxy names."""
        return await self._login(do="header", user=user, secret=secret)

    async def provider(self) -> ProviderPlaces:
        """Where the OpenID provider is."""
        reply = await self._first({"do": "provider"})
        return ProviderPlaces(str(reply["authorize"]), str(reply["end"]))

    async def by_code(self, *, code: str, verifier: str, nonce: str, redirect: str) -> Login:
        """The login of whom the provider sent back."""
        ask = {"code": code, "verifier": verifier, "nonce": nonce, "redirect": redirect}
        return await self._login(do="code", **ask)

    async def by_password(self, user: str, password: str) -> Login:
        """The login of a person's own password."""
        return await self._login(do="password", user=user, password=password)

    async def _login(self, **ask: Any) -> Login:
        reply = await self._first(ask)
        login = login_of(str(reply["token"]))
        if login.user != reply["user"]:
            raise CorralError(Code.PARSE_FAILED, "the token is another user's", hint="log in again")
        return login

    async def _first(self, ask: dict[str, Any]) -> dict[str, Any]:
        if self._waiting >= MOST:
            raise CorralError(Code.TOO_MANY, "too many people are logging in", hint="wait a little")
        self._waiting += 1
        try:
            async with self._turns:
                return await self._answer(ask)
        finally:
            self._waiting -= 1

    async def _answer(self, ask: dict[str, Any]) -> dict[str, Any]:
        async with limited(UNIT):
            async for reply in helper_replies(self.path, UNIT, {"ask": ask}):
                return reply
        raise CorralError(
            Code.COMMAND_FAILED,
            "the controller makes no login now",
            hint=f"on the controller: journalctl -u '{UNIT}@*'",
        )
