"""The cause that a log states itself: its first error line whose own words name one. Pure."""

from __future__ import annotations

import re
from collections.abc import Container
from functools import cache
from typing import Final

from corral.doctor.catalog import catalog
from corral.doctor.logs.fatal_lines import consequence, fatal_lines, harmless
from corral.doctor.logs.log_text import Line, LogText, has, starts
from corral.doctor.logs.message_reader import LONGEST_READ, alone, read_message
from corral.doctor.model import Diagnosis, Failure

EXCEPTION: Final = "F928"
"""The entry of an exception whose message is of no kind."""
UNREAD: Final = "F939"
"""The entry of a message that is neither read nor of a known kind."""
_LINES: Final = 200
"""Error lines that are read."""
_LONGEST: Final = 240
_CODE: Final = re.compile(
    r"\s{0,40}(?:raise |return |assert |except |with |if |print\(|self\."
    r"|File \"|\^|~|#(?!#)|\$ |>>> )"
)
_CODE_LINE: Final = re.compile(r"\s{0,40}(?:raise |return |assert |File \"|self\.)")
# A level of a log ("DEBUG:", "(debug)", "'debug'"), not the last word of a sentence: "Known
# environments: slurm, local, debug." is an error.
_QUIET: Final = re.compile(
    r"\bdebug\d?\b(?!['\")]{0,2}\.(?:\s|$))|level=(?:debug|info)\b", re.IGNORECASE
)
_HANDLED: Final = "during handling of the above exception"
_HANDLED_AFTER: Final = 4
_SYSTEM: Final = re.compile(
    r"(?:OSError|PermissionError|Connect\w{0,20}Error|Timeout\w{0,10}Error|gaierror|SSL\w{0,20}Error"
    r"|OutOfMemoryError|MemoryError|CUDA)\b",
)
_ANY_KIND: Final = (EXCEPTION, "F929")
"""Kinds of readings that give no kind of reason: the words of the line may."""
_FRAME: Final = re.compile(r'File "[^"]{1,300}", line \d{1,7}, in (\S{1,80})')
_LONGEST_TRIMMED: Final = 400
_MARKS: Final = re.compile(r"[\^~ ]{0,400}$")
_MOST_MARKS: Final = 4
_EXIT: Final = re.compile(r"\++ exit [1-9]\d{0,2}$")
_NUMBERED: Final = re.compile(r"(?:>> )?\d{1,6} {1,8}")
_LEVEL: Final = re.compile(r"(?:error|fatal|critical|failed)\b[: ]{1,8}", re.IGNORECASE)
_TIME: Final = re.compile(r"[\s\[\d<]|[A-Z][a-z]{2} |[\w.-]{1,64}\[\d{1,9}\]: ")


def stated(log: LogText, accounted: Container[int] = ()) -> Diagnosis | None:
    """The first error line that names its cause, as a finding with its message; None without one.

    A line that gives a reason comes before one with only what could not be done (``general``), and
    this before one that is only known to be an error.

    Args:
        log: where to look.
        accounted: numbers of lines that a known failure explains.
    """
    candidates = _candidates(log, accounted)
    for read in (_with_reason, _without_reason, _unread):
        for line in candidates:
            failure = read(line.text[:LONGEST_READ], complete(log, line))
            if failure is not None:
                return _finding(failure, line)
    return _warned(log, accounted)


def _finding(failure: Failure, line: Line) -> Diagnosis:
    return Diagnosis(failure, (), (line.shown,), message(line.shown), line.number)


def _warned(log: LogText, accounted: Container[int]) -> Diagnosis | None:
    """The first warning whose message is known, where no error explains more."""
    for number in sorted(set(alone(log, warnings=True))):
        read = read_message(log.line(number)[:LONGEST_READ])
        if read is not None and number not in accounted:
            return _finding(read.failure, Line(number, log.line(number)))
    return None


