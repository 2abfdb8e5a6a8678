"""Use cases without async, in a notebook that is stopped."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

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


def test_stop_before_the_use_case_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ran to its end behind the notebook's back."""
    gate, did = threading.Event(), list[str]()
    begin, join = asyncio.run, threading.Thread.join

    async def changes() -> None:
        await asyncio.sleep(0)
        did.append("all")

    def late(work: Any) -> Any:
        gate.wait(10)
        return begin(work)

    def stopped(thread: threading.Thread, timeout: float | None = None) -> None:
        if timeout is None:
            raise KeyboardInterrupt
        gate.set()
        join(thread, timeout)

    async def notebook() -> None:
        monkeypatch.setattr(asyncio, "run", late)
        with pytest.raises(KeyboardInterrupt):
            sync(changes())

    monkeypatch.setattr(threading.Thread, "join", stopped)
    asyncio.run(notebook())
    assert not did
