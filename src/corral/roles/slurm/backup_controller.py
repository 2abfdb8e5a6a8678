"""The backup controller: a second slurmctld that takes over where the first one is lost. Pure.

It reads the same files and the same state; slurmdbd, MariaDB, slurmrestd and the page stay on the
first one. Until slurmdbd is back, slurmctld keeps what it has to record in its state.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from corral.inspect.slurm import ALL_UP
from corral.roles.inventory import ConfiguredSite, Site
from corral.roles.role import Role, Share
from corral.roles.slurm import packages
from corral.roles.slurm.controller import journal, jwt, mounted, service, slurm_files
from corral.spec.nodes import STATE_DIR
from corral.state.base import Desired, Gate
from corral.state.files import Directory, File
from corral.state.slurm.state_folder import MARK, BackupStopped


def installed(site: Site) -> tuple[Share, ...]:
    """Its packages, and where the key of tokens is."""
    folder = Directory(STATE_DIR, "slurm:slurm", "700")
    resources = (*packages.backup_controller(site), folder)
    return tuple(Share((Desired((name,), resources),)) for name in site.controllers[1:])


def stopped(site: Site) -> tuple[Share, ...]:
    """Before an upgrade of the first one: an older slurmctld must not take over newer state."""
    late = tuple(n for n in site.controllers[1:] if n in packages.old(site))
    return (Share((Desired(late, (BackupStopped(""),)),)),) if late else ()


def started(site: ConfiguredSite) -> tuple[Share, ...]:
    """Slurmctld on the backup, once the first one runs."""
    names = site.controllers[1:]
    if not names:
        return ()
    files = slurm_files(site)
    listed = "".join(f"{file.path}\n" for file in files)
    # Reconfigure reaches the slurmctld in charge alone; this one starts again instead.
    again = replace(service(site), reload=None, spread=None)
    resources = (*jwt(site), mounted(site), *files, File(MARK, listed), again)
    gate = Gate(
        f"the backup controller {names[0]} answers",
        site.controller,
        ALL_UP.shell,
        60,
        "read /var/log/slurm/slurmctld.log there; StateSaveLocation must be readable by slurm",
        journal("slurmctld"),
    )
    title = f"slurmctld on the backup controller {names[0]}"
    return (Share((Desired(names, resources),), (gate,), title),)


ROLE: Final = Role(
    "backup_controller",
    {"base": installed, "stop-backup": stopped, "backup-controller": started},
)
