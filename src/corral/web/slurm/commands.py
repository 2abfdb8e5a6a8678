"""Slurm by its client commands, where slurmrestd is too old or was not declared.

It has the methods of ``SlurmRest``, and the same records come out of it. There are no tokens then:
only who runs ``corral ui`` can log in, and commands run as that user by ssh.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from corral import api
from corral.errors import Code, CorralError
from corral.slurm import command as slurm
from corral.slurm.array_tasks import array_label, without_limit
from corral.slurm.command import Command
from corral.slurm.directives import refused_options
from corral.slurm.job_use import JobUse
from corral.slurm.records import Job, Node, Partition
from corral.slurm.rest import commands, past_jobs, read, write
from corral.slurm.rest.answers import perhaps_queued
from corral.slurm.rest.json_values import Record
from corral.slurm.rest.policy import RestQuestion
from corral.slurm.rest.stream import Memory
from corral.slurm.states.jobs import recorded_states
from corral.web.settings import Declared
from corral.web.slurm.slurmrest import Listing, Login

T = TypeVar("T")
_DENIED: Final = ("permission denied", "access/permission", "invalid user", "not permitted")

_CUT: Final = 124
"""The status of ``timeout`` where it ended the command."""

_DISABLED: Final = "accounting storage is disabled"
_NO_DATABASE: Final = ("not running a supported accounting_storage plugin", _DISABLED)


class ByCommands:
    """One cluster, asked on its controller.

    Args:
        declared: the cluster file.
    """

    def __init__(self, declared: Declared) -> None:
        self._declared = declared
        self._old = False
        self.release = ""
        self.calls = 0
        self.waited = 0.0

    async def close(self) -> None:
        """Nothing is open."""

    async def version(self, login: Login) -> int:
        """The shape in which requests are made."""
        return commands.SPEAKS

    def forget(self) -> None:
        """Ask again how old Slurm is: it was upgraded, perhaps."""
        self._old = False

    async def silent(self, login: Login) -> str:
        """Which daemon does not answer, in words; "" where slurmctld answers."""
        try:
            result = await api.slurm_command(self._declared.spec, login.user, slurm.PING.words)
        except CorralError as error:
            return error.message
        if result.status == _CUT:
            return "slurmctld does not answer"
        hosts = slurm.PING.parse(result.out)
        up = any(hosts.values()) or not hosts
        return "" if up else f"slurmctld on {', '.join(hosts)} does not answer"

    async def check(self, login: Login) -> None:
        """See whether Slurm answers this user; a token opens nothing here.

        Raises:
            CorralError: LOGIN_REFUSED, it came with a token; UNREACHABLE.
        """
        if login.token:
            raise CorralError(
                Code.LOGIN_REFUSED,
                "this cluster has no slurmrestd that could judge a token",
                hint="log in with the code that corral ui shows",
            )
        await self._asked(login, slurm.RELEASE)

    async def role(self, login: Login) -> str:
        """The user's role out of slurmdbd.

        Raises:
            CorralError: there is no slurmdbd, or it does not answer.
        """
        return await self._asked(login, slurm.level_of(login.user))

    async def nodes(self, login: Login, since: int = 0) -> Listing[Node]:
        """All nodes; no command lists only those changed since."""
        return await self._list(login, "nodes", read.node)

    async def jobs(
        self, login: Login, since: int = 0, memory: Memory[Job] | None = None
    ) -> Listing[Job]:
        """All jobs that slurmctld knows; no command lists only those changed since."""
        return await self._list(login, "jobs", read.job)

    async def partitions(self, login: Login) -> Listing[Partition]:
        """All partitions."""
        partitions = await self._list(login, "partitions", read.partition)
        if not self._old:
            return partitions
        return Listing(await self._asked(login, slurm.PARTITIONS_OF_22_05))

    async def job(self, login: Login, job_id: int) -> Job | None:
        """One job; None when slurmctld has forgotten it."""
        return next((job for job in await self._jobs(login) if job.id == job_id), None)

    async def jobs_of(self, login: Login, number: int) -> tuple[Job, ...]:
        """The job of a number; of an array's number its tasks too."""
        jobs = await self._jobs(login)
        return tuple(job for job in jobs if job.id == number or job.array == str(number))

    async def past(self, login: Login, days: int, user: str) -> past_jobs.Past:
        """Jobs that ended in the last days, by sacct; of one user, or "" for all.

        Raises:
            CorralError: NOT_FOUND, there is no accounting; SLURM_REFUSED; UNREACHABLE.
        """
        return await self._sacct(login, past_jobs.command(days, user, secrets.token_hex(8)))

    async def past_tasks(self, login: Login, job_id: int) -> tuple[Job, ...]:
        """A job by sacct, and the tasks of the array of that number.

        Raises:
            CorralError: as ``past``.
        """
        known = await self._sacct(login, past_jobs.command_for(job_id, secrets.token_hex(8)))
        return known.jobs

    async def past_use(self, login: Login, job_id: int) -> JobUse:
        """What an ended job used, by sacct.

        Raises:
            CorralError: as ``past``.
        """
        return await self._sacct(login, slurm.use_of_job(job_id))

    async def past_uses(self, login: Login, seconds: int, user: str) -> dict[int, JobUse]:
        """What jobs of a user used that ended in the last seconds, by sacct."""
        period = past_jobs.ago(seconds)
        return await self._sacct(login, slurm.use_of_jobs(period, user, recorded_states()))

    async def answer(self, login: Login, question: RestQuestion[T]) -> T:
        """The answer to one question about accounts, QOS, reservations and their kind.

        Raises:
            CorralError: NOT_FOUND, this release's command prints no JSON, or there is no
                accounting; SLURM_REFUSED; UNREACHABLE.
        """
        doing = f"asking for {question.what}"
        try:
            body = commands.body_of(await self._run(login, question.command, doing=doing))
        except CorralError as error:
            raise _unanswered(error, question) from error
        return question.read(body, commands.version_of(body))

    async def _sacct(self, login: Login, command: Command[T]) -> T:
        try:
            return await self._asked(login, command, doing="sacct")
        except CorralError as error:
            if _DISABLED in error.message.lower():
                raise CorralError(
                    Code.NOT_FOUND,
                    "this cluster keeps no accounting",
                    hint="slurm: {accounting: true}",
                ) from error
            raise

    async def states(self, login: Login) -> dict[str, str]:
        """State of each job by its label."""
        return {job.label: job.state for job in await self._jobs(login)}

    async def submit(self, login: Login, submission: write.Submission) -> int:
        """Submit a batch job; returns its number.

        Raises:
            CorralError: SLURM_REFUSED, UNREACHABLE.
        """
        script = commands.stdin_of(submission)
        output = await self._run(login, commands.sbatch_of(submission), script)
        number = commands.number_of(output)
        if number is None:
            unread = read.unreadable("sbatch printed no number of a job", output[-300:])
            raise perhaps_queued(unread, submission.name)
        return number

    async def change(self, login: Login, method: str, path: str, body: Any, doing: str) -> None:
        """Do something to one job or node, as the user.

        Raises:
            CorralError: SLURM_REFUSED or FORBIDDEN, with Slurm's own words; UNREACHABLE.
        """
        await self._run(login, commands.command_of(method, path, body), doing=doing)

    async def update(self, login: Login, job: Job, body: Any, doing: str) -> None:
        """Change one job, or the tasks of an array that have not begun; and no other.

        Raises:
            CorralError: SLURM_REFUSED or FORBIDDEN, with Slurm's own words; UNREACHABLE.
        """
        if not job.ref:  # scontrol has no other name for them than the array's, which means all
            raise CorralError(
                Code.SLURM_REFUSED,
                f"{doing}: Slurm prints only some of the pending tasks",
                hint=f"on a node: scontrol names them as JobId={job.array}_[FIRST-LAST]",
            )
        await self.change(login, "POST", f"job/{job.ref}", body, doing)

    async def cancel(self, login: Login, job: Job) -> None:
        """Cancel a job, a task of an array, or those that have not begun; and no other.

        Raises:
            CorralError: SLURM_REFUSED or FORBIDDEN, with Slurm's own words; UNREACHABLE.
        """
        label = array_label(job.label)
        if label is not None and label.task is None:
            return await self.cancel_pending(login, label.array, label.written if job.ref else "")
        return await self.change(login, "DELETE", f"job/{job.ref}", None, f"cancel job {job.label}")

    async def cancel_pending(self, login: Login, array: int, tasks: str = "") -> None:
        """Cancel the tasks of an array that have not begun, and no other; only some, or all."""
        named = f"{array}_[{without_limit(tasks)[0]}]" if tasks else str(array)
        argv = ("scancel", "--state=PENDING", named)
        await self._run(login, argv, doing=f"cancel pending tasks of {array}")

    async def _jobs(self, login: Login) -> tuple[Job, ...]:
        return (await self.jobs(login)).records or ()

    async def _list(self, login: Login, key: str, reader: Callable[[Record, int], T]) -> Listing[T]:
        body = commands.body_of(await self._printed(login, key))
        self.release = read.metadata(body).release or self.release
        known = read.listed(body, key, reader, commands.version_of(body))
        return Listing(known.records, unread=known.note(key))

    async def _printed(self, login: Login, key: str) -> str:
        if not self._old:
            try:
                return await self._run(login, commands.COMMANDS[key])
            except CorralError as error:
                if not commands.too_old(error.message):
                    raise
                self._old = True
        if key not in commands.OLDER:
            return json.dumps({key: []})
        return await self._run(login, commands.OLDER[key])

    async def _asked(self, login: Login, command: Command[T], doing: str = "") -> T:
        return command.parse(await self._run(login, command.words, doing=doing))

    async def _run(
        self, login: Login, command: tuple[str, ...], stdin: str = "", doing: str = ""
    ) -> str:
        self.calls += 1
        begin = time.monotonic()
        try:
            result = await api.slurm_command(self._declared.spec, login.user, command, stdin)
        finally:
            self.waited += time.monotonic() - begin
        if result.status == 0:
            return result.out
        words = " ".join((result.err or result.out).split())[-500:]
        denied = any(word in words.lower() for word in _DENIED)
        raise CorralError(
            Code.FORBIDDEN if denied else Code.SLURM_REFUSED,
            f"{doing or command[0]}: {words or f'exit status {result.status}'}",
            hint="only the owner of the job or an operator can do this" if denied else "",
            fields={option: words for option in refused_options((result.err or "").splitlines())}
            if command[0] == "sbatch"
            else {},
        )


def _unanswered(error: CorralError, question: RestQuestion[Any]) -> CorralError:
    """The error of a command that knows no such answer; any other as it is."""
    if commands.too_old(error.message) or error.code is Code.PARSE_FAILED:
        message = f"{question.command[0]} of this release does not print {question.what} as JSON"
        return CorralError(Code.NOT_FOUND, message)
    if question.of_accounting and any(words in error.message.lower() for words in _NO_DATABASE):
        return CorralError(
            Code.NOT_FOUND, "this cluster keeps no accounting", hint="slurm: {accounting: true}"
        )
    return error
