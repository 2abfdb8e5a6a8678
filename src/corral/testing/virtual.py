"""An event loop whose clock jumps to the next timer: hours of waiting pass at once."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
START = 1_000_000.0


class _Jumping(selectors.DefaultSelector):  # type: ignore[misc, valid-type]
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready and timeout:
            self._loop.clock += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop in its own time."""

    def __init__(self) -> None:
        self.clock = START
        super().__init__(_Jumping(self))
        # Timers are due a little early rather than never: a float of this size is not finer.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self.clock


def run(loop: VirtualLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run something in virtual time; other tasks that are left are dropped."""
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(work)
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
