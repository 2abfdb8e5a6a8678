"""A pasted log or file in, its tables and what NCCL used out."""

from __future__ import annotations

from dataclasses import dataclass

from corral.prove.fabric.jsonfile import read_json
from corral.prove.fabric.model import Table
from corral.prove.fabric.text import read_text
from corral.prove.fabric.transport import Transport, transport_of


@dataclass(frozen=True, slots=True)
class Reading:
    """All that a log holds."""

    tables: tuple[Table, ...]
    transport: Transport


def read(text: str) -> Reading:
    """Read a log of nccl-tests, or a file it wrote with -J.

    Raises:
        CorralError: PARSE_FAILED, saying where and why.
    """
    if text.lstrip().startswith("{"):
        return Reading(read_json(text), Transport())
    return Reading(read_text(text), transport_of(text))
