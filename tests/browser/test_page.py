"""What people do in the page, on a real cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from corral.apply.journal import person
from corral.hosts.quote import sh
from tests.browser.conftest import FETCHED, LIVE, OTHER, Browser, Served, run_root, wait_until
from tests.embedded.conftest import Live

Shoot = Callable[[Any, str], None]
EVIL = "<img src=x onerror=alert(1)>"
COUNTING = "#!/bin/sh\nfor i in $(seq 1 300); do echo line $i; sleep 0.5; done\n"


def go(tab: Browser, served: Served, place: str) -> Any:
    tab.page.goto(f"{served.url}#{place}")
    return tab.page


def submit_script(tab: Browser, served: Served, script: str, name: str) -> int:
    page = go(tab, served, "submit")
    page.click("text=By script")
    page.fill("textarea[name=script]", script)
    page.fill("input[name=name]", name)
    page.click("form >> text=Submit")
    page.wait_for_url(re.compile(r"#job/\d+"))
    return int(page.url.rpartition("/")[2])


def log_in(tab: Browser, served: Served, token: str) -> Any:
    page = tab.page
    page.goto(served.url)
    page.fill("input[name=token]", token)
    page.click("text=Log in with the token")
    return page


def test_cluster_at_a_glance(owner: Browser, shoot: Shoot) -> None:
    page = owner.page
    assert page.locator(".node").count() == 3
    wait_until(page, LIVE)
    page.fill("input[type=search]", "node[1-2] state=idle,mixed,allocated")
    wait_until(page, "document.querySelectorAll('.node').length === 2")
    page.fill("input[type=search]", "colour=red")
    page.wait_for_selector("text=there is no colour to filter by")


def test_submit_watch_cancel(owner: Browser, served: Served, shoot: Shoot) -> None:
    job = submit_script(owner, served, COUNTING, EVIL)
    page = owner.page
    page.wait_for_selector(".log >> text=line 3")
    assert page.locator("h1").inner_text().startswith(EVIL)
    assert page.locator("h1 img").count() == 0
    page.wait_for_selector("pre:not(.log) >> text=seq 1 300")
    go(owner, served, "jobs/running")
    row = page.locator(f"tr[data-job='{job}']")
    assert row.locator("td").nth(2).inner_text() == EVIL
    row.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(rf"#job/{job}"))
    page.click("text=Cancel")
    page.click("text=Cancel the job")
    page.wait_for_selector("h1 >> text=cancelled")


def test_form_shows_the_batch_script_first(
    owner: Browser, served: Served, cluster: Live, shoot: Shoot
) -> None:
    put = sh(
        "printf '#!/bin/sh\\necho rank $RANK of $WORLD_SIZE\\n' > {f}; chmod 755 {f}",
        f="/shared/ranks.sh",
    )
    run_root(cluster, cluster.controller, put)
    page = go(owner, served, "submit")
    page.fill("#field-script", "/shared/ranks.sh")
    page.fill("#field-nodes", "3")
    page.fill("#field-gpus_per_node", "1")
    assert page.locator("button:text-is('Submit')").is_disabled()
    page.click("text=Show the batch script")
    page.wait_for_selector("pre >> text=#SBATCH --nodes=3")
    shoot(page, "ui-submit")
    page.click("button:text-is('Submit')")
    page.wait_for_url(re.compile(r"#job/\d+"))
    page.wait_for_selector(".log >> text=rank 2 of 3")
    page.wait_for_selector("h1 >> text=completed")


def test_hold_and_release(owner: Browser, served: Served) -> None:
    blocker = submit_script(owner, served, "#!/bin/sh\nsleep 300\n", "held")
    page = owner.page
    page.wait_for_selector("h1 >> text=running")
    page.click("text=Requeue")
    page.wait_for_selector("h1 >> text=pending")
    page.click("button:text-is('Hold')")
    page.wait_for_selector("text=an administrator holds it")
    page.click("button:text-is('Release')")
    page.wait_for_selector("button:text-is('Hold')")
    page.click("text=Change limit")
    page.fill("dialog input", "7")
    page.click("dialog button:text-is('Change')")
    page.wait_for_selector("dd >> text=of 7 min")
    page.click("button:text-is('Cancel')")
    page.click("text=Cancel the job")
    page.wait_for_selector("h1 >> text=cancelled")
    assert blocker


def test_administrator_drains_and_resumes(owner: Browser, served: Served, shoot: Shoot) -> None:
    page = go(owner, served, "node/node2")
    page.click("button:text-is('Drain')")
    page.fill("dialog input", "fan <b>loud</b>")
    page.click("dialog button:text-is('Drain')")
    page.wait_for_selector("text=fan <b>loud</b> (corral")
    page.goto(f"{served.url}#cluster")
    page.wait_for_selector(".node.warn")
    go(owner, served, "node/node2")
    page.click("text=Resume")
    page.wait_for_selector("button:text-is('Drain')")


def test_doctor_finds_what_is_broken(
    owner: Browser, served: Served, cluster: Live, shoot: Shoot
) -> None:
    run_root(cluster, "node1", sh("systemctl stop slurmd"))
    try:
        page = go(owner, served, "doctor")
        page.wait_for_selector("article.finding >> text=Fix:")
        assert "node1" in page.locator("article.finding").first.inner_text()
        shoot(page, "ui-doctor")
    finally:
        run_root(cluster, "node1", sh("systemctl reset-failed slurmd; systemctl start slurmd"))
        run_root(
            cluster,
            cluster.controller,
            sh(
                "i=0; until sinfo -h -n node1 -o %T | grep -qE '^(idle|mix|alloc)'; do i=$((i+1)); "
                "[ $i -lt 40 ] || break; scontrol update nodename=node1 state=resume 2>/dev/null; "
                "sleep 1; done"
            ),
        )


def test_plan_and_apply(owner: Browser, served: Served, cluster: Live, shoot: Shoot) -> None:
    page = go(owner, served, "plan")
    area = page.locator("textarea")
    before = area.input_value()
    assert cluster.spec.name in before
    area.fill(before.replace("count: 2", "count: two"))
    page.wait_for_selector(".finding.error >> text=line")
    assert page.locator("button:text-is('Plan')").is_disabled()
    shoot(page, "ui-plan-error")
    for limit in ("2-00:00:00", "infinite"):
        area.fill(before.replace("max_time: infinite", f"max_time: {limit}"))
        page.wait_for_selector(".finding.error", state="detached")
        shown = len(served.terminal)
        page.click("button:text-is('Plan')")
        page.wait_for_selector("text=Apply exactly this plan")
        if limit != "infinite":
            shoot(page, "ui-plan")
            page.fill("input[placeholder=code]", "000000x")
            page.click("text=Apply exactly this plan")
            page.wait_for_selector("text=not the code that the terminal shows")
        page.fill("input[placeholder=code]", served.apply_code(shown))
        page.click("text=Apply exactly this plan")
        page.wait_for_selector(".state >> text=applied")
        events = page.locator(".events li").all_inner_texts()
        assert [line for line in events if line.startswith("stage done")], events
        assert [line for line in events if " on node" in line], events
        partition = run_root(
            cluster, cluster.controller, sh("scontrol -o show partition main | tr ' ' '\\n'")
        )
        max_time = "UNLIMITED" if limit == "infinite" else "2-00:00:00"
        assert f"MaxTime={max_time}" in partition


def test_the_journal_shows_what_was_applied(owner: Browser, served: Served) -> None:
    page = go(owner, served, "history")
    # A run is one row; its records come when it is unfolded.
    applied = page.locator("tr.run", has_text="apply").first
    assert page.locator("tbody tr", has_text="change done").count() == 0
    applied.locator("button[aria-expanded=false]").press("Enter")
    done = page.locator("tbody tr", has_text="change done").first.locator("td")
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d", done.nth(0).inner_text())
    assert done.nth(1).inner_text() == person()
    assert done.nth(3).inner_text().startswith("node")


def test_user_is_no_administrator(
    tab: Browser, served: Served, people: Callable[[str], str], owner_job: int
) -> None:
    page = log_in(tab, served, people(OTHER))
    page.wait_for_selector(".node")
    tabs = page.locator("nav a").all_inner_texts()
    assert tabs == ["Cluster", "Jobs", "My work", "Timeline", "Submit", "Accounts & QOS"]
    page.goto(f"{served.url}#node/node2")
    page.wait_for_selector("h1 >> text=node2")
    assert page.locator("button:text-is('Drain')").count() == 0
    page.goto(f"{served.url}#job/{owner_job}")
    page.wait_for_selector("h1 >> text=running")
    assert page.locator("button:text-is('Cancel')").count() == 0
    # What the page does not offer, the server and Slurm refuse.
    tried = page.evaluate(
        """async (job) => {
          const secret = {"X-CSRF-Token": localStorage.getItem("session")};
          const post = async (path, body) => (await fetch(`api/${path}`, {method: "POST",
            headers: {"Content-Type": "application/json", ...secret},
            body: JSON.stringify(body)})).status;
          const get = async (path) => (await fetch(`api/${path}`, {headers: secret})).status;
          return [await post("nodes/node2", {do: "drain", reason: "mine"}),
            await post(`jobs/${job}`, {do: "cancel"}), await post("corral/doctor", {}),
            await get(`jobs/${job}/log`), await get("corral/file")];
        }""",
        owner_job,
    )
    assert tried == [403] * 5


@pytest.fixture
def owner_job(cluster: Live) -> Any:
    """A running job of another user's than the one who looks."""
    script = sh(
        "cd /shared && runuser -u corral -- sbatch --parsable -o /dev/null --wrap 'sleep 600'"
    )
    number = int(run_root(cluster, cluster.controller, script))
    yield number
    run_root(cluster, cluster.controller, sh("scancel {n}", n=number))


