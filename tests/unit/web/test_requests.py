"""Requests that are wrong as such: by the server itself, over a socket, and by the application."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.web.listener.request_checks import RequestChecks
from tests.unit.web.fake import FakeRest, Page


def guarded(*headers: tuple[bytes, bytes], version: str = "1.1") -> int:
    """The status of a POST with these headers."""
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/login",
        "http_version": version,
        "headers": [(b"host", b"127.0.0.1:8765"), *headers],
    }
    asyncio.run(RequestChecks(app)(scope, receive, send))
    return sent[0]["status"]


CHUNKED = (b"transfer-encoding", b"chunked")


def test_a_body_has_one_length() -> None:
    assert guarded((b"content-length", b"5")) == 200
    assert guarded(CHUNKED) == 200
    assert guarded((b"content-length", b"5"), CHUNKED) == 400
    assert guarded(CHUNKED, (b"Content-Length", b"0")) == 400
    assert guarded(CHUNKED, version="1.0") == 400


def deep(depth: int, kind: str) -> str:
    opening, inner, closing = {"list": ("[", "1", "]"), "dict": ('{"a":', "1", "}")}[kind]
    return f'{{"token": {opening * depth}{inner}{closing * depth}, "script": "x", "text": "x"}}'


@pytest.mark.parametrize("depth", [100, 900, 1000, 5000, 100_000])
@pytest.mark.parametrize("kind", ["list", "dict"])
def test_deep_json_is_a_wrong_request(depth: int, kind: str) -> None:
    async def work() -> list[tuple[str, int, dict[str, Any]]]:
        async with Page(FakeRest()) as page:
            await page.login()
            answered: list[tuple[str, int, dict[str, Any]]] = []
            headers = {"x-csrf-token": page.csrf, "content-type": "application/json"}
            for path, methods in page.app.openapi()["paths"].items():
                if "post" not in methods:
                    continue
                real = path.replace("{job_id}", "1").replace("{name}", "node0")
                reply = await page.http.post(real, content=deep(depth, kind), headers=headers)
                answered.append((path, reply.status_code, reply.json()))
            return answered

    replies = asyncio.run(work())
    assert len(replies) > 8
    for path, status, body in replies:
        assert status < 500, (path, status)
        if status == 400 and depth > 2000:
            assert body["error"]["code"] == "usage", path
            assert "nested too deeply" in body["error"]["message"]
    if depth > 2000:
        assert sum(status == 400 for _, status, _ in replies) >= 4


@settings(max_examples=20, deadline=None)
@given(st.sampled_from([b"", b"{", b"[1", b"\xff", b"nul", b'{"token": "\xed\xa0\x80"}']))
def test_what_is_no_json_is_a_wrong_request(body: bytes) -> None:
    async def work() -> Any:
        async with Page(FakeRest()) as page:
            headers = {"content-type": "application/json"}
            return await page.http.post("/api/login", content=body, headers=headers)

    reply = asyncio.run(work())
    assert reply.status_code in (400, 422)
    assert json.loads(reply.text)["error"]["code"] == "usage"


@pytest.mark.parametrize(("method", "path", "code"), [
    ("GET", "/api/nothing", "not-found"), ("DELETE", "/api/login", "usage"),
    ("POST", "/", "usage"),
])  # fmt: skip
def test_the_code_fits_the_status(method: str, path: str, code: str) -> None:
    async def work() -> Any:
        async with Page(FakeRest()) as page:
            return await page.http.request(method, path)

    assert asyncio.run(work()).json()["error"]["code"] == code
