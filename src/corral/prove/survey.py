"""The entire cluster read in one round trip; the smoke checks all judge what it saw."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from corral.errors import Code, CorralError
from corral.hosts.fleet import FAN_OUT
from corral.inspect import machine, services, slurm
from corral.inspect.question import MachineState, Question
from corral.prove.context import ProveContext
from corral.roles.services import mlflow
from corral.runtime.tasks import concurrently
from corral.slurm.records import Node
from corral.spec.models import ClusterSpec
from corral.spec.nodes import controller_of, controllers_of, partitions_of
from corral.spec.sections.directory import Directory
from corral.spec.slurm.node_features import ISLANDS_JOINED, NO_CGROUPS, island_of

LIMIT_S: Final = 60.0
"""Seconds for one node's answer; more for clusters of many names."""
EACH_NAME_S: Final = 0.05
SLOW_S: Final = 10.0
SLOWER: Final = 5.0
"""A node is too slow to be proven when it takes 10 s and five times as long as the fastest."""


@dataclass(frozen=True, slots=True)
class Survey:
    """The entire cluster as seen once."""

    nodes: Mapping[str, MachineState]
    compute: tuple[str, ...]
    slurm: Mapping[str, Node]
    slurm_output: str
    controller: str

    @property
    def usable(self) -> tuple[Node, ...]:
        """Compute nodes on which jobs can run."""
        known = (self.slurm.get(name) for name in self.compute)
        return tuple(node for node in known if node is not None and node.usable)

    @property
    def free(self) -> tuple[Node, ...]:
        """Usable nodes that start a job at once: where the proof's own jobs go.

        No other job runs there, and none blocks them (--exclusive=topo).
        """
        return tuple(n for n in self.usable if not n.cpus_used and "BLOCKED" not in n.state.flags)


def questions(
    names: Sequence[str],
    units: Sequence[str],
    *,
    controller: bool,
    people: Directory | None = None,
) -> tuple[Question[object], ...]:
    """What a node is asked; the clock comes first, before anything slow."""
    return (
        machine.CLOCK,
        machine.names(names),
        slurm.VERSIONS,
        services.units(units),
        slurm.CONFIG,
        slurm.IN_USE,
        slurm.MADE_FROM,
        *((machine.directory(people),) if people else ()),
        *((slurm.PING, slurm.while_up(slurm.NODES), machine.LISTENING) if controller else ()),
    )


def not_read(error: CorralError) -> str:
    """Why a node's answers cannot be judged."""
    if error.code is Code.PARSE_FAILED:
        return f"gave an {error.message}"
    return f"cannot be reached ({error.message})"


def island(node: Node) -> str:
    """The part of a mesh that a job of several nodes does not leave.

    "" for none, and for one that jobs may leave (``roles.machine.mesh``).
    """
    if ISLANDS_JOINED in node.features:
        return ""
    return island_of(node.features)


def fenced(node: Node) -> bool:
    """False where there are no cgroups (``roles.slurm.pods``)."""
    return NO_CGROUPS not in node.features


async def survey(ctx: ProveContext) -> Survey:
    """Read the cluster, once per proof."""
    return await ctx.once("survey", lambda: _surveyed(ctx))


async def _surveyed(ctx: ProveContext) -> Survey:
    names = tuple(dict.fromkeys((*(node.name for node in ctx.nodes), ctx.controller)))
    # As many at once as the fleet runs: what waits for others does not count as slow.
    gate = asyncio.Semaphore(FAN_OUT)
    seen = await concurrently(*(_probe_machine(ctx, name, names, gate) for name in names))
    by_name = {host.node: host for host in seen}
    times = [host.seconds for host in seen if host.error is None]
    ctx.slack = max(times, default=0.0) + len(names) * EACH_NAME_S
    ctx.unread.update(_unread(ctx, seen, min(times, default=0.0)))
    lead = by_name[ctx.controller]
    text = lead.text(slurm.NODES) or lead.text(slurm.PING)
    nodes = {
        name: replace(node, partitions=usable_partitions(ctx.spec, node.partitions))
        for name, node in (lead.get(slurm.NODES) or {}).items()
    }
    return Survey(by_name, ctx.compute, nodes, text, ctx.controller)


def usable_partitions(spec: ClusterSpec, names: Sequence[str]) -> tuple[str, ...]:
    """A node's partitions that start jobs; those behind the others that limit a job's size."""
    declared = {partition.name: partition for partition in partitions_of(spec)}
    closed = {name for name, partition in declared.items() if partition.state != "up"}
    small = {
        name
        for name, each in declared.items()
        if each.min_nodes or each.max_nodes or each.max_cpus_per_node or each.max_memory_gib
    }
    return tuple(sorted((n for n in names if n not in closed), key=lambda name: name in small))


def _unread(ctx: ProveContext, seen: Iterable[MachineState], fastest: float) -> dict[str, str]:
    """Why a node's answers cannot be judged: what was not read is unknown, not absent."""
    reasons: dict[str, str] = {}
    for host in seen:
        if host.error is not None:
            reasons[host.node] = not_read(host.error)
        elif host.seconds >= SLOW_S and host.seconds >= SLOWER * fastest:
            others = f", the fastest {fastest:.1f} s" if fastest < host.seconds else ""
            reasons[host.node] = f"answers slowly: it took {host.seconds:.0f} s{others}"
        elif host.get(machine.CLOCK) is None:
            reasons[host.node] = "gave an incomplete response"
        elif ctx.facts and ctx.facts.get(host.node) is None:
            reasons[host.node] = "did not report its hardware"
    return reasons


async def _probe_machine(
    ctx: ProveContext, name: str, names: tuple[str, ...], gate: asyncio.Semaphore
) -> MachineState:
    units = (*units_of(ctx, name), "munge")
    asked = questions(names, units, controller=name == ctx.controller, people=ctx.spec.directory)
    limit = LIMIT_S + len(names) * EACH_NAME_S
    async with gate:
        return await MachineState.ask(ctx.fleet, name, asked, timeout=limit)


def units_of(ctx: ProveContext, node: str) -> tuple[str, ...]:
    """The systemd units that must be active on a node."""
    units = ["slurmd"] if node in ctx.compute else []
    if node in controllers_of(ctx.spec):
        units.append("slurmctld")
    if node == controller_of(ctx.spec):
        if ctx.spec.slurm.accounting:
            units += ["mariadb", "slurmdbd"]
        if ctx.spec.slurm.rest:
            units.append("slurmrestd")
        if ctx.spec.services.mlflow:
            units.append(mlflow.UNIT)
    if ctx.spec.directory:
        units.append("sssd")
    return tuple(units)
