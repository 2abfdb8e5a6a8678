"""A server that answers single bytes: each read is quick, and all of them take for ever."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Generator

GAP_S = 0.05
LONGEST_S = 8.0
"""Then it ends a connection: who had waited for it fails a test, and does not hang it."""
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"


@contextlib.contextmanager
def dripping(first: bytes = HEAD, byte: bytes = b" ") -> Generator[int]:
    """Listen on loopback until the end.

    Args:
        first: what comes at once.
        byte: what comes again and again behind it.

    Yields:
        the port.
    """
    ended = threading.Event()

    def drip(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            until = time.monotonic() + LONGEST_S
            connection.sendall(first)
            while not ended.wait(GAP_S) and time.monotonic() < until:
                connection.sendall(byte)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=drip, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            ended.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(5)
