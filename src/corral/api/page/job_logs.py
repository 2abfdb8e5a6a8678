"""Use case of a job's page: the files that a job prints to, read with its owner's rights.

A question is one of a few modes of ``agents/jobs/log-read.pl``; its answer is lines, whose data is
in base64, so that a job's output cannot be taken for them. The program runs as the job's user, who
may write into what it prints: each line is checked, and what was not asked for is left out.

    F NAME SIZE CHANGED PATH    a file
    M RANKS                     how many more ranks there are, which are not listed
    R RANKS                     how many ranks the job has, before what is followed
    S NAME SIZE                 how long the file is that is read
    D NAME START BYTES          a piece of it
    N NAME                      it was written again from its beginning
    L                           what is there has come; what follows is new
    H NAME START LINE BYTES     a line with the text that is searched, counted from 0
    E NAME START LINE SIZE      how far the search came
    X NAME WHY                  a file that cannot be read
    h                           nothing new
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from corral.agents import program
from corral.api.sync import reached
from corral.errors import Code, CorralError
from corral.hosts.quote import Script, sh
from corral.hosts.transport import check
from corral.jobs.follow import as_user
from corral.slurm.records import Job
from corral.spec.models import ClusterSpec
from corral.spec.slurm.hostlist import expand

FOLLOW_S: Final = 12 * 3600
FIND_S: Final = 20
"""Seconds that one search may take; it goes on where it was."""
HITS: Final = 200
START: Final = 200_000
"""Bytes of the end that are shown at once, of all files together."""
MOST: Final = 16 << 20
"""Bytes of one question at most."""
ALL: Final = "all"
RANKS: Final = 4096
"""That are listed and followed together, as in log-read.pl."""
_SPARE_S: Final = 40
_NO_SUCH: Final = 4
_TAKEN: Final = {
    "files": (2 * RANKS + 16, 8 << 20),
    "last": (5 * RANKS, 32 << 20),
    "read": (2_000, 0),
    "find": (HITS + 16, 1 << 20),
}
"""Lines and characters of an answer at most; one that follows has no end, and of one that reads the
range decides how many characters."""
_LINES: Final = 1 << 16
"""Characters of an answer that are not of the file."""
_NAME: Final = r"(?P<name>batch|output|errors|rank-(?:0|[1-9][0-9]{0,5}))"
_START: Final = r"(?P<start>[0-9]{1,16})"
_SIZE: Final = r"(?P<size>[0-9]{1,16})"
_LINE: Final = r"(?P<line>[0-9]{1,16})"
_DATA: Final = r"(?P<data>(?:[A-Za-z0-9+/]{4}){0,%d}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)"
"""Base64 of so many times three bytes."""
_FORMS: Final = {
    "F": re.compile(rf"F {_NAME} {_SIZE} (?P<at>-?[0-9]{{1,16}}) {_DATA % 2_048}"),
    "M": re.compile(r"M (?P<ranks>[0-9]{1,6})"),
    "R": re.compile(r"R (?P<ranks>[0-9]{1,6})"),
    "S": re.compile(rf"S {_NAME} {_SIZE}"),
    "D": re.compile(rf"D {_NAME} {_START} {_DATA % 15_000}"),
    "N": re.compile(rf"N {_NAME}"),
    "L": re.compile(r"L"),
    "H": re.compile(rf"H {_NAME} {_START} {_LINE} {_DATA % 140}"),
    "E": re.compile(rf"E {_NAME} {_START} {_LINE} {_SIZE}"),
    "X": re.compile(rf"X {_NAME} (?P<why>[^\x00-\x1f\x7f]{{0,300}})"),
    "h": re.compile(r"h"),
}

Name = Annotated[str, Field(pattern=r"^(all|batch|output|errors|rank-[0-9]{1,6})$")]
"""A file of a job: its ranks', the batch script's; of a job of sbatch what Slurm calls output and
errors. No path: the job's own record has them."""
Offset = Annotated[int, Field(ge=0, le=1 << 53)]


