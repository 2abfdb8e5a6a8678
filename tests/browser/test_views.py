"""Each view at the width of a desk and of a phone, in light and in dark: nothing is cut or covered.

``CORRAL_TEST_PICTURES=DIR`` keeps a picture of each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.browser.conftest import LIVE, patient, until, wait_until
from tests.browser.desk import SIZES, Desk, DeskRest, pictures, served, tab, window
from tests.browser.views_world import busy, owned

__all__ = ["window"]

LOG = ".log >> text=step"
CONTRAST = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
USER = {
    "cluster": ".trends canvas",
    "cluster?filter=nothing": "text=No node matches",
    "cluster?filter=gpu00&by=state": ".node",
    "cluster?view=table": "tr[data-key]",
    "cluster?view=table&fold=alike&order=-GPUs": "tr[data-key]",
    "jobs": "tr[data-key]",
    "jobs/running": "tr[data-key]",
    "jobs/waiting": "tr[data-key]",
    "jobs/ended?days=30": "tr[data-key]",
    "jobs/all?q=user%3Dnobody": "text=No job matches",
    "job/3001": LOG,
    "job/3002": "text=why pending",
    "job/3004": ".finding",
    "job/3005": LOG,
    "job/3101": LOG,
    "job/3100": "h1",
    "job/424242": "h2",
    "node/gpu003": ".day .curve canvas",
    "node/gpu001": ".day .curve canvas",
    "node/none": "h2",
    "mine": "h2:text-is('Limits')",
    "timeline": "text=/^\\d+ jobs/",
    "submit": "#field-command",
    "submit?by=script": "textarea",
    "policy/accounts": "tr[data-key]",
    "policy/qos": "tr[data-key]",
    "policy/reservations": "tr[data-key]",
    "policy/licenses": ".few table",
    "policy/scheduler": "text=submitted",
    "api": "details.operation",
    "tokens": "text=There are no tokens",
}
OWNER = {
    "cluster": "text=Evidence",
    "proof": "text=GPU 3 of gpu001",
    "doctor": "article.finding",
    "plan": "text=It changes nothing",
    "history": "tr >> text=kim",
    "policy/accounts": "tr[data-key]",
    "mine": "h2:text-is('Limits')",
}

FAULTS = (Path(__file__).parent / "programs/faults.js").read_text().strip().rstrip(";")
"""What is wrong with a view, as measured in it."""
DRAWN = "new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))"
"""The page knows its size, and has drawn itself at it."""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with busy(tmp_path_factory.mktemp("busy")) as made:
        yield made


@pytest.fixture(scope="module")
def owners() -> Iterator[Desk]:
    with pytest.MonkeyPatch.context() as patch, owned(patch) as made:
        yield made


def opened(page: Any, desk: Desk, address: str, ready: str) -> None:
    page.goto("about:blank")
    page.goto(f"{desk.url}#{address}")
    page.locator(ready).first.wait_for()
    wait_until(page, LIVE)


def looked_at(page: Any, name: str) -> list[str]:
    """A picture of each size and theme; what is wrong there."""
    word = "".join(c if c.isalnum() else "-" for c in name)
    pictures(page, f"v-{word}")
    wrong: list[str] = []
    for width, height in SIZES.values():
        page.set_viewport_size({"width": width, "height": height})
        page.evaluate(DRAWN)
        wrong += [f"{width}: {fault}" for fault in page.evaluate(FAULTS)]
    for theme in ("light", "dark"):
        page.evaluate(f"document.documentElement.dataset.theme = {json.dumps(theme)}")
        axe = Axe().run(page, options=CONTRAST).response["violations"]
        wrong += [f"{theme}: {node['html'][:160]}" for rule in axe for node in rule["nodes"]]
    page.set_viewport_size({"width": 1440, "height": 900})
    return wrong


BROKEN = {
    "the page scrolls sideways": "<div style='width: 3000px; height: 1px'></div>",
    "an empty panel": "<section class=card><p style='height: 9px'></p></section>",
    "a log without a line or a sentence": "<pre class=log style='height: 9px'></pre>"
    "<style>pre.log::before { content: none !important }</style>",
    "another form of a time": "<p>2026-11-30T12:00</p>",
    "a legend covers curves": "<div class=uplot><div class=u-wrap style='height: 50px'></div>"
    "<div class=u-legend style='margin-top: -30px'>a</div></div>",
    "a text sticks out of its field": "<label style='display: block; width: 50px; overflow-wrap: "
    "normal'>a@example.org:begin,end,time_limit_80</label>",
    "too small for a finger": "<button style='width: 9px; height: 9px; padding: 0'></button>",
    "a table is cut at the right": "<div class=scroll style='width: 50px; overflow: auto'><table>"
    "<tr><td style='min-width: 500px'>a</td></tr></table></div>",
    "a number is not at the right": "<table><tr><td class=num style='text-align: left'>1</td>"
    "</tr></table>",
    "its tab is out of sight": "<style>nav a { transform: translateX(-3000px) }</style>",
}
"""What breaks each rule of programs/faults.js, as HTML at the end of the page's main part."""
INSERT = "(html) => document.querySelector('main').insertAdjacentHTML('beforeend', html)"


@pytest.mark.parametrize("rule", BROKEN)
def test_each_rule_finds_what_breaks_it(window: Any, desk: Desk, rule: str) -> None:
    width = 390 if rule == "too small for a finger" else 1440
    with tab(window, desk, bypass_csp=True) as page:
        page.set_viewport_size({"width": width, "height": 844})
        opened(page, desk, "policy/scheduler", USER["policy/scheduler"])
        page.evaluate(DRAWN)
        assert not page.evaluate(FAULTS)
        page.evaluate(INSERT, BROKEN[rule])
        assert any(fault.startswith(rule) for fault in page.evaluate(FAULTS))


