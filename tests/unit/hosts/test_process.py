"""A program whose run is cancelled while it starts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from corral.hosts import process
from corral.providers.containers import image_build

# The shell's child reads the pipe, and does not end with the shell.
PROGRAM = ("sh", "-c", "cat >/dev/null; exit 3")


def run() -> Awaitable[object]:
    return process.run(PROGRAM, timeout=100, stdin=b"x")


def child() -> Awaitable[object]:
    return process.Child.start(PROGRAM)


@pytest.mark.parametrize("steps", range(14))
@pytest.mark.parametrize("start", [run, child])
def test_cancelled_while_it_starts(start: Callable[[], Awaitable[object]], steps: int) -> None:
    """Asyncio alone waits for ever when that comes in the first or second step of the loop."""

    async def cancelled() -> bool:
        task = asyncio.ensure_future(start())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task}, timeout=30)
        return task.done()

    assert asyncio.run(cancelled())


class Held:
    """A program that the kernel does not release: SIGKILL does not end it."""

    pid = 0
    returncode = None

    async def wait(self) -> int:
        return await asyncio.Event().wait() or 0


@pytest.mark.parametrize("end", [process.killed, image_build._end])
def test_a_killed_program_is_waited_for_a_while(
    end: Callable[[Any], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "GONE_S", 0.01)
    monkeypatch.setattr(os, "killpg", lambda *_: None)
    asyncio.run(asyncio.wait_for(end(Held()), 5))
