"""Use cases without async."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def sync(work: Coroutine[Any, Any, T]) -> T:
    """Run a use case to its end, in a thread of its own where a loop runs in this one already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    ended: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            ended.append(asyncio.run(work))
        except BaseException as error:  # handed to the caller's thread
            failed.append(error)

    thread = threading.Thread(target=run, name="corral")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return ended[0]
