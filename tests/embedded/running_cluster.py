"""What the tests of a living cluster look at: jobs that run, and which daemons were restarted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from tests.embedded.conftest import Live

from corral import api
from corral.errors import CorralError
from corral.hosts.quote import sh
from corral.plan.model import Plan
from corral.spec.models import ClusterSpec
from corral.spec.slurm.hostlist import fold

HALF_WRITTEN = r"\.(corral(\.[A-Za-z0-9]{6})?|next)$"
"""What a key is called until it has its place, as grep -E and re take it: a rotation's own names,
mktemp's, and munge's next key."""
UNITS = ("slurmctld", "slurmdbd", "slurmd", "slurmrestd", "mariadb")


def grown(spec: ClusterSpec, nodes: str) -> ClusterSpec:
    """The cluster with other nodes in its first group."""
    group = spec.groups[0].model_copy(update={"nodes": nodes})
    return spec.model_copy(update={"groups": (group,)})


def job_on(live: Live, node: str) -> str:
    """A job of a user that runs on one node until it is cancelled; its batch process runs."""
    submit = f"cd /tmp && sbatch --parsable -w {node} -o /dev/null --wrap 'sleep 3000'"
    script = sh("runuser -u corral -- sh -c {s}", s=submit)
    job = live.run(live.controller, script).stdout.strip()
    assert job.isdigit()
    wait = f"until squeue -h -t R -o %A -j {job} | grep -q . ; do sleep 0.2; done"
    assert live.run(live.controller, sh("timeout 60 sh -c {w}", w=wait)).ok
    # Slurm reports RUNNING before the batch script has begun.
    for _ in range(200):
        if pid_of(live, node, job):
            return job
    raise AssertionError(f"job {job} has no process on {node}")


def pid_of(live: Live, node: str, job: str) -> str:
    """Process ids and start times of the job's sleep on its node: the same ones mean that it
    lived through it all."""
    script = sh(
        "for p in $(pgrep -x sleep); do if tr '\\0' '\\n' < /proc/$p/environ | "
        "grep -qx SLURM_JOB_ID={job}; then echo $p $(cut -d' ' -f22 /proc/$p/stat); fi; done",
        job=job,
    )
    return live.run(node, script).stdout.strip()


def cancel(live: Live, jobs: Iterable[str]) -> None:
    """Cancel jobs and wait until Slurm has forgotten them."""
    for job in jobs:
        wait = f"while squeue -h -o %A -j {job} 2>/dev/null | grep -q .; do sleep 0.2; done"
        live.run(live.controller, sh("scancel {j}; timeout 60 sh -c {w}", j=job, w=wait))


def starts(live: Live) -> dict[str, str]:
    """``node unit``: systemd's invocation id. It stays when a daemon replaces itself, as Slurm's do
    on ``scontrol reconfigure`` from 23.11 on, and changes with every start by systemd."""
    script = sh(
        "for u in {units}; do echo $u $(systemctl show -P InvocationID $u); done", units=UNITS
    )
    invocations: dict[str, str] = {}
    for node, answer in live.with_fleet(lambda fleet: fleet.all(script)).items():
        assert not isinstance(answer, CorralError), answer
        for line in answer.stdout.splitlines():
            unit, _, started = line.partition(" ")
            if started:
                invocations[f"{node} {unit}"] = started
    return invocations


def restarted(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """Units that systemd has started again or stopped, folded: ``slurmd``, ``slurmctld``."""
    return {name.split()[1] for name, started in before.items() if after.get(name) != started}


def complaints(live: Live) -> int:
    """How often slurmctld has reported that a node has another slurm.conf."""
    script = sh("grep -c 'different slurm.conf' /var/log/slurm/slurmctld.log || :")
    return int(live.run(live.controller, script).stdout)


def settled(live: Live) -> None:
    """Bring it up as declared; `up` ends with its own plan, True where that is empty."""
    assert asyncio.run(api.up(live.spec))


def summaries(plan: Plan) -> list[str]:
    return [f"{fold(c.nodes)} {c.change.summary}" for s in plan.stages for c in s.changes]
