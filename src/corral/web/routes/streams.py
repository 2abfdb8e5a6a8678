"""Live views: server-sent events, so many at once of each user."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Final

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from corral.errors import Code, CorralError

MOST: Final = 48
"""Of one user; a browser opens six to one server."""


class Streams:
    """How many live views each user has at once.

    Args:
        most: of one user.
        what: they are, for who has too many.
        of_all: of all users together; None: no such limit.
    """

    def __init__(
        self, most: int = MOST, what: str = "live views", of_all: int | None = None
    ) -> None:
        self._most = most
        self._what = what
        self._of_all = of_all
        self._open: Counter[str] = Counter()

    @contextmanager
    def counted(self, user: str) -> Generator[None]:
        """One more view, from before its first byte to its end, however that comes.

        Raises:
            CorralError: TOO_MANY, the user has as many already.
        """
        if self._of_all is not None and self._open.total() >= self._of_all:
            raise CorralError(
                Code.TOO_MANY,
                f"all users together have {self._of_all} {self._what} open",
                hint="try again in a while",
            )
        if self._open[user] >= self._most:
            raise CorralError(
                Code.TOO_MANY, f"{user} has {self._most} {self._what} open", hint="close some pages"
            )
        self._open[user] += 1
        try:
            yield
        finally:
            self._open[user] -= 1
            self._open += Counter()  # forgets who has none


class Questions:
    """What each user asks the machines at once: the page asks for several parts of a log together.

    Args:
        at_once: of one user; more wait.
        most: of one user, with those that wait.
    """

    def __init__(self, at_once: int = 4, most: int = 32) -> None:
        self._at_once = at_once
        self._open = Streams(most, "questions about jobs")
        self._places: dict[str, asyncio.Semaphore] = {}
        self._users: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, user: str) -> AsyncGenerator[None]:
        """One question, when it is its turn.

        Raises:
            CorralError: TOO_MANY of the user's wait.
        """
        with self._open.counted(user):
            place = self._places.setdefault(user, asyncio.Semaphore(self._at_once))
            self._users[user] += 1
            try:
                async with place:
                    yield
            finally:
                self._users[user] -= 1
                if not self._users[user]:
                    del self._users[user], self._places[user]


class LiveView(StreamingResponse):
    """A response that counts as a live view while it is sent.

    Args:
        streams: where it counts.
        user: whose it is.
        source: its parts.
        headers: of the response.
        media_type: what it is.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        streams: Streams,
        user: str,
        source: AsyncGenerator[bytes],
        headers: Mapping[str, str] | None = None,
        media_type: str | None = None,
    ) -> None:
        super().__init__(source, headers=headers, media_type=media_type)
        self._streams = streams
        self._user = user
        self._source = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        async with aclosing(self._source):
            with self._streams.counted(self._user):
                await super().__call__(scope, receive, send)
