"""What one viewer may cost the others: logins, sessions, live views, texts to check."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from corral.errors import Code, CorralError
from corral.spec.load import load_or_raise
from corral.web.lint_process import MAX_TEXT, Lint
from corral.web.sessions import MAX_CODES, MAX_OF_USER, Sessions, Streams, login_of
from tests.unit.web.fake import FakeRest, Page, token

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_a_right_code_opens_after_any_number_of_wrong_ones() -> None:
    async def work() -> None:
        rest = FakeRest()
        async with Page(rest) as page:
            code = page.app.state.corral.sessions.code(login_of(rest.login("kim")))
            seen = [
                (await page.post("login/code", {"code": f"{n:018x}"})).status_code
                for n in range(40)
            ]
            assert seen == [401] * 10 + [429] * 30
            assert (await page.post("login/code", {"code": code})).status_code == 200

    asyncio.run(work())


def test_wrong_tokens_count_and_right_ones_do_not() -> None:
    async def work() -> None:
        rest = FakeRest()
        async with Page(rest) as page:
            for _ in range(30):
                good = await page.post("login", {"token": rest.login("kim")})
                assert good.status_code == 200
            asked = sum(rest.asked.values())
            seen = [
                (await page.post("login", {"token": token("ada", mark=n)})).status_code
                for n in range(20)
            ]
            assert seen == [401] * 10 + [429] * 10
            assert sum(rest.asked.values()) - asked <= 2 * 10  # and slurmrestd is left alone

    asyncio.run(work())


def test_nobody_takes_all_sessions_codes_or_views() -> None:
    sessions = Sessions(3600, 3600)
    other, _ = sessions.open(login_of(token("ada")))
    keys = [sessions.open(login_of(token("kim", n=n)))[0] for n in range(MAX_OF_USER + 5)]
    assert sessions.find(other)
    assert sum(sessions.find(key) is not None for key in keys) == MAX_OF_USER
    assert sessions.find(keys[-1])
    codes = [sessions.code(login_of(token("kim", n=n))) for n in range(MAX_CODES + 5)]
    assert sum(sessions.redeem(code) is not None for code in codes) == MAX_CODES


def test_live_views_of_a_user_are_counted_while_they_are_open() -> None:
    async def source() -> AsyncGenerator[bytes]:
        yield b"a"
        yield b"b"

    async def work() -> None:
        streams = Streams(2)
        views = [streams.counted("kim", source()) for _ in range(2)]
        for view in views:
            await anext(view)
        with pytest.raises(CorralError) as caught:
            streams.counted("kim", source())
        assert caught.value.code is Code.TOO_MANY
        await anext(streams.counted("ada", source()))
        await views[0].aclose()
        await anext(streams.counted("kim", source()))

    asyncio.run(work())


def test_a_text_that_is_slow_to_check_is_given_up_and_nobody_waits() -> None:
    async def work() -> None:
        slow = Lint((sys.executable, "-c", "while True: pass"), limit_s=1.0)
        judging = asyncio.create_task(slow.judge("x", "x"))
        worst = begun = time.perf_counter()
        worst = 0.0
        while not judging.done():
            at = time.perf_counter()
            await asyncio.sleep(0.01)
            worst = max(worst, time.perf_counter() - at)
        assert time.perf_counter() - begun < 10
        with pytest.raises(CorralError) as caught:
            await judging
        assert caught.value.code is Code.TIMED_OUT
        assert worst < 0.5

    asyncio.run(work())


def test_a_large_text_is_refused_and_a_good_one_gives_its_cluster() -> None:
    async def work() -> None:
        rest = FakeRest()
        spec = load_or_raise(EXAMPLES / "laptop.yaml")
        async with Page(rest, spec=spec.model_dump(mode="json")) as page:
            code = page.app.state.corral.sessions.code(login_of(rest.login("kim")))
            page.csrf = (await page.post("login/code", {"code": code})).json()["csrf"]
            for path in ("corral/lint", "corral/plan"):
                reply = await page.post(path, {"text": "#" * (MAX_TEXT + 1)})
                assert reply.status_code == 422
        text = (EXAMPLES / "laptop.yaml").read_text()
        judged, findings = await Lint().judge(text, "laptop.yaml")
        assert judged == spec
        assert [f for f in findings if f["level"] == "error"] == []

    asyncio.run(work())
