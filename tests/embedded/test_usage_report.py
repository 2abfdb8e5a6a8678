"""The report of a month on a real cluster: its figures against those that the test computes."""

from __future__ import annotations

import asyncio
import secrets
import time

import pytest
from tests.embedded.conftest import Live

from corral import api
from corral.hosts.quote import Script, sh
from corral.jobs.follow import as_user

ACCOUNT = f"reported-{secrets.token_hex(3)}"
GPUS_OF_ALL = 6


@pytest.fixture
def account(cluster: Live) -> str:
    """An account without jobs, of the job user."""
    make = sh("sacctmgr -i add account {a} && sacctmgr -i add user corral account={a}", a=ACCOUNT)
    assert cluster.run(cluster.controller, make).ok
    return ACCOUNT


def submit(live: Live, *options: str, wrap: str) -> str:
    words = ["sbatch", "--parsable", "-A", ACCOUNT, "-o", "/dev/null", *options, f"--wrap={wrap}"]
    done = live.run(live.controller, as_user("corral", sh("cd /tmp && {words}", words=words)))
    assert done.ok, done.tail
    return done.stdout.strip()


def until(live: Live, condition: str, job: str) -> None:
    """Wait for a condition of the shell, in which $1 is the job."""
    loop = f"until {condition}; do sleep 0.3; done"
    assert live.run(
        live.controller, sh("timeout 90 sh -c {w} - {j}", w=loop, j=job), timeout=100
    ).ok


def has_state(live: Live, job: str, state: str) -> None:
    until(live, f'[ "$(sacct -nPXj "$1" -o State | sort -u | grep -c {state})" -gt 0 ]', job)


def slurm(live: Live, script: Script) -> None:
    done = live.run(live.controller, script)
    assert done.ok, done.tail


def recorded(live: Live) -> dict[str, tuple[float, int]]:
    """By hand: hours of GPUs and runs of each of Slurm's states, from sacct's elapsed seconds."""
    show = sh(
        "sacct -aDXnP -A {a} -S now-1hour -o State,ElapsedRaw,AllocTRES | grep gres/gpu", a=ACCOUNT
    )
    sums: dict[str, tuple[float, int]] = {}
    for line in live.run(live.controller, show).stdout.splitlines():
        state, elapsed, tres = line.split("|")
        gpus = int(dict(part.split("=") for part in tres.split(","))["gres/gpu"])
        hours, runs = sums.get(state.split()[0], (0.0, 0))
        sums[state.split()[0]] = hours + gpus * int(elapsed) / 3600, runs + 1
    return sums


def test_the_figures_are_those_of_the_jobs(cluster: Live, account: str) -> None:
    """Jobs that complete, fail, are cancelled, requeued, wait, and an array."""
    month = time.strftime("%Y-%m")
    before = asyncio.run(api.usage_report(cluster.spec, month))
    completed = submit(cluster, "-N2", "--gres=gpu:2", wrap="sleep 8")  # 4 GPUs
    failed = submit(cluster, "-N1", "--gres=gpu:1", wrap="sleep 4; exit 3")
    waits = submit(cluster, "-N3", "--gres=gpu:2", wrap="sleep 1")  # all GPUs: behind the others
    for job, state in ((completed, "COMPLETED"), (failed, "FAILED"), (waits, "COMPLETED")):
        has_state(cluster, job, state)
    again = submit(cluster, "-N1", "--gres=gpu:1", "--requeue", wrap="sleep 300")
    has_state(cluster, again, "RUNNING")
    slurm(cluster, sh("sleep 3; scontrol requeue {j}", j=again))
    until(cluster, '[ "$(sacct -nPDXj "$1" -o State | grep -c REQUEUED)" = 1 ]', again)
    slurm(cluster, sh("scancel {j}", j=again))
    stopped = submit(cluster, "-N1", "--gres=gpu:2", wrap="sleep 300")
    has_state(cluster, stopped, "RUNNING")
    slurm(cluster, sh("sleep 2; scancel {j}", j=stopped))
    has_state(cluster, stopped, "CANCELLED")
    tasks = submit(cluster, "-N1", "--gres=gpu:1", "--array=0-1", wrap="sleep 2")
    until(cluster, '[ "$(sacct -nPXj "$1" -o State | grep -c COMPLETED)" = 2 ]', tasks)

    report = asyncio.run(api.usage_report(cluster.spec, month, price=2.0))
    mine = report.accounts[ACCOUNT]
    hand = recorded(cluster)
    assert report.unit == "GPU"
    for kind, state in (
        ("completed", "COMPLETED"),
        ("failed", "FAILED"),
        ("requeued", "REQUEUED"),
        ("stopped", "CANCELLED"),
    ):
        assert state in hand, hand
        assert mine.hours[kind] == pytest.approx(hand[state][0]), (kind, hand)
        assert mine.runs[kind] == hand[state][1], (kind, hand)
    assert hand["COMPLETED"][1] == 4  # two jobs and two tasks
    assert mine.hours["completed"] >= (4 * 8 + 6 * 1 + 2 * 2) / 3600
    assert mine.hours["failed"] >= 4 / 3600
    assert mine.hours["running"] == mine.hours["checks"] == 0
    # The job of all GPUs waited for the one of 8 s, and asked for six.
    assert mine.waited >= GPUS_OF_ALL * 6 / 3600
    assert max(mine.waits) >= 6
    assert len(mine.waits) == sum(mine.runs.values())
    assert mine.as_dict(2.0)["cost"] == pytest.approx(mine.allocated * 2, abs=0.01)
    # The cluster's own sums grow by the same, and its capacity by its GPUs and the time between.
    assert report.total.hours["failed"] - before.total.hours["failed"] == pytest.approx(
        mine.hours["failed"]
    )
    passed = (report.month.end - before.month.end) * GPUS_OF_ALL / 3600
    assert report.capacity - before.capacity == pytest.approx(passed)
    assert report.idle <= report.capacity - report.down - report.total.allocated + 1e-9


def test_down_time_is_that_of_the_outage(cluster: Live) -> None:
    month = time.strftime("%Y-%m")
    before = asyncio.run(api.usage_report(cluster.spec, month))
    asyncio.run(api.drain(cluster.spec, "node1", "planned: more memory"))
    slurm(cluster, sh("sleep 4"))
    asyncio.run(api.resume(cluster.spec, "node1"))
    (history,) = asyncio.run(api.node_history(cluster.spec, "node1"))
    outage = history.outages[-1]
    assert outage.end is not None
    lasted = outage.end - outage.start
    assert lasted >= 4
    report = asyncio.run(api.usage_report(cluster.spec, month))
    earlier = before.nodes["node1"].hours if "node1" in before.nodes else 0.0
    assert report.nodes["node1"].hours - earlier == pytest.approx(lasted / 3600)
    assert report.down - before.down == pytest.approx(2 * lasted / 3600)
    planned = {c.title: c.hours for c in report.causes}["planned"]
    earlier = {c.title: c.hours for c in before.causes}.get("planned", 0.0)
    assert planned - earlier == pytest.approx(2 * lasted / 3600)
