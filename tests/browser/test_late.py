"""Answers that come late, and what a tab keeps of its session; the page over recorded answers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from corral import api
from tests.browser.conftest import patient, until, wait_until
from tests.browser.desk import NodeDict, other_nodes
from tests.embedded.test_page_limits import serving, slurmrestd
from tests.unit.web.fake import FakeRest

AGAIN = """async (name) => { const { live } = await import("/js/lib/event_stream.js");
  live.dispatchEvent(new CustomEvent(name, { detail: null })); }"""
FIRST_EVENT = "import('/js/lib/event_stream.js').then(({ now }) => now.head !== null)"
"""Nodes are shown by their own answer, which may come before it."""


@dataclass
class Light:
    """A tab of a page without a cluster, logged in as kim."""

    page: Any
    url: str
    rest: FakeRest
    held: list[Any] = field(default_factory=list)
    holding: list[Callable[[str], bool]] = field(default_factory=list)

    def hold(self, matches: Callable[[str], bool]) -> None:
        """Answers to these addresses wait until ``release``."""
        self.holding[:] = [matches]

    def wait_held(self, count: int) -> None:
        until(self.page, lambda: len(self.held) >= count, f"{count} requests")


@pytest.fixture
def light(chromium: Any) -> Iterator[Light]:
    with slurmrestd() as (rest, fake), serving(rest=rest) as served:
        context = patient(chromium, viewport={"width": 1280, "height": 800})
        page = context.new_page()
        view = Light(page, f"{served.url}/", fake)

        def handle(route: Any) -> None:
            if any(matches(route.request.url) for matches in view.holding):
                view.held.append(route)
            else:
                route.continue_()

        page.route("**/api/**", handle)
        page.goto(view.url)
        page.fill("input[name=token]", fake.login())
        page.click("text=Log in with the token")
        page.wait_for_selector(".node")
        wait_until(page, FIRST_EVENT)
        yield view
        context.close()


def test_a_tab_stays_logged_in_and_so_does_the_next(light: Light) -> None:
    page = light.page
    page.wait_for_selector("#live.on")
    page.reload()
    page.wait_for_selector(".node")
    other = page.context.new_page()
    other.goto(light.url)
    other.wait_for_selector(".node")
    other.wait_for_selector("#live.on")
    page.evaluate("localStorage.removeItem('session')")  # the cookie alone
    page.reload()
    page.wait_for_selector("input[name=token]")


def test_events_go_on_when_their_connection_broke(light: Light) -> None:
    page = light.page
    page.wait_for_selector("#live.on")
    page.context.set_offline(True)
    page.wait_for_timeout(500)
    page.evaluate("import('/js/lib/event_stream.js').then(({start}) => start())")
    page.wait_for_selector("#live.dead")
    page.context.set_offline(False)
    page.wait_for_selector("#live.on")


def test_a_filters_late_answer_is_not_shown_over_a_later_ones(light: Light) -> None:
    page = light.page
    page.goto(f"{light.url}#jobs")
    page.wait_for_selector("tr[data-job]")
    light.hold(lambda url: "partition" in url)
    page.fill("input[type=search]", "partition=main")
    light.wait_held(1)
    page.fill("input[type=search]", "nothing-has-this-name")
    page.wait_for_selector("text=No job matches.")
    late = light.held.pop()
    late.continue_()
    page.wait_for_timeout(700)
    assert page.locator("tr[data-job]").count() == 0
    # Nor is the error of an earlier one.
    light.hold(lambda url: "colour" in url)
    page.fill("input[type=search]", "colour=red")
    light.wait_held(1)
    page.fill("input[type=search]", "")
    page.wait_for_selector("tr[data-job]")
    light.held.pop().continue_()
    page.wait_for_timeout(700)
    assert "colour" not in page.locator("main").inner_text()


def test_a_jobs_late_answer_is_not_shown_over_a_later_ones(light: Light) -> None:
    page = light.page
    page.goto(f"{light.url}#job/1")
    page.wait_for_selector("h1 .state")
    light.hold(lambda url: url.endswith("/api/jobs/1"))
    page.evaluate(AGAIN, "jobs")
    light.wait_held(1)
    page.evaluate(AGAIN, "jobs")
    light.wait_held(2)
    early, late = light.held
    body = early.fetch().json()
    late.fulfill(json={**body, "state": "TIMEOUT"})
    page.wait_for_selector("h1 >> text=timeout")
    early.fulfill(json={**body, "state": "SUSPENDED"})
    page.wait_for_timeout(500)
    assert "timeout" in page.locator("h1 .state").inner_text()
    # Nor does it name a page that somebody went on to.
    light.held.clear()
    page.evaluate(AGAIN, "jobs")
    light.wait_held(1)
    page.goto(f"{light.url}#cluster")
    page.wait_for_selector(".node")
    light.held.pop().fulfill(json={**body, "name": "late-name"})
    page.wait_for_timeout(500)
    assert "late-name" not in page.title()


def test_a_script_that_was_not_shown_is_not_submitted(light: Light) -> None:
    page = light.page
    schema = api.JobSpec.model_json_schema()
    form = {"schema": schema, "can_spec": True, "why_no_spec": "", "storage": ["/shared"]}
    form |= {"containers": False, "recipients": []}
    page.route("**/api/jobs/form", lambda route: route.fulfill(json=form))
    page.evaluate("location.hash = 'submit'")
    page.wait_for_selector("#field-script")
    page.fill("#field-script", "/shared/train.py")
    light.hold(lambda url: url.endswith("/preview"))
    page.click("text=Show the batch script")
    light.wait_held(1)
    page.fill("#field-nodes", "3")
    light.held.pop().fulfill(json={"script": "#!/bin/sh\n# of one node"})
    page.wait_for_timeout(500)
    assert page.locator("button:text-is('Submit')").is_disabled()
    assert page.locator("text=of one node").count() == 0


def test_nodes_that_are_older_than_the_events_are_asked_for_again(light: Light) -> None:
    page = light.page
    light.hold(lambda url: "/api/nodes?" in url)
    page.evaluate("import('/js/lib/event_stream.js').then(({ loadNodes }) => { loadNodes(); })")
    light.wait_held(1)
    first = light.held[0]
    body = first.fetch().json()
    # The answer is aged, not the page's own count: each further event would set that again.
    first.fulfill(json={**body, "nodes_rev": body["nodes_rev"] - 1})
    light.wait_held(2)


SELECT = """(css) => { const range = document.createRange();
  range.selectNodeContents(document.querySelector(css));
  getSelection().removeAllRanges(); getSelection().addRange(range); }"""
SELECTED = "getSelection().toString().trim()"


@pytest.mark.parametrize("css", ["dl.facts dd:has(code)", "h1:has(.state)"])
def test_a_text_selected_on_a_running_jobs_page_stays(light: Light, css: str) -> None:
    page = light.page
    page.goto(f"{light.url}#job/1")
    page.wait_for_selector(css)
    page.evaluate(SELECT, css)
    before = page.evaluate(SELECTED)
    assert before
    page.evaluate(AGAIN, "jobs")
    page.wait_for_timeout(6000)  # a running job is drawn every 5 s
    assert page.evaluate(SELECTED) == before


def test_what_is_drawn_again_is_what_was_there(light: Light) -> None:
    """A row with the focus, a card under the pointer: the same elements after news."""
    page = light.page
    for place, css, news in (
        ("jobs", "tr[data-job]", "jobs"),
        ("cluster", ".node", "nodes"),
        ("node/node1", "h1:has(.state)", "nodes"),
        ("job/1", "h1:has(.state)", "jobs"),
    ):
        page.goto(f"{light.url}#{place}")
        page.wait_for_timeout(700)  # its sources come, and what is drawn after the first news
        page.wait_for_selector(css)
        page.evaluate("(css) => { window.before = document.querySelector(css); }", css)
        page.evaluate(AGAIN, news)
        page.wait_for_timeout(900)
        same = page.evaluate("(css) => window.before === document.querySelector(css)", css)
        assert same, place


def test_a_heat_map_names_the_node_under_the_pointer_after_a_resize(light: Light) -> None:
    page = light.page
    other_nodes(page, lambda nodes: [{**nodes[0], "name": f"n{n:04}"} for n in range(700)])
    page.goto(f"{light.url}#cluster")
    page.reload()
    page.wait_for_selector("canvas.heat")
    page.set_viewport_size({"width": 700, "height": 800})
    drawn = """() => { const canvas = document.querySelector("canvas.heat");
      const { width } = canvas.getBoundingClientRect();
      return width < 700 && Math.abs(canvas.width / devicePixelRatio - width) <= 1; }"""
    wait_until(page, drawn)
    box = page.locator("canvas.heat").first.bounding_box()
    across = int(box["width"] // 16)
    page.mouse.move(box["x"] + 3, box["y"] + 16 + 3)
    wait_until(
        page,
        "(name) => document.querySelector('.tip').textContent.startsWith(name)",
        arg=f"n{across:04}",
    )


def test_thousands_of_nodes_by_rack_are_squares(light: Light) -> None:
    """Cards of 10,000 nodes were 82,000 elements, and each change froze the page for seconds."""
    page = light.page

    def many(nodes: list[NodeDict]) -> list[NodeDict]:
        named = ({"name": f"n{n:04}", "features": [f"rack-{n // 16}"]} for n in range(2000))
        return [{**nodes[0], **fields} for fields in named]

    other_nodes(page, many)
    page.goto(f"{light.url}#cluster")
    page.reload()
    page.wait_for_selector("canvas.heat")
    page.select_option("[aria-label='Group nodes by']", "rack")
    wait_until(page, "document.querySelectorAll('.groups section').length === 125")
    assert page.evaluate("document.querySelectorAll('main *').length") < 2000


def test_heat_maps_are_drawn_when_they_come_into_view(light: Light) -> None:
    """All 250 of 10,000 nodes by rack were drawn at once: 0.6 s without a frame."""
    page = light.page

    def many(nodes: list[NodeDict]) -> list[NodeDict]:
        named = ({"name": f"n{n:04}", "features": [f"rack-{n // 70:03}"]} for n in range(7000))
        return [{**nodes[0], **fields} for fields in named]

    other_nodes(page, many)
    page.goto(f"{light.url}#cluster?by=rack")
    page.reload()
    drawn = "(name) => document.querySelector(`canvas[data-key='heat ${name}']`).width !== 300"
    wait_until(page, drawn, arg="rack-000")  # 300: as a browser makes it
    page.wait_for_timeout(300)
    assert not page.evaluate(drawn, "rack-099")
    height = "() => document.querySelector('main').scrollHeight"
    before = page.evaluate(height)
    page.locator("canvas[data-key='heat rack-099']").scroll_into_view_if_needed()
    wait_until(page, drawn, arg="rack-099")
    assert page.evaluate(height) == before


def test_a_job_is_shown_while_slurm_is_gone_and_again_as_it_is_then(light: Light) -> None:
    """Its page was blank, while the list had the job."""
    page = light.page
    page.goto(f"{light.url}#jobs")
    page.wait_for_selector("tr[data-job='1']")
    light.rest.down = True
    page.wait_for_selector("#banner >> text=slurmrestd does not answer")
    page.goto(f"{light.url}#job/1")
    page.wait_for_selector("h1:has(.state) >> text=running")
    page.wait_for_selector("text=this is what it reported at")
    light.rest.down = False
    page.locator("text=this is what it reported at").wait_for(state="detached")


def test_a_scripts_lines_fill_the_form_in(light: Light) -> None:
    """A script with an array and GPUs ran as one job without any."""
    page = light.page
    page.evaluate("location.hash = 'submit'")
    script = (
        "#!/bin/sh\n#SBATCH -J train --nodes=2\n#SBATCH --array=1-3 --mem=1G\n"
        "#SBATCH --gres=gpu:2 --constraint=fast\nls\n"
    )
    page.fill("textarea[name=script]", script)
    wait_until(page, "document.querySelector('input[name=name]').value === 'train'")
    assert page.input_value("input[name=nodes]") == "2"
    assert page.input_value("input[name=gpus]") == "2"
    page.wait_for_selector("text=from line 4 of the script")
    assert page.input_value("input[name=memory]") == "1G"
    page.wait_for_selector("li >> text=--constraint=fast")
    assert page.input_value("input[name=array]") == "1-3"
    page.fill("input[name=nodes]", "3")
    page.wait_for_selector("text=overrides line 2 of the script")
    page.fill("textarea[name=script]", script.replace("--array", "--no-such"))
    page.wait_for_selector("[role=alert] >> text=line 3")
    assert page.locator("form button:text-is('Submit')").is_disabled()
    assert page.input_value("input[name=nodes]") == "3"


def test_a_single_sample_has_an_axis_of_a_minute(light: Light) -> None:
    """The axis went on to 2029."""
    words = light.page.evaluate("""async () => {
      const written = [];
      const plain = CanvasRenderingContext2D.prototype.fillText;
      CanvasRenderingContext2D.prototype.fillText = function (text, ...more) {
        written.push(text);
        plain.call(this, text, ...more);
      };
      const { timeline } = await import("/js/lib/curves.js");
      const box = document.createElement("div");
      document.querySelector("main").append(box);
      const at = new Date(2026, 10, 25, 12, 0, 30).getTime() / 1000;
      await timeline(box, { at: [at], used: [1], running: [1] }, true);
      await new Promise((done) => setTimeout(done, 500));
      CanvasRenderingContext2D.prototype.fillText = plain;
      return written;
    }""")
    times = [word for word in words if re.fullmatch(r"\d\d:\d\d(:\d\d)?", word)]
    assert times
    assert all(word.startswith(("11:59", "12:00")) for word in times), words
    assert not [word for word in words if re.search(r"20\d\d|\d\d-\d\d", word)], words


def test_a_users_own_limit_is_named_as_it_is_and_gives_no_time(light: Light) -> None:
    """It was called the account's share, with the time of the backfill as a start."""
    page = light.page
    job = next(j for j in light.rest.bodies["jobs"]["body"]["jobs"] if j["job_id"] == 5)
    job["hold"], job["priority"] = False, {"set": True, "infinite": False, "number": 7}
    later = int(time.time()) + 3600
    job["job_state"], job["state_reason"] = ["PENDING"], "AssocGrpGRES"
    job["start_time"] = {"set": True, "infinite": False, "number": later}
    light.rest.touch("jobs")
    page.goto(f"{light.url}#job/5")
    page.wait_for_selector("text=limit on the running jobs of its user or account together")
    text = page.locator("main").inner_text()
    assert "may start" not in text
    assert "share" not in text
    job["state_reason"] = "Resources"
    light.rest.touch("jobs")
    page.wait_for_selector("dt:text-is('may start')")


