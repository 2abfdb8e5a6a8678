"""Groups whose machines come as one of the cloud's own clusters: launched, kept and ended as one.

The cloud gives one name for all of them, which names the group; a machine's node follows from its
rank there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.providers.base import Action, Machine, MachineAction
from corral.providers.cloud.errors import CloudError
from corral.providers.cloud.launcher import Launcher, Sorted
from corral.providers.cloud.launcher import sort as sort_single
from corral.providers.cloud.model import Extra, Instance, Offer, State, label_of
from corral.providers.cloud.readiness import POLL_S, Watch, until_reachable
from corral.providers.cloud.termination import Assets
from corral.runtime.tasks import concurrently

CLUSTER: Final = "cluster"
"""Kind of the extra that is a cloud's own cluster."""

FORMING_S: Final = 600.0
"""So long after its launch a cluster may still lack machines in the list."""


@dataclass(frozen=True, slots=True)
class GroupState:
    """What is there of one group.

    Attributes:
        nodes: its nodes.
        members: machines of its cluster, by node or, beyond the nodes, by name.
        cluster: the cloud's id of its cluster, "" for none; one without machines is forming.
        spare: clusters of the group that are too many and have no machines.
        size: how many machines the cluster was launched with, 0 when the cloud does not report it.
    """

    nodes: tuple[str, ...]
    members: Mapping[str, Instance]
    cluster: str
    spare: tuple[Extra, ...] = ()
    size: int = 0

    def action(self, now: float) -> Action | None:
        """What the group as a whole needs; None: nothing but, perhaps, time to boot. Pure."""
        if not self.cluster:
            return Action.CREATE
        if self.size not in (0, len(self.nodes)):
            return Action.RECREATE
        if any(m.state in (State.BROKEN, State.STOPPED) for m in self.members.values()):
            return Action.RECREATE
        since = max((m.created or 0.0 for m in self.members.values()), default=now)
        lacks = len(self.members) < len(self.nodes)
        if self.members.keys() - set(self.nodes) or (lacks and now - since > FORMING_S):
            return Action.RECREATE
        return None

    def plan(
        self, name: str, now: float, running: Mapping[str, Machine], price: Callable[[str], str]
    ) -> list[MachineAction]:
        """What to do, node by node: the same for all of them, or waiting for some. Pure.

        Args:
            name: the group's.
            now: Unix seconds.
            running: the machines as observed.
            price: the line for a node that is to be launched.
        """
        action, actions = self.action(now), list[MachineAction]()
        for node in self.nodes:
            if action is Action.CREATE:
                actions.append(MachineAction(node, action, f"{price(node)}; all of {name} at once"))
            elif action is Action.RECREATE:
                text = f"the cluster {self.cluster} of {name} is incomplete: ended, and another one"
                actions.append(MachineAction(node, action, f"{text} launched"))
            elif not running[node].running:
                actions.append(MachineAction(node, Action.START, f"{self.cluster} boots"))
        actions += [MachineAction(e.id, Action.REMOVE, f"{e} is too many") for e in self.spare]
        return actions


def sort(
    assets: Assets,
    cluster: str,
    nodes: Sequence[str],
    groups: Mapping[str, Sequence[str]],
) -> tuple[Sorted, dict[str, GroupState]]:
    """Which instance is whose, with groups that come as a whole. Pure.

    Of two clusters of one group the one with most machines stays, with all of them or none.

    Returns:
        what each node has, and what is too many; what is there of each such group.
    """
    single: list[Instance] = []
    clusters: dict[str, dict[str, list[Instance]]] = {name: {} for name in groups}
    for instance in assets.instances:
        mine = (
            instance.group
            and instance.label
            and instance.label.cluster == cluster
            and instance.state.exists
        )
        if mine and instance.label and instance.label.node in clusters:
            clusters[instance.label.node].setdefault(instance.group, []).append(instance)
        else:
            single.append(instance)
    rest = sort_single(single, cluster, nodes)
    kept, surplus = dict(rest.nodes), list(rest.surplus)
    states: dict[str, GroupState] = {}
    for name, there in clusters.items():
        order = sorted(there, key=lambda group: (-len(there[group]), group))
        members = _named(there[order[0]], groups[name]) if order else {}
        kept |= {node: instance for node, instance in members.items() if node in groups[name]}
        surplus += [instance for group in order[1:] for instance in there[group]]
        empty = [
            e
            for e in assets.extras
            if e.kind == CLUSTER
            and e.id not in there
            and (label := label_of(e.name, cluster))
            and label.node == name
        ]
        best = order[0] if order else (empty[0].id if empty else "")
        spare = tuple(e for e in empty if e.id != best)
        size = next((e.size for e in assets.extras if best and e.id == best), 0)
        states[name] = GroupState(tuple(groups[name]), members, best, spare, size)
    return Sorted(kept, tuple(surplus)), states


