"""Settings, licences and lines of slurm.conf as fields of the cluster file.

Of the global keys only what is complete in itself: those that name no program, plugin, account or
file, and that change nothing about who may use what. Of lines each key that is a field: the table
of keys has which one, and how its value is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from pydantic import BaseModel

from corral import tables
from corral.slurm.adopt.carried import carried
from corral.slurm.adopt.view import Existing, Row
from corral.slurm.conf.fields import keys_of_fields, read_field, read_licenses
from corral.spec import values as texts
from corral.spec.models import NodeGroup, Partition
from corral.spec.slurm.keys import SlurmKey, slurm_keys, words_of
from corral.spec.slurm.written_keys import Key, keys_by_id

_NUMBER: Final = re.compile(r"[0-9]{1,9}")


def settings_of(existing: Existing) -> Mapping[str, str]:
    """The keys for ``slurm.settings`` with their values, by Slurm's own spelling."""
    settings: dict[str, str] = {}
    for low in carried().settings:
        lines = existing.slurm.begin(low)
        key = slurm_keys().get(low)
        if len(lines) != 1 or key is None or key.use == "owned":
            continue
        value = lines[0].value
        own = keys_by_id().get(("slurm.conf", "", low))
        if own is not None and own.value == value:
            continue  # Corral writes it anyway
        if _fits(key, value) and _known(key, existing):
            settings[key.name] = value
    return settings


def _fits(key: SlurmKey, value: str) -> bool:
    if not re.fullmatch(texts.SETTING.pattern, value):
        return False
    words = words_of(key.name)
    if words and any(word.lower() not in words for word in value.split(",")):
        return False
    return not key.number or _NUMBER.fullmatch(value) is not None


def _known(key: SlurmKey, existing: Existing) -> bool:
    """The release has it; where it is unknown, all of them."""
    if existing.version is None:
        return not key.since and not key.until
    return not key.until and key.known_to(existing.version.release)


def licenses_of(existing: Existing) -> Mapping[str, int]:
    """Names and numbers of local licences; none where one of them cannot be written."""
    try:
        return read_licenses(existing.slurm.text("Licenses"))
    except ValueError:
        return {}


class Default(tables.Row):
    """Values that are what Slurm or Corral does anyway; ``defaults.yaml`` has the meanings."""

    key: str
    values: tuple[str, ...]
    lines: bool = False


DEFAULTS: Final = tables.read_table("corral.slurm.adopt", "defaults.yaml", tuple[Default, ...])
_SAME: Final = MappingProxyType({row.key: row.values for row in DEFAULTS if row.lines})


def is_default(key: str, text: str) -> bool:
    """Whether a key of a line of nodes or partitions has a value that it has anyway."""
    return text.upper() in _SAME.get(key.lower(), ())


_MODELS: Final[Mapping[str, type[BaseModel]]] = MappingProxyType(
    {"nodename": NodeGroup, "partitionname": Partition}
)
"""Whose fields the keys of such a line are."""


@cache
def _fields(line: str) -> Mapping[str, Key]:
    """Keys of a line whose value is a field of the cluster file, by name in lower case."""
    of_line = (key for key in keys_of_fields() if key.line.lower() == line)
    # What is in a part of an entry, such as groups.elastic, is not this line's alone.
    return MappingProxyType({k.name.lower(): k for k in of_line if k.field.count(".") == 1})


@dataclass(frozen=True, slots=True)
class Adopted:
    """A field of a group or partition by the key of its line.

    Attributes:
        key: the key of slurm.conf in lower case.
        text: its value there.
        name: the field.
        value: the field's value; None where it is left out.
    """

    key: str
    text: str
    name: str
    value: Any


def field_of(line: str, key: str, text: str) -> Adopted | None:
    """The field for a key of a line; None where no field has it.

    Args:
        line: the first key of the line in lower case, ``nodename`` or ``partitionname``.
        key: the key.
        text: its value.

    Raises:
        ValueError: no value of the field is that text; with the reason.
    """
    known = _fields(line).get(key.lower())
    if known is None:
        return None
    value = read_field(known, text, _MODELS[line])
    return Adopted(key.lower(), text, known.field.rpartition(".")[2], value)


def is_field(line: str, key: str) -> bool:
    """Whether a field of the cluster file has a key of a line."""
    return key.lower() in _fields(line)


def fields_of(line: str, row: Row) -> tuple[Adopted, ...]:
    """The fields of a line's keys, in the order of the table of keys; none that is left out."""
    fields: list[Adopted] = []
    for key in _fields(line):
        text = row.text(key)
        if not text or is_default(key, text):
            continue
        try:
            field = field_of(line, key, text)
        except ValueError:
            continue
        if field is not None and field.value is not None:
            fields.append(field)
    return tuple(fields)


def why_not(line: str, key: str, text: str) -> str:
    """Why a key that a field has cannot be written there; "" where it can, or no field has it."""
    try:
        field_of(line, key, text)
    except ValueError as error:
        return f"{_fields(line)[key.lower()].field}: {error}"
    return ""
