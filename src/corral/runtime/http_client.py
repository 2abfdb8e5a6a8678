"""HTTP of the base install, by the standard library: one request at a time, in a thread.

The clouds' clients, which have httpx and tenacity of an extra, are in ``providers/cloud/client``;
docs/decisions/0010-typer-pydantic-ruamel.md has why this one does without. Nothing here makes a
request again.
"""

from __future__ import annotations

import http.client
import io
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from http.cookiejar import CookieJar
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

REFUSAL_MAX: Final = 1 << 16
"""How much is read of what a server writes about a refusal."""


@dataclass(frozen=True, slots=True)
class Response:
    """A good answer.

    Attributes:
        body: as much of it as was asked for.
        headers: its headers; names in lower case.
        missing: how many bytes that were announced are not in the body.
    """

    body: bytes
    headers: Mapping[str, str]
    missing: int


class RefusedError(OSError):
    """The server answered with a status of 300 or more that is not followed.

    Attributes:
        status: the status.
        reason: the status in words, such as ``Not Found``.
        body: the beginning of the answer.
    """

    def __init__(self, status: int, reason: str, body: bytes) -> None:
        super().__init__(f"HTTP Error {status}: {reason}")
        self.status, self.reason, self.body = status, reason, body


class NoResponseError(OSError):
    """No answer, or one that is not HTTP or broke off; the text has why.

    Attributes:
        sent: the request was sent completely: the server may have done what it asks for.
    """

    def __init__(self, why: str, *, sent: bool = False) -> None:
        super().__init__(why)
        self.sent = sent


@dataclass(frozen=True, slots=True)
class _Deadline:
    """When a request ends, however slowly its answer arrives."""

    seconds: float
    at: float

    @classmethod
    def after(cls, seconds: float) -> _Deadline:
        return cls(seconds, time.monotonic() + seconds)

    def left(self) -> float:
        """Seconds until then.

        Raises:
            TimeoutError: it is over.
        """
        left = self.at - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"its answer is not complete after {self.seconds:g} s")
        return left


class _TimedStream(io.RawIOBase):
    """What a socket receives, until the deadline: each read has a separate limit as well."""

    def __init__(self, connected: socket.socket, deadline: _Deadline) -> None:
        self._socket, self._deadline = connected, deadline
        self._each = connected.gettimeout()
        # The socket stays open until this is closed, also where urllib closes it before.
        self._stream = connected.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        left = self._deadline.left()
        self._socket.settimeout(left if self._each is None else min(self._each, left))
        try:
            return self._stream.readinto(buffer)
        except TimeoutError:
            self._deadline.left()
            raise

    def close(self) -> None:
        self._stream.close()
        super().close()


@dataclass(frozen=True, slots=True)
class _TimedSocket:
    """As much of a socket as an answer of ``http.client`` uses."""

    connected: socket.socket
    deadline: _Deadline

    def makefile(self, _: str) -> io.BufferedReader:
        return io.BufferedReader(_TimedStream(self.connected, self.deadline))


def _answer(
    deadline: _Deadline, connected: socket.socket, *args: Any, **kwargs: Any
) -> http.client.HTTPResponse:
    timed = cast("socket.socket", _TimedSocket(connected, deadline))
    return http.client.HTTPResponse(timed, *args, **kwargs)


class _Timed(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Connections whose answers come before the deadline, or not at all."""

    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._of(http.client.HTTPConnection), req)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._of(http.client.HTTPSConnection), req)

    def _of(self, kind: type[http.client.HTTPConnection]) -> Any:
        return partial(self._made, kind)

    def _made(self, kind: type[http.client.HTTPConnection], host: str, **options: Any) -> Any:
        timeout = min(options["timeout"], self._deadline.left())
        made = kind(host, **{**options, "timeout": timeout})
        made.response_class = partial(_answer, self._deadline)  # type: ignore[assignment]
        return made


class _Stay(urllib.request.HTTPRedirectHandler):
    """No redirect is followed."""

    def redirect_request(  # noqa: PLR0917  # urllib's own signature
        self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any
    ) -> None:
        """None, for which urllib raises HTTPError."""


class HttpClient:
    """Sends requests."""

    def __init__(
        self, *, redirects: bool = True, proxies: bool = True, cookies: bool = False
    ) -> None:
        """Choose what a request may do.

        Args:
            redirects: follow them; they would carry a key to another server.
            proxies: those of the environment; they would get what is sent to this machine.
            cookies: keep them from one request to the next.
        """
        self._redirects, self._proxies = redirects, proxies
        self._cookies = CookieJar() if cookies else None

    def _opener(self, deadline: _Deadline) -> urllib.request.OpenerDirector:
        """Of one request: its handlers keep the deadline."""
        handlers: list[urllib.request.BaseHandler] = [_Timed(deadline)]
        handlers += [] if self._redirects else [_Stay()]
        handlers += [] if self._proxies else [urllib.request.ProxyHandler({})]
        if self._cookies is not None:
            handlers.append(urllib.request.HTTPCookieProcessor(self._cookies))
        return urllib.request.build_opener(*handlers)

    def send(  # the parts of a request
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float,
        within_s: float,
        at_most: int,
    ) -> Response:
        """One request; blocks.

        Args:
            method: such as GET.
            url: http or https: the caller's pattern allows no other scheme.
            body: what is sent.
            headers: its headers.
            timeout_s: for the connection and for each read.
            within_s: for all of it, redirects included: single bytes could arrive for ever.
            at_most: how many bytes of the answer are read.

        Raises:
            RefusedError: the server refused.
            NoResponseError: it did not answer.
        """
        request = urllib.request.Request(url, body, dict(headers or {}), method=method)  # noqa: S310
        try:
            opener = self._opener(_Deadline.after(within_s))
            with opener.open(request, timeout=timeout_s) as answer:
                content = answer.read(at_most)
                headers = {name.lower(): value for name, value in answer.headers.items()}
                return Response(content, headers, answer.length or 0)
        except urllib.error.HTTPError as error:
            raise RefusedError(error.code, str(error.reason), _beginning(error)) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            # ValueError: a redirect to what is not an address (http://[x/, http://..a/).
            why = str(getattr(error, "reason", "")) or str(error) or type(error).__name__
            # urllib wraps what happens until the request is sent, and nothing after it.
            raise NoResponseError(why, sent=not isinstance(error, urllib.error.URLError)) from error


def _beginning(error: urllib.error.HTTPError) -> bytes:
    """What the server wrote about a refusal; the status counts where that breaks off."""
    with error:
        try:
            return error.read(REFUSAL_MAX)
        except (OSError, http.client.HTTPException):
            return b""
