"""Reports, cost, places and the doctor's plan, as routes of the page."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import pytest

from corral import api
from corral.api.page import history
from corral.prove.model import CheckResult, Evidence, Proof, Verdict
from corral.providers.cloud.budget import Spend
from corral.spec.load import load_or_raise
from corral.spec.sections.network import Switch, Topology
from corral.spec.sections.racks import Rack
from corral.web.routes import jobs, report
from corral.web.users.sessions import login_of
from tests.unit.web.fake import FakeRest, Page
from tests.unit.web.users.test_owner import EXAMPLES, run


def spec(**changes: Any) -> dict[str, Any]:
    declared = load_or_raise(EXAMPLES / "laptop.yaml").model_copy(update=changes)
    return declared.model_dump(mode="json")


async def owner(page: Page) -> None:
    code = page.app.state.corral.sessions.code(login_of(page.rest.login("kim")))
    page.csrf = (await page.post("login/code", {"code": code})).json()["csrf"]


def proof(check: str, verdict: Verdict = Verdict.PASS) -> Proof:
    seen = Evidence("node0", "true", "<script>alert(1)</script>")
    return Proof("laptop", 1.0, (CheckResult(check, check, "smoke", verdict, "x", "", (seen,)),))


def test_reports_are_pages_that_run_their_own_scripts_only(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [api.Kept("20261122-000000", proof("smoke.nodes"))]
    monkeypatch.setattr(history, "proofs", lambda _: kept)
    record = {
        "kind": "bench", "job": 25, "at": 5.0, "nodes": "node[0-1]", "charts": [],
        "tables": [{"collective": "all_reduce", "busbw_gb_s": 12.5, "outcome": "fail",
                    "reasons": ["below its limit"]}],
    }  # fmt: skip
    monkeypatch.setattr(
        history, "bench_history", lambda _: (record, {"kind": "bench", "job": 1, "tables": []})
    )

    async def work() -> None:
        async with Page(FakeRest(), spec=spec()) as page:
            assert (await page.get("corral/reports")).status_code == 401
            await owner(page)
            listed = (await page.get("corral/reports")).json()["reports"]
            assert [entry["id"] for entry in listed] == ["bench-25", "20261122-000000"]
            assert [entry["good"] for entry in listed] == [False, True]
            for name, word in (("bench-25", "below its limit"), ("20261122-000000", "smoke")):
                reply = await page.get(f"corral/reports/{name}")
                assert word in reply.text
                assert "<script>alert" not in reply.text
                policy = reply.headers["content-security-policy"]
                assert "default-src 'none'" in policy
                assert "sandbox allow-popups allow-scripts" in policy
                assert "allow-same-origin" not in policy
                scripts = re.findall(r"<script>(.*?)</script>", reply.text, re.S)
                digests = [b64encode(sha256(s.encode()).digest()).decode() for s in scripts]
                assert re.findall(r"'sha256-([^']+)'", policy) == digests
                assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]
            assert (await page.get("corral/reports/none")).status_code == 404
            assert (await page.get("corral/reports/..%2fx")).status_code in (404, 422)

    run(work())


def test_cost_and_places(monkeypatch: pytest.MonkeyPatch) -> None:
    now = Spend(3.5, 12.0, 1, 1)
    monkeypatch.setattr(report.api, "spend_now", lambda _: now, raising=False)
    laptop = load_or_raise(EXAMPLES / "laptop.yaml")
    switches = (Switch(name="rack1", nodes="node[0-1]"), Switch(name="rack2", nodes="node2"))
    network = laptop.network.model_copy(update={"topology": Topology(switches=switches)})

    async def work() -> None:
        async with Page(FakeRest(), spec=spec(network=network)) as page:
            await owner(page)
            assert (await page.get("corral/cost")).json() == {"rented": False}
            racks = (await page.get("places")).json()["racks"]
            assert racks == {"node0": "rack1", "node1": "rack1", "node2": "rack2"}

    run(work())


def racked(*lines: Rack) -> dict[str, Any]:
    switches = (Switch(name="leaf", nodes="node[0-3]"),)
    laptop = load_or_raise(EXAMPLES / "laptop.yaml")
    network = laptop.network.model_copy(update={"topology": Topology(switches=switches)})
    return spec(network=network, racks=lines)


A1 = Rack(name="a1", nodes="node[0-1]", unit=3, height=8, row="east")
A1_TOP = Rack(name="a1", nodes="node2", unit=48, units=48)


def test_places_have_the_racks_as_the_file_declares_them() -> None:
    async def work() -> None:
        async with Page(FakeRest(), spec=racked(A1, A1_TOP)) as page:
            await owner(page)
            assert (await page.get("me")).json()["racks"] is True
            places = (await page.get("places")).json()
            assert places["racks"] == dict.fromkeys(("node0", "node1", "node2"), "a1") | {
                "node3": "leaf"
            }
            (rack,) = places["elevations"]
            assert (rack["name"], rack["row"], rack["units"]) == ("a1", "east", 48)
            low, high, top = rack["nodes"]
            assert (low, high) == (["node0", 3, 8, 0, 1], ["node1", 11, 8, 0, 1])
            assert top == ["node2", 48, 1, 0, 1]

    run(work())


def test_places_of_hidden_nodes_are_hidden() -> None:
    """PrivateData=nodes: a user is shown the places of the nodes that Slurm shows."""

    async def work() -> None:
        rest = FakeRest()
        seen = {node["name"] for node in rest.bodies["nodes"]["body"]["nodes"]}
        line = Rack(name="a1", nodes="node[0-9],gpu[0-9]", across=10)
        async with Page(rest, spec=racked(line), private=True) as page:
            await page.login()
            places = (await page.get("places")).json()
            (rack,) = places["elevations"]
            assert {slot[0] for slot in rack["nodes"]} <= seen
            assert places["racks"].keys() <= seen

    run(work())


def test_the_doctors_plan_waits_for_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    from corral.plan.model import MachineChange, Plan  # noqa: PLC0415

    async def plan(declared: object, emit: object) -> Plan:
        return Plan("laptop", "a", "b", machines=(MachineChange("node0", "create", "x"),))

    monkeypatch.setattr(report.api, "plan", plan, raising=False)

    async def work() -> None:
        async with Page(FakeRest(), spec=spec()) as page:
            await owner(page)
            assert (await page.post("corral/doctor/plan", {})).status_code == 200
            while page.app.state.corral.background.running:
                await page.app.state.corral.background.since(99)
            ((plan_id, pending),) = page.app.state.corral.plans._plans.items()
            assert page.app.state.corral.background.result["id"] == plan_id
            wrong = "000000" if pending.code != "000000" else "000001"
            assert (
                await page.post("corral/apply", {"plan": plan_id, "code": wrong})
            ).status_code == 403

    run(work())


def test_a_profile_is_a_table_and_a_file_for_perfetto(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = ("steps", "wall_ms", "compute_ms", "communication_ms", "overlap_ms", "idle_ms")
    rank = {"rank": 0, "device": "H200", "top": [], **dict.fromkeys(fields, 1)}
    row = {"percent": 90.0, "ms": 9.0, "calls": 3, "name": "gemm"}
    lists = {"kernels": {"0": [row]}, "calls": {}, "too_large": {"1": 9}, "incomplete": False}
    recorded = SimpleNamespace(
        as_dict=lambda: {"job": "7", "folder": "/shared/7", "ranks": [rank], **lists},
        timeline=lambda: b"\x1f\x8bx",
    )
    asked: list[str] = []

    async def profile(_: object, job: str) -> object:
        asked.append(job)
        return recorded

    async def own(*_: object) -> object:
        return SimpleNamespace(id=7)

    monkeypatch.setattr(jobs, "own_job", own)
    monkeypatch.setattr(jobs.api, "job_profile", profile, raising=False)

    async def work() -> None:
        async with Page(FakeRest(), spec=spec()) as page:
            assert (await page.get("jobs/7/profile")).status_code == 401
            await owner(page)
            assert (await page.get("jobs/7/profile")).json()["ranks"] == [rank]
            reply = await page.get("jobs/7/profile.json.gz")
            assert reply.content == b"\x1f\x8bx"
            assert reply.headers["content-type"] == "application/gzip"
            # A browser keeps it as it is; with an encoding it would unpack what Perfetto unpacks.
            assert "content-encoding" not in reply.headers
            assert "job-7.json.gz" in reply.headers["content-disposition"]
            recorded.timeline = lambda: b""
            assert (await page.get("jobs/7/profile.json.gz")).status_code == 404

    run(work())
    assert asked == ["7"] * 3
