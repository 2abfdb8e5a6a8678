"""Responses of Slurm that change slowly, kept for some seconds for all who may see them.

Calls do not grow with viewers: those who ask at once wait for one answer. Where Slurm stops
answering, the last answer stays with its age and the reason, so that nothing known becomes zero.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar, cast

from corral.errors import Code, CorralError

T = TypeVar("T")
KEEP_TROUBLE_S: Final = 10.0
MOST: Final = 256
"""Answers that are kept, of all users together."""


@dataclass(frozen=True, slots=True)
class CachedResponse(Generic[T]):
    """An answer, and why a newer one failed.

    Attributes:
        value: None: it is unknown.
        at: unix seconds of the answer, 0 for none.
        why: why it is unknown or old, "" while it is neither.
    """

    value: T | None = None
    at: float = 0.0
    why: str = ""

    def head(self) -> dict[str, Any]:
        """What every response with such an answer has."""
        return {"known": self.value is not None, "at": self.at, "why": self.why}


_NOTHING: Final[CachedResponse[Any]] = CachedResponse()


@dataclass(slots=True)
class _Kept:
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    until: float = 0.0
    answered: CachedResponse[Any] = _NOTHING


class ListedRows:
    """Which jobs a page of a list has, by what was asked, of the last ``MOST`` questions."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[int, ...]] = {}

    def put(self, key: str, numbers: Iterable[int]) -> None:
        """Remember the jobs of an answer, in its order."""
        self._rows.pop(key, None)
        self._rows[key] = tuple(numbers)
        for oldest in [*self._rows][:-MOST]:
            self._rows.pop(oldest, None)

    def of(self, key: str) -> tuple[int, ...]:
        """The jobs of the answer that was given last; none where it is forgotten."""
        return self._rows.get(key, ())


class ResponseCache:
    """Asks once for all, and remembers.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[Hashable, _Kept] = {}

    async def get(
        self, key: Hashable, lasts: float, ask: Callable[[], Awaitable[T]]
    ) -> CachedResponse[T]:
        """The answer that is kept under a key, else a new one.

        Args:
            key: what is asked, and for whom where that matters.
            lasts: seconds.
            ask: gets a new one.

        Raises:
            CorralError: LOGIN_REFUSED: that is about one viewer, not about the answer.
        """
        kept = self._kept.pop(key, None) or _Kept()
        self._kept[key] = kept  # the last one asked for is the last one forgotten
        while len(self._kept) > MOST:
            self._kept.pop(next(iter(self._kept)))
        async with kept.asking:
            if self._clock() >= kept.until:
                try:
                    kept.answered = CachedResponse(await ask(), time.time())
                    kept.until = self._clock() + lasts
                except CorralError as error:
                    if error.code is Code.LOGIN_REFUSED:
                        raise
                    old = kept.answered
                    kept.answered = CachedResponse(old.value, old.at, error.message)
                    kept.until = self._clock() + min(lasts, KEEP_TROUBLE_S)
        return cast("CachedResponse[T]", kept.answered)