def test_each_rule_is_broken() -> None:
    assert all(f'"{rule}"' in FAULTS for rule in BROKEN)
    assert FAULTS.count("each(") == len(BROKEN)


def test_views_of_a_user(window: Any, desk: Desk) -> None:
    wrong: dict[str, list[str]] = {}
    with tab(window, desk) as page:
        for address, ready in USER.items():
            opened(page, desk, address, ready)
            if faults := looked_at(page, address):
                wrong[address] = faults
    assert not wrong


def test_views_of_who_runs_corral(window: Any, owners: Desk) -> None:
    wrong: dict[str, list[str]] = {}
    with tab(window, owners) as page:
        for address, ready in OWNER.items():
            opened(page, owners, address, ready)
            if faults := looked_at(page, f"owner-{address}"):
                wrong[address] = faults
    assert not wrong


def test_a_plan_is_next_to_its_file(window: Any, owners: Desk) -> None:
    with tab(window, owners) as page:
        opened(page, owners, "plan", "textarea")
        page.click("button:text-is('Plan')")
        page.wait_for_selector("text=8 H200")
        assert not looked_at(page, "owner-planned")
        page.set_viewport_size({"width": 1440, "height": 900})
        file, plan = (
            page.locator(f".card:has(h2:text-is('{title}'))").bounding_box()
            for title in ("Cluster file", "Plan")
        )
        assert file["x"] + file["width"] < plan["x"]


def test_facts_curves_and_output_are_next_to_each_other(window: Any, desk: Desk) -> None:
    """All three are in the first picture of a running job, on a screen of 1440 x 900."""
    with tab(window, desk) as page:
        opened(page, desk, "job/3001", ".curve canvas")
        facts, curve, log = (
            page.locator(css).first.bounding_box() for css in ("dl.facts", ".curve canvas", ".log")
        )
        assert facts["x"] + facts["width"] < log["x"]
        assert facts["y"] + facts["height"] < curve["y"]
        assert curve["y"] + curve["height"] < 900
        assert log["y"] + log["height"] <= 900


def test_the_systems_theme_holds_until_one_is_chosen(window: Any, desk: Desk) -> None:
    shown = "document.documentElement.dataset.theme"
    with tab(window, desk) as page:
        page.evaluate("localStorage.removeItem('theme')")
        for scheme in ("dark", "light", "dark"):
            page.emulate_media(color_scheme=scheme)
            wait_until(page, f"{shown} === '{scheme}'")
        page.click("#theme")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate(shown) == "light"
        page.reload()
        wait_until(page, f"{shown} === 'light'")


def test_nodes_as_a_heat_map(window: Any) -> None:
    rest = DeskRest()
    rest.nodes(1200)
    with served(rest) as desk, tab(window, desk) as page:
        opened(page, desk, "cluster", "canvas.heat")
        assert not looked_at(page, "heat")


def test_an_empty_cluster(window: Any) -> None:
    rest = DeskRest()
    rest.nodes(2)
    for what in ("past", "past-user", "past-measured"):
        rest.bodies[what]["body"]["jobs"] = []
    ready = {
        "jobs": "text=The queue is empty",
        "jobs/ended": "text=No job matches",
        "mine": "text=No job is running",
        "timeline": ".timeline canvas",
    }
    with served(rest) as desk, tab(window, desk) as page:
        for address, css in ready.items():
            opened(page, desk, address, css)
            assert not looked_at(page, f"empty-{address}")


def test_slurm_is_gone(window: Any, tmp_path: Any) -> None:
    with busy(tmp_path) as desk, tab(window, desk) as page:
        opened(page, desk, "cluster", ".node")
        desk.rest.down = True
        page.wait_for_selector("#banner >> text=Slurm is not reached")
        assert not looked_at(page, "gone")


def test_the_login(window: Any) -> None:
    with served(DeskRest(), handover=["kim", "token"]) as desk:
        context = patient(window, viewport={"width": 1440, "height": 900}, locale="en-US")
        page = context.new_page()
        page.goto(desk.url)
        page.wait_for_selector("input[name=token]")
        page.fill("input[name=token]", "SLURM_JWT=wrong")
        page.click("text=Log in with the token")
        page.wait_for_selector("[role=alert]:not(:empty)")
        assert not looked_at(page, "login")
        context.close()


TIMES = "[...document.querySelectorAll('.curve .u-legend tr:first-child td')]"


def test_curves_show_one_time_and_keep_the_part_that_was_drawn_out(window: Any, desk: Desk) -> None:
    """Each had a separate cursor, and the next sample showed all of the time again."""
    with tab(window, desk) as page:
        opened(page, desk, "job/3001", ".curve canvas")
        over = page.locator(".curve .u-over")
        until(page, lambda: over.count() > 1, "several curves")
        over.first.scroll_into_view_if_needed()
        box = over.first.bounding_box()
        at = box["y"] + box["height"] / 2

        def time_at(share: float) -> str:
            page.mouse.move(box["x"] + box["width"] * share + 1, at)
            page.evaluate(DRAWN)
            times = page.evaluate(f"{TIMES}.map((cell) => cell.textContent)")
            assert len(times) > 1 and len(set(times)) == 1, times
            return times[0]

        start, part = time_at(0.01), time_at(0.4)
        assert start < part
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.6, at)
        page.mouse.up()
        assert start < time_at(0.01) <= part
        with page.expect_response("**/jobs/3001/figures"):
            pass
        page.wait_for_timeout(500)
        assert start < time_at(0.01) <= part
