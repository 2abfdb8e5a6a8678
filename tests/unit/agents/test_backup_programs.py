"""The programs of a backup on a controller, with a database and a Slurm that are shell scripts."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import pwd
import runpy
import sqlite3
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from corral.agents import FOLDER
from corral.api.operations.backup_archive import Archive, read_archive

Program = dict[str, Any]
STAND_INS = {
    "slurmctld": "echo slurm-wlm 24.11.5",
    "mariadb-dump": "printf 'INSERT INTO %s;\\n-- Dump completed on 2026\\n' lab_job_table",
    # SHOW TABLES, COUNT and MAX of what the file of rows has; what it is sent is kept.
    "mariadb": """
case "$*" in
  --version) echo 'mariadb from 11.8' ;;
  *'SHOW TABLES'*) printf 'lab-1_job_table\\nlab-1_assoc_table\\nother_table\\n' ;;
  *COUNT*) cat rows ;;
  *MAX*) echo 41 ;;
  *-e*) echo "$*" >>statements ;;
  *) cat >loaded ;;
esac""",
    "systemctl": 'echo "$*" >>systemctl.log; [ "$2" != is-active ]',
    "sacctmgr": "exit 0",
    "scontrol": "echo 'NEXT_JOB_ID             = 57'",
    "squeue": "echo 7 ada RUNNING",
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A controller in a folder, and its programs first in PATH."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    for name, text in STAND_INS.items():
        file = bin_folder / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_folder}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows").write_text("3\n")
    etc, state = tmp_path / "etc", tmp_path / "state"
    (state / "hash.1" / "job.41").mkdir(parents=True)
    etc.mkdir()
    (etc / "slurm.conf").write_text("AuthType=auth/slurm\n")
    (etc / "slurm.key").write_bytes(b"\x00\xffkey")
    (state / "job_state").write_bytes(b"jobs")
    (state / "job_state.old").write_bytes(b"before")
    (state / "hash.1" / "job.41" / "script").write_text("#!/bin/sh\n")
    (state / "jwt_hs256.key").write_bytes(b"jwt")
    (state / "jwt_hs256.key").chmod(0o600)
    (state / "link").symlink_to("/etc/shadow")
    (tmp_path / "mlflow").mkdir()
    with closing(sqlite3.connect(tmp_path / "mlflow" / "mlflow.db")) as store:
        store.execute("CREATE TABLE runs (name TEXT)")
        store.execute("INSERT INTO runs VALUES ('first')")
        store.commit()
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "artifacts" / "model.pt").write_bytes(b"weights")
    return tmp_path


def loaded(name: str, **constants: object) -> Program:
    program = runpy.run_path(str(FOLDER / "backup" / name))
    for function in program.values():
        if hasattr(function, "__globals__"):
            function.__globals__.update(constants)
    return program


def request(site: Path) -> dict[str, Any]:
    return {
        "format": 1,
        "cluster": "lab",
        "corral": "0.1.0",
        "files": {"cluster.json": "{}"},
        "more": {"page/api-tokens.json": str(site / "nothing")},
        "with_artifacts": False,
        "database": "slurm_acct_db",
        "state": str(site / "state"),
        "page": str(site / "page" / "api-tokens.json"),
        "mlflow": "sqlite",
        "mlflow_home": str(site / "mlflow"),
        "mlflow_user": "nobody",
        "artifacts": str(site / "artifacts"),
    }


def written(site: Path, **changes: object) -> tuple[bytes, Archive]:
    """What the program printed, put together, and read."""
    out = io.BytesIO()
    program = loaded("write.py", ETC=site / "etc", SETTLE_S=0.0, PIECE=1000, LINE=300)
    lines = program["Lines"](out)
    program["written"]({**request(site), **changes}, program["Archive"](lines))
    lines.end()
    *body, end = out.getvalue().decode().splitlines()
    data = b"".join(base64.b64decode(line, validate=True) for line in body)
    assert end == f"@ {len(data)} {hashlib.sha256(data).hexdigest()}"
    return data, read_archive(Path("a"), io.BytesIO(data), lambda _: None)


def test_what_is_saved(site: Path) -> None:
    _, archive = written(site)
    assert archive.about.auth == "slurm"
    assert archive.about.slurm == "slurm-wlm 24.11.5"
    assert archive.manifest.highest_job == 41
    assert archive.manifest.counts == {"lab-1_job_table": (3, 3), "lab-1_assoc_table": (3, 3)}
    names = set(archive.manifest.members)
    pieces = {name for name in names if name.startswith("mlflow/sqlite/")}
    assert len(pieces) > 1
    assert names - pieces == {
        *("about.json", "cluster.json", "accounting/000000", "etc/slurm/slurm.conf"),
        *("etc/slurm/slurm.key", "state/job_state", "state/hash.1/job.41/script"),
        *("state/jwt_hs256.key", "mlflow/artifacts.txt"),
    }
    assert [p.name for p in (site / "mlflow").iterdir()] == ["mlflow.db"]
    assert "mlflow/artifacts/model.pt" in written(site, with_artifacts=True)[1].manifest.members


LARGE = """
import os, resource, runpy, sys
from pathlib import Path
program = runpy.run_path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (200 << 20, 200 << 20))
with open(os.devnull, "wb") as out:
    archive = program["Archive"](out)
    program["add_file"](archive, "mlflow/artifacts/large", Path(sys.argv[2]))
    archive.end({})
