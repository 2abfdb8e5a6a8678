"""JSON over HTTP to the control server of a tailnet, and the key for it.

The standard library's client will do (docs/guide/mesh.md): eight calls, one at a time. Keys come
from the environment or a file, and are in no error.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, cast

from corral.errors import BAD_JSON, Code, CorralError
from corral.threads import abandonable

TIMEOUT_S: Final = 20.0
ATTEMPT_S: Final = 60.0
"""Of one complete call: urllib's limit is per read, and single bytes may arrive for ever."""

TRIES: Final = 3
ANSWER_MAX: Final = 16 << 20
_HINTS: Final[Mapping[int, str]] = {
    401: "the key is wrong, or has expired: make a new one",
    403: "the key may not do this: an OAuth client needs the scopes auth_keys and devices:core "
    "with the cluster's tag, and policy_file for `corral mesh policy --apply`",
    404: "check network.mesh.url: the server knows no such thing",
    429: "too many requests: wait a minute and run the same command again",
}


def secret(environment: Mapping[str, str], name: str) -> str:
    """A secret by the environment's ``NAME``, or by the file that ``NAME_FILE`` names; "" for none.

    Raises:
        CorralError: NOT_FOUND, the file cannot be read; NOT_GOOD, others can read it.
    """
    if environment.get(name):
        return environment[name].strip()
    file = environment.get(f"{name}_FILE", "")
    if not file:
        return ""
    path = Path(file).expanduser()
    try:
        mode = path.stat().st_mode
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CorralError(
            Code.NOT_FOUND, f"{name}_FILE: {path} cannot be read: {error}", hint="check the path"
        ) from error
    if mode & 0o077:
        raise CorralError(
            Code.NOT_GOOD, f"{path} can be read by others", hint=f"run: chmod 600 {path}"
        )
    return text


@dataclass(slots=True)
class Answer:
    """A good answer: its fields, its text, its ETag."""

    fields: Mapping[str, Any]
    text: str
    etag: str


class _Stay(urllib.request.HTTPRedirectHandler):
    """No redirect is followed: it would send the key to another server."""

    def redirect_request(  # noqa: PLR0917  # urllib's own signature
        self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any
    ) -> None:
        """Refuse."""


_OPENER: Final = urllib.request.build_opener(_Stay)


class Http:
    """JSON over HTTP, one request at a time, in a thread."""

    def __init__(self, base: str) -> None:
        self._base = base.rstrip("/")

    async def ask(
        self,
        method: str,
        path: str,
        *,
        body: object | None = None,
        headers: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
    ) -> Answer:
        """One call. Reading is tried again after a network failure or a 5xx; nothing else is.

        Raises:
            CorralError: PROVIDER_FAILED; its ``status`` is the HTTP status, None without an answer.
        """
        tries = TRIES if method == "GET" else 1
        for left in range(tries - 1, -1, -1):
            try:
                async with asyncio.timeout(ATTEMPT_S):
                    return await abandonable(self._once, method, path, body, headers, form)
            except TimeoutError as error:
                why = f"its response is not complete after {ATTEMPT_S:.0f} s"
                raise self._silent(method, path, why) from error
            except CorralError as error:
                transient = error.status is None or error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
                if not left or not transient:
                    raise
            await asyncio.sleep(1)
        raise AssertionError  # the loop returns or raises

    def _once(
        self,
        method: str,
        path: str,
        body: object | None,
        headers: Mapping[str, str] | None,
        form: Mapping[str, str] | None,
    ) -> Answer:
        data, kind = None, ""
        if form is not None:
            data, kind = urllib.parse.urlencode(form).encode(), "application/x-www-form-urlencoded"
        elif body is not None:
            data, kind = json.dumps(body).encode(), "application/json"
        request = urllib.request.Request(f"{self._base}{path}", data, method=method)  # noqa: S310  # the pattern of network.mesh.url takes http and https only
        for name, value in ({"Content-Type": kind} if kind else {}).items():
            request.add_header(name, value)
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        what = f"{method} {self._base}{path.partition('?')[0]}"
        try:
            with _OPENER.open(request, timeout=TIMEOUT_S) as answer:
                content = answer.read(ANSWER_MAX)
                if answer.length:
                    raise ValueError(f"{answer.length} bytes are missing")
                text = content.decode("utf-8", "replace")
                return Answer(_fields(text), text, answer.headers.get("ETag", ""))
        except urllib.error.HTTPError as error:
            raise _refused(what, error) from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise self._silent(method, path, str(getattr(error, "reason", error))) from error

    def _silent(self, method: str, path: str, why: str) -> CorralError:
        return CorralError(
            Code.PROVIDER_FAILED,
            f"the control server did not answer: {why}",
            command=f"{method} {self._base}{path.partition('?')[0]}",
            hint="is network.mesh.url right, and does this machine reach it?",
        )


def _fields(text: str) -> Mapping[str, Any]:
    try:
        data = json.loads(text)
    except BAD_JSON:
        return {}
    return cast("Mapping[str, Any]", data) if isinstance(data, dict) else {}


def _refused(what: str, error: urllib.error.HTTPError) -> CorralError:
    text = error.read(4096).decode("utf-8", "replace")
    message = _fields(text).get("message") or text.strip()[:300] or error.reason
    return CorralError(
        Code.PROVIDER_FAILED,
        f"the control server refused: {message}",
        command=what,
        status=error.code,
        tail=text.strip()[:1000],
        hint=_HINTS.get(error.code, "see the server's message"),
    )
