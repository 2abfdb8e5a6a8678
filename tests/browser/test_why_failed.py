"""The page of a job that failed: why, next to what; and what a job by form may choose."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.desk import pictures
from tests.browser.helper_double import Desk, desk
from tests.browser.test_access import in_both_themes

EVIL = "ValueError: \x1b[31m<img src=x onerror=alert(1)>\x1b[0m \u202eno such\x00 file"
TRACEBACK = f"""\
epoch 1
Traceback (most recent call last):
  File "/shared/train.py", line 3, in <module>
    main()
{EVIL}
"""


@pytest.fixture
def at(chromium: Any, tmp_path: Path) -> Iterator[Desk]:
    with desk(chromium, tmp_path) as view:
        folder = tmp_path / "job"
        folder.mkdir()
        (folder / "batch.log").write_text(TRACEBACK)
        view.helper.folders[1] = folder
        ended(view, "FAILED", 1)
        yield view


def ended(at: Desk, state: str, status: int) -> None:
    job = at.job(1)
    job["job_state"], job["state_reason"] = [state], "NonZeroExitCode"
    job["exit_code"]["return_code"]["number"] = status
    job["end_time"]["number"] = int(time.time())
    at.rest.touch("jobs")


def card(at: Desk, title: str) -> Any:
    shown = at.page.locator(".card", has=at.page.locator(f"h2:text-is('{title}')"))
    shown.wait_for()
    return shown


def test_a_failed_jobs_page_begins_with_why(at: Desk) -> None:
    at.open("job/1")
    why = card(at, "Why it failed")
    why.locator(".finding").wait_for(timeout=60_000)
    text = why.inner_text()
    assert "the job's own program failed" in text
    assert "at /shared/train.py line 3" in text
    assert "exit status 1" in text
    why.locator("summary:text-is('Evidence')").click()
    evidence = why.locator("pre").inner_text()
    assert "ValueError: <img src=x onerror=alert(1)>" in evidence
    assert evidence.replace("\n", "").isprintable()
    assert why.locator("img").count() == 0
    assert why.locator("a:text-is('Edit and submit again')").count() == 1
    assert at.page.locator("a:text-is('Edit and submit again')").count() == 1
    assert not in_both_themes(at.page)
    pictures(at.page, "job-failed")


def test_the_pages_width_is_used_and_a_phones_too(at: Desk) -> None:
    at.open("job/1")
    page = at.page
    card(at, "Why it failed").locator(".finding").wait_for(timeout=60_000)
    page.wait_for_selector(".log >> text=epoch 1")
    page.set_viewport_size({"width": 1440, "height": 900})
    facts = page.locator(".columns dl.facts").first
    log = page.locator(".log")
    left, right = facts.bounding_box(), log.bounding_box()
    assert left and right
    assert left["x"] + left["width"] < right["x"]
    assert left["y"] < right["y"] + right["height"] and right["y"] < left["y"] + left["height"]
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
    left, right = facts.bounding_box(), log.bounding_box()
    assert left and right
    assert left["y"] + left["height"] < right["y"]


def test_memory_is_what_was_asked_for_and_used(at: Desk) -> None:
    ended(at, "OUT_OF_MEMORY", 0)
    (at.helper.folders[1] / "batch.log").unlink()
    at.open("job/1")
    why = card(at, "Why it failed")
    why.locator(".finding").wait_for(timeout=60_000)
    text = why.inner_text()
    assert "the job used more memory than it asked for" in text
    assert "Without its output" in text
    assert "asked for, its use was not measured" in text or " used" in text


def test_what_is_free_and_when_a_job_would_start(at: Desk) -> None:
    at.open("submit")
    page = at.page
    page.wait_for_selector("select#field-partition")
    options = page.locator("#field-partition option").all_inner_texts()
    assert options[0].startswith("the default one")
    assert any("idle" in option and "free" in option for option in options[1:])
    at.helper.expected = {"start_at": int(time.time()) + 7200, "nodes": "node1"}
    page.fill("#field-command", "hostname")
    page.click("summary:text-is('More')")
    page.fill("#field-array", "0-11")
    page.fill("#field-at_once", "3")
    page.click("text=Show the batch script")
    page.wait_for_selector("text=12 jobs as one array, 3 of them at once at most.")
    page.wait_for_selector("text=/Slurm would start it at .* in (2 h 0|1 h 59) min on node1/")
    pictures(page, "submit")
    refused = {"code": "slurm-refused", "message": "Slurm refused it", "fields": {"qos": "no"}}
    at.helper.expected = {"error": refused}
    page.fill("#field-nodes", "1")
    page.click("text=Show the batch script")
    page.locator("#fault-qos").wait_for()
    assert page.evaluate("document.activeElement.id") == "field-qos"
