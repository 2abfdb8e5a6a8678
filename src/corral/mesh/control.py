"""The control server of a tailnet: Tailscale's API v2 and headscale's v1, over HTTP.

From Tailscale's API description and headscale 0.29's swagger.

The standard library's client (``runtime/http_client``) will do (docs/guide/mesh.md): eight calls,
one at a time, and a loop of three attempts; httpx and tenacity are of the extra for clouds. Keys
come from the environment or a file, and are in no error.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Protocol, cast

from corral import variables
from corral.errors import BAD_JSON, Code, CorralError
from corral.runtime.http_client import HttpClient, RefusedError
from corral.runtime.threads import abandonable
from corral.tables import read_table

TIMEOUT_S: Final = 20.0
ATTEMPT_S: Final = 60.0
"""Of one complete call: the client's limit is per read, and single bytes may arrive for ever."""

TRIES: Final = 3
ANSWER_MAX: Final = 16 << 20


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


class Http:
    """JSON over HTTP, one request at a time, in a thread."""

    def __init__(self, base: str) -> None:
        self._base = base.rstrip("/")
        # A redirect would send the key to another server.
        self._client = HttpClient(redirects=False)

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
        sent = ({"Content-Type": kind} if kind else {}) | dict(headers or {})
        what = f"{method} {self._base}{path.partition('?')[0]}"
        url = f"{self._base}{path}"  # the pattern of network.mesh.url takes http and https only
        try:
            answer = self._client.send(
                *(method, url, data),
                headers=sent,
                timeout_s=TIMEOUT_S,
                within_s=2 * ATTEMPT_S,  # ``ask`` waits for it no longer than once
                at_most=ANSWER_MAX,
            )
        except RefusedError as error:
            raise _refused(what, error) from error
        except (OSError, ValueError) as error:
            raise self._silent(method, path, str(error)) from error
        if answer.missing:
            raise self._silent(method, path, f"{answer.missing} bytes are missing")
        text = answer.body.decode("utf-8", "replace")
        return Answer(_fields(text), text, answer.headers.get("etag", ""))

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


@cache
def control_hints() -> Mapping[int, str]:
    """What to do by the status of a response: the table ``control_hints.yaml``."""
    return read_table("corral.mesh", "control_hints.yaml", dict[int, str])


def _refused(what: str, error: RefusedError) -> CorralError:
    text = error.body[:4096].decode("utf-8", "replace")
    message = _fields(text).get("message") or text.strip()[:300] or error.reason
    return CorralError(
        Code.PROVIDER_FAILED,
        f"the control server refused: {message}",
        command=what,
        status=error.status,
        tail=text.strip()[:1000],
        hint=control_hints().get(error.status, "see the server's message"),
    )


TAILSCALE: Final = "api.tailscale.com"


@dataclass(frozen=True, slots=True)
class Device:
    """One machine as the control server knows it.

    Attributes:
        id: what the API calls it.
        hostname: the name that the machine reports.
        address: its IPv4 address in the tailnet.
        tags: its tags.
        online: it is connected to the control server, None when the server does not report it.
        last_seen: RFC 3339, "" when unknown.
        expires: when its node key expires, "" for never.
        expired: its node key has expired.
    """

    id: str
    hostname: str
    address: str
    tags: tuple[str, ...]
    online: bool | None
    last_seen: str
    expires: str
    expired: bool


@dataclass(frozen=True, slots=True)
class Policy:
    """The access policy as the server keeps it, and the mark that a write must carry."""

    text: str
    etag: str = ""


class Tailnet(Protocol):
    """What Corral asks of a control server."""

    async def mint(self, tag: str, node: str, minutes: int) -> str:
        """Make a tagged key that one machine can join with, once, in the next minutes."""
        ...

    async def devices(self, tag: str) -> tuple[Device, ...]:
        """Machines with the tag."""
        ...

    async def remove(self, device: Device) -> None:
        """Take a machine out; one that is gone already is not an error."""
        ...

    async def policy(self) -> Policy | None:
        """The access policy, None when the server has none: then all reach all."""
        ...

    async def set_policy(self, policy: Policy) -> None:
        """Replace the access policy; refused when it has changed since it was read."""
        ...


