"""What pages add to Slurm's lists: heat and power, cost, plots, progress, the journal."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Coroutine
from typing import Any, cast

import httpx
import pytest

from corral import api
from corral.api.page import history
from corral.events import Emit, Event, Kind
from corral.providers.cloud.budget import Spend
from corral.web.figures import BySsh as FiguresBySsh
from corral.web.figures import Prometheus
from corral.web.routes import output, report
from corral.web.tasks import background
from corral.web.users.user_commands import BySsh
from corral.web.users.worker_process import answer
from tests.unit.report.samples import BANDWIDTH as PLOT
from tests.unit.report.samples import PAIRS as MATRIX
from tests.unit.web.fake import FakeRest, Page
from tests.unit.web.routes.test_report import owner
from tests.unit.web.users.test_owner import EXAMPLES, spec


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def test_temperature_and_power_of_each_node() -> None:
    values = {"corral_gpu_celsius": "61", "corral_gpu_watts": "402.5"}

    def prometheus(request: httpx.Request) -> httpx.Response:
        query = request.url.params["query"]
        value = next((v for word, v in values.items() if word in query), "NaN")
        series = [{"metric": {"node": "node0"}, "value": [1, value]}]
        return httpx.Response(200, json={"data": {"result": series}})

    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login()
            assert (await page.get("figures")).json() == {"nodes": {}}
            transport = httpx.MockTransport(prometheus)
            page.app.state.corral.figures = Prometheus("http://x", transport)
            figures = (await page.get("figures")).json()["nodes"]
            assert figures == {"node0": {"celsius": 61.0, "watts": 402.5}}
            columns = (await page.get("figures?layout=columns")).json()
            assert columns == {
                "names": "node0",
                "columns": ["celsius", "watts", "gpu"],
                "values": [[61], [403], [None]],
            }

    run(work())


def test_figures_by_column_weigh_a_third_and_are_packed_once() -> None:
    draw = random.Random(4)
    nodes = {
        f"gpu{n:05}": {
            "celsius": draw.uniform(30, 85),
            "watts": draw.uniform(600, 5600),
            "gpu": draw.random(),
        }
        for n in range(10_000)
    }
    nodes["odd,[name"] = {"watts": 1.0}  # of a label; no hostlist has it

    class Metrics(FiguresBySsh):
        async def nodes(self) -> dict[str, dict[str, float]]:
            return nodes

    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login()
            page.app.state.corral.figures = Metrics(cast("Any", None))
            weights = dict[str, int]()
            gzip = {"accept-encoding": "gzip"}
            for layout in ("rows", "columns"):
                reply = await page.get(f"figures?layout={layout}", headers=gzip)
                weights[layout] = reply.num_bytes_downloaded
            assert weights["columns"] < 0.36 * weights["rows"], weights
            columns = reply.json()
            assert columns["names"] == "gpu[00000-09999]"
            first = {c: v[0] for c, v in zip(columns["columns"], columns["values"], strict=True)}
            assert first["watts"] == pytest.approx(nodes["gpu00000"]["watts"], abs=5)
            assert first["gpu"] == pytest.approx(nodes["gpu00000"]["gpu"], abs=0.005)
            packed = page.app.state.packed.made["figures:columns:"]
            await page.get("figures?layout=columns")
            assert page.app.state.packed.made["figures:columns:"] is packed

    run(work())


def test_what_rented_machines_cost_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    now = Spend(3.5, 12.0, 1, 1)
    monkeypatch.setattr(report.api, "spend_now", lambda _: now, raising=False)
    rented = api.lint_text((EXAMPLES / "cloud-mesh.yaml").read_text(), "x")[0]
    assert rented is not None

    async def work() -> None:
        async with Page(FakeRest(), spec=rented.model_dump(mode="json")) as page:
            await page.login("kim", "Administrator")
            assert (await page.get("corral/cost")).status_code == 403
            await owner(page)
            assert (await page.get("corral/cost")).json() == {
                "rented": True,
                "per_hour": 3.5,
                "total": 12.0,
                "unpriced": 1,
                "unpriced_ever": 1,
                "rate": "at least 3.50",
                "spent": "at least 12.00",
            }

    run(work())


def test_progress_is_sent_by_stage_and_node_as_it_happens() -> None:
    """Server-sent events while the work is under way, all from its beginning, then its end."""

    async def work() -> None:
        async with Page(FakeRest(), spec=spec()) as page:
            await owner(page)
            go = asyncio.Event()

            async def applying(emit: Emit) -> Any:
                emit(Event(Kind.STAGE_STARTED, "slurm", message="Slurm"))
                emit(Event(Kind.CHANGE_DONE, "slurm.conf", "node1", "written", 0.4))
                await go.wait()
                emit(Event(Kind.NODE_FAILED, "slurm", "node2", "no space"))
                return {"ok": True}

            page.app.state.corral.background.start("apply", applying)
            asked = asyncio.create_task(page.get("corral/work/events"))
            for _ in range(20):
                await asyncio.sleep(0)
            go.set()
            reply = await asked
            assert reply.headers["content-type"].startswith("text/event-stream")
            parts = reply.text.strip().split("\n\n")
            events = [
                event
                for part in parts[:-1]
                for event in json.loads(part.removeprefix("data: "))["events"]
            ]
            assert [(e["kind"], e["subject"], e.get("node", "")) for e in events] == [
                ("stage-started", "slurm", ""),
                ("change-done", "slurm.conf", "node1"),
                ("node-failed", "slurm", "node2"),
            ]
            assert parts[-1].startswith("event: end\n")
            end = json.loads(parts[-1].partition("data: ")[2])
            assert (end["what"], end["running"], end["result"]) == ("apply", False, {"ok": True})

    run(work())


def test_streams_end_with_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who logs out, or whose session was stolen and ended, gets nothing more."""
    monkeypatch.setattr(output, "QUIET_S", 0.01)
    since = background.Background.since
    monkeypatch.setattr(background.Background, "since", lambda self, at: since(self, at, 0.01))

    begun = asyncio.Event()

    class Printing(BySsh):
        async def log(self, login: Any, job: Any, question: Any, on_line: Any) -> None:
            on_line("D batch 0 YmVmb3Jl")
            begun.set()
            for _ in range(1000):
                await asyncio.sleep(0.005)
            on_line("D batch 6 YWZ0ZXI=")

    async def work() -> None:
        async with Page(FakeRest(), spec=spec()) as page:
            await owner(page)
            state = page.app.state.corral
            state.own = Printing(state.spec)

            async def never(emit: Emit) -> Any:
                await asyncio.Event().wait()

            state.background.start("apply", never)
            streams = [
                asyncio.create_task(page.get(path)) for path in ("jobs/1/log", "corral/work/events")
            ]
            await asyncio.wait_for(begun.wait(), 30)
            await asyncio.sleep(0.05)
            assert not [stream for stream in streams if stream.done()]
            await page.post("logout", {})
            log, work = await asyncio.wait_for(asyncio.gather(*streams), 30)
            assert '"text":"before"' in log.text
            assert "after" not in log.text
            assert "event: end" not in work.text
            state.background._task.cancel()

    run(work())


