"""Nodes that come and go, as Slurm's files have them. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from corral.roles.site import Site
from corral.slurm.conf.cluster import NodeConf, PowerConf
from corral.spec.cloud import Elastic
from corral.spec.hostlist import expand
from corral.spec.intervals import seconds_of
from corral.spec.models import ClusterSpec
from corral.spec.nodes import Node, declared_of, elastic_of, partitions_of

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
    gpu = node.group.gpu
    files = "/dev/nvidia0" if gpu and gpu.count == 1 else ""
    return NodeConf(
        name=node.name,
        address="",
        cpus=size.cpus,
        sockets=1,
        cores_per_socket=size.cpus,
        threads_per_core=1,
        memory_mib=size.memory_gib * 1024,
        gpu_type=gpu.type if gpu else "",
        gpu_count=gpu.count if gpu else 0,
        gpu_files=files or (f"/dev/nvidia[0-{gpu.count - 1}]" if gpu else ""),
        features=(node.group.name, *node.group.features),
        cloud=True,
    )


def names(site: Site, groups: Collection[str]) -> tuple[str, ...]:
    """Nodes of a partition, there or not, in the file's order."""
    return tuple(n.name for n in declared_of(site.spec) if n.group.name in groups)


def power(spec: ClusterSpec) -> PowerConf | None:
    """When nodes come and go; None without elastic groups."""
    found = [(g, g.elastic) for g in spec.groups if g.elastic]
    if not found:
        return None
    return PowerConf(
        idle=max(seconds_of(e.idle) for _, e in found),
        boot=max(seconds_of(e.boot) for _, e in found),
        end=END_S,
        stay=tuple(n.name for n in declared_of(spec) if not n.group.elastic),
        keep=tuple((tuple(expand(g.nodes)), e.min) for g, e in found),
    )
