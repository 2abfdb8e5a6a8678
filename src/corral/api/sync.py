"""Use cases without async, and how each reaches a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from corral.apply.connection import Connection
from corral.hosts.fleet import Fleet
from corral.hosts.local import Local
from corral.spec.models import ClusterSpec
from corral.spec.nodes import controller_of

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
    stopped = threading.Event()

    async def begun() -> T:
        task = asyncio.ensure_future(work)
        running.append((asyncio.get_running_loop(), task))
        if stopped.is_set():  # before it was in the list
            task.cancel()
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
        stopped.set()
        for loop, task in running:
            with contextlib.suppress(RuntimeError):  # it has just ended
                loop.call_soon_threadsafe(task.cancel)
        thread.join(END_S)
        raise
    if failed:
        raise failed[0]
    return ended[0]


@asynccontextmanager
async def reached(spec: ClusterSpec, *, here: bool) -> AsyncGenerator[tuple[Fleet, str]]:
    """The machines, and the controller's name.

    Args:
        spec: the cluster.
        here: this process runs on the controller, as the user in whose name things are done; no
            other machine is reached then.

    Raises:
        CorralError: NOT_FOUND, the cluster is not up; UNREACHABLE.
    """
    if here:
        name = controller_of(spec)
        yield Fleet({name: Local(name)}), name
        return
    async with await Connection.open(spec) as session:
        session.require_running()
        yield session.fleet, session.controller