print(*archive.members["mlflow/artifacts/large"])
"""


def test_a_file_larger_than_memory(tmp_path: Path) -> None:
    file = tmp_path / "checkpoint"
    with file.open("wb") as out:
        out.truncate(256 << 20)
    done = subprocess.run(
        [sys.executable, "-c", LARGE, FOLDER / "backup/write.py", file],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    digest = hashlib.sha256()
    for _ in range(256):
        digest.update(bytes(1 << 20))
    assert done.stdout.split() == [str(256 << 20), digest.hexdigest()]


@pytest.mark.parametrize(
    ("kept", "saved", "reported"),
    [
        (
            25_000,
            b"w" * 25_000 + bytes(5_000),
            "artifacts/model.pt became 5000 bytes shorter while it was read: padded with zeros\n",
        ),
        (40_000, b"w" * 30_000, ""),
    ],
)
def test_a_file_that_changes_while_it_is_read(
    site: Path, capsys: pytest.CaptureFixture[str], kept: int, saved: bytes, reported: str
) -> None:
    """Of a shorter one zeros in place of what is gone; of one that grows the bytes that it had."""
    file = site / "artifacts" / "model.pt"
    file.write_bytes(b"w" * 30_000)
    program = loaded("write.py")

    def opened(path: Path, _: Path) -> io.FileIO:
        class Changed(io.FileIO):
            def read(self, size: int | None = -1, /) -> bytes:
                data = super().read(size)
                os.truncate(path, kept)
                return data

        return Changed(str(path))

    program["add_file"].__globals__["opened"] = opened
    out = io.BytesIO()
    archive = program["Archive"](out)
    program["add_file"](archive, "artifacts/model.pt", file)
    assert capsys.readouterr().err == reported
    archive.end({})
    out.seek(0)
    with tarfile.open(fileobj=out) as tar:
        member = tar.extractfile("artifacts/model.pt")
        assert member is not None
        assert member.read() == saved
    assert archive.members["artifacts/model.pt"] == [30_000, hashlib.sha256(saved).hexdigest()]


def test_a_dump_that_is_cut_is_a_failure(site: Path) -> None:
    (site / "bin" / "mariadb-dump").write_text("#!/bin/sh\necho 'INSERT INTO x;'\n")
    with pytest.raises(Exception, match="complete dump"):
        written(site)
    (site / "bin" / "mariadb-dump").write_text("#!/bin/sh\necho '-- Dump completed'; exit 2\n")
    with pytest.raises(Exception, match="complete dump"):
        written(site)


def test_state_that_is_replaced_all_the_time(site: Path) -> None:
    """As slurmctld does: unlinked, then linked again; never half of one, never missing."""
    end = threading.Event()
    reg, new, old = (site / "state" / f"job_state{ending}" for ending in ("", ".new", ".old"))

    def slurmctld() -> None:
        while not end.is_set():
            new.write_bytes(b"s" * 10_000)
            old.unlink()
            os.link(reg, old)
            reg.unlink()
            time.sleep(0.002)
            os.link(new, reg)
            new.unlink()
            time.sleep(0.002)

    reg.write_bytes(b"s" * 10_000)
    old.write_bytes(b"before")
    writer = threading.Thread(target=slurmctld)
    writer.start()
    try:
        program = loaded("write.py", ABSENT_TRIES=3)
        sizes: list[int] = []
        for _ in range(50):
            archive = program["Archive"](io.BytesIO())
            program["state"](archive, site / "state")
            sizes.append(archive.members["state/job_state"][0])
    finally:
        end.set()
        writer.join()
    assert set(sizes) == {10_000}


def test_a_state_file_that_stays_away_while_it_is_replaced(site: Path) -> None:
    (site / "state" / "job_state").rename(site / "state" / "job_state.new")
    program = loaded("write.py", REPLACED_S=0.1)
    with pytest.raises(Exception, match=r"job_state is not there, and .*new is"):
        program["state"](program["Archive"](io.BytesIO()), site / "state")


def steps(site: Path, data: bytes, archive: Archive, *names: str, **changes: object) -> None:
    staging = site / "staging"
    program = loaded(
        "restore.py",
        STAGING=staging,
        ARCHIVE=staging / "archive.tar",
        STARTED=staging / "started",
        CONF=site / "etc/slurm.conf",
    )
    staging.mkdir(exist_ok=True)
    (staging / "archive.tar").write_bytes(data)
    asked = {
        **request(site),
        "keys": [],
        "counts": {t: list(c) for t, c in archive.manifest.counts.items()},
        "sha256": archive.sha256,
        "kept": str(site / "kept"),
        **changes,
    }
    for name in names:
        program["STEPS"][name](asked)


EVERY = ("compare", "stop", "database", "state", "services", "start")


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in folder.rglob("*")
        if p.is_file() and not p.is_symlink()
    }


def test_restored_as_it_was_saved(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, archive = written(site)
    saved = content(site / "state")
    del saved["job_state.old"]
    (site / "state" / "job_state").write_bytes(b"of the new machine")
    (site / "state" / "node_state").write_bytes(b"new")
    with closing(sqlite3.connect(site / "mlflow" / "mlflow.db")) as store:
        store.execute("DELETE FROM runs")
        store.commit()
    for _ in range(2):  # and once more, as after an interruption
        steps(site, data, archive, *EVERY)
        assert content(site / "state") == saved
        assert (site / "state" / "jwt_hs256.key").stat().st_mode & 0o777 == 0o600
        with closing(sqlite3.connect(site / "mlflow" / "mlflow.db")) as store:
            assert store.execute("SELECT name FROM runs").fetchall() == [("first",)]
        assert b"Dump completed" in (site / "loaded").read_bytes()
    assert "DROP DATABASE" in (site / "statements").read_text()
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"next_job": 57}
    assert (site / "staging" / "started").read_text() == archive.sha256
    steps(site, data, archive, "clean")
    assert not (site / "staging").exists()


def test_a_restore_ends_when_mlflow_answers(site: Path) -> None:
    """Jobs that begin then log their runs there."""
    data, archive = written(site)
    asked = site / "asked"
    check = (
        "import sys\nfile = open(sys.argv[1], 'a+')\nfile.write('x')\nfile.seek(0)\n"
        "sys.exit(len(file.read()) < 3)"
    )
    more = {"mlflow_check": check, "mlflow_uri": str(asked)}
    steps(site, data, archive, *EVERY, "verify", **more)
    assert asked.read_text() == "xxx"
    steps(site, data, archive, "verify", mlflow="", **more)
    assert asked.read_text() == "xxx"


@pytest.mark.parametrize("call", ["rename", "replace", "chown", "fchown", "rmtree", "mkdir"])
def test_killed_in_the_middle_of_the_state(
    site: Path, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever call is the last one: the state is the old, none or the new, and again is right."""
    data, archive = written(site)
    saved = content(site / "state")
    del saved["job_state.old"]
    (site / "state" / "more").write_bytes(b"later")
    killed = killed_at(call)
    for at in range(20):
        if not killed(lambda: steps(site, data, archive, "state"), at, monkeypatch):
            break
        now = content(site / "state") if (site / "state").is_dir() else saved
        assert now == saved or "more" in now
        steps(site, data, archive, "state")
        assert content(site / "state") == saved
        assert not list(site.glob(".state.*"))


