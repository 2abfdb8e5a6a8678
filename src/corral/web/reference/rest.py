"""Writes docs/reference/rest.md from OpenAPI: ``python -m corral.web.reference.rest``.

A test compares the committed page with ``page()``, and reads each example as the server does.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from corral.web.app import create_app
from corral.web.openapi import FREE, METHODS
from corral.web.settings import BY_COMMANDS, Settings
from corral.web.users.scopes import needed

_INTRODUCTION: Final = """\
# The REST API

<!-- Generated: python -m corral.web.reference.rest > docs/reference/rest.md -->

What `corral ui` serves to programs; the guide [The page's API](../guide/api.md) has tokens,
limits and errors. `GET /api/openapi.json` is the same description for programs. *Scope*: what the
token must have; *session*: no token is enough, a person must be logged in; *none*: nobody need
be. The examples need two variables:

```sh
page=http://127.0.0.1:8765
json='Content-Type: application/json'
```
"""
_TITLES: Final = MappingProxyType(
    {
        "login": "Log-in and tokens",
        "view": "The cluster",
        "mine": "My work",
        "policy": "Accounts, QOS, reservations, licences, scheduler",
        "bulk": "Several jobs or nodes",
        "jobs": "Jobs",
        "nodes": "Nodes",
        "corral": "Plan, proof and doctor",
        "report": "Reports and cost",
    }
)
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
        "POST /api/corral/lint": {"text": "version: 1\nname: lab\n"},
        "POST /api/corral/plan": {"text": "version: 1\nname: lab\n"},
    }
)
"""What the examples send, by operation."""
_VALUES: Final = MappingProxyType(
    {
        "job_id": "12",
        "file": "out",
        "text": "loss",
        "start": "0",
        "end": "65536",
        "/api/corral/reports/{name}": "proof-1790000000",
    }
)
"""Values of parameters in the examples, where they have no other."""


def page() -> str:
    """The page as Markdown."""
    described = description()
    parts = [_INTRODUCTION]
    for tag, title in _TITLES.items():
        parts.append(f"\n## {title}\n")
        for method, path, operation in operations(described):
            if operation["tags"] == [tag]:
                parts += _operation(method, path, operation)
    parts += ["\n## Records\n", *_records(described["components"]["schemas"])]
    return "".join(parts)


def description() -> dict[str, Any]:
    """The OpenAPI description of a server that has all routes."""
    return create_app(Settings(cluster="lab", rest=BY_COMMANDS)).openapi()


def operations(described: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each operation with its method and path, in the order of the routes."""
    for path, item in described["paths"].items():
        yield from ((m.upper(), path, item[m]) for m in item if m in METHODS)


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"\n### {method} {path}\n\n{_plain(operation.get('description', ''))}\n\n"
    scope = needed(method, path)
    free = "none" if path.startswith(FREE) else "session"
    yield f"* Scope: {f'`{scope.value}`' if scope else free}.\n"
    if body := _content(operation.get("requestBody", {})):
        yield f"* Sends: {body}.\n"
    answer = _content(operation["responses"]["200"])
    yield f"* Returns: {answer or 'JSON'}.\n"
    if parameters := operation.get("parameters", []):
        yield "\n| parameter | in | type | meaning |\n|---|---|---|---|\n"
        for each in parameters:
            about = each.get("description") or each["schema"].get("description", "")
            kind = _type(each["schema"]) + ("" if each["required"] else _default(each["schema"]))
            yield f"| `{each['name']}` | {each['in']} | {kind} | {_cell(about)} |\n"
    if scope is not None:
        yield f"\n```sh\n{_example(method, path, operation)}\n```\n"


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
    stream = "N" if "text/event-stream" in operation["responses"]["200"]["content"] else ""
    sends = f'-H "$json" -d {shlex.quote(json.dumps(body))} ' if body else ""
    verb = "-X POST " if method == "POST" and not body else ""
    return f"curl -s{stream} -H @ci.header {verb}{sends}{address}"


def _content(part: Mapping[str, Any]) -> str:
    kinds = part.get("content", {})
    for kind, about in kinds.items():
        schema = about.get("schema", {})
        if kind != "application/json":
            return "server-sent events" if kind == "text/event-stream" else f"`{kind}`"
        return _type(schema) if {"$ref", "type", "anyOf"} & schema.keys() else ""
    return ""


def _records(schemas: Mapping[str, Any]) -> Iterator[str]:
    for name, schema in sorted(schemas.items()):
        if name in {"HTTPValidationError", "ValidationError"}:
            continue
        yield f"\n### {name}\n\n{_plain(schema.get('description', ''))}\n\n"
        if "properties" not in schema:
            yield f"One of {_type(schema)}.\n"
            continue
        yield "| field | type | meaning |\n|---|---|---|\n"
        needs = schema.get("required", ())
        for field, about in schema["properties"].items():
            kind = _type(about) + ("" if field in needs else _default(about))
            yield f"| `{field}` | {kind} | {_cell(about.get('description', ''))} |\n"


def _type(schema: Mapping[str, Any]) -> str:
    match schema:
        case {"$ref": str(ref)}:
            name = ref.rpartition("/")[2]
            return f"[{name}](#{name.lower()})"
        case {"anyOf": options}:
            return " or ".join(_type(option) for option in options)
        case {"enum": values}:
            return ", ".join(f"`{json.dumps(value)}`" for value in values)
        case {"type": "array", "items": item}:
            return f"list of {_type(item)}"
        case _:
            return str(schema.get("type", "any"))


def _default(schema: Mapping[str, Any]) -> str:
    return f", default `{json.dumps(schema['default'])}`" if "default" in schema else ", optional"


def _plain(text: str) -> str:
    paragraphs = text.strip().split("\n\n")
    shown = [part for part in paragraphs if not part.startswith(("Raises:", "Args:"))]
    return "\n\n".join(shown).replace("``", "`")


def _cell(text: str) -> str:
    return " ".join(_plain(text).split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page())
