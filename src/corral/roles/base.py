"""What every machine of a cluster holds before Slurm's daemons: names, users, packages, folders."""

from __future__ import annotations

from typing import Final

from corral.roles import pods, slurm_packages
from corral.roles.inventory import Site
from corral.roles.role import Role, Share
from corral.slurm.conf.cluster import MARIADB_CNF, MARIADB_CONF
from corral.state.accounts import UserAccount
from corral.state.base import Resource, Wanted
from corral.state.files import Directory, File
from corral.state.host_names import own_name

SLURM_UID = 64030
"""Debian and Ubuntu give slurm this number (base-passwd's static range); equal everywhere (F17)."""

MUNGE_UID = 64032
"""Debian gives munge the next free number; so it is one that packages leave alone."""


def on_nodes(site: Site) -> tuple[Share, ...]:
    """Names, users, packages and folders."""
    compute = tuple(n.name for n in site.compute)
    named = [n for n in site.names if not site.is_pod(n)]
    desired = [Wanted((name,), own_name(name)) for name in named]
    if site.spec.slurm.accounting:
        # Before any package: MariaDB's makes its own tables, by these settings.
        desired.append(Wanted((site.controller,), (File(MARIADB_CNF, MARIADB_CONF),)))
    common = _common(site)
    for hosts, nodes in pods.hosts_of(site):
        desired.append(Wanted(nodes, (hosts, *common)))
    desired.append(Wanted((site.controller,), _controller(site)))
    desired.append(Wanted(compute, (*slurm_packages.compute(site), _spool())))
    return (Share(tuple(desired)),)


def _common(site: Site) -> tuple[Resource, ...]:
    return (
        *_daemons(site),
        *slurm_packages.common(site),
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
        *slurm_packages.controller(site),
        Directory("/var/spool/slurmctld", "slurm:slurm", "700"),
    )


ROLE: Final = Role("base", {"base": on_nodes})
