"""What a viewer's text costs, in a separate process: files, forms and logs that are checked.

Who writes the text decides how long it takes. In the server's process one that is slow keeps every
viewer waiting, in a thread too. Here a process gets ``LIMIT_S`` seconds of the processor for it,
and ``AT_ONCE`` of them run. Logs, which take longer, and templates, which are other people's, have
separate places: no form waits for one.

Each template is read in a separate process with ``FILE_S`` of the processor's time, root's first:
a file that costs too much is itself not read, and no other one. What was read is kept by the text.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import resource
import signal
import sys
from collections import Counter, OrderedDict, defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, NoReturn

from corral import api
from corral.errors import Code, CorralError
from corral.hosts import process
from corral.slurm.records import Job
from corral.slurm.states.jobs import ExitCode
from corral.spec.models import ClusterSpec
from corral.web.users.user_commands import error_of

LIMIT_S: Final = 10.0
"""Of the processor's time."""
END_S: Final = 30.0
"""In all: on a busy machine a process of 3 s of the processor's time took longer than 10 s."""
FILE_S: Final = 0.5
"""Of the processor's time, for a template: 32 KiB of the costliest YAML seen took 0.24 s."""
TEAM_S: Final = 2.0
"""For the templates of a team in one question; those that are left are read by the next ones."""
FILE_MEMORY: Final = 512 << 20
KEPT: Final = 16 << 20
"""Characters of templates that were read before."""
MEMORY: Final = 2 << 30
"""Bytes that a process may have."""
_NO_MEMORY: Final = 3
"""The status of a process that would need more."""
MAX_TEXT: Final = 1 << 18
"""Characters; 10,000 nodes are a range of one line."""
AT_ONCE: Final = 2
MOST: Final = 4
"""Of one user, those that wait included."""
_ARGV: Final = (sys.executable, "-m", "corral.web.users.worker_process")


@dataclass(frozen=True, slots=True)
class FilledJob:
    """A job by form: what is asked for, its batch script, and how many jobs Slurm makes of it."""

    spec: api.JobSpec
    script: str
    count: int


@dataclass(slots=True)
class _Places:
    """Who may have a process: one question of a user at a time, of all users ``AT_ONCE``."""

    _free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    _turns: dict[str, asyncio.Lock] = field(default_factory=dict[str, asyncio.Lock])
    _asked: Counter[str] = field(default_factory=Counter[str])

    @asynccontextmanager
    async def turn(self, user: str) -> AsyncGenerator[None]:
        """A user's place, in the order they came.

        Raises:
            CorralError: TOO_MANY of the user's are being checked.
        """
        if self._asked[user] >= MOST:
            raise CorralError(
                Code.TOO_MANY, f"{MOST} texts of {user} are being checked", hint="wait for them"
            )
        self._asked[user] += 1
        try:
            async with self._turns.setdefault(user, asyncio.Lock()), self._free:
                yield
        finally:
            self._asked[user] -= 1
            if not self._asked[user]:
                del self._asked[user], self._turns[user]


class _Kept:
    """Texts by key, the last used ones, up to so many characters."""

    def __init__(self, most: int) -> None:
        self._most, self._size = most, 0
        self._texts: OrderedDict[str, str] = OrderedDict()

    def get(self, key: str) -> str | None:
        """The text; None: it is not kept."""
        if key in self._texts:
            self._texts.move_to_end(key)
        return self._texts.get(key)

    def add(self, key: str, text: str) -> None:
        """Keep a text."""
        self._size += len(text) - len(self._texts.pop(key, ""))
        self._texts[key] = text
        while self._size > self._most:
            _, oldest = self._texts.popitem(last=False)
            self._size -= len(oldest)


def _key(file: api.TemplateFile, folder: str) -> str:
    """What a file's row depends on."""
    return hashlib.sha256(json.dumps([folder, asdict(file)]).encode()).hexdigest()


