"""What breaks on real machines: power, cables, clocks, disks, daemons.

``status`` and ``doctor`` report what happened, ``up`` fixes what can be fixed, and jobs finish.
"""

from __future__ import annotations

import asyncio

import pytest

from corral import api
from corral.errors import CorralError
from corral.hosts.quote import Script, sh
from tests.embedded.conftest import Live
from tests.machines.conftest import show_event
from tests.machines.lab import Lab
from tests.machines.lab.labs import wait_for

FAR = 300.0
"""Longest wait for anything: all machines share two CPUs with whatever else runs there."""


def status_text(lab: Live) -> str:
    """All that ``status`` reports about nodes and troubles, as one text."""
    status = asyncio.run(api.status(lab.spec))
    nodes = [
        f"{n.node}: {n.state} {n.reason} "
        + " ".join(f"{k}={v}" for k, v in (n.services or {}).items())
        for n in status.nodes
    ]
    return "\n".join(nodes + [f"{t.subject}: {t.message} | {t.hint}" for t in status.troubles])


def healthy(lab: Live) -> bool:
    status = asyncio.run(api.status(lab.spec))
    return not status.troubles and all(n.usable for n in status.nodes)


def diagnosed(lab: Live) -> list[tuple[str, tuple[str, ...]]]:
    """What the doctor finds, the first cause first: ids and nodes."""
    report = asyncio.run(api.doctor(lab.spec))
    for finding in report.findings:
        print("doctor:", finding.failure.id, finding.nodes, finding.detail, finding.evidence[:1])
    return [(finding.failure.id, finding.nodes) for finding in report.findings]


def repair(lab: Live) -> None:
    """``up`` repairs it: no trouble, all nodes usable, and a job runs on all of them."""
    asyncio.run(api.up(lab.spec, show_event))
    wait_for(lambda: healthy(lab), FAR, "a healthy cluster after up", each=2.0)
    count = len(lab.facts)
    job = sh("timeout 150 srun -N{count} -t 3 hostname | sort", count=count)
    assert lab.run("node0", job, timeout=170).stdout.split() == sorted(lab.facts)


def submit(lab: Live, node: str, script: Script) -> str:
    """A job of alice's on a node, requeued when the node is lost; its id."""
    batch = sh(
        "sbatch --parsable --requeue -o /dev/null -t 20 -w {node} --wrap {script}",
        node=node,
        script=str(script),
    )
    job = sh("cd /tmp && su alice -s /bin/sh -c {inner}", inner=str(batch))
    answer = lab.run("node0", job)
    assert answer.ok, answer.tail
    return answer.stdout.strip()


def state_of(lab: Live, job: str) -> tuple[str, str]:
    """Its state and how often it was requeued, from accounting: slurmctld forgets it in minutes."""
    ask = sh("timeout 20 sacct -nXP -j {job} -o State,Restarts", job=job)
    words = lab.run("node0", ask).stdout.replace("|", " ").split()
    return (words[0], words[-1]) if words else ("", "")


def reaches(lab: Live, job: str, state: str) -> None:
    wait_for(
        lambda: state_of(lab, job)[0] == state,
        FAR,
        f"job {job} is {state}",
        each=2.0,
    )


def test_power_cut_of_a_node_with_a_job_on_it(lab: Live, machines: Lab) -> None:
    """The job is requeued when its node comes back, and finishes; the other nodes go on."""
    job = submit(lab, "node1", sh('[ -n "$SLURM_RESTART_COUNT" ] || sleep 900'))
    reaches(lab, job, "RUNNING")
    machines.machines[1].power_cut()
    assert "node1: unreachable" in status_text(lab)
    assert diagnosed(lab)[0] == ("F69", ("node1",))
    other = lab.run("node0", sh("timeout 100 srun -w node0 -t 1 hostname"), timeout=120)
    assert other.stdout.strip() == "node0", other.tail
    machines.machines[1].on()
    machines.wait()
    repair(lab)
    reaches(lab, job, "COMPLETED")
    assert state_of(lab, job)[1] == "1"


