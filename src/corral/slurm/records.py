"""Slurm's records: one class for each, whichever way it was read. Pure.

``slurm.text`` reads what scontrol prints, ``slurm.rest.read`` what slurmrestd and ``--json`` print.
Times are unix seconds, memory is MiB, limits are seconds; None is "not known" or "no limit".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.slurm.gpus import listed
from corral.slurm.states.jobs import JobState
from corral.slurm.states.nodes import NodeState

ENDED: Final = frozenset(state.value for state in JobState if state.ended)
WAITING: Final = frozenset(state.value for state in JobState if state.waiting)


@dataclass(frozen=True, slots=True)
class Node:
    """A node as slurmctld knows it.

    Attributes:
        state: base state and flags.
        reason, reason_by, reason_at: why it is drained or down, who set that and when; a text
            where the command printed a local time.
        address: NodeAddr.
        version: slurmd's version, "" while it never registered.
        features: those it can have; active_features: those it has now.
        threads: hardware threads of one core.
        load: one-minute load average.
        memory: RealMemory; memory_used: given to jobs; memory_free: free on the machine.
        gres, gres_used: as Slurm writes them; scontrol prints the second only with ``--details``.
        tres, tres_used: CfgTRES and AllocTRES.
        watts: power drawn now, where an energy plugin reports it.
    """

    name: str
    state: NodeState
    reason: str = ""
    reason_by: str = ""
    reason_at: int | str | None = None
    address: str = ""
    version: str = ""
    partitions: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    active_features: tuple[str, ...] = ()
    cpus: int = 0
    cpus_used: int = 0
    threads: int = 1
    load: float | None = None
    memory: int = 0
    memory_used: int = 0
    memory_free: int | None = None
    gres: str = ""
    gres_used: str = ""
    tres: str = ""
    tres_used: str = ""
    boot_at: int | None = None
    watts: int | None = None

    @property
    def usable(self) -> bool:
        """Whether jobs can be started there now or once the jobs on it end."""
        return self.state.usable

    @property
    def why_out(self) -> str:
        """Why no job is started there: Slurm's reason, else what its state does not tell Corral."""
        unknown = ", ".join(self.state.unknown_flags)
        return self.reason or (f"Corral does not know the flag {unknown}" if unknown else "")

    @property
    def gpus(self) -> int:
        """GPUs configured."""
        return listed(self.gres) or 0

    @property
    def gpus_used(self) -> int | None:
        """GPUs given to jobs; None where the answer has them neither as GRES nor as TRES."""
        used = listed(self.gres_used)
        if used is None and listed(self.tres) is not None:  # AllocTRES counts them
            used = listed(self.tres_used) or 0
        return used if used is not None or self.gpus else 0

    @property
    def cores(self) -> int:
        """Cores, hardware threads of one core counted once."""
        return max(self.cpus // max(self.threads, 1), 1)


@dataclass(frozen=True, slots=True)
class Job:
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
class Partition:
    """A partition: its nodes as a hostlist, and its limit."""

    name: str
    state: str
    nodes: str
    node_count: int
    max_time: int | None = None