@dataclass(slots=True)
class WorkerProcesses:
    """Answers questions of viewers, a few at once.

    Attributes:
        argv: the program that reads a question and prints its answer, both JSON.
        limit_s: seconds for one question.
    """

    argv: tuple[str, ...] = _ARGV
    limit_s: float = END_S
    _texts: _Places = field(default_factory=_Places)
    _logs: _Places = field(default_factory=_Places)
    _folders: _Places = field(default_factory=_Places)
    _known: _Kept = field(default_factory=lambda: _Kept(KEPT))

    async def lint(
        self, text: str, file: str, user: str
    ) -> tuple[ClusterSpec | None, list[dict[str, Any]]]:
        """The cluster, where nothing is wrong with its text; and what is.

        Raises:
            CorralError: TIMED_OUT, it takes too long; COMMAND_FAILED; TOO_MANY of the
                user's are being checked.
        """
        hint = "corral lint FILE checks it in the terminal, without a limit"
        async with self._texts.turn(user):
            reply = await self._ask({"do": "lint", "text": text, "file": file}, "text", hint)
        spec = ClusterSpec.model_validate(reply["spec"]) if reply["spec"] else None
        return spec, reply["findings"]

    async def job(self, fields: dict[str, Any], spec: ClusterSpec) -> FilledJob:
        """A job of these fields, of a user whom the cluster knows.

        Raises:
            CorralError: TIMED_OUT, it takes too long; COMMAND_FAILED; USAGE, it cannot run as
                asked; TOO_MANY of the user's are being checked.
        """
        hint = "make it smaller, or use corral run, which has no limit"
        sent = {"do": "job", "fields": fields, "spec": spec.model_dump(mode="json")}
        async with self._texts.turn(str(fields.get("user", ""))):
            reply = await self._ask(sent, "job", hint)
        return FilledJob(api.JobSpec.model_validate(reply["job"]), reply["script"], reply["count"])

    async def templates(self, folder: api.TemplateFolder, user: str) -> list[dict[str, Any]]:
        """The fields of each file of the folder, or what is wrong with it.

        Raises:
            CorralError: TIMED_OUT, the machine is too busy; COMMAND_FAILED; TOO_MANY of the
                user's are being checked.
        """
        hint = f"keep fewer and smaller files in {folder.path}"
        async with self._folders.turn(user):
            keys = [_key(file, folder.path) for file in folder.files]
            rows = {key: self._known.get(key) for key in keys}
            named = zip(folder.files, keys, strict=True)
            new = replace(folder, files=tuple(file for file, key in named if not rows[key]))
            if new.files:
                reply = await self._ask({"do": "templates", **new.as_dict()}, "folder", hint)
                for file, row in zip(new.files, reply["templates"], strict=True):
                    key = _key(file, folder.path)
                    rows[key] = text = json.dumps(row)
                    if row["read"]:
                        self._known.add(key, text)
        return [json.loads(rows[key] or "{}") for key in keys]

    async def end(self, job: Job, text: str, user: str = "") -> dict[str, Any]:
        """What the doctor reports of how a job ended, as its report's fields.

        Args:
            job: it has ended.
            text: what it printed last.
            user: who asks; "": its owner.

        Raises:
            CorralError: TIMED_OUT, it takes too long; COMMAND_FAILED; TOO_MANY of the
                user's are being checked.
        """
        code = job.exit_code and (job.exit_code.status, job.exit_code.signal)
        ended = {"state": job.state, "reason": job.reason, "code": code, "text": text}
        hint = "corral doctor --log FILE reads a log without a limit"
        async with self._logs.turn(user or job.user):
            return await self._ask({"do": "end", **ended}, "log", hint)

    async def _ask(self, question: dict[str, Any], what: str, hint: str) -> dict[str, Any]:
        sent = json.dumps(question).encode()
        try:
            ended = await process.run(self.argv, stdin=sent, timeout=self.limit_s)
        except TimeoutError as error:
            fault = f"this {what} takes longer than {self.limit_s:g} s to check"
            raise CorralError(Code.TIMED_OUT, fault, hint=hint) from error
        if ended.status:
            code, fault = _fault(ended.status, what)
            raise CorralError(code, fault, tail=ended.err[-300:], hint=hint)
        reply = json.loads(ended.out)
        if "error" in reply:
            raise error_of(reply["error"])
        return reply


def _fault(status: int | None, what: str) -> tuple[Code, str]:
    """Why a process gave no answer."""
    if status == -signal.SIGXCPU:
        used = f"this {what} takes more than {LIMIT_S:g} s of the processor's time to check"
        return Code.TIMED_OUT, used
    if status == _NO_MEMORY:
        return Code.COMMAND_FAILED, f"this {what} needs more than {MEMORY >> 30} GiB to check"
    return Code.COMMAND_FAILED, f"this {what} cannot be checked: its process ended with {status}"


