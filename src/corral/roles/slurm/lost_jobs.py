"""Jobs that a machine lost when it stopped, and that Slurm still calls running. Pure."""

from __future__ import annotations

from functools import cache
from typing import Final

from corral import agents
from corral.roles.inventory import Site
from corral.roles.role import Role, Share
from corral.state.base import Desired, Resource
from corral.state.files import File
from corral.state.service import UNITS, Timer

NAME: Final = "corral-lost-jobs"
PROGRAM: Final = f"/usr/local/sbin/{NAME}"

# Tried again while slurmctld does not answer: both may have been down.
_SERVICE: Final = f"""\
# Written by Corral.
[Unit]
Description=Jobs that were lost when this machine stopped
After=slurmd.service
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart={PROGRAM}
Restart=on-failure
RestartSec=10
TimeoutStartSec=5min
"""
_TIMER: Final = """\
# Written by Corral: once after each boot.
[Unit]
Description=Jobs that were lost when this machine stopped

[Timer]
OnActiveSec=5s
AccuracySec=1s

[Install]
WantedBy=timers.target
"""


def on_nodes(site: Site) -> tuple[Share, ...]:
    """The program and its timer on compute nodes with systemd."""
    nodes = tuple(n.name for n in site.compute if site.facts[n.name].systemd)
    service, timer = (f"{UNITS}/{NAME}.{kind}" for kind in ("service", "timer"))
    resources: tuple[Resource, ...] = (
        File(PROGRAM, program(), mode="755"),
        File(service, _SERVICE),
        File(timer, _TIMER),
        Timer(NAME),
    )
    return (Share((Desired(nodes, resources),)),) if nodes else ()


@cache
def program() -> str:
    """The program's text."""
    return agents.program("lost-jobs.sh")


ROLE: Final = Role("lost_jobs", {"base": on_nodes})
