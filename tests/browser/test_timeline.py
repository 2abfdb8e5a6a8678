"""Jobs by node over a day: many nodes on one canvas, and those of a real cluster."""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import FETCHED, Browser, Served, until, wait_until
from tests.browser.desk import Desk, DeskRest, pictures, served, tab, window
from tests.browser.test_page import go, submit_script

__all__ = ["window"]
NODES = 1000
STATES = ("COMPLETED", "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "COMPLETED")
TIP = ".tip >> text="


def _fill(rest: DeskRest) -> None:
    """A day of jobs: of one node, of 16, two at once on a node, and some that are running."""
    like = rest.bodies["past"]["body"]["jobs"][0]
    at, jobs = int(time.time()), list[dict[str, Any]]()
    for n in range(600):
        job = copy.deepcopy(like)
        first, end = (n * 37) % NODES, at - (n * 977) % 80000
        nodes = (
            f"gpu[{first:03}-{min(NODES - 1, first + 15):03}]" if n % 9 == 0 else f"gpu{first:03}"
        )
        job |= {"job_id": 3000 + n, "name": f"train-{n}", "nodes": nodes, "array": {}}
        job["user"] = "kim" if n % 4 == 0 else "ada"
        job["state"] = {"current": [STATES[n % 6]], "reason": "None"}
        job["time"] |= {"start": end - 900 - (n * 613) % 20000, "end": end}
        jobs.append(job)
    rest.bodies["past"]["body"]["jobs"] = jobs
    for n in range(40):
        start = {"set": True, "infinite": False, "number": at - 600 - n * 500}
        rest.add(5000 + n, name=f"run-{n}", nodes=f"gpu{n // 2:03}", start_time=start)


@pytest.fixture
def desk() -> Iterator[Desk]:
    rest = DeskRest()
    rest.nodes(NODES)
    _fill(rest)
    with served(rest) as made:
        yield made


def test_a_day_of_many_nodes(window: Any, desk: Desk) -> None:
    with tab(window, desk) as page:
        page.keyboard.press("t")
        page.wait_for_selector("text=640 jobs")
        assert page.locator(".timeline canvas").count() == 1
        assert page.evaluate("document.querySelectorAll('.timeline *').length") < 100
        page.locator(".timeline canvas").focus()
        page.keyboard.press("ArrowDown")
        page.wait_for_selector(f"{TIP}/^gpu000 +\\d+ jobs/")
        page.keyboard.press("End")
        page.wait_for_selector(f"{TIP}/^gpu999/")
        assert page.evaluate("document.querySelector('.gantt').scrollTop") > 20000
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        page.wait_for_selector(f"{TIP}/^gpu000 .* to /")
        pictures(page, "timeline")
        page.click("button[data-key=week]")
        page.fill("input[type=search]", "gpu[010-019]")
        page.wait_for_function("location.hash.includes('span=week')")
        wait_until(page, "document.querySelector('.gantt').scrollHeight < 400")
        page.click("button:text-is('My jobs stand out')")
        page.click("button:text-is('Only with jobs')")
        assert re.search(r"#timeline\?span=week&q=gpu.*&nodes=used&jobs=mine", page.url)
        page.reload()
        page.wait_for_selector("button:text-is('My jobs stand out')[aria-pressed=true]")
        pictures(page, "timeline-mine")
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_job_of_the_cluster_on_its_node(owner: Browser, served: Served) -> None:
    job = submit_script(owner, served, "#!/bin/sh\nexit 3\n", "drawn")
    page = owner.page
    page.wait_for_selector("h1 >> text=failed")

    def drawn() -> dict[str, Any] | None:
        jobs = page.evaluate(FETCHED, "timeline?span=hour")["body"]["jobs"]
        return next((each for each in jobs if each["id"] == job and each["end_at"]), None)

    shown = until(page, drawn, "the job is drawn: an answer is kept for 30 s")
    assert (shown["state"], shown["kind"]) == ("FAILED", "bad")
    go(owner, served, "timeline?span=hour")
    canvas = page.locator(".timeline canvas")
    canvas.focus()
    page.keyboard.press("ArrowDown")
    node = page.evaluate(FETCHED, "timeline?span=hour")["body"]["nodes"][shown["runs"][0][0]]

    def went(key: str, words: str) -> bool:
        if words in page.locator(".tip").inner_text():
            return True
        page.keyboard.press(key)
        return False

    until(page, lambda: went("ArrowDown", node), "its node is reached by keys")
    until(page, lambda: went("ArrowRight", "drawn"), "the job is reached by keys")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(rf"#job/{job}"))
    page.wait_for_selector("h1 >> text=failed")
