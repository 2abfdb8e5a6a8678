"""What a process that should have ended waits for, so that the failing test explains itself."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

DEBUG: Mapping[str, str] = {"CORRAL_DEBUG": "1"}
"""What a command needs in its environment to print its stacks (``corral.runtime.stack_dump``)."""
SIGNALS = ("SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt")
_CATCHES = 1 << (signal.SIGUSR1 - 1)


def ended(
    process: subprocess.Popen[str],
    stderr: Callable[[], str] = lambda: "",
    *,
    seconds: float = 120,
) -> int:
    """Wait for a process; gives its exit status.

    Args:
        process: the process, started with ``DEBUG`` in its environment.
        stderr: what it wrote to its standard error so far.
        seconds: how long it may take.

    Raises:
        AssertionError: it has not ended, and why, as far as can be seen from outside; it is killed.
    """
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        seen = looked_at(process.pid)
        time.sleep(5)  # it writes its stacks
        process.kill()
        process.wait(60)
        raise AssertionError(
            f"{process.args} did not end within {seconds:g} s\n{seen}\n"
            f"stderr:\n{stderr()[-20_000:]}"
        ) from None


def looked_at(pid: int) -> str:
    """A process and all below it: what they wait for in the kernel, and what signals they know.

    Those of ours are asked for their stacks, which they write to their standard error.
    """
    lines = [f"load {os.getloadavg()}"]
    for member in _family(pid):
        with contextlib.suppress(OSError):
            lines.append(_process(member))
    return "\n".join(lines)


def _process(pid: int) -> str:
    here = Path(f"/proc/{pid}")
    status = dict(
        line.split(":\t", 1) for line in (here / "status").read_text().splitlines() if ":\t" in line
    )
    words = (here / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    known = " ".join(f"{name}={status[name].strip()}" for name in SIGNALS)
    if int(status["SigCgt"], 16) & _CATCHES and "corral" in words:  # it would end others
        os.kill(pid, signal.SIGUSR1)
    waits = []
    for thread in sorted((here / "task").iterdir()):
        waits.append(
            f"  thread {thread.name}: {_read(thread / 'wchan')}\n{_read(thread / 'stack')}"
        )
    return f"{pid} (of {status['PPid']}) {status['State']} {words[:400]}\n  {known}\n" + "\n".join(
        wait.rstrip() for wait in waits
    )


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError as error:  # the kernel's stack is root's to read
        return f"{error.strerror}"


def _family(pid: int) -> Iterator[int]:
    yield pid
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in thread.read_text().split():
                yield from _family(int(child))
