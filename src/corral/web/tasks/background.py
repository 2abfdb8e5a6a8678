"""Long work that pages look at: one at a time, its events kept, so that a reload loses nothing."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from corral.errors import Code, CorralError
from corral.events import Emit, Event
from corral.web.slurm.slurmrest import dumps

KEPT: Final = 5000
Work = Callable[[Emit], Coroutine[Any, Any, Any]]


class Background:
    """The work in progress, or the last one.

    Attributes:
        what: its name: apply, doctor, prove.
        result: what it gave, None while it runs or when it failed.
    """

    def __init__(self) -> None:
        self.what = ""
        self.id = ""
        self.begun = 0.0
        self.ended = 0.0
        self.result: Any = None
        self._packed = b"null"
        self.error: dict[str, Any] | None = None
        self._events: list[dict[str, object]] = []
        self._task: asyncio.Task[None] | None = None
        self._more = asyncio.Event()

    @property
    def running(self) -> bool:
        """Whether work is in progress."""
        return self._task is not None and not self._task.done()

    def start(
        self, what: str, work: Work, after: Callable[[], Awaitable[None]] | None = None
    ) -> str:
        """Begin; returns an id.

        Raises:
            CorralError: BUSY, something is under way.
        """
        if self.running:
            raise CorralError(Code.BUSY, f"{self.what} is under way", hint="wait until it is over")
        self.what, self.id = what, secrets.token_hex(6)
        self.begun, self.ended = time.time(), 0.0
        self.result, self.error, self._events = None, None, []
        self._packed = b"null"
        self._task = asyncio.create_task(self._run(work, after), name=what)
        return self.id

    async def _run(self, work: Work, after: Callable[[], Awaitable[None]] | None) -> None:
        try:
            self.result = await work(self._emit)
            self._packed = await asyncio.to_thread(dumps, self.result)
        except CorralError as error:
            self.error = {**error.as_dict()}
        except Exception as error:  # shown by the page, which would wait for ever
            self.error = {"code": "internal", "message": f"{type(error).__name__}: {error}"}
        self.ended = time.time()
        self._wake()
        if after is not None:
            await after()

    def _emit(self, event: Event) -> None:
        if len(self._events) < KEPT:
            self._events.append({"at": round(time.time(), 2), **event.as_dict()})
            self._wake()

    def _wake(self) -> None:
        self._more.set()
        self._more = asyncio.Event()

    async def since(self, index: int, patience: float = 15.0) -> list[dict[str, object]]:
        """Events from ``index`` on; waits for the next one, but not for ever."""
        if len(self._events) <= index and self.running:
            try:
                async with asyncio.timeout(patience):
                    await self._more.wait()
            except TimeoutError:
                return []
        return self._events[index:]

    def as_dict(self) -> dict[str, Any]:
        """How it stands."""
        return {
            "id": self.id,
            "what": self.what,
            "running": self.running,
            "begun": self.begun,
            "ended": self.ended,
            "result": self.result,
            "error": self.error,
        }

    def as_json(self) -> bytes:
        """How it stands, as the page is sent it: what it gave is packed once, however many look."""
        fields = self.as_dict()
        del fields["result"]
        return dumps(fields)[:-1] + b',"result":' + self._packed + b"}"
