"""What every machine of a cluster holds before Slurm, and which machines belong to it. Pure."""

from __future__ import annotations

from typing import Final

from corral.roles.inventory import Site
from corral.roles.role import Role, Share
from corral.roles.services import proof
from corral.roles.slurm import packages, pods
from corral.slurm.conf.cluster import MARIADB_CNF, MARIADB_CONF
from corral.spec.nodes import elastic_of, partitions_of, state_of
from corral.state.base import Desired, Resource
from corral.state.files import Directory, File, Gone
from corral.state.network.host_names import own_name
from corral.state.slurm.members import (
    WAIT_S,
    Leaving,
    Member,
    NoController,
    Resumed,
    Roster,
)
from corral.state.slurm.state_folder import MARK, BackupStopped, NoBackup
from corral.state.system.users import UserAccount

SLURM_UID = 64030
"""Debian and Ubuntu give slurm this number (base-passwd's static range); equal everywhere (F17)."""

MUNGE_UID = 64032
"""Debian gives munge the next free number; so it is one that packages leave alone."""


def on_nodes(site: Site) -> tuple[Share, ...]:
    """Names, users, packages and folders."""
    compute = tuple(n.name for n in site.compute)
    named = [n for n in site.names if not site.is_pod(n)]
    desired = [Desired((name,), own_name(name)) for name in named]
    if site.spec.slurm.accounting:
        # Before any package: MariaDB's makes its own tables, by these settings.
        desired.append(Desired((site.controller,), (File(MARIADB_CNF, MARIADB_CONF),)))
    common = _common(site)
    for hosts, nodes in pods.hosts_of(site):
        desired.append(Desired(nodes, (hosts, *common)))
    desired.append(Desired((site.controller,), _controller(site)))
    desired.append(Desired(compute, (*packages.compute(site), _spool())))
    return (Share(tuple(desired)),)


def _common(site: Site) -> tuple[Resource, ...]:
    return (
        *_daemons(site),
        *packages.common(site),
        Directory("/etc/slurm"),
        Directory("/var/log/slurm", "slurm:slurm"),
    )


def _daemons(site: Site) -> tuple[Resource, ...]:
    """The services' users, before a package makes them with a number it chooses."""
    slurm = UserAccount(
        "slurm",
        SLURM_UID,
        "/nonexistent",
        "/usr/sbin/nologin",
        system=True,
        owns=(
            "/etc/slurm",
            "/var/spool/slurmctld",
            "/var/spool/slurm",
            "/var/lib/slurm",
            "/var/log/slurm",
            "/run/slurmctld",
            "/run/slurmdbd",
        ),
        units=("slurmctld", "slurmdbd"),
    )
    if site.auth != "munge":
        return (slurm,)
    munge = UserAccount(
        "munge",
        MUNGE_UID,
        "/nonexistent",
        "/usr/sbin/nologin",
        system=True,
        owns=("/etc/munge", "/var/lib/munge", "/var/log/munge", "/run/munge"),
        units=("munge",),
    )
    return (slurm, munge)


def _spool() -> Resource:
    return Directory("/var/spool/slurmd", "root:root")


def _controller(site: Site) -> tuple[Resource, ...]:
    return (
        *packages.controller(site),
        Directory("/var/spool/slurmctld", "slurm:slurm", "700"),
    )


ROLE: Final = Role("base", {"base": on_nodes})


def leaving(site: Site) -> tuple[Share, ...]:
    """Nodes that leave are drained while slurmctld still knows them."""
    # One that was the backup is the controller now, which nothing may stop.
    here: list[Resource] = [
        Gone(MARK),
        Leaving(
            # Nodes that come and go do not leave: they stay in slurm.conf.
            tuple(dict.fromkeys(n.name for n in (*site.compute, *elastic_of(site.spec)))),
            (*(p.name for p in partitions_of(site.spec)), *(p.name for p in proof.partition(site))),
            WAIT_S,
        ),
    ]
    # Where Corral logs in: an address in the mesh is of no use to a machine that is not in it.
    members = tuple(
        Member(n.name, n.address or n.name, n.group.ssh.port, n.group.ssh.user)
        for n in site.nodes
        if n.group.capabilities.owned
    )
    if members:
        here.append(Roster(members))
    desired = [Desired((site.controller,), tuple(here))]
    others = tuple(n for n in site.names if n not in site.controllers)
    if others:
        desired.append(Desired(others, (NoController(site.controller), NoBackup())))
    if backups := site.controllers[1:]:
        here_too = (NoController(site.controller), BackupStopped(state_of(site.spec)))
        desired.append(Desired(backups, here_too))
    return (Share(tuple(desired), title="nodes that leave are drained"),)


def resumed(site: Site) -> tuple[Share, ...]:
    """Nodes that are still drained since an earlier apply was stopped."""
    title = "nodes back that a stopped corral left drained"
    return (Share((Desired((site.controller,), (Resumed(),)),), title=title),)


MEMBERSHIP: Final = Role("membership", {"members": leaving, "resume": resumed})
