"""A backup controller takes over when the first one is killed under load; nothing is lost."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Callable

import httpx
import pytest
from tests.embedded.conftest import Live, named

from corral import api
from corral.hosts.quote import sh
from corral.slurm.text import parse_ping
from corral.spec.models import BackupController, ClusterSpec
from corral.spec.sections.people import User

STATE = "/shared/slurmctld"
WITHIN_S = 60
"""Seconds after which a job can be submitted again; the aim of docs/guide/high-availability.md."""
SUBMIT = "sbatch --parsable -o /dev/null {} --wrap '{}'"


def with_backup(spec: ClusterSpec) -> ClusterSpec:
    backup = BackupController(node="node1", state=STATE)
    return spec.model_copy(
        update={"slurm": spec.slurm.model_copy(update={"backup_controller": backup})}
    )


def submitted(live: Live, node: str, options: str, command: str) -> int:
    """A job of the cluster's user, by sbatch on a node."""
    text = f"cd /tmp && {SUBMIT.format(options, command)}"
    script = sh("timeout 20 runuser -u corral -- sh -c {text}", text=text)
    answer = live.run(node, script, timeout=30)
    assert answer.ok, answer.stderr
    return int(answer.stdout)


def states(live: Live, jobs: list[int]) -> dict[int, str]:
    listed = ",".join(map(str, jobs))
    answer = live.run("node0", sh("sacct -nPX -o JobID,State -j {jobs}", jobs=listed))
    return {
        int(job): state for job, _, state in (row.partition("|") for row in answer.stdout.split())
    }


def queue(live: Live) -> str:
    shown = sh("squeue -h -u corral -o '%A %t %N %r %M' | grep . || true")
    return live.run("node2", shown).stdout


def pinged(live: Live, node: str) -> dict[str, bool]:
    return parse_ping(live.run(node, sh("timeout 10 scontrol ping")).stdout)


