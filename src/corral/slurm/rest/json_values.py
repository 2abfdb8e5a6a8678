"""Values out of JSON that a release may have changed the shape of: read what is there. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

_NO_VAL: int = 0xFFFFFFFC
"""From here on slurm.h's NO_VAL, INFINITE and their kin of 32 bits."""
_NO_VAL64: int = 0xFFFFFFFFFFFFFFFC

Record = Mapping[str, Any]


def record(value: object) -> Record:
    """A JSON object, empty where the value is none."""
    return cast("Record", value) if isinstance(value, dict) else {}


def records(value: object) -> list[Record]:
    """A JSON list of objects; what is none is left out."""
    if not isinstance(value, list):
        return []
    return [cast("Record", v) for v in cast("list[object]", value) if isinstance(v, dict)]


def number(value: object) -> float | None:
    """A number, bare or as ``{"set", "infinite", "number"}``; None where it is not set."""
    if isinstance(value, dict):
        fields = cast("Record", value)
        if not fields.get("set") or fields.get("infinite"):
            return None
        return number(fields.get("number"))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not math.isfinite(value):  # v0.0.40 prints Infinity and NaN, which no JSON has
        return None
    if value < 0 or _NO_VAL <= value <= 0xFFFFFFFF or value >= _NO_VAL64:  # noqa: PLR2004
        return None
    return value


def integer(value: object, default: int = 0) -> int:
    """An integer, ``default`` where there is none."""
    parsed = number(value)
    return default if parsed is None else int(parsed)


def maybe(value: object) -> int | None:
    """An integer, None where it is not set."""
    parsed = number(value)
    return None if parsed is None else int(parsed)


def moment(value: object) -> int | None:
    """Unix seconds; None for Slurm's 0."""
    return integer(value) or None


def text(value: object) -> str:
    """A text, "" where there is none."""
    return value if isinstance(value, str) else ""


def words(value: object) -> tuple[str, ...]:
    """Texts: a JSON list, or one text with commas."""
    if isinstance(value, str):
        return tuple(word for word in value.split(",") if word)
    if isinstance(value, list):
        return tuple(word for word in cast("list[object]", value) if isinstance(word, str))
    return ()
