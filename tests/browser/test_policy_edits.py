"""Accounts, users, reservations and licences changed by click: an edit of the cluster file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral import api
from corral.hosts.quote import Script, sh
from corral.plan.model import NodeChange, Plan, Stage
from corral.spec.impacts import Impact
from corral.state.base import Change
from corral.web.routes import owner as owner_routes
from tests.browser.conftest import Browser, Served, Terminal, run_root
from tests.browser.desk import Desk, DeskRest, pictures, served, tab, window
from tests.browser.test_page import go
from tests.embedded.conftest import Live
from tests.unit.web.users.test_owner import EXAMPLES

__all__ = ["window"]

FILE = """\
# the desk's cluster
users:
  - {name: kim, uid: 2001, account: vision, limits: {gpus: 1}}   # since May
accounts:
  - {name: research}
  - {name: vision, parent: research, limits: {gpus: 32, cpus: 30}}
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    file = tmp_path / "laptop.yaml"
    file.write_text((EXAMPLES / "laptop.yaml").read_text() + FILE)
    spec = api.load(file)

    async def plan(declared: object, emit: object) -> Plan:
        change = Change("slurm-accounts:lab", "accounts: 1 set", "", "x", sh("true"), Impact.NONE)
        people = Stage("people", "People", (NodeChange(("node0",), change),))
        return Plan("laptop", "a", "b", stages=(people,))

    async def apply(declared: object, agreed: Plan, emit: object) -> None:
        pass

    monkeypatch.setattr(owner_routes.api, "plan", plan, raising=False)
    monkeypatch.setattr(owner_routes.api, "apply", apply, raising=False)
    with served(DeskRest(), spec=spec.model_dump(mode="json"), source=str(file)) as made:
        yield made


def source(desk: Desk) -> Path:
    return Path(desk.app.state.corral.settings.source)


def test_a_limit_is_changed_and_what_is_by_hand_is_marked(
    window: Any, desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    file = source(desk)
    with tab(window, desk, role="Administrator") as page:
        page.goto(f"{desk.url}#policy/accounts")
        row = page.locator("tr[data-key='vision kim ']")
        row.locator("button:text-is('Change')").wait_for()
        vision = page.locator("tr[data-key='vision  ']")
        assert "by hand" in vision.inner_text(), "31 CPUs in Slurm, 30 in the file"
        idle = page.locator("tr[data-key='idle  ']")
        assert idle.locator("button").count() == 0
        assert "by hand" in idle.inner_text()
        row.locator("button:text-is('Change')").click()
        dialog = page.locator("dialog")
        assert dialog.locator("input[name='limits.gpus']").input_value() == "1"
        dialog.locator("input[name='limits.gpus']").fill("4")
        dialog.locator("button:text-is('Show what changes')").click()
        page.locator("text=Apply exactly this plan").wait_for()
        diff = page.locator("pre.mono").inner_text()
        assert (
            "+  - {name: kim, uid: 2001, account: vision, limits: {gpus: 4}}   # since May" in diff
        )
        assert "gpus: 1" in file.read_text()
        pictures(page, "policy-edit")
        page.fill("input[placeholder=code]", capsys.readouterr().err.rpartition(": ")[2].strip())
        page.click("text=Apply exactly this plan")
        page.locator(".state >> text=applied").wait_for()
        assert "limits: {gpus: 4}}   # since May" in file.read_text()
        row.locator("button:text-is('Change')").click()
        assert dialog.locator("input[name='limits.gpus']").input_value() == "4"
        dialog.locator("button:text-is('Back')").click()


def test_errors_are_the_files_and_somebody_elses_change_is_kept(window: Any, desk: Desk) -> None:
    file = source(desk)
    with tab(window, desk, role="Administrator") as page:
        page.goto(f"{desk.url}#policy/reservations")
        page.locator("tr[data-key=course]").wait_for()
        pictures(page, "reservations")
        page.goto(f"{desk.url}#policy/licenses")
        page.locator("th", has_text="reserved").wait_for()
        pictures(page, "licences")
        page.goto(f"{desk.url}#policy/reservations")
        page.click("button:text-is('Add a reservation')")
        dialog = page.locator("dialog")
        dialog.locator("input[name=name]").fill("upgrade")
        dialog.locator("input[name=start]").fill("tomorrow")
        dialog.locator("input[name=duration]").fill("4")
        dialog.locator("button:text-is('Show what changes')").click()
        page.locator(".finding.error").first.wait_for()
        assert page.locator("text=Apply exactly this plan").count() == 0
        file.write_text(file.read_text() + "# another's\n")
        page.click("button:text-is('Add a reservation')")
        dialog.locator("input[name=name]").fill("upgrade")
        dialog.locator("input[name=start]").fill("2036-01-31T08:00")
        dialog.locator("input[name=duration]").fill("4")
        dialog.locator("button:text-is('Show what changes')").click()
        page.locator("text=was changed by somebody else meanwhile").wait_for()
        assert "upgrade" not in file.read_text()
        page.set_viewport_size({"width": 390, "height": 844})
        page.goto(f"{desk.url}#policy/accounts")
        page.locator("button:text-is('Change')").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_others_see_the_command(window: Any) -> None:
    with served(DeskRest()) as desk, tab(window, desk, role="Administrator") as page:
        page.goto(f"{desk.url}#policy/accounts")
        page.locator("text=This page changes nothing here").wait_for()
        page.locator("text=corral edit users NAME").wait_for()
        page.locator("text=As Slurm's administrator you may, on a node").wait_for()
        page.goto(f"{desk.url}#policy/qos")
        page.locator("code:text-is('sacctmgr modify qos NAME set Priority=10')").wait_for()
        assert page.locator("button:text-is('Change')").count() == 0


def test_by_click_on_a_real_cluster(
    owner: Browser, served: Served, cluster: Live, terminal: Terminal
) -> None:
    before = terminal.file.read_text()
    page = go(owner, served, "policy/reservations")

    def applied(shown: int) -> None:
        page.locator("text=Apply exactly this plan").wait_for()
        page.fill("input[placeholder=code]", served.apply_code(shown))
        page.click("text=Apply exactly this plan")
        page.locator(".state >> text=applied").wait_for()
        page.click("button:text-is('Close')")

    def add(word: str, **fields: str) -> None:
        shown = len(served.terminal)
        page.click(f"button:text-is('Add a {word}')")
        for name, value in fields.items():
            page.locator(f"dialog input[name={name}]").fill(value)
        page.click("button:text-is('Show what changes')")
        applied(shown)

    def end(label: str) -> None:
        shown = len(served.terminal)
        page.click(f"button[aria-label='{label}']")
        applied(shown)

    def asked(script: Script) -> str:
        return run_root(cluster, cluster.controller, script)

    reservations = sh("scontrol -o show reservation")
    add("reservation", name="upkeep", start="2036-01-31T08:00", duration="4")
    assert "ReservationName=upkeep" in asked(reservations)
    assert "upkeep" in terminal.file.read_text()
    page.locator("tr[data-key=upkeep]").wait_for()
    end("End upkeep")
    assert "ReservationName=upkeep" not in asked(reservations)
    page.click("a.chip:text-is('QOS')")
    priorities = sh("sacctmgr -nP show qos format=Name,Priority")
    add("QOS", name="nightly", priority="7")
    assert "nightly|7" in asked(priorities).split()
    end("Remove nightly")
    assert "nightly" not in asked(priorities)
    assert terminal.file.read_text() == before