def until(condition: Callable[[], bool], seconds: float, what: Callable[[], str]) -> float:
    """Seconds until it was true; the other function describes what is there when time is up."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, f"after {seconds} s: {what()}"
        time.sleep(0.5)
    return time.monotonic() - began


def saved(live: Live) -> None:
    """Slurmctld has written its jobs: it does so 5 s late at most, and what it had not is lost."""
    assert live.run("node0", sh("touch {folder}/now", folder=STATE)).ok
    newer = sh("[ {folder}/job_state -nt {folder}/now ]", folder=STATE)
    until(lambda: live.run("node0", newer).ok, 60, lambda: "the jobs are not written")


async def page_nodes(spec: ClusterSpec) -> set[str]:
    """Names of the nodes on a page that is opened now."""
    async with api.serve_page(spec) as (page, _), httpx.AsyncClient(timeout=60) as http:
        code = {"code": page.code}
        reply = (await http.post(f"{page.url}api/login/code", json=code)).raise_for_status()
        secret = {"x-csrf-token": reply.json()["csrf"]}
        listed = (await http.get(f"{page.url}api/nodes", headers=secret)).raise_for_status()
        return {row[0] for row in listed.json()["rows"]}


@pytest.fixture(scope="module")
def plain(fresh_cluster: Callable[[ClusterSpec], Live]) -> Live:
    return fresh_cluster(named(f"ha-{os.getpid()}"))


@pytest.fixture(scope="module")
def live(plain: Live) -> Live:
    """The same cluster, which gets a backup controller while a job is pending."""
    waiting = submitted(plain, "node2", "--hold", "hostname")
    spec = with_backup(plain.spec)
    asyncio.run(api.up(spec))
    live = Live(spec, plain.facts)
    shown = live.run("node2", sh("squeue -h -o %A -j {job}", job=waiting)).stdout
    assert shown.split() == [str(waiting)]  # the state came along
    assert live.run("node2", sh("scancel {job}", job=waiting)).ok
    return live


def test_both_run_and_nothing_is_left_to_do(live: Live) -> None:
    assert pinged(live, "node2") == {"node0": True, "node1": True}
    assert asyncio.run(api.plan(live.spec)).empty
    assert asyncio.run(api.prove(live.spec)).good
    assert asyncio.run(api.status(live.spec)).good
    assert asyncio.run(api.doctor(live.spec)).healthy


def test_jobs_go_on_when_the_controller_is_killed_under_load(live: Live) -> None:
    long = submitted(live, "node2", "-w node2 -c1", "sleep 90")
    jobs = [submitted(live, "node2", "-w node[1-2] -c1", "sleep 5") for _ in range(3)]
    until(
        lambda: "R" in live.run("node2", sh("squeue -h -o %t -j {j}", j=long)).stdout,
        30,
        lambda: "runs",
    )
    saved(live)
    container = f"corral-{live.spec.name}-node0"
    subprocess.run(["podman", "kill", container], check=True, capture_output=True, timeout=60)

    def taken() -> bool:
        try:
            jobs.append(submitted(live, "node2", "-w node[1-2] -c1", "hostname"))
        except AssertionError:
            return False
        return True

    spent = until(taken, WITHIN_S, lambda: "no job can be submitted")
    print(f"submission works {spent:.0f} s after the kill")
    jobs += [submitted(live, "node1", "-w node[1-2] -c1", "hostname") for _ in range(3)]
    listed = asyncio.run(api.jobs(live.spec))
    assert long in {job.id for job in listed}
    assert {"node1", "node2"} <= asyncio.run(page_nodes(live.spec))
    troubles = {trouble.subject for trouble in asyncio.run(api.status(live.spec)).troubles}
    assert "node0" in troubles
    # slurmstepd tries every 15 s to report a job's end to a dead controller (RETRY_DELAY of its
    # mgr.c, for an hour), after the time-out of each message: an end can be minutes late.
    until(lambda: not queue(live), 300, lambda: f"jobs do not end without the first: {queue(live)}")
    asyncio.run(api.up(live.spec))
    both = {"node0": True, "node1": True}
    until(lambda: pinged(live, "node2") == both, 60, lambda: "the first one takes no control back")
    expected = dict.fromkeys([long, *jobs], "COMPLETED")
    until(
        lambda: states(live, [long, *jobs]) == expected, 90, lambda: json.dumps(states(live, jobs))
    )
    assert asyncio.run(api.plan(live.spec)).empty


def test_without_it_the_state_comes_back(live: Live, plain: Live) -> None:
    last = submitted(live, "node2", "--hold", "hostname")
    asyncio.run(api.up(plain.spec))
    assert pinged(live, "node2") == {"node0": True}
    shown = live.run("node2", sh("squeue -h -o %A -j {job}", job=last)).stdout
    assert shown.split() == [str(last)]
    assert live.run("node2", sh("scancel {job}", job=last)).ok
    assert not live.run("node1", sh("systemctl is-active slurmctld")).ok
    assert live.run("node1", sh("[ ! -e /etc/slurm/slurm.conf ]")).ok
    assert asyncio.run(api.plan(plain.spec)).empty


def test_a_new_cluster_has_what_the_backup_needs_without_the_database(
    fresh_cluster: Callable[[ClusterSpec], Live],
) -> None:
    """slurmctld writes users and accounts after five minutes only; without them it waits.

    What it waits for is slurmdbd, whose machine is the one that was lost (24.11: "Unable to get any
    information from the state file", "Retrying initial connection to slurmdbd").
    """
    live = fresh_cluster(with_backup(named(f"hanew-{os.getpid()}")))
    later = live.spec.model_copy(
        update={"users": (*live.spec.users, User(name="late", uid=2077)), "accounts": ()}
    )
    asyncio.run(api.up(later))
    container = f"corral-{live.spec.name}-node0"
    subprocess.run(["podman", "kill", container], check=True, capture_output=True, timeout=60)
    script = sh("cd /tmp && timeout 20 runuser -u late -- sbatch --parsable -o /dev/null --wrap id")
    last: list[str] = []

    def taken() -> bool:
        done = live.run("node1", script, timeout=40)
        last.append(done.tail)
        return done.ok

    log = sh("tail -n 40 /var/log/slurm/slurmctld.log; ls -la {s}", s=STATE)
    until(taken, 2 * WITHIN_S, lambda: f"{last[-1]}\n{live.run('node1', log).stdout}")