def test_measurements_are_shown_with_their_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    record = {
        "kind": "bench",
        "job": 25,
        "at": 5.0,
        "nodes": "node[0-1]",
        "charts": [PLOT.as_dict(), MATRIX.as_dict()],
        "tables": [
            {"collective": "all_reduce", "busbw_gb_s": 300.0, "outcome": "pass", "reasons": []}
        ],
    }
    monkeypatch.setattr(history, "proofs", lambda _: [])
    monkeypatch.setattr(history, "bench_history", lambda _: (record,))

    async def work() -> None:
        async with Page(FakeRest(), spec=spec()) as page:
            await owner(page)
            (listed,) = (await page.get("corral/reports")).json()["reports"]
            assert listed["plots"] == 2
            shown = await page.get("corral/reports/bench-25")
            assert shown.text.count("<figure>") == 2
            assert "limit 400 GB/s" in shown.text
            # Drawn in the page itself: its policy fetches nothing.
            assert "<img" not in shown.text
            assert "default-src 'none'" in shown.headers["content-security-policy"]

    run(work())


def test_the_journal_records_who_did_what_when_and_what_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change = {"nodes": ["node0", "node1"], "change": {"summary": "write slurm.conf"}}
    stages = [{"changes": [change, {}]}, {"changes": [{}]}]
    done = {"kind": "change-done", "subject": "slurm.conf", "node": "node1", "message": "written"}
    records = [
        {"at": 1.0, "run": "a", "by": "kim", "kind": "plan", "plan": {"stages": stages}},
        {"at": 2.0, "run": "a", "kind": "event", "event": done},
        {"at": 3.0, "run": "a", "kind": "event", "event": {"kind": "node-started"}},
        {"at": 4.0, "run": "b", "kind": "proof", "proof": {"results": [{"verdict": "fail"}]}},
    ]
    monkeypatch.setattr(history, "read_journal", lambda _: iter(records))

    async def work() -> list[dict[str, Any]]:
        async with Page(FakeRest(), spec=spec()) as page:
            await owner(page)
            return (await page.get("corral/history")).json()["records"]

    rows = run(work())
    assert [(r["at"], r["what"], r["text"]) for r in rows] == [
        (4.0, "proof", "proof of 1 checks: 1 failed"),
        (2.0, "change-done", "written"),
        (1.0, "plan", "plan with 3 changes in 2 stages"),
    ]
    assert rows[1]["node"] == "node1"
    assert [r["by"] for r in rows] == ["", "", "kim"], "older journals lack it"
    assert rows[2]["changes"][0] == "node0, node1: write slurm.conf"


