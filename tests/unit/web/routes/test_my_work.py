"""My work and the tables of accounts and QOS: what is asked of Slurm, for whom, and how often."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from corral.errors import Code, CorralError
from corral.slurm.records import Job
from corral.slurm.rest.json_values import number
from corral.spec.load import load_or_raise
from corral.web import schemas
from corral.web.routes import my_work
from corral.web.slurm.efficiency import GpuUse
from corral.web.slurm.response_cache import KEEP_TROUBLE_S, ResponseCache
from tests.unit.web.fake import FakeRest, Page
from tests.unit.web.shapes import held
from tests.unit.web.users.test_owner import EXAMPLES

DBD = "/slurmdb/v0.0.{v}/"
SHAPES = {
    "mine": schemas.MyWork,
    "mine/gpus?ids=3": schemas.GpusOfJobs,
    "mine/hours": schemas.WorkHours,
    "mine/efficiency?days=7": schemas.Efficiency,
    "policy/accounts": schemas.Accounts,
    "policy/qos": schemas.AllQos,
    "policy/reservations": schemas.Reservations,
    "policy/licenses": schemas.Licenses,
    "policy/scheduler": schemas.SchedulerState,
}
RELEASES = [("22.05", 38), ("24.11", 40), ("24.11", 42), ("26.05", 45)]


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def accounts_rest(release: str = "24.11", api: int = 42) -> FakeRest:
    """The cluster with accounts: its jobs in slurmctld, and its ended jobs, which ended now."""
    rest = FakeRest(release, api)
    rest.bodies["jobs"] = rest.bodies["account-jobs"]
    measured = rest.bodies.get("past-measured", {"body": {"jobs": []}})
    now = int(time.time())
    for job in measured["body"]["jobs"]:
        moved = now - 60 - job["time"]["end"]
        for key in ("start", "end", "submission", "eligible"):
            job["time"][key] += moved
    for job in rest.bodies["jobs"]["body"]["jobs"]:
        if job["job_id"] <= 2:  # bare numbers in v0.0.38
            start, end = (number(job[key]) or 0 for key in ("start_time", "end_time"))
            job["start_time"], job["end_time"] = int(now - 60 - (end - start)), now - 60
    rest.bodies["past-user"] = measured
    return rest


def cell(row: dict[str, Any], what: str) -> tuple[Any, Any]:
    chosen = next(each for each in row["cells"] if each["what"] == what)
    return chosen["used"], chosen["limit"]


@pytest.mark.parametrize(("release", "api"), RELEASES)
def test_each_release_answers_in_the_declared_shapes(release: str, api: int) -> None:
    async def work() -> None:
        async with Page(accounts_rest(release, api)) as page:
            await page.login()
            for path, shape in SHAPES.items():
                reply = (await page.get(path)).raise_for_status().json()
                held(shape, reply)
                if path.startswith("policy"):
                    assert reply["known"], (path, reply["why"])
            events = reply["figures"]["events"]  # those of policy/scheduler, the last path
            names = ["submitted", "started", "completed", "cancelled", "failed"]
            assert [event["name"] for event in events] == names

    run(work())


@pytest.mark.parametrize(("release", "api"), RELEASES)
def test_used_against_the_limits_of_user_account_and_qos(release: str, api: int) -> None:
    async def work() -> dict[str, Any]:
        async with Page(accounts_rest(release, api)) as page:
            await page.login()
            return (await page.get("mine")).raise_for_status().json()

    data = run(work())
    rows = {(r["kind"], r["name"], r["account"]): r for r in data["limits"]["rows"]}
    # One job of kim runs: in vision, QOS high, 1 CPU, 1 GPU; one of ada in research.
    assert (data["jobs"], data["gpus"], data["cpus"], data["pending"]) == (1, 1, 1, 0)
    kim = rows["user", "vision", "vision"]
    assert cell(kim, "gpus") == (1, 12)
    assert cell(kim, "cpus") == (1, 11)
    assert cell(kim, "jobs") == (1, 15), "the smaller of GrpJobs=15 and MaxJobs=18"
    assert cell(kim, "submitted") == (1, 16)
    idle = rows["user", "idle", "idle"]
    assert cell(idle, "gpus") == (0, None), "unlimited"
    assert cell(idle, "jobs") == (0, 30), "MaxJobs of the account research"
    assert cell(rows["account", "vision", "vision"], "gpus") == (1, 32)
    research = rows["account", "research", "research"]
    assert cell(research, "gpus") == (1, 40)
    assert cell(research, "jobs") == (2, None), "of the accounts below too; MaxJobs is per user"
    assert cell(rows["qos", "high", ""], "gpus") == (1, 52)
    assert cell(rows["qos-user", "high", ""], "gpus") == (1, 63)
    assert cell(rows["qos-account", "high", "vision"], "cpus") == (1, 64)
    high = next(c for c in rows["qos", "high", ""]["cells"] if c["what"] == "submitted")
    assert high["unknown"] is (api < 42)
    assert (high["limit"] is None) is (api < 42), "no answer of these versions has it"
    budget = kim["budgets"][0]
    assert (budget["resource"], budget["limit"]) == ("cpu", 1300)
    assert (budget["used"] is None) is (api < 40), "no sshare there: unknown, not 0"
    assert budget["bounds"] == "usage over time, together"
    wall = next(limit for limit in kim["more"] if limit["name"] == "MaxWall")
    assert wall == {
        "name": "MaxWall",
        "bounds": "time limit of each job",
        "resource": "",
        "value": 1380,
    }
    assert [job["label"] for job in data["running"]] == ["3"]
    assert data["running"][0]["use"] is None
    assert not data["measured"]["known"]


def test_calls_do_not_grow_with_viewers() -> None:
    async def work() -> None:
        async with Page(accounts_rest()) as page:
            await page.login("ada")
            await page.login("kim")
            await asyncio.gather(*(page.get("mine") for _ in range(15)))
            await asyncio.gather(*(page.get("policy/accounts") for _ in range(15)))
            await asyncio.gather(*(page.get("mine/efficiency") for _ in range(5)))
            for what in ("associations/", "qos/"):
                assert page.rest.asked[f"GET /slurmdb/v0.0.42/{what}"] == 1
            assert page.rest.asked["GET /slurm/v0.0.42/shares"] == 1
            assert sum("skip_steps" not in each for each in page.rest.past_asked) == 1

    run(work())


def test_where_users_are_hidden_each_one_asks_and_others_jobs_are_unknown() -> None:
    async def work() -> None:
        async with Page(accounts_rest(), private=True) as page:
            for user, role, seen in (("kim", "None", None), ("boss", "Administrator", 2)):
                await page.login(user, role)
                data = (await page.get("mine?user=kim" if user != "kim" else "mine")).json()
                rows = {(r["kind"], r["name"]): r for r in data["limits"]["rows"]}
                assert cell(rows["account", "research"], "jobs")[0] == seen
                assert cell(rows["user", "vision"], "jobs")[0] == 1
            assert page.rest.asked["GET /slurmdb/v0.0.42/associations/"] == 2

    run(work())


def test_others_work_is_for_operators() -> None:
    async def work() -> None:
        async with Page(accounts_rest()) as page:
            await page.login("ada")
            for path in ("mine", "mine/hours", "mine/efficiency"):
                refused = await page.get(f"{path}?user=kim")
                assert refused.status_code == 403
                assert refused.json()["error"]["code"] == Code.FORBIDDEN.value
                assert (await page.get(f"{path}?user=ada")).status_code == 200
            await page.login("boss", "Operator")
            assert (await page.get("mine?user=kim")).json()["user"] == "kim"

    run(work())


def test_without_accounting_all_is_unknown_and_nothing_is_zero() -> None:
    async def work() -> None:
        rest = accounts_rest()
        rest.accounting = False
        async with Page(rest) as page:
            await page.login()
            limits = (await page.get("mine")).json()["limits"]
            assert (limits["known"], limits["rows"]) == (False, [])
            assert "no accounting" in limits["why"]
            hours = (await page.get("mine/hours")).json()
            assert (hours["known"], hours["periods"]) == (False, [])
            assert not (await page.get("mine/efficiency")).json()["known"]
            assert not (await page.get("policy/qos")).json()["known"]
            assert (await page.get("policy/reservations")).json()["known"]

    run(work())


@pytest.mark.parametrize(
    ("example", "service", "why"),
    [
        ("laptop.yaml", True, "has no price for machines that are not rented"),
        ("laptop.yaml", False, "has no price for machines that are not rented"),
        ("desk-and-cloud.yaml", True, "is recorded where they are rented from: corral ui FILE"),
        ("desk-and-cloud.yaml", False, "the price of no rented machine is known"),
    ],
)
def test_why_there_is_no_cost_is_stated(
    example: str, service: bool, why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path))
    cluster = load_or_raise(EXAMPLES / example).model_dump(mode="json")

    async def work() -> dict[str, Any]:
        more = {"as_user": "/nowhere"} if service else {}
        async with Page(accounts_rest(), spec=cluster, service=service, **more) as page:
            await page.login()
            return (await page.get("mine/hours")).raise_for_status().json()

    hours = run(work())
    held(schemas.WorkHours, hours)
    assert [period["cost"] for period in hours["periods"]] == [None, None]
    assert why in hours["why_no_cost"]


@pytest.mark.parametrize("service", [False, True])
def test_jobs_cost_what_the_cluster_file_declares_of_their_nodes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, service: bool
) -> None:
    """Of a machine that is not rented nobody records a price, and a controller has no ledger."""
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path))
    cluster = load_or_raise(EXAMPLES / "laptop.yaml").model_dump(mode="json")
    group = cluster["groups"][0]
    group["nodes"] = "node[0-9]"

    async def work(price: float) -> tuple[float, float]:
        group["price_per_hour"] = price
        more = {"as_user": "/nowhere"} if service else {}
        async with Page(accounts_rest(), spec=cluster, service=service, **more) as page:
            await page.login()
            hours = (await page.get("mine/hours")).raise_for_status().json()
            held(schemas.WorkHours, hours)
            assert hours["why_no_cost"] == ""
            week, month = (period["cost"]["dollars"] for period in hours["periods"])
            return week, month

    week, month = run(work(10.0))
    assert 0 < week <= month
    assert run(work(20.0)) == pytest.approx((2 * week, 2 * month), rel=0.05)


@pytest.mark.parametrize("api", [40, 42])
def test_hours_and_what_ended_jobs_used(api: int) -> None:
    async def work() -> tuple[Any, Any]:
        async with Page(accounts_rest(api=api)) as page:
            await page.login()
            return (await page.get("mine/hours")).json(), (await page.get("mine/efficiency")).json()

    hours, ended = run(work())
    week, month = hours["periods"]
    assert (week["days"], month["days"], week["jobs"]) == (7, 30, 3)
    assert week["gpu_hours"] > 0
    assert week["cost"] is None, "the controller's page has no ledger"
    assert hours["why_no_cost"] == "no price is known without the cluster file"
    by_name = {job["name"]: job for job in ended["jobs"]}
    burn, lazy = by_name["burn"], by_name["lazy"]
    assert 0.1 < burn["cpu"] < 0.5, "one of two CPUs, part of the time"
    assert lazy["cpu"] < 0.01
    assert lazy["memory_used"] == pytest.approx(3260416 / (300 << 20), rel=0.3)
    assert burn["gpu"] is None
    assert burn["gpu_waste"] is None, "not measured: unknown, not all wasted"
    assert lazy["gpus"] == 0
    assert burn["cpu_waste"] == pytest.approx((1 - burn["cpu"]) * 2 * burn["elapsed"] / 3600)
    assert "no metrics" in ended["why_no_gpus"]


class _Figures:
    """Metrics of node0: one GPU idle; another job's is busy."""

    async def gpu_use(self, nodes: Any) -> GpuUse:
        return GpuUse({(node, gpu): 0.01 for node in nodes for gpu in (0, 1)}, {}, 600.0)

    async def busy(self, jobs: Any, days: int) -> dict[int, float]:
        return {1: 2.0}

    async def close(self) -> None: ...


