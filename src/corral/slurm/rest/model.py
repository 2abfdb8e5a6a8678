"""What the page knows of a cluster, in one shape for all releases of Slurm. Pure.

Times are unix seconds, memory is MiB, limits are seconds; None is "not known" or "no limit".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

USER, OPERATOR, ADMINISTRATOR = "user", "operator", "administrator"
ROLES: Final = (USER, OPERATOR, ADMINISTRATOR)
"""Slurm's admin levels (sacctmgr(1), AdminLevel: None, Operator, Administrator), weakest first."""


@dataclass(frozen=True, slots=True)
class RestNode:
    """A node as slurmctld knows it.

    Attributes:
        state: base state and flags, ``IDLE+DRAIN``.
        reason, reason_user, reason_at: why it is drained or down, who said so and when.
        load: one-minute load average.
        memory_free: free memory of the machine, as slurmd told last.
        watts: power drawn now, where an energy plugin tells it.
    """

    name: str
    state: str
    usable: bool
    reason: str = ""
    reason_user: str = ""
    reason_at: int | None = None
    cpus: int = 0
    cpus_used: int = 0
    load: float | None = None
    memory: int = 0
    memory_used: int = 0
    memory_free: int | None = None
    gpus: int = 0
    gpus_used: int = 0
    gres: str = ""
    partitions: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    address: str = ""
    version: str = ""
    boot_at: int | None = None
    watts: int | None = None


@dataclass(frozen=True, slots=True)
class RestJob:
    """A job as slurmctld knows it.

    Attributes:
        id: Slurm's number; label is what people call it: ``12_[3-30]`` of an array.
        state: Slurm's word; why: what it waits for, in words.
        exit_status, exit_signal: how it ended.
        limit: time limit in seconds.
        gpus: those it has or had, before it starts those it asks for; gpus_exact: it gets no more
            (see ``slurm.gpus``).
        held: somebody holds it, and release lets it go.
    """

    id: int
    label: str
    name: str
    user: str
    state: str
    reason: str = ""
    why: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    priority: int | None = None
    nodes: str = ""
    node_count: int = 0
    cpus: int = 0
    gpus: int = 0
    gpus_exact: bool = True
    memory: int = 0
    submit_at: int | None = None
    start_at: int | None = None
    end_at: int | None = None
    limit: int | None = None
    exit_status: int | None = None
    exit_signal: int = 0
    held: bool = False
    stdout: str = ""
    stderr: str = ""
    workdir: str = ""
    command: str = ""
    comment: str = ""
    dependency: str = ""
    restarts: int = 0

    @property
    def ended(self) -> bool:
        """It will not run any more."""
        return self.state in ENDED

    @property
    def waiting(self) -> bool:
        """It has not begun."""
        return self.state in WAITING


@dataclass(frozen=True, slots=True)
class RestPartition:
    """A partition: its nodes as a hostlist, and its limit."""

    name: str
    state: str
    nodes: str
    node_count: int
    max_time: int | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """What an answer says of itself.

    Attributes:
        release: Slurm's version, ``24.11.5``.
        errors: Slurm's own words, empty when all went well.
        last_update: when slurmctld last changed what was asked for; 0 where nothing changed since
            the time in the question.
    """

    release: str = ""
    errors: tuple[str, ...] = ()
    last_update: int | None = None


ENDED: Final = frozenset(
    {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL",
     "DEADLINE", "OUT_OF_MEMORY", "LAUNCH_FAILED", "RECONFIG_FAIL", "REVOKED"}
)  # fmt: skip
WAITING: Final = frozenset(
    {"PENDING", "CONFIGURING", "POWER_UP_NODE", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD",
     "RESV_DEL_HOLD", "SPECIAL_EXIT", "EXPEDITING"}
)  # fmt: skip
