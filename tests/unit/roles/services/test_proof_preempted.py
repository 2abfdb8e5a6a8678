"""Programs of the scheduled proof end at once when their job is preempted, and leave no file."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from corral.roles.services import proof

# PyTorch is there; the measurement of a GPU reports its start and runs for minutes.
PYTHON = """#!/bin/sh
case $1 in
  -) echo >"$TMPDIR/runs"; exec sleep 300 ;;
  *) case $2 in *'import torch'*) exit 0 ;; *) exec cat >/dev/null ;; esac ;;
esac
"""


@pytest.mark.parametrize("program", [proof.node_program(), proof.group_program()])
def test_sigterm_to_the_shell_alone_ends_it(tmp_path: Path, program: str) -> None:
    """proctrack/cgroup gives SIGTERM to the task, and SIGKILL to the others once it has ended."""
    python = tmp_path / "python3"
    python.write_text(PYTHON)
    python.chmod(0o755)
    runs = tmp_path / "runs"
    os.mkfifo(runs)
    running = os.open(runs, os.O_RDWR)
    text = tmp_path / "text"
    text.write_text(program)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "TMPDIR": str(tmp_path)}
    shell = shutil.which("dash") or "/bin/sh"
    with text.open() as given:
        measurement = subprocess.Popen(
            [shell, "-s", "--", "1"],
            stdin=given,
            stdout=subprocess.DEVNULL,
            env=env,
            start_new_session=True,
        )
    try:
        assert select.select([running], [], [], 120)[0], "its program never ran"
        measurement.terminate()
        assert measurement.wait(timeout=120) == -signal.SIGTERM
    finally:
        os.killpg(measurement.pid, signal.SIGKILL)
        os.close(running)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["python3", "runs", "text"]


def test_collectives_that_fail_are_no_result(tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text('#!/bin/sh\ncase $1 in -) exit 3 ;; esac\nexec "$REAL" -S "$@"\n')
    python.chmod(0o755)
    # "import torch" succeeds by a module of that name.
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text("class cuda:\n    is_available = bool\n")
    (tmp_path / "torch/distributed.py").write_text("def is_available():\n    return True\n")
    env = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "PYTHONPATH": str(tmp_path),
        "REAL": shutil.which("python3") or "",
    }
    done = subprocess.run(
        ["/bin/sh", "-s"],
        input=proof.group_program(),
        text=True,
        capture_output=True,
        env=env,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
