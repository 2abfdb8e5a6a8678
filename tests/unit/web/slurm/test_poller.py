"""One poller: nodes before jobs, the same answer is not read twice, nobody waits for long."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from corral.slurm.rest import read
from corral.web.slurm import poller as poller_module
from corral.web.slurm import slurmrest, snapshot
from corral.web.slurm.poller import Poller
from corral.web.slurm.readers import jobs as job_reader
from corral.web.slurm.slurmrest import SlurmRest
from corral.web.users.sessions import login_of
from tests.unit.web.fake import FakeRest, Page


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


class Slow:
    """The fake whose answers about something wait for an event."""

    def __init__(self, rest: FakeRest, what: str) -> None:
        self.rest, self.what, self.go = rest, what, asyncio.Event()

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.rstrip("/").endswith(self.what):
            await self.go.wait()
        return self.rest(request)


def polled(rest: FakeRest, answer: Any = None) -> Poller:
    login = login_of(rest.login("kim"))
    return Poller(SlurmRest("http://slurm", httpx.MockTransport(answer or rest)), lambda: [login])


def test_nodes_are_there_before_50000_jobs_are() -> None:
    async def work() -> None:
        rest = FakeRest()
        slow = Slow(rest, "jobs")
        poller = polled(rest, slow)
        first = await poller.fresh(jobs=False)
        assert len(first.nodes) == 4
        assert not first.complete
        assert not first.jobs
        asked = asyncio.create_task(poller.fresh())
        await asyncio.sleep(0)
        assert not asked.done()
        slow.go.set()
        full = await asked
        assert full.complete
        assert full.jobs
        assert rest.asked["GET /slurm/v0.0.42/nodes"] == 1, "both waited for the same look"
        await poller.close()

    run(work())


def test_who_comes_late_sees_the_last_known_state_at_once(monkeypatch: Any) -> None:
    monkeypatch.setattr(poller_module, "PATIENCE_S", 0.01)
    monkeypatch.setattr(poller_module, "FRESH_S", -1.0)

    async def work() -> None:
        rest = FakeRest()
        slow = Slow(rest, "nodes")
        slow.go.set()
        poller = polled(rest, slow)
        await poller.fresh()
        slow.go.clear()
        rest.bodies["nodes"]["body"]["nodes"][0]["reason"] = "changed"
        rest.touch("nodes")
        old = await poller.fresh()
        assert old.complete
        assert "changed" not in {node.reason for node in old.nodes.values()}
        slow.go.set()
        monkeypatch.setattr(poller_module, "PATIENCE_S", 5.0)
        new = await poller.fresh()
        assert "changed" in {node.reason for node in new.nodes.values()}
        await poller.close()

    run(work())


def test_an_error_of_ours_is_shown_and_the_news_goes_on(monkeypatch: Any) -> None:
    """The task that polls for all had ended with it, and their pages waited without end."""
    monkeypatch.setattr(poller_module, "TROUBLE_S", 0.01)

    async def work() -> None:
        rest = FakeRest()
        poller = polled(rest)
        asked, broken = poller._rest.jobs, [True, True]

        async def jobs(*args: Any) -> Any:
            if broken:
                raise LookupError(broken.pop())
            return await asked(*args)

        monkeypatch.setattr(poller._rest, "jobs", jobs)
        async with poller.watching() as queue:
            trouble = list[str]()
            while not (poller.now.complete and not poller.now.trouble):
                message = json.loads(await asyncio.wait_for(queue.get(), 30))
                trouble.append(message.get("trouble", ""))
        assert poller_module.OWN_ERROR in trouble
        await poller.close()

    run(work())


async def trouble_of_next(queue: asyncio.Queue[bytes]) -> str:
    """The trouble of the next event."""
    return json.loads(await queue.get()).get("trouble", "")


@pytest.mark.parametrize("body", [b"<html>", b'{"pings": [', b"[" * 100_000])
def test_a_ping_that_is_not_json_is_no_answer(monkeypatch: Any, body: bytes) -> None:
    """It ended the task that polls for all: their pages waited without end."""
    monkeypatch.setattr(poller_module, "ANSWER_S", 0.01)

    async def work() -> None:
        rest = FakeRest()
        seen = asyncio.Event()

        async def answer(request: httpx.Request) -> httpx.Response:
            ping = request.url.path.endswith("/ping")
            if ping and poller.now.complete and not seen.is_set():
                return httpx.Response(200, content=body)
            return rest(request)

        poller = polled(rest, answer)
        async with poller.watching() as queue, asyncio.timeout(20):
            # A ping next to a poll that is answered meanwhile shows nothing: it is asked again.
            while await trouble_of_next(queue) != "slurmctld does not answer":
                pass
            seen.set()
            while await trouble_of_next(queue):
                pass
        await poller.close()

    run(work())


@pytest.mark.parametrize("where", ["_rested", "changed"])
def test_errors_between_polls_and_of_who_hears_do_not_end_the_news(
    where: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr(poller_module, "TROUBLE_S", 0.05)
    failed = list[float]()

    def fails(*_: object) -> None:
        if len(failed) < 3:
            failed.append(time.monotonic())
            raise LookupError("an error of ours")

    async def work() -> None:
        poller = polled(FakeRest())
        if where == "changed":
            poller._changed = fails
        else:
            rested = poller._rested

            async def broken() -> None:
                fails()
                await rested()

            monkeypatch.setattr(poller, "_rested", broken)
        async with poller.watching() as queue, asyncio.timeout(20):
            trouble = list[str]()
            while len(failed) < 3 or not poller.now.complete or poller.now.trouble:
                trouble.append(json.loads(await queue.get()).get("trouble", ""))
        assert poller_module.OWN_ERROR in trouble
        assert failed[-1] - failed[0] >= 0.05, "a hot loop"
        await poller.close()

    run(work())


def test_old_data_without_viewers_has_the_error_of_the_last_poll(monkeypatch: Any) -> None:
    monkeypatch.setattr(poller_module, "FRESH_S", -1.0)

    async def work() -> None:
        poller = polled(FakeRest())
        assert not (await poller.fresh()).trouble
        asked = poller._rest.jobs

        async def broken(*_: Any) -> Any:
            raise LookupError("an error of ours")

        monkeypatch.setattr(poller._rest, "jobs", broken)
        old = await poller.fresh()
        assert old.jobs
        assert old.trouble == poller_module.OWN_ERROR
        monkeypatch.setattr(poller._rest, "jobs", asked)
        assert not (await poller.fresh()).trouble
        await poller.close()

    run(work())


def test_a_node_that_changed_is_sent_before_the_jobs_are_asked() -> None:
    async def work() -> None:
        rest = FakeRest()
        slow = Slow(rest, "jobs")
        slow.go.set()
        poller = polled(rest, slow)
        await poller.poll()
        queue: asyncio.Queue[bytes] = asyncio.Queue(4)
        poller._viewers.add(queue)
        slow.go.clear()
        rest.bodies["nodes"]["body"]["nodes"][0]["reason"] = "changed"
        rest.touch("nodes")
        looking = asyncio.create_task(poller.poll())
        message = json.loads(await asyncio.wait_for(queue.get(), 10))
        assert [row[0] for row in message["nodes"]] == ["gone"]
        assert not looking.done()
        slow.go.set()
        await looking

    run(work())


def test_nodes_that_changed_are_not_lost_where_the_jobs_fail() -> None:
    async def work() -> None:
        rest = FakeRest()
        failing = False

        def answer(request: httpx.Request) -> httpx.Response:
            if failing and request.url.path.rstrip("/").endswith("jobs"):
                return httpx.Response(500, json={"errors": [{"error": "busy"}]})
            return rest(request)

        poller = polled(rest, answer)
        await poller.poll()
        failing = True
        rest.bodies["nodes"]["body"]["nodes"][0]["reason"] = "changed"
        rest.touch("nodes")
        await poller.poll()
        assert "busy" in poller.now.trouble
        failing = False
        await poller.poll()
        assert not poller.now.trouble
        assert "changed" in {node.reason for node in poller.now.nodes.values()}

    run(work())


def test_an_error_of_ours_is_no_empty_cluster() -> None:
    async def work() -> None:
        def answer(request: httpx.Request) -> httpx.Response:
            raise RuntimeError("a bug")

        poller = polled(FakeRest(), answer)
        with pytest.raises(RuntimeError, match="a bug"):
            await poller.fresh(jobs=False)

    run(work())


def test_many_changed_nodes_are_asked_for_and_not_sent(monkeypatch: Any) -> None:
    monkeypatch.setattr(snapshot, "MAX_CHANGED_NODES", 3)

    async def work() -> None:
        rest = FakeRest()
        body = rest.bodies["nodes"]["body"]
        poller = polled(rest)
        await poller.poll()
        queue: asyncio.Queue[bytes] = asyncio.Queue(4)
        poller._viewers.add(queue)
        for node in body["nodes"]:
            node["cpu_load"] = 77
        rest.touch("nodes")
        await poller.poll()
        message = json.loads(queue.get_nowait())
        assert "nodes" not in message
        assert message["nodes_rev"] == 2

    run(work())


def test_the_same_states_are_not_compared_again(monkeypatch: Any) -> None:
    monkeypatch.setattr(job_reader, "BIG", 1)

    async def work() -> None:
        rest = FakeRest()
        states = {"jobs": [], "errors": []}
        for job in rest.bodies["jobs"]["body"]["jobs"]:
            states["jobs"].append({"job_id": str(job["job_id"]), "state": job["job_state"]})

        def answer(request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith("/jobs/state/"):
                return httpx.Response(200, json=states)
            return rest(request)

        poller = polled(rest, answer)
        await poller.poll()
        await poller.poll()
        kept = poller._jobs._states
        assert kept
        before = poller.now.jobs_rev
        await poller.poll()
        assert poller._jobs._states is kept
        assert poller.now.jobs_rev == before
        first = next(j for j in rest.bodies["jobs"]["body"]["jobs"] if j["job_id"] == 1)
        first["job_state"] = ["FAILED"]
        next(s for s in states["jobs"] if s["job_id"] == "1")["state"] = ["FAILED"]
        await poller.poll()
        assert poller.now.jobs[1].state == "FAILED"

    run(work())


class Big(FakeRest):
    """slurmrestd of a big cluster: its table of states is of the same jobs as its list."""

    def __init__(self) -> None:
        super().__init__()
        self.lists = 0
        self.go = asyncio.Event()
        self.go.set()

    def raw(self, number: int) -> dict[str, Any]:
        listed = self.bodies["jobs"]["body"]["jobs"]
        return next(job for job in listed if job["job_id"] == number)

    def label(self, job: dict[str, Any]) -> str:
        """As the table of states has it: all numbers of pending tasks, and no limit."""
        array, task = job["array_job_id"]["number"], job["array_task_id"]
        if not array:
            return str(job["job_id"])
        pending = f"[{job['array_task_string'].partition('%')[0]}]"
        return f"{array}_{task['number'] if task['set'] else pending}"

    def of(self, number: int) -> list[dict[str, Any]]:
        """As slurmctld answers: to the number of an array all its records."""
        listed = self.bodies["jobs"]["body"]["jobs"]
        named = [j for j in listed if number in (j["job_id"], j["array_job_id"]["number"])]
        exact = [j for j in listed if j["job_id"] == number]
        return named if any(j["array_job_id"]["number"] == number for j in named) else exact

    def task(self, number: int, array: int, task: int | None, pending: str = "") -> dict[str, Any]:
        """Another record of an array: a task, or those that have not begun."""
        job = {
            **self.raw(1),
            "job_id": number,
            "job_state": ["RUNNING" if task is not None else "PENDING"],
            "array_job_id": {"set": True, "infinite": False, "number": array},
            "array_task_id": {"set": task is not None, "infinite": False, "number": task or 0},
            "array_task_string": pending,
        }
        self.bodies["jobs"]["body"]["jobs"].append(job)
        return job

    async def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.rstrip("/")
        if path.endswith("/jobs/state"):
            states = [
                {"job_id": self.label(job), "state": job["job_state"]}
                for job in self.bodies["jobs"]["body"]["jobs"]
            ]
            return httpx.Response(200, json={"jobs": states, "errors": []})
        if (number := path.rpartition("/job/")[2]).isdecimal() and request.method == "GET":
            self.asked[f"GET {path}"] += 1
            return httpx.Response(200, json={"jobs": self.of(int(number)), "errors": []})
        answer = self(request)
        if path.endswith("/jobs"):
            self.lists += 1
            await self.go.wait()  # it is as it was when it was asked for
        return answer


COLUMNS: dict[str, tuple[dict[str, Any], str, object]] = {
    "name": ({"name": "renamed"}, "name", "renamed"),
    "held": (
        {"priority": {"set": True, "number": 9}, "hold": False, "state_reason": "Priority"},
        "held",
        False,
    ),
    "priority": ({"priority": {"set": True, "number": 77}}, "priority", 77),
    "reason": ({"state_reason": "QOSMaxJobsPerUserLimit"}, "reason", "QOSMaxJobsPerUserLimit"),
    "limit": ({"time_limit": {"set": True, "number": 7}}, "limit", 420),
    "expected start": ({"start_time": {"set": True, "number": 1900000000}}, "start_at", 1900000000),
    "partition": ({"partition": "other"}, "partition", "other"),
    "qos": ({"qos": "high"}, "qos", "high"),
    "account": ({"account": "other"}, "account", "other"),
}
"""What of a pending job may change while its state stays: in Slurm's record, and in the page's."""


@pytest.mark.parametrize("column", COLUMNS)
def test_what_changes_of_a_job_whose_state_stays_is_seen_with_the_next_complete_list(
    monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    """It was up to 300 s old, next to a green "live"."""
    monkeypatch.setattr(job_reader, "BIG", 1)
    monkeypatch.setattr(job_reader, "LEAST_S", 0.0)
    raw, name, value = COLUMNS[column]

    async def work() -> None:
        rest = Big()
        poller = polled(rest, rest.answer)
        await poller.poll()
        assert getattr(poller.now.jobs[5], name) != value
        rest.raw(5).update(raw)
        rest.touch("jobs")
        before = time.time()
        async with asyncio.timeout(20):
            while getattr(poller.now.jobs[5], name) != value:
                await poller.poll()
                await asyncio.sleep(0.01)
        assert poller.now.jobs_at >= before - 1
        await poller.close()

    run(work())


def test_a_job_in_view_is_new_without_a_complete_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its name, priority or reason was as old as the list of all 50,000: 13 s at best, or 300 s."""
    monkeypatch.setattr(job_reader, "BIG", 1)
    monkeypatch.setattr(job_reader, "LOOKED_AGAIN_S", 0.0)

    async def work() -> None:
        rest = Big()
        poller = polled(rest, rest.answer)
        await poller.poll()
        await poller.poll()
        lists = rest.lists
        pending, other = rest.raw(5), rest.raw(1)
        pending |= COLUMNS["priority"][0] | COLUMNS["reason"][0]
        other["name"] = "renamed"
        poller.keep_new([5, 999_999])
        await poller.poll()
        assert rest.lists == lists
        assert poller.now.jobs[5].priority == 77
        assert poller.now.jobs[5].reason == "QOSMaxJobsPerUserLimit"
        assert poller.now.jobs[1].name != "renamed", "nobody looks at it"
        assert not rest.asked["GET /slurm/v0.0.42/job/999999"], "this user's jobs do not have it"
        revision = poller.now.jobs_rev
        await poller.poll()
        assert poller.now.jobs_rev == revision, "nothing is new"
        await poller.close()

    run(work())


