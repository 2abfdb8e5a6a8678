"""The page for everybody: axe's rules (WCAG 2 A and AA) on each page, and by keyboard alone."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from corral.hosts.quote import sh
from corral.slurm.states.nodes import NodeState
from corral.web.slurm.snapshot import node_kind
from tests.browser.conftest import Browser, Served, run_root, wait_until
from tests.browser.desk import NODES, NodeDict, other_nodes
from tests.browser.test_page import COUNTING, go, submit_script
from tests.embedded.conftest import Live

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}
MANY = 600
# Past jobs, known to accounting before the page asks: it keeps an answer for a minute. Without -S,
# sacct -s lists only those that end just now.
PAST = sh(
    "timeout 120 srun -n1 true && {{ timeout 120 srun -n1 false; true; }} && timeout 240 sh -c "
    "'until [ $(sacct -anXo state -s CD,F -S now-1hour -E now | sort -u | grep -c .) -ge 2 ]; "
    "do sleep 0.3; done'"
)


def violations(page: Any) -> list[str]:
    failures = Axe().run(page, options=RULES).response["violations"]
    return [
        f"{page.url}: {rule['id']}: {rule['help']}: {node['html'][:160]}: {node['failureSummary']}"
        for rule in failures
        for node in rule["nodes"]
    ]


def in_both_themes(page: Any) -> list[str]:
    """Violations of what is shown now, in light and in dark."""
    lines: list[str] = []
    for theme in ("light", "dark"):
        page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
        lines += [f"{theme}: {violation}" for violation in violations(page)]
    return lines


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_breaks_a_rule_of_axe(
    owner: Browser, served: Served, cluster: Live, theme: str
) -> None:
    run_root(cluster, cluster.controller, PAST)
    page = owner.page
    page.evaluate(f"localStorage.setItem('theme', '{theme}')")
    page.reload()
    # Still running when all pages have been looked at, however slow the machine is.
    job = submit_script(owner, served, COUNTING.replace("sleep 0.5", "sleep 9"), "seen by all")
    wrong: list[str] = []
    places = {
        "cluster": ".node",
        "jobs": "tr[data-job]",
        "submit": "#field-script",
        "proof": ".card",
        "jobs/ended": "tr[data-job]",
        "plan": "textarea",
        "history": ".card",
        "node/node1": "h1",
        f"job/{job}": ".log",
    }
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        for place, ready in places.items():
            go(owner, served, place)
            page.wait_for_selector(f"main {ready}")
            if place == "jobs/ended":
                page.wait_for_selector("tr[data-job] >> text=failed")
            assert page.evaluate("document.documentElement.dataset.theme") == theme
            wrong += violations(page)
    page.click("button:text-is('Cancel')")
    page.wait_for_selector("dialog[open]")
    wrong += violations(page)
    page.click("text=Cancel the job")
    page.wait_for_selector("h1 >> text=cancelled")
    go(owner, served, "doctor")
    page.wait_for_selector("main :is(article.finding, .state)")
    wrong += violations(page)
    assert not wrong, "\n".join(wrong)


def test_the_login_breaks_no_rule_of_axe(tab: Browser, served: Served) -> None:
    tab.page.goto(served.url)
    tab.page.wait_for_selector("input[name=token]")
    assert not violations(tab.page)


def focused(page: Any) -> str:
    return page.evaluate("document.activeElement.textContent.trim() || document.activeElement.name")


def tab_to(page: Any, text: str) -> None:
    """Press Tab until the element with ``text`` has the focus, visibly."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if focused(page).startswith(text):
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", text
            return
    pytest.fail(f"Tab never comes to {text}")


def test_by_keyboard_alone(owner: Browser, served: Served) -> None:
    """Find a node, read it; submit a job, cancel it; never a mouse."""
    page = owner.page
    press = page.keyboard.press
    press("Tab")
    assert focused(page) == "Skip to content"
    press("/")
    page.keyboard.type("node1")
    wait_until(page, "document.querySelectorAll('.node').length === 1")
    tab_to(page, "node1")
    press("Enter")
    page.wait_for_selector("h1 >> text=node1")
    press("s")
    page.wait_for_selector("#field-script")
    tab_to(page, "By script")
    press("Space")
    page.wait_for_selector("textarea[name=script]")
    tab_to(page, "script")
    press("Control+A")
    page.keyboard.type("#!/bin/sh\nsleep 300\n")
    tab_to(page, "Submit")
    press("Enter")
    page.wait_for_selector("h1 >> text=running")
    tab_to(page, "Cancel")
    press("Enter")
    page.wait_for_selector("dialog[open]")
    assert focused(page) == "Cancel the job"
    press("Enter")
    page.wait_for_selector("h1 >> text=cancelled")
    press("j")
    page.wait_for_selector("tr[data-job]")


