"""Writes the types of what the page is sent: of all operations, as OpenAPI describes them.

python .ci/page_types.py > src/corral/web/static/js/api.d.ts
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from corral.web.app import ROUTES
from corral.web.openapi import shapes_of
from corral.web.schemas import NOT_ANSWERS

PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean",
         "null": "null"}  # fmt: skip


def definitions() -> dict[str, Any]:
    """JSON Schema of each type, by its name."""
    shapes = (*shapes_of(part.router for part in ROUTES), *NOT_ANSWERS)
    adapters = [(str(shape), "serialization", TypeAdapter(shape)) for shape in shapes]
    return TypeAdapter.json_schemas(adapters, ref_template="{model}")[1]["$defs"]


def typed(schema: Mapping[str, Any]) -> str:
    """A JSON Schema as a type of TypeScript."""
    match schema:
        case {"$ref": str(name)}:
            made = name
        case {"anyOf": options}:
            made = " | ".join(typed(option) for option in options)
        case {"enum": values}:
            made = " | ".join(json.dumps(value) for value in values)
        case {"prefixItems": items}:
            made = f"[{', '.join(typed(part) for part in items)}]"
        case {"type": "array", "items": item}:
            several = "anyOf" in item or "enum" in item
            made = f"({typed(item)})[]" if several else f"{typed(item)}[]"
        case {"type": "object"}:
            values = schema.get("additionalProperties", True)
            made = f"Record<string, {typed(values) if isinstance(values, dict) else 'unknown'}>"
        case _:
            made = PLAIN.get(schema.get("type", ""), "unknown")
    return made


def interface(name: str, schema: Mapping[str, Any]) -> str:
    """One record."""
    needed = set(schema.get("required", ()))
    lines = [
        f"  {key}{'' if key in needed else '?'}: {typed(value)};"
        for key, value in schema["properties"].items()
    ]
    about = f"/** {schema['description']} */\n" if "description" in schema else ""
    return "\n".join([f"{about}export interface {name} {{", *lines, "}"])


def text() -> str:
    """The file."""
    head = "// Made by .ci/page_types.py from src/corral/web/schemas.py: change that one."
    types = definitions()
    return "\n\n".join([head, *(interface(name, types[name]) for name in sorted(types))]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