def test_however_many_look_a_poll_asks_for_so_many_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_reader, "BIG", 1)
    monkeypatch.setattr(job_reader, "LOOKED_AGAIN_S", 0.0)
    monkeypatch.setattr(job_reader, "LOOKED_AT_ONCE", 2)

    async def work() -> None:
        rest = Big()
        like = rest.raw(5)
        for number in range(100, 106):
            rest.bodies["jobs"]["body"]["jobs"].append({**like, "job_id": number})
        poller = polled(rest, rest.answer)
        await poller.poll()
        await poller.poll()

        def asked() -> list[int]:
            return [rest.asked[f"GET /slurm/v0.0.42/job/{n}"] for n in range(100, 106)]

        before = asked()
        for _ in range(50):  # viewers
            poller.keep_new(range(100, 106))
        for turn in range(1, 4):
            await poller.poll()
            assert sum(asked()) - sum(before) == 2 * turn
        assert asked() == [count + 1 for count in before], "each had its turn"
        monkeypatch.setattr(job_reader, "LOOKED_S", -1.0)
        poller.keep_new(range(100, 106))
        await poller.poll()
        assert asked() == [count + 1 for count in before], "nobody looks any more"
        await poller.close()

    run(work())


def test_states_are_news_while_the_complete_list_is_read_and_are_not_undone_by_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job_reader, "BIG", 1)
    monkeypatch.setattr(job_reader, "LEAST_S", 0.0)

    async def work() -> None:
        rest = Big()
        poller = polled(rest, rest.answer)
        await poller.poll()
        complete_at = poller.now.jobs_at
        assert complete_at > 0
        rest.go.clear()
        rest.raw(5)["priority"] = {"set": True, "number": 77}
        rest.touch("jobs")
        async with asyncio.timeout(20):
            while rest.lists < 2:  # then it is being read
                await poller.poll()
                await asyncio.sleep(0.01)
        listed = rest.bodies["jobs"]["body"]["jobs"]
        rest.raw(1)["job_state"] = ["COMPLETED"]
        rest.raw(5)["name"] = "newer than the list"
        poller.nudge(5)
        gone = next(job["job_id"] for job in listed if job["job_id"] not in {1, 5})
        listed.remove(rest.raw(gone))
        await poller.poll()
        assert poller.now.jobs[1].state == "COMPLETED"
        assert gone not in poller.now.jobs
        assert poller.now.jobs_at == complete_at, "the rest of the jobs is as old as before"
        rest.go.set()
        async with asyncio.timeout(20):
            while poller.now.jobs_at == complete_at:
                await poller.poll()
                await asyncio.sleep(0.01)
        assert poller.now.jobs[1].state == "COMPLETED"
        assert poller.now.jobs[5].priority == 77
        assert poller.now.jobs[5].name == "newer than the list"
        assert gone not in poller.now.jobs
        await poller.close()

    run(work())