def tailnet(url: str, environment: Mapping[str, str] | None = None) -> Tailnet:
    """The control server at a base URL, with the key from the environment.

    Args:
        url: base URL.
        environment: names and values; None: this process's.

    Raises:
        CorralError: NOT_FOUND, no key; what is wrong with a key's file.
    """
    given = os.environ if environment is None else environment
    if urllib.parse.urlsplit(url).hostname == TAILSCALE:
        return _Tailscale(url, _tailscale_secret(given))
    return _Headscale(url, _needed(given, url, variables.HEADSCALE_KEY))


def _needed(environment: Mapping[str, str], url: str, *names: str) -> str:
    for name in names:
        value = secret(environment, name)
        if value:
            return value
    raise CorralError(
        Code.NOT_FOUND,
        f"there is no key for the control server {url}",
        hint=f"set {' or '.join(names)}, or {names[0]}_FILE to a file with it (mode 0600)",
    )


@dataclass(frozen=True, slots=True)
class _Secret:
    """An API key, or an OAuth client with its secret; never shown."""

    key: str = field(default="", repr=False)
    client: str = ""
    client_secret: str = field(default="", repr=False)


def _tailscale_secret(given: Mapping[str, str]) -> _Secret:
    client = secret(given, variables.TAILSCALE_CLIENT)
    if client:
        client_secret = secret(given, variables.TAILSCALE_SECRET)
        if not client_secret:
            raise CorralError(
                Code.NOT_FOUND,
                f"{variables.TAILSCALE_CLIENT} is set, its secret is not",
                hint=f"set {variables.TAILSCALE_SECRET}, or {variables.TAILSCALE_SECRET}_FILE",
            )
        return _Secret(client=client, client_secret=client_secret)
    names = (variables.TAILSCALE_KEY, variables.TAILSCALE_CLIENT)
    return _Secret(key=_needed(given, f"https://{TAILSCALE}", *names))


class _Tailscale:
    """API v2 with an API key or an OAuth client; the tailnet is the credential's own."""

    def __init__(self, base: str, given: _Secret) -> None:
        self._http = Http(f"{base.rstrip('/')}/api/v2")
        self._secret = given
        self._token, self._until = "", 0.0

    async def _headers(self) -> dict[str, str]:
        if self._secret.key:
            pair = base64.b64encode(f"{self._secret.key}:".encode()).decode()
            return {"Authorization": f"Basic {pair}"}
        if time.monotonic() >= self._until:
            form = {
                "grant_type": "client_credentials",
                "client_id": self._secret.client,
                "client_secret": self._secret.client_secret,
            }
            answer = await self._http.ask("POST", "/oauth/token", form=form)
            self._token = str(answer.fields.get("access_token", ""))
            self._until = time.monotonic() + float(answer.fields.get("expires_in", 3600)) - 60
        return {"Authorization": f"Bearer {self._token}"}

    async def mint(self, tag: str, node: str, minutes: int) -> str:
        create = {"reusable": False, "ephemeral": False, "preauthorized": True, "tags": [tag]}
        body = {
            "capabilities": {"devices": {"create": create}},
            "expirySeconds": minutes * 60,
            "description": f"corral {node}"[:50],
        }
        path = "/tailnet/-/keys"
        answer = await self._http.ask("POST", path, body=body, headers=await self._headers())
        return _key(answer.fields.get("key"))

    async def devices(self, tag: str) -> tuple[Device, ...]:
        path = "/tailnet/-/devices?fields=all"
        answer = await self._http.ask("GET", path, headers=await self._headers())
        return tuple(
            _of_tailscale(d) for d in _listed(answer, "devices") if tag in (d.get("tags") or ())
        )

    async def remove(self, device: Device) -> None:
        await _gone(self._http, f"/device/{_id(device)}", await self._headers())

    async def policy(self) -> Policy | None:
        headers = {**await self._headers(), "Accept": "application/hujson"}
        answer = await self._http.ask("GET", "/tailnet/-/acl", headers=headers)
        return Policy(answer.text, answer.etag)

    async def set_policy(self, policy: Policy) -> None:
        headers = {**await self._headers(), "If-Match": policy.etag}
        body = json.loads(policy.text)
        await self._http.ask("POST", "/tailnet/-/acl", body=body, headers=headers)


