"""Use cases around one trouble: why a node is out, why a job is pending, and safe fixes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from corral.api.lifecycle.deployment import Approve, up
from corral.api.operations.diagnosis import scene_of
from corral.api.operations.nodes import chosen, resume
from corral.apply.connection import Connection
from corral.doctor.cluster_diagnosis import causes, diagnose
from corral.doctor.drain_reason import (
    WhyDrained,
    fixed_by_plan,
    node_of,
    resumable,
    why_drained,
)
from corral.doctor.model import Report
from corral.doctor.pending_reason import QUEUE_COLUMNS, WhyPending, queue_ahead, why_pending
from corral.doctor.probes import Scene
from corral.errors import Code, CorralError
from corral.events import Emit, ignore
from corral.hosts.transport import check
from corral.inspect.jobs import job_request, pending_in, queued_job
from corral.inspect.question import inquiry
from corral.inspect.slurm import NODES, partition_named, strictly
from corral.slurm.records import Partition
from corral.spec.models import ClusterSpec
from corral.spec.slurm.hostlist import fold

TIMEOUT: Final = 60.0
ApproveResume = Callable[[tuple[str, ...]], bool]


@dataclass(frozen=True, slots=True)
class Repaired:
    """What the fix achieved.

    Attributes:
        before: what was found.
        applied: True when the cluster is as its file declares, False when that was refused; None
            when no finding asked for it.
        resumed: nodes that take jobs again because the cause of their reason is gone.
        after: what is left.
    """

    before: Report
    applied: bool | None
    resumed: tuple[str, ...]
    after: Report

    def as_dict(self) -> dict[str, object]:
        """Findings before and after; what was applied and resumed."""
        return {
            "before": [f.as_dict() for f in self.before.findings],
            "applied": self.applied,
            "resumed": list(self.resumed),
            "healthy": self.after.healthy,
            "findings": [f.as_dict() for f in self.after.findings],
        }


async def repair(
    spec: ClusterSpec,
    emit: Emit = ignore,
    approve: Approve | None = None,
    approve_resume: ApproveResume | None = None,
) -> Repaired:
    """Fix what is safe to fix: the cluster file's own plan, then resumed nodes.

    Nodes are resumed only when Slurm itself took them out, for a cause that is gone; what a person
    drained stays drained.

    Args:
        spec: the cluster.
        emit: receives all events.
        approve: asked with each plan, as with ``up``; None: yes.
        approve_resume: asked with the nodes to resume; None: yes.

    Raises:
        CorralError: as ``up`` and ``resume``.
    """
    scene = await scene_of(spec)
    before = after = diagnose(scene)
    applied: bool | None = None
    if fixed_by_plan(before):
        applied = await up(spec, emit, approve)
        scene = await scene_of(spec)
        after = diagnose(scene)
    ready = _ready(scene)
    if not ready or applied is False or not (approve_resume is None or approve_resume(ready)):
        return Repaired(before, applied, (), after)
    await resume(spec, fold(ready))
    return Repaired(before, applied, ready, diagnose(await scene_of(spec)))


def _ready(scene: Scene) -> tuple[str, ...]:
    seen = causes(scene)
    return tuple(n for n, info in scene.known.items() if resumable(info, seen))


async def explain_drained(spec: ClusterSpec, node: str) -> WhyDrained:
    """Why a node takes no jobs: Slurm's state and reason in words, and what the doctor sees there.

    Raises:
        CorralError: NOT_FOUND, no such node, or Slurm does not answer; USAGE, several nodes.
    """
    names = chosen(spec, node)
    if not node or len(names) != 1:
        raise CorralError(Code.USAGE, f"one node is meant, not {node!r}", hint="name one node")
    scene = await scene_of(spec)
    return why_drained(node_of(scene.known, names[0]), diagnose(scene))


async def explain_pending(spec: ClusterSpec, job_id: int | str) -> WhyPending:
    """Why a job is pending: Slurm's reason explained, what is not free, when it should start.

    Args:
        spec: the cluster.
        job_id: its number, or ``1234_5`` for one of an array.

    Raises:
        CorralError: NOT_FOUND, no such job in the queue, or the cluster is not up.
    """
    async with await Connection.open(spec) as session:
        session.require_running()
        # A job's name may hold anything, so its line comes alone.
        queued = queued_job(job_id)
        answer = await session.fleet.run(session.controller, queued.shell, timeout=TIMEOUT)
        jobs = queued.parse(answer.stdout) if answer.ok else ()
        if not jobs:
            raise CorralError(
                Code.NOT_FOUND,
                f"job {job_id} is not in the queue",
                session.controller,
                tail="" if answer.ok else answer.tail,
                hint=f"how it ended: corral logs {job_id}",
            )
        first = jobs[0].partition.partition(",")[0]
        request, of_partition = job_request(job_id), partition_named(first)
        pending = pending_in(first, QUEUE_COLUMNS)
        asked = inquiry((request, of_partition, pending, NODES))
        rest = await session.fleet.run(session.controller, asked.script, timeout=TIMEOUT)
    sections = asked.read(check(rest, "asking Slurm").stdout)
    parts = sections.require(asked.names, session.controller, "asking Slurm")
    shown = sections.succeeded(NODES.name, session.controller, "asking Slurm for its nodes")
    nodes = {info.name: info for info in strictly(NODES).parse(shown)}
    queue = pending.read(parts)
    ahead = queue_ahead(jobs[0].id, queue)
    priority = next((each.priority for each in queue if each.id == jobs[0].id), None)
    job = replace(jobs[0], priority=priority)
    asked_for = request.read(parts)
    shown_partition = next(iter(of_partition.read(parts)), Partition(first))
    return why_pending(job, asked_for.tres if asked_for else "", shown_partition, nodes, ahead)