def test_a_list_that_was_read_while_nobody_looked_is_not_taken_for_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A program that asked every 5 minutes got jobs as running that had ended 5 minutes before."""
    monkeypatch.setattr(job_reader, "BIG", 1)
    clock = SimpleNamespace(now=1000.0)
    faked = SimpleNamespace(monotonic=lambda: clock.now, time=lambda: clock.now)
    monkeypatch.setattr(job_reader, "time", faked)

    async def work() -> None:
        rest = Big()
        poller = polled(rest, rest.answer)
        await poller.poll()
        clock.now = 1300.0
        rest.touch("jobs")
        await poller.poll()
        reading = poller._jobs._reading
        assert reading is not None
        await asyncio.wait({reading.task})
        rest.raw(1)["job_state"] = ["COMPLETED"]
        rest.touch("jobs")
        clock.now = 1600.0
        await poller.poll()
        assert rest.lists == 3
        assert poller.now.jobs[1].state == "COMPLETED"
        assert poller.now.jobs_at == 1600.0
        await poller.close()

    run(work())


def test_tasks_of_an_array_that_begin_are_news_of_a_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were in no list until the next complete one, nor were those that had not begun."""
    monkeypatch.setattr(job_reader, "BIG", 1)

    async def work() -> None:
        rest = Big()
        pending = rest.task(112, 112, None, "4-40%2")
        poller = polled(rest, rest.answer)
        await poller.poll()
        assert poller.now.jobs[112].label == "112_[4-40%2]"
        for task in range(4, 34):
            rest.task(112 + task, 112, task)
        pending["array_task_string"] = "34-40%2"
        await poller.poll()
        assert [poller.now.jobs[112 + task].label for task in (4, 33)] == ["112_4", "112_33"]
        assert poller.now.jobs[112].label == "112_[34-40%2]"
        assert rest.asked["GET /slurm/v0.0.42/job/112"] == 1
        rest.raw(116)["job_state"] = ["FAILED"]
        rest.bodies["jobs"]["body"]["jobs"].remove(pending)
        rest.task(112, 112, 40)
        await poller.poll()
        assert poller.now.jobs[116].state == "FAILED"
        assert poller.now.jobs[112].label == "112_40"
        assert rest.lists == 1
        await poller.close()

    run(work())