def test_reboot_of_a_node_with_a_step_on_it(lab: Live, machines: Lab) -> None:
    """srun took the end of the step's connections for the end of its output: RUNNING for ever."""
    batch = sh(
        "cd /tmp && su alice -s /bin/sh -c {inner}",
        inner="sbatch --parsable --requeue -o /dev/null -t 20 -N 2 -n 2 -w node[0-1] "
        "--wrap '[ -n \"$SLURM_RESTART_COUNT\" ] || srun sleep 900'",
    )
    answer = lab.run("node0", batch)
    assert answer.ok, answer.tail
    job = answer.stdout.strip()
    reaches(lab, job, "RUNNING")
    lab.run("node1", sh("systemctl reboot"))
    machines.wait()
    reaches(lab, job, "COMPLETED")
    assert state_of(lab, job)[1] == "1"
    repair(lab)


@pytest.mark.slow
def test_network_cut_and_back(lab: Live, machines: Lab) -> None:
    """A job outlives its node's cable: slurmd and the step go on, and report later."""
    job = submit(lab, "node1", sh("sleep 20"))
    reaches(lab, job, "RUNNING")
    machines.machines[1].cut_network()
    try:
        assert "node1: unreachable" in status_text(lab)
        assert diagnosed(lab)[0] == ("F69", ("node1",))
    finally:
        machines.machines[1].reconnect_network()
    machines.wait()
    repair(lab)
    reaches(lab, job, "COMPLETED")
    assert state_of(lab, job)[1] == "0"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("node", "unit", "failure"),
    [
        ("node0", "slurmctld", "F73"),
        ("node1", "slurmd", "F73"),
        ("node0", "slurmdbd", "F38"),
        ("node0", "mariadb", "F38"),
        ("node0", "slurmrestd", "F73"),
    ],
)
def test_killed_daemon(lab: Live, node: str, unit: str, failure: str) -> None:
    """Stopped so that systemd does not start it again: it is named, ``up`` starts it."""
    # Begun for sure: slurmctld 24.11 that dies between a batch launch and slurmd's answer leaves a
    # job that "runs" in its extern step alone until its time limit (seen here: "Could not confirm
    # batch launch for job 10, aborting request").
    job = submit(lab, "node1", sh("touch /tmp/began; sleep 10"))
    wait_for(lambda: lab.run("node1", sh("rm /tmp/began")).ok, FAR, f"job {job} begins")
    lab.run(node, sh("systemctl kill -s KILL {u}; systemctl stop {u}", u=f"{unit}.service"))
    assert unit in status_text(lab)
    assert diagnosed(lab)[0][0] == failure
    plan = asyncio.run(api.plan(lab.spec))
    assert f"service:{unit}" in {c.change.resource for s in plan.stages for c in s.changes}
    repair(lab)
    reaches(lab, job, "COMPLETED")


@pytest.mark.slow
def test_killed_clock_daemon(lab: Live) -> None:
    """chrony is not a service of Slurm's, so ``status`` is silent; the plan is not."""
    lab.run("node1", sh("systemctl kill -s KILL chrony.service; systemctl stop chrony.service"))
    plan = asyncio.run(api.plan(lab.spec))
    assert "service:chrony" in {c.change.resource for s in plan.stages for c in s.changes}
    repair(lab)


@pytest.mark.slow
def test_clock_skew(lab: Live, machines: Lab) -> None:
    """A clock ten minutes ahead: Slurm's credentials would expire; ``up`` sets it right."""
    machines.machines[1].root("systemctl stop chrony")
    machines.machines[1].skew(600)
    assert diagnosed(lab)[0] == ("F02", ("node1",))
    plan = asyncio.run(api.plan(lab.spec))
    assert not plan.empty
    repair(lab)
    clocks = [int(m.root("date +%s")) for m in machines.machines[:2]]
    assert abs(clocks[0] - clocks[1]) < 10


@pytest.mark.slow
def test_full_disk(lab: Live, machines: Lab) -> None:
    """A full disk on a node: what cannot be written is reported, not half done; space fixes it."""
    node = machines.machines[1]
    node.root(
        "rm -f /etc/apt/apt.conf.d/52corral-upgrades; fallocate -l 20G /fill || "
        "dd if=/dev/zero of=/fill bs=1M 2>/dev/null || true; sync",
        timeout=FAR,
    )
    try:
        assert diagnosed(lab)[0] == ("F67", ("node1",))
        with pytest.raises(CorralError, match=r"(?i)no space|disk|write"):
            asyncio.run(api.up(lab.spec))
    finally:
        node.root("rm -f /fill")
    repair(lab)
