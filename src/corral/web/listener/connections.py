"""Connections of the page: time limits, quiet ends, a renewed certificate.

Whoever connects owes headers, then the body, and must read what is sent. Each has its time, which
single bytes do not lengthen, and so many may owe something at once: with more, the peer that has
most of them loses its oldest. So half-open connections (slowloris) take neither file descriptors
nor places from viewers; who sends a request at once is never among the oldest.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
import ssl
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import h11
import uvicorn
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from corral.web.listener.peers import Peer

T = TypeVar("T")
HEADERS_S: Final = 10.0
BODY_S: Final = 30.0
"""For 2 MiB at most (``guard.MAX_BODY``)."""
READING_S: Final = 30.0
"""How long a buffer of 64 KiB may stay full."""
OWING: Final = 256


def oldest_of_most(whose: Mapping[T, str]) -> T:
    """The oldest of the peer who has most of them."""
    ((worst, _),) = Counter(whose.values()).most_common(1)
    return next(item for item, peer in whose.items() if peer == worst)


class Waiting:
    """The connections that owe something, oldest first.

    Args:
        most: how many there may be at once.
        times: seconds for headers, a body, and reading.
    """

    def __init__(
        self,
        most: int = OWING,
        times: tuple[float, float, float] = (HEADERS_S, BODY_S, READING_S),
    ) -> None:
        self._most = most
        self.headers_s, self.body_s, self.reading_s = times
        self._owing: dict[Bounded, str] = {}

    def __len__(self) -> int:
        return len(self._owing)

    def add(self, connection: Bounded, peer: str) -> None:
        """One more owes something; the oldest of the peer with most goes where there are too many.

        Who is logged in goes last.
        """
        self._owing[connection] = peer
        if len(self._owing) <= self._most:
            return
        strangers = {other: whose for other, whose in self._owing.items() if not other.viewer}
        oldest_of_most(strangers or self._owing).drop()

    def remove(self, connection: Bounded) -> None:
        """It owes nothing any more."""
        self._owing.pop(connection, None)


class Bounded(H11Protocol):
    """One connection, with a time limit on all that its peer owes.

    Attributes:
        peer: who is at its other end.
        viewer: its last request came from who is logged in.
        requests: how many came.
    """

    peer: Peer = Peer("unknown")
    viewer: bool = False
    requests: int = 0

    def __init__(
        self,
        waiting: Waiting,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._waiting = waiting
        self._owes = ""
        self._timer: asyncio.TimerHandle | None = None
        self._stuck = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Headers are owed from now on."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, "connection": self}  # for what answers its requests
        self._settle()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is owed any more."""
        super().connection_lost(exc)
        self._owe("")

    def data_received(self, data: bytes) -> None:
        """More of what is owed, or all of it."""
        super().data_received(data)
        self._settle()

    def on_response_complete(self) -> None:
        """Owed from now on: the next request's headers."""
        self._owe("")
        super().on_response_complete()
        self._settle()

    def pause_writing(self) -> None:
        """The peer does not read."""
        super().pause_writing()
        self._stuck = True
        self._settle()

    def resume_writing(self) -> None:
        """It does again."""
        super().resume_writing()
        self._stuck = False
        self._settle()

    def drop(self) -> None:
        """End it at once, whatever is still to be sent."""
        self._owe("")
        self.transport.abort()

    def _settle(self) -> None:
        if self.transport.is_closing() and not self._stuck:
            return self._owe("")
        state = self.conn.their_state
        owed = "headers" if state is h11.IDLE else "body" if state is h11.SEND_BODY else ""
        return self._owe("reading" if self._stuck else owed)

    def _owe(self, what: str) -> None:
        if what == self._owes:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting.remove(self)
        self._owes = what
        if what:
            waiting = self._waiting
            times = {"headers": waiting.headers_s, "body": waiting.body_s}
            self._timer = self.loop.call_later(times.get(what, waiting.reading_s), self.drop)
            waiting.add(self, self.peer.name)


def more_files() -> None:
    """As many open files as the system lets a process have: 1,024 is many a login's limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def without_cut_streams() -> None:
    """Log nothing about live views that go on when the server is to end; call after uvicorn.Config.

    They never end on their own, and so each open page showed a traceback in the terminal of
    ``corral ui`` at Ctrl-C (uvicorn 0.54, timeout_graceful_shutdown).
    """
    logging.getLogger("uvicorn.error").addFilter(_logged)


def _logged(record: logging.LogRecord) -> bool:
    cut = record.exc_info is not None and isinstance(record.exc_info[1], asyncio.CancelledError)
    return not cut and "timeout graceful shutdown exceeded" not in record.getMessage()


log = logging.getLogger(__name__)


def renewed(context: ssl.SSLContext, certificate: str, key: str) -> str:
    """Have new connections of a TLS context show what the files hold now.

    Args:
        context: the one that the server listens with.
        certificate: path of the certificate with its chain, PEM.
        key: path of its private key, PEM.

    Returns:
        "", or why the certificate of before stays, such as half of a pair that is being replaced.
    """
    try:
        # A separate context first: one that fails may be left with half of the new pair.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
        context.load_cert_chain(certificate, key)
    except OSError as error:  # ssl.SSLError is one
        return str(error)
    return ""


def at_hangup(config: uvicorn.Config, certificate: str, key: str) -> None:
    """Let SIGHUP, which is what ``systemctl reload`` sends, take a renewed certificate.

    Args:
        config: of the server that listens by TLS; asked when the signal comes.
        certificate: path of the certificate with its chain.
        key: path of its private key.
    """

    def take() -> None:
        if config.ssl is None:  # not listening yet: it will read the files of now
            return
        failed = renewed(config.ssl, certificate, key)
        if failed:
            log.error("the previous certificate stays in use: %s", failed)
        else:
            log.warning("reloaded the certificate")

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, take)
