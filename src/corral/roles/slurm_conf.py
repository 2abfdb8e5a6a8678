"""A Site in the words of ``corral.slurm.conf``: the only place that joins the two. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from corral.durations import max_time
from corral.errors import Code, CorralError
from corral.inspect.facts import Facts, Traits
from corral.roles.inventory import Site
from corral.roles.machine import mesh
from corral.roles.slurm import elastic_nodes, partitions
from corral.slurm.conf.conf_file import Setting
from corral.slurm.conf.fields import keys_of_fields, pairs_of_fields, settings_of_fields
from corral.slurm.conf.model import ClusterConf, Contribution, NodeConf, PartitionConf
from corral.spec.models import Gpu
from corral.spec.nodes import Node, partitions_of

NO_CGROUPS: Final = "no-cgroups"
"""Slurm feature of nodes where jobs are not fenced from each other (roles.slurm.pods)."""


def cluster_conf(site: Site, given: Sequence[Contribution]) -> ClusterConf:
    """The entire cluster as Slurm's files need it.

    Args:
        site: the cluster.
        given: what the roles add.

    Raises:
        CorralError: NOT_GOOD, the machines have no cgroups.
    """
    spec = site.spec
    facts = site.facts[site.controller]
    if facts.cgroup == "none":
        raise CorralError(
            Code.NOT_GOOD,
            "no cgroups are mounted: Slurm could not isolate jobs",
            node=site.controller,
            hint="boot the machine with systemd and cgroup v2",
        )
    return ClusterConf(
        name=spec.name,
        controller=site.controller,
        controller_address=site.addresses[site.controller],
        version=site.version,
        auth=site.auth,
        accounting_host=site.controller if spec.slurm.accounting else "",
        rest=spec.slurm.rest,
        cgroup=facts.cgroup,
        systemd=facts.systemd,
        nodes=(
            *(_node(site, node) for node in site.compute if not node.group.elastic),
            *(node for role in given for node in role.nodes),
        ),
        partitions=(*_partitions(site), *(p for role in given for p in role.partitions)),
        swap_limit=all(
            f.swap_limit for f in (site.facts[n.name] for n in site.compute) if f.systemd
        ),
        settings=(
            *(setting for role in given for setting in role.settings),
            *settings_of_fields(spec),
        ),
        files=tuple(file for role in given for file in role.files),
        declared=tuple(Setting(key, value) for key, value in spec.slurm.settings.items()),
    )


def _partitions(site: Site) -> Iterator[PartitionConf]:
    for p in partitions_of(site.spec):
        names = elastic_nodes.names(site, p.groups)
        more = partitions.with_own(
            site.spec, p, pairs_of_fields("PartitionName", p, keys_of_fields())
        )
        yield PartitionConf(p.name, names, p.default, max_time(p.max_time), more=more)


def _node(site: Site, node: Node) -> NodeConf:
    facts, traits = site.facts[node.name], site.traits[node.name]
    gpu = node.group.gpu
    return NodeConf(
        name=node.name,
        address=site.addresses[node.name],
        cpus=facts.cpus,
        sockets=facts.sockets,
        cores_per_socket=facts.cores_per_socket,
        threads_per_core=facts.threads_per_core,
        memory_mib=min(traits.memory_mib or facts.memory_mib, facts.memory_mib),
        gpu_type=gpu.type if gpu else "",
        gpu_count=gpu.count if gpu else 0,
        gpu_files=_files(gpu, facts, traits) if gpu else "",
        features=(
            node.group.name,
            *node.group.features,
            *mesh.features(site, node.name),
            *(() if facts.systemd else (NO_CGROUPS,)),
        ),
        more=pairs_of_fields("NodeName", node.group, keys_of_fields()),
    )


def _files(gpu: Gpu, facts: Facts, traits: Traits) -> str:
    devices = traits.gpu_devices or tuple(g.device for g in facts.gpus)
    if len(devices) == gpu.count and list(devices) != [f"/dev/nvidia{i}" for i in range(gpu.count)]:
        return ",".join(devices)
    # As declared: slurmd then reports what is really there, and the node goes INVALID when fewer
    # are found (F10), instead of a smaller cluster being made silently.
    return "/dev/nvidia0" if gpu.count == 1 else f"/dev/nvidia[0-{gpu.count - 1}]"
