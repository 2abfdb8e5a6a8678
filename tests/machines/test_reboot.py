"""Reboots of real machines: jobs first, drained in turn, resumed by who drained."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from corral import api
from corral.errors import Code, CorralError
from corral.events import Event, Kind
from corral.hosts.quote import Script, sh
from corral.spec.models import ClusterSpec
from corral.spec.sections.software import Software
from tests.embedded.conftest import Live
from tests.machines.lab import Lab
from tests.machines.lab.labs import wait_for

REBOOTED = ("node1", "node2")


def rebooting(spec: ClusterSpec) -> ClusterSpec:
    """The cluster, with reboots where packages ask for one."""
    software = Software(reboot="required", drain_minutes=15)
    return spec.model_copy(update={"software": software})


def boots(lab: Live) -> dict[str, str]:
    script = Script("cat /proc/sys/kernel/random/boot_id")
    return {n: lab.run(n, script).stdout.strip() for n in REBOOTED}


def require_reboots(lab: Live) -> None:
    """Packages of two machines ask for a reboot."""
    for node in REBOOTED:
        assert lab.run(node, sh("touch /run/reboot-required")).ok


def drained(lab: Live) -> str:
    return lab.run("node0", sh("timeout 20 sinfo -h -N -t drain -o '%N %E'")).stdout.strip()


@pytest.fixture
def watch() -> tuple[list[str], Callable[[Event], None]]:
    """What a rolling stage reports, in order, and the emit that hears it."""
    steps: list[str] = []

    def emit(event: Event) -> None:
        if event.kind is Kind.NOTE and event.subject == "reboots":
            steps.append(f"{event.node} {event.message.split(':')[0].split(' for ')[0]}")

    return steps, emit


def test_a_job_ends_first_and_nodes_go_in_turn(
    lab: Live, machines: Lab, watch: tuple[list[str], Callable[[Event], None]]
) -> None:
    spec = rebooting(lab.spec)
    asyncio.run(api.up(spec))
    before = boots(lab)
    require_reboots(lab)
    wrap = "'until [ -e /tmp/end ]; do sleep 1; done'"
    job = f"sbatch --parsable -o /dev/null -t 20 -w node1 --wrap {wrap}"
    ask = sh("cd /tmp && su alice -s /bin/sh -c {job}", job=job)
    answer = lab.run("node0", ask)
    assert answer.ok, answer.tail
    job = answer.stdout.strip()
    steps, emit = watch

    def ending(event: Event) -> None:
        emit(event)
        if event.node == "node1" and event.message.startswith(f"waits for job {job} "):
            machines.machines[1].root("touch /tmp/end")

    asyncio.run(api.up(spec, ending))
    turn = ["drained", "reboots", "is back, with another boot id", "resumed"]
    first = ["node1 drained", "node1 waits", *(f"node1 {word}" for word in turn[1:])]
    assert steps == [*first, *(f"node2 {word}" for word in turn)]
    after = boots(lab)
    assert all(before[n] != after[n] for n in REBOOTED)
    assert drained(lab) == ""
    state = lab.run("node0", sh("timeout 20 sacct -nXP -j {job} -o State", job=job)).stdout.strip()
    assert state == "COMPLETED"
    assert asyncio.run(api.plan(spec)).empty


@pytest.mark.slow
def test_an_update_reboots_two_real_machines_at_once(lab: Live) -> None:
    """``corral nodes update node[1-2] --at-once 2``: drained, another boot, proven, resumed."""
    before = boots(lab)
    require_reboots(lab)
    events: list[Event] = []
    plan = asyncio.run(api.plan_update(lab.spec, "node[1-2]", 2))
    assert [(each.node, each.pending.reboot) for each in plan.pending] == [
        (node, True) for node in REBOOTED
    ]
    asyncio.run(api.update_nodes(lab.spec, plan, events.append))
    words = ("drained", "is back", "passed its proof")
    steps = [(e.node, word) for e in events for word in words if e.message.startswith(word)]
    assert sorted(steps[:2]) == [(node, "drained") for node in REBOOTED]
    assert sorted(steps) == sorted((node, word) for node in REBOOTED for word in words)
    after = boots(lab)
    assert all(before[node] != after[node] for node in REBOOTED)
    assert drained(lab) == ""
    assert not asyncio.run(api.plan_update(lab.spec)).pending


def test_a_job_that_does_not_end_gives_the_node_back(lab: Live) -> None:
    spec = lab.spec.model_copy(update={"software": Software(reboot="required", drain_minutes=0)})
    asyncio.run(api.up(spec))
    before = boots(lab)
    require_reboots(lab)
    job = lab.run("node0", sh("sbatch --parsable -o /dev/null -w node1 --wrap 'sleep 900'"))
    with pytest.raises(CorralError, match=f"job {job.stdout.strip()} "):
        asyncio.run(api.up(spec))
    assert drained(lab) == ""
    assert boots(lab) == before
    assert lab.run("node0", sh("scancel {job}", job=job.stdout.strip())).ok
    for node in REBOOTED:
        assert lab.run(node, sh("rm -f /run/reboot-required")).ok


def test_a_killed_corral_is_gone_on_from(lab: Live, tmp_path: Path) -> None:
    spec = rebooting(lab.spec)
    require_reboots(lab)
    file = tmp_path / "lab.yaml"
    with file.open("w") as text:
        YAML().dump(json.loads(spec.model_dump_json(exclude_defaults=True)), text)
    argv = [sys.executable, "-m", "corral", "up", str(file), "--yes", "--no-prove"]
    process = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.rstrip().endswith("node1: reboots"):
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert "corral: reboot" in drained(lab)

    def goes_on() -> bool:
        try:
            asyncio.run(api.up(spec))
        except CorralError as error:  # it may just go down: then the hint is to ask again
            assert error.code is Code.UNREACHABLE, error
            return False
        return True

    wait_for(goes_on, 300, "the same command continues", each=5.0)
    assert drained(lab) == ""
    assert asyncio.run(api.plan(spec)).empty
