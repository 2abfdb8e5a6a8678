"""A reverse proxy's word for who comes: from the proxy alone, with its secret, for one person."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.datastructures import Headers

from corral.spec.sections.page_login import HeaderLogin, PageLogin
from corral.web.listener.peers import Peer
from corral.web.login import secret_file
from corral.web.routes import view
from corral.web.state import NAMED_S, still_in
from tests.unit.web.login.common import PROXY, Site, known

__all__ = ["known"]

SECRET = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PageLogin:
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\nmore\n")
    file.chmod(0o600)
    real = os.fstat

    def roots(handle: int) -> os.stat_result:  # whoever runs this test
        shape = real(handle)
        return os.stat_result((*shape[:4], 0, *shape[5:]))

    monkeypatch.setattr(secret_file.os, "fstat", roots)
    return PageLogin(header=HeaderLogin(secret_file=str(file)))


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def headers(user: str = "kim", secret: str = SECRET) -> dict[str, str]:
    return {"Remote-User": user, "X-Corral-Secret": secret}


def test_whom_the_proxy_names_is_logged_in(
    ways: PageLogin, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with Site(monkeypatch, ways) as site:
            page = site.page
            ways_here = (await page.get("login", headers=headers())).json()
            assert ways_here["header"] == "kim"
            me = await page.post("login/header", {}, **headers())
            assert me.status_code == 200, me.text
            assert me.json()["user"] == "kim"
            assert (me.json()["owner"], me.json()["corral"]) == (False, False)
            assert site.program.made == ["kim"]
            assert "samesite=strict" in me.headers["set-cookie"].lower()
            page.csrf = me.json()["csrf"]
            assert (await page.get("me", headers=headers())).json()["user"] == "kim"
            assert SECRET not in me.text

    run(work())


@pytest.mark.parametrize(
    "peer",
    [
        Peer("loopback uid 1000", 1000),
        Peer("loopback uid 0", 0),
        Peer("loopback uid 34", 34),
        Peer("loopback uid unknown"),
        Peer("10.0.0.7"),
    ],
)
def test_nobody_elses_headers_count(
    ways: PageLogin, monkeypatch: pytest.MonkeyPatch, peer: Peer
) -> None:
    """Anybody on this machine connects to loopback: with the right secret too, it is not read."""

    async def work() -> None:
        async with Site(monkeypatch, ways) as site:
            site.peer = peer
            assert (await site.page.get("login", headers=headers())).json()["header"] == ""
            refused = await site.page.post("login/header", {}, **headers())
            assert refused.status_code == 401
            assert "no reverse proxy names you" in refused.json()["error"]["message"]
            assert not site.program.asked

    run(work())


def test_a_persons_process_is_no_proxy(ways: PageLogin, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that names a person as the proxy: anybody could be anybody by that person's rights."""
    assert ways.header is not None
    some = ways.model_copy(update={"header": ways.header.model_copy(update={"proxy": "kim"})})

    async def work() -> None:
        async with Site(monkeypatch, some) as site:
            site.peer = Peer("loopback uid 2077", 2077)
            refused = await site.page.post("login/header", {}, **headers())
            assert refused.status_code == 401
            assert not site.program.asked

    run(work())


