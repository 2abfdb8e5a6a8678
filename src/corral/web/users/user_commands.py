"""What a user does with Slurm's own commands: log, script, requeue, a job by form.

Where Corral runs here it goes by ssh. The controller's service asks a helper there
(``web/as_user.py``), which begins by letting Slurm judge the user's token once more.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any, Final, Protocol, cast

from corral import api
from corral.errors import BAD_JSON, Code, CorralError
from corral.slurm.records import Job
from corral.slurm.rest.write import Submission
from corral.web.settings import Declared
from corral.web.slurm.slurmrest import Login, dumps
from corral.web.tasks.use_case_thread import in_thread

LINE: Final = 4 << 20
ANSWER_S: Final = 120.0
"""For what has one answer. A log that is followed has no limit."""
UNIT: Final = "corral-web-user"
OnLine = Callable[[str], None]


class UserCommands(Protocol):
    """What is done as the user, with the user's rights only."""

    async def log(self, login: Login, job: Job, question: api.LogQuestion, on_line: OnLine) -> None:
        """The answer to a question about the job's files, line by line (``api.job_log``)."""
        ...

    async def script(self, login: Login, job_id: int) -> str:
        """The job's batch script."""
        ...

    async def recorded(self, login: Login, job: Job) -> api.Recorded:
        """What the job was: its script, its submit line, the form that Corral keeps."""
        ...

    async def templates(self, login: Login, accounts: Sequence[str]) -> api.TemplateFolder:
        """Job files that are kept for all, and by the teams of these accounts."""
        ...

    async def known(self, login: Login) -> bool:
        """Whether the controller knows the user, whom the cluster file need not name."""
        ...

    async def environments(self, login: Login) -> api.Environments:
        """Container images and Python environments that are there."""
        ...

    async def requeue(self, login: Login, job: Job) -> None:
        """Put it back into the queue."""
        ...

    async def extras(self, login: Login, job: Job) -> api.Extras:
        """Its environment, its tracked run, its recordings."""
        ...

    async def expected(self, login: Login, job: api.JobSpec) -> api.ExpectedStart:
        """When Slurm would start a job of ``corral run``'s kind."""
        ...

    async def script_expected(self, login: Login, job: Submission) -> api.ExpectedStart:
        """When Slurm would start a batch script as it is."""
        ...

    async def submit_script(self, login: Login, job: Submission) -> int:
        """Submit a batch script by sbatch, as the user; returns its number."""
        ...

    async def submit(self, login: Login, job: api.JobSpec) -> int:
        """Submit a job of ``corral run``'s kind; returns its number."""
        ...


class BySsh:
    """From the machine where Corral runs, on the cluster's machines."""

    def __init__(self, declared: Declared) -> None:
        self._declared = declared

    async def log(self, login: Login, job: Job, question: api.LogQuestion, on_line: OnLine) -> None:
        await api.job_log(self._declared.spec, login.user, job, question, on_line=on_line)

    async def script(self, login: Login, job_id: int) -> str:
        return await api.job_text(self._declared.spec, login.user, job_id)

    async def recorded(self, login: Login, job: Job) -> api.Recorded:
        return await api.job_recorded(self._declared.spec, login.user, job)

    async def templates(self, login: Login, accounts: Sequence[str]) -> api.TemplateFolder:
        return await api.job_templates(self._declared.spec, login.user, accounts)

    async def known(self, login: Login) -> bool:
        return await api.has_person(self._declared.spec, login.user)

    async def environments(self, login: Login) -> api.Environments:
        return await api.job_environments(self._declared.spec, login.user)

    async def requeue(self, login: Login, job: Job) -> None:
        await api.requeue_job(self._declared.spec, login.user, job.ref)

    async def extras(self, login: Login, job: Job) -> api.Extras:
        return await api.job_extras(
            self._declared.spec,
            login.user,
            job.id,
            output=job.stdout,
            nodes=job.nodes,
            running=job.running,
        )

    async def expected(self, login: Login, job: api.JobSpec) -> api.ExpectedStart:
        spec = self._declared.spec
        return await in_thread(lambda _: api.expected_start(spec, job, user_known=True))

    async def script_expected(self, login: Login, job: Submission) -> api.ExpectedStart:
        return await api.script_expected(self._declared.spec, login.user, job)

    async def submit_script(self, login: Login, job: Submission) -> int:
        return await api.submit_script(self._declared.spec, login.user, job)

    async def submit(self, login: Login, job: api.JobSpec) -> int:
        # The points of a sweep are written out: of 100,000 that takes a while.
        spec = self._declared.spec
        made = await in_thread(lambda _: api.submit(spec, job, user_known=True))
        return made.id