def main() -> None:
    """Answer the question on standard input."""
    limit = int(LIMIT_S)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        json.dump(answer(json.load(sys.stdin)), sys.stdout)
    except MemoryError:
        sys.exit(_NO_MEMORY)


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """The answer to a question, JSON-ready; ``error`` where it is a refusal."""
    try:
        return _ANSWERS[question["do"]](question)
    except CorralError as error:
        return {"error": error.as_dict()}


def _lint(question: dict[str, Any]) -> dict[str, Any]:
    spec, findings = api.lint_text(question["text"], question["file"])
    return {
        "spec": None if spec is None else spec.model_dump(mode="json"),
        "findings": [finding.as_dict() for finding in findings],
    }


def _job(question: dict[str, Any]) -> dict[str, Any]:
    job = api.job_spec(question["fields"])
    spec = ClusterSpec.model_validate(question["spec"])
    script = api.job_script(spec, job, user_known=True, script_known=True)
    count = len(job.tasks) or 1
    return {
        "job": job.model_dump(mode="json", exclude_unset=True),
        "script": script,
        "count": count,
    }


def _templates(question: dict[str, Any]) -> dict[str, Any]:
    """Root's files come first: they are those of no account."""
    folder = api.templates_of(question)
    used = defaultdict[str, float](float)
    rows = list[dict[str, Any]]()
    for file in folder.files:
        over = "the files before it" if sum(used.values()) >= LIMIT_S else ""
        if file.account and used[file.account] >= TEAM_S:
            over = f"the files of team {file.account} before it"
        if over:
            rows.append(
                _row(file, fault=f"not read yet: {over} took too long; load the page again")
            )
            continue
        before = _seconds_of_children()
        rows.append(_apart(file, folder.path))
        used[file.account] += _seconds_of_children() - before
    return {"templates": rows}


def _seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _apart(file: api.TemplateFile, folder: str) -> dict[str, Any]:
    """A template, read in a separate process, which ends at its limit whatever it does."""
    if file.trouble:
        return _row(file, fault=file.trouble, read=True)
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        _in_child(writes, file, folder)
    os.close(writes)
    with os.fdopen(reads, "rb") as stream:
        written = stream.read()
    _, status = os.waitpid(child, 0)
    if not status:
        return json.loads(written)
    faults = {
        -signal.SIGPROF: f"it takes more than {FILE_S:g} s of the processor's time to read",
        _NO_MEMORY: f"it needs more than {FILE_MEMORY >> 20} MiB to read",
    }
    code = os.waitstatus_to_exitcode(status)
    fault = faults.get(code, f"it cannot be read: its process ended with {code}")
    return _row(file, fault=fault, read=True)


def _in_child(writes: int, file: api.TemplateFile, folder: str) -> NoReturn:
    status = 1
    try:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, FILE_S)
        resource.setrlimit(resource.RLIMIT_AS, (FILE_MEMORY, FILE_MEMORY))
        with os.fdopen(writes, "wb") as stream:
            stream.write(json.dumps(_template(file, folder)).encode())
        status = 0
    except MemoryError:
        status = _NO_MEMORY
    finally:
        os._exit(status)


def _end(question: dict[str, Any]) -> dict[str, Any]:
    code = ExitCode(*question["code"]) if question["code"] else None
    return api.doctor_job(question["state"], question["reason"], code, question["text"]).as_dict()


def _template(file: api.TemplateFile, folder: str) -> dict[str, Any]:
    try:
        return _row(file, fields=api.template_fields(file, folder), read=True)
    except CorralError as error:
        return _row(file, fault=error.tail or error.message, read=True)


def _row(
    file: api.TemplateFile,
    *,
    fields: dict[str, Any] | None = None,
    fault: str = "",
    read: bool = False,
) -> dict[str, Any]:
    named = {"name": file.name, "account": file.account, "owner": file.owner}
    return {**named, "fields": fields or {}, "fault": fault, "read": read}


_ANSWERS: Final[Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]]] = MappingProxyType(
    {"lint": _lint, "job": _job, "templates": _templates, "end": _end}
)


if __name__ == "__main__":
    main()
