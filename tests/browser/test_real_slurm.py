"""What tests of the page's own double cannot show: a real Slurm's tokens, arrays and sweeps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import httpx

from corral.hosts.quote import Script, sh
from tests.browser.conftest import (
    OTHER,
    Browser,
    Served,
    Terminal,
    patient,
    run_root,
    until,
    wait_until,
)
from tests.embedded.conftest import Live
from tests.embedded.test_health import FAULTS, RUN

SUBMIT = sh(
    "runuser -u {u} -- sbatch --parsable -D /tmp -o /dev/null --array=1-6%1 --wrap 'sleep 600'",
    u=OTHER,
)

SUBMIT_TWO = sh(
    "runuser -u {u} -- sbatch --parsable -D /tmp -o /dev/null --array=1-2 --wrap 'sleep 600'",
    u=OTHER,
)


def corral(terminal: Terminal, *words: str) -> Any:
    argv = [
        sys.executable,
        "-m",
        "corral",
        "ui",
        "token",
        *words,
        "-c",
        str(terminal.file),
        "--json",
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_pending_tasks_alone_are_cancelled_by_a_token(
    served: Served, terminal: Terminal, cluster: Live, people: Callable[..., str]
) -> None:
    array = run_root(cluster, cluster.controller, SUBMIT).strip()
    made = corral(terminal, "create", "ci", "--user", OTHER, "--scope", "read", "--scope", "submit")
    headers = {"Authorization": f"Bearer {made['token']}"}
    base = f"{served.url}api/"
    with httpx.Client(base_url=base, headers=headers, timeout=120, trust_env=False) as http:

        def targets(show: str, expected: list[str]) -> dict[str, Any]:
            until = time.monotonic() + 240
            while True:
                reply = http.post("bulk/jobs", json={"show": show, "q": f"array={array}"})
                chosen = reply.raise_for_status().json()
                if chosen["targets"] == expected or time.monotonic() > until:
                    assert chosen["targets"] == expected
                    return chosen
                time.sleep(1)

        def cancel(target: str) -> None:
            body = {"targets": [target]}
            reply = http.post("bulk/jobs/cancel", json=body).raise_for_status().json()
            assert reply == {"done": [target], "failed": []}

        def left(states: str) -> str:
            script = sh("squeue -h -j {n} -t {s} -o %T; true", n=array, s=states)
            return run_root(cluster, cluster.controller, script).strip()

        assert http.get("me").raise_for_status().json()["user"] == OTHER
        assert http.post("nodes/node1", json={"do": "resume"}).status_code == 403
        assert targets("waiting", [f"{array}:pending"])["tasks"] == 5
        cancel(f"{array}:pending")
        assert left("PENDING") == ""
        assert left("RUNNING") == "RUNNING"
        targets("running", [array])
        cancel(array)
        until = time.monotonic() + 240
        while left("RUNNING") and time.monotonic() < until:
            time.sleep(1)
        assert left("RUNNING") == ""
        assert [t["name"] for t in corral(terminal, "list")["tokens"]] == ["ci"]
        corral(terminal, "revoke", "ci", "--yes")
        assert http.get("me").status_code == 401


LACKING = """\
#!/bin/sh
#SBATCH --array=1-3 --export=ALL,WORD=there
#SBATCH --signal=B:USR1@60 --open-mode=append --wait
#SBATCH --time=90 --mem=64M
[ "$WORD" = there ] && [ -z "$SLURM_ARRAY_TASK_ID" ]
"""


def test_a_script_with_options_that_the_rest_api_lacks_goes_by_sbatch(
    served: Served, terminal: Terminal, cluster: Live, people: Callable[..., str]
) -> None:
    """As kim, with what the fields next to it hold: another limit, and no array."""
    scopes = ("--scope", "read", "--scope", "submit")
    made = corral(terminal, "create", "scripts", "--user", OTHER, *scopes)
    headers = {"Authorization": f"Bearer {made['token']}"}
    base = f"{served.url}api/"
    with httpx.Client(base_url=base, headers=headers, timeout=120, trust_env=False) as http:
        read = http.post("jobs/directives", json={"script": LACKING}).raise_for_status().json()
        assert [row["line"] for row in read["sbatch"]] == [2, 3, 3]
        assert not read["faults"]
        body = {"script": LACKING, "workdir": "/tmp", "minutes": 5, "without": ["array"]}
        reply = http.post("jobs", json=body)
        assert reply.status_code == 200, reply.text
        number = reply.json()["id"]
        show = sh("scontrol --oneliner show job {n}", n=number)
        end = time.monotonic() + 240
        while "JobState=COMPLETED" not in (job := run_root(cluster, cluster.controller, show)):
            assert "JobState=FAILED" not in job and time.monotonic() < end, job
            time.sleep(1)
        for words in (
            f"UserId={OTHER}(",
            "TimeLimit=00:05:00",
            "MinMemoryNode=64M",
            "WorkDir=/tmp",
        ):
            assert words in job, job
        assert "ArrayJobId" not in job
        wrong = {**body, "script": LACKING.replace("--mem=64M", "-p none-such")}
        refused = http.post("jobs", json=wrong).json()["error"]
        assert (refused["code"], list(refused["fields"])) == ("slurm-refused", ["partition"])
    corral(terminal, "revoke", "scripts", "--yes")


def test_the_page_of_pending_tasks_cancels_those_alone(
    owner: Browser, cluster: Live, people: Callable[..., str]
) -> None:
    """Their record has the array's number: DELETE job/NUMBER ended the tasks that run, too."""
    array = run_root(cluster, cluster.controller, SUBMIT).strip()

    def states() -> list[str]:
        script = sh("squeue -h -r -j {n} -o %T 2>/dev/null; true", n=array)
        return sorted(run_root(cluster, cluster.controller, script).split())

    page = owner.page
    until(page, lambda: states() == ["PENDING"] * 5 + ["RUNNING"], "one task runs, five wait")
    page.goto(f"{page.url.partition('#')[0]}#job/{array}")
    page.locator("main select").first.select_option(label="tasks that have not begun")
    page.locator("button:text-is('Cancel')").click()
    dialog = page.locator("dialog")
    assert f"Cancel pending tasks 2-6 of array {array}?" in dialog.inner_text()
    assert "that have begun go on" in dialog.inner_text()
    dialog.locator("button:text-is('Cancel pending tasks')").click()
    until(page, lambda: states() == ["RUNNING"], "the pending tasks end")
    page.wait_for_timeout(2000)
    assert states() == ["RUNNING"], "the task that runs goes on"
    # Its own number is the array's once no task is pending: of two that run, the last one.
    run_root(cluster, cluster.controller, sh("scancel {n}", n=array))
    array = run_root(cluster, cluster.controller, SUBMIT_TWO).strip()
    until(page, lambda: states() == ["RUNNING"] * 2, "both tasks run")
    page.goto(f"{page.url.partition('#')[0]}#job/{array}")
    page.locator("main select").first.select_option(label="task 2 (running)")
    page.wait_for_selector("h2 >> text=task 2")
    page.locator("button:text-is('Cancel')").click()
    assert f"Cancel job {array}_2?" in page.locator("dialog").inner_text()
    page.locator("dialog button:text-is('Cancel the job')").click()
    until(page, lambda: len(states()) == 1 or "COMPLETING" in states(), "the last task ends")
    page.wait_for_timeout(2000)
    assert "RUNNING" in states(), "the first one goes on"
    run_root(cluster, cluster.controller, sh("scancel {n}", n=array))
    until(page, lambda: not states(), "nothing is left")


