"""The list of jobs: what each row opens, its columns, and what its filter offers."""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import until, wait_until
from tests.browser.desk import Desk, DeskRest, pictures, served, tab, window
from tests.browser.test_access import in_both_themes

__all__ = ["window"]
TABS = ("all", "running", "waiting", "ended?days=30")
PAST = 4000
FORGOTTEN = 130
"""Tasks of an array that accounting alone remembers: more than one page of the list has."""


def of_accounting(rest: DeskRest) -> None:
    """An array that ended yesterday, and one job; slurmctld has forgotten both."""
    known = rest.bodies["past-job"]["body"]["jobs"][0]
    end = int(time.time()) - 30 * 3600
    ended = {**known["time"], "start": end - 60, "end": end}
    state = {"current": ["COMPLETED"], "reason": "None"}
    job = {**copy.deepcopy(known), "time": ended, "state": state, "user": "kim", "name": "bygone"}
    tasks = [
        {
            **copy.deepcopy(job),
            "job_id": PAST + task,
            "name": "sweep",
            "array": {
                **known["array"],
                "job_id": PAST,
                "task_id": {"set": True, "infinite": False, "number": task},
            },
        }
        for task in range(FORGOTTEN)
    ]
    rest.bodies["past-job"]["body"]["jobs"] = [job]
    for what in ("past", "past-user"):
        rest.bodies[what]["body"]["jobs"] = [job, *tasks]


@pytest.fixture
def desk() -> Iterator[Desk]:
    rest = DeskRest()
    for task in range(3):
        rest.add(1001 + task, array=1000, task=task, name="sweep-lr")
    pending = {"job_state": ["PENDING"], "nodes": "", "state_reason": "Resources"}
    rest.add(1000, array=1000, tasks="6-127%8", name="sweep-lr", **pending)
    rest.add(1500, name="waits", account="nlp", qos="high", **pending)
    rest.add(1600, name="long-train", user_name="ada", partition="long", account="vision")
    for task in range(2):
        state = {"job_state": ["FAILED"], "end_time": _at(-60)}
        rest.add(2000 + task, array=2000, task=task, name="over", user_name="ada", **state)
    rest.nodes(4)
    of_accounting(rest)
    with served(rest) as made:
        yield made