class LogQuestion(BaseModel):
    """What is asked of a job's files.

    Attributes:
        do: list them; follow them; the end of them; read a range; find a text.
        name: which file; ``all`` only to follow them or for their end.
        start, end: the range in bytes; a search begins at the first.
        text: what to find, upper and lower case alike.
        line: how many lines there are before ``start``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    do: Literal["files", "follow", "last", "read", "find"]
    name: Name = ALL
    start: Offset = 0
    end: Offset = 0
    text: Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""
    line: Offset = 0

    @property
    def seconds(self) -> int:
        """How long it may take."""
        return FOLLOW_S if self.do == "follow" else FIND_S


@dataclass(frozen=True, slots=True)
class LogFile:
    """One of a job's files.

    Attributes:
        name: as ``LogQuestion`` takes it.
        path: where it is.
        size: bytes.
        at: when it changed last, unix seconds.
        trouble: why it cannot be read; it has no size then.
    """

    name: str
    path: str = ""
    size: int = 0
    at: int = 0
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Bytes of a file, and where they begin in it."""

    name: str
    start: int
    data: bytes


@dataclass(frozen=True, slots=True)
class LogEvent:
    """A line of what is followed.

    Attributes:
        kind: its letter.
        name: which file; "" for none.
        ranks: how many the job has, with R.
        why: a file cannot be read, with X.
        piece: bytes of the file, with D.
    """

    kind: str
    name: str = ""
    ranks: int = 0
    why: str = ""
    piece: LogPiece | None = None


@dataclass(frozen=True, slots=True)
class LogHit:
    """A line with the text: which file, the line's first byte, its number from 0."""

    name: str
    start: int
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class LogMatches:
    """What a search gave: up to ``HITS`` lines, and where it goes on.

    Attributes:
        end: the first byte that was not searched; line: its line.
        size: of the file: where ``end`` reaches it, all was searched.
    """

    hits: tuple[LogHit, ...]
    end: int
    line: int
    size: int


async def job_log(
    spec: ClusterSpec,
    user: str,
    job: Job,
    question: LogQuestion,
    *,
    on_line: Callable[[str], None],
    here: bool = False,
) -> None:
    """The answer to a question about a job's files, line by line; cancel it to stop following.

    Args:
        spec: the cluster.
        user: owner of the job: its files are read with this user's rights, never with root's, so
            that a link leads nowhere that the user could not go.
        job: as Slurm reports it: its files are on the first of its nodes, or are shared.
        question: what is asked.
        on_line: called with each line.
        here: this process is on the controller and runs as that user.

    Raises:
        CorralError: NOT_FOUND, no such file; UNREACHABLE; PARSE_FAILED, it is not an answer.
    """
    trouble = ""
    bounds = LogBounds(question)

    def take(line: str) -> None:
        nonlocal trouble
        bounds.take(line)
        if line.startswith("X "):
            trouble = _read(line)["why"]
        on_line(line)

    async with reached(spec, here=here) as (fleet, controller):
        first = next(iter(expand(job.nodes)), "") if job.nodes else ""
        node = first if first in fleet.nodes else controller
        script = as_user(user, log_script(job, question))
        limit = question.seconds + _SPARE_S
        result = await fleet.run(node, script, timeout=limit, on_line=take)
    if result.status == _NO_SUCH:
        raise CorralError(
            Code.NOT_FOUND,
            f"no output in {job.stdout or 'a file'}: {trouble or 'no such file'}",
            node=node,
            hint="the job has not begun to write, or writes somewhere else"
            if here or node == first or not first
            else f"it ran on {first}, which the cluster file that is read here does not name",
        )
    check(result, "reading the job's output")


def log_script(job: Job, question: LogQuestion) -> Script:
    """The script that answers; it runs as the job's user."""
    q = question
    start = START if q.do in {"follow", "last"} else q.start
    return sh(
        "exec perl -e {program} {do} {out} {err} {name} "
        "{start} {end} {text} {line} {most} {seconds}",
        program=program("jobs/log-read.pl"),
        do=q.do,
        out=job.stdout,
        err=job.stderr,
        name=q.name,
        start=start,
        end=min(q.end, q.start + MOST),
        text=q.text,
        line=q.line,
        most=HITS,
        seconds=q.seconds,
    )


