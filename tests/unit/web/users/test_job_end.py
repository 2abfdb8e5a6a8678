"""Why a job failed, for the message about its end: by the page's judge, with its user's rights."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import httpx
import pytest

from corral import api
from corral.errors import Code, CorralError
from corral.slurm.records import Job
from corral.spec.models import ClusterSpec
from corral.web.slurm.slurmrest import Login, SlurmRest
from corral.web.users import job_end
from corral.web.users.worker_process import WorkerProcesses, answer
from tests.unit.roles.test_cluster import laptop
from tests.unit.web.fake import FakeRest, token

FAILED = Job(7, user="kim", state="FAILED", stdout="/shared/out", exit_status=1)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What is asked of Slurm, of the log and of the doctor; the doctor's own rules answer."""
    seen: dict[str, Any] = {"jobs": [FAILED], "lines": [], "closed": 0}

    class Rest(SlurmRest):
        async def job(self, login: Login, job_id: int) -> Job | None:
            jobs = seen["jobs"]
            return jobs.pop(0) if len(jobs) > 1 else jobs[0]

        async def close(self) -> None:
            seen["closed"] += 1
            await super().close()

    async def log(spec: ClusterSpec, user: str, job: Job, question: Any, **more: Any) -> None:
        seen["log"] = (user, question.do, more["here"])
        for line in seen["lines"]:
            more["on_line"](line)
        if "trouble" in seen:
            raise seen["trouble"]

    async def ask(self: object, question: Any, *_: object) -> dict[str, Any]:
        return answer(question)

    async def slept(_: float) -> None:
        seen["waited"] = seen.get("waited", 0) + 1

    monkeypatch.setattr(api, "job_log", log)
    monkeypatch.setattr(WorkerProcesses, "_ask", ask)
    monkeypatch.setattr(job_end.asyncio, "sleep", slept)
    seen["rest"] = Rest("http://slurm", httpx.MockTransport(FakeRest()))
    return seen


def why(asked: dict[str, Any]) -> dict[str, Any]:
    login = Login("kim", token("kim"))
    return asyncio.run(job_end.answer(laptop(), login, 7, asked["rest"]))


def test_the_answer_is_the_pages_and_repeats_no_line(asked: dict[str, Any]) -> None:
    asked["jobs"] = [replace(FAILED, state="OUT_OF_MEMORY", exit_status=0, exit_signal=9)]
    end = why(asked)
    (finding,) = end["findings"]
    page = api.doctor_job("OUT_OF_MEMORY", "", asked["jobs"][0].exit_code, "").as_dict()
    assert finding["title"] == page["findings"][0]["title"]
    assert set(finding) == {"title", "detail", "cause", "fix"}
    assert end["about"] == "memory"
    assert isinstance(end["lines"], int)
    assert asked["log"] == ("kim", "last", True)
    assert asked["closed"] == 1


def test_somebody_elses_job_is_not_explained(asked: dict[str, Any]) -> None:
    """What asks names job and user: the two must belong together."""
    asked["jobs"] = [replace(FAILED, user="eve")]
    with pytest.raises(CorralError, match="not kim's"):
        why(asked)
    assert "log" not in asked


def test_it_waits_for_the_end_that_slurmctld_has_reported(asked: dict[str, Any]) -> None:
    going = replace(FAILED, state="COMPLETING")
    asked["jobs"] = [going, going, FAILED]
    assert why(asked)["no_output"] == ""
    assert asked["waited"] == 2
    asked["jobs"] = [replace(FAILED, state="RUNNING")]
    with pytest.raises(CorralError, match="has not ended"):
        why(asked)


def test_without_output_the_record_is_explained(asked: dict[str, Any]) -> None:
    asked["trouble"] = CorralError(Code.NOT_FOUND, "the file is gone")
    end = why(asked)
    assert end["no_output"] == "the file is gone"
    asked["jobs"] = [replace(FAILED, stdout="")]
    assert "writes no file" in why(asked)["no_output"]
