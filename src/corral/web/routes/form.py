"""Jobs by form: ``corral run``'s job out of JobSpec, with nothing of this server's disk in it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import asdict
from itertools import islice, product
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Annotated, Any, Final, cast

from fastapi import APIRouter, Query, Request
from pydantic import ValidationError

from corral import api
from corral.errors import Code, CorralError
from corral.jobs.allowances import (
    Allowance,
    against_allowances,
    demand_of,
    demand_of_options,
    waits_for,
)
from corral.jobs.limits import nodes_for, partition_name, refuse
from corral.roles.machine.people import limits_declared
from corral.slurm.array_tasks import array_label
from corral.slurm.directives import directives
from corral.slurm.records import Job
from corral.slurm.rest import policy as questions
from corral.slurm.rest.write import Submission
from corral.slurm.resubmission import resubmission
from corral.spec.models import ClusterSpec
from corral.spec.nodes import users_of
from corral.spec.values import USER_NAME
from corral.web import schemas
from corral.web.routes.jobs import (
    JobId,
    audited,
    elsewhere,
    own_commands,
    own_job,
    records_of_array,
)
from corral.web.routes.my_work import limits_of
from corral.web.routes.policy import asked
from corral.web.routes.scripts import Script, fields_of_script, known_here, submission_of
from corral.web.slurm.arrays import TASKS, all_tasks
from corral.web.slurm.choices import (
    Charge,
    account_choices,
    allowances,
    partition_choices,
    qos_choices,
)
from corral.web.slurm.snapshot import Snapshot, job_kind
from corral.web.state import Changer, Here, State, Viewer, poller_of
from corral.web.users.sessions import Session
from corral.web.users.worker_process import FilledJob

router = APIRouter(prefix="/api/jobs", tags=["jobs"])
OF_THIS_MACHINE: Final = frozenset({"folder", "in_place", "environment"})
"""JobSpec's fields that name files of the machine that submits (decision 0057)."""
FIELDS: Final = api.JobSpec.model_fields
KEEP_S: Final = 60.0
KEEP_POINTS_S: Final = 600.0
"""Images and environments of a user are kept so long."""


@router.get("/form", response_model=schemas.JobForm)
async def form(session: Viewer, state: Here) -> Any:
    """The form of a job: JobSpec's JSON Schema, and the shared folders.

    ``why_no_spec`` is why the viewer submits no job by form, "" where ``can_spec``. ``recipients``
    are who gets a message at a job's end (``services.notify``): webhooks, and the viewer by mail.
    """
    spec = state.spec
    why = await why_no_form(state, session)
    schema = api.JobSpec.model_json_schema()
    for name in OF_THIS_MACHINE | {"user"}:
        del schema["properties"][name]
    schema = _for_browsers(schema)
    return {
        "schema": schema,
        "can_spec": not why,
        "why_no_spec": why,
        "storage": [s.mount for s in spec.storage] if spec else [],
        "recipients": _recipients(spec, session.user),
        "containers": bool(spec and spec.software.containers != "none"),
    }


_CLASS: Final = re.compile(r"\\.|\[((?:\\.|[^\]\\])*)\]")
_IN_CLASS: Final = re.compile(r"\\.|^-|-$|[()\[{}/|]")


def pattern_for_browsers(pattern: str) -> str:
    """A pattern that Python reads as before, and browsers too, whose inputs have the flag ``v``.

    With it ``-`` at the end of a class, brackets and ``|`` in it are to be escaped.
    """

    def escaped(match: re.Match[str]) -> str:
        return match[0] if match[0].startswith("\\") else f"\\{match[0]}"

    def of_class(match: re.Match[str]) -> str:
        return match[0] if match[1] is None else f"[{_IN_CLASS.sub(escaped, match[1])}]"

    return _CLASS.sub(of_class, pattern)


