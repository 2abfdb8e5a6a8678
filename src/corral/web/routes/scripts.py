"""Batch scripts as they are: what their lines ask for, the fields next to them, how they go.

One rule for all fields: what a field holds is what the job gets. A field that is filled in takes
the place of the lines that ask for the same; one that is emptied takes them away. Both are done in
the script's own ``#SBATCH`` lines, so that Slurm's REST API, sbatch and who reads the script later
see one and the same job.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from corral import durations
from corral.errors import CorralError
from corral.jobs.allowances import MOST_TASKS
from corral.slurm.array_tasks import array_tasks, without_limit
from corral.slurm.directives import (
    Directive,
    directives,
    line_of,
    nodes_of,
    passed_over,
    rewritten,
    with_lines,
)
from corral.slurm.rest.write import Submission, faults_of, require_carried
from corral.slurm.tres import MEMORY, asked
from corral.web import schemas
from corral.web.routes.jobs import audited, own_commands
from corral.web.slurm.commands import ByCommands
from corral.web.slurm.response_cache import CachedResponse
from corral.web.state import Changer, Here, State, Viewer, poller_of
from corral.web.users.sessions import Session

router = APIRouter(prefix="/api/jobs", tags=["jobs"])
KEEP_S: Final = 60.0
"""Whether the controller knows a user is kept so long."""

FieldName = Literal[
    "name",
    "workdir",
    "partition",
    "account",
    "qos",
    "nodes",
    "gpus",
    "memory",
    "minutes",
    "array",
    "begin",
    "exclusive",
    "output",
    "mail",
]
"""A field next to a script."""
OPTIONS: Final[Mapping[FieldName, tuple[str, ...]]] = MappingProxyType(
    {
        "name": ("job-name",), "workdir": ("chdir",), "partition": ("partition",),
        "account": ("account",), "qos": ("qos",), "nodes": ("nodes",),
        "gpus": ("gpus-per-node", "gres"), "memory": ("mem", "mem-per-cpu", "mem-per-gpu"),
        "minutes": ("time",), "array": ("array",), "begin": ("begin",),
        "exclusive": ("exclusive",), "output": ("output",), "mail": ("mail-user", "mail-type"),
    }
)  # fmt: skip
"""The options of sbatch whose place each field takes; the first is the one that it writes."""
_FIELD_OF: Final[Mapping[str, FieldName]] = MappingProxyType(
    {option: name for name, options in OPTIONS.items() for option in options}
)
_SAME: Final = frozenset(
    {"job-name", "partition", "account", "qos", "array", "output", "mail-user"}
)
"""Options whose value is the field's."""
MAIL_TYPE: Final = "END,FAIL"
_TIME: Final = (
    r"(?:(?:now|today|tomorrow|midnight|noon|elevenses|fika|teatime)[A-Za-z0-9:+ ]*"
    r"|[0-9]+[:/-][0-9][0-9A-Za-z:/ -]*)"
)
_AT_ONCE: Final = re.compile(r"[0-9]{1,10}")
_GPUS: Final = re.compile(r"(?:gres[:/])?gpu(?:$|[:=])")
_NO_CONTROL: Final = r"^[^\x00-\x1f\x7f]*$"
_NOT_HERE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "clusters": "the job would be another cluster's",
        "wrap": "it takes the place of a script",
        **dict.fromkeys(("uid", "gid"), "root alone may give it"),
        **dict.fromkeys(("help", "test-only", "usage", "version"), "sbatch would submit nothing"),
    }
)
"""What no page submits, by sbatch neither."""


