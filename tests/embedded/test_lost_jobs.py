"""A node that stops with jobs on it: they end when it is back, and the doctor sees lost ones."""

from __future__ import annotations

import asyncio
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from corral import api
from corral.doctor import job_steps
from corral.hosts.quote import Script, sh

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

# With their tasks: those live on without it (health.leftover reports it).
ENDED = sh(
    "pkill -KILL -x slurmstepd; for p in $(grep -lso '/job_[0-9]' /proc/[0-9]*/cgroup); do"
    ' p=${{p#/proc/}}; kill -KILL "${{p%/cgroup}}"; done; true'
)
CANCEL = sh("scancel -u corral; timeout 90 sh -c 'while squeue -h | grep -q .; do sleep 1; done'")


def submit(cluster: Live, options: Script, command: Script) -> str:
    batch = sh(
        "runuser -u corral -- sbatch --parsable -D /tmp -o /dev/null --mem=50M -t 30 {options}"
        " --wrap {command}",
        options=options,
        command=str(command),
    )
    answer = cluster.run(cluster.controller, batch)
    assert answer.ok, answer.tail
    return answer.stdout.strip()


def state(cluster: Live, job: str) -> str:
    return cluster.run(cluster.controller, sh("squeue -h -o %T -j {j}", j=job)).stdout.strip()


def reaches(cluster: Live, job: str, desired: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while (now := state(cluster, job)) != desired:
        assert time.monotonic() < end, f"job {job} is {now}, not {desired}"
        time.sleep(1)


def test_jobs_of_a_node_that_was_killed_end(cluster: Live) -> None:
    """Of several nodes, and just begun: Slurm kept both RUNNING, the first for ever."""
    two = submit(cluster, sh("-N 2 -n 2 -w node[1-2]"), sh("srun sleep 1800"))
    young = submit(cluster, sh("-w node2 -n 1"), sh("sleep 1800"))
    other = submit(cluster, sh("-w node1 -n 1"), sh("sleep 1800"))
    try:
        for job in (two, young, other):
            reaches(cluster, job, "RUNNING")
        name = f"corral-{cluster.spec.name}-node2"
        subprocess.run(["podman", "kill", name], check=True, capture_output=True, timeout=60)
        asyncio.run(api.up(cluster.spec))
        reaches(cluster, two, "PENDING")  # requeued, as Slurm does it for a node that is down
        reaches(cluster, young, "PENDING")
        assert state(cluster, other) == "RUNNING"
        assert asyncio.run(api.plan(cluster.spec)).empty
        ready = sh("sinfo -h -N -n node2 -o %T")
        assert "down" not in cluster.run(cluster.controller, ready).stdout
    finally:
        cluster.run(cluster.controller, CANCEL, timeout=120)
    assert asyncio.run(api.doctor(cluster.spec)).healthy


def test_the_doctor_sees_a_lost_job_and_a_step_that_was_left(
    cluster: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_steps, "SETTLED_S", 5)  # real: two minutes
    lost = submit(cluster, sh("-N 2 -n 2 -w node[1-2]"), sh("srun sleep 1800"))
    try:
        reaches(cluster, lost, "RUNNING")
        time.sleep(6)
        assert asyncio.run(api.doctor(cluster.spec)).healthy
        # A live process that looks like a step of a job that never was.
        fake = sh(
            "d=$(mktemp -d) && cp /usr/bin/sleep $d/slurmstepd && (exec -a "
            "'slurmstepd: [999999.0]' $d/slurmstepd 600 </dev/null >/dev/null 2>&1 &)"
        )
        assert cluster.run("node1", sh("bash -c {f}", f=str(fake))).ok
        assert cluster.run("node2", ENDED).ok
        time.sleep(6)
        findings = asyncio.run(api.doctor(cluster.spec)).findings
        assert {(f.failure.id, f.nodes, f.detail) for f in findings} == {
            ("F200", ("node2",), f"job {lost}"),
            ("F201", ("node1",), "job 999999"),
        }
        user = sh("runuser -u corral -- bash -c {f}", f=str(fake))
        cluster.run("node1", sh("pkill -f '[s]lurmstepd: .999999'"))
        assert cluster.run("node1", user).ok  # a user's process is not a step
        assert "F201" not in {f.failure.id for f in asyncio.run(api.doctor(cluster.spec)).findings}
    finally:
        cluster.run("node1", sh("pkill -f '[s]lurmstepd: .999999'; rm -rf /tmp/tmp.*"))
        cluster.run(cluster.controller, CANCEL, timeout=120)
