"""What a job prints: its files, as they grow, in parts, searched, downloaded; and why it failed."""

from __future__ import annotations

import asyncio
import codecs
import logging
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from types import MappingProxyType
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response

from corral import api
from corral.errors import Code, CorralError
from corral.slurm.records import Job
from corral.web import schemas
from corral.web.openapi import file_of
from corral.web.routes.jobs import JobId, known_job, own_commands, own_job
from corral.web.routes.streams import LiveView
from corral.web.slurm.slurmrest import dumps
from corral.web.state import DIGITS, Here, State, Viewer, poller_for, still_in
from corral.web.users.last_lines import LAST, explained, printed, text_of
from corral.web.users.sessions import Session
from corral.web.users.user_commands import UserCommands

router = APIRouter(prefix="/api/jobs", tags=["jobs"])
PIECES_AT_ONCE: Final = 16
QUIET_S: Final = 15.0
WAITING: Final = 64
"""Pieces of up to 45,000 bytes that wait for a viewer. Where more come the page sees by their
offsets which are missing, and offers to load them."""
WAITING_CHARACTERS: Final = 1 << 20
"""Of them all: a user may have 48 logs open, and read none of them."""
OVER_S: Final = 1.0
"""How often a followed job is checked for its end."""
LATE_S: Final = 2.0
"""A job's output may come after its end (NFS): it is over after so long without a line."""
LATEST_S: Final = 10.0
"""It is over so long after the job's end in any case."""
STEP_S: Final = 0.25
PART: Final = 256 << 10
"""Bytes of a file that are sent at once."""
BLOCK: Final = 4 << 20
"""Bytes of a download that are in memory at once, and some three times as much while they are read
out of the answer's base64: 16 downloads (``State.downloads``) take a quarter of the service's 1 GB.
Each block is a process on the node, so that smaller ones make a download slower."""
KEEP_END_S: Final = 300.0
"""Why a job failed is found out once: it takes a process some seconds."""

File = Annotated[str, Query(pattern=r"^(all|batch|output|errors|rank-[0-9]{1,6})$")]
Offset = Annotated[int, DIGITS, Query(ge=0, le=1 << 53)]
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType(
    {"findings": (), "lines": (), "no_output": "", "memory": None, "about": ""}
)
"""Of the end of a job, where the doctor could not be asked."""
_UTF8_MORE: Final = range(0x80, 0xC0)
OWN_ERROR: Final = "an error in Corral: the output could not be read; the page's log has why"

log_of_server = logging.getLogger(__name__)


@router.get(
    "/{job_id}/log",
    status_code=200,
    response_class=LiveView,
    responses={200: {"model": schemas.LogBatch}},
)
async def log(
    request: Request, job_id: JobId, session: Viewer, state: Here, file: File = "all"
) -> LiveView:
    """What one's own job prints, as it prints it (server-sent events); ends with the job.

    It begins with the end of each file. A piece has the file's name, its first and last byte
    and its text; ``again`` where the file was written again from its beginning, ``trouble`` where
    it cannot be read. ``live`` is true once all is there that was printed before; ``ranks`` is
    how many there are.
    """
    record = printed(await own_job(state, session, job_id))
    output = Output(own_commands(state), state, session, record, file)

    async def stream() -> AsyncGenerator[bytes]:
        reading = asyncio.create_task(output.read())
        try:
            async for batch in output.batches():
                if not still_in(request):
                    break
                yield b"data: " + dumps(batch) + b"\n\n"
            end = {"error": output.trouble.as_dict()} if output.trouble else {}
            yield b"event: end\ndata: " + dumps(end) + b"\n\n"
        finally:
            reading.cancel()

    return LiveView(state.streams, session.user, stream())


@router.get("/{job_id}/log/files", response_model=schemas.LogFiles)
async def log_files(job_id: JobId, session: Viewer, state: Here) -> Any:
    """The files of one's own job; each task of an array has its own."""
    record = await own_job(state, session, job_id)
    files: tuple[api.LogFile, ...] = ()
    left_out = 0
    if record.stdout and "%a" not in record.stdout:
        files, left_out = await _listed(state, session, record)
    return {"files": [asdict(file) for file in files], "left_out": left_out}


