"""Ctrl-C that comes just before a wait begins; made by another thread, which takes the signal."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from corral.cli.terminal.interrupts import ran
from corral.cli.terminal.ui import InterruptedByUserError, Ui

LOST_S = 20.0
"""Seconds after which a wait that Ctrl-C did not end is ended otherwise, and the test fails."""
Pressed = Callable[[Callable[[], object]], None]


@pytest.fixture
def pressed() -> Iterator[Pressed]:
    """Sends SIGINT without interrupting a system call of this thread.

    The call begins as if the signal had come before it. The argument ends the wait if it is lost.
    """
    over = threading.Event()
    threads: list[threading.Thread] = []
    ignored: list[bool] = []

    def press(lost: Callable[[], object]) -> None:
        def other() -> None:
            over.wait(0.05)  # most likely this thread's main one waits by then
            os.kill(os.getpid(), signal.SIGINT)
            if not over.wait(LOST_S):
                ignored.append(True)
                lost()

        threads.append(threading.Thread(target=other))
        threads[-1].start()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield press
    over.set()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGINT, before)
    for thread in threads:
        thread.join()
    assert not ignored, f"Ctrl-C ended nothing for {LOST_S:.0f} s"


def test_at_a_question(monkeypatch: pytest.MonkeyPatch, pressed: Pressed) -> None:
    here, there = pty.openpty()
    with os.fdopen(there, "r") as terminal:
        ui = Ui()
        monkeypatch.setattr(Ui, "interactive", True)
        monkeypatch.setattr(sys, "stdin", terminal)
        pressed(lambda: os.write(here, b"y\n"))
        with pytest.raises(InterruptedByUserError, match="job 7 keeps running"):
            ui.confirm("Cancel job 7?", state="job 7 keeps running")
        os.write(here, b"y\n")
        assert ui.confirm("Cancel job 8?")
    os.close(here)


def test_at_an_idle_loop(pressed: Pressed) -> None:
    tidy: list[str] = []

    async def idle() -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        pressed(lambda: loop.call_soon_threadsafe(ended.set))
        try:
            await ended.wait()
        finally:
            await asyncio.sleep(0)
            tidy.append("up")

    with pytest.raises(KeyboardInterrupt):
        ran(idle())
    assert tidy == ["up"]


def test_what_it_gives_and_raises() -> None:
    async def answer() -> int:
        return 42

    async def fail() -> int:
        raise ZeroDivisionError

    assert ran(answer()) == 42
    with pytest.raises(ZeroDivisionError):
        ran(fail())
    assert signal.set_wakeup_fd(-1) == -1
