"""Writes what the cluster file's format allows, for the record that a release keeps.

python .ci/file_format.py > tests/recorded/cluster_file/VERSION.json

The record holds each field by its path: its types, its choices, its bounds, and whether it must be
there. A test compares the records of all releases with the format as it is.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from corral.spec.models import ClusterSpec

Schema = Mapping[str, Any]
DEPTH = 12
LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems")
UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")


def record() -> dict[str, Any]:
    """Each field of the format, by its path."""
    schema = ClusterSpec.model_json_schema()
    return dict(sorted(fields(schema, schema.get("$defs", {}), "", 0)))


def fields(schema: Schema, named: Schema, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    """The fields below a schema, with what each takes."""
    if depth > DEPTH:
        return
    for option in options(schema, named):
        for key in ("items", "additionalProperties"):
            if isinstance(option.get(key), dict):
                yield from fields(option[key], named, path, depth + 1)
        for name, below in option.get("properties", {}).items():
            own = f"{path}.{name}".lstrip(".")
            yield own, about(below, named, required=name in option.get("required", ()))
            yield from fields(below, named, own, depth + 1)


def options(schema: Schema, named: Schema) -> Iterator[Schema]:
    """A schema, or each of those it allows, without references."""
    if "$ref" in schema:
        yield from options(named[schema["$ref"].rpartition("/")[2]], named)
    elif "anyOf" in schema:
        for option in schema["anyOf"]:
            yield from options(option, named)
    else:
        yield schema


def about(schema: Schema, named: Schema, *, required: bool) -> dict[str, Any]:
    """What a field takes."""
    allowed = [*options(schema, named)]
    choices = {str(value) for option in allowed for value in option.get("enum", ())}
    choices |= {str(option["const"]) for option in allowed if "const" in option}
    bounds = {key: option[key] for option in allowed for key in (*LOWER, *UPPER) if key in option}
    return {
        "types": sorted({str(option.get("type", "any")) for option in allowed}),
        "choices": sorted(choices),
        "bounds": dict(sorted(bounds.items())),
        "required": required,
    }


def breaks(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Why a file that the format allowed before may be refused now; nothing when it may not."""
    reasons = [f"{path}: is gone" for path in before if path not in after]
    for path, new in after.items():
        old = before.get(path)
        if old is None:
            parent = path.rpartition(".")[0]
            if new["required"] and (not parent or parent in before):
                reasons.append(f"{path}: is new and must be there")
            continue
        reasons += [f"{path}: {reason}" for reason in _narrower(old, new)]
    return reasons


def _narrower(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    if new["required"] and not old["required"]:
        yield "must be there now"
    if gone := set(old["types"]) - set(new["types"]):
        yield f"takes no {', '.join(sorted(gone))} any more"
    if new["choices"] and (gone := set(old["choices"]) - set(new["choices"])):
        yield f"takes {', '.join(sorted(gone))} no longer"
    for key, bound in new["bounds"].items():
        was = old["bounds"].get(key)
        if was is None or (bound > was if key in LOWER else bound < was):
            yield f"has {key} {bound}, and had {was}"


if __name__ == "__main__":
    lines = [f"{json.dumps(path)}: {json.dumps(what)}" for path, what in record().items()]
    sys.stdout.write("{\n" + ",\n".join(lines) + "\n}\n")  # one field a line, for diffs
