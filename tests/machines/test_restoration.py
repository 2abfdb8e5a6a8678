"""``down`` leaves machines as they were before ``up``: compared, on real kernels.

It comes last: the machines that all tests of this folder share are bare afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from corral import api
from corral.errors import Code, CorralError
from corral.hosts.quote import sh
from corral.spec.models import ClusterSpec
from tests.embedded.conftest import Live
from tests.machines.before_after import differences, snapshot
from tests.machines.lab import Lab
from tests.machines.test_chaos import reaches

CHANGED = ("etc", "packages", "passwd", "units", "hostname", "processes", "listening")


def refused(spec: ClusterSpec) -> CorralError:
    """Why ``down`` does not release the machines now."""
    with pytest.raises(CorralError) as caught:
        asyncio.run(api.down(spec))
    return caught.value


@pytest.fixture
def job(lab: Live) -> Iterator[str]:
    """A job of alice's that runs on node1; cancelled at the end."""
    submit = sh(
        "cd /tmp && runuser -u alice -- sbatch --parsable -w node1 -o /dev/null --wrap {w}",
        w="sleep 900",
    )
    number = lab.run("node0", submit).stdout.strip()
    reaches(lab, number, "RUNNING")
    yield number
    lab.run("node0", sh("scancel {n}", n=number))
    reaches(lab, number, "CANCELLED")


def test_not_while_a_job_runs(lab: Live, job: str) -> None:
    """It reports which job, and changes nothing."""
    returning = asyncio.run(api.pending_release(lab.spec))
    assert returning.jobs == (f"{job} alice node1",)
    assert {m.node: m.error for m in returning.machines} == dict.fromkeys(lab.facts)
    error = refused(lab.spec)
    assert error.code is Code.NOT_GOOD
    assert job in error.tail
    plan = asyncio.run(api.plan(lab.spec))
    assert plan.empty, [c.change.summary for s in plan.stages for c in s.changes]


def test_machines_are_restored_as_they_were(lab: Live, machines: Lab) -> None:
    spec, (first, second, *_) = lab.spec, machines.machines
    before = [(machines.folder / f"before{m.index}").read_text() for m in machines.machines]
    changed = differences(before[0], snapshot(first))
    for section in CHANGED:
        assert [line for line in changed if line.startswith(section)], section

    # The owner wrote somewhere meanwhile.
    second.root("echo '10.0.0.6 scanner' >> /etc/hosts; echo '# by hand' >> /etc/default/slurmd")

    # One machine does not answer: the other is not given up, and the same again finishes.
    second.cut_network()
    try:
        assert "node1" in refused(spec).tail
    finally:
        second.reconnect_network()
    machines.wait()
    gone = asyncio.run(api.down(spec))
    kept = "/etc/default/slurmd.corral-kept: somebody changed /etc/default/slurmd since"
    assert f"node1: kept {kept}" in gone
    assert any(line.startswith("node0: kept /var/backups/corral-") for line in gone)

    # What the owner wrote is there, the rest is as it was.
    assert "scanner" in second.root("cat /etc/hosts")
    assert "by hand" in second.root("cat /etc/default/slurmd.corral-kept")
    second.root("sed -i /scanner/d /etc/hosts; rm /etc/default/slurmd.corral-kept")
    for machine, was in zip(machines.machines, before, strict=True):
        assert differences(was, snapshot(machine)) == [], machine.index
        assert machine.root("ls -d /var/lib/corral 2>&1 || :").startswith("ls: cannot access")

    # Nothing is there any more, and that is not an error.
    assert all("none" in line for line in asyncio.run(api.down(spec)))
