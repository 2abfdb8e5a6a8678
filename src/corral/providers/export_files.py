"""Files of other people's tools, written from a cluster file: what they share. Pure."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, cast

from ruamel.yaml import YAML

from corral.spec.models import ClusterSpec


@dataclass(frozen=True, slots=True)
class Export:
    """A cluster in the words of another tool.

    Attributes:
        files: text by name, in the order to read them.
        next: commands that use them, one a line.
        left: what the cluster file declares and the files cannot express, with why.
    """

    files: Mapping[str, str]
    next: tuple[str, ...]
    left: tuple[str, ...]


def unexpressed(
    spec: ClusterSpec, expressed: Set[str], notes: Mapping[str, str]
) -> tuple[str, ...]:
    """Fields that differ from their defaults and that the other files do not have, with why.

    Args:
        spec: the cluster.
        expressed: fields that they have, as ``storage[].mount``; with all below them.
        notes: why, by field; that of the longest part of the field's name counts, "" is any.
    """
    declared = spec.model_dump(mode="json", exclude_defaults=True)
    by_note: dict[str, list[str]] = {}
    for field in dict.fromkeys(_missing(declared, "", expressed)):
        known = [part for part in notes if _below(field, part)]
        by_note.setdefault(notes[max(known, key=len)], []).append(field)
    return tuple(f"{', '.join(fields)}: {note}" for note, fields in by_note.items())


def _missing(value: Any, at: str, expressed: Set[str]) -> Iterator[str]:
    """The highest fields of which nothing is expressed; of the file's sections their fields."""
    if at in expressed:
        return
    part = "." in at or not isinstance(value, dict)
    if at and part and not any(_below(field, at) for field in expressed):
        yield at
    elif isinstance(value, dict):
        for name, item in cast("dict[str, Any]", value).items():
            yield from _missing(item, f"{at}.{name}" if at else name, expressed)
    elif isinstance(value, list | tuple):
        for item in cast("list[Any]", value):
            yield from _missing(item, f"{at}[]", expressed)


def _below(field: str, part: str) -> bool:
    rest = field.removeprefix(part)
    return not part or field == part or (rest != field and rest[0] in ".[")


def as_yaml(data: Mapping[str, Any]) -> str:
    """YAML as the files here are written."""
    yaml = YAML()
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.width = 4096
    out = io.StringIO()
    yaml.dump(dict(data), out)  # pyright: ignore[reportUnknownMemberType]
    return out.getvalue()
