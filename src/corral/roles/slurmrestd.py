"""Slurmrestd on the controller, under its own user. Pure."""

from __future__ import annotations

from typing import Final

from corral.hosts.quote import sh
from corral.roles import slurm_packages
from corral.roles.controller import ETC, journal
from corral.roles.inventory import Site
from corral.roles.role import Role, Share
from corral.slurm.packages import Part
from corral.slurm.version import SlurmVersion
from corral.state.accounts import UserAccount
from corral.state.base import Gate, Impact, Resource, Wanted
from corral.state.files import File
from corral.state.service import Service, Stopped

REST_PORT: Final = 6820
REST_UID: Final = 64031

REST_DROP_IN: Final = f"""\
# Written by Corral. slurmrestd must run neither as root nor as SlurmUser (slurmrestd(8)), and its
# plain HTTP has no replay protection: loopback only, JWT only.
[Service]
User=slurmrestd
Group=slurmrestd
Environment=SLURM_JWT=daemon
# SchedMD's unit listens on all addresses by this; and the port would be taken when it comes twice.
UnsetEnvironment=SLURMRESTD_LISTEN
ExecStart=
ExecStart=/usr/sbin/slurmrestd -a rest_auth/jwt%PLUGINS% 127.0.0.1:{REST_PORT}
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
Restart=on-failure
"""


def started(site: Site) -> tuple[Share, ...]:
    """Slurmrestd under its own user; it may start together with the compute nodes."""
    if not site.spec.slurm.rest:
        return (Share((Wanted((site.controller,), (Stopped("slurmrestd"),)),)),)
    drop_in = "/etc/systemd/system/slurmrestd.service.d/corral.conf"
    resources: tuple[Resource, ...] = (
        UserAccount("slurmrestd", REST_UID, "/nonexistent", "/usr/sbin/nologin", system=True),
        File(drop_in, REST_DROP_IN.replace("%PLUGINS%", _plugins(site))),
        # slurm.conf is read once at its start, so it is an input; the JWT key is never read by it.
        Service(
            "slurmrestd",
            (drop_in, f"{ETC}/slurm.conf"),
            impact=Impact.NONE,
            programs=slurm_packages.programs(site, Part.SLURMRESTD),
            packages=slurm_packages.bringing(site),
        ),
    )
    gate = Gate(
        "slurmrestd listens",
        site.controller,
        sh("ss -ltnH {filter} | grep -q .", filter=f"sport = :{REST_PORT}"),
        30,
        "read: journalctl -u slurmrestd",
        journal("slurmrestd"),
    )
    return (Share((Wanted((site.controller,), resources),), (gate,)),)


def _plugins(site: Site) -> str:
    """Which of its plugins slurmrestd loads; "" for all.

    Without accounting it dies of openapi/slurmdbd: "Failure loading plugin path bindings" (24.11).
    Before 24.05 the plugins bear version numbers, and it serves what it can.
    """
    if site.spec.slurm.accounting or site.version < SlurmVersion(24, 5):
        return ""
    return " -s openapi/slurmctld"


ROLE: Final = Role("slurmrestd", {"compute": started})
