"""HTTP of the base install, by the standard library: one request at a time, in a thread.

The clouds' clients, which have httpx and tenacity of an extra, are in ``providers/cloud/client``;
docs/decisions/0010-typer-pydantic-ruamel.md has why this one does without. Nothing here makes a
request again.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

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
    """No answer, or one that is not HTTP or broke off; the text has why."""


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
        handlers: list[urllib.request.BaseHandler] = []
        handlers += [] if redirects else [_Stay()]
        handlers += [] if proxies else [urllib.request.ProxyHandler({})]
        handlers += [urllib.request.HTTPCookieProcessor()] if cookies else []
        self._opener = urllib.request.build_opener(*handlers)

    def send(  # the parts of a request
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float,
        at_most: int,
    ) -> Response:
        """One request; blocks.

        Args:
            method: such as GET.
            url: http or https: the caller's pattern allows no other scheme.
            body: what is sent.
            headers: its headers.
            timeout_s: for the connection and for each read: single bytes may arrive for ever.
            at_most: how many bytes of the answer are read.

        Raises:
            RefusedError: the server refused.
            NoResponseError: it did not answer.
        """
        request = urllib.request.Request(url, body, dict(headers or {}), method=method)  # noqa: S310
        try:
            with self._opener.open(request, timeout=timeout_s) as answer:
                content = answer.read(at_most)
                headers = {name.lower(): value for name, value in answer.headers.items()}
                return Response(content, headers, answer.length or 0)
        except urllib.error.HTTPError as error:
            raise RefusedError(error.code, str(error.reason), _beginning(error)) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            # ValueError: a redirect to what is not an address (http://[x/, http://..a/).
            why = str(getattr(error, "reason", "")) or str(error) or type(error).__name__
            raise NoResponseError(why) from error


def _beginning(error: urllib.error.HTTPError) -> bytes:
    """What the server wrote about a refusal; the status counts where that breaks off."""
    with error:
        try:
            return error.read(REFUSAL_MAX)
        except (OSError, http.client.HTTPException):
            return b""
