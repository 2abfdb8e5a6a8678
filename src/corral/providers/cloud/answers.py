"""Parts of a cloud's answer, read strictly. Pure; without httpx, which a base install lacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast


def records(value: Any) -> list[dict[str, Any]]:
    """A JSON list of objects.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, list):
        raise TypeError("no list")
    found = cast("list[Any]", value)
    if not all(isinstance(one, dict) for one in found):
        raise TypeError("no list of objects")
    return cast("list[dict[str, Any]]", found)


def part(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An object inside of an object; empty where it is null or absent."""
    value = data.get(name)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
