"""slurmrestd from recorded answers, behind httpx; and the page's app over it, without sockets."""

from __future__ import annotations

import base64
import json
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx

from corral.web.app import create_app
from corral.web.settings import Settings
from tests.unit.web.shapes import compare

RECORDED = Path(__file__).parents[2] / "recorded" / "rest"


def token(user: str = "kim", lasts: float = 3600, **claims: Any) -> str:
    """A token as Slurm makes them; the fake below takes those of its `login`."""
    body = {"exp": int(time.time() + lasts), "iat": int(time.time()), "sun": user, **claims}
    parts = ({"alg": "HS256", "typ": "JWT"}, body)
    coded = [base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts]
    return ".".join([*coded, "c2lnbmF0dXJl"])


class FakeRest:
    """Answers as the recorded release does; refuses tokens it did not make, as that one does."""

    def __init__(self, release: str = "24.11", api: int = 42) -> None:
        self.folder = RECORDED / release / f"v0.0.{api}"
        self.api = api
        self.good: dict[str, str] = {}
        self.asked: Counter[str] = Counter()
        self.sent: list[tuple[str, str, Any, str]] = []
        self.bodies = {
            path.stem: json.loads(path.read_text()) for path in self.folder.glob("*.json")
        }
        if "past-job" in self.bodies:  # recorded on another cluster than the rest
            name = self.bodies["past-job"]["body"]["jobs"][0]["cluster"]
            self.bodies["ping"]["body"]["meta"]["slurm"]["cluster"] = name
            for entry in self.bodies["associations"]["body"]["associations"]:
                entry["cluster"] = name
        self.roles: dict[str, str] = {}
        self.down = False
        self.accounting = True
        self.past_asked: list[httpx.QueryParams] = []

    def login(self, user: str = "kim", role: str = "None", **claims: Any) -> str:
        made = token(user, **claims)
        self.good[made] = user
        self.roles[user] = role
        return made

    def __call__(self, request: httpx.Request) -> httpx.Response:  # noqa: C901, PLR0911, PLR0912
        if self.down:
            raise httpx.ConnectError("nobody listens", request=request)
        path = request.url.path
        self.asked[f"{request.method} {path}"] += 1
        user = request.headers.get("x-slurm-user-name", "")
        known = self.good.get(request.headers.get("x-slurm-user-token", "")) == user
        base = f"/slurm/v0.0.{self.api}/"
        if path.startswith(f"/slurmdb/v0.0.{self.api}/job"):
            return self._past(request, path) if known else httpx.Response(511, json={})
        what = path.removeprefix(f"/slurmdb/v0.0.{self.api}/").strip("/")
        if what in ("associations", "qos"):
            if not self.accounting:
                return httpx.Response(404, text="Unable find requested URL.")
            return self._recorded(what) if known else httpx.Response(511, json={})
        if path.startswith("/slurmdb/"):
            name = path.rpartition("/")[2]
            users = [{"name": name, "administrator_level": [self.roles.get(name, "None")]}]
            return httpx.Response(200 if known else 511, json={"users": users})
        if not path.startswith(base):
            return httpx.Response(404, text="Unable find requested URL.")
        what = path.removeprefix(base).strip("/")
        if what == "ping":
            return self._recorded("ping")
        if not known:
            return self._recorded("bad-token")
        if request.method != "GET":
            body = json.loads(request.content or b"null")
            self.sent.append((request.method, what, body, user))
            return self._changed(request.method, what, user)
        if what == "job/999999":
            return self._recorded("no-job")
        if what.startswith("job/"):
            number = int(what.removeprefix("job/"))
            jobs = [j for j in self.bodies["jobs"]["body"]["jobs"] if j["job_id"] == number]
            return httpx.Response(200, json={**self.bodies["jobs"]["body"], "jobs": jobs})
        since = int(request.url.params.get("update_time", 0))
        if since and since >= self._updated(what):
            return httpx.Response(304)
        if since and what == "nodes" and self.api == 42:  # a bug of 24.11.5, as it answers
            error = {"description": "Unable to query partitions", "error": "Unspecified error"}
            return httpx.Response(500, json={"errors": [error]})
        return self._recorded(what)

    def _past(self, request: httpx.Request, path: str) -> httpx.Response:
        if not self.accounting or "past" not in self.bodies:
            return httpx.Response(404, text="Unable find requested URL.")
        if not path.endswith("/jobs"):
            number = int(path.rpartition("/")[2])
            known = self.bodies["past-job"]["body"]["jobs"][0]["job_id"]
            return self._recorded("past-job" if number == known else "past-no-job")
        self.past_asked.append(request.url.params)
        if "skip_steps" not in request.url.params:
            return self._recorded("past-measured")
        if request.url.params["end_time"] != "now":
            return self._recorded("past-none")
        return self._recorded("past-user" if "users" in request.url.params else "past")

    def _updated(self, what: str) -> int:
        return self.bodies[what]["body"].get("last_update", {}).get("number", 0)

    def touch(self, what: str) -> None:
        self.bodies[what]["body"]["last_update"]["number"] += 1

    def _changed(self, method: str, what: str, user: str) -> httpx.Response:
        if what == "job/submit":
            return self._recorded("submit")
        if what.startswith("node/") and self.roles.get(user) == "None":
            body = {"errors": [{"error": "Invalid user id", "error_number": 2010}]}
            return httpx.Response(500, json=body)
        return httpx.Response(200, json={"errors": [], "status": []})

    def _recorded(self, what: str) -> httpx.Response:
        body = self.bodies[what]
        # Not json=: v0.0.40 prints Infinity, which httpx refuses to write.
        return httpx.Response(body["status"], text=json.dumps(body["body"]))


class Page:
    """A browser without a screen: keeps cookies and the page's own token.

    Each answer is compared with the description of its operation.
    """

    def __init__(self, rest: FakeRest, **settings: Any) -> None:
        self.rest = rest
        fields = {"cluster": "lab", "rest": "http://slurm", "private": False, **settings}
        self.app = create_app(Settings(**fields), httpx.MockTransport(rest))
        self.csrf = ""
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Page:
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        self.http = await self._stack.enter_async_context(
            httpx.AsyncClient(
                transport=transport,
                base_url="http://127.0.0.1:8080",
                event_hooks={"response": [compare]},
            )
        )
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._stack.aclose()
        await self.app.state.corral.pollers.close()

    async def get(self, path: str, **more: Any) -> httpx.Response:
        headers = {"x-csrf-token": self.csrf, **more.pop("headers", {})}
        return await self.http.get(f"/api/{path}", headers=headers, **more)

    async def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        sent = {"x-csrf-token": self.csrf, "origin": "http://127.0.0.1:8080", **headers}
        return await self.http.post(f"/api/{path}", json=body, headers=sent)

    async def login(self, user: str = "kim", role: str = "None") -> httpx.Response:
        reply = await self.post("login", {"token": self.rest.login(user, role)})
        self.csrf = reply.json().get("csrf", "")
        return reply
