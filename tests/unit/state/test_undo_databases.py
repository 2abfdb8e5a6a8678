"""Databases when a machine is released: the real shell, with PostgreSQL's programs faked as files.

What the fakes do not know is refused; the real server is in tests/embedded/test_restoration.py.
"""

from __future__ import annotations

import gzip
import os
import subprocess
from pathlib import Path

import pytest

from corral.hosts.quote import join, sh, shipped
from corral.state import ledger
from corral.state.ledger import FUNCTIONS

FAKES = {
    "runuser": 'shift 3; exec "$@"',
    "systemctl": 'echo "systemctl $*" >> log; [ "$1$2" != -qis-active ] || [ -e up ]; '
    'case "$*" in "start postgresql") : > up;; esac',
    "pg_dump": 'grep -qxF "$1" bases && echo "all of $1"',
    "pg_lsclusters": "cat clusters",
    "psql": """\
for q in "$@"; do case $q in
  "SELECT datname FROM pg_database") cat bases; exit ;;
  "SELECT datname FROM pg_database"*"WHERE NOT datistemplate AND datname <> 'postgres'")
    grep -vxE 'template[01]|postgres' bases; exit 0 ;;
  DROP*) echo "$q" >> log; n=$(echo "$q" | cut -d'"' -f2)
    case $q in *DATABASE*) grep -vxF "$n" bases > b; mv b bases ;; esac; exit ;;
esac; done; echo "psql $*" >> refused; exit 97""",
}


class Server:
    """A machine with PostgreSQL, of which Corral made the database corral-mlflow."""

    def __init__(self, root: Path) -> None:
        self.root = root
        programs = root / "bin"
        programs.mkdir()
        for name, text in FAKES.items():
            (programs / name).write_text(f"#!/bin/sh\n{text}\n")
            (programs / name).chmod(0o755)
        self.keep("corral\n")
        (root / "ledger/cluster").write_text("lab\n")
        (root / "up").touch()
        (root / "clusters").write_text("17 main 5432 online\n")
        self.bases("corral-mlflow")

    def keep(self, text: str) -> None:
        """Write the ledger's entry of the database."""
        file = self.root / "ledger/before/postgres/corral-mlflow"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def bases(self, *names: str) -> None:
        """The server's databases, in addition to those that every server has."""
        text = "\n".join(("postgres", "template0", "template1", *names))
        (self.root / "bases").write_text(f"{text}\n")

    def undo(self, *, purge: bool = False, unit: str = "postgresql") -> str:
        """Everything it prints, and at the end which databases of others it left."""
        end = sh('serves_others {unit} && echo "stays: $OTHERS$PG_OTHERS" || echo goes', unit=unit)
        head = sh("PURGE={p}", p="yes" if purge else "no")
        text = str(
            join([head, FUNCTIONS, ledger._COMMON, shipped("ledger/undo-databases.sh"), end])
        )
        for path, here in (("/var/lib/corral", "ledger"), ("/var/backups", "backups")):
            text = text.replace(path, f"{self.root}/{here}")
        path = f"{self.root}/bin:{os.environ['PATH']}"
        done = subprocess.run(
            ["/bin/sh", "-c", text.replace("cd / &&", "")],
            capture_output=True,
            text=True,
            cwd=self.root,
            env={"PATH": path},
        )
        assert done.returncode == 0, done.stderr
        assert not (self.root / "refused").exists()
        return done.stdout

    @property
    def log(self) -> str:
        file = self.root / "log"
        return file.read_text() if file.exists() else ""


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


def test_it_is_dumped_and_dropped(server: Server) -> None:
    (server.root / "up").unlink()
    report = server.undo()
    assert "did dropped database corral-mlflow" in report
    assert report.endswith("goes\n")
    assert 'DROP DATABASE "corral-mlflow" WITH (FORCE)' in server.log
    assert 'DROP ROLE IF EXISTS "corral-mlflow"' in server.log
    (dump,) = (server.root / "backups").iterdir()
    assert gzip.decompress(dump.read_bytes()) == b"all of corral-mlflow\n"
    assert dump.stat().st_mode & 0o077 == 0


def test_purge_keeps_no_dump(server: Server) -> None:
    assert "did dropped database" in server.undo(purge=True)
    assert not (server.root / "backups").exists()


@pytest.mark.parametrize("others", ["wiki", "sp ace"])
def test_other_databases_keep_the_server(server: Server, others: str) -> None:
    server.bases("corral-mlflow", others)
    assert f"stays: {others}" in server.undo()
    assert others in (server.root / "bases").read_text().splitlines()


def test_another_cluster_of_the_server_keeps_it(server: Server) -> None:
    (server.root / "clusters").write_text("17 main 5432 online\n17 own 5433 down\n")
    assert "stays: cluster 17/own" in server.undo()


def test_it_may_be_run_again(server: Server) -> None:
    server.undo()
    assert "dropped" not in server.undo()


def test_a_database_and_a_role_of_the_owners_stay(server: Server) -> None:
    server.keep("corral\nrole corral-mlflow\n")
    assert "dropped database" in server.undo()
    assert "ROLE" not in server.log
    server.bases("corral-mlflow")
    server.keep("owner\nrole corral-mlflow\n")
    assert "stays: corral-mlflow" in server.undo()


def test_a_server_that_does_not_answer_is_not_one_without_the_database(server: Server) -> None:
    """Its packages would be purged in the next step, and with them all that it holds."""
    (server.root / "bin/psql").write_text("#!/bin/sh\nexit 2\n")
    with pytest.raises(AssertionError):
        server.undo()
    (server.root / "ledger/before/sql").mkdir()
    (server.root / "ledger/before/postgres/corral-mlflow").unlink()
    (server.root / "ledger/before/sql/slurm_acct_db").write_text("corral\nuser slurm\n")
    (server.root / "bin/mariadb").write_text("#!/bin/sh\nexit 1\n")
    (server.root / "bin/mariadb").chmod(0o755)
    with pytest.raises(AssertionError):
        server.undo()


def test_a_list_of_clusters_that_fails_keeps_the_server(server: Server) -> None:
    (server.root / "bin/pg_lsclusters").write_text("#!/bin/sh\nexit 2\n")
    assert "stays: unknown" in server.undo()


def test_a_mariadb_that_does_not_answer_stays(server: Server) -> None:
    """It holds the owner's databases, perhaps; none of Corral's is asked for there."""
    (server.root / "ledger/before/sql").mkdir()
    (server.root / "bin/mariadb").write_text("#!/bin/sh\nexit 1\n")
    (server.root / "bin/mariadb").chmod(0o755)
    assert "stays: unknown" in server.undo(unit="mariadb")