def test_idle_gpus_of_running_jobs_and_measured_ones_of_ended() -> None:
    async def work(started: int) -> tuple[Any, Any]:
        rest = accounts_rest()
        for job in rest.bodies["jobs"]["body"]["jobs"]:
            if job["job_id"] == 3:
                job["start_time"] = int(time.time()) - started
        async with Page(rest) as page:
            page.app.state.corral.figures = _Figures()
            await page.login()
            return (await page.get("mine")).json(), (await page.get("mine/efficiency")).json()

    data, ended = run(work(3600))
    job = data["running"][0]
    assert (job["known"], job["use"], len(job["idle"])) == (1, 0.01, 1)
    assert data["measured"]["over_s"] == 600
    burn = next(job for job in ended["jobs"] if job["name"] == "burn")
    assert burn["gpu"] == pytest.approx(2.0 / burn["elapsed"])
    assert burn["gpu_waste"] == pytest.approx((burn["elapsed"] - 2.0) / 3600)
    assert not run(work(60))[0]["running"][0]["idle"], "it may still load its data"


def test_arrays_are_asked_for_by_their_number_and_tasks_by_theirs() -> None:
    """A row of an array in the list of jobs showed no idle GPU."""

    async def work() -> tuple[Any, Any, Any]:
        rest = accounts_rest()
        listed = rest.bodies["jobs"]["body"]["jobs"]
        ran = next(each for each in listed if each["job_id"] == 3)
        ran["start_time"] = int(time.time()) - 3600
        for job, task in ((70, 0), (71, 1)):
            array = {"array_job_id": {"set": True, "number": 70}}
            index = {"array_task_id": {"set": True, "number": task}}
            listed.append({**ran, "job_id": job, **array, **index})
        async with Page(rest) as page:
            page.app.state.corral.figures = _Figures()
            await page.login()
            both = (await page.get("mine/gpus?ids=3,71&arrays=70")).json()
            await page.login("ada")
            others = (await page.get("mine/gpus?ids=71&arrays=70")).json()
            await page.login("kim")
            return both["running"], others["running"], (await page.get("mine")).json()

    rows, others, mine = run(work())
    assert [(row["id"], row["array"] and row["array"]["tasks"]) for row in rows] == [
        (3, None),
        (71, None),
        (70, 2),
    ]
    assert [row["idle_count"] for row in rows] == [1, 1, 2]
    assert others == []
    assert [row["array"] and row["array"]["tasks"] for row in mine["running"]] == [2, None]
    assert mine["jobs"] == 3


