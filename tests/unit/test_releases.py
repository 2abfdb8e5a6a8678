"""``.ci/releases.py``: what a vendor published, compared with the tables, from local copies."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType

import pytest

REPO = Path(__file__).parents[2]
SEEN = "  seen: somebody, who pins it\n"


def module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("releases", REPO / ".ci/releases.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules["releases"] = loaded  # dataclasses look their module up
    spec.loader.exec_module(loaded)
    return loaded


RELEASES = module()


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def vendor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A vendor's tags and files; the tables have 25.05.8, 25.11.6 and 25.11.7 of it.

    Lines of tags alone: 24.11, which is older than all rows.
    """
    files = tmp_path / "vendor/slurm"
    files.mkdir(parents=True)
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@x.example"]
    subprocess.run([*git, "init", "-q", tmp_path / "tags"], check=True)
    commit = [*git, "commit", "-q", "--allow-empty", "-m", "x"]
    subprocess.run(commit, cwd=tmp_path / "tags", check=True)
    for version in ("25.05.8", "25.11.6", "25.11.7", "25.11.10", "24.11.9"):
        (files / f"slurm-{version}.tar.bz2").write_text(version)
        tag = f"slurm-{version.replace('.', '-')}-1"
        subprocess.run([*git, "tag", tag], cwd=tmp_path / "tags", check=True)
    for name in RELEASES.TABLES:
        (tmp_path / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "src" / name).write_text("# nothing\n")
    rows = [
        f"- version: {version}\n  address: {files.as_uri()}/slurm-{version}.tar.bz2\n"
        f"  sha256: {digest(version)}\n{SEEN}"
        for version in ("25.05.8", "25.11.6", "25.11.7")
    ]
    (tmp_path / "src" / RELEASES.TABLES[2]).write_text("# Slurm\n\n" + "".join(rows))
    tags = RELEASES.Project((tmp_path / "tags").as_uri(), r"slurm-(\d+-\d+-\d+)-1", 2, named=True)
    monkeypatch.setattr(RELEASES, "PROJECTS", {"/slurm/slurm-": tags})
    return tmp_path


def checked(vendor: Path, *, write: bool = False) -> tuple[int, str, str]:
    lines: list[str] = []
    status = RELEASES.check(vendor / "src", write, lines.append)
    return status, "\n".join(lines), (vendor / "src" / RELEASES.TABLES[2]).read_text()


def test_a_newer_release_of_a_line_is_named_once(vendor: Path) -> None:
    before = (vendor / "src" / RELEASES.TABLES[2]).read_text()
    status, shown, table = checked(vendor)
    assert status == 1
    assert shown.count("is published") == 1
    assert "slurm-25.11.7.tar.bz2: 25.11.10 is published" in shown
    assert shown.count("has the digest of the table") == 3
    assert table == before


def test_update_writes_the_digest_of_what_was_fetched(vendor: Path) -> None:
    status, shown, table = checked(vendor, write=True)
    assert status == 1
    assert f"{digest('25.11.7')} -> {digest('25.11.10')}: written to tarballs.yaml" in shown
    assert f"slurm-25.11.10.tar.bz2\n  sha256: {digest('25.11.10')}\n  seen: fetched" in table
    assert [line.split()[-1] for line in table.splitlines() if "version:" in line] == [
        *("25.05.8", "25.11.6", "25.11.7", "25.11.10")
    ]
    assert table.count(SEEN) == 3, "cluster files that name 25.11.7 stay valid"
    assert table.count("no second source") == 1
    assert checked(vendor)[0] == 0


def test_update_replaces_a_row_that_no_cluster_file_names(
    vendor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [project] = RELEASES.PROJECTS.values()
    other = RELEASES.Project(project.tags, project.pattern, 2)
    monkeypatch.setattr(RELEASES, "PROJECTS", {"/slurm/slurm-": other})
    _, _, table = checked(vendor, write=True)
    assert "25.11.7" not in table
    assert table.count(SEEN) == 2


def test_a_newer_line_is_named(vendor: Path) -> None:
    for version in ("26-05-9", "26-11-0", "26-11-1"):
        subprocess.run(["git", "tag", f"slurm-{version}-1"], cwd=vendor / "tags", check=True)
    status, shown, _ = checked(vendor)
    assert status == 1
    named = [line.split()[0] for line in shown.splitlines() if "of a line without a row" in line]
    assert named == ["26.05.9", "26.11.1"]


class Broken(BaseHTTPRequestHandler):
    """Announces 10 bytes and sends 4; ``/chunks`` breaks off within a chunk."""

    def do_GET(self) -> None:
        chunks = self.path == "/chunks"
        kind = ("Transfer-Encoding", "chunked") if chunks else ("Content-Length", "10")
        self.wfile.write(f"HTTP/1.1 200 OK\r\n{': '.join(kind)}\r\n\r\n".encode())
        self.wfile.write(b"9\r\nshor" if chunks else b"shor")
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""


@pytest.fixture
def broken(socket_enabled: None) -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Broken) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_part_of_a_file_has_no_digest(broken: str) -> None:
    with pytest.raises(OSError, match="4 of 10 bytes came"):
        RELEASES.fetched(f"{broken}/short")
    with pytest.raises(OSError, match="broke off"):
        RELEASES.fetched(f"{broken}/chunks")


def test_git_that_fails_without_a_word_is_not_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = tmp_path / "git"
    git.write_text("#!/bin/sh\nexit 7\n")
    git.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(OSError, match="status 7"):
        RELEASES.tagged(RELEASES.Project("https://x.example/x.git", "x", 0))


def test_another_digest_is_a_change(vendor: Path) -> None:
    (vendor / "vendor/slurm/slurm-25.05.8.tar.bz2").write_text("other")
    status, shown, _ = checked(vendor)
    assert status == 1
    assert (
        f"slurm-25.05.8.tar.bz2: the vendor's file has another digest: {digest('other')}" in shown
    )


def test_what_is_not_reached_is_not_good(vendor: Path) -> None:
    shutil.rmtree(vendor / "tags")
    shutil.rmtree(vendor / "vendor")
    status, shown, _ = checked(vendor, write=True)
    assert status == 3
    assert shown.count("its digest: not reached") == 3
    assert shown.count("newer releases: not reached") == 2  # of the newest row of each line


def test_each_row_of_the_tables_is_compared(capsys: pytest.CaptureFixture[str]) -> None:
    written = sum(
        (REPO / "src/corral" / table).read_text().count("\n  sha256: ") for table in RELEASES.TABLES
    )
    rows = list(RELEASES.rows(REPO / "src/corral"))
    assert len(rows) == written > 10
    assert all(len(row.sha256) == 64 and row.seen for row in rows)
    assert all(row.project for row in rows if "cuda-keyring" not in row.name)
    assert RELEASES.main([]) == 0
    assert capsys.readouterr().out.count("seen: ") == written