def _at(seconds: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": int(time.time()) + seconds}


def keys(page: Any) -> list[str]:
    return page.eval_on_selector_all(
        "table.jobs tbody tr", "(rows) => rows.map((row) => row.dataset.key)"
    )


def listed(page: Any, desk: Desk, address: str) -> list[str]:
    page.goto("about:blank")
    page.goto(f"{desk.url}#jobs/{address}")
    page.wait_for_selector("table.jobs tbody tr")
    return keys(page)


def test_what_a_row_opens_is_not_empty(window: Any, desk: Desk) -> None:
    """An array of the Ended tab led to the jobs that slurmctld knows, where it was not."""
    seen = set[str]()
    with tab(window, desk) as page:
        for address in TABS:
            for key in listed(page, desk, address):
                listed(page, desk, address)
                page.click(f"tr[data-key='{key}'] a.plain")
                if key.startswith("array "):
                    page.wait_for_url(re.compile(r"#jobs/\w+\?q=array%3D"))
                    row = f"tr[data-job] a.plain:text-matches('^{key[6:]}_')"
                    page.locator(row).first.wait_for()
                else:
                    page.wait_for_url(re.compile(rf"#job/{key}$"))
                    page.wait_for_selector("h1 .state")
                seen.add(key)
    assert {"array 1000", "array 2000", f"array {PAST}", "1500", "1600"} <= seen


def test_all_tasks_of_an_ended_array_are_reached_over_the_same_period(
    window: Any, desk: Desk
) -> None:
    with tab(window, desk) as page:
        listed(page, desk, "ended?days=30")
        page.click(f"tr[data-array='{PAST}'] td:nth-child(2)")
        page.wait_for_url(f"**/#jobs/ended?q=array%3D{PAST}&days=30")
        page.wait_for_selector(f"text=1 to 100 of {FORGOTTEN} jobs")
        page.click("text=Next page")
        page.wait_for_selector(f"text=101 to {FORGOTTEN} of")
        assert len(keys(page)) == FORGOTTEN - 100
        listed(page, desk, "ended?days=30&q=state%3Dcompleted")
        page.click(f"button[data-key='fold {PAST}']")
        page.click(f"text=All {FORGOTTEN} records of {PAST}")
        page.wait_for_selector(f"text=1 to 100 of {FORGOTTEN} jobs")
        assert "state%3Dcompleted+array%3D" in page.url


def test_columns_are_chosen_in_this_browser_and_order_the_list(window: Any, desk: Desk) -> None:
    with tab(window, desk) as page:
        listed(page, desk, "all")
        heads = page.locator("table.jobs th").all_inner_texts()
        assert not {"partition", "account", "QOS", "priority", "nodes"} & set(heads)
        page.click("summary:text-is('Columns')")
        for key in ("partition", "account", "qos", "priority", "node_count"):
            page.check(f"details.choice input[data-key={key}]")
        page.uncheck("details.choice input[data-key=cpus]")
        heads = page.locator("table.jobs th").all_inner_texts()
        assert {"partition", "account", "QOS", "priority", "nodes"} <= set(heads)
        assert "CPUs" not in heads
        assert "vision" in page.inner_text("tr[data-job='1600']")
        for key in ("partition", "account", "qos", "priority", "node_count"):
            page.click(f"th button[data-key='by {key}']")
            page.wait_for_selector("th[aria-sort=descending]")
            page.wait_for_url(f"**by={key}**")
        page.click("th button[data-key='by account']")
        until(page, lambda: keys(page)[0] == "1600", "vision is the last account")
        assert not in_both_themes(page)
        pictures(page, "jobs-columns")
        page.reload()
        page.wait_for_selector("th button[data-key='by partition']")
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.locator("th button[data-key='by partition']").is_hidden()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.set_viewport_size({"width": 1440, "height": 900})
        page.click("summary:text-is('Columns')")
        page.click("button:text-is('The usual ones')")
        page.wait_for_selector("th button[data-key='by partition']", state="detached")


def test_the_filter_offers_its_keys_and_values_by_keyboard(window: Any, desk: Desk) -> None:
    with tab(window, desk) as page:
        listed(page, desk, "all")
        press, field = page.keyboard.press, "input[type=search]"
        page.wait_for_function(
            "fetch('api/jobs/words', { headers: { 'X-CSRF-Token': "
            "localStorage.getItem('session') } }).then((reply) => reply.ok)"
        )
        press("/")
        offers = page.locator("[role=option]")
        page.keyboard.type("acc")
        page.wait_for_selector("[role=option]:text-is('account=')")
        press("ArrowDown")
        chosen = page.get_attribute(field, "aria-activedescendant")
        assert page.inner_text(f"#{chosen}") == "account="
        press("Enter")
        page.wait_for_selector("[role=option]:text-is('account=vision')")
        assert not in_both_themes(page)
        pictures(page, "jobs-offers")
        page.keyboard.type("vi")
        until(page, lambda: offers.all_inner_texts() == ["account=vision"], "one value")
        press("ArrowDown")
        press("Enter")
        assert page.input_value(field) == "account=vision "
        until(page, lambda: keys(page) == ["1600"], "the list is filtered")
        assert offers.count() == 0
        page.keyboard.type("stat")
        page.click("[role=option]:text-is('state=')")
        page.keyboard.type("run")
        page.click("[role=option]:text-is('state=running')")
        page.wait_for_url("**?q=account%3Dvision+state%3Drunning")
        press("ArrowDown")
        assert offers.count() == 10
        press("Escape")
        wait_until(page, "!document.querySelector('[role=option]')")
        assert page.input_value(field) == "account=vision state=running "


def test_the_filter_of_nodes_offers_too(window: Any, desk: Desk) -> None:
    with tab(window, desk) as page:
        for address in ("cluster", "timeline"):
            page.goto(f"{desk.url}#{address}")
            page.wait_for_selector("input[type=search]")
            page.fill("input[type=search]", "state=id")
            page.click("[role=option]:text-is('state=idle')")
            assert page.input_value("input[type=search]") == "state=idle "


def test_operators_are_led_to_the_work_of_a_user(window: Any, desk: Desk) -> None:
    """Its address had to be typed."""
    with tab(window, desk, "ola", "Operator") as page:
        listed(page, desk, "all")
        page.click("tr[data-job='1600'] a:text-is('ada')")
        page.wait_for_selector("h1:text-is('Work of ada')")
        page.goto(f"{desk.url}#job/1600")
        page.click("dd a:text-is('ada')")
        page.wait_for_selector("h1:text-is('Work of ada')")
        page.goto(f"{desk.url}#policy/accounts")
        page.wait_for_selector("tr[data-key] a:text-is('work')")
    with tab(window, desk) as page:
        listed(page, desk, "all")
        assert page.locator("a[href^='#mine/']").count() == 0
        page.goto(f"{desk.url}#job/1600")
        page.wait_for_selector("dt:text-is('user')")
        assert page.locator("a[href^='#mine/']").count() == 0


def test_a_job_leads_to_its_nodes_partition_and_account(window: Any, desk: Desk) -> None:
    job = desk.rest.bodies["jobs"]["body"]["jobs"][-3]
    job |= {
        **{"nodes": "gpu[000-002]", "wckey": "paper", "group_name": "team"},
        "tres_req_str": "cpu=2,mem=4G,node=3,billing=2,gres/gpu=6",
        "eligible_time": _at(-900),
    }
    desk.rest.touch("jobs")
    with tab(window, desk) as page:
        page.goto(f"{desk.url}#job/{job['job_id']}")
        page.wait_for_selector("dt:text-is('asked for')")
        words = page.inner_text("dl.facts")
        for text in ("group team", "paper", "3 nodes, 6 GPUs, 2 CPUs, 4.0 GiB", "eligible"):
            assert text in words, text
        pictures(page, "job-facts")
        page.click("dd a:text-is('long')")
        page.wait_for_url("**/#cluster?filter=partition%3Dlong")
        page.go_back()
        page.click("dd a:text-is('gpu001')")
        page.wait_for_selector("h1 >> text=gpu001")
        page.go_back()
        page.click("dd a:text-is('all 3')")
        page.wait_for_url("**/#cluster?filter=gpu%5B000-002%5D")
        until(page, lambda: page.locator(".node").count() == 3, "its nodes alone")
        page.go_back()
        page.click("dd a:text-is('vision')")
        page.wait_for_url("**/#policy/accounts?q=vision")


def test_a_node_has_its_kernel_processors_and_when_it_was_busy(window: Any, desk: Desk) -> None:
    for node in desk.rest.bodies["nodes"]["body"]["nodes"]:
        node |= {
            "architecture": "x86_64",
            "operating_system": "Linux 6.12.9-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.12.9-1",
            **{"sockets": 2, "cores": 48, "threads": 2, "last_busy": _at(-7200)},
        }
    with tab(window, desk) as page:
        page.goto(f"{desk.url}#node/gpu001")
        page.wait_for_selector("dt:text-is('kernel')")
        words = page.inner_text("dl.facts")
        assert "2 sockets x 48 cores x 2 threads, x86_64" in words
        assert "Linux 6.12.9-amd64" in words
        assert "(2 h ago)" in words
        pictures(page, "node-facts")