def _named(instances: Sequence[Instance], nodes: Sequence[str]) -> dict[str, Instance]:
    named: dict[str, Instance] = {}
    for instance in instances:
        if (
            instance.label is not None
            and instance.rank < len(nodes)
            and nodes[instance.rank] not in named
        ):
            node = nodes[instance.rank]
            named[node] = replace(instance, label=replace(instance.label, node=node))
        else:
            named[instance.name or instance.id] = instance
    return named


async def until_listed(
    watch: Watch, group: str, cluster: str, nodes: Sequence[str], patience: float = FORMING_S
) -> dict[str, Instance]:
    """Wait until the cloud lists all machines of a cluster.

    Args:
        watch: lists.
        group: the group's name, for errors.
        cluster: the cloud's id of the cluster.
        nodes: the group's nodes.
        patience: seconds.

    Returns:
        each node's machine, with the node in its label.

    Raises:
        CorralError: TIMED_OUT; what is there costs money, and ends with ``down``.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + patience
    seen: list[Instance] = []
    while loop.time() < end:
        try:
            seen = [instance for instance in await watch.every() if instance.group == cluster]
        except CloudError as error:
            if not error.transient:
                raise
        named = _named(seen, nodes)
        if len(seen) == len(nodes) and set(named) == set(nodes):
            return named
        await asyncio.sleep(POLL_S)
    raise CorralError(
        Code.TIMED_OUT,
        f"cluster {cluster} shows {len(seen)} of {len(nodes)} machines",
        node=group,
        hint="they cost money: corral down ends them; corral up continues to wait",
    )


def parted(
    actions: Sequence[MachineAction], groups: Mapping[str, Sequence[str]]
) -> tuple[list[MachineAction], list[list[MachineAction]]]:
    """Actions for machines that come one by one, and those of each group that comes as one."""
    batches = [[a for a in actions if a.node in nodes] for nodes in groups.values()]
    single = [a for a in actions if not any(a in batch for batch in batches)]
    return single, [batch for batch in batches if batch]


@contextmanager
def reported(actions: Sequence[MachineAction], emit: Emit) -> Generator[None]:
    """Report for all machines of a group that they begin, and how each ended."""
    began = time.monotonic()
    for action in actions:
        emit(Event(Kind.NODE_STARTED, "machines", action.node, action.summary))
    try:
        yield
    except CorralError as error:
        for action in actions:
            emit(Event(Kind.NODE_FAILED, "machines", action.node, error.message))
        raise
    for action in actions:
        took = time.monotonic() - began
        emit(Event(Kind.NODE_DONE, "machines", action.node, "sshd answers", took))


async def bring_up(
    watch: Watch,
    launcher: Launcher,
    group: str,
    state: GroupState,
    offers: Sequence[Offer],
    *,
    launch: bool,
) -> None:
    """Launch a group, or wait for it, until sshd answers on each of its machines.

    Args:
        watch: lists.
        launcher: of the cluster.
        group: the group's name.
        state: what is there of it.
        offers: what it takes, in order.
        launch: launch it; else wait for what is there.

    Raises:
        CorralError: PROVIDER_FAILED, NOT_GOOD (budget), TIMED_OUT.
    """
    cluster = await launcher.launch_group(group, state.nodes, offers) if launch else state.cluster
    members = await until_listed(watch, group, cluster, state.nodes)
    for instance in members.values():
        launcher.ledger.adopt(instance)
    await concurrently(*(until_reachable(watch, node, i.id) for node, i in members.items()))
