"""The guard on the controller: ends what is rented and not needed, or not paid for any more. Pure.

The controller needs no Corral for it, but python3 (docs/decisions/0044): those modules of Corral's
own clients that list and end machines are copied next to the program.
"""

from __future__ import annotations

import json
from typing import Final

from corral import agents
from corral.durations import interval_seconds
from corral.roles.inventory import Site
from corral.roles.role import Role, Share
from corral.spec.nodes import declared_of, has_guard, together_of
from corral.spec.providers import CLOUDS
from corral.spec.sections.cloud import Budget
from corral.state.base import Desired, Resource
from corral.state.files import File, Gone
from corral.state.packages import Packages
from corral.state.secrets import GuardKey
from corral.state.service import UNITS, Timer

NAME: Final = "corral-guard"
PROGRAM: Final = "/usr/local/lib/corral/guard.py"
WIND_DOWN: Final = "/usr/local/lib/corral/wind-down.sh"
CLOUDS_FOLDER: Final = "/usr/local/lib/corral/clouds"
_MOVED: Final = "corral/providers/cloud/answers.py"
"""What `response.py` next to it was called up to 0.1."""
CONF: Final = "/etc/corral/guard.json"
KEYS: Final = "/etc/corral/guard"

_SERVICE: Final = f"""\
# Written by Corral: one round of the guard (docs/guide/cost.md).
[Unit]
Description=Corral's guard over rented machines
After=network-online.target

[Service]
Type=oneshot
ExecStart=/usr/bin/python3 {PROGRAM}
TimeoutStartSec=30min
NoNewPrivileges=yes
ProtectHome=yes
"""
_TIMER: Final = """\
# Written by Corral.
[Unit]
Description=Corral's guard over rented machines

[Timer]
OnActiveSec={every}s
OnUnitInactiveSec={every}s
AccuracySec=5s

[Install]
WantedBy=timers.target
"""


def on_controller(site: Site) -> tuple[Share, ...]:
    """Program, keys and timer on the controller; or none of them."""
    budget = site.spec.budget
    if not has_guard(site.spec) or budget is None:
        gone = (
            *(PROGRAM, WIND_DOWN, CONF, *(f"{KEYS}/{cloud}.key" for cloud in CLOUDS)),
            *(f"{UNITS}/{NAME}.{kind}" for kind in ("service", "timer")),
        )
        off = (Timer(NAME, on=False), *map(Gone, gone), Gone(CLOUDS_FOLDER, folder=True))
        return (Share((Desired((site.controller,), off),), title="no guard"),)
    keys = tuple(GuardKey(w.cloud, f"{KEYS}/{w.cloud}.key", w.digest) for w in site.watched)
    resources: tuple[Resource, ...] = (
        Packages("guard", ("python3",)),
        File(PROGRAM, agents.program("rental_guard.py")),
        File(WIND_DOWN, agents.program("wind-down.sh")),
        *(File(f"{CLOUDS_FOLDER}/{path}", text) for path, text in clients(site).items()),
        Gone(f"{CLOUDS_FOLDER}/{_MOVED}"),
        *keys,
        File(CONF, settings(site, budget), mode="600"),
        File(f"{UNITS}/{NAME}.service", _SERVICE),
        File(f"{UNITS}/{NAME}.timer", _TIMER.format(every=interval_seconds(budget.guard))),
        Timer(NAME),
    )
    title = f"a guard over what is rented, every {budget.guard}"
    return (Share((Desired((site.controller,), resources),), title=title),)


def settings(site: Site, budget: Budget) -> str:
    """The guard's settings; no secret is in them."""
    rented = [n for n in declared_of(site.spec) if n.group.capabilities.rents]
    values = {
        "cluster": site.spec.name,
        "nodes": [n.name for n in rented],
        "groups": together_of(site.spec),
        "elastic": [n.name for n in rented if n.group.elastic],
        "total": budget.total,
        "grace": interval_seconds(budget.grace),
        "ending": budget.ending_s,
        "clouds": {w.cloud: w.url for w in site.watched},
        "clients": {w.cloud: w.client for w in site.watched},
    }
    return json.dumps(values, indent=1) + "\n"


def clients(site: Site) -> dict[str, str]:
    """Texts of the modules that list and end machines of the clouds, by path."""
    return {p: text for w in site.watched for p, text in agents.modules(w.client).items()}


ROLE: Final = Role("rental_guard", {"guard": on_controller})
