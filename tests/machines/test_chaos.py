"""What breaks on real machines: power, cables, clocks, disks, daemons.

``status`` says what happened, ``up`` mends what can be mended, and jobs finish.
"""

from __future__ import annotations

import asyncio

import pytest

from corral import api
from corral.errors import CorralError
from corral.hosts.quote import Script, sh
from tests.embedded.conftest import Live
from tests.machines.lab import Lab
from tests.machines.lab.labs import wait_for

FAR = 240.0
"""Longest wait for anything: three machines share two CPUs with whatever else runs there."""


def said(lab: Live) -> str:
    """All that ``status`` says of nodes and troubles, as one text."""
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


def mended(lab: Live) -> None:
    """``up`` makes it whole: no trouble, all nodes usable, and a job runs on all of them."""
    asyncio.run(api.up(lab.spec))
    wait_for(lambda: healthy(lab), FAR, f"a healthy cluster after up:\n{said(lab)}", each=2.0)
    where = lab.run("node0", sh("timeout 100 srun -N3 -t 2 hostname | sort"), timeout=120).stdout
    assert where.split() == ["node0", "node1", "node2"]


def submit(lab: Live, node: str, script: Script) -> str:
    """A job of alice's on a node, requeued when the node is lost; its id."""
    job = sh(
        "cd /tmp && su alice -s /bin/sh -c {inner}",
        inner=str(
            sh(
                "sbatch --parsable --requeue -o /dev/null -t 10 -w {node} --wrap {script}",
                node=node,
                script=str(script),
            )
        ),
    )
    answer = lab.run("node0", job)
    assert answer.ok, answer.tail
    return answer.stdout.strip()


def state_of(lab: Live, job: str) -> dict[str, str]:
    text = lab.run("node0", sh("timeout 20 scontrol show job {job}", job=job)).stdout
    pairs = (word.partition("=") for word in text.split())
    return {key: value for key, _, value in pairs}


def reaches(lab: Live, job: str, *states: str) -> None:
    wait_for(
        lambda: state_of(lab, job).get("JobState") in states,
        FAR,
        f"job {job} is {states}",
        each=2.0,
    )


def test_power_cut_of_a_node_with_a_job_on_it(lab: Live, machines: Lab) -> None:
    """The job is requeued when its node comes back, and finishes; the other nodes go on."""
    job = submit(lab, "node2", sh('[ -n "$SLURM_RESTART_COUNT" ] || sleep 600'))
    reaches(lab, job, "RUNNING")
    machines.machines[2].power_cut()
    wait_for(lambda: "node2" in said(lab) and not healthy(lab), FAR, "status notices", each=2.0)
    assert "node2: unreachable" in said(lab)
    other = lab.run("node0", sh("timeout 100 srun -w node1 -t 1 hostname"), timeout=120)
    assert other.stdout.strip() == "node1", other.tail
    machines.machines[2].on()
    machines.wait()
    mended(lab)
    reaches(lab, job, "COMPLETED")
    assert state_of(lab, job)["Restarts"] == "1"


def test_network_cut_and_back(lab: Live, machines: Lab) -> None:
    """A job outlives its node's cable: slurmd and the step go on, and report later."""
    job = submit(lab, "node2", sh("sleep 20"))
    reaches(lab, job, "RUNNING")
    machines.machines[2].cut_network()
    try:
        wait_for(lambda: "node2" in said(lab) and not healthy(lab), FAR, "status notices", each=2.0)
    finally:
        machines.machines[2].mend_network()
    machines.wait()
    mended(lab)
    reaches(lab, job, "COMPLETED")


@pytest.mark.parametrize(
    ("node", "unit"),
    [
        ("node0", "slurmctld"),
        ("node1", "slurmd"),
        ("node0", "slurmdbd"),
        ("node0", "mariadb"),
        ("node0", "slurmrestd"),
        ("node1", "chrony"),
    ],
)
def test_killed_daemon(lab: Live, node: str, unit: str) -> None:
    """Stopped so that systemd does not start it again; ``status`` names it, ``up`` starts it."""
    job = submit(lab, "node1", sh("sleep 10"))
    lab.run(node, sh("systemctl kill -s KILL {u}; systemctl stop {u}", u=f"{unit}.service"))
    if unit != "chrony":
        assert unit in said(lab)
    plan = asyncio.run(api.plan(lab.spec))
    assert f"service:{unit}" in {c.change.resource for s in plan.stages for c in s.changes}
    mended(lab)
    reaches(lab, job, "COMPLETED")


def test_clock_skew(lab: Live, machines: Lab) -> None:
    """A clock ten minutes ahead: Slurm's credentials would expire; ``up`` sets it right."""
    machines.machines[1].root("systemctl stop chrony")
    machines.machines[1].skew(600)
    plan = asyncio.run(api.plan(lab.spec))
    assert not plan.empty
    mended(lab)
    clocks = [int(m.root("date +%s")) for m in machines.machines[:2]]
    assert abs(clocks[0] - clocks[1]) < 10


def test_full_disk(lab: Live, machines: Lab) -> None:
    """A node with a full disk: what cannot be written is said, not half done; space mends it."""
    node = machines.machines[1]
    node.root(
        "rm -f /etc/default/slurmd; fallocate -l 20G /fill || "
        "dd if=/dev/zero of=/fill bs=1M 2>/dev/null || true; sync",
        timeout=FAR,
    )
    try:
        with pytest.raises(CorralError, match=r"(?i)no space|disk|write"):
            asyncio.run(api.up(lab.spec))
    finally:
        node.root("rm -f /fill")
    mended(lab)
