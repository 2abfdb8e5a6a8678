"""An environment that another process makes, and never ends."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

from corral.agents import program


def test_its_lock_is_waited_for_ten_minutes(tmp_path: Path) -> None:
    text = program("jobs/user.sh").replace("flock -w 600", "flock -w 0.1")
    (tmp_path / "functions.sh").write_text(text)
    make = (
        ". ./functions.sh; environment_path() { echo env; }; "
        "environment_make . 0123 97 98 runner 0 0"
    )
    with (tmp_path / "env.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ended = subprocess.run(
            ["/bin/sh", "-c", make],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=10,
        )
    assert ended.returncode == 1
    assert "another process has been making env for 10 minutes" in ended.stderr
