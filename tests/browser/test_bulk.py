"""Arrays as one row that unfolds; several jobs or nodes chosen and changed together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import wait_until
from tests.browser.desk import Desk, DeskRest, pictures, served, tab, window

__all__ = ["window"]


@pytest.fixture
def desk() -> Iterator[Desk]:
    rest = DeskRest()
    for task in range(6):
        rest.add(1001 + task, array=1000, task=task, name="sweep-lr", nodes=f"gpu{task:03}")
    rest.add(
        1000,
        array=1000,
        tasks="6-127%8",
        name="sweep-lr",
        job_state=["PENDING"],
        nodes="",
        state_reason="Resources",
    )
    for number in range(30):
        state = "FAILED" if number % 7 == 6 else "RUNNING"
        rest.add(
            2000 + number,
            user_name="ada" if number % 3 else "kim",
            name=f"train-{number}",
            job_state=[state],
        )
    rest.nodes(12)
    with served(rest) as made:
        yield made


def test_an_array_is_one_row_that_unfolds(window: Any, desk: Desk) -> None:
    with tab(window, desk) as page:
        page.evaluate("location.hash = 'jobs'")
        row = page.locator("tr[data-array='1000']")
        row.wait_for()
        assert page.locator("tr[data-job='1003']").count() == 0
        assert "6 running" in row.inner_text()
        assert "122 pending" in row.inner_text()
        assert "128 tasks" in row.inner_text()
        assert page.locator("tr[data-job], tr[data-array]").count() == 31
        pictures(page, "jobs-folded")
        page.focus("button[data-key='fold 1000']")
        page.keyboard.press("Enter")
        page.wait_for_selector("tr.task[data-job='1003']")
        assert page.locator("tr.task").count() == 7
        pictures(page, "jobs-unfolded")
        page.keyboard.press("Enter")
        wait_until(page, "!document.querySelector('tr.task')")
        row.locator("a").click()
        wait_until(page, "location.hash === '#jobs/all?q=array%3D1000'")
        page.wait_for_selector("tr[data-job='1005']")
        assert page.locator("tr[data-array]").count() == 0
        page.go_back()
        page.wait_for_selector("tr[data-array='1000']")


def test_an_address_names_a_task_as_slurm_writes_it(window: Any, desk: Desk) -> None:
    """Another task was shown, without a word."""
    with tab(window, desk) as page:
        page.evaluate("location.hash = 'job/1000?task=1000_3'")
        page.wait_for_selector("h2 >> text=task 3, job 1000_3")
        assert page.locator("text=The address names").count() == 0
        page.evaluate("location.hash = 'job/1000?task=1000_99'")
        page.locator("text=The address names 1000_99, which is none of the listed").wait_for()


def test_chosen_rows_are_cancelled_after_a_question(window: Any, desk: Desk) -> None:
    desk.rest.refused.add("2003")
    with tab(window, desk) as page:
        page.evaluate("location.hash = 'jobs/all?q=user%3Dkim'")
        page.wait_for_selector("tr[data-array='1000']")
        page.check("[aria-label='Choose array 1000']")
        page.check("[aria-label='Choose job 2000']")
        page.check("[aria-label='Choose job 2003']")
        assert page.locator(".bulk b").inner_text() == "3 rows chosen"
        page.click(".bulk >> text=Cancel…")
        page.wait_for_selector("dialog")
        pictures(page, "jobs-cancel")
        assert page.locator("dialog h2").inner_text() == "Cancel 130 jobs?"
        assert "130 of kim." in page.locator("dialog p").inner_text()
        page.keyboard.press("Escape")
        wait_until(page, "!document.querySelector('dialog')")
        assert not desk.rest.sent
        page.click(".bulk >> text=Cancel…")
        page.click("dialog button[type=submit]")
        failures = page.locator(".failures")
        failures.wait_for()
        assert "1 job not changed" in failures.inner_text()
        assert "2003" in failures.inner_text()
        assert "already completing" in failures.inner_text()
        pictures(page, "jobs-failed")
        assert sorted(what for _, what, _, _ in desk.rest.sent) == [
            "job/1000",
            "job/2000",
            "job/2003",
        ]


def test_all_that_match_are_cancelled_and_others_jobs_are_left(window: Any, desk: Desk) -> None:
    with tab(window, desk) as page:
        page.evaluate("location.hash = 'jobs/running?q=train'")
        page.wait_for_selector("tr[data-job='2001']")
        assert page.locator("[aria-label='Choose job 2001']").count() == 0  # ada's
        page.check("[aria-label='Choose all of this page']")
        page.click(".bulk >> text=Cancel…")
        assert "of kim" in page.locator("dialog p").inner_text()
        page.keyboard.press("Escape")
    with tab(window, desk, "ola", "Administrator") as page:
        page.evaluate("location.hash = 'jobs/running?q=train'")
        page.wait_for_selector("tr[data-job='2001']")
        page.check("[aria-label='Choose all of this page']")
        page.click(".bulk >> text=Cancel…")
        text = page.locator("dialog p").inner_text()
        assert "of kim" in text
        assert "of ada" in text
        page.click("dialog button[type=submit]")
        wait_until(page, "!document.querySelector('tr[data-job]')")


def test_the_list_fits_a_phone(window: Any, desk: Desk) -> None:
    with tab(window, desk) as page:
        page.set_viewport_size({"width": 390, "height": 844})
        page.evaluate("location.hash = 'jobs'")
        page.wait_for_selector("tr[data-array='1000']")
        page.check("[aria-label='Choose array 1000']")
        page.wait_for_selector(".bulk")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
