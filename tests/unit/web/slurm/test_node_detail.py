"""A node's page: whose each GPU is, what happened to it, and what is unknown."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Coroutine
from typing import Any

import httpx
import pytest
from pydantic import TypeAdapter

from corral import api
from corral.api.page import history
from corral.inspect.rules import ecc_faults
from corral.inspect.xids import xids_by_number
from corral.roles.machine.people import PROOF
from corral.roles.services.metrics import alerts
from corral.slurm.records import Job, Node
from corral.slurm.states.nodes import NodeState
from corral.web import app as web_app
from corral.web import schemas
from corral.web.figures import Prometheus
from corral.web.routes.nodes import MOST_EVENTS, last_health
from corral.web.slurm.node_events import NodeEvents
from corral.web.slurm.node_gpus import given, gpus_of, jobs_on
from corral.web.slurm.snapshot import Snapshot
from tests.unit.web.fake import FakeRest, Page
from tests.unit.web.routes.test_report import owner
from tests.unit.web.users.test_owner import spec


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def held(shape: Any, data: object) -> None:
    TypeAdapter(shape).validate_json(json.dumps(data), strict=True, extra="forbid")


def node(state: str = "IDLE", **more: Any) -> Node:
    return Node("gpu1", NodeState.parse(state), **more)


def job(number: int, nodes: str, *detail: str, gpus: int = 1) -> Job:
    return Job(
        id=number,
        label=str(number),
        user="kim",
        state="RUNNING",
        nodes=nodes,
        gpus=gpus,
        gres_detail=detail,
    )


@pytest.mark.parametrize("node", ["node0", "node1"])
def test_the_list_that_a_node_links_to_has_the_jobs_of_its_card(node: str) -> None:
    """Jobs on several nodes were missing, and Corral's own that run there."""

    async def work() -> None:
        rest = FakeRest()
        jobs = rest.bodies["jobs"]["body"]["jobs"]
        running = [raw for raw in jobs if raw["job_state"] == ["RUNNING"]]
        places = ["node[0-1]", "node0,node[10-12]", "node10", "node[00-01]", "node1"]
        rest.bodies["jobs"]["body"]["jobs"] = [
            {**running[0], "job_id": 100 + at, "nodes": place, "user_name": user}
            for at, (place, user) in enumerate(zip(places, [*"abcd", PROOF], strict=True))
        ]
        async with Page(rest) as page:
            await page.login("kim")
            card = (await page.get(f"nodes/{node}")).json()["jobs"]
            listed = (await page.get(f"jobs?show=running&arrays=true&q=nodes={node}")).json()
        numbers = [row[0] for row in card["rows"]]
        assert numbers
        assert sorted(row[0] for row in listed["rows"]) == sorted(numbers)

    run(work())


def health(**results: int) -> list[api.Reading]:
    """A node's metrics of its last check."""
    lines = [api.Reading("corral_health_check", {"check": c}, float(v)) for c, v in results.items()]
    return [*lines, api.Reading("corral_health_time_seconds", {}, 1795000000.0)]


def test_the_last_health_check_is_that_of_the_nodes_metrics() -> None:
    """Whom the page of the controller serves read "Unknown here" of it, administrators too."""
    reason = {"reason": "health.xid: GPU 3: Xid 79", "reason_at": 1794000000}
    seen = last_health(node("IDLE+DRAIN", **reason), health(xid=2, disk=1, gpus=0, ib=-1))
    assert (seen["at"], seen["why"]) == (1795000000.0, "")
    lines = {line["check"]: (line["word"], line["text"]) for line in seen["checks"]}
    assert lines["health.xid"] == ("fail", "GPU 3: Xid 79")
    assert lines["health.disk"][0] == "warn" and lines["health.disk"][1].count(". ") >= 1
    assert lines["health.gpus"] == ("ok", "")
    assert lines["health.ib"] == ("none", "")


def test_without_metrics_what_drained_the_node_is_known_and_the_rest_is_not() -> None:
    reason = {"reason": "health.disk: /tmp is 99 % full", "reason_at": 1794000000}
    seen = last_health(node("IDLE+DRAIN", **reason), [])
    assert seen["checks"] == [{"check": "health.disk", "word": "fail", "text": "/tmp is 99 % full"}]
    assert seen["at"] == 1794000000
    assert "no metrics" in seen["why"]
    other = last_health(node("IDLE+DRAIN", reason="maintenance"), [])
    assert (other["at"], other["checks"]) == (None, [])


