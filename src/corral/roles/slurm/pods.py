"""Pods: compute nodes without an init, such as rented containers. Pure.

They cannot have systemd, their own kernel or a network interface (docs/guide/mesh.md), so the
roles ask here for what such a node gets in their place: daemons run under supervisord, slurmd has
its own files without cgroups, and a relay stands in for the routes that are not there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from corral import agents
from corral.errors import Code, CorralError
from corral.roles.inventory import ConfiguredSite, Site
from corral.roles.machine.mesh import (
    SOCKS,
    fabric_of,
    mates,
    userspace,
)
from corral.roles.machine.upkeep import names_of
from corral.roles.role import Role
from corral.slurm.conf.cluster import SRUN_PORTS
from corral.slurm.conf.conf_file import ConfFile, ConfLine, Setting
from corral.slurm.conf.model import Contribution
from corral.slurm.version import has
from corral.spec.impacts import Impact
from corral.spec.slurm.hostlist import expand, fold_in_order
from corral.spec.slurm.node_features import NO_CGROUPS
from corral.spec.slurm.releases import Feature, since
from corral.state.base import DesiredStage, Resource
from corral.state.files import File
from corral.state.network.host_names import HostsBlock
from corral.state.network.mesh import Supervised, Supervisor
from corral.state.service import Service

RELAY: Final = "/usr/local/lib/corral/mesh-relay.py"
ETC: Final = "/etc/slurm"
OWN_SRUN_PORTS: Final = "63001-64999"
"""For srun on the node itself: those of the controller's srun are the relay's."""
_LOOP: Final = "127.0.0.1"

# proctrack/linuxproc follows parents and children; without cgroups memory and devices are not
# fenced, and pinning another user's process to a CPU is forbidden there ("task_g_set_affinity:
# Operation not permitted", 24.11.5). PrologFlags=Contain asks for a proctrack that can contain
# (slurm.conf(5)).
_OTHERWISE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "JobAcctGatherType": "jobacct_gather/linux",
    }
)
_NOTE: Final = "Written by Corral: this node has no cgroups, and its own files for that reason."


def check(site: Site) -> None:
    """Check that such nodes support what the file declares for them.

    Raises:
        CorralError: NOT_GOOD.
    """
    others = {n.name for n in site.nodes} - set(site.pods)
    for node in (n for n in others if not site.facts[n].systemd):
        raise CorralError(
            Code.NOT_GOOD,
            "no systemd runs there, so it can be a compute node and nothing else",
            node=node,
            hint="put its group into a partition",
        )
    if site.controller in site.pods:
        raise CorralError(
            Code.NOT_GOOD,
            "the controller needs a machine with systemd",
            node=site.controller,
            hint="name another node as controller",
        )
    if site.pods and not has(site.version, Feature.NO_CGROUPS):
        raise CorralError(
            Code.NOT_GOOD,
            f"Slurm {site.version} cannot do without cgroups ({since(Feature.NO_CGROUPS)} can)",
            node=site.pods[0],
            hint="give slurm.source a newer Slurm",
        )


def slurm_conf(site: Site) -> Contribution:
    """Pods' files differ on purpose; slurmctld would log that at each registration."""
    settings = (Setting("DebugFlags", "NO_CONF_HASH"),) if site.pods else ()
    # Cloud nodes have the same line, whether a machine of theirs is there or not.
    pods = [n.name for n in site.compute if site.is_pod(n.name) and not n.group.elastic]
    return Contribution(settings, features={name: (NO_CGROUPS,) for name in pods})


def refuse_services(site: Site, stages: Iterable[DesiredStage]) -> None:
    """Check that no role declares a service on a pod that only systemd can run.

    Raises:
        CorralError: NOT_GOOD.
    """
    if not site.pods:
        return
    for stage in stages:
        for entry in stage.desired:
            units = [r.unit for r in entry.resources if isinstance(r, Service)]
            # The mesh's own role starts tailscaled there by what the pod has.
            units = [unit for unit in units if unit != "tailscaled"]
            node = next((n for n in entry.nodes if site.is_pod(n)), None)
            if units and node:
                raise CorralError(
                    Code.NOT_GOOD,
                    f"no systemd runs there, and {units[0]} needs it",
                    node=node,
                    hint="use a machine with systemd for that",
                )


