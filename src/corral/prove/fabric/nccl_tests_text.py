"""Reads what nccl-tests printed, of every layout since 2.0, out of any log; guesses no number.

A log may hold several tables, other programs' lines between the rows, and something before each
line (``marks``); where people paste, the ``#`` of a header may be gone. What looks like a row and
is not a complete one is an error, and so are rows that contradict themselves, their table or its
closing lines.

nccl-tests 2.0 to 2.12 print only the columns that the collective has (no ``redop`` for all_gather,
no ``root`` for all_reduce); since 2.13 there are always both, ``error`` (greatest difference)
became ``#wrong`` (elements that differ), ``-C`` prints ``cputime``, ``-I`` adds ``i_*`` and ``-S``
a timestamp.

A rank's name keeps the lines of ranks apart; a time, a quotation mark or a line's number differs
from line to line and does not identify who printed it.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from corral.errors import Code, CorralError
from corral.escapes import without_escapes
from corral.prove.fabric.consistency import named, settled
from corral.prove.fabric.model import Rank, Row, Table, Timing

_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?", re.IGNORECASE)
# A locale's comma. Three digits after it could as well be thousands: then it is not guessed.
_COMMA: Final = re.compile(r"[+-]?\d+,\d{1,2}")
_NONE: Final = frozenset({"nan", "-nan", "inf", "-inf"})


@dataclass(frozen=True, slots=True)
class Printed:
    """A number and half a unit of its last printed digit."""

    value: float
    half: float


def printed(text: str) -> Printed:
    """Read one number.

    Raises:
        ValueError: it is not a number, or is ambiguous.
    """
    if text.lower() in _NONE:
        return Printed(float(text), 0.0)
    plain = text.replace(",", ".") if _COMMA.fullmatch(text) else text
    if not _NUMBER.fullmatch(plain):
        raise ValueError(f"{text!r} is not a number")
    mantissa, _, exponent = plain.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return Printed(float(plain), 0.5 * math.pow(10, int(exponent or 0) - decimals))


HEADER: Final = re.compile(r"#?\s*size\s+count\s+type\s")
OLD_HEADER: Final = re.compile(r"#?\s*bytes\s+N\s+type\s")
"""nccl-tests 1: other columns, milliseconds."""

_LEFT: Final = ("size", "count", "type", "redop", "root")
_TIMES: Final = ("time", "cputime")
_GROUP: Final = ("algbw", "busbw")
_CHECKS: Final = ("error", "#wrong")
_AFTER: Final = {"timestamp": 2, "algo": 1, "proto": 1, "nchannels": 1}
"""Columns after the measurements, and their words: ``-S``, and what rccl-tests adds for AMD."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns of one table.

    Attributes:
        left: columns before the measurements.
        groups: the columns of each group of measurements (out-of-place, then in-place).
        check: ``error`` or ``#wrong``.
        cpu: times are CPU times, which do not follow from size and bandwidth.
        after: words of a row after its measurements, unrelated to speed.
    """

    left: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    check: str
    cpu: bool
    after: int

    @property
    def group_width(self) -> int:
        """Columns of one group."""
        return len(self.groups[0])

    @property
    def width(self) -> int:
        """Words in a complete row."""
        return len(self.left) + sum(map(len, self.groups)) + self.after


def layout(header: str) -> Layout:
    """Columns from the header line.

    Raises:
        ValueError: a column that is not known, or one missing.
    """
    # Pages and chats take the sign before "wrong" for markup.
    names = ["#wrong" if name == "wrong" else name for name in header.lstrip("# ").split()]
    left: list[str] = []
    while names and names[0] in _LEFT:
        left.append(names.pop(0))
    after = 0
    while names and names[-1] in _AFTER:
        after += _AFTER[names.pop()]
    groups: list[tuple[str, ...]] = []
    for name in names:
        if name in _TIMES:
            groups.append((name,))
        elif groups:
            groups[-1] = (*groups[-1], name)
        else:
            raise ValueError(f"column {name!r} comes before any time")
    if not groups or len(groups) > 2 or len(set(groups)) != 1:  # noqa: PLR2004 - two buffers
        raise ValueError("there must be one or two equal groups of columns that begin with time")
    first = groups[0]
    known = (*_TIMES, *_GROUP, *_CHECKS, "i_min", "i_max", "i_p99", "i_cv%")
    odd = [name for name in first if name not in known]
    checks = [name for name in first if name in _CHECKS]
    if odd or len(checks) != 1 or first[1:3] != _GROUP or len(set(first)) != len(first):
        raise ValueError(f"columns are {' '.join(first)}: not time, algbw, busbw and one check")
    return Layout(tuple(left), tuple(groups), checks[0], first[0] == "cputime", after)


_CLOCK: Final = r"\d\d:\d\d:\d\d(?:[.,]\d+)?"
_MONTH: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
# ts, kubectl --timestamps, docker -t, journalctl, mpirun --timestamp-output, dmesg.
_TIME: Final = re.compile(
    rf"\[?(?:\d{{4}}[-/]\d\d[-/]\d\d[T ]{_CLOCK}|{_CLOCK})(?: ?Z| ?UTC|[+-]\d\d:?\d\d)?\]?(?=\s|$)"
    rf"|\[?(?:[A-Z][a-z]{{2}} )?{_MONTH} [ \d]\d {_CLOCK}(?: \d{{4}})?\]?(?=\s|\[|$)"
    r"|\[\s*\d+\.\d+\](?=\s|$)"
)
_QUOTE: Final = re.compile(r">+(?=\s|$)")
# srun --label, worker names, mpirun and prterun --tag-output, kubectl --prefix, grep, docker
# compose, the host and program of a journal.
_NAME: Final = re.compile(
    r"(?P<tag>\[[^\]]*\](?:(?:\[[^\]]*\])?<\w+>:?|:?(?=[\s#]|$)))|(?P<name>[\w./-]+:)(?:\d+:)?(?=[\s#]|$)"
    r"|(?P<column>[\w.-]+)\s*\|(?=\s|$)|(?P<journal>[\w.-]+ [\w.-]+\[\d+\]:)(?=\s|$)"
)


def parted(line: str) -> tuple[str, str]:
    """A line without its prefix, colours and blanks of other alphabets.

    Args:
        line: as it was logged.

    Returns:
        who printed it (``3:``, ``[1,0]<stdout>:``), "" when nothing shows it; and the rest.
    """
    body = without_escapes(line).replace("\u00a0", " ").replace("\ufeff", "").lstrip()
    names: list[str] = []
    while True:
        if match := _TIME.match(body) or _QUOTE.match(body):
            pass
        elif match := _NAME.match(body):
            names.append(next(filter(None, match.groups())))
        else:
            return " ".join(names), body
        body = body[match.end() :].lstrip()


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