def test_tasks_of_arrays_are_looked_for_in_a_thread_and_among_ones_own_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 50,000 jobs each one's array was read in the event loop."""
    looked = set[tuple[str, int]]()
    plain: Any = Job.array

    def array(job: Job) -> str:
        looked.add((job.user, threading.get_ident()))
        return plain.fget(job)

    async def work() -> None:
        rest = accounts_rest()
        async with Page(rest) as page:
            page.app.state.corral.figures = _Figures()
            await page.login()
            assert (await page.get("mine")).status_code == 200
            monkeypatch.setattr(Job, "array", property(array))
            assert (await page.get("mine/gpus?arrays=70")).status_code == 200
            assert {user for user, _ in looked} == {"kim"}
            assert threading.get_ident() not in {thread for _, thread in looked}
            looked.clear()
            assert (await page.get("mine/gpus?ids=1")).status_code == 200
            assert not looked

    run(work())


def test_what_a_job_used_does_not_wait_for_metrics_that_hang(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Accounting was asked first and the metrics after it: both waits added up."""

    async def work() -> None:
        begun = asyncio.Event()

        class Begins(_Figures):
            async def busy(self, jobs: Any, days: int) -> dict[int, float]:
                begun.set()
                return await super().busy(jobs, days)

        async with Page(accounts_rest()) as page:
            corral = page.app.state.corral
            corral.figures = Begins()
            await page.login()
            asked = corral.past.use

            async def use(*args: Any) -> Any:
                async with asyncio.timeout(5):
                    await begun.wait()
                return await asked(*args)

            monkeypatch.setattr(corral.past, "use", use)
            reply = await page.get("jobs/1/use")
            assert reply.status_code == 200, reply.text
            assert reply.json()["gpu_s"] == 2.0

    run(work())


def test_what_an_ended_job_used_has_its_gpus() -> None:
    async def work(figures: Any, user: str) -> dict[str, Any]:
        async with Page(accounts_rest()) as page:
            page.app.state.corral.figures = figures
            await page.login(user)
            return (await page.get("jobs/1/use")).raise_for_status().json()

    use = run(work(_Figures(), "kim"))
    held(schemas.JobUse, use)
    assert (use["gpus"], use["gpu_s"], use["why_no_gpus"]) == (1, 2.0, "")
    assert use["gpu_given_s"] == use["cpu_given_s"] / 2, "one GPU, two CPUs"
    none = run(work(None, "kim"))
    assert (none["gpu_s"], none["why_no_gpus"]) == (None, my_work.NO_METRICS)
    other = run(work(_Figures(), "ada"))
    assert other["gpu_s"] is None
    assert "operators" in other["why_no_gpus"]


def test_a_tree_of_accounts_with_shares() -> None:
    async def work() -> Any:
        async with Page(accounts_rest()) as page:
            await page.login()
            return (await page.get("policy/accounts")).json()

    rows = run(work())["accounts"]
    order = [(row["account"], row["user"], row["depth"]) for row in rows]
    assert order == [
        ("root", "", 0),
        ("root", "root", 1),
        ("research", "", 1),
        ("research", "ada", 2),
        ("idle", "", 2),
        ("idle", "kim", 3),
        ("vision", "", 2),
        ("vision", "kim", 3),
    ]
    kim = rows[-1]
    assert (kim["shares"], kim["part"], kim["default_qos"]) == ("5", 1.0, "normal")
    assert next(row for row in rows if row["account"] == "idle")["shares"] == "parent"


def test_a_slurm_that_stops_answering_keeps_what_was_known() -> None:
    clock = [0.0]
    kept = ResponseCache(lambda: clock[0])
    calls: list[str] = []

    async def good() -> str:
        calls.append("good")
        return "limits"

    async def bad() -> str:
        calls.append("bad")
        raise CorralError(Code.UNREACHABLE, "slurmrestd does not answer")

    async def login() -> str:
        raise CorralError(Code.LOGIN_REFUSED, "expired")

    async def work() -> None:
        first = await kept.get("k", 60, bad)
        assert (first.value, first.at, first.why) == (None, 0.0, "slurmrestd does not answer")
        assert (await kept.get("k", 60, good)).value is None, "asked again after a while"
        clock[0] += KEEP_TROUBLE_S
        assert (await kept.get("k", 60, good)).why == ""
        assert calls == ["bad", "good"]
        clock[0] += 60
        old = await kept.get("k", 60, bad)
        assert (old.value, old.why) == ("limits", "slurmrestd does not answer")
        assert old.at > 0
        clock[0] += 60
        with pytest.raises(CorralError, match="expired"):
            await kept.get("k", 60, login)
        assert (await kept.get("k", 60, good)).why == "", "one viewer's login is not the answer"

    run(work())