class ByHelper:
    """On the controller: each request is a process of the helper's, by its socket.

    Args:
        path: the socket.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    async def log(self, login: Login, job: Job, question: api.LogQuestion, on_line: OnLine) -> None:
        fields = question.model_dump()
        bounds = api.LogBounds(question)
        async for reply in self._ask(login, do="log", job=job.id, fields=fields):
            if "line" in reply:
                line = str(reply["line"])
                bounds.take(line)
                on_line(line)

    async def script(self, login: Login, job_id: int) -> str:
        return str((await self._first(login, do="script", job=job_id))["text"])

    async def recorded(self, login: Login, job: Job) -> api.Recorded:
        return api.recorded_of(await self._first(login, do="recorded", job=job.id))

    async def templates(self, login: Login, accounts: Sequence[str]) -> api.TemplateFolder:
        asked = {"accounts": [*accounts]}
        folder = dict[str, Any]()
        files = list[dict[str, Any]]()
        async with limited(UNIT):
            async for reply in self._ask(login, do="templates", fields=asked):
                if "file" in reply:  # a line for each file
                    files.append(reply["file"])
                else:
                    folder = reply
        return api.templates_of({**folder, "files": files})

    async def known(self, login: Login) -> bool:
        try:
            await self._first(login, do="known")
        except CorralError as error:
            if error.code not in (Code.NOT_FOUND, Code.FORBIDDEN):
                raise
            return False
        return True

    async def environments(self, login: Login) -> api.Environments:
        return api.environments_of(await self._first(login, do="environments"))

    async def requeue(self, login: Login, job: Job) -> None:
        await self._first(login, do="requeue", job=job.id)

    async def extras(self, login: Login, job: Job) -> api.Extras:
        reply = await self._first(login, do="extras", job=job.id)
        pairs = tuple((str(name), str(value)) for name, value in reply["environment"])
        return api.Extras(pairs, reply["run"], reply["tracking"], tuple(reply["recordings"]))

    async def expected(self, login: Login, job: api.JobSpec) -> api.ExpectedStart:
        fields = job.model_dump(mode="json", exclude_defaults=True)
        return _expected(await self._first(login, do="expected", fields=fields))

    async def script_expected(self, login: Login, job: Submission) -> api.ExpectedStart:
        fields = asdict(job)
        return _expected(await self._first(login, do="script-expected", fields=fields))

    async def submit_script(self, login: Login, job: Submission) -> int:
        return int((await self._first(login, do="submit-script", fields=asdict(job)))["id"])

    async def submit(self, login: Login, job: api.JobSpec) -> int:
        fields = job.model_dump(mode="json", exclude_defaults=True)
        return int((await self._first(login, do="submit", fields=fields))["id"])

    async def _first(self, login: Login, **request: Any) -> dict[str, Any]:
        async with limited(UNIT):
            async for reply in self._ask(login, **request):
                return reply
        raise CorralError(
            Code.COMMAND_FAILED,
            "the controller's helper gave no answer",
            hint=_journal(UNIT),
        )

    def _ask(self, login: Login, **request: Any) -> AsyncIterator[dict[str, Any]]:
        return helper_replies(self._path, UNIT, {"token": login.token, **request})


@asynccontextmanager
async def limited(unit: str) -> AsyncGenerator[None]:
    """Answers of a helper that come within ANSWER_S.

    Args:
        unit: the name of its socket's unit.

    Raises:
        CorralError: TIMED_OUT.
    """
    try:
        async with asyncio.timeout(ANSWER_S):
            yield
    except TimeoutError as error:
        raise CorralError(
            Code.TIMED_OUT,
            f"the controller's helper has not answered within {ANSWER_S:g} s",
            hint=f"what it was asked to do may still be done; {_journal(unit)}",
        ) from error


def _journal(unit: str) -> str:
    return f"on the controller: journalctl -u '{unit}@*'"


def _expected(reply: dict[str, Any]) -> api.ExpectedStart:
    start_at = None if reply["start_at"] is None else int(reply["start_at"])
    return api.ExpectedStart(start_at, str(reply["nodes"]))


async def helper_replies(
    path: str, unit: str, request: dict[str, Any]
) -> AsyncIterator[dict[str, Any]]:
    """What a helper of the controller answers to one request.

    Args:
        path: its socket.
        unit: the name of its socket's unit.
        request: JSON-ready.

    Raises:
        CorralError: UNREACHABLE; PARSE_FAILED; the helper's own.
    """
    try:
        reader, writer = await asyncio.open_unix_connection(path, limit=LINE)
    except OSError as error:
        raise _away(unit, error) from error
    try:
        try:
            writer.write(dumps(request) + b"\n")
            await writer.drain()
        except OSError as error:
            raise _away(unit, error) from error
        while line := await _line(reader, unit):
            reply = _object(line)
            if "error" in reply:
                raise error_of(reply["error"])
            yield reply
    finally:
        writer.close()


def _away(unit: str, error: OSError) -> CorralError:
    return CorralError(
        Code.UNREACHABLE,
        "the controller's helper does not answer",
        tail=str(error),
        hint=f"on the controller: systemctl status {unit}.socket",
    )


async def _line(reader: asyncio.StreamReader, unit: str) -> bytes:
    try:
        return await reader.readline()
    except ValueError as error:
        raise _unread(f"longer than {LINE >> 20} MiB") from error
    except OSError as error:  # systemd ended it, or it died
        raise _away(unit, error) from error


def _object(line: bytes) -> dict[str, Any]:
    try:
        reply: Any = json.loads(line)
    except BAD_JSON as error:
        raise _unread("not JSON") from error
    if not isinstance(reply, dict):
        raise _unread("not an object")
    return cast("dict[str, Any]", reply)


def _unread(why: str) -> CorralError:
    return CorralError(
        Code.PARSE_FAILED, f"the helper's answer is {why}", hint="load the page again"
    )


def error_of(fields: dict[str, Any]) -> CorralError:
    """An error as the helper wrote it."""
    names = ("node", "command", "tail", "hint", "fields")
    words = {name: fields[name] for name in names if fields.get(name)}
    return CorralError(Code(fields["code"]), fields["message"], **words)
