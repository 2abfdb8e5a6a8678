"""One module as a blueprint writes it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def module(
    id: str, source: str, *, use: Sequence[str] = (), outputs: Sequence[str] = (), **settings: Any
) -> dict[str, Any]:
    """A module with what it uses, its settings and outputs; parts that are empty are left out."""
    entry: dict[str, Any] = {"id": id, "source": source}
    if use:
        entry["use"] = list(use)
    if settings:
        entry["settings"] = settings
    if outputs:
        entry["outputs"] = list(outputs)
    return entry
