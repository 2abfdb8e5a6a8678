"""A PostgreSQL database of a service on its own machine. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from corral.hosts.quote import Script, sh
from corral.state.base import Change, Context, Seen, Standalone

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
