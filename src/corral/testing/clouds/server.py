"""Simulated clouds on a local port, each below its name and the path of its API."""

from __future__ import annotations

import http.server
import json
import socket
import struct
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from corral.spec.providers import RENTALS
from corral.testing.clouds.transport import content
from corral.testing.clouds.wire import Request
from corral.testing.clouds.world import Sim

PREFIXES: Final = {name: f"/{name}{urlsplit(rental.url).path}" for name, rental in RENTALS.items()}
BODY_AT_MOST: Final = 4 << 20


class CloudServer(http.server.ThreadingHTTPServer):
    """All simulated clouds behind one port.

    Args:
        sims: clouds by name.
        address: where to listen; port 0 takes a free one.
    """

    daemon_threads = True

    def __init__(
        self, sims: Mapping[str, Sim], address: tuple[str, int] = ("127.0.0.1", 0)
    ) -> None:
        self.sims = dict(sims)
        super().__init__(address, _Handler)

    def url(self, name: str) -> str:
        """The address of one cloud."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}{PREFIXES[name]}"


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        path = unquote(parts.path)
        server = self.server
        size = min(int(self.headers.get("content-length", "0") or 0), BODY_AT_MOST)
        text = self.rfile.read(size)
        sims = server.sims if isinstance(server, CloudServer) else {}
        for name, sim in sims.items():
            if path.startswith(f"{PREFIXES[name]}/"):
                self._answer(sim, path.removeprefix(PREFIXES[name]), parts.query, text)
                return
        self.send_error(404)

    def _answer(self, sim: Sim, path: str, query: str, text: bytes) -> None:
        try:
            body: Any = json.loads(text) if text else None
        except ValueError:
            self.send_error(400)
            return
        headers = {k.lower(): v for k, v in self.headers.items()}
        answer = sim.handle(Request(self.command, path, dict(parse_qsl(query)), headers, body))
        if answer.status == 0:
            # Reset instead of close: the client sees a broken connection at once.
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.close_connection = True
            return
        data = content(answer)
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if "content-type" not in answer.headers:
            self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: what was called is in ``Sim.calls``."""