def _for_browsers(schema: Any) -> Any:
    """A JSON Schema with its patterns so."""
    if isinstance(schema, list):
        return [_for_browsers(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    entries = cast("dict[str, Any]", schema).items()
    return {
        name: pattern_for_browsers(value)
        if name == "pattern" and isinstance(value, str)
        else _for_browsers(value)
        for name, value in entries
    }


@router.get("/choices", response_model=schemas.JobChoices)
async def choices(request: Request, session: Viewer, state: Here) -> dict[str, Any]:
    """Partitions, and the viewer's accounts and QOS, with what is free or left of limits now.

    ``gpus_free`` is null where Slurm does not report it; ``gpus_left`` and ``jobs_left`` are null
    where no limit is known. ``known`` is false where accounting does not answer or there is none,
    and ``why`` has the reason: ``accounts`` and ``qos`` are empty then.
    """
    now = await poller_of(request, session).fresh()
    members = await asked(state, session, questions.ASSOCIATIONS)
    limits = await limits_of(state, session.user, session, now)
    spec = state.spec
    default = partition_name(api.JobSpec(command=("true",)), spec) if spec else ""

    def made() -> dict[str, Any]:
        accounts = account_choices(session.user, members.value or (), limits["rows"])
        return {
            **members.head(),
            "partitions": partition_choices(now.partitions, now.nodes.values(), default),
            "accounts": accounts,
            "qos": qos_choices(accounts, limits["rows"]),
        }

    return await asyncio.to_thread(made)  # of 10,000 nodes


@router.get("/templates", response_model=schemas.JobTemplates)
async def templates(session: Viewer, state: Here) -> Any:
    """Job files that are kept for all or by a team, as filled forms, or with what is wrong.

    They are in ``corral/templates`` of the first shared storage. Folder and files are root's, else
    they are not taken: a user's file would be in the forms of others. Teams' files are in folders
    there that are named as the viewer's accounts; ``owner`` is the user whose file it is.
    """
    if await why_no_form(state, session):
        return {"folder": "", "trouble": "", "templates": []}
    members = await asked(state, session, questions.ASSOCIATIONS)
    own = [m.of.account for m in members.value or () if m.of.user == session.user]
    async with state.questions.turn(session.user):
        folder = await own_commands(state).templates(session.login, sorted(dict.fromkeys(own)))
    read = await state.workers.templates(folder, session.user) if folder.files else []
    return {
        "folder": folder.path,
        "trouble": folder.trouble,
        "templates": [_template(file) for file in read],
    }


@router.get("/environments", response_model=schemas.JobEnvironments)
async def environments(session: Viewer, state: Here) -> Any:
    """Container images and Python environments on shared storage that the viewer may read.

    Of the folders ``images``, ``containers``, ``envs`` and ``venvs`` of the viewer's home and of
    each mount, read at most once a minute. Images are listed where jobs can run in containers.
    """
    if await why_no_form(state, session):
        return {"images": [], "pythons": [], "cut": False}

    async def ask() -> dict[str, Any]:
        async with state.questions.turn(session.user):
            return (await own_commands(state).environments(session.login)).as_dict()

    listed = await state.responses.get(("environments", session.user), KEEP_S, ask)
    if listed.value is None:
        raise CorralError(Code.COMMAND_FAILED, listed.why, hint="type the path")
    return listed.value


def _template(file: dict[str, Any]) -> dict[str, Any]:
    fields = file["fields"]
    form, notes = filled_in(fields)
    if left := sorted((OF_THIS_MACHINE | {"user"}) & fields.keys()):
        words = ", ".join(f"{field} {fields[field]}" for field in left)
        notes["options"] = f"not carried over: {words}"
    named = {name: file[name] for name in ("name", "account", "owner", "fault")}
    return {**named, "form": form, "notes": notes}


@router.get("/{job_id}/again", response_model=schemas.JobAgain)
async def again(
    job_id: JobId,
    session: Viewer,
    state: Here,
    entire: Annotated[bool, Query(description="All tasks of the array that it is of.")] = False,
    failed: Annotated[bool, Query(description="Those of its array that failed.")] = False,
) -> Any:
    """One's own job as a filled form, or as a script with all of its options; with what is missing.

    A job that ``corral run`` or the form submitted is the form again. Others are their script, with
    a line for each option of their command line.
    """
    record = await own_job(state, session, job_id)
    tasks = ""
    if (entire or failed) and record.array:
        records = await records_of_array(state, session, record)
        tasks = all_tasks(job for job in records if not failed or job_kind(job) == "bad")
    async with state.questions.turn(session.user):
        recorded = await own_commands(state).recorded(session.login, record)
    form, notes = dict[str, Any](), dict[str, str]()
    # The form submits a sweep with all of its points, the script some of its tasks.
    as_form = not (failed and tasks and recorded.job.get("sweep"))
    if recorded.job and as_form and not await why_no_form(state, session):
        form, notes = form_of(record, recorded, entire=bool(tasks))
        if failed and tasks:
            form["array"] = tasks
    if form:
        return {"mode": "form", "form": form, "script": "", "notes": notes, **_named(record)}
    line = recorded.submit_line or record.submit_line
    made = await asyncio.to_thread(resubmission, record, recorded.script, line, tasks, alone=failed)
    if recorded.job:
        made.notes["script"] = (
            f"Corral made this script; it writes into the folder of job {record.id}"
        )
    return {
        **_named(record),
        "mode": "script",
        "form": {},
        "script": made.script,
        "notes": made.notes,
        "name": made.name,
        "workdir": made.workdir,
    }


@router.get("/{job_id}/points", response_model=schemas.SweepPoints)
async def points_of(job_id: JobId, session: Viewer, state: Here) -> Any:
    """The points of the sweep that one's own job is a task of: values by the number of the task.

    None where it is of no sweep, or was not submitted by Corral.
    """
    record = await own_job(state, session, job_id)

    async def ask() -> Mapping[str, Any]:
        async with state.questions.turn(session.user):
            return (await own_commands(state).recorded(session.login, record)).job

    # What a job was does not change.
    key = ("points", session.user, record.array or record.id)
    known = await state.responses.get(key, KEEP_POINTS_S, ask)
    sweep = sweep_of(known.value or {})
    made = islice(product(*sweep.values()), TASKS) if sweep else ()
    return {"names": list(sweep), "points": [list(point) for point in made]}


def sweep_of(job: Mapping[str, Any]) -> dict[str, list[str]]:
    """Values by name of a job's sweep; a job.json that somebody changed has none, perhaps."""
    sweep = job.get("sweep")
    if not isinstance(sweep, dict):
        return {}
    named = cast("dict[str, Any]", sweep)
    lists = {
        name: [str(value) for value in cast("list[Any]", values)]
        for name, values in named.items()
        if isinstance(values, list)
    }
    return lists if len(lists) == len(named) else {}


def _named(record: Job) -> dict[str, Any]:
    return {"id": record.id, "label": record.label, "name": record.name, "workdir": record.workdir}


def form_of(
    record: Job, recorded: api.Recorded, *, entire: bool = False
) -> tuple[dict[str, Any], dict[str, str]]:
    """What was filled in that is not as it would be anyway, and what is to be stated of it.

    Args:
        record: the job.
        recorded: what it was.
        entire: all tasks of its array are submitted again.
    """
    fields, notes = filled_in(recorded.job)
    fields.pop("script", None)
    script = str(recorded.job.get("script") or "")
    if script and recorded.program:
        fields["script"] = recorded.program
        if not recorded.job.get("in_place"):
            notes["script"] = f"the copy of {script} that the job ran"
    elif script:
        notes["script"] = f"{script} was uploaded, and its copy is not there any more"
    if recorded.job.get("environment"):
        notes["options"] = f"not carried over: environment {recorded.job['environment']}"
    label = None if entire else array_label(record.label)
    if label and label.task is not None and fields.get("array"):
        fields["array"] = str(label.task)
        notes["array"] = f"task {label.task} of array {label.array} alone"
    elif label and fields.get("sweep"):
        notes["sweep"] = (
            f"this was task {label.written} of array {label.array}: all points are submitted again"
        )
    return fields, notes


def filled_in(job: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Fields of a job that the page takes and that were filled in; notes on unknown ones."""
    fields, notes = dict[str, Any](), dict[str, str]()
    usual = {name: info.get_default(call_default_factory=True) for name, info in FIELDS.items()}
    for name, value in job.items():
        if name not in usual:
            notes[name] = f"this version of Corral has no such field; it was {value!r}"
        elif name not in OF_THIS_MACHINE | {"user"} and value != _plain(usual[name]):
            fields[name] = value
    return fields, notes


def _plain(value: object) -> object:
    """As JSON has it."""
    return [*cast("tuple[object, ...]", value)] if isinstance(value, tuple) else value


def _recipients(spec: ClusterSpec | None, user: str) -> list[dict[str, str]]:
    """Who may get a message about a job: names alone, a webhook's address is the file's."""
    notify = spec.services.notify if spec else None
    if notify is None:
        return []
    own = f"mail to {user}@{notify.domain}" if notify.relay and notify.domain else ""
    mail = [{"name": user, "about": own}] if own else []
    return [*({"name": hook.name, "about": "webhook"} for hook in notify.webhooks), *mail]


async def why_no_form(state: State, session: Session) -> str:
    """Why the session's user submits no job by form here, "" where it does.

    People of the cluster file do. Others, of a directory or whom Slurm alone knows, where the
    controller knows them and accounting has an association of theirs.
    """
    spec = state.spec
    if spec is None or state.own is None:
        return elsewhere(state).message
    if session.user in {user.name for user in users_of(spec)}:
        return ""
    if not re.fullmatch(USER_NAME.pattern, session.user):
        return f"a job by form takes no user name such as {session.user}"

    known = await known_here(state, session)
    if known.value is None:
        return f"whether the cluster knows {session.user} is unknown: {known.why}"
    if not known.value:
        return f"the controller knows no user {session.user}"
    return await _without_account(state, session, spec)


async def _without_account(state: State, session: Session, spec: ClusterSpec) -> str:
    """Why a user may charge no account, "" where there is one, or no accounting."""
    if not spec.slurm.accounting:
        return ""
    members = await asked(state, session, questions.ASSOCIATIONS)
    if members.value is None:
        return f"whether {session.user} has an account is unknown: {members.why}"
    if any(member.of.user == session.user for member in members.value):
        return ""
    return f"{session.user} has no account in Slurm's accounting"


@router.post("/preview", response_model=schemas.JobPreview)
async def preview(fields: dict[str, Any], session: Changer, state: Here) -> dict[str, Any]:
    """The batch script that a filled form stands for; nothing is submitted.

    ``jobs`` is how many jobs it makes: the tasks of an array, the points of a sweep, else 1.
    ``at_once`` is how many of them run at once at most, null for no limit.
    """
    filled = await _filled(fields, session, state)
    return {"script": filled.script, "jobs": filled.count, "at_once": filled.spec.at_once}


@router.post("/expected", response_model=schemas.ExpectedStart)
async def expected(
    request: Request, fields: dict[str, Any], session: Changer, state: Here
) -> dict[str, Any]:
    """When Slurm would start the job of a filled form, by ``sbatch --test-only`` as the viewer.

    ``start_at`` is null where Slurm gives no time. What Slurm or the cluster would refuse is an
    error, with its field where it is about one. Nothing is submitted. ``waits`` is what of a limit
    must become free before, ``beyond`` has the fields of a script that alone exceed one: Slurm
    would leave it pending. A form that does is refused.

    A batch script (``script`` begins with ``#!``) has the fields of ``POST /api/jobs``.
    """
    if str(fields.get("script", "")).startswith("#!"):
        return await _expected_of_script(request, fields, session, state)
    job = (await _filled(fields, session, state)).spec
    waits = await _within_limits(request, session, state, job)
    async with state.questions.turn(session.user):
        expected_start = await own_commands(state).expected(session.login, job)
    return {**asdict(expected_start), "waits": waits, "beyond": {}}


async def _within_limits(request: Request, session: Session, state: State, job: api.JobSpec) -> str:
    """What of a limit the job has to wait for, "" for nothing.

    Raises:
        CorralError: USAGE, it alone is beyond a limit, with its fields.
    """
    spec = _spec(state)
    if not limits_declared(spec):
        return ""
    partition = partition_name(job, spec)
    charge = Charge(session.user, job.account or "", job.qos or "", partition)
    now, allowed = await _allowed(request, session, state, charge)
    wants = demand_of(job, nodes_for(job, partition, now.nodes.values()))
    refuse(against_allowances(wants, allowed))
    return waits_for(wants, allowed)


async def _allowed(
    request: Request, session: Session, state: State, charge: Charge
) -> tuple[Snapshot, list[Allowance]]:
    now = await poller_of(request, session).fresh()
    members = await asked(state, session, questions.ASSOCIATIONS)
    limits = await limits_of(state, session.user, session, now)
    return now, allowances(charge, members.value or (), limits["rows"])


async def _expected_of_script(
    request: Request, fields: dict[str, Any], session: Session, state: State
) -> dict[str, Any]:
    try:
        batch = Script.model_validate(fields)
    except ValidationError as error:
        named = {str(fault["loc"][0]): fault["msg"] for fault in error.errors() if fault["loc"]}
        words = "; ".join(f"{name}: {text}" for name, text in named.items())
        raise CorralError(Code.USAGE, words or "this is not a script", fields=named) from error
    job = await asyncio.to_thread(submission_of, batch)
    async with state.questions.turn(session.user):
        with fields_of_script():
            start = await own_commands(state).script_expected(session.login, job)
    return {**asdict(start), **await _limits_of_script(request, session, state, job)}


_OPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "gpus_per_node": "gpus",
        "mem": "memory",
        "time": "minutes",
        "cpus_per_rank": "cpus-per-task",
    }
)
"""The field next to a script, or the option of sbatch, for a field of the form."""


async def _limits_of_script(
    request: Request, session: Session, state: State, job: Submission
) -> dict[str, Any]:
    spec = state.spec
    if spec is not None and not limits_declared(spec):
        return {"waits": "", "beyond": {}}
    options = {o.name: o.value for o in directives(job.script) if not o.fault}
    partition = options.get("partition", "")
    if not partition and spec is not None:
        partition = partition_name(api.JobSpec(command=("true",)), spec)
    charge = Charge(session.user, options.get("account", ""), options.get("qos", ""), partition)
    now, allowed = await _allowed(request, session, state, charge)
    nodes = [node for node in now.nodes.values() if partition in node.partitions]
    wants = demand_of_options(options, nodes)
    faults = against_allowances(wants, allowed)
    beyond = {_OPTIONS.get(f.field, f.field) or "limit": f"{f.reason}: {f.instead}" for f in faults}
    return {"waits": "" if beyond else waits_for(wants, allowed), "beyond": beyond}


@router.post("/spec", response_model=schemas.SubmittedJob)
async def submit_spec(
    request: Request, fields: dict[str, Any], session: Changer, state: Here
) -> Any:
    """Submit a filled form as ``corral run`` does, as the session's user."""
    job = (await _filled(fields, session, state)).spec
    await _within_limits(request, session, state, job)
    async with state.questions.turn(session.user):  # each is a process on the controller
        sent = own_commands(state).submit(session.login, job)
        number = await audited(state, session, "submit", job.title, sent)
    poller_of(request, session).nudge(number)
    return {"id": number}


def _spec(state: State) -> ClusterSpec:
    if state.spec is None:
        raise elsewhere(state)
    return state.spec


async def _filled(fields: dict[str, Any], session: Session, state: State) -> FilledJob:
    """A filled form as a job that takes nothing of this server's disk along.

    What ``corral run`` sends from here is its user's own; here it would be the files of who runs
    the page, keys to the machines among them, in the hands of whoever is logged in.
    """
    if wrong := sorted(OF_THIS_MACHINE & fields.keys()):
        raise CorralError(
            Code.USAGE,
            f"{', '.join(wrong)}: a job from the page takes no files of the page's own machine",
            hint="corral run sends files, from where they are",
        )
    spec = _spec(state)
    if why := await why_no_form(state, session):
        raise CorralError(Code.FORBIDDEN, why, hint="submit a script, or ask who runs the cluster")
    script_ = fields.get("script")
    if fields.get("command") and not script_:  # a command takes no file along
        return await state.workers.job({**fields, "user": session.user}, spec)
    path = PurePosixPath(script_ if isinstance(script_, str) else "")
    mounts = [s.mount for s in spec.storage]
    if ".." in path.parts or not any(path.is_relative_to(mount) for mount in mounts):
        raise CorralError(
            Code.USAGE,
            "the script must be a path on the cluster's shared storage",
            hint=f"such as {mounts[0]}/train.py; or give a command"
            if mounts
            else "this cluster has none",
        )
    # Its size is the viewer's: 100,000 points of a sweep take seconds.
    return await state.workers.job({**fields, "user": session.user, "in_place": True}, spec)
