"""What is asked of slurmrestd, in each API version's form; ``#SBATCH`` lines included. Pure.

Each becomes the field that sbatch sets for it (24.11.5, src/common/slurm_opt.c); what has no field,
or one of which releases differ, is refused at its line, all at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from types import MappingProxyType
from typing import Any, Final

from corral import durations
from corral.errors import Code, CorralError
from corral.slurm.directives import Directive, count_of, directives, nodes_of, sbatch_options
from corral.slurm.tres import asked, memory_option, named

_STRUCTS: Final = 39
"""From v0.0.39 on a number that may be unset is ``{"set", "infinite", "number"}``."""
_UNIX_TIMES: Final = 39
"""This version takes a begin as a UNIX timestamp alone, not by the controller's clock."""
_BEGIN: Final = re.compile(
    r"[0-9]+[:/-][0-9]|now|today|tomorrow|midnight|noon|elevenses|fika|teatime", re.IGNORECASE
)
"""The start of a begin; digits alone, as in 010227, are a UNIX timestamp for v0.0.42 and newer."""
_BINDS: Final = 40
"""Before Slurm 23.11, whose first version this is, srun binds tasks to GPUs within the job."""

_EACH: Final = "tres_per_node"
Number = Callable[[int], Any]
Field = Callable[[str, Number], dict[str, Any]]


def options_of(script: str, version: int) -> dict[str, Any]:
    """Fields of Slurm's job description that the script asks for.

    Args:
        script: the batch script.
        version: of the API: 42 for v0.0.42.

    Raises:
        CorralError: SPEC_INVALID, with each line that cannot be carried over.
    """
    options, faults = _read(script, version)
    if version < _BINDS:
        options.pop("tres_bind", None)
    require_carried(faults)
    return options


def require_carried(faults: Sequence[tuple[int, str]]) -> None:
    """Refuse a script with lines that cannot be carried over.

    Args:
        faults: the number of each such line, with the reason.

    Raises:
        CorralError: SPEC_INVALID, with each line.
    """
    if not faults:
        return
    lines = [f"line {line}: {text}" for line, text in faults]
    raise CorralError(
        Code.SPEC_INVALID,
        "#SBATCH lines cannot be carried over: " + "; ".join(lines)[:2000],
        tail="\n".join(lines),
        hint="change or remove them, or submit with sbatch on a login node",
    )


def faults_of(script: str, version: int) -> list[tuple[int, str]]:
    """Lines that cannot be carried over, each with its reason."""
    return _read(script, version)[1]


def _read(script: str, version: int) -> tuple[dict[str, Any], list[tuple[int, str]]]:
    fields: dict[str, dict[str, Any]] = {}
    faults: list[tuple[int, str]] = []

    def number(value: int) -> Any:
        return value if version < _STRUCTS else {"set": True, "infinite": False, "number": value}

    for directive in directives(script):
        try:
            if directive.name == "begin" and version == _UNIX_TIMES:
                raise ValueError("not in Slurm 23.02, whose API takes a UNIX timestamp alone")
            fields[directive.name] = _fields(directive, number)
        except ValueError as error:
            name = f"--{directive.name}" if directive.name else ""
            faults.append((directive.line, f"{name or directive.value}: {error}"))
    options = {field: value for each in fields.values() for field, value in each.items()}
    # --gres and --gpus-per-node add up (slurm_opt.c, xfmt_tres).
    if each := [f[_EACH] for f in fields.values() if _EACH in f]:
        options[_EACH] = ",".join(each)
    return options, faults


def _fields(directive: Directive, number: Number) -> dict[str, Any]:
    if directive.fault:
        raise ValueError(directive.fault)
    if sbatch_options()[directive.name].terminal:
        return {}
    reader = _FIELDS.get(directive.name)
    if reader is None:
        raise ValueError("the REST API has no such field")
    return reader(directive.value, number)


def _text(field: str) -> Field:
    return lambda value, _: {field: value}


def _list(field: str) -> Field:
    return lambda value, _: {field: value.split(",")}


def _flag(field: str, *, on: bool = True) -> Field:
    return lambda _value, _number: {field: on}


def _integer(field: str) -> Field:
    return lambda value, _: {field: _count(value)}


def _count(value: str) -> int:
    count = count_of(value)
    if count is None:
        raise ValueError(f"{value[:60]!r} is not a number")
    return count


def _nodes(value: str, _: Number) -> dict[str, Any]:
    asked_for = nodes_of(value)
    if asked_for is None:
        raise ValueError(f"{value[:60]!r}: NUMBER or LEAST-MOST")
    return {"minimum_nodes": asked_for[0], "maximum_nodes": asked_for[1]}


def _memory(field: str) -> Field:
    def read(value: str, number: Number) -> dict[str, Any]:
        size = memory_option(value)
        if not size:
            raise ValueError(f"{value[:60]!r}: a size such as 16G")
        return {field: number(ceil(size))}

    return read


def _tres(field: str, prefix: str) -> Field:
    def read(value: str, _: Number) -> dict[str, Any]:
        if value == "none":
            return {}
        asked_for = named(value, prefix)
        if asked_for is None:
            raise ValueError(f"{value[:60]!r} is not a list of resources")
        return {field: asked_for}

    return read


def _gpus_per_task(value: str, number: Number) -> dict[str, Any]:
    """And what sbatch adds: each task sees its own GPUs (_implicitly_bind_tres_per_task)."""
    fields = _tres("tres_per_task", "gres/gpu:")(value, number)
    if not fields:
        return {}
    gpus = asked(value.partition(",")[0], named=False)
    return {**fields, "tres_bind": f"gres/gpu:per_task:{gpus[0] if gpus else 1}"}


