"""A browser's cookies go to every port of a host: to servers of other users, and to other pages."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import httpx
import pytest

from corral.web.slurm.slurmrest import Login
from corral.web.users.sessions import TICKET_S, Sessions
from tests.unit.web.fake import FakeRest, Page, token


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def routes(page: Page) -> list[tuple[str, str]]:
    """All routes of the API but the login, with their places filled in."""
    described = page.app.openapi()["paths"]
    filled = {"{job_id}": "1", "{name}": "node0"}
    every = list[tuple[str, str]]()
    for path, methods in described.items():
        real = path
        for place, value in filled.items():
            real = real.replace(place, value)
        every += [(method.upper(), real) for method in methods]
    return [route for route in every if "/login" not in route[1]]


def test_the_cookie_alone_opens_nothing() -> None:
    """What a hostile server on another port is sent by the browser."""

    async def work() -> None:
        async with Page(FakeRest()) as page:
            opened = await page.login("kim", "Administrator")
            assert opened.json()["csrf"]
            every = routes(page)
            assert len(every) > 25
            stolen = dict(page.http.cookies)
            async with httpx.AsyncClient(
                transport=httpx.ASGITransport(page.app, raise_app_exceptions=False),
                base_url="http://127.0.0.1:8080",
                cookies=stolen,
            ) as thief:
                for method, path in every:
                    for more in ({}, {"x-csrf-token": ""}, {"x-csrf-token": "x" * 32}):
                        reply = await thief.request(method, path, json={}, headers=more)
                        assert reply.status_code in (401, 422), (method, path)
                        assert page.csrf not in reply.text
                # Nor can its own login end the session.
                other = {"token": page.rest.login("eve")}
                assert (await thief.post("/api/login", json=other)).status_code == 200
            assert (await page.get("me")).status_code == 200
            assert not page.rest.sent

    run(work())


def test_the_secret_alone_opens_nothing() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login()
            page.http.cookies.clear()
            assert (await page.get("me")).status_code == 401

    run(work())


def test_two_pages_of_one_host_do_not_log_each_other_out() -> None:
    async def work() -> None:
        jar = httpx.Cookies()
        async with Page(FakeRest()) as first, Page(FakeRest()) as second:
            for port, page in ((8001, first), (8002, second)):
                page.http.base_url = f"http://127.0.0.1:{port}"
                origin = {"origin": f"http://127.0.0.1:{port}"}
                page.http.cookies = jar
                reply = await page.post("login", {"token": page.rest.login()}, **origin)
                page.csrf = reply.json()["csrf"]
                jar = page.http.cookies
            assert {cookie.name for cookie in jar.jar} == {
                "corral_session_8001",
                "corral_session_8002",
            }
            for page in (first, second):
                page.http.cookies = jar
                assert (await page.get("me")).status_code == 200
            gone = await first.post("logout", {}, origin="http://127.0.0.1:8001")
            assert gone.status_code == 200
            assert (await first.get("me")).status_code == 401
            assert (await second.get("me")).status_code == 200

    run(work())


def test_a_ticket_opens_one_get_and_nothing_else() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login()
            secret, page.csrf = page.csrf, ""

            async def ticket() -> str:
                reply = await page.post("ticket", {}, **{"x-csrf-token": secret})
                return reply.json()["ticket"]

            given = await ticket()
            assert (await page.get(f"me?ticket={given}")).status_code == 200
            assert (await page.get(f"me?ticket={given}")).status_code == 401  # used up
            for path in ("ticket", "logout", "jobs/1"):
                reply = await page.post(f"{path}?ticket={await ticket()}", {"do": "cancel"})
                assert reply.status_code == 401, path
            given = await ticket()
            page.http.cookies.clear()
            assert (await page.get(f"me?ticket={given}")).status_code == 401
            assert not page.rest.sent

    run(work())


def test_a_ticket_is_its_sessions_alone_and_for_a_moment() -> None:
    at = [1000.0]
    sessions = Sessions(3600, 3600, lambda: at[0])
    _, kim = sessions.open(Login("kim", token()))
    _, eve = sessions.open(Login("eve", token("eve")))
    assert not sessions.takes(eve, "", sessions.ticket(kim))
    late = sessions.ticket(kim)
    at[0] += TICKET_S
    assert not sessions.takes(kim, "", late)
    many = [sessions.ticket(kim) for _ in range(1000)]
    assert len(sessions._tickets) <= 50
    assert sessions.takes(kim, "", many[-1])
    assert not sessions.takes(kim, "", many[0])


@pytest.mark.parametrize("secret", ["", "x", "ä", "\x00"])
def test_a_wrong_secret_is_refused(secret: str) -> None:
    sessions = Sessions(3600, 3600)
    _, kim = sessions.open(Login("kim", token()))
    assert not sessions.takes(kim, secret, "")
    assert sessions.takes(kim, kim.csrf, "")
