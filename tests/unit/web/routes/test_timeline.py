"""The jobs of each node: who asks accounting for them, and how often."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.unit.web.fake import FakeRest, Page


def rest() -> FakeRest:
    """A job that is running, and one that ended an hour ago."""
    made = FakeRest()
    at = int(time.time())
    (running, *_) = made.bodies["jobs"]["body"]["jobs"]
    node = made.bodies["nodes"]["body"]["nodes"][0]["name"]
    running |= {
        "job_id": 900,
        "job_state": ["RUNNING"],
        "nodes": node,
        "start_time": {"set": True, "infinite": False, "number": at - 60},
    }
    made.bodies["jobs"]["body"]["jobs"] = [running]
    (ended, *_) = made.bodies["past"]["body"]["jobs"]
    ended |= {"job_id": 800, "nodes": node, "state": {"current": ["FAILED"], "reason": "None"}}
    ended["time"] |= {"start": at - 9000, "end": at - 5400}
    made.bodies["past"]["body"]["jobs"] = [ended]
    return made


def test_jobs_of_a_span_on_their_nodes() -> None:
    async def work() -> dict[str, dict[str, Any]]:
        async with Page(rest()) as page:
            await page.login()
            return {
                span: (await page.get(f"timeline?span={span}")).json()
                for span in ("hour", "day", "week")
            }

    by_span = asyncio.run(work())
    assert [job["id"] for job in by_span["hour"]["jobs"]] == [900]
    for span in ("day", "week"):
        jobs = by_span[span]["jobs"]
        assert [(job["id"], job["kind"], job["runs"]) for job in jobs] == [
            (900, "busy", [[0, 0]]),
            (800, "bad", [[0, 0]]),
        ]
    assert by_span["week"]["to"] - by_span["week"]["from"] == pytest.approx(7 * 86400)


@pytest.mark.parametrize("private", [False, True])
def test_each_viewer_has_an_answer_of_their_own(private: bool) -> None:
    """PrivateData of slurmdbd.conf, which the page does not see, hides jobs too."""

    async def work() -> int:
        async with Page(rest(), private=private) as page:
            for user in ("kim", "ada", "kim"):
                await page.login(user)
                assert (await page.get("timeline")).json()["known"]
            return len(page.rest.past_asked)

    assert asyncio.run(work()) == 2


def test_without_accounting_there_is_what_slurmctld_knows() -> None:
    async def work() -> Any:
        async with Page(rest()) as page:
            page.rest.accounting = False
            await page.login()
            return (await page.get("timeline")).json()

    drawn = asyncio.run(work())
    assert [job["id"] for job in drawn["jobs"]] == [900]
    assert "accounting" in drawn["why_no_past"]
