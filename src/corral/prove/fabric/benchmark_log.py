"""A pasted log or file in, its tables and what NCCL used out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from corral.errors import CorralError
from corral.prove.fabric.model import Table
from corral.prove.fabric.nccl_tests_json import read_json
from corral.prove.fabric.nccl_tests_text import read_parts
from corral.prove.fabric.processes import separate_processes
from corral.prove.fabric.transport import Transport, transport_of

OWN: Final = "@@corral-bench "
"""Before each table of Corral's own benchmark, which is JSON as nccl-tests writes it."""
_OWN: Final = re.compile(rf"{OWN}|corral-[0-9a-f]{{32}} bench ")
"""In the log of a job that ``corral bench`` ran, a random word begins the line."""


@dataclass(frozen=True, slots=True)
class Reading:
    """All that a log holds.

    Attributes:
        tables: those that are complete and agree with themselves.
        transport: what NCCL used.
        processes: processes that each measured alone, which were meant to measure together; their
            tables do not measure the cluster and are not in ``tables``.
        refused: what is wrong with the other tables.
    """

    tables: tuple[Table, ...]
    transport: Transport
    processes: int = 0
    refused: tuple[CorralError, ...] = ()


def read(text: str) -> Reading:
    """Read a log of nccl-tests or of Corral's own benchmark, or a file written with -J.

    Raises:
        CorralError: PARSE_FAILED, with where and why.
    """
    reading = read_all(text)
    if reading.refused:
        raise reading.refused[0]
    return reading


def read_all(text: str) -> Reading:
    """As ``read``, but complete tables are kept where others are broken.

    Raises:
        CorralError: PARSE_FAILED: no table at all, or a row cut or spoiled.
    """
    if text.lstrip().startswith("{"):
        return Reading(read_json(text), Transport())
    transport = transport_of(text)
    own = [_OWN.split(line, maxsplit=1)[1] for line in text.splitlines() if _OWN.search(line)]
    if own:
        return Reading(tuple(table for document in own for table in read_json(document)), transport)
    if processes := separate_processes(text):
        return Reading((), transport, processes)
    tables, refused = read_parts(text)
    return Reading(tables, transport, refused=refused)
