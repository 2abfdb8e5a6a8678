"""Messages about jobs: Slurm's MailProg, its queue on the controller, and what sends them. Pure.

The controller needs no Corral for it, but python3.
"""

from __future__ import annotations

import json
from typing import Any, Final

from corral.agents import program
from corral.inspect.jobs import BUSY, BUSY_OF_EACH
from corral.roles.inventory import Site
from corral.roles.role import Role, Share
from corral.roles.services.metrics import PROMETHEUS
from corral.roles.services.page import END_SOCKET
from corral.slurm.conf.conf_file import Setting
from corral.slurm.conf.model import Contribution
from corral.slurm.states.jobs import going_on_states, job_states
from corral.spec.sections.services import Notify
from corral.state.base import Desired, Resource
from corral.state.files import Directory, File, Gone
from corral.state.own_secret import FOLDER
from corral.state.packages import Packages
from corral.state.service import UNITS, Timer

NAME: Final = "corral-notify"
PROGRAM: Final = f"/usr/local/sbin/{NAME}"
SEND: Final = "/usr/local/lib/corral/notify-send.py"
CONF: Final = "/etc/corral/notify.json"
SPOOL: Final = f"/var/spool/{NAME}"

_SERVICE: Final = """\
# Written by Corral: sends messages about jobs that slurmctld has queued (docs/guide/notify.md).
[Unit]
Description=Messages about jobs

[Service]
User=slurm
ExecStart=/usr/bin/python3 {send}
Restart=on-failure
RestartSec=30
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
ReadWritePaths={spool}
"""
_PATH: Final = f"""\
# Written by Corral.
[Unit]
Description=The queue of messages about jobs

[Path]
DirectoryNotEmpty={SPOOL}/queue
Unit={NAME}.service

[Install]
WantedBy=paths.target
"""


def settings(site: Site, notify: Notify) -> dict[str, Any]:
    """What ``notify/send.py`` reads; no secret."""
    spec, services = site.spec, site.spec.services
    local = f"http://127.0.0.1:{PROMETHEUS}" if services.metrics else ""
    names = services.page.names if services.ui else ()
    relay = {
        "host": notify.relay,
        "port": notify.port,
        "tls": notify.tls,
        "user": notify.user or "",
        "sender": notify.sender,
        "domain": notify.domain or "",
        "domains": [domain.lower() for domain in notify.domains],
    }
    return {
        "cluster": spec.name,
        "accounting": spec.slurm.accounting,
        "page": f"https://{names[0]}" if names else "",
        "prometheus": services.prometheus or local,
        "doctor": END_SOCKET if services.ui else "",
        "busy": BUSY,
        "each": BUSY_OF_EACH,
        "going_on": going_on_states(),
        "ends": {word: row.ends for word, row in job_states().items() if row.ends},
        "relay": relay if notify.relay else None,
        "webhooks": {hook.name: hook.url or "" for hook in notify.webhooks},
    }


def on_controllers(site: Site) -> tuple[Share, ...]:
    """Program, queue and units on the controllers; or none of them."""
    notify = site.spec.services.notify
    units = {kind: f"{UNITS}/{NAME}.{kind}" for kind in ("service", "path")}
    here = site.controllers
    if notify is None:
        files = map(Gone, (PROGRAM, SEND, CONF, *units.values()))
        folders = (Gone(path, folder=True) for path in (SPOOL, FOLDER))
        off = (Timer(NAME, on=False, kind="path"), *files, *folders)
        return (Share((Desired(here, off),)),)
    resources: tuple[Resource, ...] = (
        Packages("notify", ("python3",)),
        File(PROGRAM, program("notify/mail_prog.py"), mode="755"),
        File(SEND, program("notify/send.py")),
        File(CONF, json.dumps(settings(site, notify), indent=1) + "\n"),
        *site.notify,
        *(Directory(f"{SPOOL}{part}", "slurm:slurm", "700") for part in ("", "/new", "/queue")),
        File(units["service"], _SERVICE.format(send=SEND, spool=SPOOL)),
        File(units["path"], _PATH),
        Timer(NAME, kind="path"),
    )
    return (Share((Desired(here, resources),)),)


def slurm_conf(site: Site) -> Contribution:
    """Slurmctld's program for mail."""
    if site.spec.services.notify is None:
        return Contribution()
    return Contribution((Setting("MailProg", PROGRAM),))


ROLE: Final = Role("notify", {"base": on_controllers}, slurm_conf)
