"""What pages show of a cluster that this one is not: heat, cost, many switches, a dead Slurm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from corral.hosts.quote import sh
from corral.spec.slurm.node_features import island_of
from corral.web.routes.view import figure_columns
from tests.browser.conftest import FETCHED, LIVE, OTHER, Browser, Served, run_root, wait_until
from tests.browser.desk import NodeDict, other_nodes
from tests.browser.test_page import go, log_in, owner_job
from tests.embedded.conftest import Live

__all__ = ["owner_job"]

FEATURES = {"m0": ["island-a", "rack-1"], "m1": ["island-a"], "m2": ["island-b"], "m3": []}
WARM = {"m1": {"celsius": 61.2, "watts": 402.5, "gpu": 0.93}}
HEADS = "[...document.querySelectorAll('section h3')].map((h) => h.firstChild.textContent)"


def fulfill(page: Any, path: str, body: object) -> None:
    page.route(f"**/api/{path}", lambda route: route.fulfill(json=body))


@pytest.fixture
def placed(owner: Browser) -> Any:
    """Four nodes more than there are, on two islands, with metrics."""
    page = owner.page

    def more(nodes: list[NodeDict]) -> list[NodeDict]:
        return [
            {**nodes[0], "name": name, "features": features, "island": island_of(features)}
            for name, features in FEATURES.items()
        ]

    other_nodes(page, more)
    fulfill(page, "figures?layout=columns", figure_columns(WARM))
    fulfill(page, "places", {"racks": {"m2": "switch-9"}})
    page.reload()
    page.wait_for_selector(".node[data-key=m0]")
    return page


def test_heat_and_power_of_each_node(placed: Any) -> None:
    page = placed
    page.wait_for_selector(".node[data-key=m1] >> text=61 °C · 403 W")
    assert "°C" not in page.locator(".node[data-key=m0]").inner_text()
    page.evaluate("location.hash = 'node/m1'")
    page.wait_for_selector("dt:text-is('temperature, power') + dd >> text=61 °C · 403 W")
    page.wait_for_selector("dt:text-is('GPUs work') + dd >> text=93 %")


@pytest.mark.parametrize(
    ("by", "heads"),
    [("island", ["a", "b", "no island"]), ("rack", ["rack-1", "switch-9", "no rack"])],
)
def test_nodes_stand_by_island_and_rack(placed: Any, by: str, heads: list[str]) -> None:
    page = placed
    page.select_option("[aria-label='Group nodes by']", by)
    wait_until(page, f"(heads) => heads.every((h) => {HEADS}.includes(h))", arg=heads)


def test_the_verdict_and_the_cost_stand_on_the_first_page(owner: Browser) -> None:
    page = owner.page
    results = [{"verdict": "pass"}, {"verdict": "fail"}]
    fulfill(page, "corral/proof", {"proof": {"at": 1.0, "good": False, "results": results}})
    cost = {"rented": True, "rate": "at least 3.50", "spent": "at least 12.25", "unpriced": 1}
    fulfill(page, "corral/cost", cost)
    page.reload()
    page.wait_for_selector(".state.bad >> text=proof failed")
    page.wait_for_selector("text=/2 checks .*, 1 failed/")
    tile = page.locator(".tile", has_text="an hour")
    assert "at least 3.50 $ an hour" in tile.inner_text()
    assert "at least 12.25 $ so far, 1 machine without a known price" in tile.inner_text()
    fulfill(page, "corral/proof", {"proof": {"at": 1.0, "good": True, "results": results[:1]}})
    page.reload()
    page.wait_for_selector(".state.good >> text=proven")


def test_a_file_is_uploaded_and_its_errors_stand_at_their_lines(
    owner: Browser, served: Served
) -> None:
    page = go(owner, served, "plan")
    before = page.locator("textarea").input_value()
    bad = before.replace("count: 2", "count: two")
    line = next(n for n, text in enumerate(bad.split("\n"), 1) if "count: two" in text)
    file = {"name": "other.yaml", "mimeType": "text/yaml", "buffer": bad.encode()}
    page.set_input_files("input[type=file]", file)
    page.wait_for_selector(f".finding.error button:text-is('line {line}')")
    assert page.locator(".gutter .err").first.inner_text().strip() == str(line)
    page.click(f".finding.error button:text-is('line {line}')")
    chosen = page.evaluate(
        "(() => { const a = document.querySelector('textarea'); "
        "return a.value.slice(a.selectionStart, a.selectionEnd); })()"
    )
    assert "count: two" in chosen
    assert "\n" not in chosen


def test_the_form_has_a_field_for_each_of_jobspecs(owner: Browser, served: Served) -> None:
    page = go(owner, served, "submit")
    page.wait_for_selector("#field-script")
    schema = page.evaluate(FETCHED, "jobs/form")["body"]["schema"]
    fields = page.evaluate("[...document.querySelectorAll('[id^=field-]')].map((f) => f.name)")
    assert sorted(fields) == sorted(schema["properties"])
    page.fill("#field-script", "/etc/passwd")
    page.click("text=Show the batch script")
    page.wait_for_selector(".toast.bad >> text=shared storage")


@pytest.fixture
def silent(cluster: Live, request: pytest.FixtureRequest) -> Iterator[Callable[[], None]]:
    """Stops a daemon of the controller's when called; it runs again at the end."""
    unit = request.param
    lead = cluster.controller

    def stop() -> None:
        run_root(cluster, lead, sh("timeout 120 systemctl stop {u}", u=unit))

    yield stop
    start = sh(
        "systemctl reset-failed {u}; systemctl start {u}; i=0; "
        "until timeout 20 sinfo -h >/dev/null 2>&1; do i=$((i+1)); "
        "[ $i -lt 60 ] || break; sleep 1; done",
        u=unit,
    )
    run_root(cluster, lead, start)


