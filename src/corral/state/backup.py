"""What an upgrade of Slurm could spoil, copied aside before it: database, state and files. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, sh
from corral.state.base import Change, Context, Impact, Seen, Standalone

FOLDER: Final = "/var/lib/corral/backup"

_MARK: Final = "whole"
"""A file that is in each complete copy; nodes have copies with this name."""


@dataclass(frozen=True, slots=True)
class SlurmBackup(Standalone):
    """The accounting database, StateSaveLocation and /etc/slurm before an upgrade.

    Attributes:
        name: what the folder is called, such as ``slurm-24.11.5-to-26.05.5``.
        database: database to dump, "" for none.
        state: StateSaveLocation.
    """

    name: str
    database: str
    state: str

    @property
    def id(self) -> str:
        """``backup:<name>``."""
        return f"backup:{self.name}"

    @property
    def path(self) -> str:
        """The folder."""
        return f"{FOLDER}/{self.name}"

    def probe(self) -> Script:
        """``complete`` when the copy was made."""
        return sh("[ -e {mark} ] && echo complete || echo absent", mark=f"{self.path}/{_MARK}")

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Copy all of it."""
        if seen.text == "complete":
            return None
        what = "accounting database, job state and /etc/slurm"
        if not self.database:
            what = "job state and /etc/slurm"
        return Change(
            self.id,
            f"copy {what} to {self.path}",
            "",
            "a copy",
            self._copy(),
            # slurmctld is away for the seconds of the copy; jobs run on and commands wait.
            Impact.RELOAD,
        )

    def _copy(self) -> Script:
        # slurmdbd is stopped for the dump and slurmctld for the copy (upgrades.html, Create
        # Backups); the old slurmctld starts again, slurmdbd when it is upgraded.
        dump = sh(
            # Installed and never set up, as on a node's image: there is no database yet.
            "[ ! -e /etc/slurm/slurmdbd.conf ] || {{ "
            "systemctl stop slurmdbd.service && d=$(command -v mariadb-dump || echo mysqldump) && "
            '"$d" --single-transaction --databases {db} | gzip -1 > {path}.new/accounting.sql.gz '
            "&& gunzip -c {path}.new/accounting.sql.gz | tail -n 1 | grep -q 'Dump completed'; }}",
            db=self.database,
            path=self.path,
        )
        return sh(
            "umask 077 && rm -rf {path}.new && mkdir -p {path}.new && chmod 700 {root} && "
            "{{ {dump}; }} && "
            "up=$(systemctl is-active slurmctld.service || :) && "
            "systemctl stop slurmctld.service && "
            "{{ cp -a {state} {path}.new/state && cp -a /etc/slurm {path}.new/etc; r=$?; "
            '[ "$up" != active ] || systemctl start slurmctld.service || exit 1; [ $r = 0 ]; }} && '
            ": > {path}.new/{mark} && sync && mv {path}.new {path} && "
            # A large database takes longer than systemd waits for a start (upgrades.html).
            "mkdir -p {unit} && printf '[Service]\\nTimeoutStartSec=infinity\\n' "
            "> {unit}/corral-upgrade.conf",
            mark=_MARK,
            unit="/run/systemd/system/slurmdbd.service.d",
            path=self.path,
            root=FOLDER,
            dump=dump if self.database else sh(":"),
            state=self.state,
        )
