"""Jobs that slurmctld has forgotten: who asks accounting, how often, and what the page gets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from corral.api.operations.nodes import CommandResult
from corral.errors import Code, CorralError
from corral.slurm.records import Job
from corral.slurm.rest.past_jobs import MOST, Past
from corral.web import as_user
from corral.web.settings import Declared, Settings
from corral.web.slurm import commands
from corral.web.slurm.commands import ByCommands
from corral.web.slurm.past_jobs import AT_ONCE, KEEP_S, KEEP_TROUBLE_S, MOST_KEPT, PastJobs
from corral.web.slurm.slurmrest import Login, SlurmRest
from tests.unit.web.fake import FakeRest, Page
from tests.unit.web.users.test_owner import spec

KIM, ADA = Login("kim", "t"), Login("ada", "t")
JOB = Job(5, "5", "a", "kim", "COMPLETED", end_at=int(time.time()))


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def named(table: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


@pytest.mark.parametrize("api", [40, 41, 42])
def test_the_page_gets_the_jobs_of_a_period(api: int) -> None:
    async def work() -> None:
        async with Page(FakeRest(api=api)) as page:
            await page.login()
            table = (await page.get("past?days=7&q=ends")).json()
            assert (table["why"], table["cut"], table["most"]) == ("", False, MOST)
            assert [job["name"] for job in named(table)] == ["ends with 3", "ends with 3"]
            first = page.rest.past_asked[0]
            assert first["start_time"] == "now-1days"
            assert first.get_list("state")[:2] == ["BOOT_FAIL", "CANCELLED"]
            assert "users" not in first
            assert len(page.rest.past_asked) == 3  # the parts of seven days
            assert first["cluster"] == "h90"
            order = (await page.get("past?days=7&by=id&down=false&limit=2&offset=3")).json()
            assert len(order["rows"]) == 2
            assert order["total"] >= 30
            assert len(page.rest.past_asked) == 3  # another page of the same list asks nothing

    run(work())


def test_of_a_full_period_the_newest_are_kept_and_the_older_parts_not_asked_for() -> None:
    many = [
        {"job_id": n + 1, "state": {"current": ["FAILED"]}, "time": {"end": 1000 + n}}
        for n in range(2 * MOST + 500)
    ]

    async def work() -> None:
        async with Page(FakeRest()) as page:
            page.rest.bodies["past"]["body"]["jobs"] = many
            await page.login()
            table = (await page.get("past?days=30&limit=1&q=state=failed&by=end_at")).json()
            assert table["cut"]
            assert len(page.rest.past_asked) == 1
            kept = (await page.app.state.corral.past.ended(KIM, 30, "")).jobs
            assert [kept[0].id, kept[-1].id, len(kept)] == [2 * MOST + 500, MOST + 501, MOST]

    run(work())


def test_another_clusters_job_of_the_same_number_is_not_shown() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            page.rest.bodies["jobs"]["body"]["jobs"] = []
            page.rest.bodies["past-job"]["body"]["jobs"][0]["cluster"] = "other"
            await page.login()
            assert (await page.get("jobs/28")).status_code == 404

    run(work())


def test_ones_own_jobs_are_asked_for_alone() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login()
            table = (
                await page.get("past", params={"days": "1", "q": "user=kim state=failed"})
            ).json()
            assert [asked["users"] for asked in page.rest.past_asked] == ["kim"]
            assert {job["user"] for job in named(table)} == {"kim"}
            assert {job["state"] for job in named(table)} == {"FAILED"}

    run(work())


HOSTILE = (
    "user=ada", "user=root,kim", "name=;rm", "'); DROP TABLE job_table;--", "%00", "\n--user=ada",
    "user=kim&users=ada", "<script>",
)  # fmt: skip
WRONG = ("days=8", "days=x", "limit=0", "offset=-1", "q=" + "x" * 301)


def test_nobodys_words_reach_accounting() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login()
            for words in HOSTILE:
                page.app.state.corral.past._kept.clear()
                reply = await page.get("past", params={"days": "1", "q": words})
                assert reply.status_code in (200, 400), (words, reply.text)
            assert len(page.rest.past_asked) >= 4
            for asked in page.rest.past_asked:
                assert set(asked) == {"start_time", "end_time", "skip_steps", "state", "cluster"}

    run(work())


def test_wrong_questions_are_refused() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login()
            for query in WRONG:
                assert (await page.get(f"past?{query}")).status_code == 422, query
            assert (await page.get("past?by=colour")).status_code == 400
            assert (await page.get("past?q=colour%3Dred")).status_code == 400
            assert not page.rest.past_asked

    run(work())


def test_without_accounting_the_reason_is_shown_and_what_slurmctld_knows() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            page.rest.accounting = False
            await page.login()
            table = (await page.get("past")).json()
            assert "has no accounting" in table["why"]
            assert {job["state"] for job in named(table)} <= {"COMPLETED", "FAILED", "CANCELLED"}
            assert table["total"] == len(table["rows"]) > 0
            assert (await page.get("jobs/28")).status_code == 404

    run(work())


def test_an_old_slurmrestd_is_not_asked() -> None:
    async def work() -> None:
        async with Page(FakeRest("22.05", 38)) as page:
            await page.login()
            assert "too old" in (await page.get("past")).json()["why"]
            assert not page.rest.past_asked

    run(work())


def test_a_forgotten_job_has_its_page() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            page.rest.bodies["jobs"]["body"]["jobs"] = []
            await page.login("kim")
            job = (await page.get("jobs/28")).json()
            assert job["forgotten"]
            assert job["mine"]
            assert (job["state"], job["node_count"], job["stdout"]) == (
                "CANCELLED",
                2,
                "/tmp/six-28.log",
            )
            assert (await page.get("jobs/4")).status_code == 404
            # There is nothing left to cancel: accounting's word changes no job.
            assert (await page.post("jobs/28", {"do": "cancel"})).status_code == 404
            assert not page.rest.sent
            await page.login("ada")
            assert not (await page.get("jobs/28")).json()["mine"]
            assert (await page.get("jobs/28/log")).status_code == 403
            assert (await page.get("jobs/28/figures")).status_code == 403

    run(work())


@pytest.mark.parametrize("user", ["kim", "ada"])
@pytest.mark.parametrize("do", ["log", "extras", "script", "requeue"])
def test_the_helper_reads_a_forgotten_jobs_output_for_its_owner_alone(
    monkeypatch: pytest.MonkeyPatch, user: str, do: Any
) -> None:
    rest = FakeRest()
    rest.bodies["jobs"]["body"]["jobs"] = []
    slurm = SlurmRest("http://slurm", httpx.MockTransport(rest))
    monkeypatch.setattr(as_user, "SlurmRest", lambda _: slurm)
    request = as_user.Request(token=rest.login(user), do=do, job=28)
    asked = as_user._accepted(request, Settings(cluster="lab", rest="http://slurm"), spec())
    if user == "kim" and do != "requeue":
        login, job = run(asked)
        assert (login.user, job.id, job.stdout) == ("kim", 28, "/tmp/six-28.log")
        return
    with pytest.raises(CorralError) as raised:
        run(asked)
    assert raised.value.code is Code.FORBIDDEN


class Counted:
    """A Slurm of which only accounting is asked."""

    def __init__(self, trouble: CorralError | None = None) -> None:
        self.asked: list[tuple[str, int, str]] = []
        self.trouble = trouble
        self.at_once = self.most_at_once = 0

    async def past(self, login: Login, days: int, user: str) -> Past:
        self.asked.append((login.user, days, user))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        if self.trouble:
            raise self.trouble
        return Past((JOB,))


def past_jobs(rest: Any, spare: Any = None) -> tuple[PastJobs, SimpleNamespace]:
    now = SimpleNamespace(s=100.0)
    return PastJobs(rest, spare, lambda: now.s), now


def test_answers_are_kept_for_who_asked() -> None:
    async def work() -> None:
        rest = Counted()
        past, now = past_jobs(rest)
        await asyncio.gather(*(past.ended(KIM, 7, "") for _ in range(20)))
        assert len(rest.asked) == 1
        await past.ended(ADA, 7, "")
        await past.ended(KIM, 7, "kim")
        await past.ended(KIM, 30, "")
        assert len(rest.asked) == 4
        now.s += KEEP_S - 1
        await past.ended(KIM, 7, "")
        assert len(rest.asked) == 4
        now.s += 1
        await past.ended(KIM, 7, "")
        assert len(rest.asked) == 5

    run(work())


def test_few_are_kept_and_few_ask_at_once() -> None:
    async def work() -> None:
        rest = Counted()
        past, _ = past_jobs(rest)
        await asyncio.gather(*(past.ended(Login(f"u{n}", "t"), 7, "") for n in range(100)))
        assert rest.most_at_once == AT_ONCE
        assert len(past._kept) == MOST_KEPT

    run(work())


def test_trouble_is_kept_for_a_moment() -> None:
    async def work() -> None:
        rest = Counted(CorralError(Code.SLURM_REFUSED, "no slurmdbd"))
        past, now = past_jobs(rest)
        for _ in range(3):
            with pytest.raises(CorralError, match="no slurmdbd"):
                await past.ended(KIM, 7, "")
        assert len(rest.asked) == 1
        now.s += KEEP_TROUBLE_S
        rest.trouble = None
        assert (await past.ended(KIM, 7, "")).jobs == (JOB,)

    run(work())


def test_sacct_is_asked_only_where_slurmrestd_cannot_answer() -> None:
    async def work() -> None:
        spare = Counted()
        past, _ = past_jobs(Counted(CorralError(Code.NOT_FOUND, "too old")), spare)
        assert (await past.ended(KIM, 7, "")).jobs == (JOB,)
        past, _ = past_jobs(Counted(CorralError(Code.SLURM_REFUSED, "down")), spare)
        with pytest.raises(CorralError, match="down"):
            await past.ended(KIM, 7, "")
        assert len(spare.asked) == 1

    run(work())


def test_by_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """sacct runs as the viewer; without accounting, a job is not found."""
    ran: list[tuple[str, tuple[str, ...]]] = []
    line = ("7", "7", "FAILED", "3:0", "0:0", "main", "kim", "", "1", "1", "", "cpu=1", "2",
            "100", "101", "103", "node0", "x")  # fmt: skip
    results = [
        CommandResult(0, "", ""),
        CommandResult(1, "", "Slurm accounting storage is disabled\n"),
    ]

    async def command(
        spec: Any, user: str, words: tuple[str, ...], stdin: str = ""
    ) -> CommandResult:
        ran.append((user, words))
        mark = next(word for word in words if word.startswith("--delimiter="))[12:]
        answer = results.pop(0)
        return answer if answer.status else CommandResult(0, mark.join(line), "")

    monkeypatch.setattr(commands.api, "slurm_command", command)

    async def work() -> None:
        slurm: Any = ByCommands(Declared(None))  # type: ignore[arg-type]
        ended = await slurm.past(KIM, 7, "")
        assert [(job.id, job.exit_status) for job in ended.jobs] == [(7, 3)]
        assert ran[0][0] == "kim"
        assert "--starttime=now-7days" in ran[0][1]
        with pytest.raises(CorralError) as raised:
            await slurm.past_tasks(KIM, 7)
        assert raised.value.code is Code.NOT_FOUND

    run(work())


@pytest.mark.parametrize("tracked", [True, False])
def test_gpus_of_a_job_alone(tracked: bool) -> None:
    """A job without GPUs was shown with "? GPUs" though its AllocTRES is complete."""

    async def work() -> None:
        rest = FakeRest()
        for node in rest.bodies["nodes"]["body"]["nodes"]:
            node["tres"] = "cpu=4,mem=900M,billing=4" + (",gres/gpu=2" if tracked else "")
        (record, *_) = rest.bodies["past-job"]["body"]["jobs"]
        for which in ("allocated", "requested"):
            record["tres"][which] = [{"type": "cpu", "name": "", "id": 1, "count": 4}]
        async with Page(rest) as page:
            await page.login()
            await page.get("nodes")
            job = (await page.get(f"jobs/{record['job_id']}")).json()
            assert (job["forgotten"], job["gpus"], job["gpus_exact"]) == (True, 0, tracked)

    run(work())


def test_corrals_own_clusters_count_gpus() -> None:
    async def work() -> None:
        async with Page(FakeRest(), spec=spec()) as page:
            kept = page.app.state.corral.past
            assert kept._uncounted() is False

    run(work())


def test_the_wait_for_a_place_has_the_same_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind those who wait for a silent accounting it had none."""
    monkeypatch.setattr("corral.web.slurm.past_jobs.PATIENCE_S", 0.2)

    async def silent(_: object) -> None:
        await asyncio.Event().wait()

    async def work() -> None:
        jobs = PastJobs(FakeRest())  # type: ignore[arg-type]
        clock = asyncio.get_running_loop().time
        begun = clock()
        asked = (jobs.ask(silent) for _ in range(5 * AT_ONCE))
        ends = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 20)
        assert [end.code for end in ends if isinstance(end, CorralError)] == [Code.TIMED_OUT] * (
            5 * AT_ONCE
        )
        assert clock() - begun < 0.6, "one after the other, each with the limit"

    run(work())
