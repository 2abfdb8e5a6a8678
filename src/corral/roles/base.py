"""What every machine of a cluster holds before Slurm's daemons: names, users, packages, folders."""

from __future__ import annotations

from corral.roles import (
    fabric,
    health,
    letting_go,
    lost_jobs,
    machine,
    prolog,
    proof,
    slurm_packages,
)
from corral.roles.one_run import in_one_run
from corral.roles.site import Site
from corral.slurm.conf.cluster import MARIADB_CNF, MARIADB_CONF
from corral.state.accounts import UserAccount
from corral.state.base import Resource, StageWanted, Wanted
from corral.state.files import Directory, File
from corral.state.gone import Gone
from corral.state.host_names import Hostname
from corral.state.secret import Secret
from corral.state.service import Service

SLURM_UID = 64030
"""Debian and Ubuntu give slurm this number (base-passwd's static range); equal everywhere (F17)."""

MUNGE_UID = 64032
"""Debian gives munge the next free number; so it is one that packages leave alone."""

MUNGE_KEY = "/etc/munge/munge.key"
SLURM_KEY = "/etc/slurm/slurm.key"
SLURM_JWKS = "/etc/slurm/slurm.jwks"


def stages(site: Site) -> tuple[StageWanted, ...]:
    """Machines made ready, then the controller's key copied to all."""
    compute = tuple(n.name for n in site.compute)
    wanted = [Wanted((node.name,), (Hostname(node.name),)) for node in site.nodes]
    if site.spec.slurm.accounting:
        # Before any package: MariaDB's makes its own tables, by these settings.
        wanted.append(Wanted((site.controller,), (File(MARIADB_CNF, MARIADB_CONF),)))
    wanted.append(Wanted(site.names, _common(site)))
    wanted.append(Wanted((site.controller,), _controller(site)))
    wanted.append(Wanted(compute, (*slurm_packages.compute(site), _spool())))
    wanted += prolog.wanted(site)
    wanted += fabric.wanted(site)
    wanted += health.wanted(site)
    wanted += letting_go.wanted(site)
    wanted += lost_jobs.wanted(site)
    wanted += proof.users(site)
    wanted += slurm_packages.at_once(site)
    wanted += machine.wanted(site)
    wanted += machine.held(site, wanted)
    others = tuple(n for n in site.names if n != site.controller)
    ready = StageWanted("base", "names, users, packages and folders", tuple(wanted))
    wanted_keys = [Wanted((site.controller,), keys(site))]
    if others:
        wanted_keys.append(Wanted(others, keys(site)))
    if site.auth == "munge":
        wanted_keys.append(Wanted(site.names, (Service("munge", (MUNGE_KEY,)),)))
    first, *rest = wanted_keys
    # The key is made in the first stage and copied in the second: the copy needs it to exist.
    ready = StageWanted(ready.name, ready.title, (*in_one_run(ready.wanted), first))
    # The controller's clock likewise: the others can follow it once it runs.
    rest += machine.following(site)
    if not rest:
        return (ready,)
    return (ready, StageWanted("keys", f"{site.auth} key from the controller", tuple(rest)))


def key(site: Site) -> Secret:
    """The key that all nodes share: munge.key or slurm.key."""
    if site.auth == "munge":
        # munged refuses a key that others can read (munge(8)); 1024 bytes is its maximum.
        return Secret(MUNGE_KEY, site.controller, "munge:munge", "400")
    return Secret(SLURM_KEY, site.controller, "slurm:slurm", "600")


def keys(site: Site) -> tuple[Secret, ...]:
    """All that the nodes share to know each other; slurm.jwks is there once keys were rotated."""
    if site.auth == "munge":
        return (key(site),)
    jwks = Secret(SLURM_JWKS, site.controller, "slurm:slurm", "600", optional=True)
    return (key(site), jwks)


def former_keys(site: Site) -> tuple[Gone, ...]:
    """Keys of auth/slurm that must not be there where munge is used.

    Before it has its files, slurmd (and sackd) takes auth/slurm when there is a slurm.key, or a
    slurm.jwks after a rotation: the controller would not understand it (seen with 24.11.5,
    "authentication plugin auth/slurm(103) not found", and slurmd never starts).
    """
    return (Gone(SLURM_KEY), Gone(SLURM_JWKS)) if site.auth == "munge" else ()


def key_paths(site: Site) -> tuple[str, ...]:
    """The files of ``keys``."""
    return tuple(secret.path for secret in keys(site))


def _common(site: Site) -> tuple[Resource, ...]:
    return (
        machine.names_of(site),
        *_daemons(site),
        *slurm_packages.common(site),
        Directory("/etc/slurm"),
        Directory("/var/log/slurm", "slurm:slurm"),
    )


def _daemons(site: Site) -> tuple[Resource, ...]:
    """The services' users, before a package makes them with a number of its own."""
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