class Script(BaseModel):
    """A batch script as it is; fields given in addition override its #SBATCH lines."""

    model_config = ConfigDict(extra="forbid")

    script: str = Field(min_length=2, max_length=1 << 20, pattern=r"^#![^\x00]*$")
    name: str = Field(default="", max_length=64, pattern=_NO_CONTROL)
    workdir: str = Field(min_length=1, max_length=1024, pattern=r"^/[^\x00-\x1f\x7f]*$")
    partition: str = Field(default="", max_length=256, pattern=r"^[A-Za-z0-9_.,-]*$")
    account: str = Field(default="", max_length=64, pattern=r"^[A-Za-z0-9_.-]*$")
    qos: str = Field(default="", max_length=256, pattern=r"^[A-Za-z0-9_.,-]*$")
    array: str = Field(
        default="", max_length=200, pattern=r"^([0-9][0-9,:%-]*)?$", description="Such as 0-9%4."
    )
    output: str = Field(
        default="", max_length=1024, pattern=_NO_CONTROL, description="A file; slurm-%j.out."
    )
    mail: str = Field(
        default="",
        max_length=512,
        pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.%+@,-]*)?$",
        description="Who gets a message when it ends or fails: addresses, logins, webhooks.",
    )
    nodes: int | None = Field(default=None, ge=1, le=100_000, strict=True)
    gpus_per_node: int | None = Field(
        default=None, ge=0, le=64, strict=True, description="0: none, whatever a line asks for."
    )
    gpu_type: str = Field(
        default="",
        max_length=64,
        pattern=r"^([A-Za-z][A-Za-z0-9_.-]*)?$",
        description="Of these GPUs: h100.",
    )
    memory: str = Field(
        default="", pattern=rf"^({MEMORY})?$", description="On each node: 16G; without a unit MiB."
    )
    minutes: int | None = Field(default=None, ge=1, le=525_600, strict=True)
    begin: str = Field(
        default="",
        max_length=64,
        pattern=rf"^{_TIME}?$",
        description="Not before: 18:00, now+2hours, 2027-01-31T08:00.",
    )
    exclusive: bool = Field(default=False, description="Its nodes run no other job.")
    without: frozenset[FieldName] = Field(
        default=frozenset(),
        description="Fields whose lines do not count, and that have no value: their default holds.",
    )


class Draft(BaseModel):
    """A batch script as it is typed."""

    model_config = ConfigDict(extra="forbid")

    script: str = Field(max_length=1 << 20)
    array: str = Field(
        default="", max_length=200, description="Of the field next to it; it overrides a line's."
    )
    fields: dict[FieldName, str] = Field(
        default={}, description="What the fields next to it hold; those that differ override lines."
    )


@dataclass(frozen=True, slots=True)
class Given:
    """What a line of a script asks for that a field holds completely."""

    line: int
    option: str
    value: str


def given_by(script: str) -> dict[FieldName, Given]:
    """What the lines of a script ask for, by the field that holds it."""
    last = {option.name: option for option in directives(script) if not option.fault}
    asking = Counter(_FIELD_OF.get(option.name) for option in last.values() if _asks(option))
    given: dict[FieldName, Given] = {}
    for option in last.values():
        field = field_of(option)
        if field is not None and asking[field[0]] == 1:  # --gres and --gpus-per-node add up
            given[field[0]] = Given(option.line, option.name, field[1])
    return given


def _asks(option: Directive) -> bool:
    """Whether an option asks for what its field is about: ``--gres=license:1`` for no GPU."""
    if option.name == "gres":
        return _without_gpus(option.value) != option.value
    return option.name != "mail-type"


def field_of(option: Directive) -> tuple[FieldName, str] | None:
    """The field that is the same as an option, and its value there; None: none holds all of it."""
    name, value = option.name, option.value
    field = _FIELD_OF.get(name)
    held = value if name in _SAME else ""
    if name == "chdir" and value.startswith("/"):
        held = value
    elif name == "nodes" and (nodes := nodes_of(value)) and nodes[0] == nodes[1]:
        held = str(nodes[0])
    elif name in {"gpus-per-node", "gres"} and (gpus := asked(value, named=name == "gres")):
        held = f"{gpus[1]}:{gpus[0]}" if gpus[1] else str(gpus[0])
    elif name == "mem" and re.fullmatch(MEMORY, value):
        held = value
    elif name == "time":
        held = _minutes(value)
    elif name == "begin" and re.fullmatch(_TIME, value):
        held = value
    elif name == "exclusive" and not value:
        held = "yes"
    return (field, held) if field and held else None


