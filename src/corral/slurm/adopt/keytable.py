"""Which release knows which key of which file, and what somebody may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from corral.spec.slurm.keys import key_table
from corral.spec.slurm.releases import Release

_LINES: Final = MappingProxyType({"nodename": "name"})  # gres.conf: both begin the same line


@dataclass(frozen=True, slots=True)
class Known:
    """One key of one file.

    Attributes:
        name: as Slurm's source writes it.
        since: first release that knows it; None for all that were read.
        until: first release that does not; None for none.
        dead: first release that reads it and ignores it with an error; None for none.
        repeats: it may be set more than once.
        flag: its value is yes or no.
        number: its value is a number.
    """

    name: str
    since: Release | None
    until: Release | None
    dead: Release | None
    repeats: bool
    flag: bool
    number: bool


def _tables() -> Mapping[tuple[str, str], Mapping[str, Known]]:
    tables: dict[tuple[str, str], dict[str, Known]] = {}
    for group in key_table().groups:
        table = tables.setdefault((group.file, group.line.lower()), {})
        for word in group.keys.split():
            name = word.rstrip("*?#")
            table[name.lower()] = Known(
                name,
                group.since,
                group.until,
                group.dead,
                repeats=word.endswith("*"),
                flag=word.endswith("?"),
                number=word.endswith("#"),
            )
    # The tree plugin's own table of lines has moved through many files; the word never changed.
    switch = Known("SwitchName", None, None, None, repeats=True, flag=False, number=False)
    tables["topology.conf", ""]["switchname"] = switch
    for table in tables.values():
        include = Known("Include", None, None, None, repeats=True, flag=False, number=False)
        table.setdefault("include", include)
    return MappingProxyType(tables)


TABLES: Final = _tables()
"""By file and first key of the line ("" for a separate line), then by key; all in lower case."""


def line_table(file: str, first: str) -> Mapping[str, Known]:
    """Keys that may follow a first key on its line; empty when none may."""
    first = first.lower()
    if file == "gres.conf":
        first = _LINES.get(first, first)
    return TABLES.get((file, first), MappingProxyType({}))


def lookup(file: str, first: str, key: str) -> Known | None:
    """What is known about a key that begins a line (``first`` is "") or follows ``first``."""
    if not first:
        return TABLES[file, ""].get(key.lower())
    return line_table(file, first).get(key.lower())


def meant(file: str, first: str, key: str) -> str:
    """What somebody may have meant who wrote this key: where it belongs, in words; "" for none."""
    table = TABLES[file, ""] if not first else line_table(file, first)
    living = [name for name, known in table.items() if not known.until and not known.dead]
    close = difflib.get_close_matches(key.lower(), living, n=1, cutoff=0.75)
    if close:
        return f"did you mean {table[close[0]].name}?"
    for (other, line), names in TABLES.items():
        if key.lower() in names and (other, line) != (file, first.lower()):
            where = f"lines that begin with {_spelled(other, line)}" if line else f"{other}"
            known = names[key.lower()]
            return f"{known.name} belongs in {where}" + (f" of {other}" if line else "")
    return ""


def _spelled(file: str, line: str) -> str:
    known = TABLES[file, ""].get(line)
    return known.name if known else line
