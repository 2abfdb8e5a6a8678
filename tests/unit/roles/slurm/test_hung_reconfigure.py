"""The end of a daemon that takes its time, by corral-reconfigure-guard's own shell."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from corral.roles.slurm.hung_reconfigure import program

DAEMON = "trap '' TERM; {job} echo there; read end"
FAKES = {
    # Our process as the unit's own, until it is gone.
    "pgrep": 'p=$(cat "{f}/pid"); ! kill -0 "$p" 2>/dev/null || echo "$p"',
    "grep": 'case $* in *cgroup*) ;; *) exec /usr/bin/grep "$@" ;; esac',
    "sleep": 'echo "$1" >>"{f}/naps"; kill -0 "$(cat "{f}/pid")" 2>/dev/null || exit 0',
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FAKES.items():
        (tmp_path / name).write_text("#!/bin/sh\n" + text.replace("{f}", str(tmp_path)) + "\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


@pytest.fixture
def daemons() -> Iterator[list[subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the job too
        process.communicate(timeout=20)


@pytest.mark.parametrize(
    ("unit", "job", "naps"),
    [
        ("slurmd", "", 4),  # nothing runs: not waited for longer than the patience
        ("slurmd", "(exec tail -f /dev/null >/dev/null) &", 12),  # a prolog: to the end
        ("slurmctld", "", 12),  # it may write its state
    ],
)
def test_an_idle_slurmd_is_not_waited_for(
    folder: Path, daemons: list[subprocess.Popen[str]], unit: str, job: str, naps: int
) -> None:
    """It waited for a slurmctld that did not answer, and a restart took 80 s."""
    daemon = subprocess.Popen(
        ["sh", "-c", DAEMON.format(job=job)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    daemons.append(daemon)
    assert daemon.stdout
    assert daemon.stdout.readline() == "there\n"
    (folder / "pid").write_text(str(daemon.pid))
    text = program().partition("case ${1-} in")[0].replace("patience=20", "patience=1")
    # A process that has ended is there until its parent has asked: systemd does, and so here.
    ended = subprocess.Popen(
        ["sh", "-c", f"{text}\nend {unit} 3"], env={"PATH": f"{folder}:/usr/bin:/bin"}
    )
    while ended.poll() is None:
        daemon.poll()
    assert ended.returncode == 0
    assert daemon.wait(10) == -9
    assert (folder / "naps").read_text().splitlines().count("0.25") == naps
