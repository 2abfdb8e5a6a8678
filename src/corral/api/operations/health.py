"""Use cases: each node's health check, and what its jobs and GPUs use now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from corral.api.operations.nodes import chosen
from corral.apply.connection import Connection
from corral.durations import interval_seconds
from corral.errors import Code, CorralError
from corral.inspect.jobs import FIGURES, Reading
from corral.inspect.question import MachineState
from corral.prove.checks.health import HealthLine, common, run_health_checks
from corral.runtime.tasks import concurrently
from corral.spec.models import ClusterSpec
from corral.spec.nodes import nodes_of, partitions_of


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """What the nodes' health checks see.

    Attributes:
        nodes: the nodes that were asked.
        lines: the result of each check of each node.
        silent: nodes that did not answer, with the error.
    """

    nodes: tuple[str, ...]
    lines: tuple[HealthLine, ...]
    silent: tuple[CorralError, ...] = ()

    @property
    def healthy(self) -> bool:
        """True when all answered and nothing fails; warnings do not count."""
        return not self.silent and not any(line.word == "fail" for line in self.lines)

    @property
    def common(self) -> tuple[str, ...]:
        """Sentences about what fails on most nodes."""
        return common(self.lines, len(self.nodes))

    def as_dict(self) -> dict[str, object]:
        """Whether all is healthy; each check, and nodes that did not answer."""
        return {
            "healthy": self.healthy,
            "nodes": list(self.nodes),
            "checks": [asdict(line) for line in self.lines],
            "silent": [error.as_dict() for error in self.silent],
            "common": list(self.common),
        }


async def node_health(spec: ClusterSpec, nodes: str = "") -> ClusterHealth:
    """Run the health check of compute nodes now; it changes nothing and drains no node.

    Args:
        spec: the cluster.
        nodes: a hostlist; "" for all compute nodes.

    Raises:
        CorralError: USAGE, the file switched it off, or no such list; NOT_FOUND, no such node.
    """
    if not interval_seconds(spec.health.every):
        raise CorralError(
            Code.USAGE,
            "the cluster file has health.every: off, so its nodes have no health check",
            hint="write health: {every: 5m} and run corral up FILE",
        )
    groups = {group for part in partitions_of(spec) for group in part.groups}
    compute = {node.name for node in nodes_of(spec) if node.group.name in groups}
    names = tuple(name for name in chosen(spec, nodes) if name in compute)
    async with await Connection.open(spec) as session:
        answers = await run_health_checks(session.fleet, names)
    lines = tuple(
        line for answer in answers if not isinstance(answer, CorralError) for line in answer
    )
    return ClusterHealth(names, lines, tuple(e for e in answers if isinstance(e, CorralError)))


TIMEOUT: Final = 30.0


async def node_figures(
    spec: ClusterSpec, nodes: Sequence[str]
) -> Mapping[str, tuple[Reading, ...]]:
    """Values of each node that answers.

    Raises:
        CorralError: NOT_FOUND, the cluster is not up.
    """
    async with await Connection.open(spec) as session:
        session.require_running()
        known = [node for node in nodes if node in session.fleet.nodes]
        machines = await concurrently(
            *(MachineState.ask(session.fleet, node, (FIGURES,), timeout=TIMEOUT) for node in known)
        )
    return {machine.node: machine.get(FIGURES) or () for machine in machines}
