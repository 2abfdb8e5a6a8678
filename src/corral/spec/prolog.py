"""What runs on a node before and after each job."""

from __future__ import annotations

from typing import Literal

from corral.spec.kinds import Model, about


class Prolog(Model):
    """Small scripts that run as root on each node of a job, in /etc/slurm/prolog.d and epilog.d.

    Scripts that somebody else puts there run too and stay. The first of these fields brings Prolog=
    and Epilog= into slurm.conf, which Slurm reads again; from then on the scripts count from the
    next job and no daemon has to reread anything.
    """

    leftovers: bool = about(
        "reload",
        "After a user's last job on a node: end processes that the job left outside any login, and "
        "remove the user's files in /dev/shm, /tmp and /var/tmp and System V memory; the files "
        "stay while the user is logged in there.",
        default=True,
    )
    gpus: bool = about(
        "reload",
        "After a job: end what still computes on its GPUs, and drain the node where that fails; "
        "after one that had the entire node also reset clocks, power and compute mode.",
        default=True,
    )
    clocks: Literal["keep", "highest"] = about(
        "reload",
        "highest: for a job that has the entire node, GPUs and CPUs at their highest clocks.",
        default="keep",
    )
    drop_caches: bool = about(
        "reload",
        "After a job that had the entire node, empty the page cache, so that the next "
        "one starts under the same conditions.",
        default=False,
    )
    minutes: int = about(
        "reload",
        "How long all scripts of a job may take together; then the node is drained.",
        default=5,
        ge=1,
        le=60,
    )
