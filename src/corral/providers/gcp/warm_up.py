"""The first job of several nodes, run once they are made, where its prolog takes minutes."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.hosts.quote import Script, sh
from corral.hosts.transport import Transport
from corral.providers.gcp.machines import gpu_machines
from corral.spec.models import ClusterSpec
from corral.spec.nodes import nodes_of, partitions_of
from corral.spec.slurm.hostlist import fold

WARM_UP_S: Final = 1800
"""Seconds for slurmd of all nodes to come up and for their prologs, which pull two images."""
_TIMED_OUT: Final = 124
"""What timeout(1) ends with when it ended the command."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """One job that does nothing.

    Attributes:
        partition: where it runs.
        why: it is slow.
        count: its nodes; two at least, as slurm-gcp's prolog does nothing for one.
        nodes: those that must be among them.
    """

    partition: str
    why: str
    count: int
    nodes: tuple[str, ...]

    @property
    def command(self) -> Script:
        """The job; ended with its wait, so that it stays in no queue."""
        return sh(
            "timeout {limit} srun --job-name=corral-warm-up --partition={partition}"
            " --nodes={count} --nodelist={nodes} --ntasks-per-node=1 --time=30 true 2>&1",
            limit=WARM_UP_S,
            partition=self.partition,
            count=self.count,
            nodes=fold(self.nodes),
        )


def warm_ups(spec: ClusterSpec, created: Collection[str]) -> Iterator[WarmUp]:
    """A job for each partition with such machines that were just made; each node in one."""
    slow = {
        group.name: machine.first_job
        for group in spec.groups
        if (machine := gpu_machines().get(group.machine or "")) and machine.first_job
    }
    left = set(created)
    for part in partitions_of(spec):
        nodes = [n for n in nodes_of(spec) if n.group.name in slow and n.group.name in part.groups]
        new = tuple(node.name for node in nodes if node.name in left)
        if new and len(nodes) > 1:
            yield WarmUp(part.name, slow[nodes[0].group.name], max(len(new), 2), new)
        left.difference_update(new)


async def warm_up(
    spec: ClusterSpec, created: Collection[str], login: Transport, emit: Emit
) -> None:
    """Run them, one after the other; one that fails is a note, as the proof finds out why.

    Args:
        spec: the cluster.
        created: nodes that were just made.
        login: where srun is.
        emit: takes what happens.
    """
    for job in warm_ups(spec, created):
        began, name = time.monotonic(), f"{job.partition}: first job over {fold(job.nodes)}"
        emit(Event(Kind.NOTE, "machines", message=f"{name}: {job.why}"))
        reason = await _ran(job, login)
        took = time.monotonic() - began
        message = f"{name} failed: {reason}; corral prove" if reason else f"{name} ended"
        emit(Event(Kind.NOTE, "machines", message=message, seconds=took))


async def _ran(job: WarmUp, login: Transport) -> str:
    """Why a job failed, "" when it did not."""
    try:
        result = await login.run(job.command, timeout=WARM_UP_S + 60)
    except CorralError as error:
        if error.code in (Code.UNREACHABLE, Code.TIMED_OUT):
            return error.message
        raise
    if result.status == _TIMED_OUT:
        return f"not run after {WARM_UP_S / 60:.0f} minutes"
    lines = result.tail.splitlines()
    return "" if result.ok else (lines[-1] if lines else f"srun ended with {result.status}")
