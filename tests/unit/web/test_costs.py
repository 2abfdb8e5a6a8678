"""What one viewer may cost the others: logins, sessions, live views, texts to check."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from corral import api
from corral.errors import Code, CorralError
from corral.slurm.records import Job
from corral.spec.load import load_or_raise
from corral.web.routes.streams import LiveView, Streams
from corral.web.users import worker_process
from corral.web.users.sessions import MAX_CODES, MAX_OF_USER, Sessions, login_of
from corral.web.users.worker_process import MAX_TEXT, MOST, WorkerProcesses
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


def test_live_views_of_a_user_are_counted_before_their_first_byte() -> None:
    """Views requested at once are counted, although none has sent anything yet."""
    ended = 0

    async def work() -> None:
        streams, gate = Streams(2), asyncio.Event()

        async def source() -> AsyncGenerator[bytes]:
            nonlocal ended
            try:
                yield b"a"
                await gate.wait()
            finally:
                ended += 1

        async def sent(message: object) -> None:
            await asyncio.sleep(0)

        async def received() -> dict[str, str]:
            await gate.wait()
            return {"type": "http.disconnect"}

        def view(user: str) -> asyncio.Task[None]:
            scope = {"type": "http", "asgi": {"spec_version": "2.3"}}
            return asyncio.create_task(LiveView(streams, user, source())(scope, received, sent))  # type: ignore[arg-type]

        views = [view("kim") for _ in range(50)] + [view("ada")]
        for _ in range(20):
            await asyncio.sleep(0)
        refused = [task.exception() for task in views if task.done()]
        assert len(refused) == 48
        assert all(isinstance(e, CorralError) and e.code is Code.TOO_MANY for e in refused)
        gate.set()
        await asyncio.gather(*views, return_exceptions=True)
        assert ended == 3
        gate.clear()
        again = view("kim")
        await asyncio.sleep(0.01)
        assert not again.done()  # the limit is free again
        again.cancel()
        await asyncio.gather(again, return_exceptions=True)
        assert not streams._open

    asyncio.run(work())


def test_a_text_that_is_slow_to_check_is_given_up_and_nobody_waits() -> None:
    async def work() -> None:
        slow = WorkerProcesses((sys.executable, "-c", "while True: pass"), limit_s=1.0)
        judging = asyncio.create_task(slow.lint("x", "x", "kim"))
        turns = 0
        while not judging.done():
            await asyncio.sleep(0.01)
            turns += 1
        with pytest.raises(CorralError) as caught:
            await judging
        assert caught.value.code is Code.TIMED_OUT
        assert turns > 5  # of the event loop, which others' requests have too

    asyncio.run(work())


LIMITED = """
from corral.web.users import worker_process
worker_process.LIMIT_S, worker_process.MEMORY = 1, 1 << 30
def check(question):
    {}
