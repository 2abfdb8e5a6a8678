"""What a job's page does to the tasks of an array: to those that it shows, and to no other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from corral.api.operations.nodes import CommandResult
from corral.slurm.records import Job
from corral.web.settings import Declared
from corral.web.slurm import commands
from corral.web.slurm.commands import ByCommands
from corral.web.slurm.slurmrest import Login
from corral.web.slurm.targets import choose, matching
from tests.unit.web.fake import FakeRest, Page

PENDING, LAST = 5, 6


def arrays(api: int = 42) -> FakeRest:
    """5: the pending tasks of array 5, of which job 1 runs; 6: the last task of array 6."""
    rest = FakeRest("24.11", api)
    tasks = {PENDING: (5, "3-30:3,40%4", None), 1: (5, "", 2), LAST: (6, "", 9)}
    for raw in rest.bodies["jobs"]["body"]["jobs"]:
        if raw["job_id"] in tasks:
            array, pending, task = tasks[raw["job_id"]]
            raw["array_job_id"] = {"set": True, "number": array}
            raw["array_task_string"] = pending
            raw["array_task_id"] = {"set": task is not None, "number": task or 0}
            raw["user_name"] = "kim"
            if pending:
                raw["job_state"] = ["PENDING"]
            elif raw["job_id"] == LAST:
                raw["job_state"] = ["RUNNING"]
    return rest


def acted(job: int, body: dict[str, Any], api: int = 42) -> tuple[Any, list[Any]]:
    async def work() -> tuple[Any, list[Any]]:
        rest = arrays(api)
        async with Page(rest) as page:
            await page.login("kim")
            reply = await page.post(f"jobs/{job}", body)
            return reply, [(method, what, sent) for method, what, sent, _ in rest.sent]

    return asyncio.run(work())


def test_cancel_of_pending_tasks_ends_no_task_that_runs() -> None:
    """DELETE job/5 ends all of array 5, with what its running tasks have not saved (24.11)."""
    reply, sent = acted(PENDING, {"do": "cancel"})
    assert reply.status_code == 200, reply.text
    named = {"jobs": ["5_[3-30:3,40]"], "job_state": ["PENDING"]}
    assert sent == [("DELETE", "jobs", named)]
    reply, sent = acted(PENDING, {"do": "cancel"}, api=40)
    assert not sent
    assert "scancel --state=PENDING '5_[3-30:3,40]'" in reply.json()["error"]["hint"]


def test_cancel_of_an_arrays_last_task_ends_it_alone() -> None:
    """Its record has the array's own number."""
    reply, sent = acted(LAST, {"do": "cancel"})
    assert reply.status_code == 200, reply.text
    assert sent == [("DELETE", "jobs", {"jobs": ["6_9"]})]
    reply, sent = acted(LAST, {"do": "cancel"}, api=40)
    assert not sent
    assert "scancel 6_9" in reply.json()["error"]["hint"]


def test_other_tasks_and_jobs_have_numbers_of_their_own() -> None:
    assert acted(1, {"do": "cancel"})[1] == [("DELETE", "job/1", None)]


@pytest.mark.parametrize("body", [{"do": "hold"}, {"do": "release"}, {"do": "limit", "minutes": 9}])
def test_slurmrestd_changes_one_record(body: dict[str, Any]) -> None:
    """Seen with 24.11: POST job/5 leaves the running tasks of array 5 as they are."""
    ((method, what, _),) = acted(PENDING, body)[1]
    assert (method, what) == ("POST", "job/5")


def test_what_has_not_begun_is_not_requeued() -> None:
    reply, sent = acted(PENDING, {"do": "requeue"})
    assert reply.status_code in (400, 403)
    assert not sent


RECORDS = {
    "pending": Job(id=5, label="5_[3-30:3,40%4]", state="PENDING", user="kim"),
    "cut": Job(id=5, label="5_[1,3,5,...]", state="PENDING", user="kim"),
    "last": Job(id=6, label="6_9", state="RUNNING", user="kim"),
    "task": Job(id=7, label="6_8", state="RUNNING", user="kim"),
    "job": Job(id=12, label="12", state="RUNNING", user="kim"),
}


@pytest.mark.parametrize(
    ("record", "ref"),
    [("pending", "5_[3-30:3,40]"), ("cut", ""), ("last", "6_9"), ("task", "7"), ("job", "12")],
)
def test_a_name_means_no_other_job(record: str, ref: str) -> None:
    assert RECORDS[record].ref == ref


def test_commands_name_the_tasks_that_they_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """`scontrol update JobId=5 TimeLimit=1` ends the tasks of array 5 that run (24.11)."""
    ran: list[tuple[str, ...]] = []

    async def command(_: Any, user: str, words: tuple[str, ...], *more: str) -> CommandResult:
        ran.append(words)
        return CommandResult(0, "", "")

    monkeypatch.setattr(commands.api, "slurm_command", command)
    slurm: Any = ByCommands(Declared(None))  # type: ignore[arg-type]
    login, limit = Login("kim", ""), {"time_limit": {"set": True, "number": 9}}

    async def work() -> None:
        await slurm.update(login, RECORDS["pending"], limit, "limit")
        await slurm.update(login, RECORDS["pending"], {"hold": True}, "hold")
        await slurm.update(login, RECORDS["last"], {"hold": False}, "release")
        for name in ("pending", "cut", "last", "task"):
            await slurm.cancel(login, RECORDS[name])
        with pytest.raises(Exception, match="only some"):
            await slurm.update(login, RECORDS["cut"], limit, "limit")

    asyncio.run(work())
    assert ran == [
        ("scontrol", "update", "JobId=5_[3-30:3,40]", "TimeLimit=9"),
        ("scontrol", "hold", "5_[3-30:3,40]"),
        ("scontrol", "release", "6_9"),
        ("scancel", "--state=PENDING", "5_[3-30:3,40]"),
        ("scancel", "--state=PENDING", "5"),
        ("scancel", "6_9"),
        ("scancel", "7"),
    ]


def test_the_last_task_is_chosen_without_the_rest_of_its_array() -> None:
    known = {job.id: job for job in (RECORDS["last"], RECORDS["task"])}
    made = choose([RECORDS["last"]], known, "kim", operates=False)
    assert (made.targets, made.tasks) == (("6_9",), 1)
    assert matching(made.targets, known) == {"6_9": [RECORDS["last"]]}
    both = choose(known.values(), known, "kim", operates=False)
    assert both.targets == ("6",)


def test_the_last_task_is_cancelled_without_the_rest_of_its_array() -> None:
    async def work() -> list[Any]:
        rest = arrays()
        async with Page(rest) as page:
            await page.login("kim")
            answer = (await page.post("bulk/jobs/cancel", {"targets": ["6_9"]})).json()
            assert answer["done"] == ["6_9"]
            return rest.sent

    assert [sent[:3] for sent in asyncio.run(work())] == [("DELETE", "jobs", {"jobs": ["6_9"]})]