@pytest.mark.parametrize("secret", ["", SECRET[:-1], SECRET + "0", SECRET.upper(), "é" * 32])
def test_a_wrong_secret_is_refused_and_counted(
    ways: PageLogin, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    async def work() -> None:
        async with Site(monkeypatch, ways) as site:
            sent = {"Remote-User": b"kim", "X-Corral-Secret": secret.encode()}
            seen = [
                (
                    await site.page.http.post("/api/login/header", json={}, headers=sent)  # type: ignore[arg-type]
                ).status_code
                for _ in range(12)
            ]
            assert seen == [401] * 10 + [429] * 2
            assert not site.program.made

    run(work())


@pytest.mark.parametrize(
    "sent",
    [
        [("Remote-User", "kim"), ("Remote-User", "lee"), ("X-Corral-Secret", SECRET)],
        [("Remote-User", ""), ("Remote-User", "lee"), ("X-Corral-Secret", SECRET)],
        [("Remote-User", "kim"), ("remote-user", "kim"), ("X-Corral-Secret", SECRET)],
        [("Remote-User", "kim"), ("X-Corral-Secret", "x"), ("X-Corral-Secret", SECRET)],
        [("Remote-User", "kim")],
        [("Remote_User", "kim"), ("X-Corral-Secret", SECRET)],
        [("Remote-User", "kim,lee"), ("X-Corral-Secret", SECRET)],
        [("Remote-User", "kim lee"), ("X-Corral-Secret", SECRET)],
        [("Remote-User", "kim@example.org"), ("X-Corral-Secret", SECRET)],
        [("Remote-User", "-kim"), ("X-Corral-Secret", SECRET)],
        [("Remote-User", "username=root"), ("X-Corral-Secret", SECRET)],
        [("Remote-User", ""), ("X-Corral-Secret", SECRET)],
        [("Remote-User", "x" * 300), ("X-Corral-Secret", SECRET)],
    ],
)
def test_headers_that_are_not_one_name(
    ways: PageLogin, monkeypatch: pytest.MonkeyPatch, sent: list[tuple[str, str]]
) -> None:
    async def work() -> None:
        async with Site(monkeypatch, ways) as site:
            refused = await site.page.http.post("/api/login/header", json={}, headers=sent)
            assert refused.status_code == 401
            assert not site.program.made

    run(work())


@pytest.mark.parametrize(
    ("user", "status", "words"),
    [
        ("root", 403, "root is not a person's account"),
        ("munge", 403, "munge is not a person's account"),
        ("corral-web", 403, "corral-web is not a person's account"),
        ("shut", 403, "shut is not a person's account"),
        ("KIM", 401, "this cluster has no user 'KIM'"),
        ("nobody-known", 401, "this cluster has no user 'nobody-known'"),
    ],
)
def test_no_token_for_who_is_no_person(
    ways: PageLogin, monkeypatch: pytest.MonkeyPatch, user: str, status: int, words: str
) -> None:
    async def work() -> None:
        async with Site(monkeypatch, ways) as site:
            refused = await site.page.post("login/header", {}, **headers(user))
            assert refused.status_code == status
            assert refused.json()["error"]["message"] == words
            assert not site.program.made

    run(work())


def test_members_of_the_groups_alone(ways: PageLogin, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        some = ways.model_copy(update={"groups": ("no-such-group", "hpc")})
        async with Site(monkeypatch, some) as site:
            assert (await site.page.post("login/header", {}, **headers())).status_code == 200
            refused = await site.page.post("login/header", {}, **headers("lee"))
            assert refused.status_code == 403
            assert refused.json()["error"]["message"] == "lee may not log in to this page"

    run(work())


def test_another_person_at_the_proxy_has_no_session(
    ways: PageLogin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Log out of the proxy, log in as another: the session before is the first one's."""

    async def work() -> None:
        async with Site(monkeypatch, ways) as site:
            page = site.page
            page.csrf = (await page.post("login/header", {}, **headers())).json()["csrf"]
            assert (await page.get("me")).status_code == 401, "not by the proxy"
            site.peer = Peer("loopback uid 1000", 1000)
            assert (await page.get("me", headers=headers())).status_code == 401
            site.peer = Peer(f"loopback uid {PROXY}", PROXY)
            assert (await page.get("me", headers=headers())).status_code == 200
            assert (await page.get("me", headers=headers("lee"))).status_code == 401
            # It has ended: live streams of before would go on with the first one's view.
            assert not page.app.state.corral.sessions._open
            assert (await page.get("me", headers=headers())).status_code == 401

    run(work())


def test_live_streams_end_where_the_proxy_names_their_person_no_more(
    ways: PageLogin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream is one request: whom the proxy names since then only another request reports."""
    monkeypatch.setattr(view, "KEEP_S", 0.02)
    monkeypatch.setattr(view, "RENEW_S", 0.2)

    async def work() -> None:
        async with Site(monkeypatch, ways) as site:
            page = site.page
            page.csrf = (await page.post("login/header", {}, **headers())).json()["csrf"]
            async with asyncio.timeout(20):
                first = await page.get("events", headers=headers())
            assert "data: " in first.text
            assert "logout" not in first.text, "the page connects again, through the proxy"
            (session,) = page.app.state.corral.sessions._open.values()
            request: Any = SimpleNamespace(
                headers={}, cookies=page.http.cookies, app=page.app, state=SimpleNamespace()
            )
            request.headers = Headers({"host": "127.0.0.1:8080"})
            assert still_in(request)
            session.named -= NAMED_S
            assert not still_in(request), "of a log that is followed, too"

    run(work())


def test_a_login_ends_the_session_before_it(
    ways: PageLogin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No fixation: a known cookie of before is good for nothing afterwards."""

    async def work() -> None:
        async with Site(monkeypatch, ways) as site:
            page = site.page
            page.csrf = (await page.post("login/header", {}, **headers())).json()["csrf"]
            before = dict(page.http.cookies)
            sessions = page.app.state.corral.sessions
            first = sessions.find(next(iter(before.values())))
            await page.post("login/header", {}, **headers())
            assert dict(page.http.cookies) != before
            assert first is not None
            assert sessions.find(next(iter(before.values()))) is None

    run(work())


@pytest.mark.parametrize("origin", ["https://evil.example.org", "null", "http://127.0.0.1:9"])
def test_another_page_logs_nobody_in(
    ways: PageLogin, monkeypatch: pytest.MonkeyPatch, origin: str
) -> None:
    async def work() -> None:
        async with Site(monkeypatch, ways) as site:
            refused = await site.page.post("login/header", {}, origin=origin, **headers())
            assert refused.status_code == 403
            assert not site.program.asked

    run(work())


def test_without_the_way_no_header_is_read(
    ways: PageLogin, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with Site(monkeypatch, PageLogin(groups=("hpc",))) as site:
            assert (await site.page.post("login/header", {}, **headers())).status_code == 401
            assert not site.program.asked
        async with Site(monkeypatch, ways, token_program="") as site:
            assert (await site.page.post("login/header", {}, **headers())).status_code == 401

    run(work())


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622])
def test_a_secret_that_others_can_read_is_none(
    ways: PageLogin, monkeypatch: pytest.MonkeyPatch, mode: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ways.header is not None
    path = Path(ways.header.secret_file)
    path.chmod(mode)

    async def work() -> None:
        async with Site(monkeypatch, ways) as site:
            refused = await site.page.post("login/header", {}, **headers())
            assert refused.status_code == 502
            assert str(path) not in refused.text, "browsers learn no path"
            assert not site.program.made

    run(work())
    assert "chmod 600" in capsys.readouterr().err


def test_a_short_secret_is_none(ways: PageLogin, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ways.header is not None
    Path(ways.header.secret_file).write_text("\n")

    async def work() -> None:
        async with Site(monkeypatch, ways) as site:
            refused = await site.page.post("login/header", {}, **headers(secret=""))
            assert refused.status_code == 502
            assert not site.program.made

    run(work())
