"""The API's description: what each operation returns, how one logs in, which scope it needs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from corral.web import schemas
from corral.web.users.scopes import SESSION_ONLY, needed

METHODS: Final = frozenset({"get", "post", "put", "patch", "delete"})
FREE: Final = "/api/login"
SCHEMES: Final = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API token of corral ui token create, with its scopes: read, submit, "
        "administer. See the guide, The page's API.",
    },
    "cookie": {
        "type": "apiKey",
        "in": "cookie",
        "name": "corral_session_PORT",
        "description": "A session of POST /api/login; the name ends with the page's port.",
    },
    "csrf": {
        "type": "apiKey",
        "in": "header",
        "name": "X-CSRF-Token",
        "description": "The session's second secret, which the login answers with the cookie.",
    },
}
TAGS: Final = [
    {"name": name, "description": title}
    for name, title in (
        ("login", "Log-in and tokens"),
        ("view", "The cluster"),
        ("mine", "My work"),
        ("policy", "Accounts, QOS, reservations, licences, scheduler"),
        ("bulk", "Several jobs or nodes"),
        ("jobs", "Jobs"),
        ("nodes", "Nodes"),
        ("corral", "Plan, proof and doctor"),
        ("report", "Reports and cost"),
    )
]
"""The parts of the description, in its order, with their titles."""
SAMPLES: Final = "x-codeSamples"
"""The extension of OpenAPI in which readers of descriptions find examples."""
_SCRIPT: Final = "#!/bin/sh\n#SBATCH --nodes=2\nsrun hostname\n"
_FORM: Final[dict[str, Any]] = {"command": ["hostname"], "nodes": 2, "time": "10m"}
BODIES: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "POST /api/bulk/jobs": {"show": "running", "q": "user=kim sweep"},
        "POST /api/bulk/jobs/cancel": {"targets": ["1000", "2003"]},
        "POST /api/bulk/nodes": {"do": "drain", "names": ["gpu002"], "reason": "new firmware"},
        "POST /api/jobs/preview": _FORM,
        "POST /api/jobs/expected": _FORM,
        "POST /api/jobs/spec": _FORM,
        "POST /api/jobs": {"script": _SCRIPT, "workdir": "/shared", "nodes": 2, "minutes": 10},
        "POST /api/jobs/directives": {"script": _SCRIPT},
        "POST /api/jobs/{job_id}": {"do": "limit", "minutes": 120},
        "POST /api/nodes/{name}": {"do": "drain", "reason": "new firmware"},
        "POST /api/policy/edit": {
            "section": "users",
            "name": "kim",
            "fields": {"limits.gpus": "4"},
            "digest": "9f86d0",
        },
        "POST /api/corral/lint": {"text": "version: 1\nname: lab\n"},
        "POST /api/corral/plan": {"text": "version: 1\nname: lab\n"},
    }
)
"""What the examples send, by operation."""
_VALUES: Final = MappingProxyType(
    {
        "job_id": "12",
        "file": "output",
        "text": "loss",
        "q": "kim",
        "start": "0",
        "end": "65536",
        "/api/corral/reports/{name}": "proof-1790000000",
    }
)
"""Values of parameters in the examples, where they have no other."""
STREAM: Final = "text/event-stream"
FAILED: Final[dict[int | str, dict[str, Any]]] = {
    "4XX": {"model": schemas.Refused, "description": "It was refused: why, and what to do."},
    "5XX": {"model": schemas.Refused, "description": "Slurm, or what else it needs, failed."},
}
"""Answers of all operations; also to a request of the wrong form, which is 422."""


def file_of(media_type: str) -> dict[int | str, dict[str, Any]]:
    """``responses=`` of an operation that returns a file."""
    return {200: {"content": {media_type: {"schema": {"type": "string", "format": "binary"}}}}}


def shapes_of(routers: Iterable[APIRouter]) -> list[Any]:
    """The types of all answers, each once."""
    shapes: list[Any] = [schemas.Refused]
    for route in (route for router in routers for route in router.routes):
        if isinstance(route, APIRoute):
            models = [route.response_model, *(r.get("model") for r in route.responses.values())]
            shapes += [model for model in models if model not in {Any, None, *shapes}]
    return shapes


def describe(app: FastAPI) -> None:
    """Let the description of an application have security schemes and the events of streams."""
    plain = app.openapi

    def secured() -> dict[str, Any]:
        if app.openapi_schema is not None:
            return app.openapi_schema
        made = plain()
        made.setdefault("components", {})["securitySchemes"] = SCHEMES
        for path, item in made["paths"].items():
            for method, operation in item.items():
                if method in METHODS:
                    operation["security"] = _security(method.upper(), path)
                    _kinds(operation["responses"])
                    if needed(method.upper(), path) is not None:
                        source = _example(method.upper(), path, operation)
                        operation[SAMPLES] = [{"lang": "Shell", "source": source}]
        return made

    app.openapi = secured


def _kinds(responses: dict[str, Any]) -> None:
    """FastAPI gives all answers of an operation the kind of the first, and a stream one schema.

    Failures are JSON; a stream has a schema for each event, as of the streams that FastAPI makes.
    """
    for status in FAILED:
        content = responses[str(status)]["content"]
        responses[str(status)]["content"] = {"application/json": content.popitem()[1]}
    content = responses["200"]["content"]
    if STREAM in content:
        event = content[STREAM]["schema"]
        event.pop("type")
        data = {"type": "string", "contentMediaType": "application/json", "contentSchema": event}
        content[STREAM] = {"itemSchema": {"type": "object", "properties": {"data": data}}}


def _security(method: str, path: str) -> list[dict[str, list[str]]]:
    if path.startswith(FREE):
        return []
    session: dict[str, list[str]] = {"cookie": [], "csrf": []}
    scope = needed(method, path)
    if scope is None or f"{method} {path}" in SESSION_ONLY:
        return [session]
    return [{"token": [scope.value]}, session]


def _example(method: str, path: str, operation: Mapping[str, Any]) -> str:
    body = BODIES.get(f"{method} {path}")
    query: list[str] = []
    for each in operation.get("parameters", []):
        value = _VALUES.get(path) or _VALUES.get(each["name"], "gpu002")
        if each["in"] == "path":
            path = path.replace(f"{{{each['name']}}}", value)
        elif each["required"]:
            query.append(f"{each['name']}={value}")
    address = f'"$page{path}{"?" + "&".join(query) if query else ""}"'
    stream = "N" if STREAM in operation["responses"]["200"]["content"] else ""
    sends = f'-H "$json" -d {shlex.quote(json.dumps(body))} ' if body else ""
    verb = "-X POST " if method == "POST" and not body else ""
    return f"curl -s{stream} -H @ci.header {verb}{sends}{address}"
