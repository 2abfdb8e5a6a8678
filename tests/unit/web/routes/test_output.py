"""A job's page: its record while Slurm does not answer, its output, which ends with the job."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from corral.slurm.records import Job
from corral.web.routes import jobs, output
from corral.web.slurm.slurmrest import Login
from tests.unit.web.fake import FakeRest, Page


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


class Printing:
    """What a user's own commands read: two lines, and no end."""

    def __init__(self) -> None:
        self.cancelled = False

    async def log(self, login: Login, job: Job, on_line: Callable[[str], None]) -> None:
        on_line("one")
        on_line("two")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


def events(text: str) -> list[Any]:
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"OVER_S": 0.02, "STEP_S": 0.01, "LATE_S": 0.03, "LATEST_S": 0.5}.items():
        monkeypatch.setattr(output, name, value)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("how", ["cancelled", "forgotten"])
def test_a_log_ends_with_its_job(how: str) -> None:
    async def work() -> None:
        rest = FakeRest()
        async with Page(rest, poll_s=0.01) as page:
            await page.login()
            state = page.app.state.corral
            state.own = printing = Printing()
            await page.get("jobs")
            asked = asyncio.create_task(page.get("jobs/1/log"))
            await asyncio.sleep(0.2)
            assert not asked.done(), "its job is running"
            listed = rest.bodies["jobs"]["body"]["jobs"]
            (mine,) = [job for job in listed if job["job_id"] == 1]
            if how == "cancelled":
                mine["job_state"] = ["CANCELLED"]
            else:
                listed.remove(mine)
            rest.touch("jobs")
            await state.pollers.of("kim").look()
            reply = await asyncio.wait_for(asked, 20)
            assert [line for event in events(reply.text) for line in event.get("lines", ())] == [
                "one", "two",
            ]  # fmt: skip
            assert events(reply.text)[-1] == {}
            assert printing.cancelled

    run(work())


@pytest.mark.usefixtures("quick")
def test_a_log_goes_on_while_slurm_does_not_answer() -> None:
    async def work() -> None:
        rest = FakeRest()
        async with Page(rest, poll_s=0.01) as page:
            await page.login()
            state = page.app.state.corral
            state.own = Printing()
            await page.get("jobs")
            asked = asyncio.create_task(page.get("jobs/1/log"))
            await asyncio.sleep(0.05)
            rest.down = True
            await state.pollers.of("kim").look()
            await asyncio.sleep(0.2)
            assert not asked.done()
            asked.cancel()

    run(work())


def test_tasks_that_have_not_started_have_no_output() -> None:
    async def work() -> None:
        rest = FakeRest()
        async with Page(rest) as page:
            (array,) = [j for j in rest.bodies["jobs"]["body"]["jobs"] if j["job_id"] == 6]
            array["standard_output"] = "/shared/task-%a/batch.log"
            await page.login(array["user_name"])
            page.app.state.corral.own = Printing()
            assert (await page.get("jobs/6")).json()["stdout"] == "/shared/task-%a/batch.log"
            reply = await page.get("jobs/6/log")
            assert reply.status_code == 404
            assert "each task of an array has its own output" in reply.text

    run(work())


@pytest.mark.parametrize("known", [True, False])
def test_a_job_is_shown_as_it_was_last_seen_while_slurm_does_not_answer(known: bool) -> None:
    async def work() -> None:
        rest = FakeRest()
        async with Page(rest, poll_s=0.01) as page:
            await page.login()
            if known:
                await page.get("jobs")
            fresh = (await page.get("jobs/1")).json()
            assert fresh["known_at"] == 0
            rest.down = True
            reply = await page.get("jobs/1")
            if known:
                seen = reply.json()
                assert abs(seen.pop("known_at") - time.time()) < 60
                del fresh["known_at"]
                assert seen == fresh
            else:
                assert reply.status_code == 502
                assert "does not answer" in reply.text

    run(work())


def test_nobody_waits_long_for_a_job_that_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "LAST_KNOWN_S", 0.05)

    async def work() -> None:
        async with Page(FakeRest(), poll_s=0.01) as page:
            await page.login()
            await page.get("jobs")
            state = page.app.state.corral

            async def frozen(*_: object) -> Job | None:
                await asyncio.Event().wait()
                return None

            monkeypatch.setattr(state.rest, "job", frozen)
            reply = await asyncio.wait_for(page.get("jobs/1"), 20)
            assert reply.json()["known_at"]

    run(work())


def test_what_slurm_refuses_is_not_shown_from_memory() -> None:
    async def work() -> None:
        rest = FakeRest()
        async with Page(rest, poll_s=0.01) as page:
            await page.login()
            await page.get("jobs")
            rest.good.clear()  # Slurm takes the token no more
            assert (await page.get("jobs/1")).status_code == 401

    run(work())
