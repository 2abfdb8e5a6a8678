"""An address shows the same to whoever opens it: after Back, in another tab, after another page."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from corral.web import app as app_module
from tests.browser.conftest import until
from tests.browser.helper_double import Desk, desk
from tests.browser.test_logs import job_of

MODULES = Path(app_module.__file__).parent / "static/js"
SHOWN = """() => JSON.stringify([location.hash,
  [...document.querySelectorAll('main :is(input, select, textarea)')].map((field) =>
    [field.getAttribute('aria-label') || field.name || field.id,
     field.type === 'checkbox' ? field.checked : field.value]),
  [...document.querySelectorAll('main :is([aria-pressed], [aria-current], [aria-expanded])')]
    .map((mark) => [mark.dataset.key || mark.textContent, mark.getAttribute('aria-pressed'),
      mark.getAttribute('aria-current'), mark.getAttribute('aria-expanded')]),
  [...document.querySelectorAll('main th[aria-sort]')].map((head) => head.textContent),
  [...document.querySelectorAll('main details')].map((part) => part.open),
  [...document.querySelectorAll('main :is(tr[data-key], .node)')].map((row) => row.dataset.key)])"""
"""What is chosen on a page, and the rows that are there by it."""
Choose = Callable[[Any], None]


def fill(selector: str, text: str) -> Choose:
    return lambda page: page.fill(selector, text)


def click(selector: str) -> Choose:
    return lambda page: page.click(selector)


def select(selector: str, value: str) -> Choose:
    return lambda page: page.select_option(selector, value)


@dataclass(frozen=True)
class Case:
    """A page with choices: the module that keeps its address, and what is done there."""

    module: str
    address: str
    ready: str
    choices: tuple[Choose, ...]
    kept: str


CASES = {
    "cluster": Case(
        "cluster/cluster.js", "cluster", ".node",
        (fill("input[type=search]", "node1"), select("[aria-label='Group nodes by']", "state")),
        r"#cluster\?filter=node1&by=state",
    ),
    "table": Case(
        "cluster/cluster.js", "cluster", "input[type=search]",
        (select("[aria-label='Show nodes']", "table"), click("th button[data-key='by CPUs']"),
         click("button[data-key='fold']")),
        r"#cluster\?view=table&order=-CPUs&fold=alike",
    ),
    "jobs": Case(
        "jobs/jobs.js", "jobs", "tr[data-job]",
        (click("button[data-key='running']"), fill("input[type=search]", "partition=main"),
         click("th button[data-key='by name']")),
        r"#jobs/running\?q=partition%3Dmain&by=name",
    ),
    "ended": Case(
        "jobs/jobs.js", "jobs/ended", "button[data-key='7']", (click("button[data-key='30']"),),
        r"#jobs/ended\?days=30",
    ),
    "arrays": Case(
        "jobs/jobs.js", "jobs", "button.fold", (click("button.fold"),), r"#jobs/all\?open=\d+",
    ),
    "mine": Case(
        "jobs/my_work.js", "mine", "button[data-key='30']", (click("button[data-key='30']"),),
        r"#mine\?days=30",
    ),
    "timeline": Case(
        "cluster/timeline.js", "timeline", "input[type=search]",
        (fill("input[type=search]", "node1"), click("button:text-is('Only with jobs')")),
        r"#timeline\?q=node1&nodes=used",
    ),
    "clusters": Case(
        "cluster/clusters.js", "clusters", "input[type=search]",
        (fill("input[type=search]", "kim"),), r"#clusters\?q=kim",
    ),
    "policy": Case(
        "cluster/policy.js", "policy/qos", "tr[data-key]", (fill("input[type=search]", "norm"),),
        r"#policy/qos\?q=norm",
    ),
    "reference": Case(
        "operations/reference.js", "api", "details.operation",
        (fill("input[type=search]", "token"), click("details.operation summary")),
        r"#api/operation/.*\?q=token",
    ),
    "submit": Case(
        "jobs/submit.js", "submit", "h2:text-is('Submit a job')",
        (click("button:text-is('By script')"),),
        r"#submit\?by=script",
    ),
    "array": Case(
        "jobs/array_page.js", "job/900", "select[aria-label=Task]",
        (select("select[aria-label=Task]", "901"),), r"#job/900\?task=901",
    ),
    "log": Case(
        "logs/log.js", "job/1", "select[aria-label=File]",
        (select("select[aria-label=File]", "rank-1"),), r"#job/1\?file=rank-1",
    ),
}  # fmt: skip


@pytest.fixture
def at(chromium: Any, tmp_path: Path) -> Iterator[Desk]:
    with desk(chromium, tmp_path) as view:
        job_of(view, tmp_path, 2)
        listed = view.rest.bodies["jobs"]["body"]["jobs"]
        for task in range(2):
            number = {"set": True, "infinite": False, "number": task}
            array = {"set": True, "infinite": False, "number": 900}
            fields = {"job_id": 900 + task, "array_job_id": array, "array_task_id": number}
            listed.append({**listed[0], **fields, "start_time": {**number, "number": time.time()}})
        view.rest.touch("jobs")
        yield view


def same(page: Any, other: Any, when: str) -> None:
    """Both show the same, once all that they ask for has come."""
    until(page, lambda: page.evaluate(SHOWN) == other.evaluate(SHOWN), f"the same {when}")


def test_each_module_that_keeps_an_address_is_here() -> None:
    sources = {str(path.relative_to(MODULES)): path.read_text() for path in MODULES.rglob("*.js")}
    keeping = {name for name, text in sources.items() if re.search(r"\bkeepAddress\(\w", text)}
    assert keeping - {"lib/view.js"} == {case.module for case in CASES.values()}


@pytest.mark.parametrize("name", CASES)
def test_back_and_another_tab_show_what_the_address_names(at: Desk, name: str) -> None:
    """The cluster view kept its last filter, whatever its address named."""
    case, page = CASES[name], at.page
    fresh = page.context.new_page()

    def opened(address: str) -> Any:
        fresh.goto("about:blank")
        fresh.goto(f"{at.url}{address}")
        fresh.wait_for_selector(case.ready)
        return fresh

    at.open(case.address)
    page.wait_for_selector(case.ready)
    page.evaluate("location.hash += '?'")  # one more of the history, which choices replace
    page.wait_for_selector(case.ready)
    for choose in case.choices:
        choose(page)
    page.wait_for_url(re.compile(f"{case.kept}$"))
    chosen = page.evaluate("location.hash")
    same(page, opened(chosen), "in another tab")
    page.evaluate("location.hash = 'tokens'")
    page.wait_for_selector("h1:text-is('Tokens')", state="attached")
    page.evaluate(f"location.hash = '{case.address}'")
    page.wait_for_selector(case.ready)
    same(page, opened(f"#{case.address}"), "where the address chooses nothing")
    page.go_back()
    page.wait_for_selector("h1:text-is('Tokens')", state="attached")
    page.go_back()
    page.wait_for_selector(case.ready)
    same(page, opened(chosen), "after Back")
    page.go_back()
    page.wait_for_selector(case.ready)
    same(page, opened(f"#{case.address}"), "at the first address")


def test_a_link_back_leads_to_the_list_as_it_was(at: Desk) -> None:
    page = at.page
    at.open("cluster?filter=node1")
    page.click(".node")
    page.click("text=← all nodes")
    page.wait_for_url("**/#cluster?filter=node1")
    at.open("jobs/running?q=partition%3Dmain")
    page.click("tr[data-job='1'] a")
    page.click("text=← all jobs")
    page.wait_for_url("**/#jobs/running?q=partition%3Dmain")
    page.click("nav a:text-is('Cluster')")
    page.wait_for_url("**/#cluster")
    page.wait_for_selector(".node")
    assert page.input_value("input[type=search]") == ""
