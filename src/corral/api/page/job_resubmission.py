"""Use case of the page: what a job was, so that it can be edited and submitted again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast

from corral.api.sync import reached
from corral.errors import BAD_JSON, Code, CorralError
from corral.hosts.quote import Script, call, sh
from corral.hosts.transport import check
from corral.inspect.jobs import LONGEST_SCRIPT, job_script, submit_line
from corral.inspect.question import Answer, inquiry
from corral.jobs.follow import as_user
from corral.slurm.records import Job
from corral.spec.models import ClusterSpec

_USER: Final = "jobs/user.sh"
_ABOUT: Final = "[ ! -f {folder}/job.json ] || head -c {longest} {folder}/job.json"


def fields_of(text: str) -> dict[str, Any]:
    """The job of a job.json; nothing where it is another file."""
    try:
        about: Any = json.loads(text) if text else {}
    except BAD_JSON:
        return {}
    job = cast("dict[str, Any]", about).get("job") if isinstance(about, dict) else None
    return dict(cast("dict[str, Any]", job)) if isinstance(job, dict) else {}


_OWN: Final = Answer("job-form", fields_of)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a job was.

    Attributes:
        script: its batch script, "" where neither slurmctld nor accounting has it.
        submit_line: the command that submitted it, "" where it is unknown.
        job: ``corral run``'s own fields of it, where Corral submitted it.
        program: the program that it ran, as a path on the shared storage; "" for a command, and
            where it is not there any more.
    """

    script: str = ""
    submit_line: str = ""
    job: Mapping[str, Any] = field(default_factory=dict[str, Any])
    program: str = ""


async def job_recorded(spec: ClusterSpec, user: str, job: Job, *, here: bool = False) -> Recorded:
    """Look, with the rights of the job's owner.

    Args:
        spec: the cluster.
        user: owner of the job.
        job: as Slurm reports it.
        here: this process is on the controller and runs as that user.

    Raises:
        CorralError: NOT_FOUND, the cluster is not up; UNREACHABLE; PARSE_FAILED, the answer is
            incomplete.
    """
    folder = folder_of(job)
    of_slurm, line = job_script(job.id, LONGEST_SCRIPT), submit_line(job.id)
    own_record = _OWN.by(sh(_ABOUT, folder=folder, longest=LONGEST_SCRIPT))
    asked = inquiry(q.run_by(partial(as_user, user)) for q in (of_slurm, line, own_record))
    what = "reading what the job was"
    async with reached(spec, here=here) as (fleet, controller):
        result = await fleet.run(controller, asked.script, timeout=90)
        sections = asked.read(check(result, what).stdout)
        texts = sections.require(asked.names, controller, what)
        sections.succeeded(_OWN.name, controller, what, stderr=result.stderr)
        own = _OWN.read(texts)
        if not own:  # its script is all that there is of it
            hint = "try again once slurmctld and slurmdbd answer: corral doctor"
            sections.succeeded(of_slurm.name, controller, what, hint=hint, stderr=result.stderr)
        program = ""
        if own.get("script") and not own.get("in_place"):
            located = await fleet.run(controller, as_user(user, program_script(folder, own)))
            program = check(located, what).stdout.strip()
    script = of_slurm.read(texts)
    return Recorded(
        f"{script}\n" if script else "", line.read(texts), own, program or _in_place(own)
    )


def folder_of(job: Job) -> str:
    """The folder in which Corral keeps what a job is; one that does not exist for other jobs."""
    folder, slash, name = job.stdout.rpartition("/")
    if name != "batch.log" or not slash:
        return "/nonexistent"
    above, _, last = folder.rpartition("/")
    return above if last.startswith("task-") else folder


def program_script(folder: str, own: Mapping[str, Any]) -> Script:
    """Prints where the program is that an uploaded job ran."""
    script = str(own["script"])
    base = script.rpartition("/")[2]
    relative = base if script.startswith("/") or ".." in script.split("/") else script
    return call(_USER, "job_program", folder, relative, base)


def _in_place(own: Mapping[str, Any]) -> str:
    return str(own.get("script", "")) if own.get("in_place") else ""


def recorded_of(fields: Mapping[str, Any]) -> Recorded:
    """As the controller's helper sends it.

    Raises:
        CorralError: PARSE_FAILED.
    """
    try:
        return Recorded(
            str(fields["script"]),
            str(fields["submit_line"]),
            dict(fields["job"]),
            str(fields["program"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CorralError(
            Code.PARSE_FAILED, "the helper's answer cannot be read", hint="load the page again"
        ) from error