def complete(log: LogText, line: Line) -> str:
    """A line with what belongs to its message: the call of a traceback, or the next line.

    An exception of a Python traceback gets the frame that raised it, "LINE <= FUNCTION: CODE"; a
    line that ends with a colon gets the line after it; an exit that a shell traces ("+ exit 1") the
    line before it.
    """
    text = line.text[:LONGEST_READ]
    if text.rstrip().endswith(":"):
        after = next(filter(None, (_trimmed(log, line.number + n) for n in (1, 2))), "")
        if read_message(after) is not None or consequence(after):
            return text
        if _NUMBERED.match(text.lstrip()):  # Spack prints the lines of a log with their numbers.
            after = _NUMBERED.sub("", after)
        return f"{text.rstrip()} {after}"[:LONGEST_READ]
    if _EXIT.match(text):
        return f"{text} <= {_trimmed(log, line.number - 1)}"
    # Python 3.11 and later mark the place with "^^^^" below the code; Snakemake adds an empty line.
    above = range(line.number - 1, line.number - _MOST_MARKS, -1)
    code = next((number for number in above if not _MARKS.match(_trimmed(log, number))), 0)
    frame = _FRAME.search(_trimmed(log, code - 1))
    return text if frame is None else f"{text} <= {frame[1]}: {_trimmed(log, code)}"


def _trimmed(log: LogText, number: int) -> str:
    return log.line(number)[:LONGEST_READ].strip()[:_LONGEST_TRIMMED]


def _candidates(log: LogText, accounted: Container[int]) -> list[Line]:
    """Error lines that may be a cause, in order."""
    numbers = {line.number for line in fatal_lines(log, _LINES)} | set(alone(log))
    lines = (Line(number, log.line(number)) for number in sorted(numbers))
    return [line for line in lines if line.number not in accounted and _causal(line, log)]


def _causal(line: Line, log: LogText) -> bool:
    text = line.text[:LONGEST_READ]
    if _CODE.match(text) or _quoted_code(text) or _QUIET.search(text) or harmless(text):
        return False
    return not _handled(log, line) and (not consequence(text) or _certain(complete(log, line)))


def _certain(text: str) -> bool:
    """True for a message whose cause is known, although it also reports that something ended."""
    read = read_message(text)
    return read is not None and read.reading.alone and read.reading.kind not in _ANY_KIND


def _quoted_code(text: str) -> bool:
    """True for a line of source in a traceback that has a rank or host before it."""
    return any(_CODE_LINE.match(text, at) for at in starts(text)[1:])


def _with_reason(text: str, message_text: str) -> Failure | None:
    """What a line that gives a reason reports; ``message_text`` is its complete message."""
    read = read_message(message_text)
    kind = _innermost(text, general=False)
    if read is None:
        return kind
    if kind is not None and read.reading.kind in _ANY_KIND:
        return read.as_kind(kind)
    return None if read.reading.general else read.failure


def _without_reason(text: str, message_text: str) -> Failure | None:
    """What a line reports that only names what could not be done."""
    read = read_message(message_text)
    return read.failure if read is not None else _innermost(text, general=True)


def _unread(text: str, message_text: str) -> Failure | None:
    del message_text
    unread = catalog()[UNREAD]
    return unread if _reports(unread, text, general=True) else None


def message(line: str) -> str:
    """A line without its time, host and level, and without the programs that precede these."""
    at = starts(line)
    chosen = 0
    for start, end in zip(at, [*at[1:], len(line)], strict=True):
        part = line[start:end]
        if _LEVEL.fullmatch(part) or (start == chosen and _TIME.match(part)):
            chosen = end
    return line[chosen:].strip()[:_LONGEST] or line.strip()[:_LONGEST]


def _innermost(text: str, *, general: bool) -> Failure | None:
    """The kind of the last part that gives a reason: a message adds what it was about before it."""
    for part in reversed(text.split(": ")):
        failure = _kind(part, general=general)
        if failure is not None:
            return failure
    return _kind(text, general=general)


def _kind(text: str, *, general: bool) -> Failure | None:
    return next((kind for kind in _kinds() if _reports(kind, text, general=general)), None)


def _reports(kind: Failure, text: str, *, general: bool) -> bool:
    if any(has(pattern.expression, text) for pattern in kind.unless_line):
        return False
    patterns = (pattern for pattern in kind.patterns if pattern.general is general)
    return any(has(pattern.expression, text) for pattern in patterns)


@cache
def _kinds() -> tuple[Failure, ...]:
    return tuple(kind for kind in catalog().values() if kind.stated and kind.id != UNREAD)


def _handled(log: LogText, line: Line) -> bool:
    """True when the program met another exception while it handled this one.

    What the system refused was not met on purpose: it is the cause of what came after it.
    """
    if _SYSTEM.search(line.text[:LONGEST_READ]):
        return False
    after = range(line.number + 1, line.number + 1 + _HANDLED_AFTER)
    return any(_HANDLED in log.line(later).lower() for later in after)
