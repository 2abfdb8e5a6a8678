"""A pasted log or file in, its tables and what NCCL used out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.prove.fabric.jsonfile import read_json
from corral.prove.fabric.model import Table
from corral.prove.fabric.text import read_text
from corral.prove.fabric.transport import Transport, transport_of

OWN: Final = "@@corral-bench "
"""Before each table of Corral's own benchmark, which is JSON as nccl-tests writes it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """All that a log holds."""

    tables: tuple[Table, ...]
    transport: Transport


def read(text: str) -> Reading:
    """Read a log of nccl-tests or of Corral's own benchmark, or a file written with -J.

    Raises:
        CorralError: PARSE_FAILED, saying where and why.
    """
    if text.lstrip().startswith("{"):
        return Reading(read_json(text), Transport())
    own = [line.partition(OWN)[2] for line in text.splitlines() if OWN in line]
    tables = tuple(table for one in own for table in read_json(one)) or read_text(text)
    return Reading(tables, transport_of(text))
