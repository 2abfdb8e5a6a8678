"""The cluster file's fields as a tree, and its JSON Schema for editors.

The reference page, the errors and the tests of hostile text all walk this tree, so that a new field
of ``models`` reaches them without another word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, cast

from corral.spec import values
from corral.spec.models import SECTIONS, ClusterSpec


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of the cluster file.

    Each field carries its meaning (``description``) and what a change of it does to a live cluster
    (``x-impact``). What spans several fields only ``load`` can check.
    """
    schema = ClusterSpec.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


KINDS: Final = (*values.KINDS, *(kind for section in SECTIONS.values() for kind in section.kinds))
"""All kinds of text that the file holds."""

Schema = Mapping[str, Any]
Type = Literal["text", "choice", "integer", "number", "boolean", "mapping"]
_TYPES: Final[Mapping[str, Type]] = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "object": "mapping",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of the cluster file, or the file itself.

    Attributes:
        name: its key, "" for the file.
        path: dotted from the top, ``groups.gpu.count``; lists add nothing to it.
        type: type of the value, of each entry where ``many``.
        many: True for a list.
        required: True when it cannot be left out.
        nullable: True when null is a valid value too.
        default: JSON-ready default; None where ``required``.
        choices: all texts allowed, for the type choice.
        kind: which kind of text, for the type text.
        limits: JSON Schema's bounds, such as minimum.
        impact: what a change does to a live cluster.
        meaning: what it is for.
        fields: the fields of a mapping.
        value: any field of a mapping that takes all keys; None for other types.
    """

    name: str
    path: str
    type: Type
    many: bool
    required: bool
    nullable: bool
    default: Any
    choices: tuple[str, ...]
    kind: values.Kind | None
    limits: Mapping[str, float]
    impact: str
    meaning: str
    fields: tuple[Field, ...]
    value: Field | None = None

    def field(self, name: str) -> Field | None:
        """The field of this mapping with that key."""
        return next((field for field in self.fields if field.name == name), self.value)

    def placeholder(self) -> Any:
        """A valid value, the smallest one; for examples, and to go on after an error."""
        return [self.entry()] if self.many else self.entry()

    def entry(self) -> Any:
        """A valid value; of one entry where it is a list."""
        if self.type == "mapping":
            return {f.name: f.placeholder() for f in self.fields if f.required}
        if self.type == "choice":
            return self.choices[0]
        if self.type == "text":
            return self.kind.example if self.kind else ""
        return False if self.type == "boolean" else int(self.limits.get("minimum", 1))


@cache
def root(model: type[values.Model] = ClusterSpec) -> Field:
    """The entire cluster file, or another file that has this model."""
    schema = model.model_json_schema()
    return _field("", "", schema, schema["$defs"], required=True)


def walk(field: Field | None = None) -> Iterator[Field]:
    """All fields below one (below the file), depth first, in the models' order."""
    for child in (field or root()).fields:
        yield child
        yield from walk(child)


def at(path: tuple[str | int, ...], top: Field | None = None) -> Field | None:
    """The field that keys and list positions lead to (from ``top``); None when there is none."""
    field: Field | None = top or root()
    for part in path:
        if isinstance(part, str):
            field = field.field(part) if field else None
    return field


def path_of(path: tuple[str | int, ...]) -> str:
    """The dotted path of a field without list positions: ``groups.gpu.count``."""
    return ".".join(part for part in path if isinstance(part, str))


def _field(name: str, path: str, schema: Schema, defs: Schema, *, required: bool) -> Field:
    nullable, value = _without_null(schema)
    many = value.get("type") == "array"
    value = _resolved(value["items"] if many else value, defs)
    choices = tuple(value.get("enum", (value["const"],) if "const" in value else ()))
    needed = value.get("required", ())
    fields = tuple(
        _field(key, f"{path}.{key}".lstrip("."), cast(Schema, child), defs, required=key in needed)
        for key, child in value.get("properties", {}).items()
    )
    more = value.get("additionalProperties")
    return Field(
        name=name,
        path=path,
        type="choice" if choices else _type(value["type"]),
        many=many,
        required=required,
        nullable=nullable,
        default=schema.get("default"),
        choices=choices,
        kind=_kind_of(value.get("pattern", "")),
        limits={k: v for k, v in value.items() if k.endswith(("inimum", "aximum", "maxLength"))},
        impact=schema.get("x-impact", ""),
        meaning=schema.get("description", value.get("description", "")),
        fields=fields,
        value=_field("KEY", f"{path}.KEY", more, defs, required=False) if more else None,
    )


def _type(word: str | list[str]) -> Type:
    """The type; of several the first, as the others are other notations of it."""
    return _TYPES[word if isinstance(word, str) else word[0]]


def _kind_of(pattern: str) -> values.Kind | None:
    """The kind of text that a pattern stands for."""
    return next((kind for kind in KINDS if kind.pattern == pattern), None)


def _without_null(schema: Schema) -> tuple[bool, Schema]:
    """Whether null is allowed, and the schema of the other values."""
    options = cast("list[Schema]", schema.get("anyOf", []))
    others = [option for option in options if option.get("type") != "null"]
    return (len(others) < len(options), others[0]) if options else (False, schema)


def _resolved(schema: Schema, defs: Schema) -> Schema:
    reference = cast(str, schema.get("$ref", ""))
    return defs[reference.rsplit("/", 1)[-1]] if reference else schema