def queued(cluster: Live) -> list[str]:
    """Tasks of kim's jobs that slurmctld has in its queue or has seen end: id and state."""
    script = sh("squeue --noheader --array --states=all --user={u} --format='%i %T'", u=OTHER)
    return run_root(cluster, cluster.controller, script).splitlines()


def test_a_person_whom_the_file_does_not_name_submits_a_sweep(
    served: Served, tab: Browser, cluster: Live, people: Callable[..., str]
) -> None:
    """The file names nobody but corral: kim is of the nodes' own users and of accounting."""
    page = tab.page
    page.goto(served.url)
    page.fill("input[name=token]", people(OTHER))
    page.click("text=Log in with the token")
    page.wait_for_selector(".node")
    before = queued(cluster)
    page.goto(f"{served.url}#submit")
    page.fill("#field-command", "sh -c 'echo lr is {lr}'")
    page.fill("#field-gpus_per_node", "0")
    page.click("summary:text-is('More')")
    page.fill("#field-sweep", "lr=0.1,0.2,0.3")
    page.fill("#field-at_once", "2")
    page.click("button:text-is('Show the batch script')")
    page.wait_for_selector("pre >> text=#SBATCH --array=0-2%2")
    assert page.inner_text("p[role=status] >> nth=0") == (
        "3 jobs as one array, 2 of them at once at most."
    )
    start = "p[role=status] >> text=Slurm would start it"
    page.wait_for_selector(start)
    assert queued(cluster) == before, "nothing is submitted before it is sent"
    page.click("button:text-is('Submit')")
    wait_until(page, "/^#job[/][0-9]+$/.test(location.hash)")
    array = page.evaluate("location.hash.slice(5)")

    def ended() -> list[str]:
        tasks = sorted(line for line in queued(cluster) if line.startswith(f"{array}_"))
        return tasks if all(line.endswith("COMPLETED") for line in tasks) else []

    tasks = until(page, ended, "the sweep's jobs end")
    assert tasks == [f"{array}_{task} COMPLETED" for task in range(3)]
    text = sh("cat /shared/corral/jobs/{u}/{n}/task-*/rank-0.log", u=OTHER, n=array)
    lines = run_root(cluster, cluster.controller, text).splitlines()
    assert sorted(lines) == ["lr is 0.1", "lr is 0.2", "lr is 0.3"]


