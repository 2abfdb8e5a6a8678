"""Account-wide sets that a cloud can only replace as a whole: read, merge, confirm, write, compare.

RunPod's ssh keys and Lambda's firewall rules belong to everybody who uses the account. A PUT of
one's own entry would throw all others out. Nothing is written that drops an entry.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from corral.errors import Code, CorralError

T = TypeVar("T")


async def change(
    read: Callable[[], Awaitable[Sequence[T]]],
    write: Callable[[Sequence[T]], Awaitable[None]],
    add: Sequence[T],
    confirm: Callable[[Sequence[T], Sequence[T]], bool],
    same: Callable[[T, T], bool] = lambda a, b: a == b,
) -> bool:
    """Add entries to a set that a cloud replaces as a whole; the others stay.

    Args:
        read: gives the set.
        write: replaces it.
        add: what must be in it.
        confirm: asked with the set before and after; False leaves it alone.
        same: whether two entries are one.

    Returns:
        True when the entries are in it.

    Raises:
        CorralError: STALE_PLAN, somebody else changed it meanwhile; PROVIDER_FAILED, entries are
            missing after it was written.
    """
    before = list(await read())
    fresh = [entry for entry in add if not any(same(entry, known) for known in before)]
    if not fresh:
        return True
    after = [*before, *fresh]
    if not confirm(before, after):
        return False
    if list(await read()) != before:
        raise CorralError(
            Code.STALE_PLAN,
            "somebody else changed the account's entries meanwhile",
            hint="run the same command again",
        )
    await write(after)
    now = list(await read())
    lost = [entry for entry in after if not any(same(entry, known) for known in now)]
    if lost:
        raise CorralError(
            Code.PROVIDER_FAILED,
            f"{len(lost)} entries are missing after the change",
            tail="\n".join(map(str, lost)),
            hint="put them back on the provider's page",
        )
    return True
