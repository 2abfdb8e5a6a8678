"""Answers of Slurm that cannot be read: no call of the page takes one for an empty cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import Any, cast

import httpx
import pytest

from corral.errors import Code, CorralError
from corral.slurm.records import Job
from corral.slurm.rest import policy
from corral.slurm.rest.write import Submission
from corral.web.slurm.commands import ByCommands
from corral.web.slurm.slurmrest import Login, Slurm, SlurmRest
from tests.unit.web.fake import FakeRest, Page

KIM = Login("kim", "a.b.c")
BATCH = Submission("#!/bin/sh\n", "/w", "mine")
TASK = Job(15, label="12_3", state="RUNNING")
QUESTIONS: tuple[policy.RestQuestion[Any], ...] = (
    *(policy.ASSOCIATIONS, policy.QOSES, policy.SHARES, policy.RESERVATIONS),
    *(policy.LICENSES, policy.SCHEDULER),
)
READING: dict[str, Callable[[Slurm], Awaitable[Any]]] = {
    "check": lambda slurm: slurm.check(KIM),
    "role": lambda slurm: slurm.role(KIM),
    "nodes": lambda slurm: slurm.nodes(KIM),
    "jobs": lambda slurm: slurm.jobs(KIM),
    "partitions": lambda slurm: slurm.partitions(KIM),
    "job": lambda slurm: slurm.job(KIM, 12),
    "jobs_of": lambda slurm: slurm.jobs_of(KIM, 12),
    "past": lambda slurm: slurm.past(KIM, 7, ""),
    "past_tasks": lambda slurm: slurm.past_tasks(KIM, 12),
    "past_use": lambda slurm: slurm.past_use(KIM, 12),
    "past_uses": lambda slurm: slurm.past_uses(KIM, 60, "kim"),
    "states": lambda slurm: slurm.states(KIM),
    **{
        f"answer {question.what}": lambda slurm, question=question: slurm.answer(KIM, question)
        for question in QUESTIONS
    },
}
CHANGING: dict[str, Callable[[Slurm], Awaitable[Any]]] = {
    "submit": lambda slurm: slurm.submit(KIM, BATCH),
    "change": lambda slurm: slurm.change(KIM, "POST", "node/n1", {}, "draining n1"),
    "update": lambda slurm: slurm.update(KIM, TASK, {"hold": True}, "holding"),
    "cancel": lambda slurm: slurm.cancel(KIM, TASK),
    "cancel_pending": lambda slurm: slurm.cancel_pending(KIM, 12),
}
BODIES = {
    "cut": b'{"errors": [], "jobs": [{"job_id": 7, ',
    "html": b"<html>log in</html>",
    "empty": b"",
    "another JSON": b"[7]",
    "nothing": b"{}",
    "wrong types": json.dumps(
        dict.fromkeys(
            ("jobs", "nodes", "partitions", "users", "associations", "qos", "shares", "errors"), "x"
        )
    ).encode(),
}
ASKED = {**READING, **CHANGING, "version": lambda slurm: slurm.version(KIM)}


def rest(body: bytes, *, ping: bool) -> SlurmRest:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/v0.0.45/ping") and not ping:
            return httpx.Response(200, json={"pings": [], "errors": []})
        return httpx.Response(200, content=body)

    return SlurmRest("http://127.0.0.1:6820", httpx.MockTransport(answer))


def test_each_call_is_tried() -> None:
    calls = {name for name, value in vars(Slurm).items() if iscoroutinefunction(value)}
    assert calls - {"close", "silent"} == {name.partition(" ")[0] for name in ASKED}


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("call", ASKED)
def test_slurmrestd(call: str, body: str) -> None:
    with pytest.raises(CorralError) as caught:
        asyncio.run(cast("Any", ASKED[call](rest(BODIES[body], ping=call == "version"))))
    assert caught.value.code is Code.PARSE_FAILED
    assert ("may have queued the job" in caught.value.message) is (call == "submit")
    assert caught.value.__cause__ is not caught.value


BY_JSON = (
    "nodes",
    "jobs",
    "partitions",
    "job",
    "jobs_of",
    "states",
    *(c for c in READING if " " in c),
)


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("call", [*BY_JSON, "submit"])
def test_commands_with_json(call: str, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(*_: Any, **__: Any) -> str:
        return BODIES[body].decode()

    asked = ByCommands(cast("Any", None))
    monkeypatch.setattr(asked, "_run", run)
    with pytest.raises(CorralError) as caught:
        asyncio.run(cast("Any", ASKED[call](asked)))
    # What is not JSON is the answer of a release whose command has no --json.
    old = Code.NOT_FOUND if call.startswith("answer ") else Code.PARSE_FAILED
    assert caught.value.code in (Code.PARSE_FAILED, old)
    assert ("may have queued the job" in caught.value.message) is (call == "submit")


def test_single_records_are_counted_and_the_page_reports_it() -> None:
    async def work() -> tuple[str, str, int]:
        fake = FakeRest()
        listed = fake.bodies["jobs"]["body"]["jobs"]
        count = len(listed)
        listed.append({"job_id": "x"})
        async with Page(fake) as page:
            await page.login("kim")
            head = (await page.get("cluster")).json()
            return head["unread"], head["trouble"], count

    unread, trouble, count = asyncio.run(work())
    assert unread == f"1 of {count + 1} jobs in Slurm's answer cannot be read and are left out"
    assert trouble == ""