def _minutes(value: str) -> str:
    try:
        seconds = durations.seconds(value)
    except CorralError:  # such as UNLIMITED
        return ""
    return str(-(-seconds // 60)) if seconds else ""


def _without_gpus(gres: str) -> str:
    return ",".join(part for part in gres.split(",") if not _GPUS.match(part.strip()))


def overridden(script: str, fields: Collection[FieldName]) -> str:
    """The script without the options whose place these fields take."""

    def left(option: Directive) -> Directive | None:
        if _FIELD_OF.get(option.name) not in fields:
            return option
        rest = _without_gpus(option.value) if option.name == "gres" else ""
        return replace(option, value=rest) if rest else None

    return rewritten(script, left)


def _values(batch: Script) -> dict[FieldName, str]:
    """What is filled in of the fields, as the option of each takes it; without the folder."""
    gpus = f"{batch.gpu_type}:" if batch.gpu_type else ""
    values: dict[FieldName, str] = {
        "name": batch.name,
        "partition": batch.partition,
        "account": batch.account,
        "qos": batch.qos,
        "nodes": str(batch.nodes or ""),
        "gpus": f"{gpus}{batch.gpus_per_node}" if batch.gpus_per_node else "",
        "memory": batch.memory,
        "minutes": str(batch.minutes or ""),
        "array": batch.array,
        "begin": batch.begin,
        "exclusive": "yes" if batch.exclusive else "",
        "output": batch.output,
        "mail": batch.mail,
    }
    return {name: value for name, value in values.items() if value}


def submission_of(batch: Script) -> Submission:
    """A script as it goes to Slurm: with a line for each field that is filled in."""
    values = _values(batch)
    gone: set[FieldName] = {*values, *batch.without}
    if batch.gpus_per_node == 0:
        gone.add("gpus")
    folder = given_by(batch.script).get("workdir")
    if folder is None or folder.value != batch.workdir:
        gone.add("workdir")
    script = overridden(batch.script, gone)
    lines = [_line(name, value) for name, value in values.items()]
    behind = max((option.line for option in directives(batch.script)), default=0)
    script = with_lines(script, lines, behind)
    names = {option.name for option in directives(script)}
    return Submission(
        script=script,
        name="" if "job-name" in names else "job",
        workdir=batch.workdir,
        stdout="" if "output" in names else f"{batch.workdir.rstrip('/')}/slurm-%j.out",
    )


def _line(field: FieldName, value: str) -> str:
    written = line_of(Directive(0, OPTIONS[field][0], "" if field == "exclusive" else value))
    return f"{written} --mail-type={MAIL_TYPE}" if field == "mail" else written


def page_faults(script: str) -> list[tuple[int, str]]:
    """Lines that go neither by the API nor by sbatch, each with its reason."""
    return [
        (o.line, f"{o.value}: {o.fault}" if o.fault else f"--{o.name}: {_NOT_HERE[o.name]}")
        for o in directives(script)
        if o.fault or o.name in _NOT_HERE
    ]


@router.post("", response_model=schemas.SubmittedJob)
async def submit(request: Request, batch: Script, session: Changer, state: Here) -> Any:
    """Submit a script with the user's own token.

    A line whose option Slurm's REST API does not take makes it go by ``sbatch`` as the user, where
    Corral runs commands as that one. What Slurm refuses is at its field, or under the name of the
    option of sbatch that no field has.
    """
    job = await asyncio.to_thread(submission_of, batch)
    with fields_of_script():
        if await _by_sbatch(state, session, job):
            sent = _by_command(state, session, job)
        else:
            sent = state.rest.submit(session.login, job)
        number = await audited(state, session, "submit", batch.name or "job", sent)
    poller_of(request, session).nudge(number)
    return {"id": number}


async def _by_sbatch(state: State, session: Session, job: Submission) -> bool:
    """Whether a script goes by sbatch as the user, as the API does not take all of it.

    Raises:
        CorralError: SPEC_INVALID, a line goes by neither.
    """
    if isinstance(state.rest, ByCommands):  # it is sbatch
        require_carried(await asyncio.to_thread(page_faults, job.script))
        return False
    version = await state.rest.version(session.login)
    if not await asyncio.to_thread(faults_of, job.script, version):
        return False
    if not await may_sbatch(state, session):
        return False  # and the API's refusal has the lines
    require_carried(await asyncio.to_thread(page_faults, job.script))
    return True


async def _by_command(state: State, session: Session, job: Submission) -> int:
    async with state.questions.turn(session.user):  # each is a process on the controller
        return await own_commands(state).submit_script(session.login, job)


async def may_sbatch(state: State, session: Session) -> bool:
    """Whether commands can be run here as the session's user."""
    return state.own is not None and bool((await known_here(state, session)).value)


async def known_here(state: State, session: Session) -> CachedResponse[bool]:
    """Whether the controller knows the session's user; why that is unknown."""
    own = own_commands(state)

    async def ask() -> bool:
        async with state.questions.turn(session.user):
            return await own.known(session.login)

    return await state.responses.get(("known", session.user), KEEP_S, ask)


@contextmanager
def fields_of_script() -> Generator[None]:
    """A refusal of sbatch's options is one of the fields next to a script.

    Raises:
        CorralError: with the names of the fields.
    """
    try:
        yield
    except CorralError as error:
        if not error.fields:
            raise
        named = {str(_FIELD_OF.get(name, name)): text for name, text in error.fields.items()}
        raise replace(error, fields=named) from error


@router.post("/directives", response_model=schemas.Directives)
async def read_directives(draft: Draft, session: Viewer, state: Here) -> Any:
    """What a script's #SBATCH lines ask for: for the fields of the form, others, and faults.

    ``others`` name the field that takes their place once it is filled in, "" for none.
    ``sbatch`` has the lines that Slurm's REST API does not take: with them the script goes by
    sbatch as the viewer. Where that is not possible they are faults.
    ``jobs`` is how many jobs it makes, the tasks of its array or 1; null where that is not known.
    ``at_once`` is how many of them run at once at most, null for no limit.
    """
    # Without an API sbatch reads them itself.
    commands = isinstance(state.rest, ByCommands)
    version = None if commands else await state.rest.version(session.login)
    read = await asyncio.to_thread(_judged, draft, version)  # of up to 1 MiB
    if read["sbatch"] and not await may_sbatch(state, session):
        faults = sorted([*read["faults"], *read["sbatch"]], key=lambda row: row["line"])
        return _without_lines({**read, "faults": faults, "sbatch": []})
    return _without_lines(read)


def _without_lines(read: dict[str, Any]) -> dict[str, Any]:
    """A line that is wrong is listed as that alone."""
    wrong = {row["line"] for row in read["faults"]}
    fields = {name: row for name, row in read["fields"].items() if row["line"] not in wrong}
    others = [row for row in read["others"] if row["line"] not in wrong]
    return {**read, "fields": fields, "others": others}


def _judged(draft: Draft, version: int | None) -> dict[str, Any]:
    given = given_by(draft.script)
    values = {name: row.value for name, row in given.items()}
    changed: set[FieldName] = {
        name for name, value in draft.fields.items() if value != values.get(name, "")
    }
    if "workdir" not in given:
        changed.add("workdir")  # a script always goes with a folder
    script = overridden(draft.script, changed)
    faults = page_faults(script)
    unable = [] if version is None else faults_of(script, version)
    wrong = {line for line, _ in faults}
    held = {(row.line, row.option) for row in given.values()}
    last = {option.name: option for option in directives(draft.script) if not option.fault}
    others = [option for option in last.values() if (option.line, option.name) not in held]
    array = draft.fields.get("array", draft.array or values.get("array", ""))
    return {
        **_counted(array),
        "fields": {name: {"line": row.line, "value": row.value} for name, row in given.items()},
        "others": [{"line": o.line, "text": _text(o), "field": _taker(o)} for o in others],
        "faults": _lines(faults),
        "sbatch": _lines([row for row in unable if row[0] not in wrong]),
        "ignored": _lines(passed_over(draft.script)),
    }


def _lines(rows: Collection[tuple[int, str]]) -> list[dict[str, Any]]:
    return [{"line": line, "text": text} for line, text in rows]


def _text(option: Directive) -> str:
    return f"--{option.name}" + (f"={option.value}" if option.value else "")


def _taker(option: Directive) -> str:
    """The field that takes an option's place, "" for none."""
    return str(_FIELD_OF.get(option.name, "")) if _asks(option) or option.name != "gres" else ""


def _counted(array: str) -> dict[str, int | None]:
    """How many jobs the value of ``--array`` makes, and how many of them at once; "": no array."""
    if not array:
        return {"jobs": 1, "at_once": None}
    _, at_once = without_limit(array)
    limit = int(at_once) if at_once and _AT_ONCE.fullmatch(at_once) else None
    return {"jobs": array_tasks(array).total(MOST_TASKS), "at_once": limit}
