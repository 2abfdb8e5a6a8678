"""What a follower sees of GPUs: of this run of the job, and only while it runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from corral.jobs.follow import watch_script
from corral.slurm.text import show_queue

MARK = "abcd0123"


def row(state: str) -> str:
    """squeue's line of a job in that state."""
    option = next(o for o in show_queue(MARK) if o.startswith("--format="))
    line = option.removeprefix("--format=")
    for word, value in (("%T", state), ("%r", "None"), ("%S", "0"), ("%N", "gpu0")):
        line = line.replace(word, value)
    return line


@pytest.mark.parametrize(
    ("state", "expected"), [("RUNNING", ["g gpu0 95, 9, 9;"]), ("PENDING", [])]
)
def test_use_of_gpus(tmp_path: Path, state: str, expected: list[str]) -> None:
    job, tools = tmp_path / "job", tmp_path / "tools"
    job.mkdir()
    tools.mkdir()
    (job / "rank-0.log").write_text("step 1\n")
    (job / "gpus-0").write_text("gpu0 95, 9, 9;\n")
    (job / "gpus-1").write_text("gpu1 7, 9, 9;\n")  # of its run before it was requeued
    os.utime(job / "gpus-1", (1, 1))
    fakes = {
        # Seven questions, a dozen seconds of the watcher's own time; then it has ended.
        "squeue": f"n=$(($(cat n 2>/dev/null || echo 0) + 1)); echo $n >n\n"
        f"[ $n -lt 7 ] && echo '{row(state)}' || echo '{row('COMPLETED')}'",
        "sleep": ":",
        "sstat": ":",
        "scontrol": ":",
        "sacct": ":",
    }
    for name, text in fakes.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    done = subprocess.run(
        ["sh", "-c", watch_script("12", str(job), mark=MARK)],
        env={"PATH": f"{tools}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert sorted({line for line in done.stdout.splitlines() if line.startswith("g ")}) == expected
    assert "o 0 step 1" in done.stdout.splitlines()
