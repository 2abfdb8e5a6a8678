"""A cloud's rate limit, kept by all processes of this machine together.

One small file per account and limit holds the moment from which the next call may go; the kernel's
lock on it makes taking a turn one step, also between processes, and is freed when one dies.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

FAR_S: Final = 6 * 3600.0
"""A turn further away than this is a file from another clock: it is not believed. (Two hundred
launches take 40 minutes of turns where one may be made every 12 s.)"""


class Pacer:
    """Turns of one account.

    Args:
        folder: where the files are.
        account: what the limits belong to; is in the files' names as a digest only.
        gaps: seconds between two calls, by limit.
        now: the clock, Unix seconds; another one in tests.
    """

    def __init__(
        self,
        folder: Path,
        account: str,
        gaps: Mapping[str, float],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._account = hashlib.sha256(account.encode()).hexdigest()[:16]
        self._gaps = dict(gaps)
        self._now = now

    async def turn(self, *limits: str) -> float:
        """Wait until a call may go under all of the limits; gives the seconds it waited."""
        waited = 0.0
        for limit in limits:
            gap = self._gaps.get(limit, 0.0)
            if gap <= 0:
                continue
            pause = self._take(limit, gap) - self._now()
            if pause > 0:
                waited += pause
                await asyncio.sleep(pause)
        for limit in limits[:-1]:
            # The call goes now, later than its turn: the next one must keep its distance from now.
            self.hold(limit, self._gaps.get(limit, 0.0))
        return waited

    def hold(self, limit: str, seconds: float) -> None:
        """Nobody's turn comes before this: the cloud asked for it (429 with Retry-After)."""
        with _Slot(self._path(limit)) as slot:
            slot.write(max(slot.read(), self._now() + seconds))

    def _take(self, limit: str, gap: float) -> float:
        with _Slot(self._path(limit)) as slot:
            now = self._now()
            begin = slot.read()
            mine = begin if now < begin < now + FAR_S else now
            slot.write(mine + gap)
        return mine

    def _path(self, limit: str) -> Path:
        return self._folder / f"{self._account}-{limit}"


class _Slot:
    """The file of one limit, locked."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def __enter__(self) -> _Slot:
        # Held for two system calls: the event loop is not kept waiting.
        fcntl.flock(self._handle, fcntl.LOCK_EX)
        return self

    def __exit__(self, *raised: object) -> None:
        os.close(self._handle)

    def read(self) -> float:
        try:
            return float(os.pread(self._handle, 64, 0))
        except ValueError:
            return 0.0

    def write(self, when: float) -> None:
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, f"{when:.3f}".encode(), 0)
