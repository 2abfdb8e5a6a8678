"""Tracebacks of Python in a log: which program failed, by which exception, where. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from corral.doctor.logs.fatal_lines import fatal_table
from corral.doctor.logs.log_text import (
    LONGEST,
    Line,
    LogText,
    starts,
)

PROGRAM_ERROR: Final = "F106"
MANAGEMENT_ERROR: Final = "F2071"
_HEAD: Final = "traceback (most recent call last)"
_FRAME: Final = re.compile(r'\s{0,12}File "([^"]{1,300})", line (\d{1,7})')
_EXCEPTION: Final = re.compile(r"((?:\w{1,60}\.){0,8}([A-Z]\w{1,60}))(?:: (.{0,300})|$)")
_LIBRARY: Final = re.compile(r"(?:site|dist)-packages|/lib/python\d|<frozen |/opt/conda/lib/")
_LONGEST_TRACE: Final = 400
_DIGITS: Final = re.compile(r"\d{1,20}")


@dataclass(frozen=True, slots=True)
class Traceback:
    """One traceback.

    Attributes:
        line: number of the exception's line.
        kind: the exception's class, without its module.
        message: its text.
        place: file and line of the program itself, "" when unknown.
        shown: the exception's line.
        management: True when the program is one that manages the cluster, not a job's.
    """

    line: int
    kind: str
    message: str
    place: str
    shown: str
    management: bool = False

    @property
    def exception(self) -> str:
        """Class and message, as Python prints them."""
        return f"{self.kind}: {self.message}"[:LONGEST] if self.message else self.kind

    @property
    def failure(self) -> str:
        """The entry of the catalogue that accounts for it."""
        return MANAGEMENT_ERROR if self.management else PROGRAM_ERROR

    @property
    def own(self) -> bool:
        """True when such an exception is the program's own fault, not the cluster's."""
        return self.kind in fatal_table().program_errors


def tracebacks(log: LogText) -> Iterator[Traceback]:
    """All tracebacks that end with an exception, in order."""
    for head in log.lines_with(_HEAD):
        prefix = head.text[: head.text.lower().index(_HEAD)]
        trace = _ending(log.numbered[head.number : head.number + _LONGEST_TRACE], _mask(prefix))
        if trace is not None:
            yield trace


def _ending(lines: Sequence[Line], mask: str) -> Traceback | None:
    """The exception that ends a traceback, among lines of the same rank."""
    frames: list[str] = []
    for line in lines:
        text = _body(line.text, mask)
        if text is None:
            continue
        frame = _FRAME.match(text)
        if frame is not None:
            frames.append(f"{frame[1]} line {frame[2]}")
            continue
        ending = _EXCEPTION.match(text) if frames else None
        if ending is not None:
            own = [frame for frame in frames if not _LIBRARY.search(frame)]
            place = (own or frames)[-1]
            message = (ending[3] or "").strip()
            managed = any(_of_management(frame) for frame in frames)
            return Traceback(line.number, ending[2], message, place, line.shown, managed)
    return None


def _of_management(frame: str) -> bool:
    path = frame.rpartition(" line ")[0]
    return any(p.expression.search(path) for p in fatal_table().management_programs)


def _body(text: str, mask: str) -> str | None:
    """A line without the prefix that its traceback's head has; None for another rank's line."""
    if not mask:
        return text
    for at in sorted(starts(text), reverse=True):
        if _mask(text[:at]).rstrip() == mask.rstrip():
            spaced = at == 0 or text[at - 1].isspace()
            return text[at:] if spaced else text[at:].removeprefix(" ")
    return None


def _mask(prefix: str) -> str:
    """A prefix without what differs from line to line: its times."""
    return _DIGITS.sub("0", prefix) if ":" in prefix and "rank" not in prefix else prefix