def test_a_node_page_shows_which_health_check_failed(
    owner: Browser, chromium: Any, served: Served, cluster: Live, people: Callable[..., str]
) -> None:
    """For who runs Corral here the check is run; others see what it drained the node for."""
    fault, node = FAULTS[0], "node1"
    other = patient(chromium).new_page()
    other.goto(served.url)
    other.fill("input[name=token]", people(OTHER))
    other.click("text=Log in with the token")
    other.wait_for_selector(".node")

    def first_line(page: Any, title: str) -> str:
        section = page.locator("section", has=page.locator(f"h2:text-is('{title}')"))
        return section.locator("tbody tr", has_text=fault.id).first.inner_text()

    def heading(page: Any) -> str:
        return page.locator("h1").first.inner_text().lower()

    try:
        run_root(cluster, node, fault.do)
        run_root(cluster, node, RUN)
        for page, title in ((owner.page, "Health checks"), (other, "Last health checks")):
            page.goto(f"{served.url}#node/{node}")
            until(page, lambda page=page: "drain" in heading(page), "the node is drained")
            line = first_line(page, title)
            assert line.startswith("fail"), line
            assert fault.words in line
            drained = page.locator("tr", has_text="drained").first
            assert fault.words in drained.inner_text()
            assert "root" in drained.inner_text()
        assert "1 check, " in other.locator("body").inner_text()
        assert "The other checks are unknown" in other.locator("body").inner_text()
    finally:
        run_root(cluster, node, fault.undo)
        run_root(cluster, node, RUN)
    for page in (owner.page, other):
        until(page, lambda page=page: "drain" not in heading(page), "the node takes jobs again")
    owner.page.click("button:text-is('Check again')")
    until(
        owner.page,
        lambda: first_line(owner.page, "Health checks").startswith("ok"),
        "the check passes",
    )
    until(
        other,
        lambda: fault.id not in other.locator("section", has_text="Last health").inner_text(),
        "nothing is left of it",
    )
    other.context.close()


BY_TURNS = sh(
    "runuser -u corral -- sbatch --parsable -D /tmp -o /dev/null --array=1-6%1 --wrap {script}",
    script="sleep 600",
)
ODD_ONES_FAIL = sh(
    "runuser -u corral -- sbatch --parsable -D /tmp -o /dev/null --array=1-3 --wrap {script}",
    script="exit $((SLURM_ARRAY_TASK_ID % 2))",
)


def test_the_buttons_of_an_arrays_page(owner: Browser, served: Served, cluster: Live) -> None:
    """Its pending tasks are cancelled, then all of it; of another one what failed runs again."""
    page = owner.page

    def submitted(script: Script) -> str:
        return run_root(cluster, cluster.controller, script).strip()

    def states(number: str) -> list[str]:
        script = sh("squeue -h -r -j {n} -t all -o '%K %T' 2>/dev/null; true", n=number)
        return sorted(run_root(cluster, cluster.controller, script).splitlines())

    array = submitted(BY_TURNS)
    page.goto(f"{served.url}#job/{array}")
    pending = page.locator("button:text-is('Cancel 5 pending tasks…')")
    pending.wait_for()
    pending.click()
    assert "Cancel 5 jobs?" in page.inner_text("dialog h2")
    page.click("dialog button[type=submit]")
    page.locator("h1 >> text=running").wait_for()
    pending.wait_for(state="detached")
    ended = [f"{task} CANCELLED" for task in range(2, 7)]
    until(page, lambda: states(array) == ["1 RUNNING", *ended], "task 1 alone goes on")
    page.click("button:text-is('Cancel the array…')")
    assert "Cancel 1 job?" in page.inner_text("dialog h2")
    page.click("dialog button[type=submit]")
    page.locator("a:text-is('Edit and submit again')").first.wait_for()
    until(page, lambda: states(array) == ["1 CANCELLED", *ended], "nothing of it goes on")

    failing = submitted(ODD_ONES_FAIL)
    page.goto(f"{served.url}#job/{failing}")
    page.click("a:text-is('Submit 2 failed tasks again')")
    page.locator(f"h2 >> text=failed tasks of array {failing} again").wait_for()
    page.click("button:text-is('Submit')")
    wait_until(page, "/^#job[/][0-9]+$/.test(location.hash)")
    again = page.evaluate("location.hash.slice(5)")
    failed = ["1 FAILED", "3 FAILED"]
    until(page, lambda: states(again) == failed, "the tasks that failed run again, no other")