def test_wrong_and_expired_tokens(tab: Browser, served: Served, people: Callable[..., str]) -> None:
    good = people(OTHER)
    forged = good[:-6] + ("AAAAAA" if not good.endswith("AAAAAA") else "BBBBBB")
    page = log_in(tab, served, forged)
    page.wait_for_selector("text=Slurm does not take this token")
    short = people(OTHER, 1)
    page.wait_for_timeout(2100)
    log_in(tab, served, short)
    page.wait_for_selector("text=this token has expired")
    log_in(tab, served, "SLURM_JWT=hello")
    page.wait_for_selector("text=this is not a Slurm token")
    page.fill("input[name=code]", served.code)
    page.click("text=Log in with the code")
    page.wait_for_selector("text=used up, too old or wrong")


def test_log_out(tab: Browser, served: Served, people: Callable[[str], str]) -> None:
    page = log_in(tab, served, people(OTHER))
    page.wait_for_selector(".node")
    before = page.context.cookies()
    page.click("text=Log out")
    page.wait_for_selector("input[name=token]")
    page.context.add_cookies(before)  # a copy that a thief kept
    page.goto(f"{served.url}#jobs")
    page.reload()
    page.wait_for_selector("input[name=token]")


def test_no_secret_is_shown(owner: Browser, served: Served) -> None:
    page = go(owner, served, "cluster")
    me = page.evaluate(FETCHED, "me")
    assert me["status"] == 200
    visible = json.dumps([me, page.evaluate("[{...localStorage}, document.cookie]")])
    assert "eyJ" not in visible
    assert "corral_session" not in visible
    assert "eyJ" not in "".join(served.terminal)