def test_a_heterogeneous_job_that_is_submitted_ends_no_poll(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The number of its label, 112+0, could not be read."""
    monkeypatch.setattr(job_reader, "BIG", 1)

    async def work() -> None:
        rest = Big()
        monkeypatch.setattr(rest, "label", lambda job: {112: "112+0"}.get(job["job_id"], "7"))
        poller = polled(rest, rest.answer)
        await poller.poll()
        rest.bodies["jobs"]["body"]["jobs"].append(
            {
                **rest.raw(1),
                "job_id": 112,
                "het_job_id": {"set": True, "infinite": False, "number": 112},
                "het_job_offset": {"set": True, "infinite": False, "number": 0},
            }
        )
        await poller.poll()
        assert poller.now.jobs[112].label == "112+0"
        await poller.close()

    run(work())


def test_unchanged_states_cost_no_check_of_50000_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_reader, "BIG", 1)

    class Counted(dict[int, Any]):
        reads = 0

        def values(self) -> Any:
            self.reads += 1
            return super().values()

    async def work() -> None:
        rest = Big()
        poller = polled(rest, rest.answer)
        await poller.poll()
        await poller.poll()
        known = Counted(poller.now.jobs)
        assert await poller._jobs.read(poller._tokens()[0], known, lambda _: None) is None
        assert known.reads == 0
        await poller.close()

    run(work())


def test_the_same_object_is_not_compared_with_itself() -> None:
    class Job:
        id = 1
        __hash__ = None  # pyright: ignore[reportAssignmentType]

        def __eq__(self, other: object) -> bool:
            raise AssertionError

    known: Any = {1: Job()}
    now = snapshot.Snapshot(jobs=known)
    assert now.with_jobs(known.values()) is now


def test_when_a_node_was_last_in_use_is_as_new_as_the_last_answer() -> None:
    """It was of the answer in which anything else of the node had changed."""

    async def work() -> None:
        rest = FakeRest()
        async with Page(rest) as page:
            await page.login("kim")
            before = (await page.get("nodes/node0")).json()["machine"]["busy_at"]
            raw = next(n for n in rest.bodies["nodes"]["body"]["nodes"] if n["name"] == "node0")
            raw["last_busy"] = {"set": True, "infinite": False, "number": before + 77}
            rest.touch("nodes")
            poller = page.app.state.corral.pollers.of("kim")
            revision = poller.now.rev
            await poller.poll()
            assert poller.now.rev == revision
            shown = (await page.get("nodes/node0")).json()["machine"]["busy_at"]
            assert shown == before + 77

    run(work())


def test_what_one_user_cannot_read_is_no_news_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Slurm hides users' jobs the note had the number of an operator's jobs."""

    async def work() -> None:
        rest = FakeRest()
        kim, ada = (login_of(rest.login(name)) for name in ("kim", "ada"))

        def answer(request: httpx.Request) -> httpx.Response:
            reply = rest(request)
            mine = request.headers["x-slurm-user-name"] == "kim"
            if mine or not request.url.path.endswith("/jobs") or reply.status_code != 200:
                return reply
            body = reply.json()
            body["jobs"].append({"job_id": "x"})
            return httpx.Response(200, json=body)

        shared = SlurmRest("http://slurm", httpx.MockTransport(answer))
        pollers = [Poller(shared, lambda login=login: [login]) for login in (kim, ada)]
        for _ in range(2):
            for poller in pollers:
                await poller.poll()
        assert pollers[0].now.unread == ""
        assert "1 of " in pollers[1].now.unread
        for poller in pollers:
            await poller.close()

    run(work())


def test_a_list_that_is_read_next_to_a_poll_does_not_slow_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the list waited for was taken for the poll's: four times that was the pause after it."""
    monkeypatch.setattr(job_reader, "BIG", 1)
    monkeypatch.setattr(job_reader, "LEAST_S", 0.0)

    async def work() -> None:
        rest, ending = Big(), False

        async def answer(request: httpx.Request) -> httpx.Response:
            if ending and request.url.path.rstrip("/").endswith("/jobs/state"):
                rest.go.set()
                await asyncio.sleep(0.02)
            return await rest.answer(request)

        poller = polled(rest, answer)
        await poller.poll()
        rest.go.clear()
        rest.touch("jobs")
        async with asyncio.timeout(20):
            while rest.lists < 2:
                await poller.poll()
                await asyncio.sleep(0.01)
        await asyncio.sleep(1.0)
        ending, waited = True, poller._rest.waited
        await poller.poll()
        assert poller._rest.waited - waited >= 1.0, "the list ended in this poll"
        assert poller.took < 0.9
        await poller.close()

    run(work())


def test_a_job_that_a_viewer_changed_is_asked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's own Release was seen 300 s later."""
    monkeypatch.setattr(job_reader, "BIG", 1)

    async def work() -> None:
        rest = Big()
        async with Page(rest) as page:
            page.app.state.corral.rest._http = httpx.AsyncClient(
                base_url="http://slurm", transport=httpx.MockTransport(rest.answer)
            )
            await page.login("kim")
            await page.get("jobs")
            poller = page.app.state.corral.pollers.of("kim")
            assert poller.now.jobs[5].held
            rest.raw(5).update(COLUMNS["held"][0])
            assert (await page.post("jobs/5", {"do": "release"})).status_code == 200
            await poller.poll()
            assert not poller.now.jobs[5].held
            assert rest.lists == 1

    run(work())


def test_complete_lists_take_a_tenth_of_the_time_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_reader, "BIG", 1)
    monkeypatch.setattr(job_reader, "LEAST_S", 0.0)

    async def work() -> None:
        rest = Big()
        slow = job_reader.REST

        async def answer(request: httpx.Request) -> httpx.Response:
            if request.url.path.rstrip("/").endswith("/jobs"):
                await asyncio.sleep(0.05)
                rest.touch("jobs")
            return await rest.answer(request)

        poller = polled(rest, answer)
        begin = time.monotonic()
        while time.monotonic() - begin < 1.2:
            await poller.poll()
            await asyncio.sleep(0.005)
        assert 2 <= rest.lists <= 1 + 1.2 / (0.05 * (1 + slow)) + 1
        await poller.close()

    run(work())