async def _listed(
    state: State, session: Session, record: Job
) -> tuple[tuple[api.LogFile, ...], int]:
    own, lines = own_commands(state), list[str]()
    async with state.questions.turn(session.user):
        await own.log(session.login, record, api.LogQuestion(do="files"), lines.append)
        return await asyncio.to_thread(api.log_files, lines)  # thousands of ranks


@router.get("/{job_id}/log/part", response_model=schemas.LogPart)
async def log_part(  # noqa: PLR0917  # FastAPI calls it by name
    job_id: JobId, session: Viewer, state: Here, file: File, start: Offset, end: Offset
) -> Any:
    """Complete lines of a file of one's own job, within a range of bytes: 256 KiB at most.

    ``start`` and ``end`` of the answer are those of the lines. A line that is longer than the range
    is cut where a character ends.
    """
    record = printed(await own_job(state, session, job_id))
    question = api.LogQuestion(do="read", name=file, start=start, end=min(end, start + PART))
    async with state.questions.turn(session.user):
        data, size = await read(own_commands(state), session, record, question)
    first, last = complete_lines(data, begins=start == 0, ends=start + len(data) >= size)
    return {
        "file": file,
        "start": start + first,
        "end": start + last,
        "size": size,
        "text": data[first:last].decode("utf-8", "replace"),
    }


