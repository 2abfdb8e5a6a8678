"""Nodes without an init, such as rented containers: the same cluster, otherwise kept. Pure.

What the roles want of every node is taken as it is, and what needs systemd, a kernel of one's own
or an interface is replaced (docs/guide/mesh.md): daemons run under supervisord, slurmd has files
of its own that say no cgroups, and a relay stands in for the routes that are not there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from corral import agents
from corral.errors import Code, CorralError
from corral.roles.compute import DEFAULTS
from corral.roles.machine import LIMITS
from corral.roles.mesh import SOCKS, fabric_of, mates, userspace
from corral.roles.site import Site
from corral.slurm.conf.cluster import SRUN_PORTS
from corral.slurm.conf.hostlist import expand_in_order, fold_in_order
from corral.slurm.version import SlurmVersion
from corral.state.base import Resource, StageWanted, Wanted
from corral.state.files import File
from corral.state.host_names import Hostname, HostsBlock
from corral.state.mesh_supervised import Supervised, Supervisor
from corral.state.mount import FormerMounts, Mount
from corral.state.service import Service

RELAY: Final = "/usr/local/lib/corral/mesh-relay.py"
ETC: Final = "/etc/slurm"
OWN_SRUN_PORTS: Final = "63001-64999"
"""For srun on the node itself: those of the controller's srun are the relay's."""
_SINCE: Final = SlurmVersion(23, 2)
"""CgroupPlugin=disabled came with 23.02 (its release notes)."""
_LOOP: Final = "127.0.0.1"
_DROPPED: Final = frozenset({f"file:{DEFAULTS}", f"file:{LIMITS}"})

# proctrack/linuxproc follows parents and children; without cgroups memory and devices are not
# fenced, and pinning another user's process to a CPU is forbidden there ("task_g_set_affinity:
# Operation not permitted", 24.11.5). PrologFlags=Contain asks for a proctrack that can contain
# (slurm.conf(5)).
_OTHERWISE: Final = (
    ("ProctrackType", "proctrack/linuxproc"),
    ("TaskPlugin", "task/none"),
    ("JobAcctGatherType", "jobacct_gather/linux"),
)
_NOTE: Final = "# Written by Corral: this node has no cgroups, and its own files for that reason.\n"


def pods(site: Site) -> tuple[str, ...]:
    """Compute nodes where no systemd runs."""
    return tuple(n.name for n in site.compute if not site.facts[n.name].systemd)


def check(site: Site) -> None:
    """See that such nodes can be what the file wants of them.

    Raises:
        CorralError: NOT_GOOD.
    """
    others = {n.name for n in site.nodes} - set(pods(site))
    for node in (n for n in others if not site.facts[n].systemd):
        raise CorralError(
            Code.NOT_GOOD,
            "no systemd runs there, so it can be a compute node and nothing else",
            node=node,
            hint="put its group into a partition",
        )
    if site.controller in pods(site):
        raise CorralError(
            Code.NOT_GOOD,
            "the controller needs a machine with systemd",
            node=site.controller,
            hint="name another node as controller",
        )
    if pods(site) and site.version < _SINCE:
        raise CorralError(
            Code.NOT_GOOD,
            f"Slurm {site.version} cannot do without cgroups (23.02 can)",
            node=pods(site)[0],
            hint="give slurm.source a newer Slurm",
        )


def adapted(
    site: Site, stages: Iterable[StageWanted], files: dict[str, str]
) -> tuple[StageWanted, ...]:
    """The same stages, with what nodes without an init get in the place of what they cannot have.

    Raises:
        CorralError: NOT_GOOD, a service is wanted there that Corral knows by its unit only.
    """
    found = frozenset(pods(site))
    if not found:
        return tuple(stages)
    return tuple(replace(s, wanted=_wanted(site, s.wanted, found, files)) for s in stages)


def _wanted(
    site: Site, wanted: Sequence[Wanted], found: frozenset[str], files: dict[str, str]
) -> tuple[Wanted, ...]:
    result: list[Wanted] = []
    for one in wanted:
        rest = tuple(n for n in one.nodes if n not in found)
        if rest == one.nodes:
            result.append(one)
            continue
        if rest:
            result.append(Wanted(rest, one.resources))
        for node in (n for n in one.nodes if n in found):
            own = tuple(r for old in one.resources for r in _instead(site, node, old, files))
            if own:
                result.append(Wanted((node,), own))
    return tuple(result)


def _instead(site: Site, node: str, old: Resource, files: dict[str, str]) -> tuple[Resource, ...]:
    if isinstance(old, Hostname | Mount | FormerMounts) or old.id in _DROPPED:
        return ()
    if isinstance(old, HostsBlock) and userspace(site, node):
        inside = _inside(site, node)
        return (replace(old, entries=tuple((inside.get(a, a), n) for a, n in old.entries)),)
    if not isinstance(old, Service) or old.unit == "tailscaled":
        return (old,)
    if old.unit == "slurmd":
        return (Supervisor(), *_slurmd(site, node, old, files))
    if old.unit == "munge":
        command = "/usr/sbin/munged --foreground"
        return (Supervisor(), Supervised("munged", command, old.inputs, 20, user="munge"))
    raise CorralError(
        Code.NOT_GOOD,
        f"no systemd runs there, and {old.unit} needs it",
        node=node,
        hint="use a machine with systemd for that",
    )


def _slurmd(site: Site, node: str, old: Service, files: dict[str, str]) -> tuple[Resource, ...]:
    own = (
        File(f"{ETC}/slurm.conf", slurm_conf(site, node, files["slurm.conf"])),
        File(f"{ETC}/gres.conf", files["gres.conf"]),
        File(f"{ETC}/cgroup.conf", f"{_NOTE}CgroupPlugin=disabled\n"),
        *(
            (File(f"{ETC}/topology.conf", files["topology.conf"]),)
            if "topology.conf" in files
            else ()
        ),
    )
    inputs = (*(f.path for f in own), *(i for i in old.inputs if i not in (DEFAULTS, LIMITS)))
    slurmd = Supervised(
        "slurmd",
        f"/usr/sbin/slurmd -D -N {node} -f {ETC}/slurm.conf",
        inputs,
        50,
        impact=old.impact,
        group=False,
        note="without cgroups: jobs there are not fenced from each other",
    )
    return (*own, *(_relay(site) if userspace(site, node) else ()), slurmd)


def _relay(site: Site) -> tuple[Resource, ...]:
    text = agents.program("mesh_relay.py")
    target = site.addresses[site.controller]
    command = f"/usr/bin/python3 {RELAY} {SOCKS} {target} 6817 6819 {SRUN_PORTS}"
    return (File(RELAY, text), Supervised("corral-mesh-relay", command, (RELAY,), 30))


def slurm_conf(site: Site, node: str, text: str) -> str:
    """The cluster's slurm.conf as one such node reads it."""
    keys = dict(_OTHERWISE)
    if userspace(site, node):
        keys["SlurmctldHost"] = f"{site.controller}({_LOOP})"
        keys["SrunPortRange"] = OWN_SRUN_PORTS
        if "AccountingStorageHost=" in text:
            keys["AccountingStorageHost"] = _LOOP
    lines = [_NOTE.strip(), f"# Cluster's own: {hashlib.sha256(text.encode()).hexdigest()[:16]}"]
    for line in text.splitlines():
        key = line.partition("=")[0]
        if key in keys:
            lines.append(f"{key}={keys[key]}")
        elif key == "NodeName" and userspace(site, node):
            lines.append(_own_line(line, node, site))
        elif key != "PrologFlags":
            lines.append(line)
    return "\n".join(lines) + "\n"


def _inside(site: Site, node: str) -> dict[str, str]:
    """What takes the place of addresses in the tailnet on such a node itself.

    Its own is on no interface: what it says to itself would be lost. To the others of its cloud's
    cluster their own network leads, and nothing else does.
    """
    found = {site.addresses[n]: fabric_of(site, n) for n in mates(site, node)}
    return found | {site.addresses[node]: fabric_of(site, node) or site.facts[node].address}


def _own_line(line: str, node: str, site: Site) -> str:
    """A NodeName line with the addresses that are others inside the node."""
    inside = _inside(site, node)
    pairs: dict[str, str] = {}
    for pair in line.split():
        key, _, value = pair.partition("=")
        pairs[key] = value
    addresses = expand_in_order(pairs["NodeAddr"])
    if not inside.keys() & set(addresses):
        return line
    pairs["NodeAddr"] = fold_in_order(inside.get(a, a) for a in addresses)
    return " ".join(f"{key}={value}" for key, value in pairs.items())
