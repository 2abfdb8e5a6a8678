"""One poller: nodes before jobs, the same answer is not read twice, nobody waits for long."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

import httpx
import pytest

from corral.web.slurm import poller as poller_module
from corral.web.slurm import snapshot
from corral.web.slurm.poller import Poller
from corral.web.slurm.slurmrest import SlurmRest
from corral.web.users.sessions import login_of
from tests.unit.web.fake import FakeRest


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


def test_a_node_that_changed_is_sent_before_the_jobs_are_asked() -> None:
    async def work() -> None:
        rest = FakeRest()
        slow = Slow(rest, "jobs")
        slow.go.set()
        poller = polled(rest, slow)
        await poller.look()
        queue: asyncio.Queue[bytes] = asyncio.Queue(4)
        poller._viewers.add(queue)
        slow.go.clear()
        rest.bodies["nodes"]["body"]["nodes"][0]["reason"] = "changed"
        rest.touch("nodes")
        looking = asyncio.create_task(poller.look())
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
        await poller.look()
        failing = True
        rest.bodies["nodes"]["body"]["nodes"][0]["reason"] = "changed"
        rest.touch("nodes")
        await poller.look()
        assert "busy" in poller.now.trouble
        failing = False
        await poller.look()
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
        await poller.look()
        queue: asyncio.Queue[bytes] = asyncio.Queue(4)
        poller._viewers.add(queue)
        for node in body["nodes"]:
            node["cpu_load"] = 77
        rest.touch("nodes")
        await poller.look()
        message = json.loads(queue.get_nowait())
        assert "nodes" not in message
        assert message["nodes_rev"] == 2

    run(work())


def test_the_same_states_are_not_compared_again(monkeypatch: Any) -> None:
    monkeypatch.setattr(poller_module, "BIG", 1)

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
        await poller.look()
        await poller.look()
        kept = poller._states
        assert kept
        before = poller.now.jobs_rev
        await poller.look()
        assert poller._states is kept
        assert poller.now.jobs_rev == before
        first = next(j for j in rest.bodies["jobs"]["body"]["jobs"] if j["job_id"] == 1)
        first["job_state"] = ["FAILED"]
        next(s for s in states["jobs"] if s["job_id"] == "1")["state"] = ["FAILED"]
        await poller.look()
        assert poller.now.jobs[1].state == "FAILED"

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


def test_what_slurm_took_is_what_was_waited_for_all_its_answers() -> None:
    async def work() -> None:
        rest = FakeRest()

        async def slow(request: httpx.Request) -> httpx.Response:
            await asyncio.sleep(0.02)
            return rest(request)

        poller = polled(rest, slow)
        await poller.look()
        assert poller.took >= 0.02 * sum(rest.asked.values()) >= 0.06
        assert poller.pause >= min(1.0, 4 * poller.took)

    run(work())
