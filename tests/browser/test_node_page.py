"""One node's page: jobs, whose each GPU is, events, what is unknown; nodes drained together."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import pytest

from corral import api
from corral.api.page import history
from tests.browser.conftest import wait_until
from tests.browser.desk import Desk, DeskRest, pictures, served, tab, window
from tests.unit.web.users.test_owner import spec

__all__ = ["window"]


@pytest.fixture
def desk() -> Iterator[Desk]:
    rest = DeskRest()
    rest.nodes(
        24,
        gres="gpu:h200:8",
        gres_used="gpu:h200:3(IDX:0-2)",
        boot_time={
            "set": True,
            "infinite": False,
            "number": 1795000000,
        },
    )
    rest.add(
        3001,
        nodes="gpu003",
        node_count={"set": True, "infinite": False, "number": 1},
        gres_detail=["gpu:h200:2(IDX:0-1)"],
        name="pretrain-7b",
    )
    rest.add(
        3002,
        nodes="gpu[003-004]",
        user_name="ada",
        name="eval",
        gres_detail=["gpu:h200:1(IDX:2)", "gpu:h200:1(IDX:0)"],
    )
    with served(rest) as made:
        yield made


def card(page: Any, title: str) -> Any:
    section = page.locator("section", has=page.locator(f"h2:text-is('{title}')"))
    section.wait_for()
    return section


def rows(page: Any, title: str) -> list[str]:
    section = card(page, title)
    section.locator("tbody tr").first.wait_for()
    return section.locator("tbody tr").all_inner_texts()


def test_a_node_shows_whose_each_gpu_is_and_what_is_unknown(window: Any, desk: Desk) -> None:
    with tab(window, desk) as page:
        page.click("a.node[data-key=gpu003]")  # a card is a link
        wait_until(page, "location.hash === '#node/gpu003'")
        gpus = rows(page, "GPUs")
        assert len(gpus) == 8
        assert "3001 pretrain-7b, kim" in gpus[1]
        assert "3002 eval, ada" in gpus[2]
        assert "free" in gpus[3]
        assert "0 %" not in gpus[0]  # no metrics: not 0
        assert "errors are unknown" in page.locator(".halves").inner_text()
        assert len(rows(page, "Jobs")) == 2
        assert any("booted" in line for line in rows(page, "Events"))
        last = card(page, "Last health checks")
        assert "Unknown: no metrics of this node report them" in last.inner_text()
        assert "this cluster has no metrics" in page.locator(".day").inner_text()
        pictures(page, "node")
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.go_back()
        page.wait_for_selector("a.node[data-key=gpu004]")


class Metrics:
    """Prometheus of one node: GPU 1 works and had an Xid; the others report nothing."""

    async def nodes(self) -> dict[str, dict[str, float]]:
        return {"gpu003": {"celsius": 61.0, "watts": 2400.0, "gpu": 0.7}}

    async def node(self, name: str) -> dict[str, Any]:
        now = time.time()
        curves = [
            {
                "what": what,
                "name": f"GPU {gpu}",
                "points": [
                    [now - 86400 + 360 * n, scale * (0.6 + 0.3 * math.sin(n / 9 + gpu))]
                    for n in range(240)
                ],
            }
            for what, scale in (("gpu", 1), ("watts", 600), ("celsius", 70))
            for gpu in range(3)
        ]
        return {"from": "prometheus", "curves": curves}

    async def readings(self, name: str) -> tuple[api.Reading, ...]:
        values = {
            "corral_gpu_utilization_ratio": 0.93,
            "corral_gpu_celsius": 61.2,
            "corral_gpu_memory_used_bytes": 7e10,
            "corral_gpu_memory_total_bytes": 1.5e11,
            "corral_gpu_watts": 655.0,
            "DCGM_FI_DEV_XID_ERRORS": 79.0,
        }
        checks = {"gpus": 0.0, "xid": 2.0, "disk": 1.0}
        return (
            *(api.Reading(what, {"gpu": "1"}, value) for what, value in values.items()),
            *(api.Reading("corral_health_check", {"check": c}, v) for c, v in checks.items()),
            api.Reading("corral_health_time_seconds", {}, time.time() - 125),
        )

    async def cluster(self, span: Any) -> dict[str, Any]:
        return {"from": "", "at": [], "curves": []}

    async def close(self) -> None:
        """Nothing is open."""


def test_metrics_are_shown_where_there_are_some(window: Any, desk: Desk) -> None:
    desk.app.state.corral.figures = Metrics()
    with tab(window, desk) as page:
        page.evaluate("location.hash = 'node/gpu003'")
        page.wait_for_selector(".day .curve canvas")
        gpus = rows(page, "GPUs")
        for words in ("93 %", "65 GiB / 140 GiB", "61 °C", "655 W", "Xid 79"):
            assert words in gpus[1], gpus[1]
        assert gpus[0].count("unknown") == 5
        pictures(page, "node-metrics")


def test_a_failing_health_check_is_shown_with_its_time_to_who_may_see_the_node(
    window: Any, desk: Desk
) -> None:
    desk.app.state.corral.figures = Metrics()
    for listed in desk.rest.bodies["nodes"]["body"]["nodes"]:
        if listed["name"] == "gpu003":
            listed |= {"state": ["IDLE", "DRAIN"], "reason": "health.xid: GPU 1: Xid 79"}
    for user, role in (("ola", "Administrator"), ("kim", "None")):
        with tab(window, desk, user, role) as page:
            page.evaluate("location.hash = 'node/gpu003'")
            lines = rows(page, "Last health checks")
            assert [line.split("\t")[:2] for line in lines] == [
                ["fail", "health.xid"],
                ["warn", "health.disk"],
                ["ok", "health.gpus"],
            ]
            assert "GPU 1: Xid 79" in lines[0]
            words = card(page, "Last health checks").inner_text()
            assert "3 checks" in words and "(2 min ago)" in words
            pictures(page, "node-health")


def test_drained_and_resumed_are_events_with_who_did_it(window: Any, desk: Desk) -> None:
    with tab(window, desk, "ola", "Administrator") as page:
        page.evaluate("location.hash = 'node/gpu003'")
        page.click("text=Drain")
        page.fill("dialog input[name=reason]", "fan 3 is loud")
        page.click("dialog button[type=submit]")
        page.wait_for_selector("section tbody tr:has-text('drained') >> text=fan 3 is loud")
        page.click("button.main >> text=Resume")
        page.wait_for_selector("section tbody tr:has-text('resumed')")
        events = rows(page, "Events")
        assert "resumed" in events[0]
        assert "ola" in events[0]
        assert "drained" in events[1]
        assert "ola" in events[1]


def test_a_run_of_corral_is_one_event_that_unfolds(
    window: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {"kind": "event", "run": "r1", "by": "ada"}
    done = [
        {"kind": "change-done", "node": "gpu003", "message": f"wrote file {n}"} for n in range(27)
    ]
    failed = [{"kind": "node-failed", "node": "gpu003", "message": "no space left"}] * 2
    records = [
        {**fields, "at": time.time() - 600 + n, "event": event}
        for n, event in enumerate([*done, *failed])
    ]
    monkeypatch.setattr(history, "read_journal", lambda _: iter(records))
    rest = DeskRest()
    rest.nodes(4)
    with served(rest, spec=spec()) as desk:
        desk.app.state.corral.figures = Metrics()
        with tab(window, desk) as page:
            page.evaluate("location.hash = 'node/gpu003'")
            page.wait_for_selector("tr.run >> text=27 changes")
            events = rows(page, "Events")
            assert sum("ada" in line for line in events) == 1
            assert "2 failed: no space left" in next(line for line in events if "ada" in line)
            pictures(page, "node-runs")
            page.click("tr.run button.fold")
            page.wait_for_selector("text=wrote file 3")
            assert sum("ada" in line for line in rows(page, "Events")) == 30
            page.click("tr.run button.fold")
            wait_until(page, "!document.body.innerText.includes('wrote file 3')")


def test_nodes_of_a_filter_are_drained_and_resumed_together(window: Any, desk: Desk) -> None:
    desk.rest.refused.add("gpu002")
    with tab(window, desk) as page:
        page.wait_for_selector("a.node")
        page.fill("input[type=search]", "gpu00[0-3]")
        wait_until(page, "document.querySelectorAll('a.node').length === 4")
        assert page.locator(".bulk").count() == 0  # kim does not administer
    with tab(window, desk, "ola", "Administrator") as page:
        page.wait_for_selector("a.node")
        assert page.locator(".bulk").count() == 0  # no filter: nothing is chosen by accident
        page.fill("input[type=search]", "gpu00[0-3]")
        page.click(".bulk >> text=Drain 4 nodes…")
        assert "gpu000, gpu001, gpu002, gpu003." in page.locator("dialog p").inner_text()
        page.click("dialog button[type=submit]")  # a reason is required
        assert page.locator("dialog").count() == 1
        page.fill("dialog input[name=reason]", "new firmware")
        pictures(page, "nodes-drain")
        page.click("dialog button[type=submit]")
        page.wait_for_selector(".failures >> text=gpu002")
        page.wait_for_selector(".bulk >> text=Resume 3 nodes…")
        assert page.locator(".node.warn").count() == 3
        pictures(page, "nodes-drained")
        page.click(".bulk >> text=Resume 3 nodes…")
        page.click("dialog button[type=submit]")
        wait_until(page, "!document.querySelector('.node.warn')")


def test_the_address_keeps_filter_tab_order_and_page(window: Any, desk: Desk) -> None:
    for number in range(4000, 4250):
        desk.rest.add(number, name="many", user_name="kim" if number % 2 else "ada")
    with tab(window, desk) as page:
        page.evaluate("location.hash = 'jobs'")
        page.wait_for_selector("tr[data-job]")
        page.click("button[data-key=running]")
        page.click("button[data-key='by name']")
        page.fill("input[type=search]", "many")
        wait_until(page, "location.hash.includes('q=many')")
        page.click("text=Next page")
        wait_until(page, "location.hash === '#jobs/running?q=many&by=name&page=2'")
        page.wait_for_selector("text=101 to 200 of 250 jobs")
        link = page.locator("tr[data-job] a").first
        job = link.inner_text()
        assert link.get_attribute("href") == f"#job/{job}"  # a real link: a new tab opens it
        link.click()
        wait_until(page, f"location.hash === '#job/{job}'")
        page.go_back()
        page.wait_for_selector("text=101 to 200 of 250 jobs")
        assert page.input_value("input[type=search]") == "many"
        assert page.get_attribute("button[data-key=running]", "aria-pressed") == "true"
        assert page.locator("th[aria-sort=descending]").inner_text().startswith("name")
        page.evaluate("location.hash = 'cluster?filter=gpu00%5B0-3%5D&by=none'")
        wait_until(page, "document.querySelectorAll('a.node').length === 4")
        page.click("a.node[data-key=gpu002]")
        page.wait_for_selector("h1 >> text=gpu002")
        page.go_back()
        wait_until(page, "document.querySelectorAll('a.node').length === 4")
