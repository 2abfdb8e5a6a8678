"""The cluster's history on the page: hour, day and week, with a gap where the value is unknown."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from corral.errors import Code, CorralError
from corral.web import history
from corral.web.history import QUESTIONS, Grid
from tests.browser.desk import Desk, DeskRest, pictures, served, tab, window
from tests.browser.test_node_page import Metrics

__all__ = ["window"]
NOW = 1_795_900_000


@pytest.fixture
def desk() -> Iterator[Desk]:
    rest = DeskRest()
    rest.nodes(8)
    with served(rest) as made:
        yield made


STATES = {
    "node_states": {"idle": 20, "mixed": 12, "allocated": 30, "idle+drain": 2},
    "job_states": {"running": 38, "pending": 120, "completing": 1, "failed": 3},
}


def _series(grid: Grid, what: str, state: str, height: float) -> dict[str, Any]:
    """Values of a sum, or of one state."""
    values = [
        [at, str(height * (1 + 0.03 * math.sin(n / 20)))]
        for n, at in enumerate(grid.times)
        if what == "power" or not 120 <= n < 144
    ]
    return {"metric": {"state": state} if state else {}, "values": values}


class Past(Metrics):
    """Prometheus of a busy cluster; slurmctld was away for a tenth of the time."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.silent = False
        self.without = ""

    async def cluster(self, span: Any) -> dict[str, Any]:
        self.asked.append(span)
        if self.silent:
            raise CorralError(Code.UNREACHABLE, "Prometheus does not answer")
        grid = Grid.of(span, NOW)
        heights = (62, 64, 2, 440, 512, 401, 5200, 8192, 38, 120, 262_000, 390_000)
        plain = zip(heights, (row for row in QUESTIONS if row[1]), strict=True)
        sizes = [({"": height}, what) for height, (what, _, _) in plain]
        sizes += [(STATES[what], what) for what, name, _ in QUESTIONS if not name]
        answers = [
            [_series(grid, what, state, height) for state, height in by_state.items()]
            if what not in self.without.split()
            else []
            for by_state, what in sizes
        ]
        return {"from": "prometheus", **history.curves(grid, answers)}


def test_hour_day_and_week(window: Any, desk: Desk) -> None:
    past = desk.app.state.corral.figures = Past()
    with tab(window, desk) as page:
        foreign: list[str] = []
        page.on("request", lambda r: foreign.append(r.url) if "9090" in r.url else None)
        page.wait_for_selector(".trends .curve canvas")
        titles = page.locator(".trends figcaption").all_inner_texts()
        assert titles == [
            *("Nodes", "Nodes by state", "GPUs", "CPUs", "Jobs", "Jobs by state", "Power, kW")
        ]
        label = page.locator(".trends .curve").last.get_attribute("aria-label")
        assert "nodes 3" in label
        states = page.locator(".trends .curve").nth(1).get_attribute("aria-label")
        assert all(word in states for word in ("idle ", "mixed ", "allocated ", "drained "))
        assert page.locator("text=Since this page was opened").count() == 0
        for span in ("week", "hour"):
            page.click(f".trends button[data-key={span}]")
            page.wait_for_selector(f".trends button[data-key={span}][aria-pressed=true]")
            page.wait_for_function(f"location.hash.includes('span={span}')")
        page.reload()
        page.wait_for_selector(".trends button[data-key=hour][aria-pressed=true]")
        page.wait_for_selector(".trends .curve canvas")
        assert past.asked[0] == "day"
        assert past.asked[-1] == "hour"
        assert "week" in past.asked
        assert not foreign
        pictures(page, "history")
        past.silent = True
        page.click(".trends button[data-key=week]")
        page.wait_for_selector(".trends .reason >> text=Prometheus does not answer")
        page.set_viewport_size({"width": 390, "height": 844})
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_cluster_without_gpus_has_the_curve_of_its_cpus(window: Any, desk: Desk) -> None:
    """With Prometheus it had none, and without it had one."""
    past = desk.app.state.corral.figures = Past()
    past.without = "gpus power"
    with tab(window, desk) as page:
        page.wait_for_selector(".trends .curve canvas")
        titles = page.locator(".trends figcaption").all_inner_texts()
        assert titles == ["Nodes", "Nodes by state", "CPUs", "Jobs", "Jobs by state"]
        label = page.locator(".trends .curve").nth(2).get_attribute("aria-label") or ""
        assert "all 8" in label
        assert "allocated 5" in label


@pytest.mark.parametrize("metrics", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_without_prometheus_there_is_what_the_page_saw(
    window: Any, desk: Desk, metrics: bool
) -> None:
    if metrics:
        desk.app.state.corral.figures = Metrics()
    with tab(window, desk) as page:
        page.wait_for_selector("h2:text-is('Since this page was opened')")
        assert page.locator(".trends").count() == 0