@pytest.fixture
def busy(cluster: Live) -> Any:
    """A cluster at work: jobs that run and wait, and a drained node."""
    script = sh(
        """cd /shared; add() {{ who=$1; shift; runuser -u "$who" -- sbatch -o /dev/null "$@" \
  --wrap 'sleep 900' >/dev/null; }}
scontrol update nodename=node2 state=drain 'reason=GPU 1: Xid 79, fallen off the bus'
add corral -J llama-sft --gres=gpu:2 --mem=900 -t 8:00:00; add {kim} -J eval --gres=gpu:1 --mem=500
add {kim} -J sweep --array=1-20%4 --gres=gpu:1 --mem=700 -t 2:00:00
add corral -J pretrain -N 3 --gres=gpu:2 --mem=900; sleep 3""",
        kim=OTHER,
    )
    run_root(cluster, cluster.controller, script)
    yield
    undo = sh(
        "scancel -u corral; scancel -u {kim}; scontrol update nodename=node2 state=resume; true",
        kim=OTHER,
    )
    run_root(cluster, cluster.controller, undo)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pictures(owner: Browser, served: Served, shoot: Shoot, busy: None, theme: str) -> None:
    """Every page in both themes and at a phone's width: nothing sticks out sideways."""
    page = owner.page
    page.evaluate(f"localStorage.setItem('theme', '{theme}')")
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        for place in ("cluster", "jobs", "submit", "proof", "plan", "history", "node/node1"):
            go(owner, served, place)
            page.wait_for_selector("main .card, main .node")
            if place == "cluster":
                page.wait_for_selector(".node.warn")
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, (place, width)
            if place in ("cluster", "jobs") and (width == 390) == (theme == "dark"):
                shoot(page, f"ui-{place}{'-phone' if width == 390 else ''}")
