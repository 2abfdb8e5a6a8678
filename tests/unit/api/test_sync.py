"""Use cases without async, in a notebook that is stopped."""

from __future__ import annotations

import asyncio
import threading

import pytest

from corral.api.sync import sync


def test_stop_in_a_notebook_ends_the_use_case_too(monkeypatch: pytest.MonkeyPatch) -> None:
    began = threading.Event()
    ended: list[str] = []
    join = threading.Thread.join

    async def follow() -> None:
        began.set()
        try:
            await asyncio.Event().wait()  # a job that goes on for days
        finally:
            ended.append("given up")

    def stopped(thread: threading.Thread, timeout: float | None = None) -> None:
        if timeout is None:
            began.wait()
            raise KeyboardInterrupt
        join(thread, timeout)

    async def notebook() -> None:
        with pytest.raises(KeyboardInterrupt):
            sync(follow())

    monkeypatch.setattr(threading.Thread, "join", stopped)
    asyncio.run(notebook())
    assert ended == ["given up"]
    assert not [t for t in threading.enumerate() if t.name == "corral" and not t.daemon]
