"""What every machine of a cluster holds before Slurm's daemons: names, users, packages, folders."""

from __future__ import annotations

from corral.roles.site import Site
from corral.state.accounts import UserAccount
from corral.state.base import Resource, StageWanted, Wanted
from corral.state.files import Directory
from corral.state.naming import Hostname, HostsBlock
from corral.state.packages import Packages
from corral.state.secret import Secret
from corral.state.service import Service

SLURM_UID = 64030
"""Debian and Ubuntu give slurm this number (base-passwd's static range); equal everywhere (F17)."""

MUNGE_KEY = "/etc/munge/munge.key"
SLURM_KEY = "/etc/slurm/slurm.key"
CONTROLLER_PACKAGES = ("slurmctld",)
ACCOUNTING_PACKAGES = ("slurmdbd", "slurm-wlm-mysql-plugin", "mariadb-server")
REST_PACKAGES = ("slurmrestd", "slurm-wlm-jwt-plugin")


def stages(site: Site) -> tuple[StageWanted, ...]:
    """Machines made ready, then the controller's key copied to all."""
    compute = tuple(n.name for n in site.compute)
    wanted = [Wanted((node.name,), (Hostname(node.name),)) for node in site.nodes]
    wanted.append(Wanted(site.names, _common(site)))
    wanted.append(Wanted((site.controller,), _controller(site)))
    wanted.append(Wanted(compute, (Packages("slurmd", ("slurmd",)), _spool())))
    others = tuple(n for n in site.names if n != site.controller)
    ready = StageWanted("base", "names, users, packages and folders", tuple(wanted))
    wanted_keys = [Wanted((site.controller,), (key(site),))]
    if others:
        wanted_keys.append(Wanted(others, (key(site),)))
    if site.auth == "munge":
        wanted_keys.append(Wanted(site.names, (Service("munge", (MUNGE_KEY,)),)))
    first, *rest = wanted_keys
    # The key is made in the first stage and copied in the second: the copy needs it to exist.
    ready = StageWanted(ready.name, ready.title, (*ready.wanted, first))
    if not rest:
        return (ready,)
    return (ready, StageWanted("keys", f"{site.auth} key from the controller", tuple(rest)))


def key(site: Site) -> Secret:
    """The key that all nodes share: munge.key or slurm.key."""
    if site.auth == "munge":
        # munged refuses a key that others can read (munge(8)); 1024 bytes is its maximum.
        return Secret(MUNGE_KEY, site.controller, "munge:munge", "400")
    return Secret(SLURM_KEY, site.controller, "slurm:slurm", "600")


def _common(site: Site) -> tuple[Resource, ...]:
    people = tuple(UserAccount(u.name, u.uid, f"/home/{u.name}") for u in site.users)
    names = ["slurm-client"]
    if site.auth == "munge":
        names.append("munge")
    entries = tuple((site.addresses[n], n) for n in site.names)
    return (
        HostsBlock(entries),
        UserAccount("slurm", SLURM_UID, "/nonexistent", "/usr/sbin/nologin", system=True),
        *people,
        Packages("slurm-client", tuple(names)),
        Directory("/etc/slurm"),
        Directory("/var/log/slurm", "slurm:slurm"),
        *_clock(site),
    )


def _clock(site: Site) -> tuple[Resource, ...]:
    if not all(site.traits[n].own_clock for n in site.names):
        return ()
    return (Packages("clock", ("chrony",)), Service("chrony"))


def _spool() -> Resource:
    return Directory("/var/spool/slurmd", "root:root")


def _controller(site: Site) -> tuple[Resource, ...]:
    names = [*CONTROLLER_PACKAGES]
    if site.spec.slurm.accounting:
        names += ACCOUNTING_PACKAGES
    if site.spec.slurm.rest:
        names += REST_PACKAGES
    return (
        Packages("controller", tuple(names)),
        Directory("/var/spool/slurmctld", "slurm:slurm", "700"),
    )
