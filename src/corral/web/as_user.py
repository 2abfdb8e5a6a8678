# Installed as: a module of Corral's own environment on the controller (/opt/corral/web)
# Started by: corral-web-user@.service, for each connection to its socket
# Runs as: root until Slurm has accepted the token, then the user whose it is
"""The page's helper on the controller: one request, done as the user whose token it carries.

systemd starts one process for each connection to its socket, which only the page's own user may
open (``roles/services/page.py``). It reads one line of JSON, asks slurmrestd whether the token is
good, and becomes that user for the rest of its life; never root. So the page's server, if somebody
took it over, could do for a user only what the user's token could do anyway.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import sys
from collections.abc import Coroutine
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from corral import api
from corral.errors import Code, CorralError
from corral.slurm.records import Job
from corral.slurm.rest.past_jobs import job_of
from corral.slurm.rest.write import Submission
from corral.spec.models import ClusterSpec
from corral.web.settings import Settings
from corral.web.slurm.slurmrest import Login, SlurmRest, dumps
from corral.web.users.sessions import login_of

SETTINGS: Final = Path("/etc/corral/web.json")
LONGEST: Final = 4 << 20
PATIENCE_S: Final = 12 * 3600.0
_SUBMISSION: Final = TypeAdapter(Submission)
_NAMES: Final = TypeAdapter(list[str])


class Request(BaseModel):
    """One request."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    token: Annotated[str, Field(max_length=16384, repr=False)]
    do: Literal[
        "log",
        "script",
        "recorded",
        "requeue",
        "extras",
        "known",
        "submit",
        "templates",
        "environments",
        "expected",
        "script-expected",
        "submit-script",
    ]
    job: Annotated[int, Field(ge=0, le=0x7FFFFFFF)] = 0
    fields: dict[str, Any] = {}


def main() -> None:
    """Answer one request."""
    try:
        request = Request.model_validate_json(sys.stdin.buffer.readline(LONGEST))
        settings = Settings.model_validate_json(SETTINGS.read_text())
        spec = ClusterSpec.model_validate(settings.spec)
        login, job = asyncio.run(_accepted(request, settings, spec))
        become(login.user)
        asyncio.run(_while_asked(_act(request, spec, login, job)))
    except CorralError as error:
        _answer({"error": error.as_dict()})
    except (ValidationError, OSError, TimeoutError) as error:
        # Not the error's text: of a request it would repeat the token.
        print(f"corral: {type(error).__name__}", file=sys.stderr)
        _answer({"error": {"code": Code.COMMAND_FAILED.value, "message": "the helper failed"}})


async def _accepted(
    request: Request, settings: Settings, spec: ClusterSpec
) -> tuple[Login, Job | None]:
    """The user, once Slurm has taken the token; and the job, where it is this user's.

    Raises:
        CorralError: LOGIN_REFUSED; FORBIDDEN, the job is somebody else's; NOT_FOUND.
    """
    login = login_of(request.token)
    rest = SlurmRest(settings.rest)
    try:
        await rest.check(login)
        job = await _job(rest, login, request) if request.job else None
    finally:
        await rest.close()
    if request.job and (job is None or job.user != login.user):
        raise CorralError(
            Code.FORBIDDEN, f"job {request.job} is not {login.user}'s", hint="ask its owner"
        )
    if request.do == "submit":
        await api.make_room(spec, login.user)
    return login, job


async def _job(rest: SlurmRest, login: Login, request: Request) -> Job | None:
    """The job; what it wrote may be read still when only accounting remembers it."""
    job = await rest.job(login, request.job)
    if job is not None or request.do not in {"log", "extras", "recorded", "script"}:
        return job
    try:
        return job_of(await rest.past_tasks(login, request.job), request.job)
    except CorralError as error:
        if error.code is not Code.NOT_FOUND:
            raise
        return None


