"""Sessions end, tries are counted, what is done is noted; and what TLS adds."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest

from corral.errors import Code, CorralError
from corral.web.listener.request_checks import name_of
from corral.web.routes import view
from corral.web.users.sessions import RateLimit, Sessions, login_of
from tests.unit.web.fake import FakeRest, Page, token


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


class Clock:
    def __init__(self, at: float) -> None:
        self.at = at

    def __call__(self) -> float:
        return self.at


@pytest.mark.parametrize(
    ("idle", "longest", "token_s", "last"),
    [(100, 1000, 9000, 100), (5000, 1000, 9000, 1000), (5000, 5000, 900, 900)],
)
def test_a_session_ends_after_hours_unused_and_with_its_token(
    idle: float, longest: float, token_s: float, last: float
) -> None:
    clock = Clock(time.time())
    begun = clock.at
    sessions = Sessions(longest, idle, clock)
    key, _ = sessions.open(login_of(token(lasts=token_s)))
    clock.at = begun + last - 2
    assert sessions.find(key, touch=False) is not None
    clock.at = begun + last + 2
    assert sessions.find(key) is None
    clock.at = begun
    assert sessions.find(key) is None, "what ended stays ended"


def test_looking_keeps_a_session_but_an_open_stream_alone_does_not() -> None:
    clock = Clock(0)
    sessions = Sessions(1000, 100, clock)
    key, _ = sessions.open(login_of(token()))
    clock.at = 90
    assert sessions.find(key) is not None
    clock.at = 180
    assert sessions.find(key, touch=False) is not None
    clock.at = 191
    assert sessions.find(key) is None


def test_a_page_that_nobody_touches_keeps_no_session() -> None:
    async def work() -> None:
        async with Page(FakeRest(), idle_s=600) as page:
            await page.login()
            sessions = page.app.state.corral.sessions
            now, alone = time.time(), {"x-unattended": "1"}
            sessions._clock = lambda: now + 500
            assert (await page.get("cluster", headers=alone)).status_code == 200
            assert (await page.get("jobs", headers=alone)).status_code == 200
            sessions._clock = lambda: now + 650
            assert (await page.get("cluster", headers=alone)).status_code == 401
            await page.login()
            sessions._clock = lambda: now + 1100
            assert (await page.get("cluster")).status_code == 200
            sessions._clock = lambda: now + 1600
            assert (await page.get("cluster", headers=alone)).status_code == 200

    run(work())


def test_the_stream_of_an_ended_session_sends_logout_and_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(view, "KEEP_S", 0.02)
    sent: list[bytes] = []

    async def work() -> str:
        async with Page(FakeRest(), idle_s=600) as page:
            await page.login()
            sessions, now, event = page.app.state.corral.sessions, time.time(), view._event

            def counted(data: bytes) -> bytes:
                """The session ends while the stream has sent its head and one sign of life."""
                sent.append(data)
                if len(sent) == 2:
                    sessions._clock = lambda: now + 700
                return event(data)

            monkeypatch.setattr(view, "_event", counted)
            return (await page.get("events")).text

    assert run(work()).endswith("event: logout\ndata: {}\n\n")
    assert len(sent) == 2


def test_the_limit_counts_in_its_window_and_for_each_key() -> None:
    clock = Clock(0)
    limit = RateLimit(2, 60, clock)
    for key in ("a", "a", "b"):
        limit.take(key)
    with pytest.raises(CorralError) as refused:
        limit.take("a")
    assert refused.value.code is Code.TOO_MANY
    assert "wait" in refused.value.hint
    clock.at = 61
    limit.take("a")


def test_looking_and_changing_are_limited() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login("ada", "Operator")
            state = page.app.state.corral
            state.reads, state.actions = RateLimit(6, 60), RateLimit(2, 60)
            done = [(await page.post("jobs/1", {"do": "hold"})).status_code for _ in range(3)]
            assert done == [200, 200, 429]
            seen = [(await page.get("cluster")).status_code for _ in range(4)]
            assert seen == [200] * 3 + [429]

    run(work())


def test_who_did_what_is_noted_and_no_secret(tmp_path: Path) -> None:
    async def work() -> tuple[str, str]:
        rest = FakeRest()
        async with Page(rest, audit=tmp_path / "audit.log") as page:
            await page.post("login", {"token": token("root")})
            await page.login("kim")
            secret = next(iter(rest.good))
            await page.post("jobs/1", {"do": "cancel"})
            await page.post("nodes/node1", {"do": "drain", "reason": "fan"})
            await page.post("logout", {})
            return secret, str(page.http.cookies)

    secret, cookies = run(work())
    text = (tmp_path / "audit.log").read_text()
    assert (tmp_path / "audit.log").stat().st_mode & 0o777 == 0o600
    records = [json.loads(line) for line in text.splitlines()]
    outcomes = [(r["user"], r["audit"], r["outcome"]) for r in records]
    assert outcomes == [
        ("", "login", "login-refused"),
        ("kim", "login", "ok"),
        ("kim", "cancel", "ok"),
        ("kim", "drain", "forbidden"),
        ("kim", "logout", "ok"),
    ]
    assert all(r["at"] > 0 for r in records)
    assert secret not in text
    assert secret.rpartition(".")[2] not in text
    assert "corral_session" not in text
    assert cookies


def test_a_stolen_session_is_its_user_and_no_longer_than_the_token() -> None:
    """The thief has the cookie and even the page's own token: it stays kim, whom Slurm judges."""

    async def work() -> None:
        rest = FakeRest()
        async with Page(rest) as page:
            await page.login("kim")
            assert (await page.post("jobs/2", {"do": "cancel"})).status_code == 403
            assert (await page.post("corral/apply", {"plan": "1", "code": "1"})).status_code == 403
            await page.post("jobs/1", {"do": "cancel"})
            assert {user for *_, user in rest.sent} == {"kim"}
            for good in list(rest.good):
                del rest.good[good]  # Slurm takes the token no longer
            assert (await page.post("jobs/1", {"do": "cancel"})).status_code == 401

    run(work())


