"""A job's output and record on its page: of array tasks, at its end, while Slurm is gone."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from corral.hosts.quote import sh
from corral.web.routes.output import LATEST_S, OVER_S
from tests.browser.conftest import (
    LIVE,
    Browser,
    Served,
    Terminal,
    patient,
    run_root,
    until,
    wait_until,
)
from tests.browser.noticed import assert_noticed_soon, watch
from tests.browser.test_page import COUNTING, go, submit_script
from tests.embedded.conftest import Live

UP = sh("""systemctl reset-failed slurmctld; systemctl start slurmctld; pkill -CONT -x slurmctld
i=0; until timeout 20 sinfo -h >/dev/null 2>&1; do i=$((i+1)); [ $i -lt 60 ] || break; sleep 1
done""")
# With the moment from which it answers no more: the session around the script takes seconds.
GONE = {
    "stopped": sh("timeout 120 systemctl stop slurmctld && date +%s.%N"),
    "frozen": sh("date +%s.%N && pkill -STOP -x slurmctld"),
}
ENDS_S = LATEST_S + OVER_S + 4.0
"""From a job's end on the page to the end of its log: what the server waits for at most, and a
margin; the defect was 20 s."""


def test_output_of_array_tasks(owner: Browser, served: Served, cluster: Live) -> None:
    """It was empty, while corral logs printed it."""
    text = "#!/bin/sh\necho rank $RANK of task $SLURM_ARRAY_TASK_ID\nsleep 2\n"
    put = sh("printf %s {t} > {f}; chmod 755 {f}", t=text, f="/shared/tasks.sh")
    run_root(cluster, cluster.controller, put)
    page = go(owner, served, "submit")
    page.fill("#field-script", "/shared/tasks.sh")
    page.click("summary:text-is('More')")
    page.fill("#field-array", "3-4")
    page.fill("#field-at_once", "1")
    page.click("text=Show the batch script")
    page.click("button:text-is('Submit')")
    page.wait_for_url(re.compile(r"#job/\d+"))
    parent = int(page.url.rpartition("/")[2])
    # The tasks that have not started have no number and no path.
    page.wait_for_selector("dt:text-is('output') + dd")
    assert "4294967294" not in page.locator("main").inner_text()
    go(owner, served, "jobs")
    page.click(f"button[data-key='fold {parent}']")
    page.click(f"tr[data-job] a:text-is('{parent}_3')")
    page.wait_for_selector(".log >> text=rank 0 of task 3")
    page.wait_for_selector("h1 >> text=completed")
    page.wait_for_selector("h2:text-is('Output') + span:text-is('the end')")


def test_a_log_ends_with_its_job(owner: Browser, served: Served) -> None:
    """It was called live 20 s after its job was cancelled."""
    submit_script(owner, served, COUNTING, "ends")
    page = owner.page
    page.wait_for_selector(".log >> text=line 3")
    assert page.locator("h2:text-is('Output') + span").inner_text() == "live"
    page.click("button:text-is('Cancel')")
    page.click("text=Cancel the job")
    page.wait_for_selector("h1 >> text=cancelled")
    begun = time.monotonic()
    page.wait_for_selector("h2:text-is('Output') + span:text-is('the end')")
    took = time.monotonic() - begun
    assert took <= ENDS_S, f"the log was called live for {took:.1f} s"


def why_failed(owner: Browser, served: Served, script: str, name: str) -> str:
    """What the page of a job that fails has about it."""
    submit_script(owner, served, f"#!/bin/sh\n{script}", name)
    card = owner.page.locator(".card", has=owner.page.locator("h2:text-is('Why it failed')"))
    card.locator(".finding").first.wait_for()
    return card.inner_text()


def test_why_jobs_failed(owner: Browser, served: Served) -> None:
    """The page showed Slurm's state alone, for a missing folder as for a program's exception."""
    script = "#SBATCH --output=/nowhere/at-all/%j.out\ntrue\n"
    folder = why_failed(owner, served, script, "no-folder")
    assert "signal 53" in folder and "Without its output" in folder
    script = "python3 -c 'raise ValueError(\"<b>no</b>\")'\n"
    own = why_failed(owner, served, script, "own-fault")
    assert "ValueError: <b>no</b>" in own and "exit status 1" in own
    owner.page.click("a:text-is('Edit and submit again')")
    owner.page.wait_for_selector("h2 >> text=again")


@pytest.mark.slow
def test_why_a_job_ran_out_of_time(owner: Browser, served: Served) -> None:
    late = why_failed(owner, served, "#SBATCH --time=1\nsleep 600\n", "too-long")
    assert "the job ran into its time limit" in late and "1 min asked for" in late


def test_a_form_shows_what_is_free_and_when_its_job_would_start(
    owner: Browser, served: Served
) -> None:
    page = go(owner, served, "submit")
    page.wait_for_selector("select#field-partition")
    options = page.locator("#field-partition option").all_inner_texts()
    assert options[0].startswith("the default one, main: ")
    assert any(re.match(r"main: \d of 3 nodes idle", option) for option in options)
    page.select_option("#field-partition", "main")
    page.fill("#field-command", "true")
    page.click("text=Show the batch script")
    page.wait_for_selector("text=/Slurm would start it (now|at .*) on node/")
    page.fill("#field-mem", "900G")
    page.click("text=Show the batch script")
    fault = page.locator("#fault-mem")
    fault.wait_for()
    assert "900G of memory" in fault.inner_text()
    page.fill("#field-mem", "")
    page.click("text=Show the batch script")
    page.wait_for_selector("text=/Slurm would start it/")
    page.click("button:text-is('Submit')")
    page.wait_for_selector("h1 >> text=completed")


@pytest.fixture
def slurmctld(cluster: Live, request: pytest.FixtureRequest) -> Iterator[Callable[[], float]]:
    """Stops or freezes it when called, and returns when that was; it runs again at the end."""
    lead = cluster.controller

    def stop() -> float:
        return float(run_root(cluster, lead, GONE[request.param]))

    yield stop
    run_root(cluster, lead, UP)


@pytest.mark.parametrize("slurmctld", ["stopped", "frozen"], indirect=True)
def test_slurmctld_that_is_gone_is_named_soon_and_its_jobs_are_still_shown(
    owner: Browser, served: Served, cluster: Live, slurmctld: Callable[[], float]
) -> None:
    """It was noticed after 21 to 36 s, slurmrestd was blamed, and a job's page was blank."""
    job = submit_script(owner, served, "#!/bin/sh\nsleep 300\n", "seen-before")
    page = owner.page
    page.wait_for_selector("h1 >> text=running")
    page.goto(f"{served.url}#cluster")
    wait_until(page, LIVE)
    watch(page)
    gone_at = slurmctld()
    page.wait_for_selector("#banner:not([hidden])")
    assert_noticed_soon(page, gone_at)
    assert "slurmctld" in page.locator("#banner").inner_text()
    assert "slurmrestd" not in page.locator("#banner").inner_text()
    page.wait_for_selector("#live.dead")
    page.goto(f"{served.url}#jobs")
    page.wait_for_selector(f"tr[data-job='{job}']")
    page.goto(f"{served.url}#job/{job}")
    page.wait_for_selector("h1 >> text=seen-before")
    page.wait_for_selector("text=Slurm does not answer: this is what it reported at")
    run_root(cluster, cluster.controller, UP)
    page.wait_for_selector("#banner", state="hidden")
    gone = page.locator("text=this is what it reported at")
    gone.wait_for(state="detached")
    page.click("button:text-is('Cancel')")
    page.click("text=Cancel the job")
    page.wait_for_selector("h1 >> text=cancelled")


def test_after_a_logout_the_terminal_shows_a_new_code(chromium: Any, terminal: Terminal) -> None:
    """A used code could not be renewed without a restart."""
    served = terminal.open()
    context = patient(chromium)
    page = context.new_page()

    def new_code(count: int) -> str:
        def codes() -> list[str]:
            return [line for line in served.terminal if "a new code for the page" in line]

        until(page, lambda: len(codes()) == count, f"code number {count}")
        return codes()[-1].split()[6]

    try:
        page.goto(f"{served.url}#code={served.code}")
        page.wait_for_selector(".node")
        page.click("text=Log out")
        page.wait_for_selector("input[name=code]")
        page.fill("input[name=code]", new_code(1))
        page.click("text=Log in with the code")
        page.wait_for_selector(".node")
        other = patient(chromium)
        again = other.new_page()
        again.goto(served.url)
        again.click("text=Show a new code in the terminal")
        again.wait_for_selector("text=The terminal in which corral ui runs shows a new code.")
        again.fill("input[name=code]", new_code(2))
        again.click("text=Log in with the code")
        again.wait_for_selector(".node")
        other.close()
    finally:
        context.close()