worker_process._ANSWERS = {{"lint": check}}
worker_process.main()
"""


@pytest.mark.parametrize(
    ("check", "code", "words"),
    [
        ("while True: pass", Code.TIMED_OUT, "this text takes more than 10 s of the processor's"),
        ("bytearray(2 << 30)", Code.COMMAND_FAILED, "this text needs more than 2 GiB to check"),
        ("1 / 0", Code.COMMAND_FAILED, "this text cannot be checked: its process ended with 1"),
    ],
)
def test_each_limit_of_a_text_is_named_when_it_is_reached(
    check: str, code: Code, words: str
) -> None:
    """The limits themselves, lower than usual; the time in all is another one."""
    argv = (sys.executable, "-c", LIMITED.format(check))
    with pytest.raises(CorralError) as caught:
        asyncio.run(WorkerProcesses(argv, limit_s=120).lint("x", "x", "kim"))
    assert caught.value.code is code
    assert words in caught.value.message


def test_slow_texts_of_one_user_do_not_keep_another_waiting() -> None:
    async def work() -> None:
        slow = WorkerProcesses((sys.executable, "-c", "while True: pass"), limit_s=1.5)
        flood = [asyncio.create_task(slow.lint("x", "x", "mallory")) for _ in range(12)]
        await asyncio.sleep(0.1)
        refused = [task.exception() for task in flood if task.done()]
        assert len(refused) == 12 - MOST
        assert all(isinstance(e, CorralError) and e.code is Code.TOO_MANY for e in refused)
        with pytest.raises(CorralError) as caught:
            await slow.lint("x", "x", "kim")
        assert caught.value.code is Code.TIMED_OUT
        # It was judged before texts that were there before it.
        assert sum(not task.done() for task in flood) >= MOST - 2
        for task in flood:
            task.cancel()
        await asyncio.gather(*flood, return_exceptions=True)
        assert not slow._texts._asked and not slow._texts._turns

    asyncio.run(work())


@pytest.mark.parametrize("user", ["kim", "ada"])
def test_logs_leave_the_places_of_forms_and_files_free(user: str) -> None:
    """Each may take ``END_S``: two users kept all others waiting, and one their own forms."""

    async def main() -> None:
        reading = asyncio.Event()
        begun = asyncio.Semaphore(0)

        class Slow(WorkerProcesses):
            async def _ask(self, question: dict[str, Any], what: str, hint: str) -> dict[str, Any]:
                if question["do"] == "end":
                    begun.release()
                    await reading.wait()
                return {"templates": []}

        workers = Slow()
        logs = [
            asyncio.create_task(workers.end(Job(n, str(n), user=name, state="FAILED"), "text"))
            for n, name in enumerate(("kim", "lee"))
        ]
        for _ in logs:
            await begun.acquire()
        folder = api.TemplateFolder("/shared", ())
        form = asyncio.create_task(workers.templates(folder, user))
        for _ in range(100):  # turns of the loop: nothing is waited for
            await asyncio.sleep(0)
        assert form.done()
        reading.set()
        await asyncio.gather(form, *logs)

    asyncio.run(main())


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
        judged, findings = await WorkerProcesses().lint(text, "laptop.yaml", "kim")
        assert judged == spec
        assert [f for f in findings if f["level"] == "error"] == []

    asyncio.run(work())


TEMPLATE = "command: [hostname]\n"
COSTLY = f"a: [{'1,' * 16000}1]\n"
BOMB = "".join(
    f"{name}: &{name} [{', '.join([f'*{last}'] * 9)}]\n" for last, name in pairwise("abcdefghijkl")
).replace("*a", "1")


def template(name: str, text: str = TEMPLATE, account: str = "") -> api.TemplateFile:
    return api.TemplateFile(name, text, account=account, owner="ada")


def read_twice(*files: api.TemplateFile) -> tuple[dict[str, str], dict[str, str]]:
    """What is wrong with each file, when it is read and when it is read again."""
    workers = WorkerProcesses()
    folder = api.TemplateFolder("/shared/corral/templates", files)

    async def work() -> list[list[dict[str, Any]]]:
        return [await workers.templates(folder, "kim") for _ in range(2)]

    first, second = asyncio.run(work())
    named = [{row["name"]: row["fault"] for row in rows} for rows in (first, second)]
    assert all(row["fields"] for row in first if not row["fault"])
    return named[0], named[1]


def test_costly_templates_of_a_team_cost_root_and_other_teams_nothing() -> None:
    costly = [template(f"{n:02}.yaml", f"# {n}\n{COSTLY}", "kims") for n in range(30)]
    first, second = read_twice(template("all.yaml"), *costly, template("z.yaml", account="zoes"))
    assert (first["all.yaml"], first["z.yaml"]) == ("", "")
    later = [name for name, fault in first.items() if fault.startswith("not read yet: the files")]
    assert 8 < len(later) < 30
    assert len([fault for fault in second.values() if "not read yet" in fault]) < len(later)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f"command: [{'[' * 400}{']' * 400}]\n", "yaml"),
        (f"sweep: {{a: [{'[1,' * 9000}]}}\n", ""),
        (BOMB, "yaml"),
    ],
)
def test_a_template_that_breaks_its_reader_is_alone(text: str, fault: str) -> None:
    first, second = read_twice(template("bad.yaml", text), template("good.yaml"))
    assert (first["good.yaml"], second["good.yaml"]) == ("", "")
    assert first["bad.yaml"] == second["bad.yaml"]
    assert fault in first["bad.yaml"]
    assert first["bad.yaml"]


def test_a_template_is_read_once_and_its_limits_are_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_process, "FILE_S", 0.05)
    read = {"do": "templates", **api.TemplateFolder("/t", (template("a.yaml", COSTLY),)).as_dict()}
    (row,) = worker_process.answer(read)["templates"]
    assert row["fault"] == "it takes more than 0.05 s of the processor's time to read"

    def greedy(*_: object) -> dict[str, Any]:
        return {"a": "x" * (2 << 30)}

    monkeypatch.setattr(api, "template_fields", greedy)
    (row,) = worker_process.answer(read)["templates"]
    assert row["fault"] == "it needs more than 512 MiB to read"
    kept = worker_process._Kept(10)
    for key in "abc":
        kept.add(key, "1234")
    kept.add("b", "12345")
    assert [kept.get(key) for key in "abc"] == [None, "12345", "1234"]


def test_templates_take_no_place_of_texts() -> None:
    async def work() -> None:
        slow = WorkerProcesses((sys.executable, "-c", "import time; time.sleep(9)"), limit_s=1.0)
        folder = api.TemplateFolder("/t", (template("a.yaml"),))
        folders = [asyncio.create_task(slow.templates(folder, f"u{n}")) for n in range(4)]
        await asyncio.sleep(0.1)
        async with asyncio.timeout(0.5), slow._texts.turn("kim"):
            pass
        await asyncio.gather(*folders, return_exceptions=True)

    asyncio.run(work())
