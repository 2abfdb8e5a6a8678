"""A long-lived local process, and one of its own that outlives it."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from corral.hosts import child
from corral.hosts.child import Child


def test_last_words_while_another_holds_the_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "SAID_S", 0.05)

    async def scenario() -> None:
        shell = "echo gone wrong >&2; sleep 100 >/dev/null & echo $!"
        async with await Child.start(["/bin/sh", "-c", shell], quiet=True) as one:
            left = int(await one.line(30))
            try:
                assert await asyncio.wait_for(one.said(), 20) == "gone wrong\n"
            finally:
                os.kill(left, signal.SIGKILL)
            monkeypatch.setattr(child, "SAID_S", 20)
            assert not await one.said()
            assert await one.wait() == 0

    asyncio.run(scenario())
