"""The controller's page without a screen, and the controller's Prometheus."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from typing import TYPE_CHECKING, Any

from corral import api
from corral.hosts.quote import sh

if TYPE_CHECKING:
    from tests.embedded.conftest import Live


class Page:
    """A browser without a screen."""

    def __init__(self, url: str) -> None:
        self.url, self.csrf = url, ""
        self.opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(CookieJar())
        )

    def log_in(self, code: str) -> Any:
        """Who one is with a one-time code."""
        me = self.ask("login/code", {"code": code})
        self.csrf = me["csrf"]
        return me

    def ask(self, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "X-CSRF-Token": self.csrf}
        request = urllib.request.Request(f"{self.url}api/{path}", data, headers)  # noqa: S310
        with self.opener.open(request, timeout=60) as reply:
            return json.loads(reply.read())

    def status(self, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
        """Status and answer, also of what is refused."""
        try:
            return 200, self.ask(path, body)
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())["error"]

    def stream(self, path: str) -> list[str]:
        request = urllib.request.Request(f"{self.url}api/{path}")  # noqa: S310
        request.add_header("X-CSRF-Token", self.csrf)
        with self.opener.open(request, timeout=60) as reply:
            return reply.read().decode().splitlines()


def use(spec: Any, work: Any, user: str = "") -> None:
    """Do blocking work with a page that is reached by its tunnel, by default as the first user."""

    async def doing() -> None:
        async with api.reach_page(spec, user=user) as (access, _):
            page = Page(access.url)
            await asyncio.to_thread(work, page, access.code)

    asyncio.run(doing())


ASK = (
    "import json,sys,urllib.request as u,urllib.parse as p;"
    "print(json.dumps([json.load(u.urlopen('http://127.0.0.1:9090/api/v1/query?'+"
    "p.urlencode({'query':q}),timeout=20))['data']['result'] for q in sys.argv[1:]]))"
)


def values(live: Live, *queries: str) -> list[Any]:
    """What the controller's Prometheus answers now."""
    done = live.run(live.controller, sh("python3 -c {p} {q}", p=ASK, q=list(queries)))
    assert done.ok, done.tail
    return json.loads(done.stdout)