def _listed(answer: Answer, name: str) -> list[dict[str, Any]]:
    """A list of the response; another response is an error, never a tailnet without machines."""
    entries = answer.fields.get(name)
    if not isinstance(entries, list) or not all(
        isinstance(d, dict) for d in cast("list[Any]", entries)
    ):
        raise _strange(answer, name)
    return cast("list[dict[str, Any]]", entries)


def _strange(answer: Answer, name: str) -> CorralError:
    return CorralError(
        Code.PARSE_FAILED,
        f"the control server's response has no {name}",
        tail=answer.text[:300],
        hint="is network.mesh.url the control server, and not a login page or a proxy?",
    )


class _Headscale:
    """headscale's API v1 (0.28 and newer: keys may have tags and no user)."""

    def __init__(self, base: str, key: str) -> None:
        self._http = Http(f"{base.rstrip('/')}/api/v1")
        self._headers = {"Authorization": f"Bearer {key}"}

    async def mint(self, tag: str, node: str, minutes: int) -> str:
        until = datetime.now(UTC) + timedelta(minutes=minutes)
        body = {
            "reusable": False,
            "ephemeral": False,
            "expiration": until.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "aclTags": [tag],
        }
        answer = await self._http.ask("POST", "/preauthkey", body=body, headers=self._headers)
        made = cast("dict[str, Any]", answer.fields.get("preAuthKey") or {})
        return _key(made.get("key"))

    async def devices(self, tag: str) -> tuple[Device, ...]:
        answer = await self._http.ask("GET", "/node", headers=self._headers)
        return tuple(
            _of_headscale(d) for d in _listed(answer, "nodes") if tag in (d.get("tags") or ())
        )

    async def remove(self, device: Device) -> None:
        await _gone(self._http, f"/node/{_id(device)}", self._headers)

    async def policy(self) -> Policy | None:
        try:
            answer = await self._http.ask("GET", "/policy", headers=self._headers)
        except CorralError as error:
            # 0.29 answers so with status 500.
            if "acl policy not found" in error.message:
                return None
            raise
        text = answer.fields.get("policy")
        if not isinstance(text, str):
            raise _strange(answer, "policy")
        return Policy(text) if text.strip() else None

    async def set_policy(self, policy: Policy) -> None:
        body = {"policy": policy.text}
        await self._http.ask("PUT", "/policy", body=body, headers=self._headers)


async def _gone(http: Http, path: str, headers: Mapping[str, str]) -> None:
    try:
        await http.ask("DELETE", path, headers=headers)
    except CorralError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise


def _id(device: Device) -> str:
    return urllib.parse.quote(device.id, safe="")


def _key(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise CorralError(
            Code.PARSE_FAILED,
            "the control server made a key and did not return it",
            hint="is it Tailscale's API v2 or headscale 0.28 or newer?",
        )
    return value.strip()


def _of_tailscale(fields: Mapping[str, Any]) -> Device:
    never = bool(fields.get("keyExpiryDisabled"))
    expires = "" if never else str(fields.get("expires") or "")
    return Device(
        id=str(fields.get("nodeId") or fields.get("id") or ""),
        hostname=str(fields.get("hostname") or ""),
        address=_ipv4(fields.get("addresses")),
        tags=tuple(fields.get("tags") or ()),
        online=fields.get("connectedToControl"),
        last_seen=str(fields.get("lastSeen") or ""),
        expires=expires,
        expired=_past(expires),
    )


def _of_headscale(fields: Mapping[str, Any]) -> Device:
    expires = str(fields.get("expiry") or "")
    expires = "" if expires.startswith("0001-") else expires
    return Device(
        id=str(fields.get("id") or ""),
        hostname=str(fields.get("name") or ""),
        address=_ipv4(fields.get("ipAddresses")),
        tags=tuple(fields.get("tags") or ()),
        online=bool(fields.get("online")),
        last_seen=str(fields.get("lastSeen") or ""),
        expires=expires,
        expired=_past(expires),
    )


def _ipv4(value: object) -> str:
    addresses = cast("list[str]", value) if isinstance(value, list) else []
    return next((str(a) for a in addresses if ":" not in str(a)), "")


def _past(moment: str) -> bool:
    if not moment:
        return False
    try:
        return datetime.fromisoformat(moment) <= datetime.now(UTC)
    except (ValueError, TypeError):
        return False
