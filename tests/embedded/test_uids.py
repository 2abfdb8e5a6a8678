"""Numbers of users that differ between machines (F17): up moves them, and a job runs on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator

import pytest
from tests.embedded.conftest import Live, named
from tests.embedded.running_cluster import cancel, job_on, pid_of, summaries

from corral import api
from corral.hosts.quote import sh
from corral.roles.machine.base import SLURM_UID
from corral.spec.models import ClusterSpec

pytestmark = pytest.mark.slow
# As a package leaves it that made the user before Corral came, with files of that number.
OTHER = sh(
    "systemctl stop slurmctld slurmdbd 2>/dev/null; "
    "sed -i 's/^slurm:x:[0-9]*:[0-9]*:/slurm:x:64998:64997:/' /etc/passwd && "
    "sed -i 's/^slurm:x:[0-9]*:/slurm:x:64997:/' /etc/group && "
    'for d in {owned}; do [ ! -e "$d" ] || '
    'find "$d" -xdev -uid {uid} -exec chown -h 64998:64997 {{}} +; done; id slurm',
    owned=["/var/spool/slurmctld", "/etc/slurm", "/var/log/slurm"],
    uid=SLURM_UID,
)
"""Not usermod: it refuses while a process runs as the user."""


@pytest.fixture(scope="module")
def cluster(fresh_cluster: Callable[[ClusterSpec], Live]) -> Live:
    """A separate one: what goes wrong here may leave no controller."""
    return fresh_cluster(named(f"uids-{os.getpid()}"))


@pytest.fixture
def others(cluster: Live) -> Iterator[str]:
    """Another number for slurm on the controller and on node1, and a job that runs meanwhile."""
    job = job_on(cluster, "node2")
    yield job
    asyncio.run(api.up(cluster.spec))
    cancel(cluster, [job])


def ids(live: Live, node: str) -> str:
    return live.run(node, sh("id -u slurm; id -g slurm")).stdout.replace("\n", " ").strip()


def test_slurms_number_is_moved_and_the_job_runs_on(cluster: Live, others: str) -> None:
    pid = pid_of(cluster, "node2", others)
    for node in ("node0", "node1"):
        done = cluster.run(node, OTHER)
        assert "uid=64998(slurm) gid=64997(slurm)" in done.stdout, done.tail
    plan = asyncio.run(api.plan(cluster.spec))
    assert [s for s in summaries(plan) if "renumber user slurm (64030)" in s], summaries(plan)
    assert asyncio.run(api.up(cluster.spec))
    assert {ids(cluster, n) for n in ("node0", "node1", "node2")} == {"64030 64030"}
    left = sh("find / -xdev -nouser -o -xdev -nogroup | head -n 3")
    for node in ("node0", "node1"):
        assert cluster.run(node, left).stdout == "", "files of the old number are left"
    assert pid_of(cluster, "node2", others) == pid, "the job did not live through it"
    assert asyncio.run(api.plan(cluster.spec)).empty
    assert cluster.run("node0", sh("timeout 60 srun -N2 -w node0,node1 true")).ok
