"""Root's backup and restore in folders where others write: no link is followed at any moment."""

from __future__ import annotations

import io
import os
import shutil
import sqlite3
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.path_swap import swapping
from tests.unit.agents.test_backup_programs import loaded, site, steps, written

__all__ = ["site"]
SECRET = b"secret of root"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
NOBODY = 65534
UNREAD = r"MLflow's store in .* cannot be read"


@pytest.fixture(autouse=True)
def machines_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a controller: a checkout, and with it its environment, may be closed to other users."""
    monkeypatch.setattr(sys, "executable", os.path.realpath(sys.executable))


def database(file: Path, row: str) -> None:
    with closing(sqlite3.connect(file)) as store:
        store.execute("CREATE TABLE runs (name TEXT)")
        store.execute("INSERT INTO runs VALUES (?)", (row,))
        store.commit()


def members(site: Path, prefix: str, **changes: object) -> dict[str, bytes]:
    """What an archive has below a name."""
    data, archive = written(site, **changes)
    out: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for name in archive.manifest.members:
            file = tar.extractfile(name)
            if name.startswith(prefix) and file is not None:
                out[name] = file.read()
    return out


@needs_root
def test_a_link_in_the_place_of_mlflows_database_is_refused(site: Path) -> None:
    """Another database of root's came into the archive."""
    database(site / "other.db", "secret of root")
    (site / "mlflow/mlflow.db").unlink()
    (site / "mlflow/mlflow.db").symlink_to(site / "other.db")
    with pytest.raises(Exception, match=UNREAD):
        written(site)


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_is_no_file_is_refused(site: Path, kind: str) -> None:
    """Root waited for a pipe's other end."""
    (site / "mlflow/mlflow.db").unlink()
    {"pipe": os.mkfifo, "folder": os.mkdir}[kind](site / "mlflow/mlflow.db")
    with pytest.raises(Exception, match=UNREAD):
        written(site)


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder of another user's, which that user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="mlflow-"))
    folder.chmod(0o755)
    try:
        (folder / "home").mkdir(mode=0o700)
        yield folder / "home"
    finally:
        shutil.rmtree(folder)


@needs_root
def test_the_database_is_read_by_the_folders_owner(site: Path, home: Path) -> None:
    """No file of root's is left there, and what links lead to stays as it was."""
    database(home / "mlflow.db", "first")
    for path in (home, home / "mlflow.db"):
        os.chown(path, NOBODY, NOBODY)
    pieces = members(site, "mlflow/sqlite/", mlflow_home=str(home))
    copy = site / "copy.db"
    copy.write_bytes(b"".join(pieces[name] for name in sorted(pieces)))
    with closing(sqlite3.connect(copy)) as store:
        assert store.execute("SELECT name FROM runs").fetchall() == [("first",)]
    assert [path.name for path in home.iterdir()] == ["mlflow.db"]
    victim = site / "victim"
    victim.write_bytes(SECRET)
    victim.chmod(0o600)
    for ending in ("-wal", "-journal", "-shm"):
        (home / f"mlflow.db{ending}").symlink_to(victim)
    with suppress(Exception):  # what comes of it is the owner's affair
        written(site, mlflow_home=str(home))
    assert victim.read_bytes() == SECRET


@needs_root
def test_a_database_that_its_owner_may_not_read_stays_out(site: Path, home: Path) -> None:
    database(home / "mlflow.db", "secret of root")
    (home / "mlflow.db").chmod(0o600)
    os.chown(home, NOBODY, NOBODY)
    with pytest.raises(Exception, match=UNREAD):
        written(site, mlflow_home=str(home))


@needs_root
def test_a_database_on_a_larger_disk_is_read_by_the_folders_owner(site: Path, home: Path) -> None:
    disk = home.parent / "disk.db"
    database(disk, "first")
    (home / "mlflow.db").symlink_to(disk)
    for path in (home, home.parent, disk):
        os.chown(path, NOBODY, NOBODY)
    assert members(site, "mlflow/sqlite/", mlflow_home=str(home))
    disk.chmod(0o600)
    os.chown(disk, 0, 0)
    with pytest.raises(Exception, match=UNREAD):
        written(site, mlflow_home=str(home))


@pytest.mark.parametrize("place", ["none/key", "none/above/key", "artifacts/model.pt/key"])
def test_a_file_whose_folder_is_not_there_is_left_out(site: Path, place: str) -> None:
    """As /etc/munge without munge, and /var/lib/corral-web without the page."""
    assert members(site, "etc/munge", more={"etc/munge/munge.key": str(site / place)}) == {}


