"""What a backup of the cluster reads, and the timer on the controller that makes one. Pure.

The controller needs no Corral for it, but python3, zstd and age.
"""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import Any, Final

from corral.agents import program
from corral.durations import interval_seconds
from corral.extras import own_version
from corral.roles.inventory import Site
from corral.roles.role import Role, Share
from corral.roles.services import metrics, mlflow, page
from corral.roles.slurm.auth_key import MUNGE_KEY
from corral.slurm.conf.cluster import DATABASE
from corral.spec.models import ClusterSpec
from corral.spec.nodes import state_of
from corral.state.base import Desired, Resource
from corral.state.files import File, Gone
from corral.state.packages import Packages
from corral.state.service import UNITS, Timer
from corral.state.storage.root_folders import RootFolder

FORMAT: Final = 1
"""Of the archives; a reader refuses a newer one."""
NAME: Final = "corral-backup"
PROGRAM: Final = "/usr/local/sbin/corral-backup"
WRITE: Final = "/usr/local/lib/corral/backup-write.py"
CONF: Final = "/etc/corral/backup.json"
RECIPIENTS: Final = "/etc/corral/backup-recipients"
METRICS: Final = f"{metrics.TEXTFILES}/corral-backup.prom"
"""Not the name of corral-figures, whose age has its own alert."""
_FIRST_S: Final = 600
"""Seconds after the timer starts, and so after each boot: daemons are up by then."""
_ASKED_AT_LEAST_S: Final = 600
_ASKED_PER_ARCHIVE: Final = 24
"""So often in each interval the timer asks whether an archive is due."""

_SERVICE: Final = """\
# Written by Corral: an archive of what cannot be made again (docs/guide/backup.md).
[Unit]
Description=Corral's scheduled backup
After=slurmctld.service mariadb.service
RequiresMountsFor={folder}

[Service]
Type=oneshot
ExecStart={program}
TimeoutStartSec=12h
Nice=10
IOSchedulingClass=idle
UMask=0077
"""
_CHECK: Final = f"""\
# Written by Corral: starts {NAME}.service where the last archive is old or gone.
[Unit]
Description=Whether Corral's scheduled backup is due

[Service]
Type=oneshot
ExecStart={PROGRAM} --due
"""
_TIMER: Final = """\
# Written by Corral.
[Unit]
Description=Corral's scheduled backup

[Timer]
Unit={unit}
OnActiveSec={first}s
OnUnitActiveSec={asked}s
AccuracySec=60s

[Install]
WantedBy=timers.target
"""


def request_of(spec: ClusterSpec, files: dict[str, str], *, artifacts: bool) -> dict[str, Any]:
    """What ``backup/write.py`` is asked for.

    Args:
        spec: the cluster.
        files: text of files that the archive has too, by name.
        artifacts: also the files of MLflow's runs.
    """
    return {
        "format": FORMAT,
        "cluster": spec.name,
        "corral": own_version(),
        "files": {"cluster.json": spec.model_dump_json(indent=2), **files},
        "more": {
            MUNGE_KEY.lstrip("/"): MUNGE_KEY,
            f"page/{PurePosixPath(page.TOKENS).name}": page.TOKENS,
        },
        "with_artifacts": artifacts,
        **places_of(spec),
    }


def places_of(spec: ClusterSpec) -> dict[str, str]:
    """Where a cluster has what is saved."""
    return {
        "database": DATABASE if spec.slurm.accounting else "",
        "state": state_of(spec),
        "page": page.TOKENS,
        "mlflow": spec.services.mlflow_store if spec.services.mlflow else "",
        "mlflow_home": mlflow.HOME,
        "mlflow_user": mlflow.USER,
        "artifacts": mlflow.artifacts_of(spec),
    }


def on_controller(site: Site) -> tuple[Share, ...]:
    """Programs and timer on the controller; or none of them. Archives stay."""
    backup = site.spec.backup
    every = interval_seconds(backup.every)
    units = {kind: f"{UNITS}/{NAME}.{kind}" for kind in ("service", "timer")}
    check = f"{NAME}-due.service"
    if not every:
        gone = map(
            Gone, (PROGRAM, WRITE, CONF, RECIPIENTS, METRICS, *units.values(), f"{UNITS}/{check}")
        )
        off = Desired((site.controller,), (Timer(NAME, on=False), *gone))
        return (Share((off,), title="no scheduled backup"),)
    asked = max(_ASKED_AT_LEAST_S, every // _ASKED_PER_ARCHIVE)
    settings = {
        "folder": backup.folder,
        "keep": backup.keep,
        "every": every,
        "asked": asked,
        "metrics": METRICS if site.spec.services.metrics else "",
        "request": request_of(site.spec, {}, artifacts=backup.artifacts),
    }
    resources: tuple[Resource, ...] = (
        Packages("backup", ("age", "python3", "zstd")),
        RootFolder(backup.folder),
        File(PROGRAM, program("backup/scheduled.py"), mode="755"),
        File(WRITE, program("backup/write.py")),
        File(CONF, json.dumps(settings, indent=1) + "\n", mode="600"),
        File(RECIPIENTS, "".join(f"{key}\n" for key in backup.to)),
        File(units["service"], _SERVICE.format(folder=backup.folder, program=PROGRAM)),
        File(f"{UNITS}/{check}", _CHECK),
        File(units["timer"], _TIMER.format(unit=check, first=_FIRST_S, asked=asked)),
        Timer(NAME, starts=check),
    )
    if not site.spec.services.metrics:
        resources += (Gone(METRICS),)
    title = f"a backup into {backup.folder} every {backup.every}"
    return (Share((Desired((site.controller,), resources),), title=title),)


ROLE: Final = Role("backup", {"backup": on_controller})
