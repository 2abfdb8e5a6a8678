"""Reads what nccl-tests printed, of every layout since 2.0, out of any log; guesses no number.

A log may hold several tables, other programs' lines between the rows, and something before each
line (``marks``); where people paste, the ``#`` of a header may be gone. What looks like a row and
is not a complete one is an error, and so are rows that contradict themselves, their table or its
closing lines.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import Final

from corral.errors import Code, CorralError
from corral.prove.fabric.consistency import settled
from corral.prove.fabric.infer import named
from corral.prove.fabric.layout import HEADER, OLD_HEADER, Layout, layout
from corral.prove.fabric.marks import parted
from corral.prove.fabric.model import Rank, Row, Table, Timing
from corral.prove.fabric.numbers import printed

_ROW: Final = re.compile(
    r"\d[\d,.]*\s+\d[\d,.]*\s+(?:u?int(?:8|32|64)?|u?char|half|b?float(?:16|32|64)?|double|bf16"
    r"|f8e\dm\d)\b"
)
_BEGUN: Final = re.compile(r"\d+\s+\d+(?:\s|$)")
"""Two whole numbers: within a table that is the beginning of a row, whatever follows."""
_RANK: Final = re.compile(
    r"#?\s*Rank\s+(\d+)(?:\s+Group\s+\d+)?\s+Pid\s+\d+\s+on\s+(\S+)\s+device\s+\d+\s+\[[^\]]*\]\s+(.*)"
)
_BOUNDS: Final = re.compile(r"#?\s*Out of bounds values\s*:\s*(\d+)")
_AVERAGE: Final = re.compile(r"#?\s*Avg bus bandwidth\s*:\s*(\S+?)\s*(?:GB/s.*)?$")
_CONCLUDED: Final = re.compile(r"#?\s*Collective test concluded")
"""The last line since 2.17.6."""
_STARTS: Final = re.compile(r"#?\s*Collective test starting:\s*(\S+)")
_VERSION: Final = re.compile(r"#?\s*[nr]ccl-tests version\s+(\S+)")
_SIZES: Final = re.compile(r"#?\s*nThread\s+\d+.*\bmaxBytes\s+(\d+)")
_REDUCED: Final = re.compile(r"#?\s*Reducing maxBytes to\s+(\d+)")
_TAG_WITHIN: Final = re.compile(r"\[\d+,\d+\](?:\[[^\]]*\])?<std(?:out|err)>:?")
"""Open MPI's --tag-output: before each piece that a process writes, also within rows."""
_GAP: Final = re.compile(r" {25,}\S")
"""Blanks in the place of an out-of-place measurement (trace replay measures in place only)."""


@dataclasses.dataclass(slots=True)
class _Open:
    """A table that is being read."""

    label: str
    layout: Layout | None = None
    rows: list[Row] = dataclasses.field(default_factory=list[Row])
    members: list[Rank] = dataclasses.field(default_factory=list[Rank])
    program: str = ""
    version: str = ""
    largest: int = 0
    bounds: int | None = None
    average: float | None = None
    concluded: bool = False


def read_text(text: str) -> tuple[Table, ...]:
    """All tables of a log, in the order of their headers.

    Args:
        text: the log, or any piece of it that holds complete tables.

    Raises:
        CorralError: PARSE_FAILED, naming the line: no table, a row cut or spoiled, numbers that
            contradict each other, a table cut before its last size.
    """
    tables, refused = read_parts(text)
    if refused:
        raise refused[0]
    return tables


def read_parts(text: str) -> tuple[tuple[Table, ...], tuple[CorralError, ...]]:
    """Complete tables of a log, and what is wrong with each of the others.

    Raises:
        CorralError: PARSE_FAILED, naming the line: no table, a row cut or spoiled.
    """
    open_by_label: dict[str, _Open] = {}
    done: list[_Open] = []
    for number, raw in enumerate(text.splitlines(), 1):
        label, body = parted(raw)
        current = open_by_label.setdefault(label, _Open(label))
        if HEADER.match(body) or OLD_HEADER.match(body):
            if current.layout is not None:
                done.append(current)
                current = open_by_label[label] = _Open(label)
            current.layout = _layout(number, body)
        elif _row_like(current, body):
            _take_row(current, number, body)
        elif current.layout is not None and _starts_run(body):
            done.append(current)
            current = open_by_label[label] = _Open(label)
            _take_word(current, number, body)
        else:
            _take_word(current, number, body)
    done += [o for o in open_by_label.values() if o.layout is not None]
    if not done:
        raise _no_table(open_by_label.values())
    done.sort(key=lambda o: o.rows[0].line if o.rows else 0)
    tables: list[Table] = []
    refused: list[CorralError] = []
    for entry in done:
        try:
            tables.append(_closed(entry))
        except CorralError as error:
            refused.append(error)
    return tuple(tables), tuple(refused)


