"""A long-lived local process, and its child that outlives it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

import pytest

from corral.hosts import process as child
from corral.hosts.process import Child
from tests.unit.hosts.test_local import until_gone


def test_last_words_while_another_holds_the_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "STDERR_S", 0.05)

    async def scenario() -> None:
        shell = "echo gone wrong >&2; sleep 100 >/dev/null & echo $!"
        async with await Child.start(["/bin/sh", "-c", shell], quiet=True) as process:
            left = int(await process.line(30))
            try:
                assert await asyncio.wait_for(process.stderr_tail(), 20) == "gone wrong\n"
            finally:
                os.kill(left, signal.SIGKILL)
            monkeypatch.setattr(child, "STDERR_S", 20)
            assert not await process.stderr_tail()
            assert await process.wait() == 0

    asyncio.run(scenario())


def test_ctrl_c_kills_one_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner's task is cancelled by then, and asyncio.timeout would raise no TimeoutError."""
    monkeypatch.setattr(child, "EOF_S", 0.05)
    monkeypatch.setattr(child, "END_S", 0.1)

    async def scenario() -> None:
        began: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def owns() -> None:
            deaf = "trap '' TERM; echo $$; exec sleep 100"
            async with await Child.start(["/bin/sh", "-c", deaf]) as process:
                began.set_result(int(await process.line(30)))
                await asyncio.Event().wait()

        owner = asyncio.create_task(owns())
        pid = await began
        owner.cancel()
        assert await asyncio.wait({owner}, timeout=30) == ({owner}, set())
        try:
            await asyncio.wait_for(until_gone(pid), 20)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    asyncio.run(scenario())
