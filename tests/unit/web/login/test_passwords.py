"""A person's own password: what PAM is asked, what a refusal reports, and how often one may try."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from corral.errors import Code, CorralError
from corral.spec.sections.page_login import PageLogin
from corral.web.listener.peers import Peer
from corral.web.login import client, helper, pam
from corral.web.login.client import AT_ONCE, MOST, TokenProgram
from corral.web.login.routes import REFUSED_S
from tests.unit.web.login.common import Site, known

__all__ = ["known"]

WAYS = PageLogin(passwords=True)
PASSWORD = "of-kim"
WRONG = "name or password is wrong, or the account is locked"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of whom PAM was asked; kim's and root's password is PASSWORD."""
    users: list[str] = []

    def right(user: str, password: str) -> bool:
        users.append(user)
        return password == PASSWORD

    monkeypatch.setattr(helper.pam, "right", right)
    return users


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


async def log_in(site: Site, user: str, password: str) -> Any:
    return await site.page.post("login/password", {"user": user, "password": password})


def waits(site: Site) -> list[float]:
    """The seconds that refusals wait, which no test does."""
    seconds: list[float] = []

    async def pause(time: float) -> None:
        seconds.append(time)

    site.page.app.state.corral.pause = pause
    return seconds


def test_the_right_one(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with Site(monkeypatch, WAYS) as site:
            waited = waits(site)
            assert (await site.page.get("login")).json()["password"] is True
            me = await log_in(site, "kim", PASSWORD)
            assert me.json()["user"] == "kim"
            assert "samesite=strict" in me.headers["set-cookie"].lower()
            assert PASSWORD not in me.text
            assert not waited
            site.page.csrf = me.json()["csrf"]
            site.peer = Peer("10.0.0.9")
            assert (await site.page.get("me")).json()["user"] == "kim"

    run(work())


@pytest.mark.parametrize("user", ["kim", "nobody-known", "root", "munge", "shut", "KIM", "", "a b"])
def test_all_refusals_are_the_same(
    asked: list[str], monkeypatch: pytest.MonkeyPatch, user: str
) -> None:
    """Of root PAM is never asked, so that nobody learns its password here."""

    async def work() -> None:
        async with Site(monkeypatch, WAYS) as site:
            waited = waits(site)
            reply = await log_in(site, user, "x" if user == "kim" else PASSWORD)
            error = reply.json()["error"]
            assert (reply.status_code, error["message"]) == (401, WRONG)
            assert not site.program.made
            assert waited == [pytest.approx(REFUSED_S, abs=2)]
            assert asked == (["kim"] if user == "kim" else [])

    run(work())


def test_one_name_is_not_guessed_from_many_places(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with Site(monkeypatch, WAYS) as site:
            waits(site)
            seen: list[int] = []
            for n in range(24):
                site.peer = Peer(f"10.0.0.{n}")
                seen.append((await log_in(site, "kim", "x")).status_code)
            assert seen == [401] * 20 + [429] * 4
            site.peer = Peer("10.0.1.1")
            assert (await log_in(site, "kim", PASSWORD)).status_code == 429
            assert (await log_in(site, "lee", PASSWORD)).status_code == 200, "lee is not kim"

    run(work())


def test_one_place_does_not_guess_many_names(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with Site(monkeypatch, WAYS) as site:
            waits(site)
            seen = [(await log_in(site, f"user{n}", "x")).status_code for n in range(12)]
            assert seen == [401] * 10 + [429] * 2

    run(work())


def test_what_is_no_guess_does_not_count(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A person logs in often, and Slurm is away for a while."""

    async def work() -> None:
        async with Site(monkeypatch, WAYS) as site:
            waits(site)
            for _ in range(30):
                assert (await log_in(site, "kim", PASSWORD)).status_code == 200
            site.page.rest.down = True
            for _ in range(30):
                assert (await log_in(site, "kim", PASSWORD)).status_code == 502
            site.page.rest.down = False
            assert (await log_in(site, "kim", PASSWORD)).status_code == 200

    run(work())


def test_not_where_it_is_not_declared(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with Site(monkeypatch, PageLogin(groups=("hpc",))) as site:
            assert (await log_in(site, "kim", PASSWORD)).status_code == 401
            assert not site.program.asked
        async with Site(monkeypatch, WAYS) as site:
            waits(site)
            site.program.ways = PageLogin()  # root's program does not take the page's word
            assert (await log_in(site, "kim", PASSWORD)).status_code == 404
            assert not asked

    run(work())


@pytest.mark.parametrize("origin", ["https://evil.example.org", "null"])
def test_another_site_logs_nobody_in(
    asked: list[str], monkeypatch: pytest.MonkeyPatch, origin: str
) -> None:
    """Not as a victim, and not the victim as the attacker."""

    async def work() -> None:
        async with Site(monkeypatch, WAYS) as site:
            body = {"user": "kim", "password": PASSWORD}
            assert (await site.page.post("login/password", body, origin=origin)).status_code == 403
            assert not site.program.asked

    run(work())


def test_what_is_too_long_is_not_repeated(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with Site(monkeypatch, WAYS) as site:
            reply = await log_in(site, "kim", "secret" * 300)
            assert reply.status_code == 422
            assert "secret" not in reply.text
            reply = await log_in(site, "x" * 300, "secret")
            assert reply.status_code == 422
            assert not site.program.asked

    run(work())


def test_a_closed_account_gets_no_token_by_any_way(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(user: str, *, by_password: bool) -> None:
        raise CorralError(Code.FORBIDDEN, f"the account of {user} has expired")

    async def work() -> None:
        async with Site(monkeypatch, WAYS) as site:
            waits(site)
            monkeypatch.setattr(helper.pam, "check_account", closed)
            reply = await log_in(site, "kim", PASSWORD)
            assert reply.status_code == 403
            assert not site.program.made

    run(work())


@pytest.mark.parametrize("password", ["", "of-kim\0", "\0"])
def test_pam_is_not_asked_about_what_c_would_cut(password: str) -> None:
    assert pam.right("kim", password, "no-such-service") is False


def test_without_its_file_pam_takes_no_other_one() -> None:
    with pytest.raises(CorralError) as raised:
        pam.right("kim", "x", "no-such-service")
    assert raised.value.code is Code.COMMAND_FAILED


def test_a_flood_takes_few_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    running, most = 0, 0

    async def replies(path: str, unit: str, request: dict[str, Any]) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1
        raise CorralError(Code.LOGIN_REFUSED, "wrong")
        yield {}

    async def work() -> None:
        monkeypatch.setattr(client, "helper_replies", replies)
        program = TokenProgram("/nowhere")
        asking = [program.by_password("kim", "x") for _ in range(MOST + 5)]
        ends = await asyncio.gather(*asking, return_exceptions=True)
        codes = [end.code for end in ends if isinstance(end, CorralError)]
        assert codes.count(Code.TOO_MANY) == 5
        assert codes.count(Code.LOGIN_REFUSED) == MOST

    run(work())
    assert most == AT_ONCE
