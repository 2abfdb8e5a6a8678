"""A use case next to the event loop that answers viewers: in a thread with its own event loop.

Plan, doctor and proof of 10,000 nodes compute for seconds between their waits; in the server's loop
every viewer waits for that.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from typing import Any, Final, TypeVar

from corral.errors import Code, CorralError
from corral.events import Emit, Event, ignore
from corral.passwords import accompanied, person

T = TypeVar("T")
END_S: Final = 10.0
"""How long its clean-up may take once it is cancelled."""


async def in_thread(work: Callable[[Emit], Coroutine[Any, Any, T]], emit: Emit = ignore) -> T:
    """What a use case returns or raises; cancelling this cancels it.

    Args:
        work: makes the coroutine; what it is given passes events on.
        emit: called with them in this event loop.
    """
    here = asyncio.get_running_loop()
    done: asyncio.Future[T] = here.create_future()
    begun: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[T]]] = []
    given_up = threading.Event()

    def passed_on(event: Event) -> None:
        here.call_soon_threadsafe(emit, event)

    async def running() -> T:
        task = asyncio.ensure_future(work(passed_on))
        begun.append((asyncio.get_running_loop(), task))
        if given_up.is_set():  # before it was in the list
            task.cancel()
        return await task

    def run() -> None:
        settle = _outcome(done, running)
        with suppress(RuntimeError):  # the server's loop is closed: nobody waits any more
            here.call_soon_threadsafe(settle)

    context = copy_context()
    threading.Thread(target=context.run, args=(run,), name="use case", daemon=True).start()
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        given_up.set()
        for its, task in begun:
            with suppress(RuntimeError):  # it has just ended
                its.call_soon_threadsafe(task.cancel)
        await asyncio.wait({done}, timeout=END_S)
        if done.done():
            done.exception()  # nobody awaits it any more
        raise


def _outcome(
    done: asyncio.Future[T], running: Callable[[], Coroutine[Any, Any, T]]
) -> Callable[[], object]:
    """Runs it to its end; returns what settles its future, in the future's own loop."""
    try:
        with accompanied(replace(person())):  # its lock belongs to one event loop
            result = asyncio.run(running())
    except asyncio.CancelledError:
        # By the one who awaits it, and awaits no result any more.
        cancelled = CorralError(Code.COMMAND_FAILED, "cancelled")
        return lambda: done.cancelled() or done.set_exception(cancelled)
    except BaseException as error:  # raised where it is awaited
        # As an Exception: SystemExit would end the server, and few catch another one.
        failed = error if isinstance(error, Exception) else RuntimeError(repr(error))
        return lambda: done.cancelled() or done.set_exception(failed)
    return lambda: done.cancelled() or done.set_result(result)