@pytest.mark.parametrize(
    ("where", "detail", "indices"),
    [
        ("gpu1", ["gpu:h200:2(IDX:0,3)"], [0, 3]),
        ("gpu[0-2]", ["gpu:1(IDX:7)", "gpu:4(IDX:0-2,5)", "gpu:1(IDX:0)"], [0, 1, 2, 5]),
        ("gpu1", ["shard:4(3/8,1/8),gpu:1(IDX:1)"], [1]),
        ("gpu1", ["gpu:h200:2"], None),
        ("gpu1", [], None),
        ("gpu[0-2]", ["gpu:1(IDX:7)"], None),
        ("gpu1", ["craynetwork:1"], []),
    ],
)
def test_gpus_that_a_job_was_given(
    where: str, detail: list[str], indices: list[int] | None
) -> None:
    assert given("gpu1", job(7, where, *detail)) == indices


def test_each_gpu_has_its_job_and_its_figures() -> None:
    jobs = [job(7, "gpu[0-1]", "gpu:1(IDX:0)", "gpu:2(IDX:0-1)"), job(8, "gpu1", gpus=0)]
    readings = [
        api.Reading("corral_gpu_utilization_ratio", {"gpu": "1"}, 0.5),
        api.Reading("DCGM_FI_DEV_XID_ERRORS", {"gpu": "1"}, 79.0),
    ]
    rows = gpus_of(node(gres="gpu:h200:4"), jobs, readings)
    assert [[j["id"] for j in row["jobs"]] for row in rows] == [[7], [7], [], []]
    assert (rows[1]["use"], rows[1]["xid"], rows[1]["celsius"]) == (0.5, 79.0, None)
    assert rows[0]["use"] is None
    assert [row["faulty"] for row in rows] == [False, True, False, False]


@pytest.mark.parametrize("number", xids_by_number())
def test_a_gpu_is_marked_for_what_the_alert_is_for(number: int) -> None:
    readings = [api.Reading("DCGM_FI_DEV_XID_ERRORS", {"gpu": "0"}, float(number))]
    (row,) = gpus_of(node(gres="gpu:1"), [], readings)
    left_out = f"DCGM_FI_DEV_XID_ERRORS == {number}"
    assert row["faulty"] is not bool(re.search(rf"{left_out}\b", alerts()))


@pytest.mark.parametrize("count", [0, 1])
def test_a_gpu_is_marked_for_uncorrected_errors(count: int) -> None:
    readings = [api.Reading("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", {"gpu": "0"}, float(count))]
    (row,) = gpus_of(node(gres="gpu:1"), [], readings)
    assert row["faulty"] is bool(ecc_faults(count, None))


