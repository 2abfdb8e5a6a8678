"""A job that ended is edited and submitted again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.api import JobSpec, Recorded
from tests.browser.helper_double import Desk, desk

SCRIPT = "#!/bin/sh\n#SBATCH --nodes=1\npython train.py\n"


@pytest.fixture
def at(chromium: Any, tmp_path: Path) -> Iterator[Desk]:
    with desk(chromium, tmp_path) as view:
        at = view.job(1)
        at["job_state"], at["name"] = ["FAILED"], "train"
        view.rest.touch("jobs")
        yield view


def again(at: Desk) -> Any:
    at.open("job/1")
    at.page.click("a:text-is('Edit and submit again')")
    at.page.wait_for_selector("h2 >> text=Submit job 1 again")
    return at.page


def test_a_script_with_the_options_of_its_command_line(
    at: Desk, shoot: Callable[[Any, str], None]
) -> None:
    line = "sbatch --parsable -N 2 --gres=gpu:h200:4 --mem=64G -t 90 --export=ALL,A=1 train.sh"
    at.helper.recorded[1] = Recorded(SCRIPT, line)
    page = again(at)
    text = page.input_value("textarea")
    assert text.endswith("#SBATCH --mem=64G\n#SBATCH --time=90\npython train.py\n")
    page.wait_for_selector("small:text-is('from line 3 of the script')")
    assert page.input_value("input[name=nodes]") == "2"
    assert page.input_value("input[name=minutes]") == "90"
    assert page.input_value("input[name=name]") == "train"
    assert page.input_value("input[name=workdir]") == at.job(1)["current_working_directory"]
    assert "not carried over from the command line: --export=ALL,A=1" in page.inner_text(".notes")
    assert page.input_value("input[name=gpus]") == "h200:4"
    assert page.input_value("input[name=memory]") == "64G"
    shoot(page, "again-script")
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390


def test_a_job_of_the_form_is_the_form_again(at: Desk, shoot: Callable[[Any, str], None]) -> None:
    job = JobSpec.model_validate(
        {
            "command": ["sh", "-c", "echo 'a b'"],
            "nodes": 2,
            "env": {"A": "b c"},
            "array": "0-3",
            "time": "2h",
            "user": "kim",
            "environment": "lock.txt",
        }
    )
    at.helper.recorded[1] = Recorded(SCRIPT, "", job.model_dump(mode="json"))
    page = again(at)
    assert page.input_value("#field-nodes") == "2"
    assert page.input_value("#field-env") == '"A=b c"'
    assert page.input_value("#field-time") == "2h"
    assert page.input_value("#field-array") == "0-3"
    assert "environment lock.txt" in page.inner_text(".notes")
    page.click("text=Show the batch script")
    page.wait_for_selector("pre >> text=#SBATCH --array=0-3")
    shoot(page, "again-form")
    page.fill("#field-nodes", "2")
    page.fill("#field-command", "sh -c 'echo \"a b\"'")
    page.click("text=Show the batch script")
    page.wait_for_selector("pre >> text=#SBATCH --nodes=2")
    page.click("button:text-is('Submit')")
    page.wait_for_url(re.compile(r"#job/1$"))
    sent = [asked["fields"] for asked in at.helper.asked if asked["do"] == "submit"]
    assert sent == [
        {
            "command": ["sh", "-c", 'echo "a b"'],
            "nodes": 2,
            "env": {"A": "b c"},
            "array": "0-3",
            "time": "2h",
            "user": "kim",
        }
    ]


def test_what_a_job_used_of_what_it_was_given(at: Desk, shoot: Callable[[Any, str], None]) -> None:
    """The recorded job of accounting was cancelled after 2 s, with 20 MiB."""
    at.open("job/28")
    page = at.page
    card = page.locator(".card", has=page.locator("h2:text-is('Asked and used')"))
    card.wait_for()
    assert "1 MiB of 20 MiB, 7 %" in card.inner_text()
    shoot(page, "asked-used")
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390


def test_what_is_wrong_is_at_its_field(at: Desk, shoot: Callable[[Any, str], None]) -> None:
    at.open("submit")
    page = at.page
    page.fill("#field-command", "hostname")
    page.click("summary:text-is('More')")
    page.fill("#field-after", "tomorrow")
    page.click("summary:text-is('More')")
    page.click("text=Show the batch script")
    fault = page.locator("#fault-after")
    fault.wait_for()
    assert page.evaluate("document.activeElement.id") == "field-after"
    assert page.locator("#field-after").get_attribute("aria-invalid") == "true"
    shoot(page, "submit-fault")
    page.fill("#field-after", "")
    assert fault.count() == 0
