"""A Site in the words of ``corral.slurm.conf``: the only place that joins the two. Pure."""

from __future__ import annotations

from typing import Final

from corral.errors import Code, CorralError
from corral.hosts.facts import Facts
from corral.hosts.traits import Traits
from corral.roles import containers, fabric, mesh, metrics, people, power, prolog, proof
from corral.roles.site import Site
from corral.slurm.conf.cluster import ClusterConf, NodeConf, PartitionConf
from corral.slurm.duration import max_time
from corral.spec.intervals import seconds_of
from corral.spec.models import Gpu
from corral.spec.nodes import Node, partitions_of

NO_CGROUPS: Final = "no-cgroups"
"""Slurm feature of nodes where jobs are not fenced from each other (roles.mesh_pod)."""
HEALTH_PROGRAM: Final = "/usr/local/sbin/corral-health"


def cluster_conf(site: Site) -> ClusterConf:
    """The whole cluster as Slurm's files need it.

    Raises:
        CorralError: NOT_GOOD, the machines have no cgroups.
    """
    spec = site.spec
    one = site.facts[site.controller]
    if one.cgroup == "none":
        raise CorralError(
            Code.NOT_GOOD,
            "no cgroups are mounted: Slurm could not isolate jobs",
            node=site.controller,
            hint="boot the machine with systemd and cgroup v2",
        )
    scripts = prolog.declared(site)
    return ClusterConf(
        name=spec.name,
        controller=site.controller,
        controller_address=site.addresses[site.controller],
        version=site.version,
        auth=site.auth,
        accounting_host=site.controller if spec.slurm.accounting else "",
        rest=spec.slurm.rest,
        cgroup=one.cgroup,
        systemd=one.systemd,
        nodes=(
            *(_node(site, node) for node in site.compute if not node.group.elastic),
            *power.nodes(spec),
        ),
        partitions=_partitions(site),
        limits=people.limits_declared(site.spec),
        shares=people.shares_declared(site),
        preempt=any(qos.preempts for qos in spec.qos),
        prolog=prolog.PROLOG if scripts else "",
        epilog=prolog.EPILOG if scripts else "",
        prolog_minutes=scripts.minutes if scripts else 0,
        switches=fabric.topology(site),
        blocks=fabric.blocks(site),
        plugstack=containers.plugstack(site),
        health=HEALTH_PROGRAM if seconds_of(spec.health.every) else "",
        health_seconds=seconds_of(spec.health.every),
        links="mesh" if mesh.mesh_of(spec) else "lan",
        islands=mesh.islands(site),
        bridged=mesh.bridged(site),
        power=power.power(spec),
        metrics=metrics.by_slurm(site),
        apart=any(not site.facts[node.name].systemd for node in site.compute),
        swap_limit=all(
            f.swap_limit for f in (site.facts[n.name] for n in site.compute) if f.systemd
        ),
    )


def _partitions(site: Site) -> tuple[PartitionConf, ...]:
    declared = (
        PartitionConf(p.name, power.names(site, p.groups), p.default, max_time(p.max_time))
        for p in partitions_of(site.spec)
    )
    return (*declared, *proof.partition(site))


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
    )


def _files(gpu: Gpu, facts: Facts, traits: Traits) -> str:
    devices = traits.gpu_devices or tuple(g.device for g in facts.gpus)
    if len(devices) == gpu.count and list(devices) != [f"/dev/nvidia{i}" for i in range(gpu.count)]:
        return ",".join(devices)
    # As declared: slurmd then reports what is really there, and the node goes INVALID when fewer
    # are found (F10), instead of a smaller cluster being made silently.
    return "/dev/nvidia0" if gpu.count == 1 else f"/dev/nvidia[0-{gpu.count - 1}]"