def test_a_complete_list_that_fails_is_shown_and_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job_reader, "BIG", 1)
    monkeypatch.setattr(job_reader, "LEAST_S", 0.0)

    async def work() -> None:
        rest, failing = Big(), False

        async def answer(request: httpx.Request) -> httpx.Response:
            if failing and request.url.path.rstrip("/").endswith("/jobs"):
                return httpx.Response(500, json={"errors": [{"error": "busy"}]})
            return await rest.answer(request)

        poller = polled(rest, answer)
        await poller.poll()
        failing = True
        async with asyncio.timeout(20):
            while "busy" not in poller.now.trouble:
                await poller.poll()
                await asyncio.sleep(0.01)
        failing = False
        rest.raw(5)["name"] = "renamed"
        rest.touch("jobs")
        async with asyncio.timeout(20):
            while poller.now.jobs[5].name != "renamed":
                await poller.poll()
                await asyncio.sleep(0.01)
        assert not poller.now.trouble
        await poller.close()

    run(work())


def test_it_rests_four_times_as_long_as_slurm_took_and_longer_in_trouble() -> None:
    poller = polled(FakeRest())
    for took, rest in ((0.01, 1.0), (0.5, 2.0), (4.0, 16.0), (60.0, 30.0)):
        poller.took = took
        assert poller.pause == rest
    poller.now = snapshot.Snapshot(trouble="slurmrestd does not answer")
    for took, rest in ((0.01, 5.0), (4.0, 16.0), (60.0, 30.0)):
        poller.took = took
        assert poller.pause == rest


