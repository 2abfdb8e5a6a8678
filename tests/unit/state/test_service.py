"""A restart of a service, as its shell does it with a stand-in for systemctl."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from corral.state.service import Service

SYSTEMCTL = """#!/bin/sh
printf '%s\\n' "$*" >> "$CALLS"
case $1 in is-active) echo "$STATE" ;; show) echo NeedDaemonReload=no ;; esac
"""


@pytest.mark.parametrize(
    ("finish", "state", "verbs"),
    [
        (True, "activating", ["is-active", "start", "restart"]),
        (True, "active", ["is-active", "restart"]),
        (True, "inactive", ["is-active", "restart"]),
        (False, "activating", ["restart"]),
    ],
)
def test_a_start_under_way_ends_before_a_restart(
    tmp_path: Path, finish: bool, state: str, verbs: list[str]
) -> None:
    """MariaDB that a second `up` stopped while it started hung for 15 minutes."""
    (tmp_path / "systemctl").write_text(SYSTEMCTL)
    (tmp_path / "systemctl").chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "CALLS": str(tmp_path / "calls"),
        "STATE": state,
    }
    script = str(Service("mariadb", finish_start=finish)._restart())
    done = subprocess.run(["sh", "-ec", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    calls = [line.split()[0] for line in (tmp_path / "calls").read_text().splitlines()]
    assert [call for call in calls if call not in ("show", "reset-failed")] == verbs
