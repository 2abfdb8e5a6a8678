"""slurmctld killed between a batch launch and slurmd's answer, and away for a while."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from corral import api
from corral.hosts.quote import sh

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

STOP = sh("pkill -STOP -x slurmd")
SUBMIT = sh(
    "j=$(runuser -u corral -- sbatch -D /tmp --parsable -w node1 -t 5 -o /shared/begun-%j"
    " --wrap 'echo begun') && echo $j && "
    # The order must be sent, and in the state that slurmctld saves (every 5 s at most).
    "timeout 60 sh -c 'until squeue -h -t R -o %i -j '$j' | grep -q .; do sleep 0.1; done' && "
    "sleep 6 && pkill -9 -x slurmctld"
)
CONTINUE = sh(
    # slurmd tries for half a minute to report that it did not start the job, then it gives up: from
    # then on it reports only that it cannot reach the controller.
    "n=$(wc -l < /var/log/slurm/slurmd.log); pkill -CONT -x slurmd; "
    "timeout 120 sh -c 'until tail -n +'$n' /var/log/slurm/slurmd.log | "
    'grep -q "sending prolog completion notification: Unable"; do sleep 1; done\''
)


@pytest.mark.slow
def test_a_launch_that_nobody_confirmed(cluster: Live) -> None:
    """Slurm counts the job as running until its time limit; requeued, it runs."""
    ctl, job = cluster.controller, ""
    try:
        assert cluster.run("node1", STOP).ok
        submitted = cluster.run(ctl, SUBMIT, timeout=120)
        job = submitted.stdout.strip()
        waited = cluster.run("node1", CONTINUE, timeout=180)
        assert submitted.ok and job.isdigit() and waited.ok, (submitted.tail, waited.tail)
    finally:
        cluster.run("node1", sh("pkill -CONT -x slurmd; :"))
        cluster.run(ctl, sh("systemctl reset-failed slurmctld; systemctl start slurmctld"))
    try:
        wait = sh("timeout 60 sh -c 'until scontrol ping | grep -q \" is UP\"; do sleep 0.5; done'")
        assert cluster.run(ctl, wait, timeout=90).ok
        assert cluster.run(ctl, sh("squeue -h -o %T -j {j}", j=job)).stdout == "RUNNING\n"
        (finding,) = asyncio.run(api.doctor(cluster.spec)).findings
        assert (finding.failure.id, finding.nodes, finding.detail) == (
            "F102",
            ("node1",),
            f"job {job}",
        )
        # What the doctor advises. Slurm lets the old credential run out first: two minutes.
        assert cluster.run(ctl, sh("scontrol requeue {j}", j=job)).ok
        wait = f"until grep -qs begun /shared/begun-{job}; do sleep 1; done"
        assert cluster.run(ctl, sh("timeout 300 sh -c {w}", w=wait), timeout=330).ok
        assert asyncio.run(api.doctor(cluster.spec)).healthy
    finally:
        cluster.run(ctl, sh("scancel {j}; rm -f /shared/begun-{j}", j=job))
