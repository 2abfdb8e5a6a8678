"""A person at a terminal follows a job and presses Ctrl-C: it keeps running, or is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.hung_process import DEBUG, looked_at

from corral import api
from corral.hosts.fleet import Fleet
from corral.jobs import control
from corral.slurm.states.jobs import JobState

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

CORRAL = Path(sys.executable).with_name("corral")
CTRL_C = b"\x03"


class Terminal:
    """A command with its own terminal, as in a window; Ctrl-C is a key, and no signal."""

    def __init__(self, *argv: str) -> None:
        self._here, there = pty.openpty()
        # setsid --ctty: the terminal is the command's own, so that Ctrl-C reaches it alone.
        self._process = subprocess.Popen(
            ["setsid", "--ctty", *argv],
            stdin=there,
            stdout=there,
            stderr=there,
            close_fds=True,
            env={**os.environ, **DEBUG, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
        )
        os.close(there)
        self._output = b""

    @property
    def output(self) -> str:
        """All so far, without colours and movements."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self._output.decode(errors="replace"))

    def type(self, keys: bytes) -> None:
        os.write(self._here, keys)

    def until(self, words: str, seconds: float = 120) -> str:
        """Read until the output holds some words; return all of it."""
        end = time.monotonic() + seconds
        while words not in self.output:
            assert self._read(end), f"no {words!r} in: {self.output}"
        return self.output

    def ended(self, seconds: float = 120) -> int:
        """Read to its end; gives the exit status."""
        end = time.monotonic() + seconds
        while self._read(end):
            pass
        try:
            return self._process.wait(max(1.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            seen = looked_at(self._process.pid)
            until = time.monotonic() + 5
            while self._read(until):
                pass
            pytest.fail(f"it did not end within {seconds:g} s:\n{seen}\noutput:\n{self.output}")

    def _read(self, end: float) -> bool:
        """Read its next output; False when it has ended, or time has."""
        ready, _, _ = select.select([self._here], [], [], max(0.0, end - time.monotonic()))
        try:
            some = os.read(self._here, 65536) if ready else b""
        except OSError:  # Linux: EIO when nobody holds the other side any more
            some = b""
        self._output += some
        return bool(some)

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait(30)
        os.close(self._here)


@pytest.fixture
def followed(cluster: Live, tmp_path: Path) -> Iterator[tuple[Terminal, int]]:
    """A job that has printed its first line to somebody's terminal; it ends with the test."""
    script = tmp_path / "wait.sh"
    script.write_text("#!/bin/sh\necho it begins\nsleep 3600\n")
    argv = (str(CORRAL), "run", str(script), "--folder", "none", "-c", cluster.spec.name)
    terminal = Terminal(*argv)
    number = 0
    try:
        number = int(re.findall(r"job (\d+): submitted", terminal.until("it begins"))[0])
        yield terminal, number
    finally:
        terminal.close()
        if number:
            asyncio.run(api.cancel(cluster.spec, (number,)))


def state(cluster: Live, number: int) -> JobState:
    async def work(fleet: Fleet) -> JobState:
        listed = await control.list_jobs(fleet, cluster.controller, all=True)
        return next(JobState.read(job.state) for job in listed if job.id == number)

    return cluster.with_fleet(work)


def test_ctrl_c_leaves_the_job_running(cluster: Live, followed: tuple[Terminal, int]) -> None:
    terminal, number = followed
    terminal.type(CTRL_C)
    terminal.until(f"Cancel job {number}? Otherwise it keeps running. [y/N]")
    terminal.type(b"\n")
    assert terminal.ended() == 130
    assert f"`corral cancel {number}` ends it" in terminal.output
    assert f"corral logs {number} --follow" in terminal.output
    assert state(cluster, number) is JobState.RUNNING


def test_ctrl_c_cancels_the_job_when_confirmed(
    cluster: Live, followed: tuple[Terminal, int]
) -> None:
    terminal, number = followed
    terminal.type(CTRL_C)
    terminal.until(f"Cancel job {number}?")
    terminal.type(b"y\n")
    assert terminal.ended() == 130
    assert f"job {number} is cancelled" in terminal.output
    assert state(cluster, number) in (JobState.CANCELLED, JobState.COMPLETING)


def test_ctrl_c_at_the_question_leaves_it_running(
    cluster: Live, followed: tuple[Terminal, int]
) -> None:
    """Twice in a row is what people do who want their prompt back."""
    terminal, number = followed
    terminal.type(CTRL_C)
    terminal.until(f"Cancel job {number}?")
    terminal.type(CTRL_C)
    assert terminal.ended() == 130
    assert f"job {number} keeps running" in terminal.output
    assert state(cluster, number) is JobState.RUNNING
