"""Nodes that come and go, as Slurm's files have them. Pure."""

from __future__ import annotations

from typing import Final

from corral.durations import interval_seconds
from corral.roles.inventory import Site
from corral.roles.machine.gpu_devices import as_declared
from corral.roles.role import Role
from corral.slurm.conf.conf_file import Setting
from corral.slurm.conf.fields import keys_of_fields, pairs_of_fields
from corral.slurm.conf.model import Contribution, NodeConf
from corral.spec.models import ClusterSpec
from corral.spec.nodes import (
    Node,
    declared_of,
    elastic_of,
    partitions_of,
)
from corral.spec.sections.cloud import Elastic
from corral.spec.slurm.hostlist import expand, fold_in_order

END_S: Final = 60


def nodes(spec: ClusterSpec) -> tuple[NodeConf, ...]:
    """All nodes that may come, as large as declared: there or not, their lines stay the same."""
    used = {name for part in partitions_of(spec) for name in part.groups}
    return tuple(
        _node(node, node.group.elastic)
        for node in elastic_of(spec)
        if node.group.elastic and node.group.name in used
    )


def _node(node: Node, size: Elastic) -> NodeConf:
    return NodeConf(
        name=node.name,
        address="",
        cpus=size.cpus,
        sockets=1,
        cores_per_socket=size.cpus,
        threads_per_core=1,
        memory_mib=size.memory_gib * 1024,
        gpus=as_declared(node.group),
        features=(node.group.name, *node.group.features),
        cloud=True,
        more=pairs_of_fields("NodeName", node.group, keys_of_fields()),
    )


def slurm_conf(site: Site) -> Contribution:
    """Cloud nodes: Slurm marks which must come and go; ``corral elastic`` reads that and acts."""
    spec = site.spec
    groups = [(g, g.elastic) for g in spec.groups if g.elastic]
    if not groups:
        return Contribution()
    stay = [n.name for n in declared_of(spec) if not n.group.elastic]
    keep = [(expand(g.nodes), e.min) for g, e in groups]
    settings = times(
        idle=max(interval_seconds(e.idle) for _, e in groups),
        boot=max(interval_seconds(e.boot) for _, e in groups),
        end=END_S,
    )
    words = [fold_in_order(stay)] if stay else []
    words += [f"{fold_in_order(names)}:{count}" for names, count in keep if count]
    if words:
        settings = (*settings, Setting("SuspendExcNodes", ",".join(words)))
    return Contribution(settings, nodes(spec))


def times(*, idle: int, boot: int, end: int) -> tuple[Setting, ...]:
    """When cloud nodes come and go, in seconds.

    Args:
        idle: a node without a job goes after this time.
        boot: a node that has not come after this time is given up.
        end: how long one may take to go.
    """
    return (
        Setting("ResumeProgram", "/bin/true"),
        Setting("SuspendProgram", "/bin/true"),
        Setting("SuspendTime", str(idle)),
        Setting("SuspendTimeout", str(end)),
        Setting("ResumeTimeout", str(boot)),
        Setting("ResumeRate", "0"),
        Setting("SuspendRate", "0"),
        Setting("PrivateData", "cloud"),
    )


ROLE: Final = Role("elastic_nodes", slurm_conf=slurm_conf)