def hosts_of(site: Site) -> tuple[tuple[HostsBlock, tuple[str, ...]], ...]:
    """The names in /etc/hosts, and the nodes that have them so.

    Pods in user space see other addresses of themselves and of their peers.
    """
    common = names_of(site)
    own = [n for n in site.pods if userspace(site, n)]
    apart = set(own)
    blocks = [(common, tuple(n for n in site.names if n not in apart))]
    for node in own:
        inside = _inside(site, node)
        entries = tuple((inside.get(a, a), n) for a, n in common.entries)
        blocks.append((replace(common, entries=entries), (node,)))
    return tuple(blocks)


def munged(inputs: tuple[str, ...]) -> tuple[Resource, ...]:
    """Munge's daemon.

    Args:
        inputs: the files that it reads at its start.
    """
    command = "/usr/sbin/munged --foreground"
    return (Supervisor(), Supervised("munged", command, inputs, 20, user="munge"))


def slurmd(
    site: ConfiguredSite, node: str, inputs: tuple[str, ...], impact: Impact
) -> tuple[Resource, ...]:
    """Slurmd with its own files, and the relay where the mesh reaches it by TCP only.

    Args:
        site: the cluster.
        node: the pod.
        inputs: what slurmd reads at its start apart from those files.
        impact: what its restart does.
    """
    files = own_files(site, node)
    daemon = Supervised(
        "slurmd",
        f"/usr/sbin/slurmd -D -N {node} -f {ETC}/slurm.conf",
        (*(file.path for file in files), *inputs),
        50,
        impact=impact,
        group=False,
        note="without cgroups: jobs there are not fenced from each other",
    )
    return (Supervisor(), *files, *(_relay(site) if userspace(site, node) else ()), daemon)


def own_files(site: ConfiguredSite, node: str) -> tuple[File, ...]:
    """Slurm's files on a pod."""
    cgroup = ConfFile(
        "cgroup.conf",
        (ConfLine((("CgroupPlugin", "disabled"),)),),
        header=f"# {_NOTE}\n",
    )
    topology = (file for file in site.slurm_files.more if file.name == "topology.conf")
    files = (slurm_conf_on(site, node), site.slurm_files.gres, cgroup, *topology)
    return tuple(File(f"{ETC}/{file.name}", file.text) for file in files)


def slurm_conf_on(site: ConfiguredSite, node: str) -> ConfFile:
    """The cluster's slurm.conf as one pod reads it."""
    cluster = site.slurm_files.slurm
    values = dict(_OTHERWISE)
    if userspace(site, node):
        values["SlurmctldHost"] = f"{site.controller}({_LOOP})"
        values["SrunPortRange"] = OWN_SRUN_PORTS
        values["AccountingStorageHost"] = _LOOP
        inside = _inside(site, node)
        cluster = cluster.mapped(lambda line: _seen_inside(line, inside))
    digest = hashlib.sha256(site.slurm_files.slurm.text.encode()).hexdigest()[:16]
    header = f"# {_NOTE}\n# Cluster's own: {digest}\n{cluster.header}"
    return replace(cluster.changed(values).without("PrologFlags"), header=header)


def _seen_inside(line: ConfLine, inside: Mapping[str, str]) -> ConfLine:
    """A NodeName line with the addresses that are others inside a pod."""
    addresses = expand(line.get("NodeAddr") or "")
    if line.key != "NodeName" or not inside.keys() & set(addresses):
        return line
    return line.changed({"NodeAddr": fold_in_order(inside.get(a, a) for a in addresses)})


def _relay(site: Site) -> tuple[Resource, ...]:
    text = agents.program("mesh_relay.py")
    target = site.addresses[site.controller]
    command = f"/usr/bin/python3 {RELAY} {SOCKS} {target} 6817 6819 {SRUN_PORTS}"
    return (File(RELAY, text), Supervised("corral-mesh-relay", command, (RELAY,), 30))


def _inside(site: Site, node: str) -> dict[str, str]:
    """What takes the place of addresses in the tailnet on such a node itself.

    Its own is on no interface: what it sends to itself would be lost. To the others of its cloud's
    cluster their own network leads, and nothing else does.
    """
    substitutes = {site.addresses[n]: fabric_of(site, n) for n in mates(site, node)}
    return substitutes | {site.addresses[node]: fabric_of(site, node) or site.facts[node].address}


ROLE: Final = Role("pods", slurm_conf=slurm_conf, check=check, review=refuse_services)
