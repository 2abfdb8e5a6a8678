"""Logins from node to node without keys of users' own, where the file asks for them. Pure."""

from __future__ import annotations

from typing import Final

from corral.hosts.target import SSH_PORT
from corral.roles.inventory import Site
from corral.roles.machine.people import admins
from corral.roles.role import Role, Share
from corral.state.base import Desired
from corral.state.network.host_based import Host, HostBased
from corral.state.system.users import GROUP


def access(site: Site) -> tuple[Share, ...]:
    """Nodes that run jobs let people in; behind what lets in only those with a job.

    A pod is another's machine, and a node that Slurm rents for a time has a key for a time.
    """
    members = tuple(
        n.name for n in site.nodes if not site.is_pod(n.name) and n.group.elastic is None
    )
    if not site.spec.access.between_nodes:
        return (Share((Desired(members, (HostBased(),)),)),)
    ports = {n.name: n.group.ssh.port for n in site.nodes if n.group.capabilities.owned}
    hosts = tuple(
        Host(name, site.ip_address(name), site.facts[name].host_key, ports.get(name, SSH_PORT))
        for name in members
        if site.facts[name].host_key
    )
    logins = {n.group.ssh.user for n in site.nodes if n.group.capabilities.owned}
    never = tuple(dict.fromkeys(("root", *sorted(logins), *admins(site))))
    person = next((u.name for u in site.users if u.name not in never), "")
    directory = site.spec.directory
    groups = (GROUP, *(group.name for group in (directory.groups if directory else ())))
    compute = {n.name for n in site.compute}
    letting = tuple(name for name in members if name in compute)
    others = tuple(name for name in members if name not in compute)
    return (
        Share(
            (
                Desired(letting, (HostBased(hosts, groups, never, person),)),
                Desired(others, (HostBased(hosts),)),
            )
        ),
    )


ROLE: Final = Role("host_based", {"access": access})
