"""Node health: what each compute node checks automatically, and what follows."""

from __future__ import annotations

from typing import Literal

from corral.spec.kinds import Interval, Model, about

HealthCheck = Literal[
    "health.gpus",
    "health.ecc",
    "health.remap",
    "health.pcie",
    "health.xid",
    "health.nvlink",
    "health.ib",
    "health.mounts",
    "health.clock",
    "health.disk",
    "health.memory",
    "health.spool",
    "health.services",
    "health.leftover",
]


class Health(Model):
    """Slurm's HealthCheckProgram: a few seconds' look at each node, without Python."""

    every: Interval = about(
        "reload", "How often each compute node looks at itself; off: never.", default="5m"
    )
    drain: bool = about(
        "none",
        "A node that fails takes no new jobs, with the check's id as the reason, and takes them "
        "again automatically once all checks pass; false: failures are only "
        "reported (syslog, corral doctor).",
        default=True,
    )
    at_most: int = about(
        "none",
        "Percent of the nodes that may be out for this at once (one node always may): a cause that "
        "all nodes have, such as a file server that is away, takes out no more.",
        default=25,
        ge=0,
        le=100,
    )
    skip: tuple[HealthCheck, ...] = about(
        "none", "Checks that are left out; corral's reference lists all.", default=()
    )
