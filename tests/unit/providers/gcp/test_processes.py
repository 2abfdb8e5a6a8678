"""Children of a process, and a Terraform that works in a folder, with /proc and without it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.providers.gcp import processes
from corral.providers.gcp.processes import children_of, terraform_in


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Path]:
    """A folder in which a program of Terraform's name runs."""
    program = shutil.which("sleep")
    assert program
    (tmp_path / "group" / "below").mkdir(parents=True)
    # A copy: where sleep is one program with others (coreutils, busybox), its name chooses.
    (tmp_path / "terraform").write_text(f"#!/bin/sh\n{program} 60 & wait\n")
    (tmp_path / "terraform").chmod(0o755)
    child = subprocess.Popen(
        [tmp_path / "terraform"], cwd=tmp_path / "group" / "below", start_new_session=True
    )
    yield tmp_path
    os.killpg(child.pid, 9)
    child.wait()


@pytest.fixture
def no_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As on macOS; a folder for programs, the only one on PATH."""
    monkeypatch.setattr(processes, "PROC", tmp_path / "none")
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "bin"


def prints(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\nprintf '%s' '{text}'\n")
    (folder / name).chmod(0o755)


def test_processes_without_children() -> None:
    assert children_of(2**22 + 5) == set()


def test_children_that_still_run() -> None:
    child = subprocess.Popen(["/bin/sh", "-c", "read line"], stdin=subprocess.PIPE)
    assert child.pid in children_of(os.getpid())
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert child.pid not in children_of(os.getpid())
    child.communicate()


def test_children_where_there_is_no_proc(no_proc: Path) -> None:
    assert children_of(100) == set()
    prints(no_proc, "ps", "    1     0 Ss\n  200   100 S+\n  201   100 Z\n  300   200 R\n")
    assert children_of(100) == {200}


def test_a_terraform_in_a_folder_or_below_it(work: Path) -> None:
    assert terraform_in(work / "group")
    (work / "link").symlink_to(work / "group")
    assert terraform_in(work / "link")
    (work / "other").mkdir()
    assert not terraform_in(work / "other")


def test_a_terraform_where_there_is_no_proc(no_proc: Path, tmp_path: Path) -> None:
    assert terraform_in(tmp_path)  # nothing that could be asked: it may be
    prints(no_proc, "lsof", f"p200\nfcwd\nn{tmp_path}/group\n")
    assert terraform_in(tmp_path / "group")
    assert not terraform_in(tmp_path / "other")
    prints(no_proc, "lsof", "")
    assert not terraform_in(tmp_path / "group")
