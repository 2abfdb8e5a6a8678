"""Several jobs or nodes at once: shown first, each failure reported, others' jobs left alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

import httpx
from pydantic import TypeAdapter

from corral.web import schemas
from tests.unit.web.fake import FakeRest, Page


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def held(shape: Any, data: object) -> None:
    TypeAdapter(shape).validate_json(json.dumps(data), strict=True, extra="forbid")


class Refusing(FakeRest):
    """Refuses to change one job or node."""

    refuses = ""

    def _changed(self, method: str, what: str, user: str) -> httpx.Response:
        if what == self.refuses:
            return httpx.Response(500, json={"errors": [{"error": "Job is completing"}]})
        return super()._changed(method, what, user)


def test_a_choice_has_how_many_and_whose() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login("kim")
            chosen = (await page.post("bulk/jobs", {"show": "running"})).json()
            held(schemas.ChosenJobs, chosen)
            assert (chosen["targets"], chosen["tasks"], chosen["others"]) == (["1"], 1, 1)
            assert chosen["users"] == [{"user": "kim", "count": 1}]
            assert (chosen["nodes"], chosen["node_count"]) == ("node0", 1)
            chosen = (await page.post("bulk/jobs", {"ids": [1, 2, 3]})).json()
            assert (chosen["targets"], chosen["others"]) == (["1"], 1)
            assert (await page.post("bulk/jobs", {"show": "all", "q": "no=1"})).status_code == 400
            await page.login("ola", "Operator")
            chosen = (await page.post("bulk/jobs", {"show": "running", "q": "alert"})).json()
            assert (chosen["targets"], chosen["others"]) == (["2"], 0)
            assert not page.rest.sent  # it was shown, and nothing done

    run(work())


def test_each_failure_is_reported_and_ends_nothing_else() -> None:
    async def work() -> None:
        rest = Refusing()
        rest.refuses = "job/5"
        async with Page(rest) as page:
            await page.login("kim")
            body = {"targets": ["1", "5", "6", "2", "777", "6"]}
            answer = (await page.post("bulk/jobs/cancel", body)).json()
            held(schemas.BulkResult, answer)
            assert answer["done"] == ["1", "6"]
            failed = {row["name"]: row["message"] for row in answer["failed"]}
            assert failed.keys() == {"5", "2", "777"}
            assert "completing" in failed["5"]
            assert "ada" in failed["2"]
            assert "ended" in failed["777"]
            # What is ada's was never asked of Slurm.
            assert sorted(what for _, what, _, _ in rest.sent) == ["job/1", "job/5", "job/6"]

    run(work())


def test_pending_tasks_are_cancelled_by_their_state() -> None:
    """For 12_[3-30] slurmrestd of 23.02 reads the number alone and ends all of the array."""

    class Array(FakeRest):
        error = 0

        def _changed(self, method: str, what: str, user: str) -> httpx.Response:
            error = {"code": self.error, "message": "Access/permission denied"}
            runs = {"code": 2139, "message": "Job state RUNNING != filter state PENDING"}
            status = [{"job_id": "5", "error": error}, {"job_id": "1", "error": runs}]
            return httpx.Response(200, json={"status": status})

    async def work(release: str, api: int, error: int) -> tuple[Any, Any]:
        rest = Array(release, api)
        rest.error = error
        for raw in rest.bodies["jobs"]["body"]["jobs"]:
            if raw["job_id"] in (1, 5):
                raw["array_job_id"] = {"set": True, "number": 5}
                raw["array_task_string"] = "3-30" if raw["job_id"] == 5 else ""
                raw["array_task_id"] = {"set": raw["job_id"] == 1, "number": 1}
        async with Page(rest) as page:
            await page.login("kim")
            chosen = (await page.post("bulk/jobs", {"show": "waiting", "q": "array=5"})).json()
            body = {"targets": chosen["targets"]}
            assert chosen["targets"] == ["5:pending"]
            return (await page.post("bulk/jobs/cancel", body)).json(), rest.sent

    answer, sent = run(work("24.11", 42, 0))
    assert answer["done"] == ["5:pending"]
    assert sent == [("DELETE", "jobs", {"jobs": ["5"], "job_state": ["PENDING"]}, "kim")]
    answer, _ = run(work("24.11", 42, 2010))
    assert "permission" in answer["failed"][0]["message"]
    answer, sent = run(work("24.11", 40, 0))
    assert "scancel --state=PENDING 5" in answer["failed"][0]["hint"]
    assert not sent


def test_targets_are_what_scancel_takes() -> None:
    async def work() -> list[int]:
        async with Page(FakeRest()) as page:
            await page.login("kim")
            wrong = ["", "0", "1;2", "../node/x", "12_[1]", "12:running", "-1"]
            bodies: list[list[str]] = [[], ["1"] * 501, *([text] for text in wrong)]
            replies = [await page.post("bulk/jobs/cancel", {"targets": t}) for t in bodies]
            assert not page.rest.sent
            return [reply.status_code for reply in replies]

    assert set(run(work())) == {422}


def test_nodes_are_drained_together_by_administrators() -> None:
    async def work() -> None:
        rest = Refusing()
        async with Page(rest) as page:
            body = {"do": "drain", "names": ["node0", "node1"], "reason": "fans"}
            for user, role in (("kim", "None"), ("ola", "Operator")):
                await page.login(user, role)
                assert (await page.post("bulk/nodes", body)).status_code == 403
            assert not rest.sent
            await page.login("root2", "Administrator")
            assert (await page.post("bulk/nodes", {**body, "reason": " "})).status_code == 400
            rest.refuses = "node/node1"
            names = ["node0", "node1", "nowhere"]
            answer = (await page.post("bulk/nodes", {**body, "names": names})).json()
            assert answer["done"] == ["node0"]
            assert [row["name"] for row in answer["failed"]] == ["node1", "nowhere"]
            assert rest.sent[0][2] == {"state": ["DRAIN"], "reason": "fans"}
            answer = (await page.post("bulk/nodes", {"do": "resume", "names": ["node0"]})).json()
            assert rest.sent[-1][2] == {"state": ["RESUME"]}

    run(work())