def test_what_is_in_use_is_drawn_as_steps(light: Light) -> None:
    """A plot of slopes shows half a GPU in use for an hour."""
    page = light.page
    drawn = """async () => {
      const { timeline } = await import("/js/lib/curves.js");
      const box = document.createElement("div");
      document.body.append(box);
      const past = { at: [1000, 2000, 3000], used: [1, 8, 8], running: [null, null, null] };
      await timeline(box, past, true);
      const canvas = box.querySelector("canvas");
      const pen = canvas.getContext("2d");
      const probe = document.createElement("canvas").getContext("2d");
      probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--accent");
      probe.fillRect(0, 0, 1, 1);
      const ink = [...probe.getImageData(0, 0, 1, 1).data].join();
      const rows = (share) => {  // where the curve is in a column of pixels
        const x = Math.round(canvas.width * share);
        const column = pen.getImageData(x, 0, 1, canvas.height).data;
        const found = [];
        for (let y = 0; y < canvas.height; y += 1)
          if ([...column.slice(4 * y, 4 * y + 4)].join() === ink) found.push(y);
        return found; };
      return [rows(0.3), rows(0.4)]; }"""
    first, second = page.evaluate(drawn)
    assert first
    assert first == second


def test_back_restores_the_list_as_it_was_chosen(light: Light) -> None:
    page = light.page
    page.goto(f"{light.url}#jobs")
    page.wait_for_selector("tr[data-job]")
    page.fill("input[type=search]", "partition=main")
    page.click("button[data-key='running']")
    page.click("th button >> text=name")
    page.wait_for_url("**/#jobs/running?q=partition%3Dmain&by=name")
    page.click("tr[data-job='1'] a")
    page.wait_for_selector("h1:has(.state)")
    page.go_back()
    page.wait_for_selector("th[aria-sort] >> text=name")
    assert page.input_value("input[type=search]") == "partition=main"
    assert page.locator("button[data-key='running'][aria-pressed=true]").count() == 1
    page.goto(f"{light.url}#cluster?filter=node1&by=state")
    page.wait_for_selector(".node[data-key='node1']")
    assert page.locator(".node").count() == 1
    assert page.input_value("[aria-label='Group nodes by']") == "state"
