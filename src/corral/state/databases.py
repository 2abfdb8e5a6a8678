"""Databases: slurmdbd's, a service's in PostgreSQL, and what is copied before an upgrade. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, call, sh
from corral.spec.impacts import Impact
from corral.state.base import Change, Context, Seen, Standalone

_PROGRAM: Final = "state/databases.sh"


@dataclass(frozen=True, slots=True)
class Database(Standalone):
    """A MariaDB database whose user logs in by unix_socket: there is no password to keep.

    ``user`` is both the system user and the database user (docs/architecture.md).
    """

    name: str
    user: str

    @property
    def id(self) -> str:
        return f"database:{self.name}"

    def probe(self) -> Script:
        """``ready`` when the user can open the database as itself."""
        return call(
            _PROGRAM,
            "ready_if",
            *("runuser", "-u", self.user, "--", "mariadb", "-N", "-e", "SELECT 1", self.name),
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


@dataclass(frozen=True, slots=True)
class Postgres(Standalone):
    """A database and its owner, who comes by the unix socket as the system user of that name.

    That is what Debian's and Ubuntu's pg_hba.conf allow (``local all all peer``): there is no
    password to keep.
    """

    name: str

    @property
    def id(self) -> str:
        return f"postgres:{self.name}"

    def probe(self) -> Script:
        """``ready`` when the user can open the database as itself."""
        return call(
            _PROGRAM,
            "ready_if",
            *("runuser", "-u", self.name, "--", "psql", "-X", "-Atqc", "SELECT 1", "-d", self.name),
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Make owner and database; others may not connect to it."""
        if seen.text == "ready":
            return None
        name = self.name
        script = call(
            _PROGRAM,
            "postgres_make",
            name,
            f'CREATE ROLE "{name}" LOGIN',
            # template0 and UTF8: initdb under LANG=C (containers, minimal images) makes SQL_ASCII.
            f'CREATE DATABASE "{name}" OWNER "{name}" ENCODING \'UTF8\' TEMPLATE template0',
            f'REVOKE ALL ON DATABASE "{name}" FROM PUBLIC',
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
        return f"backup:{self.name}"

    @property
    def path(self) -> str:
        """The folder."""
        return f"{FOLDER}/{self.name}"

    def probe(self) -> Script:
        """``complete`` when the copy was made."""
        return call(_PROGRAM, "complete_if", f"{self.path}/{_MARK}")

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
        return call(_PROGRAM, "slurm_copy", self.path, _MARK, self.database, self.state)
