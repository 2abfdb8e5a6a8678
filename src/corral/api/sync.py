"""Use cases without async."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")
END_S: Final = 10.0


def sync(work: Coroutine[Any, Any, T]) -> T:
    """Run a use case to its end, in a separate thread where a loop runs in this one already.

    Raises:
        KeyboardInterrupt: Ctrl-C, or a notebook's Stop; the use case is cancelled.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    ended: list[T] = []
    failed: list[BaseException] = []
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[T]]] = []

    async def begun() -> T:
        task = asyncio.ensure_future(work)
        running.append((asyncio.get_running_loop(), task))
        return await task

    def run() -> None:
        try:
            ended.append(asyncio.run(begun()))
        except BaseException as error:  # handed to the caller's thread
            failed.append(error)

    # A daemon: the interpreter's end would wait for whatever it waits for.
    thread = threading.Thread(target=run, name="corral", daemon=True)
    thread.start()
    try:
        thread.join()
    except BaseException:
        for loop, task in running:
            with contextlib.suppress(RuntimeError):  # it has just ended
                loop.call_soon_threadsafe(task.cancel)
        thread.join(END_S)
        raise
    if failed:
        raise failed[0]
    return ended[0]
