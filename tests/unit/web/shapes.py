"""What the server answers, compared with what its description declares for the operation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from re import Pattern
from typing import Any

import httpx
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from starlette.routing import compile_path

from corral.web import schemas
from corral.web.app import ROUTES


def held(shape: Any, data: object) -> None:
    """Fails where data has a field too many, too few, or of another type."""
    TypeAdapter(shape).validate_json(json.dumps(data), strict=True, extra="forbid")


def routes() -> Iterator[APIRoute]:
    """All operations of the API."""
    every = (route for part in ROUTES for route in part.router.routes)
    yield from (route for route in every if isinstance(route, APIRoute))


def shape_of(route: APIRoute) -> Any:
    """What an operation returns: None where that is a file, and of a stream what an event is."""
    listed = route.responses.get(200, {}).get("model")
    return listed if listed is not None else route.response_model


@cache
def _compiled() -> list[tuple[str, Pattern[str], Any]]:
    return [
        (method, compile_path(route.path)[0], shape_of(route))
        for route in routes()
        for method in route.methods or ()
    ]


async def compare(reply: httpx.Response) -> None:
    """A hook of httpx: an answer in JSON has the type of its operation."""
    if reply.headers.get("content-type") != "application/json":
        return
    await reply.aread()
    if reply.is_error:
        held(schemas.Refused, reply.json())
        return
    method, path = reply.request.method, reply.request.url.path
    for asked, pattern, shape in _compiled():
        if asked == method and pattern.fullmatch(path):
            held(shape, reply.json())
            return
    assert path == "/api/openapi.json", (method, path)