@pytest.mark.parametrize(
    "silent",
    ["slurmrestd", pytest.param("slurmctld", marks=pytest.mark.slow)],
    indirect=True,
)
def test_a_dead_slurm_leaves_the_last_known_state_with_its_age(
    owner: Browser, served: Served, cluster: Live, silent: Callable[[], None], request: Any
) -> None:
    page = owner.page
    wait_until(page, LIVE)
    silent()
    page.wait_for_selector("#banner >> text=This is the last known state")
    assert page.locator("#banner").inner_text().rstrip(".").endswith("old")
    page.wait_for_selector("#live.dead >> text=ago")
    assert page.locator(".node").count() == 3
    page.reload()  # who comes now sees it too
    page.wait_for_selector(".node")
    assert page.locator(".node").count() == 3
    page.wait_for_selector("#banner >> text=This is the last known state")
    unit = request.node.callspec.params["silent"]
    run_root(cluster, cluster.controller, sh("systemctl start {u}", u=unit))
    page.wait_for_selector("#banner", state="hidden")
    wait_until(page, LIVE)


def test_an_operator_ends_others_jobs_and_drains_nothing(
    served: Served, cluster: Live, people: Callable[[str], str], owner_job: int
) -> None:
    """Slurm's own levels: operators are for jobs, administrators for nodes too."""
    # slurmdbd sends it to slurmctld, a moment later.
    level = """sacctmgr -i -Q modify user {u} set adminlevel={to}
i=0; until scontrol show assoc_mgr flags=users users={u} | grep -qi "AdminLevel={to}"; do
  i=$((i+1)); [ $i -lt 60 ] || break; sleep 1; done"""
    run_root(cluster, cluster.controller, sh(level, u=OTHER, to="operator"))
    try:
        with httpx.Client(base_url=f"{served.url}api/", timeout=120, trust_env=False) as http:
            me = http.post("login", json={"token": people(OTHER)}).raise_for_status().json()
            assert (me["role"], me["owner"]) == ("operator", False)
            csrf = {"X-CSRF-Token": me["csrf"]}
            drain = {"do": "drain", "reason": "mine"}
            assert http.post("nodes/node2", json=drain, headers=csrf).status_code == 403
            assert http.get(f"jobs/{owner_job}/log", headers=csrf).status_code == 403
            ended = http.post(f"jobs/{owner_job}", json={"do": "cancel"}, headers=csrf)
            assert ended.status_code == 200, ended.text
            ask = sh(
                "i=0; until scontrol -o show job {n} | grep -o JobState=CANCELLED; do i=$((i+1)); "
                "[ $i -lt 60 ] || break; sleep 1; done",
                n=owner_job,
            )
            shown = run_root(cluster, cluster.controller, ask)
            assert shown.strip() == "JobState=CANCELLED"
            http.post("logout", json={}, headers=csrf)
    finally:
        run_root(cluster, cluster.controller, sh(level, u=OTHER, to="none"))


@pytest.mark.slow
def test_a_session_ends_with_its_token_while_its_page_is_open(
    tab: Browser, served: Served, people: Callable[..., str]
) -> None:
    page = log_in(tab, served, people(OTHER, 40))
    page.wait_for_selector(".node")
    page.wait_for_selector("text=Your session has ended.")
    assert page.locator(".node").count() == 0
