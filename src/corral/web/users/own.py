"""What a user does with Slurm's own commands: log, script, requeue, a job by form.

Where Corral runs here it goes by ssh. The controller's service asks a helper there
(``web/as_user.py``), which begins by letting Slurm judge the user's token once more.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Protocol

from corral import api
from corral.errors import Code, CorralError
from corral.slurm.records import Job
from corral.spec.models import ClusterSpec
from corral.web.slurm.slurmrest import Login, dumps
from corral.web.tasks.aside import aside

LINE: Final = 4 << 20
OnLine = Callable[[str], None]


class Own(Protocol):
    """What is done as the user, with nobody else's rights."""

    async def log(self, login: Login, job: Job, on_line: OnLine) -> None:
        """The job's output as it grows, until cancelled; to its end where the job has ended."""
        ...

    async def script(self, login: Login, job_id: int) -> str:
        """The job's batch script."""
        ...

    async def requeue(self, login: Login, job_id: int) -> None:
        """Put it back into the queue."""
        ...

    async def extras(self, login: Login, job: Job) -> api.Extras:
        """Its environment, its tracked run, its recordings."""
        ...

    async def submit(self, login: Login, job: api.JobSpec) -> int:
        """Hand in a job of ``corral run``'s kind; gives its number."""
        ...


class BySsh:
    """From the machine where Corral runs, on the cluster's machines."""

    def __init__(self, spec: ClusterSpec) -> None:
        self._spec = spec

    async def log(self, login: Login, job: Job, on_line: OnLine) -> None:
        """See ``Own``."""
        await api.job_log(
            self._spec, login.user, job.stdout, job.nodes, follow=not job.ended, on_line=on_line
        )

    async def script(self, login: Login, job_id: int) -> str:
        """See ``Own``."""
        return await api.job_text(self._spec, login.user, job_id)

    async def requeue(self, login: Login, job_id: int) -> None:
        """See ``Own``."""
        await api.requeue_job(self._spec, login.user, job_id)

    async def extras(self, login: Login, job: Job) -> api.Extras:
        """See ``Own``."""
        return await api.job_extras(
            self._spec, login.user, job.id,
            output=job.stdout, nodes=job.nodes, running=job.state == "RUNNING",
        )  # fmt: skip

    async def submit(self, login: Login, job: api.JobSpec) -> int:
        """See ``Own``."""
        # The points of a sweep are written out: of 100,000 that takes a while.
        return (await aside(lambda _: api.submit(self._spec, job))).id


class ByHelper:
    """On the controller: each request is a process of the helper's, by its socket.

    Args:
        path: the socket.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    async def log(self, login: Login, job: Job, on_line: OnLine) -> None:
        """See ``Own``."""
        async for told in self._ask(login, do="log", job=job.id):
            if "line" in told:
                on_line(told["line"])

    async def script(self, login: Login, job_id: int) -> str:
        """See ``Own``."""
        return str((await self._one(login, do="script", job=job_id))["text"])

    async def requeue(self, login: Login, job_id: int) -> None:
        """See ``Own``."""
        await self._one(login, do="requeue", job=job_id)

    async def extras(self, login: Login, job: Job) -> api.Extras:
        """See ``Own``."""
        told = await self._one(login, do="extras", job=job.id)
        pairs = tuple((str(name), str(value)) for name, value in told["environment"])
        return api.Extras(pairs, told["run"], told["tracking"], tuple(told["recordings"]))

    async def submit(self, login: Login, job: api.JobSpec) -> int:
        """See ``Own``."""
        fields = job.model_dump(mode="json", exclude_defaults=True)
        return int((await self._one(login, do="submit", fields=fields))["id"])

    async def _one(self, login: Login, **wanted: Any) -> dict[str, Any]:
        async for told in self._ask(login, **wanted):
            return told
        raise CorralError(
            Code.COMMAND_FAILED,
            "the controller's helper gave no answer",
            hint="on the controller: journalctl -u 'corral-web-user@*'",
        )

    async def _ask(self, login: Login, **wanted: Any) -> AsyncIterator[dict[str, Any]]:
        try:
            reader, writer = await asyncio.open_unix_connection(self._path, limit=LINE)
        except OSError as error:
            raise CorralError(
                Code.UNREACHABLE,
                "the controller's helper does not answer",
                tail=str(error),
                hint="on the controller: systemctl status corral-web-user.socket",
            ) from error
        try:
            writer.write(dumps({"token": login.token, **wanted}) + b"\n")
            await writer.drain()
            while line := await reader.readline():
                told = json.loads(line)
                if "error" in told:
                    raise error_of(told["error"])
                yield told
        finally:
            writer.close()


def error_of(told: dict[str, Any]) -> CorralError:
    """An error as the helper wrote it."""
    words = {key: told[key] for key in ("node", "command", "tail", "hint") if told.get(key)}
    return CorralError(Code(told["code"]), told["message"], **words)