def _no_table(runs: Iterable[_Open]) -> CorralError:
    if any(run.largest or run.members or run.program for run in runs):
        return _broken(
            0,
            "nccl-tests began and printed no table: it hung, or was stopped, before its first size",
            "if it hangs, NCCL_DEBUG=INFO shows how far it comes: the last lines of each rank",
        )
    return _broken(0, "there is no table of nccl-tests in it", "give the complete output of one")


def _row_like(current: _Open, body: str) -> bool:
    within = current.layout is not None and current.bounds is None
    return bool((_BEGUN if within else _ROW).match(body))


def _starts_run(body: str) -> bool:
    return bool(_STARTS.match(body) or _VERSION.match(body) or _SIZES.match(body))


def _take_word(current: _Open, number: int, body: str) -> None:
    """Take a line that is neither header nor row."""
    if match := _RANK.match(body):
        current.members.append(Rank(int(match[1]), match[2], match[3].strip()))
    elif match := _BOUNDS.match(body):
        current.bounds = int(match[1])
    elif match := _AVERAGE.match(body):
        current.average = _average(number, match[1])
    elif _CONCLUDED.match(body):
        current.concluded = True
    elif match := _STARTS.match(body):
        current.program = match[1]
    elif match := _VERSION.match(body):
        current.version = match[1]
    elif match := _REDUCED.match(body) or _SIZES.match(body):
        current.largest = int(match[1])


def _average(number: int, text: str) -> float:
    try:
        return printed(text).value
    except ValueError as error:
        raise _broken(number, f"the average bus bandwidth cannot be read: {error}", "") from error


def _layout(number: int, body: str) -> Layout:
    if OLD_HEADER.match(body):
        raise _broken(
            number,
            "this table is of nccl-tests 1",
            "its columns and units are others; run nccl-tests 2.0 or later",
        )
    try:
        return layout(body)
    except ValueError as error:
        raise _broken(number, f"this header is of no known layout: {error}", "") from error


def _take_row(current: _Open, number: int, body: str) -> None:
    # Launchers tag each piece of a line: MPICH's -prepend-rank and PRRTE do so too.
    for tag in current.label.split():
        body = body.replace(tag, " ") if tag.startswith("[") else body
    body = _TAG_WITHIN.sub(" ", body)
    columns = current.layout
    if columns is None:
        raise _broken(number, "a row comes before any header", "give the log from its header on")
    words = body.split()
    only_in_place = len(columns.groups) > 1 and bool(_GAP.search(body))
    missing = columns.group_width if only_in_place else 0
    if len(words) != columns.width - missing:
        raise _broken(
            number,
            f"this row has {len(words)} words where its header has {columns.width - missing}: "
            f"{body.strip()!r}",
            "the log was cut there, or another program's line ran into it; take it again",
        )
    try:
        row = _row(columns, number, words, only_in_place=only_in_place)
    except ValueError as error:
        raise _broken(number, f"this row cannot be read: {error}", "") from error
    current.rows.append(row)


def _row(columns: Layout, number: int, words: list[str], *, only_in_place: bool) -> Row:
    left = dict(zip(columns.left, words, strict=False))
    rest = words[len(columns.left) :]
    width = columns.group_width
    timings = [
        _timing(dict(zip(group, rest[i * width : (i + 1) * width], strict=True)), columns.check)
        for i, group in enumerate(columns.groups[1:] if only_in_place else columns.groups)
    ]
    return Row(
        number,
        int(left["size"]),
        int(left["count"]),
        left["type"],
        left.get("redop", ""),
        int(left.get("root", "-1")),
        None if only_in_place else timings[0],
        timings[-1] if len(columns.groups) > 1 else None,
    )


def _timing(cells: dict[str, str], check: str) -> Timing:
    time = cells["time"] if "time" in cells else cells["cputime"]
    seen = None if cells[check] == "N/A" else printed(cells[check]).value
    return Timing(
        printed(time).value,
        printed(cells["algbw"]).value,
        printed(cells["busbw"]).value,
        wrong=seen if check == "#wrong" else None,
        delta=seen if check == "error" else None,
    )


def _closed(current: _Open) -> Table:
    # A list pasted in part, or of processes that each call themselves rank 0, counts nobody.
    all_ranks = {member.rank for member in current.members} == set(range(len(current.members)))
    members = tuple(current.members) if all_ranks else ()
    table = Table(
        rows=tuple(current.rows),
        collective=named(current.program),
        certain=named(current.program) is not None,
        ranks=len(members),
        members=members,
        out_of_bounds=current.bounds,
        average=current.average,
        complete=current.concluded or (current.bounds is not None and current.average is not None),
        label=current.label,
        version=current.version,
    )
    cpu = current.layout is not None and current.layout.cpu
    return settled(table, largest=current.largest, cpu=cpu)


def _broken(line: int, what: str, hint: str) -> CorralError:
    return CorralError(
        Code.PARSE_FAILED,
        f"line {line}: {what}" if line else what,
        hint=hint or "give the log as nccl-tests wrote it",
    )
