"""Job files that are kept for all fill in the submit form; broken ones are listed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.api import Environments, TemplateFile, TemplateFolder
from corral.api.page.job_environments import Image
from tests.browser.helper_double import Desk, desk
from tests.browser.test_access import in_both_themes

FOLDER = "/shared/corral/templates"
FILES = (
    TemplateFile("train.yaml", "command: [python, train.py, 'a b']\nnodes: 2\ntime: 2h\n"),
    TemplateFile("sweep.yml", "command: [python, a.py, '{lr}']\nsweep: {lr: [1e-3, 3e-4]}\n"),
    TemplateFile("train.yaml", "command: [b]\nnodes: 3\n", account="vision", owner="ada"),
    TemplateFile("broken.yaml", "command: [a]\nnodse: 4\n"),
    TemplateFile("<img src=x onerror=alert(1)>.yaml", trouble="it belongs to kim"),
)


@pytest.fixture
def at(chromium: Any, tmp_path: Path) -> Iterator[Desk]:
    with desk(chromium, tmp_path) as view:
        view.helper.templates = TemplateFolder(FOLDER, FILES)
        yield view


def test_a_template_fills_the_form(at: Desk, shoot: Callable[[Any, str], None]) -> None:
    at.open("submit")
    page = at.page
    page.wait_for_selector("#template")
    faults = page.inner_text(".templates .notes")
    assert f"{FOLDER}/broken.yaml:2:1: nodse: no such field" in faults
    assert "<img src=x onerror=alert(1)>.yaml cannot be used: it belongs to kim" in faults
    assert page.locator("#template option").all_inner_texts() == [
        *("none", "train", "sweep"),
        "vision: train (of ada)",
    ]
    page.select_option("#template", "train.yaml")
    page.wait_for_function("document.querySelector('#field-nodes').value === '2'")
    assert page.input_value("#field-command") == 'python train.py "a b"'
    assert page.input_value("#field-time") == "2h"
    shoot(page, "templates")
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
    page.select_option("#template", "sweep.yml")
    page.wait_for_function("document.querySelector('#field-sweep').value === 'lr=1e-3,3e-4'")
    assert page.input_value("#field-time") == ""
    page.select_option("#template", "vision/train.yaml")
    page.wait_for_function("document.querySelector('#field-nodes').value === '3'")
    page.select_option("#template", "")
    page.wait_for_function("document.querySelector('#field-command').value === ''")
    page.select_option("#template", "train.yaml")
    page.fill("#field-nodes", "3")
    page.click("text=Show the batch script")
    page.wait_for_selector("pre >> text=#SBATCH --nodes=3")
    page.click("button:text-is('Submit')")
    page.wait_for_url(re.compile(r"#job/1$"))
    sent = [asked["fields"] for asked in at.helper.asked if asked["do"] == "submit"]
    command = ["python", "train.py", "a b"]
    assert sent == [{"command": command, "nodes": 3, "time": "2h", "user": "kim"}]


def test_a_folder_that_is_not_taken_is_stated(at: Desk) -> None:
    words = f"{FOLDER} belongs to kim and must be a folder of root"
    at.helper.templates = TemplateFolder(FOLDER, trouble=words)
    at.open("submit")
    at.page.wait_for_selector(".templates .notes")
    assert at.page.inner_text(".templates .notes") == f"Templates: {words}"
    at.page.wait_for_selector("#field-command")


def test_images_and_environments_are_offered_and_others_can_be_typed(at: Desk) -> None:
    image, python = Image("/shared/images/torch.sqsh", 5 << 30), "/shared/envs/torch"
    at.helper.environments = Environments((image,), (python,))
    at.open("submit")
    page = at.page
    page.wait_for_selector(".offers >> text=1 image on shared storage")
    page.wait_for_selector(".offers >> text=1 environment on shared storage")
    offered = """(name) => [...document.querySelector(`#field-${name}`).list.options]
      .map((option) => [option.value, option.label])"""
    assert page.evaluate(offered, "container") == [[image.path, f"{image.path} (5.4 GB)"]]
    assert page.evaluate(offered, "python") == [[python, ""]]
    assert not in_both_themes(page)
    typed = "nvcr.io/nvidia/pytorch:26.04-py3"
    page.fill("#field-container", typed)
    assert page.input_value("#field-container") == typed
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