@pytest.mark.parametrize(
    ("host", "scheme", "hsts", "secure", "strict"),
    [
        ("hpc.example.org", "https", True, True, True),
        ("hpc.example.org:8443", "https", True, True, True),
        ("hpc.example.org", "https", False, True, False),
        ("hpc.example.org", "http", True, True, False),  # a proxy that does not name the scheme
        ("127.0.0.1:8080", "http", True, False, False),  # a tunnel's end
    ],
)
def test_secure_cookie_and_hsts(
    host: str, scheme: str, hsts: bool, secure: bool, strict: bool
) -> None:
    async def work() -> httpx.Response:
        rest = FakeRest()
        async with Page(rest, names=["hpc.example.org"], hsts=hsts) as page:
            transport = httpx.ASGITransport(page.app)
            async with httpx.AsyncClient(
                transport=transport, base_url=f"{scheme}://{host}"
            ) as http:
                return await http.post("/api/login", json={"token": rest.login("kim")})

    reply = run(work())
    assert reply.status_code == 200
    assert ("secure" in reply.headers["set-cookie"].lower()) is secure
    assert ("strict-transport-security" in reply.headers) is strict


def test_names_are_taken_with_any_port_and_no_others() -> None:
    async def work() -> list[int]:
        async with Page(FakeRest(), names=["hpc.example.org"]) as page:
            hosts = (
                *("hpc.example.org", "HPC.example.org:8443"),
                *("hpc.example.org.evil.example", "evil.example:8765"),
                *("hpc.example.org:80:80", "", "user@hpc.example.org"),
            )
            return [
                (await page.http.get("/", headers={"host": host})).status_code for host in hosts
            ]

    assert run(work()) == [200, 200, 421, 421, 421, 421, 421]
    assert name_of("[fe80::1]:8765") == "[fe80::1]"
    assert name_of("[fe80::1]") == "[fe80::1]"


@pytest.mark.parametrize("left", ["None", "Operator"])
def test_a_role_that_was_taken_away_is_gone_within_a_minute(left: str) -> None:
    """It was read at the login alone: up to 8 h of others' figures and jobs."""

    async def work() -> tuple[list[int], list[str]]:
        rest = FakeRest()
        async with Page(rest) as page:
            await page.login("boss", "Operator")
            sessions, now = page.app.state.corral.sessions, time.time()
            codes = [(await page.get("jobs/1/figures")).status_code]
            rest.roles["boss"] = left
            codes.append((await page.get("jobs/1/figures")).status_code)
            sessions._clock = lambda: now + 61
            codes.append((await page.get("jobs/1/figures")).status_code)
            return codes, [(await page.get("me")).json()["role"]]

    codes, roles = run(work())
    assert codes == ([200, 200, 403] if left == "None" else [200, 200, 200])
    assert roles == ["user" if left == "None" else "operator"]


def test_a_login_that_slurm_takes_no_more_ends() -> None:
    async def work() -> list[int]:
        rest = FakeRest()
        async with Page(rest) as page:
            await page.login("kim")
            sessions, now = page.app.state.corral.sessions, time.time()
            rest.good.clear()
            sessions._clock = lambda: now + 61
            codes = [(await page.get("me")).status_code, (await page.get("me")).status_code]
            assert not sessions._open
            return codes

    assert run(work()) == [401, 401]


def test_while_slurm_does_not_answer_sessions_stay_as_they_are() -> None:
    async def work() -> None:
        rest = FakeRest()
        async with Page(rest) as page:
            await page.login("boss", "Administrator")
            sessions, now = page.app.state.corral.sessions, time.time()
            rest.down = True
            sessions._clock = lambda: now + 61
            reply = await page.get("me")
            assert (reply.status_code, reply.json()["role"]) == (200, "administrator")
            asked = sum(rest.asked.values())
            await page.get("me")
            assert sum(rest.asked.values()) == asked, "asked once a minute"

    run(work())
