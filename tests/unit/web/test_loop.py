"""What computes for long is not done in the event loop that answers all viewers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from corral import api
from corral.errors import Code, CorralError
from corral.events import Event, Kind
from corral.passwords import Person, accompanied, person
from corral.slurm.rest import write
from corral.spec.load import load_or_raise
from corral.web.routes import form, jobs, past_jobs, scripts
from corral.web.tasks import use_case_thread
from corral.web.tasks.use_case_thread import in_thread
from corral.web.users.sessions import login_of
from tests.unit.web.fake import FakeRest, Page
from tests.unit.web.routes.test_again import Keeping
from tests.unit.web.test_costs import EXAMPLES


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


async def owner(page: Page) -> None:
    code = page.app.state.corral.sessions.code(login_of(page.rest.login("kim")))
    page.csrf = (await page.post("login/code", {"code": code})).json()["csrf"]


@pytest.mark.parametrize("path", ["plan", "doctor", "prove", "doctor/plan"])
def test_use_cases_run_outside_the_loops_thread(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    async def use_case(*args: Any, **more: Any) -> Any:
        threads.append(threading.get_ident())
        raise CorralError(Code.UNREACHABLE, "as far as this goes")

    for name in ("plan", "doctor", "prove"):
        monkeypatch.setattr(api, name, use_case)

    async def work() -> dict[str, Any]:
        text = (EXAMPLES / "laptop.yaml").read_text()
        spec = load_or_raise(EXAMPLES / "laptop.yaml").model_dump(mode="json")
        async with Page(FakeRest(), spec=spec) as page:
            await owner(page)
            reply = await page.post(f"corral/{path}", {"text": text})
            assert reply.status_code == 200, reply.text
            await page.app.state.corral.background._task
            return (await page.get("corral/work")).json()

    done = run(work())
    assert done["error"]["message"] == "as far as this goes"
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("path", ["jobs?q=kim", "past?q=kim"])
def test_a_filter_runs_in_a_thread(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def ordered(jobs: Any, by: str, *, down: bool) -> list[Any]:
        threads.append(threading.get_ident())
        return list(jobs)

    for module in (jobs, past_jobs):
        monkeypatch.setattr(module, "ordered", ordered)

    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login()
            assert (await page.get(path)).status_code == 200

    run(work())
    assert threads
    assert threading.get_ident() not in threads


def test_events_come_before_the_result_and_in_the_callers_loop() -> None:
    seen: list[tuple[int, str]] = []

    async def use_case(emit: Callable[[Event], None]) -> int:
        for n in range(100):
            emit(Event(Kind.NOTE, subject=str(n)))
        return 7

    async def work() -> None:
        assert (
            await in_thread(
                use_case, lambda event: seen.append((threading.get_ident(), event.subject))
            )
            == 7
        )
        assert seen == [(threading.get_ident(), str(n)) for n in range(100)]

    run(work())


def test_who_is_there_answers_there_too() -> None:
    async def ask(_: str) -> str | None:
        return "secret"

    async def use_case(_: object) -> str | None:
        return await person().password("sudo", "?", "n1")

    async def work() -> None:
        with accompanied(Person(ask, only=frozenset({"n1"}))):
            assert (
                await asyncio.gather(*(in_thread(use_case) for _ in range(20))) == ["secret"] * 20
            )

    run(work())


def test_a_cancelled_use_case_cleans_up() -> None:
    cleaned: list[str] = []

    async def work() -> None:
        begun = threading.Event()

        async def use_case(_: object) -> None:
            begun.set()
            try:
                await asyncio.sleep(600)
            finally:
                await asyncio.sleep(0.01)
                cleaned.append("done")

        task = asyncio.create_task(in_thread(use_case))
        await asyncio.to_thread(begun.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cleaned == ["done"]

    run(work())


@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_a_use_case_that_ends_its_thread_is_not_waited_for(raised: type[BaseException]) -> None:
    async def use_case(_: object) -> None:
        raise raised

    async def work() -> None:
        with pytest.raises(RuntimeError, match=raised.__name__):
            await asyncio.wait_for(in_thread(use_case), 5)

    run(work())


def test_a_use_case_is_cancelled_before_its_thread_has_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It ran to its end, with nobody who waits for it."""
    gate, did = threading.Event(), list[str]()

    def late(done: Any, running: Any) -> Any:
        gate.wait(10)
        return outcome(done, running)

    outcome = use_case_thread._outcome
    monkeypatch.setattr(use_case_thread, "_outcome", late)

    async def use_case(_: object) -> None:
        await asyncio.sleep(0)
        did.append("all")

    async def work() -> None:
        task = asyncio.create_task(in_thread(use_case))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.05, gate.set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not did

    run(work())


def test_errors_are_the_use_cases_own() -> None:
    async def use_case(_: object) -> None:
        raise CorralError(Code.BUSY, "busy")

    async def work() -> None:
        with pytest.raises(CorralError, match="busy"):
            await in_thread(use_case)

    run(work())


def test_a_script_is_read_outside_the_loops_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: dict[str, int] = {}

    def watched(module: Any, name: str) -> None:
        plain = getattr(module, name)

        def noting(*args: Any, **named: Any) -> Any:
            threads[f"{module.__name__}.{name}"] = threading.get_ident()
            return plain(*args, **named)

        monkeypatch.setattr(module, name, noting)

    for module, name in (
        (scripts, "directives"),
        (scripts, "faults_of"),
        (form, "resubmission"),
        (write, "submit_body"),
    ):
        watched(module, name)

    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login()
            page.app.state.corral.own = Keeping()
            script = "#!/bin/sh\n#SBATCH -N2\ntrue\n"
            reply = await page.post("jobs/directives", {"script": script})
            assert reply.status_code == 200
            assert threads.pop("corral.web.routes.scripts.directives") != threading.get_ident()
            reply = await page.post("jobs", {"script": script, "workdir": "/tmp"})
            assert reply.status_code == 200
            assert (await page.get("jobs/1/again")).status_code == 200

    run(work())
    assert len(threads) == 4
    assert threading.get_ident() not in threads.values()