class LogBounds:
    """How much of an answer is taken, as it is kept until it is complete.

    Args:
        question: what it answers.
    """

    def __init__(self, question: LogQuestion) -> None:
        self._left = _TAKEN.get(question.do)
        if question.do == "read" and self._left is not None:
            # In base64, in lines of 45,000 bytes; a job's user may print more than was asked for.
            asked = min(max(question.end - question.start, 0), MOST)
            self._left = (self._left[0], asked * 3 // 2 + _LINES)

    def take(self, line: str) -> None:
        """Count a line.

        Raises:
            CorralError: PARSE_FAILED, the answer is longer than any.
        """
        if self._left is None:
            return
        lines, characters = self._left
        self._left = (lines - 1, characters - len(line))
        if min(self._left) < 0:
            raise _wrong("the answer is longer than what was asked for")


def log_files(lines: Iterable[str]) -> tuple[tuple[LogFile, ...], int]:
    """The files that ``do="files"`` lists, each once; how many ranks more there are.

    Raises:
        CorralError: PARSE_FAILED.
    """
    files: dict[str, LogFile] = {}
    more = 0
    for line in lines:
        part = _read(line)
        if line[0] == "M":
            more = int(part["ranks"])
        elif line[0] == "F" and _asked(part["name"], ALL):
            path = decoded(part["data"]).decode("utf-8", "replace")
            files[part["name"]] = LogFile(part["name"], path, int(part["size"]), int(part["at"]))
        elif line[0] == "X" and _asked(part["name"], ALL):
            files[part["name"]] = LogFile(part["name"], trouble=part["why"])
    return tuple(files.values()), more


def log_matches(lines: Iterable[str], *, name: str = ALL, start: int = 0) -> LogMatches:
    """What ``do="find"`` found.

    Args:
        lines: the answer.
        name: the file that was searched.
        start: the first byte that was.

    Raises:
        CorralError: PARSE_FAILED, the answer is not complete.
    """
    hits: list[LogHit] = []
    for line in lines:
        part = _read(line)
        if line[0] not in "HE" or not _asked(part["name"], name) or int(part["start"]) < start:
            continue
        at, number = int(part["start"]), int(part["line"])
        if line[0] == "E":
            return LogMatches(tuple(hits), at, number, int(part["size"]))
        if len(hits) < HITS:
            text = decoded(part["data"]).decode("utf-8", "replace")
            hits.append(LogHit(part["name"], at, number, text))
    raise CorralError(Code.PARSE_FAILED, "the search ended before its answer", hint="search again")


def log_data(lines: Iterable[str], question: LogQuestion) -> tuple[bytes, int]:
    """The bytes that ``do="read"`` asked for, one piece after the other; how long the file is.

    Raises:
        CorralError: PARSE_FAILED.
    """
    at, end = question.start, min(question.end, question.start + MOST)
    data: list[bytes] = []
    size = 0
    for line in lines:
        part = _read(line)
        if line[0] not in "SD" or not _asked(part["name"], question.name):
            continue
        if line[0] == "S":
            size = int(part["size"])
        elif int(part["start"]) == at < end:
            data.append(decoded(part["data"])[: end - at])
            at += len(data[-1])
    return b"".join(data), size


def log_event(line: str, name: str = ALL) -> LogEvent | None:
    """A line of what is followed; None for a file that was not asked for.

    Raises:
        CorralError: PARSE_FAILED.
    """
    part = _read(line)
    kind, fields = line[0], part.groupdict()
    if "name" in fields and not _asked(part["name"], name):
        return None
    piece = None
    if kind == "D":
        piece = LogPiece(part["name"], int(part["start"]), decoded(part["data"]))
    return LogEvent(
        kind,
        fields.get("name") or "",
        int(fields.get("ranks") or 0),
        fields.get("why") or "",
        piece,
    )


def _read(line: str) -> re.Match[str]:
    form = _FORMS.get(line[:1])
    part = form.fullmatch(line) if form else None
    if part is None:
        raise _wrong("the output's answer cannot be read")
    return part


def _asked(name: str, asked: str) -> bool:
    """Whether a file is what was asked for; of all, the ranks that are listed."""
    if asked != ALL:
        return name == asked
    return not name.startswith("rank-") or int(name.removeprefix("rank-")) < RANKS


def _wrong(message: str) -> CorralError:
    return CorralError(Code.PARSE_FAILED, message, hint="load the page again")


def decoded(data: str) -> bytes:
    """Bytes as the program wrote them.

    Raises:
        CorralError: PARSE_FAILED, it is not base64.
    """
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _wrong("the output's bytes cannot be read") from error
