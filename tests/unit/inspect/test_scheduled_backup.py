"""What the controller reports of its scheduled backup, by the real program."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from corral.hosts.quote import call
from corral.inspect.rules import backup_problem
from corral.inspect.services import Backup, backup_state


def reported(folder: Path, last: str) -> Backup:
    """The state of a backup whose last archive is as a file in the folder has it."""
    (folder / "last").write_text(last)
    ended = subprocess.run(
        ["/bin/sh", "-ec", call("state/services.sh", "archive_state", folder / "last")],
        env={"PATH": f"{folder}/bin:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stderr == ""
    answer = f"every 86400\ntimer active\nresult success\nsince 100\n{ended.stdout}now 2000\n"
    state = backup_state(answer)
    assert state is not None
    return state


def test_an_archive_that_is_gone_is_not_good(tmp_path: Path) -> None:
    archive = tmp_path / "of the lab.age"
    archive.touch()
    last = f"1000 9 {archive}\n"
    assert backup_problem(reported(tmp_path, last)) == ""
    archive.unlink()
    state = reported(tmp_path, last)
    assert (state.age, state.path) == (1000, str(archive))
    assert backup_problem(state) == f"the last good backup is gone: {archive}"
    assert backup_problem(reported(tmp_path, "")) == ""


def test_a_disk_that_does_not_answer_is_named(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/timeout").write_text("#!/bin/sh\nexit 124\n")
    (tmp_path / "bin/timeout").chmod(0o755)
    problem = backup_problem(reported(tmp_path, "1000 9 /archive/lab.age\n"))
    assert problem == "the last good backup is on a disk that does not answer: /archive/lab.age"


@pytest.mark.parametrize(("finished", "good"), [(2000, True), (2001, False), (90000, False)])
def test_an_archive_of_the_future_is_not_good(tmp_path: Path, finished: int, good: bool) -> None:
    problem = backup_problem(reported(tmp_path, f"{finished} 9 {tmp_path}\n"))
    assert (problem == "") == good
    assert good or "newer than the controller's clock" in problem