def refusing(folder: Path, monkeypatch: pytest.MonkeyPatch, owner: int = NOBODY) -> None:
    """A folder on a file server with root_squash: root may not list it, its owner may."""
    real = os.open

    def opened(path: Any, flags: int, mode: int = 0o777, **options: Any) -> int:
        if options.get("dir_fd") is None and Path(path) == folder and os.geteuid() != owner:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, flags, mode, **options)

    monkeypatch.setattr(os, "open", opened)


@pytest.fixture
def squashed(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (home / "run").mkdir()
    (home / "run/model.pt").write_bytes(b"weights")
    (home / "other").symlink_to("/root")
    for path in (home, home / "run", home / "run/model.pt"):
        path.chmod(0o700)
        os.chown(path, NOBODY, NOBODY)
    refusing(home, monkeypatch)
    return home


@needs_root
def test_artifacts_are_read_by_their_folders_owner(site: Path, squashed: Path) -> None:
    """On Corral's own NFS root is nobody, and MLflow's folder has mode 700."""
    before = os.getgroups(), os.getegid()
    files = members(site, "mlflow/art", artifacts=str(squashed), with_artifacts=True)
    assert files["mlflow/artifacts/run/model.pt"] == b"weights"
    assert b"7 run/model.pt\n" in files["mlflow/artifacts.txt"]
    assert (os.getgroups(), os.getegid(), os.geteuid()) == (*before, 0)


@needs_root
@pytest.mark.parametrize("place", ["", "run"])
def test_artifacts_that_their_owner_may_not_read(
    site: Path, squashed: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    """A part that could not be listed was missing in the archive without a word."""
    os.chown(squashed / place, 0 if place else NOBODY - 1, 0)
    (squashed / place).chmod(0o700)
    assert members(site, "mlflow/artifacts.txt", artifacts=str(squashed))
    note = f"artifacts in {squashed} cannot be read by the folder's owner: "
    assert note in capsys.readouterr().err
    with pytest.raises(Exception, match="cannot be read by the folder's owner"):
        written(site, artifacts=str(squashed), with_artifacts=True)


@needs_root
def test_artifacts_are_restored_by_their_folders_owner(site: Path, squashed: Path) -> None:
    data, archive = written(site, artifacts=str(squashed), with_artifacts=True)
    shutil.rmtree(squashed / "run")
    steps(
        *(site, data, archive, "services"),  # pyright: ignore[reportArgumentType]
        artifacts=str(squashed),
    )
    for path in (squashed / "run", squashed / "run/model.pt"):
        assert path.stat().st_uid == NOBODY
    assert (squashed / "run/model.pt").read_bytes() == b"weights"
    assert os.geteuid() == 0


@pytest.mark.parametrize("place", ["artifacts", "state"])
def test_a_folder_that_becomes_a_link_leads_nowhere(site: Path, place: str) -> None:
    """A folder is exchanged for a link as fast as that goes, while root lists and reads it."""
    run, outside = site / place / "run", site / "outside"
    run.mkdir()
    outside.mkdir()
    for number in range(30):
        (run / f"model{number}").write_bytes(b"weights")
        (outside / f"model{number}").write_bytes(SECRET)
    (site / place / "other").symlink_to(outside)
    program = loaded("write.py", SETTLE_S=0.0, ABSENT_TRIES=1)
    with swapping(run, site / place / "other"):
        for _ in range(25):
            out = io.BytesIO()
            archive = program["Archive"](out)
            if place == "state":
                program["state"](archive, site / "state")
            else:
                program["mlflow"](archive, site / "none", site / "artifacts", True)
            assert SECRET not in out.getvalue()


def linked(place: Path, to: Path) -> None:
    shutil.rmtree(place)
    place.symlink_to(to)


@needs_root
@pytest.mark.parametrize("who", ["writes above", "owns above", "owns the link"])
def test_artifacts_that_are_another_users_link_are_refused(site: Path, who: str) -> None:
    above = site / "above"
    (above / "artifacts").mkdir(parents=True)
    linked(above / "artifacts", site / "etc")
    if who == "writes above":
        above.chmod(0o777)
    else:
        changed = above if who == "owns above" else above / "artifacts"
        os.chown(changed, NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(Exception, match="artifacts is a link: root would read where it leads"):
        written(site, artifacts=str(above / "artifacts"))


@needs_root
def test_artifacts_that_root_linked_to_a_larger_disk_are_saved_and_restored(site: Path) -> None:
    (site / "disk").mkdir()
    linked(site / "artifacts", site / "disk")
    (site / "disk/model.pt").write_bytes(b"weights")
    data, archive = written(site, with_artifacts=True)
    assert "mlflow/artifacts/model.pt" in archive.manifest.members
    (site / "disk/model.pt").unlink()
    steps(site, data, archive, "services")  # pyright: ignore[reportArgumentType]
    assert (site / "disk/model.pt").read_bytes() == b"weights"
    assert (site / "artifacts").is_symlink()


def test_a_file_that_goes_while_it_is_listed_is_left_out(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = loaded("write.py")
    real = os.stat

    def gone(path: object, **options: object) -> os.stat_result:
        if path == "model.pt" and options.get("dir_fd") is not None:
            raise FileNotFoundError(path)
        return real(path, **options)  # pyright: ignore[reportArgumentType, reportCallIssue]

    monkeypatch.setattr(os, "stat", gone)
    assert list(program["files_of"](site / "artifacts")) == []


def saved(site: Path) -> tuple[bytes, object]:
    """An archive with artifacts in folders; then the artifacts are gone."""
    for number in range(30):
        folder = site / "artifacts/run" / f"part{number}"
        folder.mkdir(parents=True)
        (folder / "model.pt").write_bytes(b"weights")
    result = written(site, with_artifacts=True)
    shutil.rmtree(site / "artifacts")
    (site / "artifacts/run").mkdir(parents=True)
    return result


def test_a_restore_writes_nothing_where_a_link_leads(site: Path) -> None:
    """Root looked whether a part was a link, and opened it by its name then."""
    data, archive = saved(site)
    outside = site / "outside"
    outside.mkdir()
    link = site / "artifacts/link"
    link.symlink_to(outside)
    refused = 0
    with swapping(site / "artifacts/run", link):
        for _ in range(25):
            try:
                steps(site, data, archive, "services")  # pyright: ignore[reportArgumentType]
            except Exception as error:  # the program's own class
                assert "is a link: root would write where it leads" in str(error)
                refused += 1
    assert list(outside.rglob("*")) == []
    assert refused


def test_a_restore_refuses_links_in_all_places(site: Path) -> None:
    data, archive = saved(site)
    outside = site / "outside"
    outside.mkdir()
    site.chmod(0o777)  # else the link of artifacts itself would be root's alone
    for place in ("artifacts/run/part3", "artifacts/run", "artifacts"):
        shutil.rmtree(site / "artifacts")
        (site / place).parent.mkdir(parents=True, exist_ok=True)
        (site / place).symlink_to(outside)
        with pytest.raises(Exception, match=f"{place} is a link: root would write"):
            steps(site, data, archive, "services")  # pyright: ignore[reportArgumentType]
        assert list(outside.iterdir()) == []
        (site / place).unlink()
        (site / "artifacts").mkdir(exist_ok=True)
    steps(site, data, archive, "services")  # pyright: ignore[reportArgumentType]
    assert (site / "artifacts/run/part7/model.pt").read_bytes() == b"weights"


@pytest.mark.parametrize("place", ["artifacts/run/part3", "artifacts/run"])
def test_a_file_in_the_place_of_a_folder_is_named_as_such(site: Path, place: str) -> None:
    data, archive = saved(site)
    shutil.rmtree(site / "artifacts/run")
    (site / place).parent.mkdir(exist_ok=True)
    (site / place).write_bytes(b"")
    with pytest.raises(Exception, match=f"{place} is not a folder: move it away"):
        steps(site, data, archive, "services")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("name", ["../x", "run/../../x", "run//x", ".", "run/.."])
def test_a_name_that_leads_out_is_refused(site: Path, name: str) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        entry = tarfile.TarInfo(f"mlflow/artifacts/{name}")
        entry.size = 1
        tar.addfile(entry, io.BytesIO(b"x"))
    (site / "archive").write_bytes(out.getvalue())
    program = loaded("restore.py", ARCHIVE=site / "archive")
    with pytest.raises(Exception, match="the archive has no file of the name"):
        program["extracted"]("mlflow/artifacts/", site / "artifacts", site / "artifacts")
    assert not (site / "x").exists()
