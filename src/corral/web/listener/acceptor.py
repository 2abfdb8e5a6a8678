"""Accepts connections: a few in each turn of the event loop, of each peer so many a second.

asyncio's own server accepts as many as wait at once (uvicorn: 2,048), each with a transport, a task
and a parser, while everybody else waits. Here a connection beyond its peer's limit costs a few
system calls: it is kept as a bare socket, answered at once where what it sends shows somebody who
is logged in, and else when its turn comes, the newest first.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from corral.web.listener.admission import Admission
from corral.web.listener.connections import Bounded, oldest_of_most
from corral.web.listener.peers import Peer, Peers

AT_ONCE: Final = 32
KEPT: Final = 256
TURN_S: Final = 0.02
HEAD: Final = 16384
"""Bytes of a request that are searched for a cookie."""
HANDSHAKE_S: Final = 10.0
"""Of TLS; asyncio's own limit is 60 s."""


class Acceptor:
    """One listening socket, as uvicorn uses an ``asyncio.Server``.

    Args:
        loop: the event loop.
        listening: the socket.
        factory: makes the protocol of a connection.
        admission: decides who may come in.
        secured: TLS, where it listens by that.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: socket.socket,
        factory: Callable[[], asyncio.Protocol],
        admission: Admission,
        secured: ssl.SSLContext | None = None,
    ) -> None:
        self._loop = loop
        self._listening = listening
        self._factory = factory
        self._admission = admission
        self._secured = secured
        self._peers = Peers()
        self._kept: dict[socket.socket, Peer] = {}
        self._silent = set[socket.socket]()
        self._turn: asyncio.TimerHandle | None = None
        self._opening = set[asyncio.Task[None]]()

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        """Where it listens."""
        return (self._listening,)

    def open(self, backlog: int) -> None:
        """Begin to accept."""
        self._listening.setblocking(False)
        self._listening.listen(backlog)
        self._loop.add_reader(self._listening, self._accept)

    def close(self) -> None:
        """Accept no more."""
        self._loop.remove_reader(self._listening)
        self._listening.close()
        if self._turn is not None:
            self._turn.cancel()
        for connection in list(self._kept):
            self._end(connection)

    async def wait_closed(self) -> None:
        """It is closed at once."""

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                connection, _ = self._listening.accept()
            except OSError:  # nobody waits, or who did has gone; without descriptors they wait
                return
            connection.setblocking(False)
            peer = self._peers.of(connection)
            if self._admission.stranger(peer):
                self._admit(connection, peer)
            else:
                self._keep(connection, peer)

    def _keep(self, connection: socket.socket, peer: Peer) -> None:
        self._kept[connection] = peer
        self._silent.add(connection)
        self._loop.add_reader(connection, self._heard, connection)
        if len(self._kept) > KEPT:
            self._end(oldest_of_most({other: peer.name for other, peer in self._kept.items()}))

    def _heard(self, connection: socket.socket) -> None:
        """Its first bytes are there; what comes by TLS shows nobody."""
        self._silent.discard(connection)
        self._loop.remove_reader(connection)
        head = b""
        with suppress(OSError):
            head = connection.recv(HEAD, socket.MSG_PEEK)
        may = self._admission.viewer(head)
        if not head or may is False:
            self._end(connection)
        elif may:
            self._admit(connection, self._kept.pop(connection))
        elif self._turn is None:
            self._turn = self._loop.call_later(TURN_S, self._next)

    def _next(self) -> None:
        """Those who may come in now of all that have sent something, the newest first."""
        self._turn = None
        heard = [connection for connection in self._kept if connection not in self._silent]
        late = set[str]()
        for connection in reversed(heard):
            peer = self._kept[connection]
            if peer.name not in late and self._admission.stranger(peer):
                self._admit(connection, self._kept.pop(connection))
            else:
                late.add(peer.name)
        if late:
            self._turn = self._loop.call_later(TURN_S, self._next)

    def _end(self, connection: socket.socket) -> None:
        del self._kept[connection]
        self._silent.discard(connection)
        self._loop.remove_reader(connection)
        connection.close()

    def _admit(self, connection: socket.socket, peer: Peer) -> None:
        task = self._loop.create_task(self._opened(connection, peer))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _opened(self, connection: socket.socket, peer: Peer) -> None:
        def made() -> asyncio.Protocol:
            protocol = self._factory()
            if isinstance(protocol, Bounded):
                protocol.peer = peer
            return protocol

        patience = HANDSHAKE_S if self._secured else None
        with suppress(OSError):  # no handshake, or gone already
            await self._loop.connect_accepted_socket(
                made, connection, ssl=self._secured, ssl_handshake_timeout=patience
            )


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose servers are doors: uvicorn has no other place for one.

    Args:
        admission: decides who may come in.
    """

    def __init__(self, admission: Admission) -> None:
        super().__init__()
        self._admission = admission

    async def create_server(self, factory: Any, *args: Any, **more: Any) -> Any:  # type: ignore[override]
        """An acceptor where a listening socket is given, as uvicorn does; else asyncio's server."""
        listening = more.get("sock")
        if listening is None:
            return await super().create_server(factory, *args, **more)
        acceptor = Acceptor(self, listening, factory, self._admission, more.get("ssl"))
        acceptor.open(more.get("backlog", 100))
        return acceptor