def test_errors_are_known_without_nvidias_exporter() -> None:
    """Both may have a figure. The worst one is shown, and of Xids a fault of the GPU first."""

    def row(*readings: tuple[str, str, float]) -> tuple[Any, Any, bool]:
        made = [api.Reading(n, {"gpu": "0", "xid": xid}, value) for n, xid, value in readings]
        (gpu,) = gpus_of(node(gres="gpu:1"), [], made)
        return gpu["xid"], gpu["ecc"], gpu["faulty"]

    assert row() == (None, None, False)
    assert row(("corral_gpu_xids", "", 0.0), ("corral_gpu_ecc_uncorrected", "", 0.0)) == (
        0,
        0,
        False,
    )
    assert row(("corral_gpu_xids", "79", 1.0), ("corral_gpu_xids", "31", 9.0)) == (79, None, True)
    assert row(("corral_gpu_xids", "79", 1.0), ("DCGM_FI_DEV_XID_ERRORS", "", 31.0))[0] == 79
    assert row(("corral_gpu_xids", "", 0.0), ("DCGM_FI_DEV_XID_ERRORS", "", 31.0))[0] == 31
    both = (("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "", 2.0), ("corral_gpu_ecc_uncorrected", "", 0.0))
    assert row(*both)[1:] == (2.0, True)


def test_what_is_unknown_is_not_free() -> None:
    """A job whose GPUs are not in Slurm's answer may have any of them."""
    rows = gpus_of(node(gres="gpu:2"), [job(7, "gpu1")], ())
    assert [row["jobs"] for row in rows] == [None, None]
    process = [api.Reading("corral_gpu_job", {"gpu": "0", "jobid": "7"}, 1.0)]
    rows = gpus_of(node(gres="gpu:2"), [job(7, "gpu1")], process)
    assert rows[0]["jobs"][0]["id"] == 7
    assert rows[1]["jobs"] is None


def test_jobs_of_a_node() -> None:
    jobs = [job(1, "gpu1"), job(2, "gpu[0-3]"), job(3, "gpu10"), job(4, "gpu2,gpu1"), job(5, "")]
    assert [j.id for j in jobs_on("gpu1", jobs)] == [1, 2, 4]


def test_what_happened_is_seen_by_comparing_answers() -> None:
    clock = 1000.0
    events = NodeEvents(lambda: clock)
    states = [
        node(boot_at=500),
        node("IDLE+DRAIN", boot_at=500, reason="fans", reason_by="root", reason_at=1005),
        node(boot_at=500),
        node("DOWN", boot_at=500, reason="Not responding", reason_by="slurm", reason_at=1030),
        node(boot_at=1040),
    ]
    before = Snapshot().with_nodes(states[:1])
    for at, now in enumerate(states[1:], 1):
        clock = 1000.0 + 10 * at
        if at == 2:
            events.done("gpu1", "ola")
        after = before.with_nodes([now])
        events.note(before, after)
        events.note(after, after)
        before = after
    got = [(e.what, e.at, e.by, e.why) for e in events.of(states[-1])]
    assert got == [
        ("answers again", 1040.0, "", ""),
        ("rebooted", 1040, "", ""),
        ("down", 1030.0, "slurm", "Not responding"),
        ("resumed", 1020.0, "ola", ""),
        ("drained", 1005.0, "root", "fans"),
    ]


def test_before_the_server_began_the_record_has_the_last_reason() -> None:
    events = NodeEvents(lambda: 1000.0)
    drained = node("IDLE+DRAIN", reason="Xid 79", reason_by="root", reason_at=900, boot_at=100)
    got = [(e.what, e.at, e.by, e.source) for e in events.of(drained)]
    assert got == [("drained", 900, "root", "slurm"), ("booted", 100, "", "slurm")]
    # Commands print a local time, which has no time zone: the page has it as a fact.
    assert [e.what for e in events.of(node(reason="x", reason_at="2026-01-01T00:00:00"))] == []


def test_a_reboot_that_was_asked_for_has_who_asked() -> None:
    events = NodeEvents(lambda: 2000.0)
    asked = node("IDLE+REBOOT_ISSUED", boot_at=500, reason="kernel", reason_by="ola", reason_at=1)
    before = Snapshot().with_nodes([asked])
    events.note(before, before.with_nodes([node(boot_at=1990)]))
    (event,) = [e for e in events.of(node(boot_at=1990)) if e.what == "rebooted"]
    assert (event.by, event.why) == ("ola", "kernel")


def test_the_page_is_sent_all_of_it() -> None:
    async def work() -> None:
        async with Page(FakeRest(), poll_s=0.01) as page:
            await page.login("root2", "Administrator")
            detail = (await page.get("nodes/node0")).json()
            held(schemas.NodeDetail, detail)
            at = detail["jobs"]["columns"].index("id")
            assert sorted(row[at] for row in detail["jobs"]["rows"]) == [1, 2]
            owners = [gpu["jobs"] and gpu["jobs"][0]["user"] for gpu in detail["gpus"]]
            assert owners[:2] == ["kim", "ada"]
            assert not detail["readings"]
            assert detail["gpus"][0]["use"] is None
            assert (await page.get("nodes/nowhere")).status_code == 404
            assert (await page.get("nodes/node0/figures")).json() == {"from": "", "curves": []}
            assert (await page.post("nodes/node0/health", {})).status_code == 403
            # What the page does is known by whom.
            body = {"do": "drain", "reason": "fan"}
            assert (await page.post("nodes/node0", body)).is_success
            raw = page.rest.bodies["nodes"]["body"]["nodes"]
            (mine,) = [n for n in raw if n["name"] == "node0"]
            mine["state"], mine["reason"] = [*mine["state"], "DRAIN"], "fan"
            page.rest.touch("nodes")
            await page.app.state.corral.pollers.of("root2").poll()
            events = (await page.get("nodes/node0")).json()["events"]
            drained = [e for e in events if e["what"] == "drained"]
            assert drained[0]["by"] == "root2"
            assert drained[0]["why"] == "fan"

    run(work())


def test_what_corral_did_to_a_node_names_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page shows a run of ``corral up`` as one row, and whether older events are left out."""
    done = {"kind": "change-done", "node": "node0", "message": "written"}
    others = {**done, "node": "node1"}
    records = [
        {"at": 100.0 + n, "run": f"r{n // 150}", "by": "kim", "kind": "event", "event": event}
        for n, event in enumerate([done] * 210 + [others])
    ]
    monkeypatch.setattr(history, "read_journal", lambda _: iter(records))

    async def work() -> tuple[dict[str, Any], dict[str, Any]]:
        async with Page(FakeRest(), spec=spec()) as page:
            await owner(page)
            every = (await page.get("nodes/node0")).json()
            del records[:200]
            return every, (await page.get("nodes/node0")).json()

    every, few = run(work())
    held(schemas.NodeDetail, every)
    runs = [event["run"] for event in every["events"] if event["source"] == "journal"]
    assert set(runs) == {"r0", "r1"}
    assert every["cut"]
    assert len(every["events"]) == MOST_EVENTS
    assert sum(event["source"] == "journal" for event in few["events"]) == 10
    assert {e["run"] for e in few["events"] if e["source"] != "journal"} == {""}
    assert not few["cut"]


def test_a_day_and_the_gpus_come_from_prometheus() -> None:
    asked: list[httpx.QueryParams] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.params)
        labels = {"__name__": "corral_gpu_watts", "node": "gpu1", "gpu": "3"}
        if request.url.path.endswith("query"):
            result = [
                {"metric": labels, "value": [1, "402.5"]},
                {"metric": labels, "value": [1, "NaN"]},
            ]
        else:
            result = [{"metric": labels, "values": [[1, "400"], [2, "NaN"]]}]
        return httpx.Response(200, json={"data": {"result": result}})

    async def work() -> None:
        figures = Prometheus("http://prometheus", httpx.MockTransport(answer))
        (reading,) = await figures.readings("gpu1")
        assert (reading.name, reading.labels["gpu"], reading.value) == (
            "corral_gpu_watts",
            "3",
            402.5,
        )
        curves = (await figures.node("gpu1"))["curves"]
        assert curves[0]["name"] == "GPU 3"
        assert curves[0]["points"] == [[1, 400.0]]
        await figures.close()

    run(work())
    assert all('node="gpu1"' in params["query"] for params in asked)
    assert float(asked[1]["end"]) - float(asked[1]["start"]) == 86400


SACCTMGR = (
    "node0|1700000000|1700000600|DRAIN|ola(2001)|billing=8|fan|of rack 2\n"
    "node0|1700000700|1700000800|DRAIN|ola(2001)|billing=8|fan again\n"
    "node0|1700001000|Unknown|DOWN*|slurm(64030)|billing=8|Not responding\n"
)


def test_accounting_keeps_outages_from_before_the_page_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """slurmctld has the last reason alone; sacctmgr show event has each, and who set it."""
    asked: list[tuple[str, ...]] = []
    hides = "none"

    async def command(words: tuple[str, ...]) -> str:
        if words[0] == "env":
            asked.append(words)
            return SACCTMGR
        private = f"PrivateData = {hides}\n"
        return private if words[0] == "scontrol" else f"SlurmDBD configuration:\n{private}"

    monkeypatch.setattr(web_app, "_slurm_commands", lambda *_: command)

    async def work() -> dict[str, Any]:
        async with Page(FakeRest(), private=None) as page:
            await page.login("kim")
            await page.get("nodes/node0")
            return (await page.get("nodes/node0")).json()

    detail = run(work())
    held(schemas.NodeDetail, detail)
    assert detail["outages"]
    events = [
        (e["what"], e["at"], e["by"], e["why"]) for e in detail["events"] if e["at"] < 17e8 + 2e3
    ]
    assert events == [
        ("down", 1700001000, "slurm", "Not responding"),
        ("resumed", 1700000800, "", ""),
        ("drained", 1700000700, "ola", "fan again"),
        ("resumed", 1700000600, "", ""),
        ("drained", 1700000000, "ola", "fan|of rack 2"),
    ]
    assert asked == [asked[0]], "once for all who look"
    assert "nodes=node0" in asked[0] and "SLURM_TIME_FORMAT=%s" in asked[0]
    hides = "events"
    detail = run(work())
    assert not detail["outages"]
    assert len(asked) == 1, "the server's own rights show nobody what is hidden"


def test_a_node_has_its_machine_and_when_it_was_busy() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            known = page.rest.bodies["nodes"]["body"]["nodes"][0]
            known |= {
                "architecture": "x86_64",
                "operating_system": "Linux 6.12.9 #1 SMP",
                "sockets": 2,
                "cores": 48,
                "threads": 2,
                "last_busy": {"set": True, "infinite": False, "number": 1790000000},
            }
            await page.login()
            detail = (await page.get(f"nodes/{known['name']}")).json()
            assert detail["machine"] == {
                "kernel": "Linux 6.12.9 #1 SMP",
                "architecture": "x86_64",
                **{"sockets": 2, "cores": 48, "threads": 2, "busy_at": 1790000000},
            }

    run(work())


def test_a_node_that_only_stays_busy_is_no_news() -> None:
    """slurmctld may set the time again at each poll: all nodes would go to all viewers."""
    before = Snapshot().with_nodes([node(busy_at=1)])
    after = before.with_nodes([node(busy_at=2)])
    assert (after.rev, after.nodes_rev) == (before.rev, before.nodes_rev)
    assert after.nodes is before.nodes
    assert after.busy_at == {"gpu1": 2}
    assert before.with_nodes([node("MIXED", busy_at=2)]).nodes["gpu1"].busy_at == 2