@pytest.mark.parametrize("many", [1, 2, 20])
def test_pollers_of_several_users_share_the_fifth_of_slurms_time(many: int) -> None:
    """Where Slurm hides users from each other: each of 20 took a fifth, which is four times all."""
    login = login_of(FakeRest().login("kim"))
    rest = SlurmRest("http://slurm", httpx.MockTransport(FakeRest()))
    poller = Poller(rest, lambda: [login], others=lambda: 0.25 * (many - 1))
    poller.took = 0.25
    assert many * poller.took / (poller.took + poller.pause) <= 1 / 5 + 1e-9
    assert poller.pause == max(1.0, 0.25 * (5 * many - 1))


def test_the_pollers_that_share_it_are_those_with_viewers() -> None:
    async def work() -> None:
        rest = FakeRest()
        async with Page(rest, private=True) as page:
            pollers = page.app.state.corral.pollers
            kim = pollers.of("kim")
            kim.took = 0.5
            assert (pollers.watched, kim.pause) == (0, 2.0)
            async with kim.watching():
                pollers.of("bo")  # without a viewer it does not ask
                assert (pollers.watched, kim.pause) == (1, 2.0)
                ada = pollers.of("ada")
                async with ada.watching():
                    ada.took = 0.5
                    assert (pollers.watched, kim.pause) == (2, 4.5)

    run(work())


