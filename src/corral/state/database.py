"""What slurmdbd's database holds. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from corral.hosts.quote import Script, sh
from corral.state.base import Change, Context, Seen, Standalone


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
