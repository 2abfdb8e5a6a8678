"""What every request passes: right host, right origin, small body, safe headers."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from corral.web.clusters.others import READER, OtherClusters
from corral.web.slurm.slurmrest import dumps

MAX_BODY: Final = 2 << 20
_LOOPBACK: Final = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.I)
_PORT: Final = re.compile(r":\d{1,5}$")
_UNSAFE: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_POLICY: Final = b"content-security-policy"
_UNFRAMED: Final = (b"x-frame-options", b"DENY")
_COMMON: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=(), payment=()"),
    # Servers on other ports are one site: without this their frames may share a process with ours.
    (b"origin-agent-cluster", b"?1"),
)
HEADERS: Final = ((_POLICY, OtherClusters({}).page_policy()), _UNFRAMED, *_COMMON)


# Two years without the page end it. Not for subdomains: they are somebody else's.
_STRICT: Final = (b"strict-transport-security", b"max-age=63072000")


class RequestChecks:
    """ASGI middleware in front of everything.

    The Host header must be a loopback name or a declared one, else a page somewhere else could
    reach this server by a name that it controls (DNS rebinding). A request that changes something
    must come from this page's own origin, and carries a token besides (``web.state``).

    Args:
        app: what it protects.
        names: declared names, without ports: a reverse proxy may listen on any.
        hsts: a browser that came by TLS must come to this name by TLS alone (RFC 6797).
        clusters: the other clusters whose pages this one frames, and that may frame its reader.
    """

    def __init__(
        self,
        app: ASGIApp,
        names: tuple[str, ...] = (),
        *,
        hsts: bool = True,
        clusters: OtherClusters | None = None,
    ) -> None:
        others = clusters or OtherClusters({})
        self._headers = ((_POLICY, others.page_policy()), _UNFRAMED, *_COMMON)
        # No X-Frame-Options: it has no list of origins, and frame-ancestors has.
        self._of_reader = ((_POLICY, others.reader_policy()), *_COMMON) if others else self._headers
        self._app = app
        self._names = frozenset(name.lower() for name in names)
        self._hsts = hsts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        asked = {k.lower(): v.decode("latin-1") for k, v in scope["headers"]}
        old = scope.get("http_version") == "1.0"  # which has no chunks
        refused = self._refusal(scope["method"], asked, old=old)
        if refused:
            await reply(send, *refused, (b"connection", b"close"))
            return
        strict = self._hsts and scope.get("scheme") == "https"
        usual = self._of_reader if scope["path"] == READER else self._headers
        headers = (*usual, _STRICT) if strict else usual
        await self._app(scope, _Limited(receive), _with_headers(send, scope["path"], headers))

    def _refusal(
        self, method: str, headers: dict[bytes, str], *, old: bool
    ) -> tuple[int, str] | None:
        # Two lengths of one body: a reverse proxy may read another request out of it than we do.
        if b"transfer-encoding" in headers and (b"content-length" in headers or old):
            return 400, "a body has one length: Content-Length or chunks"
        host = headers.get(b"host", "").lower()
        if not (_LOOPBACK.fullmatch(host) or name_of(host) in self._names):
            return 421, "this server does not go by that name"
        if method not in _UNSAFE:
            return None
        origin = headers.get(b"origin", "")
        if origin and urlsplit(origin).netloc.lower() != host:
            return 403, "this request comes from another page"
        length = headers.get(b"content-length", "")
        if length.isdigit() and int(length) > MAX_BODY:
            return 413, "too much"
        return None


def name_of(host: str) -> str:
    """A Host header without its port: ``[fe80::1]`` of ``[fe80::1]:8765``."""
    return _PORT.sub("", host.lower())


def port_of(host: str) -> str:
    """A Host header's port, "" where it has none."""
    match = _PORT.search(host)
    return match.group()[1:] if match else ""


class _Limited:
    """A request body that ends in an error beyond the limit."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._size = 0

    async def __call__(self) -> Message:
        message = await self._receive()
        self._size += len(message.get("body", b""))
        if self._size > MAX_BODY:
            return {"type": "http.disconnect"}
        return message


def _with_headers(
    send: Send, path: str, always: tuple[tuple[bytes, bytes], ...]
) -> Callable[[Message], Awaitable[None]]:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers: list[tuple[bytes, bytes]] = list(message.get("headers", []))
            names = {name for name, _ in headers}
            extra = [*always]
            if path.startswith("/api/") and b"cache-control" not in names:
                extra.append((b"cache-control", b"no-store"))
            message["headers"] = headers + [pair for pair in extra if pair[0] not in names]
        await send(message)

    return sending


async def reply(send: Send, status: int, message: str, *more: tuple[bytes, bytes]) -> None:
    """An answer with an error of no route's."""
    body: dict[str, Any] = {"error": {"code": "refused", "message": message}}
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(b"content-type", b"application/json"), *more, *HEADERS],
        }
    )
    await send({"type": "http.response.body", "body": dumps(body)})