@pytest.fixture
def crowded(owner: Browser, served: Served) -> Any:
    """The page as if the cluster had many nodes: its own, which news may come of, and copies."""
    page = owner.page

    def many(nodes: list[NodeDict]) -> list[NodeDict]:
        states = ("IDLE", "MIXED", "ALLOCATED", "IDLE+DRAIN", "DOWN")
        made = list(nodes)
        for number in range(len(nodes), MANY):
            state = states[number % len(states)]
            kind = node_kind(NodeState.parse(state))
            made.append({**nodes[0], "name": f"p{number:04}", "state": state, "kind": kind})
        return made

    other_nodes(page, many)
    page.reload()
    page.wait_for_selector("canvas.heat")
    yield page
    page.unroute(NODES)


def test_the_heat_map_by_keyboard(crowded: Any) -> None:
    page = crowded
    page.focus("canvas.heat")
    for key in ("ArrowRight", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert page.locator(".tip").inner_text().startswith("node2")
    page.keyboard.press("ArrowDown")
    below = page.locator(".tip").inner_text()[:5]
    assert int(below[1:]) > 10
    page.keyboard.press("End")
    assert page.locator(".tip").inner_text().startswith(f"p{MANY - 1:04}")
    page.evaluate("document.dispatchEvent(new Event('theme'))")  # a redraw keeps where one is
    page.wait_for_timeout(600)
    assert page.evaluate("document.activeElement.className") == "heat"
    page.keyboard.press("ArrowLeft")
    assert page.locator(".tip").inner_text().startswith(f"p{MANY - 2:04}")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"h1 >> text=p{MANY - 2:04}")


def test_states_are_distinct_without_colour(crowded: Any) -> None:
    """Drained is hollow, down is struck through: pixels of three squares, as grey."""
    page = crowded
    idle, drained, down = wait_until(  # its squares come with the browser's next frame
        page,
        """() => {
          const canvas = document.querySelector("canvas.heat"), pen = canvas.getContext("2d");
          const scale = devicePixelRatio || 1, side = 16;
          if (!pen.getImageData(0, 0, 1, 1).data[3]) return null;
          const at = (i, x, y) => { const [r, g, b] = pen.getImageData((i * side + x) * scale,
            y * scale, 1, 1).data; return Math.round(0.3 * r + 0.6 * g + 0.1 * b); };
          return [5, 3, 4].map((i) => [at(i, 0, 1), at(i, 6, 5), at(i, 1, 6)]);
        }""",
    )
    assert idle[0] == idle[1] == idle[2]
    assert abs(drained[0] - drained[1]) > 60
    assert abs(down[0] - down[2]) > 60


def test_doctors_fix_is_shown_applied_and_effective(
    owner: Browser, served: Served, cluster: Live
) -> None:
    """The button under the findings: its plan, the terminal's code, and the daemon runs again."""
    run_root(cluster, "node1", sh("systemctl stop slurmd"))
    try:
        page = go(owner, served, "doctor")
        page.wait_for_selector("article.finding >> text=Fix:")
        wrong = in_both_themes(page)
        shown = len(served.terminal)
        page.click("text=Show the plan that fixes this")
        page.wait_for_selector("text=Apply exactly this plan")
        assert "slurmd" in page.locator("main").inner_text()
        for summary in page.locator("main details > summary").all():
            summary.click()
        page.set_viewport_size({"width": 390, "height": 800})
        wrong += in_both_themes(page)
        page.fill("input[placeholder=code]", served.apply_code(shown))
        page.click("text=Apply exactly this plan")
        page.wait_for_selector(".state >> text=applied")
        assert run_root(cluster, "node1", sh("systemctl is-active slurmd")).strip() == "active"
        assert not wrong, "\n".join(wrong)
    finally:
        back = sh(
            "systemctl reset-failed slurmd; systemctl start slurmd; i=0; "
            "until sinfo -h -n node1 -o %T | grep -qE '^(idle|mix|alloc)'; do "
            "i=$((i+1)); [ $i -lt 40 ] || break; "
            "scontrol update nodename=node1 state=resume 2>/dev/null; sleep 1; done"
        )
        run_root(cluster, "node1", back)
