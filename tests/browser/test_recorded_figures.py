"""The page with the figures of two H200, recorded on 2026-11-30 (docs/measurements).

The server is as it is; the answers about one job are the recorded ones, over those of today's.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.browser.conftest import wait_until
from tests.browser.desk import DeskRest, served, tab, window

__all__ = ["window"]

RECORDED = json.loads(
    (Path(__file__).parents[1] / "recorded/gpu_machine/h200x2-page.json").read_text()
)


def test_a_jobs_page_has_the_curves_of_a_real_gpu(
    window: Any, shoot: Callable[[Any, str], None]
) -> None:
    rest = DeskRest()
    rest.nodes(2)
    rest.add(17, user_name="corral", name="round-2-0")

    def answer(route: Any) -> None:
        body = RECORDED.get(f"/api/{route.request.url.partition('/api/')[2]}")
        if body is None:
            route.continue_()
        else:
            today = route.fetch()
            route.fulfill(json={**(today.json() if today.ok else {}), **body})

    with served(rest, prometheus="http://127.0.0.1:9") as desk, tab(window, desk, "corral") as page:
        page.route("**/api/jobs/17**", answer)
        page.evaluate("location.hash = 'job/17'")
        wait_until(page, "document.querySelectorAll('.uplot canvas').length === 5")
        text = page.inner_text("body")
        use = page.get_attribute("figure.curve", "aria-label")
        shoot(page, "h200x2-job")
    assert "round-2-0" in text
    assert "GPU 0 " in use
