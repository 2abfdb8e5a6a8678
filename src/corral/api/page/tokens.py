"""Use cases: tokens of the page's API, of the page on this machine or on the controller.

Here they are entries of the file in the cluster's folder. On the controller they are the page's
own, which makes, lists and revokes them for its users (``POST /api/tokens``).
"""

from __future__ import annotations

import json
import time
import urllib.parse
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from corral.api.page.page_server import fields_of, reach_page, refusal, slurm_version, token_of
from corral.api.page.token_store import LONGEST_DAYS, NAMED, Bearers, Scope, Wish, tokens_file
from corral.errors import Code, CorralError
from corral.runtime.http_client import HttpClient, NoResponseError, RefusedError
from corral.runtime.threads import abandonable
from corral.slurm.version import has
from corral.spec.models import ClusterSpec
from corral.spec.nodes import users_of
from corral.spec.slurm.releases import Feature

DAY_S: Final = 86400
ANSWER_S: Final = 60.0
SLURM_SLACK_S: Final = 60
"""The login of Slurm's outlives the token, so that it is the token that ends."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for with a new token.

    Attributes:
        name: what it is called in lists.
        user: the Slurm user; "" for the cluster's first one.
        scopes: what it may do.
        days: how long it is good.
    """

    name: str
    user: str = ""
    scopes: tuple[Scope, ...] = (Scope.READ,)
    days: float = 30.0


async def make_api_token(
    spec: ClusterSpec, asked: Asked, *, controller: bool = False
) -> dict[str, Any]:
    """Make a token; ``token`` of what is returned is kept nowhere else.

    Args:
        spec: the cluster.
        asked: its properties.
        controller: for the page on the controller, not for the one that runs here.

    Raises:
        CorralError: USAGE, the name is taken; NOT_FOUND; UNREACHABLE; SLURM_REFUSED.
    """
    user = asked.user or users_of(spec)[0].name
    seconds = int(asked.days * DAY_S)
    if controller:
        login = await token_of(spec, user, seconds + SLURM_SLACK_S)
        body = {"name": asked.name, "scopes": [*asked.scopes], "days": asked.days, "token": login}
        async with _reached(spec, user) as page:
            return await page.ask("POST", "tokens", body, "token")
    rest = spec.slurm.rest and has(await slurm_version(spec), Feature.READABLE_SLURMRESTD)
    login = await token_of(spec, user, seconds + SLURM_SLACK_S) if rest else ""
    owner = Scope.ADMINISTER in asked.scopes
    wish = Wish(asked.name, user, login, asked.scopes, time.time() + seconds, owner)
    secret, bearer = Bearers(tokens_file(spec.name)).make(wish)
    return {"token": secret, **bearer.as_dict()}


async def api_tokens(
    spec: ClusterSpec, *, user: str = "", controller: bool = False
) -> tuple[dict[str, Any], ...]:
    """Tokens that are good, newest first.

    Args:
        spec: the cluster.
        user: on the controller: who asks; administrators see all, others their own.
        controller: of the page on the controller.
    """
    if not controller:
        return tuple(b.as_dict() for b in Bearers(tokens_file(spec.name)).listed())
    async with _reached(spec, user) as page:
        return tuple((await page.ask("GET", "tokens", None, "tokens"))["tokens"])


async def revoke_api_token(
    spec: ClusterSpec, identity: str, *, user: str = "", controller: bool = False
) -> None:
    """End a token at once.

    Args:
        spec: the cluster.
        identity: its id or name.
        user: on the controller: who asks.
        controller: of the page on the controller.

    Raises:
        CorralError: NOT_FOUND; USAGE, several have that name.
    """
    if not controller:
        Bearers(tokens_file(spec.name)).revoke(identity)
        return
    async with _reached(spec, user) as page:
        await page.ask("DELETE", f"tokens/{urllib.parse.quote(identity, safe='')}")


def wished_token(name: str, user: str, words: Sequence[str], days: float) -> Asked:
    """What words of a command line ask for; without a scope it is read.

    Raises:
        CorralError: USAGE, no such scope; the name or the number of days is wrong.
    """
    known = {scope.value: scope for scope in Scope}
    if wrong := sorted(set(words) - known.keys()):
        raise CorralError(
            Code.USAGE, f"invalid scope {', '.join(wrong)}", hint=f"one of {', '.join(known)}"
        )
    if not NAMED.fullmatch(name):
        raise CorralError(
            Code.USAGE,
            f"{name[:70]!r} is not a name of a token",
            hint="letters, digits, spaces and . _ @ -, at most 64",
        )
    if not 0 < days <= LONGEST_DAYS:
        raise CorralError(Code.USAGE, f"a token is good for at most {LONGEST_DAYS} days")
    scopes = tuple(dict.fromkeys(known[word] for word in words)) or (Scope.READ,)
    return Asked(name, user, scopes, days)


@dataclass(slots=True)
class _Page:
    """The page on the controller, with a session for the time of one question."""

    url: str
    client: HttpClient
    csrf: str = ""

    async def ask(self, method: str, path: str, body: Any = None, needed: str = "") -> Any:
        """The JSON that it answers.

        Raises:
            CorralError: as the page refuses; UNREACHABLE; PARSE_FAILED.
        """
        try:
            return await abandonable(self._asked, method, path, body, needed)
        except RefusedError as error:
            raise refusal(error) from error
        except NoResponseError as error:
            raise CorralError(
                Code.UNREACHABLE,
                f"the controller's page does not answer: {error}",
                hint="corral doctor; on the controller: systemctl status corral-web",
            ) from error

    def _asked(self, method: str, path: str, body: Any, needed: str) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "X-CSRF-Token": self.csrf}
        url = f"{self.url}api/{path}"
        answer = self.client.send(
            *(method, url, data), headers=headers, timeout_s=30, within_s=ANSWER_S, at_most=1 << 20
        )
        return fields_of(answer, needed)


@asynccontextmanager
async def _reached(spec: ClusterSpec, user: str) -> AsyncGenerator[_Page]:
    async with reach_page(spec, user=user, hours=0.1) as (served, _):
        # No proxy of the environment: it would get the session.
        page = _Page(served.url, HttpClient(proxies=False, cookies=True))
        code = {"code": served.code}
        page.csrf = (await page.ask("POST", "login/code", code, "csrf"))["csrf"]
        try:
            yield page
        finally:
            await page.ask("POST", "logout", {})
