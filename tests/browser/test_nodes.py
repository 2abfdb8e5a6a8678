"""Nodes in racks, as a table and on a full screen; what is drawn is a link."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from corral.spec.load import load_or_raise
from corral.spec.sections.racks import Rack
from tests.browser.conftest import until, wait_until
from tests.browser.desk import Desk, DeskRest, pictures, served, tab, window
from tests.unit.web.users.test_owner import EXAMPLES

__all__ = ["window"]
STATES = (["IDLE"], ["ALLOCATED"], ["MIXED"], ["IDLE", "DRAIN"], ["DOWN"])
LINES = (
    Rack(name="a1", nodes="gpu[000-003]", height=8, unit=3, row="east"),
    Rack(name="a2", nodes="gpu[004-007]", height=8, unit=3, row="east"),
    Rack(name="a2", nodes="login1", unit=42),
    Rack(name="b1", nodes="gpu[008-027]", across=2, height=2, row="west"),
)
UNITS = "(name) => document.querySelector(`canvas[data-key='rack ${name}']`)"
DRAWN = f"(name) => ({UNITS})(name).width !== 300"  # 300: as a browser makes it
TIP = "document.querySelector('.tip').textContent"


def racked(*lines: Rack) -> dict[str, Any]:
    spec = load_or_raise(EXAMPLES / "laptop.yaml").model_copy(update={"racks": lines})
    return spec.model_dump(mode="json")


def mixed(count: int) -> DeskRest:
    """A number of nodes in all states."""
    rest = DeskRest()
    rest.nodes(count)
    for n, node in enumerate(rest.bodies["nodes"]["body"]["nodes"]):
        node["state"] = STATES[n % 5]
        node["alloc_cpus"] = n % 5
        node["reason"] = "fan" if n % 5 == 3 else ""
    return rest


@pytest.fixture
def desk() -> Iterator[Desk]:
    with served(mixed(32), spec=racked(*LINES)) as made:
        yield made


def go(page: Any, desk: Desk, address: str, ready: str) -> None:
    page.goto("about:blank")
    page.goto(f"{desk.url}#{address}")
    page.wait_for_selector(ready)


def middle(page: Any, css: str, x: float = 0.5, y: float = 0.5) -> tuple[float, float]:
    page.locator(css).first.evaluate("(element) => element.scrollIntoView({ block: 'center' })")
    box = page.locator(css).first.bounding_box()
    return box["x"] + x * box["width"], box["y"] + y * box["height"]


def opens_in_a_tab(page: Any, at: tuple[float, float], address: str) -> None:
    """By Ctrl and by the middle button, as links do; this tab stays where it is."""
    before = page.url
    for button in ("left", "middle"):
        page.mouse.move(*at)
        with page.context.expect_page() as opened:
            if button == "left":
                page.keyboard.down("Control")
            page.mouse.click(*at, button=button)
            page.keyboard.up("Control")
        opened.value.wait_for_url(f"**/#{address}")
        opened.value.close()
    assert page.url == before


def test_racks_are_drawn_as_the_file_declares_them(window: Any, desk: Desk) -> None:
    with tab(window, desk) as page:
        page.select_option("[aria-label='Show nodes']", "racks")
        page.wait_for_selector("canvas.rack")
        assert page.url.endswith("#cluster?view=racks")
        names = page.locator(".racks figcaption").all_inner_texts()
        assert names == ["a1", "a2", "b1"]
        assert page.locator(".racks h3").all_inner_texts() == ["east", "west"]
        wait_until(page, DRAWN, arg="b1")
        pictures(page, "racks")
        # Units 3 to 10 of 42 are the lowest node.
        page.mouse.move(*middle(page, "[data-key='rack a1']", y=1 - 6.5 / 42))
        wait_until(page, f"{TIP}.includes('gpu000') && {TIP}.includes('rack a1, units 3 to 10')")
        page.mouse.move(*middle(page, "[data-key='rack a2']", y=0.5 / 42))
        wait_until(page, f"{TIP}.includes('login1  Slurm does not know it')")
        page.mouse.move(*middle(page, "[data-key='rack a1']", y=1 / 42))
        wait_until(page, f"{TIP}.trim() === ''")
        assert "4 nodes" in page.locator(".elsewhere h3").inner_text()
        opens_in_a_tab(page, middle(page, "[data-key='rack a1']", y=1 - 6.5 / 42), "node/gpu000")
        page.mouse.click(*middle(page, "[data-key='rack b1']", x=0.4, y=1 - 1 / 42))
        page.wait_for_selector("h1 >> text=gpu008")


def test_racks_by_keyboard(window: Any, desk: Desk) -> None:
    with tab(window, desk) as page:
        go(page, desk, "cluster?view=racks", "canvas.rack")
        page.keyboard.press("Tab")
        reach = "document.activeElement.dataset.key === 'rack a1'"
        until(
            page,
            lambda: page.evaluate(reach) or page.keyboard.press("Tab"),
            "Tab leads to the first rack",
        )
        for key, name in (
            *(("ArrowDown", "gpu003"), ("ArrowDown", "gpu002"), ("ArrowRight", "gpu006")),
            *(("ArrowRight", "gpu02"), ("ArrowRight", "gpu02"), ("End", "gpu009")),
        ):
            page.keyboard.press(key)
            wait_until(page, f"(name) => {TIP}.startsWith(name)", arg=name)
        focused = page.evaluate("document.activeElement.dataset.key")
        assert focused == "rack b1"
        assert page.locator("canvas.rack[tabindex='0']").count() == 1
        page.keyboard.press("Enter")
        page.wait_for_selector("h1 >> text=gpu009")


def test_a_filter_makes_other_nodes_pale_in_their_racks(window: Any, desk: Desk) -> None:
    ink = f"""(name) => {{ const canvas = ({UNITS})(name); const pen = canvas.getContext("2d");
      const y = Math.round(canvas.height * (1 - 3.5 / 42)), x = Math.round(canvas.width * 0.3);
      return [...pen.getImageData(x, y, 1, 1).data].slice(0, 3).join(" "); }}"""
    with tab(window, desk) as page:
        go(page, desk, "cluster?view=racks", "canvas.rack")
        wait_until(page, DRAWN, arg="a1")
        before = page.evaluate(ink, "a1")
        page.fill("input[type=search]", "gpu001")
        wait_until(page, f"(before) => ({ink})('a1') !== before", arg=before)
        assert page.locator("canvas.rack").count() == 3


def test_without_racks_there_is_no_such_choice(window: Any) -> None:
    with served(mixed(4), spec=racked()) as desk, tab(window, desk) as page:
        page.wait_for_selector("[aria-label='Show nodes']")
        options = page.locator("[aria-label='Show nodes'] option").all_inner_texts()
        assert options == ["as a map", "as a table"]
        go(page, desk, "cluster?view=racks", "text=The cluster file declares no racks")


def test_racks_of_10000_nodes_are_drawn_where_they_are_in_view(window: Any) -> None:
    rest = DeskRest()
    node = rest.bodies["nodes"]["body"]["nodes"][0]
    rest.bodies["nodes"]["body"]["nodes"] = [{**node, "name": f"n{n:05}"} for n in range(10_000)]
    lines = [Rack(name=f"r{n:03}", nodes=f"n[{40 * n:05}-{40 * n + 39:05}]") for n in range(250)]
    with served(rest, spec=racked(*lines)) as desk, tab(window, desk) as page:
        page.set_viewport_size({"width": 390, "height": 844})
        go(page, desk, "cluster?view=racks", "canvas.rack")
        wait_until(page, DRAWN, arg="r000")
        page.wait_for_timeout(300)
        assert not page.evaluate(DRAWN, "r249")
        page.locator("canvas[data-key='rack r249']").scroll_into_view_if_needed()
        wait_until(page, DRAWN, arg="r249")
        assert page.evaluate("document.querySelectorAll('main *').length") < 1500
        begin = time.monotonic()
        page.mouse.move(*middle(page, "[data-key='rack r249']", y=1 - 0.5 / 42))
        wait_until(page, f"{TIP}.startsWith('n09960')")
        assert time.monotonic() - begin < 60


def test_nodes_as_a_table(window: Any) -> None:
    with served(mixed(250)) as desk, tab(window, desk) as page:
        page.select_option("[aria-label='Show nodes']", "table")
        page.wait_for_selector("text=1 to 100 of 250 nodes")
        rows = page.locator("tr[data-key]")
        assert rows.count() == 100
        page.click("th button[data-key='by CPUs']")
        page.wait_for_selector("th[aria-sort=descending] >> text=CPUs")
        assert rows.first.inner_text().split()[0] == "gpu004"
        page.click("text=Next page")
        page.wait_for_selector("text=101 to 200 of 250 nodes")
        assert page.url.endswith("#cluster?view=table&order=-CPUs&page=2")
        page.fill("input[type=search]", "state=drain")
        page.wait_for_selector("text=/^50 nodes$/")
        page.click("text=Fold nodes that are alike")
        page.wait_for_selector("text=/^1 row, 50 nodes$/")
        pictures(page, "node-table")
        page.click("tr[data-key] a")
        page.wait_for_selector("text=/^50 nodes$/")
        assert rows.count() == 50
        rows.first.click()
        page.wait_for_selector("h1 >> text=gpu003")
        page.go_back()
        page.wait_for_selector("text=/^50 nodes$/")


def test_the_map_fills_the_screen_and_has_names(window: Any) -> None:
    with served(mixed(150)) as desk, tab(window, desk) as page:
        go(page, desk, "cluster?by=none", "canvas.heat")
        height = "document.querySelector('canvas.heat').clientHeight"
        before = page.evaluate(height)
        page.focus("button:text-is('Full screen')")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=Leave the full screen")
        wait_until(page, f"{height} > {2 * before}")
        page.focus("canvas.heat")
        page.keyboard.press("ArrowRight")
        wait_until(page, f"{TIP}.startsWith('gpu000')")
        pictures(page, "full-screen")
        page.evaluate("document.exitFullscreen()")  # what the browser does at Esc
        page.wait_for_selector("button:text-is('Full screen')")
        wait_until(page, f"{height} === {before}")


def test_a_square_opens_its_node_in_another_tab(window: Any) -> None:
    with served(mixed(700)) as desk, tab(window, desk) as page:
        go(page, desk, "cluster?by=none", "canvas.heat")
        box = page.locator("canvas.heat").bounding_box()
        opens_in_a_tab(page, (box["x"] + 18, box["y"] + 4), "node/gpu001")


def test_small_groups_share_a_row(window: Any) -> None:
    rest = mixed(10)
    with served(rest) as desk, tab(window, desk) as page:
        go(page, desk, "cluster?by=state", ".node")
        tops = "[...document.querySelectorAll('.groups > section')].map((s) => s.offsetTop)"
        wait_until(page, f"{tops}.length === 5")
        assert len(set(page.evaluate(tops))) == 3
        page.set_viewport_size({"width": 390, "height": 844})
        wait_until(page, f"new Set({tops}).size === 5")


def test_a_bar_of_the_timeline_opens_its_job_in_another_tab(window: Any) -> None:
    rest = mixed(3)
    rest.bodies["past"]["body"]["jobs"] = []
    start = {"set": True, "infinite": False, "number": int(time.time()) - 80_000}
    rest.add(77, nodes="gpu001", name="long", start_time=start)
    rest.add(78, nodes="gpu002", name="other", start_time=start)
    with served(rest) as desk, tab(window, desk) as page:
        go(page, desk, "timeline", "text=/^2 jobs, /")
        canvas = page.locator(".timeline canvas").bounding_box()
        at = (canvas["x"] + canvas["width"] * 0.7, canvas["y"] + 26 + 26 + 13)
        opens_in_a_tab(page, at, "job/77")
        opens_in_a_tab(page, (canvas["x"] + 20, at[1]), "node/gpu001")
        page.fill("input[type=search]", "gpu001")
        page.wait_for_selector("text=/^1 of 2 jobs on 1 of 3 nodes, /")
