"""Blocking work for which a command does not wait when it ends."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable

import pytest

from corral.runtime.threads import abandonable

WHO = contextvars.ContextVar("who", default="nobody")


def test_what_it_gives_and_raises() -> None:
    def add(first: int, *, second: int) -> tuple[int, str]:
        return first + second, WHO.get()

    async def scenario() -> None:
        WHO.set("kim")
        assert await abandonable(add, 1, second=2) == (3, "kim")
        with pytest.raises(ZeroDivisionError):
            await abandonable(divmod, 1, 0)

    asyncio.run(scenario())


class Panic(BaseException):
    """As a library in Rust raises it (PyO3's PanicException)."""


@pytest.mark.parametrize("raised", [Panic, StopIteration])
def test_what_is_no_exception_is_not_waited_for(raised: type[BaseException]) -> None:
    def fails() -> None:
        raise raised

    async def scenario() -> None:
        with pytest.raises((Panic, RuntimeError)):
            await asyncio.wait_for(abandonable(fails), 5)

    asyncio.run(scenario())


def test_nobody_waits_for_it_once_it_is_given_up() -> None:
    end = threading.Event()
    ended: list[threading.Thread] = []

    def blocks(began: Callable[[], object]) -> None:
        ended.append(threading.current_thread())
        began()
        end.wait(20)  # without the limit a failure would be a test that hangs

    async def scenario() -> None:
        loop, began = asyncio.get_running_loop(), asyncio.Event()
        work = asyncio.create_task(
            abandonable(blocks, lambda: loop.call_soon_threadsafe(began.set))
        )
        await began.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(scenario())
    assert ended[0].is_alive()
    assert ended[0].daemon, "the interpreter's end waits for all others"
    end.set()
    ended[0].join()  # it finds the loop closed, and logs nothing
