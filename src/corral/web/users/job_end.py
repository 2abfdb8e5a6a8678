# Installed as: a module of Corral's own environment on the controller (/opt/corral/web)
# Started by: corral-job-end@.service, for each connection to its socket
# Runs as: root until Slurm has made the token of the job's user, then that user
"""Why one job failed, for the message about its end: one question, one process.

systemd starts it for each connection to its socket, which only the user slurm may open: what sends
messages runs as that one (``agents/notify/send.py``). It reads one line of JSON, has Slurm make a
short token of the job's user, and becomes that user before it reads a line of the job's output. So
a path that a user chose is read with that user's rights, and never with root's.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from corral import api
from corral.errors import Code, CorralError
from corral.slurm.records import Job
from corral.slurm.rest.past_jobs import job_of
from corral.spec.models import ClusterSpec
from corral.web.as_user import SETTINGS, become
from corral.web.login.person import person
from corral.web.login.slurm_token import mint
from corral.web.settings import Settings
from corral.web.slurm.slurmrest import Login, SlurmRest, dumps
from corral.web.users.last_lines import LAST, explained, printed, text_of
from corral.web.users.worker_process import WorkerProcesses

TOKEN_S: Final = 120
LOG_S: Final = 20.0
LONGEST: Final = 4096
WAITED: Final = 5
"""Questions to slurmctld, a second apart, until it knows the end that its message is about."""


class Request(BaseModel):
    """Which job, and whose it is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    job: Annotated[int, Field(ge=1, le=0x7FFFFFFF)]
    user: Annotated[str, Field(min_length=1, max_length=64)]


def main() -> None:
    """Answer one question."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        request = Request.model_validate_json(sys.stdin.buffer.readline(LONGEST))
        settings = Settings.model_validate_json(Path(SETTINGS).read_text())
        spec = ClusterSpec.model_validate(settings.spec)
        login = asyncio.run(mint(person(request.user, ()), TOKEN_S))
        become(login.user)
        reply = asyncio.run(answer(spec, login, request.job, SlurmRest(settings.rest)))
    except CorralError as error:
        reply = {"error": error.message}
    except (ValidationError, OSError, TimeoutError) as error:
        print(f"corral: {type(error).__name__}", file=sys.stderr)
        reply = {"error": "the helper failed"}
    sys.stdout.buffer.write(dumps(reply) + b"\n")


async def answer(spec: ClusterSpec, login: Login, number: int, rest: SlurmRest) -> dict[str, Any]:
    """Why the job ended so. Its lines are counted, not repeated: a message goes to others too.

    Raises:
        CorralError: FORBIDDEN, it is somebody else's; NOT_GOOD, it has not ended; UNREACHABLE;
            TIMED_OUT, its output takes too long.
    """
    try:
        record = await _ended(rest, login, number)
    finally:
        await rest.close()
    text, no_output = await _last_lines(spec, login.user, record)
    report = await WorkerProcesses().end(record, text)
    end = explained(record, report, no_output)
    words = ("title", "detail", "cause", "fix")
    findings = [{word: str(finding[word]) for word in words} for finding in end["findings"]]
    return {**end, "findings": findings, "lines": len(end["lines"])}


async def _ended(rest: SlurmRest, login: Login, number: int) -> Job:
    for _ in range(WAITED):
        record = await rest.job(login, number)
        if record is None:  # slurmctld has forgotten it
            record = job_of(await rest.past_tasks(login, number), number)
        if record is None or record.user != login.user:
            raise CorralError(
                Code.FORBIDDEN, f"job {number} is not {login.user}'s", hint="ask its owner"
            )
        if record.ended:
            return record
        await asyncio.sleep(1)
    raise CorralError(Code.NOT_GOOD, f"job {number} has not ended", hint="its page has it later")


async def _last_lines(spec: ClusterSpec, user: str, record: Job) -> tuple[str, str]:
    lines: list[str] = []
    try:
        async with asyncio.timeout(LOG_S):
            await api.job_log(spec, user, printed(record), LAST, on_line=lines.append, here=True)
    except CorralError as error:
        return "", error.message
    except TimeoutError:
        return "", f"it took longer than {LOG_S:g} s to read"
    return text_of(lines)


if __name__ == "__main__":
    main()
