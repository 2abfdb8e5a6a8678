"""Writes docs/reference/rest.md from OpenAPI: ``python -m corral.web.reference.rest``.

A test compares the committed page with ``page()``, and reads each example as the server does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from corral.web.app import create_app
from corral.web.openapi import FREE, METHODS, SAMPLES, STREAM
from corral.web.settings import BY_COMMANDS, Settings
from corral.web.users.scopes import needed

_INTRODUCTION: Final = """\
# The REST API

<!-- Generated: python -m corral.web.reference.rest > docs/reference/rest.md -->
<!-- each block: not run; read as a server reads it, by `tests/unit/web/reference/test_rest.py` -->

What `corral ui` serves to programs; the guide [The page's API](../guide/api.md) has tokens,
limits and errors. `GET /api/openapi.json` is the same description for programs. *Scope*: what the
token must have; *session*: no token is enough, a person must be logged in; *none*: nobody need
be. A request that fails is answered with a status of 400 or more and a [Refused](#refused). The
examples need two variables:

```sh
page=http://127.0.0.1:8765
json='Content-Type: application/json'
```
"""


def page() -> str:
    """The page as Markdown."""
    described = description()
    parts = [_INTRODUCTION]
    for tag in described["tags"]:
        parts.append(f"\n## {tag['description']}\n")
        for method, path, operation in operations(described):
            if operation["tags"] == [tag["name"]]:
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
    yield f"* Returns: {_content(operation['responses']['200'])}.\n"
    if parameters := operation.get("parameters", []):
        yield "\n| parameter | in | type | meaning |\n|---|---|---|---|\n"
        for each in parameters:
            about = each.get("description") or each["schema"].get("description", "")
            kind = _type(each["schema"]) + ("" if each["required"] else _default(each["schema"]))
            yield f"| `{each['name']}` | {each['in']} | {kind} | {_cell(about)} |\n"
    for sample in operation.get(SAMPLES, ()):
        yield f"\n```sh\n{sample['source']}\n```\n"


def _content(part: Mapping[str, Any]) -> str:
    kinds = part.get("content", {})
    for kind, about in kinds.items():
        if kind == STREAM:
            event = about["itemSchema"]["properties"]["data"]["contentSchema"]
            return f"server-sent events, each {_type(event)}"
        return _type(about["schema"]) if kind == "application/json" else f"`{kind}`"
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
        case {"type": "object", "additionalProperties": {**value}} if value:
            return f"object of {_type(value)}"
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
