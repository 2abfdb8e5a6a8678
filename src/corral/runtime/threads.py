"""Blocking work in a thread that nobody has to wait for."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def abandonable(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """As ``asyncio.to_thread``, but Ctrl-C ends the command while the work still blocks.

    ``asyncio.run`` joins the threads of ``to_thread`` at its end and the interpreter does so once
    more, both without limit (CPython 3.11): a silent server kept a command alive for two
    minutes, whatever was pressed. So this is for what waits for others or reads a lot; what writes
    is to be waited for, and belongs into ``to_thread``.

    Args:
        work: what blocks; when the caller is cancelled it goes on until the process ends.
        args: given to it.
        kwargs: given to it.

    Raises:
        BaseException: the work's own.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(set_it: Callable[[Any], None], value: Any) -> None:
        if not done.done():
            set_it(value)

    def run() -> None:
        try:
            outcome = done.set_result, context.run(work, *args, **kwargs)
        except StopIteration as error:  # no future takes one
            outcome = done.set_exception, RuntimeError(repr(error))
        except BaseException as error:  # raised where the work is awaited, which waits for it alone
            outcome = done.set_exception, error
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, name=work.__name__, daemon=True).start()
    return await done