def _time(value: str, number: Number) -> dict[str, Any]:
    try:
        seconds = durations.seconds(value)
    except CorralError as error:
        raise ValueError(error.message) from error
    if not seconds:
        raise ValueError("a time limit such as 30, 2:00:00 or 1-12")
    return {"time_limit": number(-(-seconds // 60))}


def _begin(value: str, _: Number) -> dict[str, Any]:
    """As text, which slurmrestd reads with sbatch's parse_time and the controller's clock."""
    if not _BEGIN.match(value):
        raise ValueError(f"{value[:60]!r}: a time such as 18:00, tomorrow, now+2hours, 2027-01-31")
    return {"begin_time": value}


def _folder(value: str, _: Number) -> dict[str, Any]:
    if not value.startswith("/"):
        raise ValueError("a folder from / on: there is none that it could be relative to")
    return {"current_working_directory": value}


def _exclusive(value: str, _: Number) -> dict[str, Any]:
    if value:
        raise ValueError("only --exclusive without a value")
    return {"shared": ["none"]}


def _nice(value: str, _: Number) -> dict[str, Any]:
    return {"nice": _count(value) if value else 100}


_FIELDS: Final[Mapping[str, Field]] = MappingProxyType(
    {
        "account": _text("account"), "array": _text("array"), "begin": _begin,
        "comment": _text("comment"), "constraint": _text("constraints"),
        "dependency": _text("dependency"),
        "job-name": _text("name"), "licenses": _text("licenses"), "partition": _text("partition"),
        "prefer": _text("prefer"), "qos": _text("qos"), "reservation": _text("reservation"),
        "wckey": _text("wckey"), "mail-user": _text("mail_user"),
        "chdir": _folder, "input": _text("standard_input"),
        "output": _text("standard_output"), "error": _text("standard_error"),
        "exclude": _list("excluded_nodes"), "nodelist": _list("required_nodes"),
        "mail-type": _list("mail_type"), "nodes": _nodes, "ntasks": _integer("tasks"),
        "ntasks-per-node": _integer("tasks_per_node"), "cpus-per-task": _integer("cpus_per_task"),
        "ntasks-per-gpu": _integer("ntasks_per_tres"), "mincpus": _integer("minimum_cpus_per_node"),
        "sockets-per-node": _integer("sockets_per_node"), "mem": _memory("memory_per_node"),
        "mem-per-cpu": _memory("memory_per_cpu"), "gres": _tres("tres_per_node", ""),
        "gpus": _tres("tres_per_job", "gres/gpu:"),
        "gpus-per-node": _tres("tres_per_node", "gres/gpu:"),
        "gpus-per-socket": _tres("tres_per_socket", "gres/gpu:"),
        "gpus-per-task": _gpus_per_task, "time": _time,
        "requeue": _flag("requeue"), "no-requeue": _flag("requeue", on=False),
        "hold": _flag("hold"), "overcommit": _flag("overcommit"), "exclusive": _exclusive,
        "nice": _nice,
    }
)  # fmt: skip


_SCRIPT_IN_JOB: Final = 41
"""From v0.0.41 on the script is in the job ("script" outside it is deprecated)."""
_ENV_LIST: Final = 39
"""From v0.0.39 on the environment is a list of NAME=VALUE; before, an object."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A batch job as it goes to Slurm; what is given here wins over the script's #SBATCH lines.

    Attributes:
        script: the entire script.
        name, partition, workdir, stdout: as sbatch's options of that name.
        options: more fields of Slurm's job description, in the newest shape.
        environment: of the batch script; slurmrestd refuses an empty one.
    """

    script: str
    name: str
    workdir: str
    partition: str = ""
    stdout: str = ""
    options: Mapping[str, Any] | None = None
    environment: tuple[tuple[str, str], ...] = (("PATH", "/usr/local/bin:/usr/bin:/bin"),)


def submit_body(submission: Submission, version: int) -> dict[str, Any]:
    """The body of ``POST /job/submit``.

    Raises:
        CorralError: SPEC_INVALID, a #SBATCH line of the script has no field there.
    """
    pairs = submission.environment
    job: dict[str, Any] = {
        **options_of(submission.script, version),
        **({"name": submission.name} if submission.name else {}),
        "current_working_directory": submission.workdir,
        "environment": [f"{k}={v}" for k, v in pairs] if version >= _ENV_LIST else dict(pairs),
        **(submission.options or {}),
    }
    if submission.partition:
        job["partition"] = submission.partition
    if submission.stdout:
        job["standard_output"] = submission.stdout
    if version >= _SCRIPT_IN_JOB:
        return {"job": {**job, "script": submission.script}}
    return {"job": job, "script": submission.script}


def limit_body(minutes: int, version: int) -> dict[str, Any]:
    """The body that changes a job's time limit."""
    if version < _STRUCTS:
        return {"time_limit": minutes}
    return {"time_limit": {"set": True, "infinite": False, "number": minutes}}


def hold_body(*, held: bool) -> dict[str, Any]:
    """The body that holds a job, or releases it."""
    return {"hold": held}


def drain_body(reason: str) -> dict[str, Any]:
    """The body of ``POST /node/NAME`` that drains it."""
    return {"state": ["DRAIN"], "reason": reason}


def resume_body() -> dict[str, Any]:
    """The body of ``POST /node/NAME`` that takes it back."""
    return {"state": ["RESUME"]}
