"""Databases: slurmdbd's, a service's in PostgreSQL, and what is copied before an upgrade. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, sh
from corral.state.base import (
    Change,
    Context,
    Impact,
    Seen,
    Standalone,
)


@dataclass(frozen=True, slots=True)
class Database(Standalone):
    """A MariaDB database whose user logs in by unix_socket: there is no password to keep.

    ``user`` is both the system user and the database user (docs/architecture.md).
    """

    name: str
    user: str

    @property
    def id(self) -> str:
        """``database:<name>``."""
        return f"database:{self.name}"

    def probe(self) -> Script:
        """``ready`` when the user can open the database as itself."""
        return sh(
            "runuser -u {user} -- mariadb -N -e 'SELECT 1' {name} >/dev/null 2>&1 "
            "&& echo ready || echo absent",
            user=self.user,
            name=self.name,
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Make database and user."""
        if seen.text == "ready":
            return None
        sql = (
            f"CREATE DATABASE IF NOT EXISTS `{self.name}`; "
            f"CREATE USER IF NOT EXISTS '{self.user}'@'localhost' IDENTIFIED VIA unix_socket; "
            f"GRANT ALL ON `{self.name}`.* TO '{self.user}'@'localhost';"
        )
        return Change(
            self.id,
            f"database {self.name} for {self.user}, by unix_socket",
            "",
            "ready",
            sh("mariadb -e {sql}", sql=sql),
        )


# template0 and UTF8: initdb under LANG=C (containers, minimal images) makes SQL_ASCII else.
_MAKE = """\
sql() {{ runuser -u postgres -- psql -X -v ON_ERROR_STOP=1 -Atqc "$1"; }}
i=0
until sql 'SELECT 1' >/dev/null 2>&1; do
  i=$((i + 1))
  [ "$i" -lt 120 ] || {{ sql 'SELECT 1'; exit 1; }}
  sleep 0.5
done
sql 'SELECT rolname FROM pg_roles' | grep -qxF {name} || sql {role} || exit 1
sql 'SELECT datname FROM pg_database' | grep -qxF {name} || sql {base} || exit 1
sql {close}"""


@dataclass(frozen=True, slots=True)
class Postgres(Standalone):
    """A database and its owner, who comes by the unix socket as the system user of that name.

    That is what Debian's and Ubuntu's pg_hba.conf allow (``local all all peer``): there is no
    password to keep.
    """

    name: str

    @property
    def id(self) -> str:
        """``postgres:<name>``."""
        return f"postgres:{self.name}"

    def probe(self) -> Script:
        """``ready`` when the user can open the database as itself."""
        return sh(
            "runuser -u {name} -- psql -X -Atqc 'SELECT 1' -d {name} >/dev/null 2>&1 "
            "&& echo ready || echo absent",
            name=self.name,
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Make owner and database; others may not connect to it."""
        if seen.text == "ready":
            return None
        name = self.name
        script = sh(
            _MAKE,
            name=name,
            role=f'CREATE ROLE "{name}" LOGIN',
            base=f'CREATE DATABASE "{name}" OWNER "{name}" ENCODING \'UTF8\' TEMPLATE template0',
            close=f'REVOKE ALL ON DATABASE "{name}" FROM PUBLIC',
        )
        return Change(self.id, f"PostgreSQL database {name}, by unix socket", "", "ready", script)


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
