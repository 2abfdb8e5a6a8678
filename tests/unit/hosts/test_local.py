"""Local and the process runner below it; no sockets, real processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import warnings
from collections.abc import Coroutine
from pathlib import Path
from typing import TypeVar

import pytest

from corral.errors import Code, CorralError
from corral.hosts import process
from corral.hosts.local import Local
from corral.hosts.quote import Script, sh
from corral.hosts.transport import Transport

T = TypeVar("T")
NODE: Transport = Local("here")


def run(work: Coroutine[object, object, T]) -> T:
    """Run in a separate loop; a leaked transport or process is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return asyncio.run(work)


def fails(script: Script, *, timeout: float = 30) -> CorralError:
    with pytest.raises(CorralError) as caught:
        run(NODE.run(script, timeout=timeout))
    assert caught.value.node == "here"
    return caught.value


def gone(pid: int) -> bool:
    """True when the process does not exist, not even a zombie."""
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        os.kill(pid, 0)
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    return True


async def until_gone(pid: int) -> None:
    while not gone(pid):  # noqa: ASYNC110  # no event reports another's child
        await asyncio.sleep(0.01)


def test_answer() -> None:
    seen: list[str] = []
    script = sh("echo {x}; echo; cat; echo err >&2; exit 9", x="$HOME")
    result = run(NODE.run(script, stdin=b"in\0\n", on_line=seen.append))
    assert result.node == NODE.node == "here"
    assert (result.status, result.stdout, result.stderr) == (9, "$HOME\n\nin\0\n", "err\n")
    assert seen == ["$HOME", "", "in\0"]
    assert not result.ok
    run(NODE.close())


def test_all_of_a_large_output_and_input() -> None:
    data = b"0123456789abcde\n" * 200_000
    assert run(NODE.run(sh("cat"), stdin=data)).stdout == data.decode()
    assert run(NODE.run(sh("true"), stdin=data)).ok


def test_time_limit_kills_all_that_the_script_started(tmp_path: Path) -> None:
    script = sh("sleep 100 & echo $! >{f}; wait", f=str(tmp_path / "pid"))
    error = fails(script, timeout=0.5)
    assert error.code is Code.TIMED_OUT
    pid = int((tmp_path / "pid").read_text())
    run(asyncio.wait_for(until_gone(pid), 30))


def test_cancelling_kills_all_that_the_script_started(tmp_path: Path) -> None:
    async def scenario() -> None:
        began = asyncio.Event()
        script = sh("sleep 100 & echo $! >{f}; echo on; wait", f=str(tmp_path / "pid"))
        work = asyncio.create_task(NODE.run(script, on_line=lambda _: began.set()))
        await began.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        await asyncio.wait_for(until_gone(int((tmp_path / "pid").read_text())), 30)

    run(scenario())


# Popen warns when it is deleted while its process runs, which is what this test causes.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_that_cannot_be_killed_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """SIGKILL does not end all: in a frozen cgroup, on a dead disk."""
    spared: list[int] = []
    monkeypatch.setattr(process, "GONE_S", 0.01)

    async def scenario() -> None:
        began = asyncio.Event()
        script = sh("echo on; exec sleep 100")
        work = asyncio.create_task(NODE.run(script, on_line=lambda _: began.set()))
        await began.wait()
        monkeypatch.setattr(os, "killpg", lambda pid, _: spared.append(pid))
        monkeypatch.setattr(subprocess.Popen, "kill", lambda _: None)
        work.cancel()
        assert await asyncio.wait({work}, timeout=30) == ({work}, set())
        assert work.cancelled()
        assert not gone(spared[0])
        os.kill(spared[0], signal.SIGKILL)
        await asyncio.wait_for(until_gone(spared[0]), 30)

    run(scenario())


def test_the_time_limit_holds_while_a_cancelled_task_cleans_up() -> None:
    """asyncio.timeout raises no TimeoutError there (CPython 3.11)."""
    late: list[bool] = []

    async def cleans_up(began: asyncio.Event) -> None:
        try:
            began.set()
            await asyncio.Event().wait()
        finally:
            with pytest.raises(TimeoutError):
                await process.run(["sleep", "100"], timeout=0.05)
            late.append(True)

    async def scenario() -> None:
        began = asyncio.Event()
        work = asyncio.create_task(cleans_up(began))
        await began.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    run(scenario())
    assert late


def test_a_daemon_that_keeps_stdout_does_not_hold_the_run(tmp_path: Path) -> None:
    result = run(NODE.run(sh("sleep 100 & echo $! >{f}; echo x", f=str(tmp_path / "pid"))))
    assert (result.status, result.stdout) == (0, "x\n")
    pid = int((tmp_path / "pid").read_text())
    assert not gone(pid)
    os.kill(pid, signal.SIGKILL)


def test_a_shell_that_is_killed_is_no_success() -> None:
    error = fails(sh("echo x; kill -9 $$"))
    assert error.code is Code.UNREACHABLE
    assert error.status == -signal.SIGKILL


def test_too_much_output_is_refused() -> None:
    error = fails(sh("cat /dev/zero"))
    assert error.code is Code.COMMAND_FAILED
    assert "more than 64 MiB" in error.message
    assert error.hint


def test_an_error_of_the_caller_comes_out() -> None:
    def broken(line: str) -> None:
        raise ZeroDivisionError(line)

    with pytest.raises(ZeroDivisionError, match="first"):
        run(NODE.run(sh("echo first; sleep 100"), on_line=broken))


def test_many_at_once() -> None:
    async def scenario() -> list[str]:
        done = await asyncio.gather(*(NODE.run(sh("echo {n}", n=n)) for n in range(40)))
        return [result.stdout for result in done]

    assert run(scenario()) == [f"{n}\n" for n in range(40)]


def test_rolling_output_keeps_its_end() -> None:
    async def scenario() -> process.Ended:
        argv = ["/bin/sh", "-c", "seq 20000; seq 20000 >&2; echo end"]
        return await process.run(argv, timeout=30, limit=1 << 16, rolling=True)

    ended = run(scenario())
    assert ended.out.endswith("19999\n20000\nend\n")
    assert ended.err.endswith("19999\n20000\n")
    assert 1 << 16 <= len(ended.stdout) < 1 << 18
    assert ended.status == 0


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(CorralError) as caught:
        run(process.run(["corral-no-such-program"], timeout=5))
    assert caught.value.code is Code.MISSING_TOOL
    assert "corral-no-such-program" in caught.value.message
