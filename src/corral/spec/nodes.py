"""The nodes a cluster file declares, one record each; groups whose machines come as one. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from corral.errors import Code, CorralError
from corral.spec.models import ClusterSpec, NodeGroup, Partition
from corral.spec.sections.people import User
from corral.spec.slurm.hostlist import expand

JOB_USER = User(name="corral", uid=2000)
STATE_DIR: Final = "/var/spool/slurmctld"
"""Where one slurmctld alone keeps its state; the key of tokens is there in any case."""


@dataclass(frozen=True, slots=True)
class Node:
    """One declared node.

    Attributes:
        name: its host name and its NodeName in Slurm.
        group: the group it belongs to.
        index: position in the group, from 0.
        address: declared address, "" when the provider gives one.
    """

    name: str
    group: NodeGroup
    index: int
    address: str


def nodes_of(spec: ClusterSpec) -> tuple[Node, ...]:
    """All nodes, in the file's order; of elastic groups those that are rented now."""
    return tuple(
        node
        for node in declared_of(spec)
        if node.group.elastic is None or node.name in node.group.elastic.present
    )


def declared_of(spec: ClusterSpec) -> tuple[Node, ...]:
    """All nodes, in the file's order, also those that come only when a job needs them.

    Raises:
        CorralError: SPEC_INVALID, a group of a spec that was not loaded from a file (``load``
            checks it) has another number of addresses than of nodes.
    """
    nodes: list[Node] = []
    for group in spec.groups:
        names = expand(group.nodes)
        addresses = expand(group.addresses) if group.addresses else [""] * len(names)
        if len(names) != len(addresses):
            raise CorralError(
                Code.SPEC_INVALID,
                f"group {group.name} has {len(names)} nodes and {len(addresses)} addresses",
                hint="write one address for each node, in the same order",
            )
        nodes += [Node(n, group, i, addresses[i]) for i, n in enumerate(names)]
    return tuple(nodes)


def elastic_of(spec: ClusterSpec) -> tuple[Node, ...]:
    """Nodes that come and go, there or not."""
    return tuple(node for node in declared_of(spec) if node.group.elastic is not None)


def has_guard(spec: ClusterSpec) -> bool:
    """Whether a guard on the controller watches what the cluster rents."""
    rents = any(group.capabilities.rents for group in spec.groups)
    return rents and spec.budget is not None and spec.budget.guard != "off"


def with_present(spec: ClusterSpec, names: Collection[str]) -> ClusterSpec:
    """The same cluster, with these of its elastic nodes rented."""
    groups = tuple(
        group.model_copy(
            update={
                "elastic": group.elastic.model_copy(
                    update={"present": tuple(n for n in expand(group.nodes) if n in names)}
                )
            }
        )
        if group.elastic
        else group
        for group in spec.groups
    )
    return spec.model_copy(update={"groups": groups})


def controller_of(spec: ClusterSpec) -> str:
    """Name of the node that runs slurmctld."""
    return spec.controller or expand(spec.groups[0].nodes)[0]


def controllers_of(spec: ClusterSpec) -> tuple[str, ...]:
    """Names of the nodes that run slurmctld, the one first that usually is in charge."""
    backup = spec.slurm.backup_controller
    return (controller_of(spec), *([backup.node] if backup else ()))


def state_of(spec: ClusterSpec) -> str:
    """Folder of slurmctld's state, StateSaveLocation."""
    backup = spec.slurm.backup_controller
    return backup.state if backup else STATE_DIR


def partitions_of(spec: ClusterSpec) -> tuple[Partition, ...]:
    """Declared partitions, or one called main over all groups."""
    if spec.partitions:
        return spec.partitions
    return (Partition(name="main", groups=tuple(g.name for g in spec.groups), default=True),)


def guarded_of(spec: ClusterSpec) -> tuple[str, ...]:
    """Compute nodes where only those with a job may log in."""
    if spec.access.ssh != "jobs_only":
        return ()
    free = set(login_nodes_of(spec))
    groups = {group for part in partitions_of(spec) for group in part.groups}
    return tuple(n.name for n in nodes_of(spec) if n.group.name in groups and n.name not in free)


def login_nodes_of(spec: ClusterSpec) -> tuple[str, ...]:
    """Nodes where users may always log in."""
    return tuple(expand(spec.access.login)) if spec.access.login else controllers_of(spec)


def sole_user(spec: ClusterSpec) -> str:
    """Who is the cluster's only user; "" where there are several."""
    users = users_of(spec)
    return users[0].name if len(users) == 1 else ""


def users_of(spec: ClusterSpec) -> tuple[User, ...]:
    """Declared users, or the one called corral; the first submits Corral's own jobs."""
    return spec.users or (JOB_USER,)


def together_of(spec: ClusterSpec) -> dict[str, tuple[str, ...]]:
    """Such groups of a cluster file, with their nodes in the order of ranks."""
    groups: dict[str, list[str]] = {}
    for node in declared_of(spec):
        if node.group.cloud is not None and node.group.cloud.cluster:
            groups.setdefault(node.group.name, []).append(node.name)
    return {name: tuple(nodes) for name, nodes in groups.items()}


def digest(spec: ClusterSpec) -> str:
    """Sha256 over the canonical JSON of the entire model, defaults filled in.

    Hostlists count as the names they stand for: ``node[0-1]`` and ``node0,node1`` mean the same.

    Raises:
        CorralError: a hostlist is broken; ``load`` gives no such spec.
    """
    meaning: dict[str, Any] = spec.model_dump(mode="json")
    for group in meaning["groups"]:
        group["nodes"] = expand(group["nodes"])
        group["addresses"] = expand(group["addresses"]) if group["addresses"] else None
    text = json.dumps(meaning, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
