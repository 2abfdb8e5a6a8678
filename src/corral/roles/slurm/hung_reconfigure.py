"""Slurm's daemons freed from a reconfiguration that would hang half way. Pure.

Slurm 23.11 to 26.05 (at least) with OpenSSL 3: docs/guide/living.md#reconfigurations-that-hang.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from corral import agents
from corral.roles.inventory import Site
from corral.roles.role import Role, Share
from corral.slurm.version import has
from corral.spec.slurm.releases import Feature
from corral.state.base import Desired, Resource
from corral.state.files import File, Gone
from corral.state.service import UNITS, Timer

NAME: Final = "corral-reconfigure-guard"
PROGRAM: Final = f"/usr/local/sbin/{NAME}"
_OLD: Final = "corral-let-go"
"""What all of it was called up to 0.1: removed from nodes that have it."""

# notice: systemd's own lines for each round would fill the journal.
_SERVICE: Final = f"""\
# Written by Corral.
[Unit]
Description=End Slurm daemons whose reconfiguration hangs

[Service]
Type=oneshot
ExecStart={PROGRAM}
LogLevelMax=notice
TimeoutStartSec=60
"""
_TIMER: Final = """\
# Written by Corral.
[Unit]
Description=End Slurm daemons whose reconfiguration hangs

[Timer]
OnActiveSec=20s
OnUnitInactiveSec=20s
AccuracySec=5s

[Install]
WantedBy=timers.target
"""


def on_nodes(site: Site) -> tuple[Share, ...]:
    """The program, its timer, and what systemd calls around a stop of slurmctld and slurmd."""
    if not has(site.version, Feature.RECONFIGURE_REEXECS):
        return ()
    able = tuple(n for n in site.names if site.facts[n].systemd)
    compute = tuple(n.name for n in site.compute if n.name in able)
    units = (("slurmctld", site.controllers), ("slurmd", compute))
    desired = [Desired(nodes, around(unit)) for unit, nodes in units if nodes]
    # The timer comes last: it makes systemd reload all units.
    return (Share((*desired, Desired(able, _watch()))),)


def _watch() -> tuple[Resource, ...]:
    kinds = ("service", "timer")
    service, timer = (f"{UNITS}/{NAME}.{kind}" for kind in kinds)
    return (
        File(PROGRAM, program(), mode="755"),
        File(service, _SERVICE),
        File(timer, _TIMER),
        Timer(_OLD, on=False),
        *map(Gone, (f"/usr/local/sbin/{_OLD}", *(f"{UNITS}/{_OLD}.{k}" for k in kinds))),
        Timer(NAME),
    )


def around(unit: str) -> tuple[File, Gone]:
    """What systemd calls before and behind a stop of slurmctld, slurmd or sackd."""
    folder = f"{UNITS}/{unit}.service.d"
    drop_in = File(
        f"{folder}/{NAME}.conf",
        "# Written by Corral: a reconfiguration that hangs half way does not hold up a stop.\n"
        "[Service]\n"
        f"ExecStartPre=-{PROGRAM} stopped {unit}\n"
        f"ExecStop=-{PROGRAM} stop {unit}\n"
        f"ExecStopPost=-{PROGRAM} stopped {unit}\n",
    )
    return drop_in, Gone(f"{folder}/{_OLD}.conf")


@cache
def program() -> str:
    """The program's text."""
    return agents.program("hung-reconfigure.sh")


ROLE: Final = Role("hung_reconfigure", {"base": on_nodes})