def test_the_api_is_described_completely() -> None:
    async def work() -> Any:
        async with Page(FakeRest()) as page:
            await page.login()
            return (await page.get("openapi.json")).json()

    document = run(work())
    operations = [
        (method, path, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
    ]
    assert len(operations) > 25
    assert not [where for *where, operation in operations if not operation.get("description")]
    assert not [where for *where, operation in operations if not operation.get("tags")]
    assert len({operation["operationId"] for *_, operation in operations}) == len(operations)
    for *where, operation in operations:
        asked = operation.get("requestBody", {}).get("content", {})
        assert "application/json" in asked or not asked, where


HOSTILE = (
    "", "\x00", "\ud7ff\u202e", "a: &a [*a]", "a: &a {<<: *a}", "- " * 500, "{" * 999,
    "[1" * 300, "!!python/object/apply:os.system [id]", "corral: v1\nname: [[]]\n",
    "? a\n: b\n", "%YAML 9.9\n---\n", "name: 1\nname: 2\n", "x: " + "9" * 5000,
    "a: 0x" + "f" * 5000, "2026-99-99: 1", "'", "<<: 1",
)  # fmt: skip
"""Texts of a cluster file."""


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_text_of_a_cluster_file_makes_its_process_fail(text: str) -> None:
    judged = json.loads(json.dumps(answer({"do": "lint", "text": text, "file": "x"})))
    assert judged["findings"] and judged["spec"] is None


@pytest.mark.parametrize(
    "texts", [HOSTILE[1:3], pytest.param(HOSTILE, marks=pytest.mark.slow)], ids=["few", "all"]
)
def test_no_text_of_a_cluster_file_makes_the_server_fail(texts: tuple[str, ...]) -> None:
    """schemathesis is not the owner, so this route is tested here."""

    async def work() -> None:
        async with Page(FakeRest(), spec=spec()) as page:
            await owner(page)
            for text in texts:
                reply = await page.post("corral/lint", {"text": text})
                assert reply.status_code == 200, (text[:40], reply.text)
                assert reply.json()["findings"], text[:40]

    run(work())