def test_what_slurm_took_is_what_was_waited_for_all_its_answers() -> None:
    async def work() -> None:
        rest = FakeRest()

        async def slow(request: httpx.Request) -> httpx.Response:
            await asyncio.sleep(0.02)
            return rest(request)

        poller = polled(rest, slow)
        await poller.poll()
        assert poller.took >= 0.02 * sum(rest.asked.values()) >= 0.06
        assert poller.pause >= min(1.0, 4 * poller.took)

    run(work())


class Silent:
    """slurmrestd whose daemons stop answering: what each path does then."""

    def __init__(self, rest: FakeRest) -> None:
        self.rest = rest
        self.gone = ""

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        ping = path.endswith("/ping")
        if self.gone == "slurmrestd frozen":
            raise httpx.ReadTimeout("timed out", request=request)
        if self.gone == "slurmrestd stopped":
            raise httpx.ConnectError("refused", request=request)
        if self.gone and path != "/corral" and (not ping or self.gone == "slurmctld frozen"):
            timeout = request.extensions["timeout"]["read"]
            await asyncio.sleep(min(timeout, 3.0))
            raise httpx.ReadTimeout("timed out", request=request)
        if self.gone == "slurmctld stopped" and ping:
            return httpx.Response(200, json={"pings": [{"hostname": "n0", "pinged": "DOWN"}]})
        return self.rest(request)


async def in_trouble(poller: Poller, seconds: float) -> None:
    for _ in range(round(seconds / 0.01)):
        await asyncio.sleep(0.01)
        if poller.now.trouble:
            return


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        ("slurmctld frozen", "slurmctld does not answer"),
        ("slurmctld stopped", "slurmctld on n0 does not answer"),
        ("slurmrestd frozen", "slurmrestd does not answer"),
        ("slurmrestd stopped", "slurmrestd does not answer"),
        ("busy", ""),
    ],
)
def test_the_daemon_that_does_not_answer_is_named_soon(
    monkeypatch: Any, gone: str, words: str
) -> None:
    """It took 21 to 36 s, and slurmrestd was named whichever it was."""
    monkeypatch.setattr(poller_module, "ANSWER_S", 0.05)
    monkeypatch.setattr(slurmrest, "BRIEF_S", 0.1)

    async def work() -> None:
        rest = FakeRest()
        answer = Silent(rest)
        poller = polled(rest, answer)
        await poller.poll()
        async with poller.watching():
            answer.gone = gone
            poller.nudge()
            await in_trouble(poller, 1.5)
            assert poller.now.trouble == words
            assert len(poller.now.nodes) == 4
        await poller.close()

    run(work())