class KilledError(Exception):
    """Stands for SIGKILL."""


Killed = Callable[[Callable[[], None], int, pytest.MonkeyPatch], bool]


def killed_at(call: str) -> Killed:
    """Runs something up to the n-th use of a call; False: it came to its end."""
    import shutil  # noqa: PLC0415  # patched here alone

    place: Any = shutil if call == "rmtree" else Path if call == "rename" else os

    def run(work: Callable[[], None], at: int, monkeypatch: pytest.MonkeyPatch) -> bool:
        real, left = getattr(place, call), [at]

        def counted(*args: Any, **kwargs: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise KilledError
            return real(*args, **kwargs)

        with monkeypatch.context() as patched:
            patched.setattr(place, call, counted)
            try:
                work()
            except KilledError:
                return True
        return False

    return run


def test_rows_that_are_missing_are_a_failure(site: Path) -> None:
    data, archive = written(site)
    (site / "rows").write_text("2\n")
    with pytest.raises(Exception, match="lab-1_job_table has 2 rows, and 3 to 3"):
        steps(site, data, archive, "database")


def test_another_archive_than_was_checked(site: Path) -> None:
    data, archive = written(site)
    with pytest.raises(Exception, match="is not the archive that was sent"):
        steps(site, data + b"x", archive, "compare")


def test_pieces_are_put_one_behind_the_other(site: Path) -> None:
    def stage(offset: int, data: bytes) -> subprocess.CompletedProcess[bytes]:
        text = (FOLDER / "backup" / "restore.py").read_text()
        text = text.replace("/var/lib/corral/restore", str(site / "staging"))
        command = [sys.executable, "-c", text, "stage", str(offset)]
        return subprocess.run(command, input=data, capture_output=True)

    assert stage(0, b"left of another one").returncode == 0
    (site / "staging" / "started").write_text("of another one")
    assert stage(0, b"abc").returncode == 0
    assert stage(3, b"def").returncode == 0
    again = stage(3, b"def")
    assert again.returncode == 1
    assert b"another restore runs" in again.stderr
    assert (site / "staging" / "archive.tar").read_bytes() == b"abcdef"
    assert not (site / "staging" / "started").exists()
    assert (site / "staging" / "archive.tar").stat().st_mode & 0o777 == 0o600


def test_an_owner_that_is_not_there_is_named(site: Path) -> None:
    program = loaded("restore.py")
    assert program["number"](pwd.getpwnam, "root", "user") == 0
    with pytest.raises(Exception, match="there is no user nobody-of-this-name"):
        program["number"](pwd.getpwnam, "nobody-of-this-name", "user")


def test_nothing_is_written_through_a_link(site: Path) -> None:
    """Who may write MLflow's artifacts would choose where root writes."""
    (site / "artifacts" / "run").mkdir()
    (site / "artifacts" / "run" / "model.pt").write_bytes(b"weights")
    data, archive = written(site, with_artifacts=True)
    (site / "artifacts" / "run" / "model.pt").unlink()
    (site / "artifacts" / "run").rmdir()
    (site / "elsewhere").mkdir()
    (site / "artifacts" / "run").symlink_to(site / "elsewhere")
    with pytest.raises(Exception, match="run is a link: root would write where it leads"):
        steps(site, data, archive, "services")
    assert list((site / "elsewhere").iterdir()) == []


def test_mlflows_file_is_not_written_through_a_link(site: Path) -> None:
    data, archive = written(site)
    (site / "kept").write_bytes(b"root's")
    (site / "mlflow" / ".corral-restore.db").symlink_to(site / "kept")
    steps(site, data, archive, "services")
    assert (site / "kept").read_bytes() == b"root's"
