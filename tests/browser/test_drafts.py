"""Submit: what is typed is there again after Back, no secret is kept, and how many jobs go."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.api import TemplateFile, TemplateFolder
from tests.browser.conftest import wait_until
from tests.browser.helper_double import Desk, desk
from tests.browser.test_by_script import submitted

SCRIPT = "#!/bin/bash\n#SBATCH --array=0-9999%8\nsrun python train.py\n"
KEPT = "JSON.stringify(Object.entries(sessionStorage))"


@pytest.fixture
def at(chromium: Any, tmp_path: Path) -> Iterator[Desk]:
    with desk(chromium, tmp_path) as view:
        file = TemplateFile("train.yaml", "name: from-template\ncommand: ['true']\n")
        view.helper.templates = TemplateFolder("/shared/corral/templates", (file,))
        yield view


def back(at: Desk) -> Any:
    """Another page, and Back."""
    at.page.goto(f"{at.url}#jobs")
    at.page.wait_for_selector("tr[data-job]")
    at.page.go_back()
    return at.page


def test_a_script_is_there_again_after_its_job_was_looked_at(at: Desk) -> None:
    """The form was, and the script was gone."""
    at.open("submit")
    page = at.page
    page.click("button:text-is('By script')")
    page.wait_for_url("**/#submit?by=script")
    page.fill("textarea", SCRIPT)
    page.fill("input[name=minutes]", "7")
    page.wait_for_selector("p:has-text('10,000 jobs as one array, 8 of them at once at most.')")
    submitted(page, 200, {"id": 1})
    page.click("button:text-is('Submit')")
    page.wait_for_url(re.compile(r"#job/1$"))
    page.go_back()
    page.wait_for_selector("textarea")
    assert page.input_value("textarea") == SCRIPT
    assert page.input_value("input[name=minutes]") == "7"
    page.click("button:text-is('Start over')")
    wait_until(page, "document.querySelector('textarea').value.includes('hostname')")
    assert back(at).input_value("input[name=minutes]") == ""


def test_a_filled_form_and_its_template_are_there_again(at: Desk) -> None:
    at.open("submit")
    page = at.page
    page.fill("#field-name", "mine")
    page.fill("#field-env", "HF_TOKEN=hf_abc A=1")
    page.wait_for_selector("text=a secret seems to be in it: env.")
    back(at).wait_for_selector("#field-name")
    assert page.input_value("#field-name") == "mine"
    assert page.input_value("#field-env") == ""
    assert "hf_abc" not in page.evaluate(KEPT)
    page.select_option("#template", "train.yaml")
    page.wait_for_url("**/#submit?template=train.yaml")
    wait_until(page, "document.querySelector('#field-name').value === 'from-template'")
    page.fill("#field-time", "2:00:00")
    back(at).wait_for_selector("#field-name")
    assert page.input_value("#template") == "train.yaml"
    assert page.input_value("#field-name") == "from-template"
    assert page.input_value("#field-time") == "2:00:00"
    page.select_option("#template", "")
    wait_until(page, "document.querySelector('#field-name').value === 'mine'")


def test_a_script_with_a_secret_is_not_kept_and_the_page_states_it(at: Desk) -> None:
    at.open("submit?by=script")
    page = at.page
    page.fill("textarea", "#!/bin/sh\nexport HF_TOKEN=hf_abc\nsrun a\n")
    page.wait_for_selector("text=a secret seems to be in it: the script.")
    assert "hf_abc" not in page.evaluate(KEPT)
    page.fill("textarea", "#!/bin/sh\nsrun a\n")
    page.wait_for_selector("text=a secret seems to be in it", state="detached")
    assert "srun a" in page.evaluate(KEPT)


def test_nothing_is_kept_behind_a_logout(at: Desk) -> None:
    at.open("submit?by=script")
    at.page.fill("textarea", "#!/bin/sh\nsrun mine\n")
    wait_until(at.page, f"{KEPT}.includes('srun mine')")
    at.page.click("#logout")
    at.page.wait_for_selector("input[name=token]")
    assert "srun mine" not in at.page.evaluate(KEPT)


def test_who_submits_before_the_number_of_jobs_is_shown_is_asked(at: Desk) -> None:
    at.open("submit?by=script")
    page = at.page
    sent = submitted(page, 200, {"id": 1})
    page.fill("input[name=array]", "0-99:2")
    page.wait_for_selector("p:has-text('50 jobs as one array.')")
    page.fill("input[name=array]", "0-9999")
    page.click("button:text-is('Submit')")
    page.wait_for_selector("dialog >> text=Submit 10,000 jobs as one array?")
    page.click("dialog button:text-is('Back')")
    page.wait_for_selector("p:has-text('10,000 jobs as one array.')")
    assert not sent
    page.click("button:text-is('Submit')")
    page.wait_for_url(re.compile(r"#job/1$"))
    assert [body["array"] for body in sent] == ["0-9999"]