class SkippedTime(asyncio.SelectorEventLoop):
    """An event loop whose clock goes on to the next timer when there is nothing to do."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        ready: Any = self._ready  # type: ignore[attr-defined]
        timers: Any = self._scheduled  # type: ignore[attr-defined]
        if not ready and timers:
            self.now = max(self.now, timers[0].when())
        super()._run_once()  # type: ignore[misc]


class Late(Silent):
    """The same, whose answers take some seconds, and which goes at a moment between or in them."""

    def __init__(self, rest: FakeRest, took: float, goes: str) -> None:
        super().__init__(rest)
        self.took, self.goes, self.at = took, goes, float("inf")

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/ping") and request.url.path != "/corral":
            await asyncio.sleep(self.took)
        self.gone = self.goes if asyncio.get_running_loop().time() >= self.at else ""
        return await super().__call__(request)


@pytest.mark.parametrize("took", [0.0, 0.4, 1.2, 3.0, 8.0])
@pytest.mark.parametrize("goes", ["slurmctld frozen", "slurmctld stopped", "slurmrestd frozen"])
def test_a_daemon_that_goes_is_named_within_5_s(monkeypatch: Any, goes: str, took: float) -> None:
    """By the page's own clock, whenever it goes: during a poll, in the rest after it, at a ping."""

    async def named(after: float) -> float:
        loop = asyncio.get_running_loop()
        rest = FakeRest()
        answer = Late(rest, took, goes)
        poller = polled(rest, answer)
        async with poller.watching() as queue:
            await poller.poll()
            answer.at = loop.time() + after
            while not poller.now.trouble:
                await queue.get()
            noticed = loop.time() - answer.at
            assert poller.now.trouble.startswith(goes.partition(" ")[0])
        await poller.close()
        return noticed

    for after in range(0, 80, 7):
        with asyncio.Runner(loop_factory=SkippedTime) as runner:
            clock = SimpleNamespace(monotonic=runner.get_loop().time, time=time.time)
            monkeypatch.setattr(poller_module, "time", clock)
            monkeypatch.setattr(slurmrest, "time", clock)
            noticed = runner.run(named(after / 10))
            assert 0 <= noticed <= poller_module.NOTICED_S, after


def test_an_answer_that_comes_during_the_question_counts(monkeypatch: Any) -> None:
    monkeypatch.setattr(poller_module, "ANSWER_S", 0.01)

    async def work() -> None:
        rest = FakeRest()
        slow = Slow(rest, "nodes")
        poller = polled(rest, slow)

        async def silent(login: object) -> str:
            slow.go.set()
            await asyncio.sleep(0.2)
            return "slurmctld does not answer"

        monkeypatch.setattr(poller._rest, "silent", silent)
        await poller.poll()
        assert poller.now.complete
        assert not poller.now.trouble

    run(work())


def test_what_is_gone_is_noticed_while_the_poller_rests(monkeypatch: Any) -> None:
    """In a big cluster it rests for up to half a minute between two polls."""
    monkeypatch.setattr(poller_module, "ANSWER_S", 0.05)
    monkeypatch.setattr(slurmrest, "BRIEF_S", 0.1)

    async def work() -> None:
        rest = FakeRest()
        answer = Silent(rest)
        login = login_of(rest.login("kim"))
        asked = SlurmRest("http://slurm", httpx.MockTransport(answer))
        poller = Poller(asked, lambda: [login], fastest=60)
        async with poller.watching():
            await poller.fresh()
            await asyncio.sleep(0.05)
            answer.gone = "slurmctld stopped"
            await in_trouble(poller, 5)
            assert poller.now.trouble == "slurmctld on n0 does not answer"
            answer.gone = ""  # noticed too, long before the next poll would have come
            for _ in range(500):
                await asyncio.sleep(0.01)
                if not poller.now.trouble:
                    break
            assert not poller.now.trouble
        await poller.close()

    run(work())


@pytest.mark.parametrize(
    ("pings", "down"),
    [
        ([{"hostname": "a", "ping": "DOWN"}], ("a",)),
        ([{"hostname": "a", "pinged": "DOWN"}, {"hostname": "b", "pinged": "UP"}], ()),
        ([{"hostname": "a", "responding": False}], ("a",)),
        ([{"hostname": "a", "responding": True}], ()),
        (None, ()),
    ],
)
def test_what_a_ping_reports(pings: Any, down: tuple[str, ...]) -> None:
    assert read.down({"pings": pings}) == down
    if down:
        assert not read.controller_of({"pings": pings})
