"""Use case of a job's page: the files that a job prints to, read with its owner's rights.

A question is one of a few modes of ``agents/jobs/log-read.pl``; its answer is lines, whose data is
in base64, so that a job's output cannot be taken for them:

    F NAME SIZE CHANGED PATH    a file
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
from corral.spec.hostlist import expand
from corral.spec.models import ClusterSpec

FOLLOW_S: Final = 12 * 3600
FIND_S: Final = 20
"""Seconds that one search may take; it goes on where it was."""
HITS: Final = 200
START: Final = 200_000
"""Bytes of the end that are shown at once, of all files together."""
MOST: Final = 16 << 20
"""Bytes of one question at most."""
ALL: Final = "all"
_SPARE_S: Final = 40
_NO_SUCH: Final = 4

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
class LogHit:
    """A line with the text: which file, the line's first byte, its number from 0."""

    name: str
    start: int
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class LogFound:
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
        CorralError: NOT_FOUND, no such file; UNREACHABLE.
    """
    troubles: list[str] = []

    def take(line: str) -> None:
        if line.startswith("X "):
            troubles.append(line)
        on_line(line)

    async with reached(spec, here=here) as (fleet, controller):
        first = next(iter(expand(job.nodes)), "") if job.nodes else ""
        node = first if first in fleet.nodes else controller
        script = as_user(user, log_script(job, question))
        limit = question.seconds + _SPARE_S
        result = await fleet.run(node, script, timeout=limit, on_line=take)
    if result.status == _NO_SUCH:
        why = troubles[-1].split(" ", 2)[2] if troubles else "no such file"
        raise CorralError(
            Code.NOT_FOUND,
            f"no output in {job.stdout or 'a file'}: {why}",
            node=node,
            hint="the job has not begun to write, or writes somewhere else",
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


def log_files(lines: Iterable[str]) -> tuple[LogFile, ...]:
    """The files that ``do="files"`` lists."""
    files: list[LogFile] = []
    for kind, rest in (line.split(" ", 1) for line in lines if " " in line):
        name, _, more = rest.partition(" ")
        if kind == "F":
            size, at, path = more.split(" ")
            files.append(
                LogFile(name, decoded(path).decode("utf-8", "replace"), int(size), int(at))
            )
        elif kind == "X":
            files.append(LogFile(name, trouble=more))
    return tuple(files)


def log_found(lines: Iterable[str]) -> LogFound:
    """What ``do="find"`` found.

    Raises:
        CorralError: PARSE_FAILED, the answer is not complete.
    """
    hits: list[LogHit] = []
    for line in lines:
        kind, *words = line.split(" ")
        if kind == "H":
            text = decoded(words[3]).decode("utf-8", "replace")
            hits.append(LogHit(words[0], int(words[1]), int(words[2]), text))
        elif kind == "E":
            return LogFound(tuple(hits), int(words[1]), int(words[2]), int(words[3]))
    raise CorralError(Code.PARSE_FAILED, "the search ended before its answer", hint="search again")


def log_piece(line: str) -> LogPiece | None:
    """The piece of a file that a line holds; None for other lines."""
    if not line.startswith("D "):
        return None
    _, name, start, data = line.split(" ")
    return LogPiece(name, int(start), decoded(data))


def decoded(data: str) -> bytes:
    """Bytes as the program wrote them.

    Raises:
        CorralError: PARSE_FAILED, it is not base64.
    """
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise CorralError(
            Code.PARSE_FAILED, "the output's bytes cannot be read", hint="load the page again"
        ) from error
