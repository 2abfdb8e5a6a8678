"""Many tabs of one browser: it has six connections for all of them, and a stream holds one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import LIVE, wait_until
from tests.browser.helper_double import Desk, desk
from tests.browser.test_logs import BOX, STATUS, appended, job_of

SEEN = """(seen) => { Object.defineProperty(document, 'visibilityState',
  { value: seen, configurable: true }); document.dispatchEvent(new Event('visibilitychange')); }"""
"""Chromium without a window takes each tab for the one in front: what another one gets."""


@pytest.fixture
def at(chromium: Any, tmp_path: Path) -> Iterator[Desk]:
    with desk(chromium, tmp_path) as view:
        yield view


def front(page: Any) -> None:
    page.evaluate(SEEN, "visible")


def behind(page: Any) -> None:
    page.evaluate(SEEN, "hidden")


def test_eight_tabs_of_running_jobs(at: Desk, tmp_path: Path) -> None:
    """Each has two streams: with three tabs in front at once no question was answered."""
    folder = job_of(at, tmp_path, 1)
    tabs = [at.page, *(at.page.context.new_page() for _ in range(7))]
    for page in tabs:
        page.goto(f"{at.url}#job/1")
        page.wait_for_selector(f"{STATUS}:text-is('live')")
        behind(page)
    appended(folder / "rank-0.log", "while nobody looked\n")
    for page in tabs:
        front(page)
        page.wait_for_selector(".log >> text=while nobody looked")
        wait_until(page, LIVE)
        behind(page)


def test_who_reads_above_the_end_is_not_moved(at: Desk, tmp_path: Path) -> None:
    folder, page = job_of(at, tmp_path, 1), at.page
    rank = folder / "rank-0.log"
    appended(rank, "".join(f"line {n}\n" for n in range(200)))
    at.open("job/1")
    page.wait_for_selector(".log >> text=line 199")
    wait_until(page, f"{BOX}.scrollTop > 0")
    page.evaluate(f"{BOX}.scrollTop = 0")
    behind(page)
    appended(rank, "news\n")
    front(page)
    page.wait_for_selector(f"{STATUS} >> text=not in front")
    assert page.evaluate(f"{BOX}.scrollTop") == 0
    page.click("button:text-is('Jump to end')")
    page.wait_for_selector(".log >> text=news")