def become(user: str) -> None:
    """Become that user, irreversibly.

    Raises:
        CorralError: NOT_FOUND, no such user here; FORBIDDEN, it is root.
    """
    try:
        person = pwd.getpwnam(user)
    except KeyError as error:
        raise CorralError(
            Code.NOT_FOUND, f"the controller knows no user {user}", hint="corral apply makes them"
        ) from error
    if person.pw_uid == 0 or person.pw_gid == 0:
        raise CorralError(Code.FORBIDDEN, "root has no page", hint="log in as a person")
    os.initgroups(user, person.pw_gid)
    os.setresgid(person.pw_gid, person.pw_gid, person.pw_gid)
    os.setresuid(person.pw_uid, person.pw_uid, person.pw_uid)
    os.umask(0o022)
    os.environ.clear()
    os.environ.update(
        HOME=person.pw_dir,
        USER=user,
        LOGNAME=user,
        SHELL=person.pw_shell,
        PATH="/usr/local/bin:/usr/bin:/bin",
        LC_ALL="C.UTF-8",
    )
    os.chdir("/")


async def _while_asked(work: Coroutine[Any, Any, None]) -> None:
    """Do it until it is done, or until who asked goes away: systemd ends what is left of it."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    doing, gone = asyncio.create_task(work), asyncio.create_task(reader.read())
    await asyncio.wait({doing, gone}, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
    if doing.done():
        await doing
    else:
        os._exit(0)


async def _act(request: Request, spec: ClusterSpec, login: Login, job: Job | None) -> None:
    if request.do == "log" and job is not None:
        await api.job_log(
            spec,
            login.user,
            job,
            api.LogQuestion.model_validate(request.fields),
            on_line=lambda line: _answer({"line": line}),
            here=True,
        )
    elif request.do == "script":
        _answer({"text": await api.job_text(spec, login.user, request.job, here=True)})
    elif request.do == "recorded" and job is not None:
        _answer(asdict(await api.job_recorded(spec, login.user, job, here=True)))
    elif request.do == "extras" and job is not None:
        extras = await api.job_extras(
            spec,
            login.user,
            job.id,
            output=job.stdout,
            nodes=job.nodes,
            running=job.running,
            here=True,
        )
        _answer(extras.as_dict())
    elif request.do == "templates":
        accounts = _NAMES.validate_python(request.fields.get("accounts", []))
        folder = await api.job_templates(spec, login.user, accounts, here=True)
        for file in folder.as_dict()["files"]:
            _answer({"file": file})
        _answer({"path": folder.path, "trouble": folder.trouble})
    elif request.do == "environments":
        _answer((await api.job_environments(spec, login.user, here=True)).as_dict())
    elif request.do == "requeue" and job is not None:
        await api.requeue_job(spec, login.user, job.ref, here=True)
        _answer({"ok": True})
    else:
        await _of_form(request, spec, login)


async def _of_form(request: Request, spec: ClusterSpec, login: Login) -> None:
    if request.do == "known":  # else nobody could have become this user
        _answer({"ok": True})
        return
    if request.do in {"script-expected", "submit-script"}:
        script = _SUBMISSION.validate_python(request.fields)
        if request.do == "submit-script":
            _answer({"id": await api.submit_script(spec, login.user, script, here=True)})
            return
        _answer(asdict(await api.script_expected(spec, login.user, script, here=True)))
        return
    fields = {**request.fields, "user": login.user, "in_place": True}
    if fields.get("command") and not fields.get("script"):  # it is for a script
        del fields["in_place"]
    asked = api.job_spec(fields)
    if request.do == "submit":
        _answer({"id": (await api.submit_here(spec, asked)).id})
    elif request.do == "expected":
        _answer(asdict(await api.expected_here(spec, asked)))


def _answer(fields: dict[str, Any]) -> None:
    data = dumps(fields) + b"\n"
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # nobody listens any more
        os._exit(0)


if __name__ == "__main__":
    main()
