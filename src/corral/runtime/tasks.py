"""Several awaitables at once, of which none goes on alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar, overload

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")


@overload
async def concurrently(a: Awaitable[A], b: Awaitable[B], /) -> tuple[A, B]: ...
@overload
async def concurrently(a: Awaitable[A], b: Awaitable[B], c: Awaitable[C], /) -> tuple[A, B, C]: ...
@overload
async def concurrently(
    a: Awaitable[A],
    b: Awaitable[B],
    c: Awaitable[C],
    d: Awaitable[D],
    e: Awaitable[E],
    f: Awaitable[F],
    /,
) -> tuple[A, B, C, D, E, F]: ...
@overload
async def concurrently(*each: Awaitable[A]) -> list[A]: ...


async def concurrently(*each: Awaitable[Any]) -> Any:
    """The results in order; after a failure the others are cancelled, waited for, and it is raised.

    ``asyncio.gather`` lets the others go on: their connections are closed under them, and one whose
    program just starts as the event loop ends is waited for without end (CPython 3.11: the loop
    cancels ``_connect_pipes``, and the program's end is never noticed). ``asyncio.TaskGroup``
    raises a group, where callers want the failure itself.
    """
    tasks = [asyncio.ensure_future(awaitable) for awaitable in each]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
