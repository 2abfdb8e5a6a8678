"""What a job prints, as it prints it; it ends with the job."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from corral.errors import Code, CorralError
from corral.slurm.records import Job
from corral.web.routes.jobs import JobId, own_commands, own_job
from corral.web.routes.streams import LiveView
from corral.web.slurm.slurmrest import dumps
from corral.web.state import Here, State, Viewer, still_in
from corral.web.users.own import Own
from corral.web.users.sessions import Session

router = APIRouter(prefix="/api/jobs", tags=["jobs"])
LINES_AT_ONCE: Final = 500
QUIET_S: Final = 15.0
WAITING: Final = 20_000
"""Lines that wait for a viewer; more are left out."""
OVER_S: Final = 1.0
"""How often a followed job is checked for its end."""
LATE_S: Final = 2.0
"""A job's output may come after its end (NFS): it is over after so long without a line."""
LATEST_S: Final = 10.0
"""It is over so long after the job's end in any case."""
STEP_S: Final = 0.25


@router.get(
    "/{job_id}/log",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}}},
)
async def log(request: Request, job_id: JobId, session: Viewer, state: Here) -> StreamingResponse:
    """What one's own job prints, as it prints it (server-sent events); ends with the job."""
    record = await own_job(state, session, job_id)
    if not record.stdout:
        raise CorralError(Code.NOT_FOUND, f"job {job_id} writes no file", hint="an srun does not")
    if "%a" in record.stdout:
        raise CorralError(
            Code.NOT_FOUND,
            "each task of an array has its own output",
            hint=f"none of {record.label} has started; a task that has is in the list of jobs",
        )
    output = Output(own_commands(state), state, session, record)

    async def stream() -> AsyncGenerator[bytes]:
        reading = asyncio.create_task(output.read())
        try:
            async for lines in output.batches():
                if not still_in(request):
                    break
                yield b"data: " + dumps({"lines": lines}) + b"\n\n"
            end = {"error": output.trouble.as_dict()} if output.trouble else {}
            yield b"event: end\ndata: " + dumps(end) + b"\n\n"
        finally:
            reading.cancel()

    return LiveView(state.streams, session.user, stream())


class Output:
    """The lines of one job on their way to one viewer.

    Args:
        own: reads them with the viewer's rights.
        state: the server's.
        session: the viewer's.
        job: whose lines.

    Attributes:
        trouble: why no more come, None where the job or its file has ended.
    """

    def __init__(self, own: Own, state: State, session: Session, job: Job) -> None:
        self._own = own
        self._state = state
        self._session = session
        self._job = job
        self._queue: asyncio.Queue[str | None] = asyncio.Queue(WAITING)
        self._last = time.monotonic()
        self.trouble: CorralError | None = None

    async def read(self) -> None:
        """Read until the end of the job or its file, or until cancelled."""
        try:
            await (self._lines() if self._job.ended else self._until_its_end())
        except CorralError as error:
            self.trouble = error
        await self._queue.put(None)

    async def batches(self) -> AsyncIterator[list[str]]:
        """Lines as they come, many at once where they come fast; empty lists keep it alive."""
        while True:
            lines: list[str] = []
            try:
                async with asyncio.timeout(QUIET_S):
                    line = await self._queue.get()
            except TimeoutError:
                yield lines
                continue
            while line is not None:
                lines.append(line)
                if self._queue.empty() or len(lines) >= LINES_AT_ONCE:
                    break
                line = self._queue.get_nowait()
            if lines:
                yield lines
            if line is None:
                return

    def _take(self, line: str) -> None:
        self._last = time.monotonic()
        if not self._queue.full():
            self._queue.put_nowait(line)

    async def _lines(self) -> None:
        await self._own.log(self._session.login, self._job, self._take)

    async def _until_its_end(self) -> None:
        reading = asyncio.create_task(self._lines())
        over = asyncio.create_task(self._over())
        try:
            await asyncio.wait({reading, over}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                await reading
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
        now = await self._state.pollers.of(self._session.user).fresh()
        if now.trouble:
            return False
        with suppress(CorralError):  # Slurm does not answer just now
            # A job that was just submitted is not in the list yet.
            job = now.jobs.get(self._job.id)
            job = job or await self._state.rest.job(self._session.login, self._job.id)
            return job is None or job.ended
        return False
