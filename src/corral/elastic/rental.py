"""Rent what one pending job needs: every machine checked before it takes work, or none kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from corral.errors import Code, CorralError
from corral.events import Emit
from corral.hosts.fleet import Fleet
from corral.hosts.openssh import OpenSSH, control_dir
from corral.inspect.machine import FITNESS
from corral.providers.base import Action, MachineAction
from corral.providers.cloud.provider import CloudProvider
from corral.runtime.tasks import concurrently
from corral.spec.models import ClusterSpec
from corral.spec.nodes import elastic_of

CHECK_S: Final = 120.0


async def fault_of(fleet: Fleet, node: str, gpus: int) -> CorralError | None:
    """Why a machine must not take work, None when it may.

    Args:
        fleet: reaches it.
        node: its name.
        gpus: how many GPUs it must have.
    """
    try:
        answer = await fleet.run(node, FITNESS.shell, timeout=CHECK_S)
    except CorralError as error:
        return error
    fitness = FITNESS.parse(answer.stdout)
    if fitness.gpus is not None and fitness.gpus >= gpus:
        return None
    short = f"{fitness.gpus} of {gpus} GPUs answer"
    what = fitness.fault if fitness.gpus is None else short
    return CorralError(
        Code.NOT_GOOD,
        what or "its check printed nothing",
        node=node,
        tail=answer.tail,
        hint="it is ended and another one rented",
    )


async def proven(
    spec: ClusterSpec, nodes: Sequence[str], emit: Emit, note: Callable[[str], None]
) -> dict[str, str]:
    """Rent until each node has passed its check, or one has failed it too often.

    A machine that the cloud itself calls broken, and one that fails the check, is ended and another
    one rented, as often as the group's ``elastic: replace`` allows for each node.

    Returns:
        the nodes' addresses.

    Raises:
        CorralError: no offer is available, the budget does not allow it, or a node failed too
            often. What was rented meanwhile stays: the caller ends it.
    """
    provider = CloudProvider(spec)
    left = {n.name: n.group.elastic.replace for n in elastic_of(spec) if n.group.elastic}
    again: list[MachineAction] = []
    while True:
        observed = await provider.read_machines()
        planned = [a for a in provider.plan(observed) if a.node in nodes]
        again = [a for a in again if a.node not in {p.node for p in planned}]
        bad = await _launched(provider, [*planned, *again], nodes, emit)
        if not bad:
            observed = await provider.read_machines()
            bad = await _bad(provider, spec, nodes)
        if not bad:
            return {n: observed.machines[n].address for n in nodes}
        for node, why in bad.items():
            left[node] -= 1
            note(f"{node}: failed its check: {why.message}")
            if left[node] < 0:
                raise why
        again = [MachineAction(n, Action.RECREATE, "failed its check") for n in bad]


async def _launched(
    provider: CloudProvider, actions: Sequence[MachineAction], nodes: Sequence[str], emit: Emit
) -> Mapping[str, CorralError]:
    """Launch; gives the nodes whose machines the cloud calls broken."""
    try:
        await provider.apply(actions, emit)
    except CorralError as error:
        observed = await provider.read_machines()
        broken = [
            a.node
            for a in provider.plan(observed)
            if a.action is Action.RECREATE and a.node in nodes
        ]
        if not broken:
            raise
        return dict.fromkeys(broken, error)
    return {}


async def _bad(
    provider: CloudProvider, spec: ClusterSpec, nodes: Sequence[str]
) -> dict[str, CorralError]:
    fleet = Fleet({n: OpenSSH(n, provider.ssh_target(n), control_dir=control_dir()) for n in nodes})
    gpus = {n.name: n.group.gpu_count for n in elastic_of(spec)}
    faults = await concurrently(*(fault_of(fleet, n, gpus[n]) for n in nodes))
    return {n: why for n, why in zip(nodes, faults, strict=True) if why is not None}
