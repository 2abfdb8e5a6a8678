"""Nodes come and go while jobs are running, and what is gone is asked for no more."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator

import pytest
from tests.embedded.conftest import Live, named
from tests.embedded.running_cluster import (
    cancel,
    complaints,
    grown,
    job_on,
    pid_of,
    restarted,
    settled,
    starts,
    summaries,
)

from corral import api
from corral.errors import Code, CorralError
from corral.hosts.quote import sh
from corral.spec.impacts import Impact
from corral.spec.models import ClusterSpec


@pytest.fixture
def live(fresh_cluster: Callable[[ClusterSpec], Live]) -> Iterator[Live]:
    """A cluster of three nodes; a test that leaves it larger has it made small again."""
    existing = os.environ.get("CORRAL_TEST_LIVING", "")
    if existing:
        yield Live(named(existing), {})
        return
    cluster = fresh_cluster(named(f"living-{os.getpid()}"))
    yield cluster


def state(live: Live, node: str) -> str:
    script = sh("scontrol show node {n} -o | grep -o 'State=[^ ]*' || echo none", n=node)
    return live.run(live.controller, script).stdout.strip()


def test_nodes_come_and_go_while_jobs_run(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    four = Live(grown(live.spec, "node[0-3]"), {})
    settled(live)
    jobs = {node: job_on(live, node) for node in ("node1", "node2")}
    pids = {node: pid_of(live, node, job) for node, job in jobs.items()}
    before, logged = starts(live), complaints(live)

    # One comes.
    plan = asyncio.run(api.plan(four.spec))
    assert [(m.node, m.action) for m in plan.machines] == [("node3", "create")]
    settled(four)
    assert restarted(before, starts(live)) == {"slurmctld", "slurmrestd"}
    assert {node: pid_of(live, node, job) for node, job in jobs.items()} == pids
    names = four.run("node1", sh("timeout 60 srun -N4 -t1 hostname | sort | xargs")).stdout
    assert names.strip() == "node0 node1 node2 node3"
    for node in ("node1", "node2"):  # configless: every slurmd has the new file
        assert "NodeName=node3" in four.run(node, sh("cat /run/slurm/conf/slurm.conf")).stdout
    assert complaints(live) == logged

    # It leaves, and a job runs on it: the job is named, nothing is lost, the node is drained.
    busy = job_on(four, "node3")
    plan = asyncio.run(api.plan(live.spec))
    assert summaries(plan)[0] == "node0 drain node3, which leaves: its jobs end first"
    assert plan.impact is Impact.DRAIN
    assert [(m.node, m.action) for m in plan.leaving] == [("node3", "remove")]
    monkeypatch.setattr("corral.roles.machine.base.WAIT_S", 2)
    with pytest.raises(CorralError) as caught:
        asyncio.run(api.up(live.spec))
    assert f"{busy} of corral" in caught.value.tail
    assert pid_of(four, "node3", busy)
    assert "DRAIN" in state(four, "node3")

    # It may stay after all.
    settled(four)
    assert "DRAIN" not in state(four, "node3")

    # It leaves as soon as the job has ended; the others never noticed.
    with pytest.raises(CorralError):
        asyncio.run(api.up(live.spec))
    cancel(four, [busy])
    settled(live)
    assert state(live, "node3") == "none"
    for node in ("node0", "node1", "node2"):
        assert "node3" not in live.run(node, sh("cat /etc/hosts /run/slurm/conf/slurm.conf")).stdout
    assert {node: pid_of(live, node, job) for node, job in jobs.items()} == pids
    assert complaints(live) == logged
    cancel(live, jobs.values())


def test_the_controller_does_not_move(live: Live) -> None:
    settled(live)
    moved = live.spec.model_copy(update={"controller": "node1"})
    with pytest.raises(CorralError) as caught:
        asyncio.run(api.plan(moved))
    assert caught.value.code is Code.NOT_GOOD
    assert caught.value.node == "node0"
    assert "node1" in caught.value.message


def test_what_is_declared_no_longer_is_stopped(live: Live) -> None:
    settled(live)
    slurm = live.spec.slurm.model_copy(update={"rest": False})
    without = Live(live.spec.model_copy(update={"slurm": slurm}), {})
    settled(without)
    units = sh("systemctl is-active slurmrestd; systemctl is-enabled slurmrestd")
    assert live.run("node0", units).stdout.split() == ["inactive", "disabled"]
    settled(live)
    assert live.run("node0", units).stdout.split() == ["active", "enabled"]
