"""Slurm's daemons freed from a reconfiguration that would hang half way. Pure.

Slurm 23.11 to 26.05 (at least) with OpenSSL 3: docs/guide/living.md#reconfigurations-that-hang.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from corral import agents
from corral.roles.inventory import Site
from corral.roles.role import Role, Share
from corral.slurm.version import Feature, has
from corral.state.base import Desired, Resource
from corral.state.files import File
from corral.state.service import UNITS, Timer

NAME: Final = "corral-let-go"
PROGRAM: Final = "/usr/local/sbin/corral-let-go"

# notice: systemd's own lines for each round would fill the journal.
_SERVICE: Final = f"""\
# Written by Corral.
[Unit]
Description=Slurm daemons that a reconfiguration left half gone

[Service]
Type=oneshot
ExecStart={PROGRAM}
LogLevelMax=notice
TimeoutStartSec=60
"""
_TIMER: Final = """\
# Written by Corral.
[Unit]
Description=Slurm daemons that a reconfiguration left half gone

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
    units = (("slurmctld", (site.controller,)), ("slurmd", compute))
    desired = [Desired(nodes, (around(unit),)) for unit, nodes in units if nodes]
    # The timer comes last: it makes systemd reload all units.
    return (Share((*desired, Desired(able, _watch()))),)


def _watch() -> tuple[Resource, ...]:
    service, timer = (f"{UNITS}/{NAME}.{kind}" for kind in ("service", "timer"))
    return (
        File(PROGRAM, program(), mode="755"),
        File(service, _SERVICE),
        File(timer, _TIMER),
        Timer(NAME),
    )


def around(unit: str) -> File:
    """What systemd calls before and behind a stop of slurmctld, slurmd or sackd."""
    return File(
        f"{UNITS}/{unit}.service.d/corral-let-go.conf",
        "# Written by Corral: a reconfiguration that hangs half way does not hold up a stop.\n"
        "[Service]\n"
        f"ExecStartPre=-{PROGRAM} stopped {unit}\n"
        f"ExecStop=-{PROGRAM} stop {unit}\n"
        f"ExecStopPost=-{PROGRAM} stopped {unit}\n",
    )


@cache
def program() -> str:
    """The program's text."""
    return agents.program("hung-reconfigure.sh")


ROLE: Final = Role("hung_reconfigure", {"base": on_nodes})
