"""Each kind of resource is changed without Corral: the plan shows that change and no other, and an
apply reverts it."""

from __future__ import annotations

import asyncio

from tests.embedded.conftest import Live
from tests.embedded.running_cluster import settled

from corral import api
from corral.hosts.quote import Script

DRIFTS = (
    ("node0", "sed -i s/=yes/=no/ /etc/slurm/cgroup.conf", "file:/etc/slurm/cgroup.conf"),
    ("node0", "rm /etc/slurm/gres.conf", "file:/etc/slurm/gres.conf"),
    ("node0", "dpkg --purge slurmrestd", "packages:controller"),
    ("node0", "mariadb -e \"DROP USER 'slurm'@'localhost'\"", "database:slurm_acct_db"),
    ("node1", "echo '# x' >> /etc/default/slurmd", "file:/etc/default/slurmd"),
    ("node1", "chmod 644 /etc/slurm/slurm.key", "secret:/etc/slurm/slurm.key"),
    ("node1", "chmod 777 /var/spool/slurmd", "directory:/var/spool/slurmd"),
    ("node1", "echo 127.0.1.1 node1 >> /etc/hosts", "hosts"),
    ("node2", "systemctl stop slurmd", "service:slurmd"),
    ("node2", "hostname elsewhere", "hostname"),
    ("node2", "head -c 99 /dev/urandom > /etc/slurm/slurm.key", "secret:/etc/slurm/slurm.key"),
    ("node2", "userdel corral", "user:corral"),
)
FOLLOWS = ("service:", "slurm-accounts:", "file:/etc/systemd/system/slurmrestd")
"""Other changes that follow: services with changed inputs, and what purging a package removed."""


def test_drift_of_every_kind_is_shown_and_fixed(cluster: Live) -> None:
    settled(cluster)
    for node, drift, _ in DRIFTS:
        assert cluster.run(node, Script(drift)).ok, drift  # pyright: ignore[reportArgumentType]
    plan = asyncio.run(api.plan(cluster.spec))
    seen = {(n, c.change.resource) for s in plan.stages for c in s.changes for n in c.nodes}
    expected = {(node, resource) for node, _, resource in DRIFTS}
    assert expected <= seen, expected - seen
    assert not [r for _, r in seen - expected if not r.startswith(FOLLOWS)], seen - expected
    settled(cluster)