@router.get("/{job_id}/log/search", response_model=schemas.LogMatches)
async def log_search(  # noqa: PLR0917  # FastAPI calls it by name
    job_id: JobId,
    session: Viewer,
    state: Here,
    file: File,
    text: Annotated[str, Query(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")],
    start: Offset = 0,
    line: Offset = 0,
) -> Any:
    """Lines of a file of one's own job with a text, from a byte on; upper and lower case alike.

    At most 200 lines, and 20 s: where ``end`` is before ``size`` the search goes on with it, and
    with its ``line``.
    """
    record = printed(await own_job(state, session, job_id))
    question = api.LogQuestion(do="find", name=file, text=text, start=start, line=line)
    lines: list[str] = []
    with state.searches.counted(session.user):
        await own_commands(state).log(session.login, record, question, lines.append)
    return asdict(api.log_matches(lines, name=file, start=start))


@router.get(
    "/{job_id}/log/download",
    response_class=Response,
    responses=file_of("application/octet-stream"),
)
async def log_download(job_id: JobId, session: Viewer, state: Here, file: File = "all") -> LiveView:
    """A file of one's own job as it is; of several each behind a line with its name."""
    record = printed(await own_job(state, session, job_id))
    own = own_commands(state)
    listed, _ = await _listed(state, session, record)
    files = [f for f in listed if file in {f.name, "all"} and not f.trouble]
    if not files:
        raise CorralError(
            Code.NOT_FOUND, f"job {record.label} has no such output", hint="it wrote nothing yet"
        )

    async def content() -> AsyncGenerator[bytes]:
        for each in files:
            if len(files) > 1:
                yield f"==> {each.name}: {each.path} <==\n".encode()
            for start in range(0, each.size, BLOCK):
                end = min(start + BLOCK, each.size)
                question = api.LogQuestion(do="read", name=each.name, start=start, end=end)
                data, _ = await read(own, session, record, question)
                yield data
                if not data:  # it is shorter now than it was
                    break

    label = re.sub(r"[^0-9A-Za-z_+]", "", record.label)
    name = f"job-{label}{'' if file == 'all' else f'-{file}'}.log"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    if (
        len(files) == 1
    ):  # a file that became shorter meanwhile breaks off, and is not called complete
        headers["content-length"] = str(files[0].size)
    return LiveView(
        state.downloads, session.user, content(), headers, media_type="application/octet-stream"
    )


@router.get("/{job_id}/end", response_model=schemas.JobEnd)
async def job_end(job_id: JobId, session: Viewer, state: Here) -> dict[str, Any]:
    """Why a job failed, by the doctor's rules on its last lines and on Slurm's record.

    ``seen`` is what of it the viewer may see: ``output`` its own, with its last lines; ``record``
    anybody's for operators, by Slurm's record; ``state`` of others, without findings and use.
    ``findings`` has the known failures, causes first; ``lines`` those of its output that report an
    error, where no failure is known. ``no_output`` is why its output could not be read.
    ``memory`` is the peak of its largest step in MiB, null where accounting has not measured it.
    ``about`` is what of its request the end is about: ``memory``, ``time``, ``nodes`` or "".
    ``known`` is false where the doctor could not be asked, and ``why`` has the reason.
    """
    record = await known_job(state, session, job_id)
    if not record.ended:
        raise CorralError(
            Code.NOT_GOOD, f"job {record.label} has not ended", hint="its output is on its page"
        )
    mine = record.user == session.user
    if not mine and not session.operates:
        return {**_NOTHING, "seen": "state", "known": True, "at": 0.0, "why": ""}
    seen = "output" if mine else "record"
    key = ("end", session.user, seen, job_id, record.state, record.end_at)
    answer = await state.responses.get(key, KEEP_END_S, lambda: _end(state, session, record))
    return {**answer.head(), **(answer.value or _NOTHING), "seen": seen}


async def _end(state: State, session: Session, record: Job) -> dict[str, Any]:
    if record.user == session.user:
        text, no_output = await _last_lines(state, session, record)
    else:
        text, no_output = "", f"{record.user} alone reads it"
    report = await state.workers.end(record, text, session.user)
    memory = None
    with suppress(CorralError):  # there may be no accounting
        memory = (await state.past.use(session.login, record.id)).memory
    return {**explained(record, report, no_output), "memory": memory}


async def _last_lines(state: State, session: Session, record: Job) -> tuple[str, str]:
    """The end of what the job printed, one file after the other; why there is none.

    Raises:
        CorralError: LOGIN_REFUSED.
    """
    lines: list[str] = []
    try:
        own = own_commands(state)
        async with state.questions.turn(session.user):
            await own.log(session.login, printed(record), LAST, lines.append)
        return await asyncio.to_thread(text_of, lines)
    except CorralError as error:
        if error.code is Code.LOGIN_REFUSED:
            raise
        return "", error.message


async def read(
    own: UserCommands, session: Session, record: Job, question: api.LogQuestion
) -> tuple[bytes, int]:
    """Bytes of a file, and how long it is.

    Raises:
        CorralError: NOT_FOUND, it cannot be read; PARSE_FAILED.
    """
    lines: list[str] = []
    await own.log(session.login, record, question, lines.append)
    return await asyncio.to_thread(api.log_data, lines, question)  # megabytes


def complete_lines(data: bytes, *, begins: bool, ends: bool) -> tuple[int, int]:
    """Where the first line of a range begins, and its last one ends.

    Args:
        data: the range.
        begins: a line begins with it.
        ends: the file ends with it.
    """
    first, last = 0, len(data)
    if not begins:
        at = data.find(b"\n") + 1 or data.find(b"\r") + 1
        first = at if 0 < at < last else _character(data, 0)
    if not ends:
        at = data.rfind(b"\n") + 1
        last = at if at > first else _character_before(data, last)
    return first, max(first, last)


def _character(data: bytes, at: int) -> int:
    while at < len(data) and data[at] in _UTF8_MORE:
        at += 1
    return at


def _character_before(data: bytes, at: int) -> int:
    back = at - 1
    while back > 0 and at - back < 4 and data[back] in _UTF8_MORE:  # noqa: PLR2004  # UTF-8's longest
        back -= 1
    try:
        data[max(back, 0) : at].decode()
    except UnicodeDecodeError as error:
        return back if error.reason == "unexpected end of data" else at
    return at


class Output:
    """The files of one job, streamed to one viewer.

    Args:
        own: reads them with the viewer's rights.
        state: the server's.
        session: the viewer's.
        job: whose files.
        file: which of them, or ``all``.

    Attributes:
        trouble: why no more come, None where the job or its file has ended.
    """

    def __init__(
        self, own: UserCommands, state: State, session: Session, job: Job, file: str
    ) -> None:
        self._own = own
        self._state = state
        self._session = session
        self._job = job
        self._file = file
        self._queue: asyncio.Queue[str | None] = asyncio.Queue(WAITING)
        self._waiting = 0
        self._last = time.monotonic()
        self._live = False
        self._ranks = 0
        self._texts: dict[str, Text] = {}
        self.trouble: CorralError | None = None

    async def read(self) -> None:
        """Read until the end of the job or its file, or until cancelled."""
        try:
            await (self._lines("last") if self._job.ended else self._until_its_end())
        except CorralError as error:
            self.trouble = error
        except Exception:  # an error of ours: without an end the viewer would wait for ever
            log_of_server.exception("reading the output of job %s failed", self._job.id)
            self.trouble = CorralError(Code.COMMAND_FAILED, OWN_ERROR, hint="load the page again")
        await self._queue.put(None)

    async def batches(self) -> AsyncIterator[dict[str, Any]]:
        """Pieces as they come, many at once where they come fast; empty ones keep it alive."""
        while True:
            lines: list[str] = []
            try:
                async with asyncio.timeout(QUIET_S):
                    line = await self._queue.get()
            except TimeoutError:
                yield self._batch(lines)
                continue
            while line is not None:
                self._waiting -= len(line)
                lines.append(line)
                if self._queue.empty() or len(lines) >= PIECES_AT_ONCE:
                    break
                line = self._queue.get_nowait()
            try:
                batch = self._batch(lines)
            except CorralError as error:
                self.trouble = error
                return
            if lines:
                yield batch
            if line is None:
                return

    def _batch(self, lines: list[str]) -> dict[str, Any]:
        pieces = [piece for line in lines if (piece := self._piece(line))]
        return {"pieces": pieces, "live": self._live, "ranks": self._ranks}

    def _piece(self, line: str) -> dict[str, Any] | None:
        event = api.log_event(line, self._file)
        if event is None:
            return None
        if event.kind == "L":
            self._live = True
        elif event.kind == "R":
            self._ranks = event.ranks
        elif event.kind == "N":
            self._texts.pop(event.name, None)
            return _shown(event.name, again=True)
        elif event.kind == "X":
            return _shown(event.name, trouble=event.why)
        elif piece := event.piece:
            text = self._texts.setdefault(piece.name, Text()).of(piece)
            end = piece.start + len(piece.data)
            return _shown(piece.name, start=piece.start, end=end, text=text)
        return None

    def _take(self, line: str) -> None:
        if line == "h":
            return
        if line.startswith("D "):
            self._last = time.monotonic()
        if not self._queue.full() and self._waiting + len(line) <= WAITING_CHARACTERS:
            self._waiting += len(line)
            self._queue.put_nowait(line)

    async def _lines(self, do: Any) -> None:
        question = api.LogQuestion(do=do, name=self._file)
        await self._own.log(self._session.login, self._job, question, self._take)

    async def _until_its_end(self) -> None:
        reading = asyncio.create_task(self._lines("follow"))
        over = asyncio.create_task(self._over())
        try:
            await asyncio.wait({reading, over}, return_when=asyncio.FIRST_COMPLETED)
            for task in (reading, over):
                if task.done():
                    await task  # raises what it ended with: a failure is not the job's end
        finally:
            reading.cancel()
            over.cancel()

    async def _over(self) -> None:
        """Returns once the job has ended and what it printed has come."""
        ended = False
        while not ended:
            await asyncio.sleep(OVER_S)
            ended = await self._ended()
        end = time.monotonic()
        for _ in range(round(LATEST_S / STEP_S)):
            await asyncio.sleep(STEP_S)
            if time.monotonic() - max(end, self._last) >= LATE_S:
                return

    async def _ended(self) -> bool:
        now = await poller_for(self._state, self._session).fresh()
        if now.trouble:
            return False
        with suppress(CorralError):  # Slurm does not answer just now
            # A job that was just submitted is not in the list yet.
            job = now.jobs.get(self._job.id)
            job = job or await self._state.rest.job(self._session.login, self._job.id)
            return job is None or job.ended
        return False


class Text:
    """The text of one file's pieces: a character may be cut between two of them."""

    def __init__(self) -> None:
        self._decoder = _decoder()
        self._end = -1

    def of(self, piece: api.LogPiece) -> str:
        """The next piece's text."""
        if piece.start != self._end:
            self._decoder = _decoder()
        self._end = piece.start + len(piece.data)
        return self._decoder.decode(piece.data)


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")("replace")


def _shown(
    file: str,
    *,
    start: int = 0,
    end: int = 0,
    text: str = "",
    again: bool = False,
    trouble: str = "",
) -> dict[str, Any]:
    return {
        "file": file,
        "start": start,
        "end": end,
        "text": text,
        "again": again,
        "trouble": trouble,
    }
