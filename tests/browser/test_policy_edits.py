"""Accounts, users, reservations and licences changed by click: an edit of the cluster file."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from corral import api
from corral.hosts.quote import Script, sh
from corral.plan.model import NodeChange, Plan, Stage
from corral.spec.impacts import Impact
from corral.spec.nodes import JOB_USER
from corral.state.base import Change
from corral.web.routes import owner as owner_routes
from tests.browser.conftest import FETCHED, OTHER, Browser, Served, Terminal, run_root, until
from tests.browser.desk import Desk, DeskRest, pictures, served, tab, window
from tests.browser.helper_double import spec
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
    rest = DeskRest()
    with (
        served(rest, spec=spec(), service=True) as desk,
        tab(window, desk, role="Administrator") as page,
    ):
        page.goto(f"{desk.url}#policy/accounts")
        page.locator("text=This page changes nothing here").wait_for()
        page.locator("text=corral edit users NAME").wait_for()
        page.locator("text=As Slurm's administrator you may, on a node").wait_for()
        page.goto(f"{desk.url}#policy/qos")
        page.locator("code:text-is('sacctmgr modify qos NAME set Priority=10')").wait_for()
        assert page.locator("button:text-is('Change')").count() == 0


class Clicks:
    """Changes of the file by its owner on the page, each applied with the terminal's code."""

    def __init__(self, page: Any, served: Served) -> None:
        self.page, self.served = page, served

    def _applied(self, shown: int) -> None:
        page = self.page
        page.locator("text=Apply exactly this plan").wait_for()
        page.fill("input[placeholder=code]", self.served.apply_code(shown))
        page.click("text=Apply exactly this plan")
        page.locator(".state >> text=applied").wait_for()
        page.click("button:text-is('Close')")

    def _filled(self, shown: int, fields: dict[str, str]) -> None:
        for name, value in fields.items():
            self.page.locator(f"dialog input[name='{name}']").fill(value)
        self.page.click("button:text-is('Show what changes')")
        self._applied(shown)

    def add(self, what: str, fields: dict[str, str]) -> None:
        shown = len(self.served.terminal)
        self.page.click(f"button:text-is('Add {what}')")
        self._filled(shown, fields)

    def change(self, name: str, fields: dict[str, str]) -> None:
        shown = len(self.served.terminal)
        self.page.click(f"button[aria-label='Change {name}']")
        self._filled(shown, fields)

    def end(self, label: str) -> None:
        shown = len(self.served.terminal)
        self.page.click(f"button[aria-label='{label}']")
        self._applied(shown)


def test_by_click_on_a_real_cluster(
    owner: Browser, served: Served, cluster: Live, terminal: Terminal
) -> None:
    before = terminal.file.read_text()
    page = go(owner, served, "policy/reservations")
    clicks = Clicks(page, served)

    def asked(script: Script) -> str:
        return run_root(cluster, cluster.controller, script)

    reservations = sh("scontrol -o show reservation")
    fields = {"name": "upkeep", "start": "2036-01-31T08:00", "duration": "4"}
    clicks.add("a reservation", fields)
    assert "ReservationName=upkeep" in asked(reservations)
    assert "upkeep" in terminal.file.read_text()
    page.locator("tr[data-key=upkeep]").wait_for()
    clicks.end("End upkeep")
    assert "ReservationName=upkeep" not in asked(reservations)
    page.click("a.chip:text-is('QOS')")
    priorities = sh("sacctmgr -nP show qos format=Name,Priority")
    clicks.add("a QOS", {"name": "nightly", "priority": "7"})
    assert "nightly|7" in asked(priorities).split()
    clicks.end("Remove nightly")
    assert "nightly" not in asked(priorities)
    assert terminal.file.read_text() == before


@pytest.fixture
def with_users(cluster: Live, terminal: Terminal) -> Iterator[None]:
    """The file names its first user, whom the page can change then."""
    before = terminal.file.read_text()
    named = f"users:\n  - {{name: {JOB_USER.name}, uid: {JOB_USER.uid}}}\n"
    terminal.file.write_text(before + named)
    yield
    terminal.file.write_text(before)
    # A file that declares no limits leaves those that are there.
    free = sh("sacctmgr -iQ modify user {u} set GrpTRES=gres/gpu=-1", u=JOB_USER.name)
    run_root(cluster, cluster.controller, free)
    with ThreadPoolExecutor(1) as pool:  # Playwright's loop runs in this thread
        pool.submit(asyncio.run, api.up(cluster.spec)).result()
    left = sh("sacctmgr -nP show assoc format=Account,GrpTRES; scontrol -o show licenses")
    text = run_root(cluster, cluster.controller, left)
    assert not {"vision", "gres/gpu", "matlab"} & {*re.findall(r"[a-z/]+", text)}, text


@pytest.mark.usefixtures("with_users")
def test_limits_and_licences_of_the_page_are_slurms(
    owner: Browser, served: Served, cluster: Live, terminal: Terminal
) -> None:
    """Limits of an account and of a user reach slurmdbd, a licence slurmctld."""
    page = go(owner, served, "policy/accounts")
    clicks = Clicks(page, served)
    limits = sh("sacctmgr -nP show assoc format=Account,User,GrpTRES where account=vision,corral")

    def asked(script: Script) -> list[str]:
        return run_root(cluster, cluster.controller, script).split()

    assert asked(limits) == ["corral||", "corral|corral|", "corral|kim|"]
    clicks.add("an account", {"name": "vision", "limits.gpus": "3"})
    assert "vision||gres/gpu=3" in asked(limits)
    clicks.change("corral", {"limits.gpus": "5"})
    assert "corral|corral|gres/gpu=5" in asked(limits)
    row = page.locator("tr[data-key='corral corral ']")
    until(page, lambda: "5" in row.inner_text(), "the table shows the new limit")
    page.click("a.chip:text-is('Licences')")
    clicks.add("a licence", {"name": "matlab", "count": "5"})
    assert {"LicenseName=matlab", "Total=5"} <= {*asked(sh("scontrol -o show licenses"))}
    entries = api.entries_of(terminal.file.read_text())
    assert entries["users"]["corral"]["limits.gpus"] == "5"
    assert entries["licenses"]["matlab"]["count"] == "5"


@pytest.mark.parametrize("user", [OTHER, JOB_USER.name])
def test_neither_a_user_nor_slurms_administrator_changes_the_file(
    tab: Browser, served: Served, people: Callable[..., str], user: str
) -> None:
    """A Slurm token is not the owner's code, whoever it is of: corral is an administrator here."""
    page = tab.page
    page.goto(served.url)
    page.fill("input[name=token]", people(user))
    page.click("text=Log in with the token")
    page.wait_for_selector(".node")
    page.goto(f"{served.url}#policy/accounts")
    page.locator("text=This page changes nothing here").wait_for()
    may = "As Slurm's administrator you may" if user == JOB_USER.name else "Slurm's operators and"
    page.locator(f"text={may}").wait_for()
    assert page.locator("button:text-matches('Change|Add|Remove')").count() == 0
    for path in ("policy/declared", "corral/file"):
        reply = page.evaluate(FETCHED, path)
        assert reply["status"] == 403
        assert reply["body"]["error"]["message"] == "this is for who runs Corral here"
