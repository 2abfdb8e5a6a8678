"""What a script's ``#SBATCH`` lines ask for, as fields of ``JobSpec``. Pure.

An option that is a field becomes the field; one that changes nothing of how Corral runs a job goes
to sbatch as it stands (``JobSpec.sbatch``); what Corral does differently is reported; all others
are refused, at their lines and at once. Nothing is left out silently.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

from corral import durations
from corral.errors import Code, CorralError
from corral.jobs import requests
from corral.slurm.array_tasks import without_limit
from corral.slurm.directives import (
    Directive,
    count_of,
    directives,
    nodes_of,
    sbatch_options,
)
from corral.slurm.tres import asked, memory_option

VALUE: Final = re.compile(r"[^\x00-\x1f\x7f'\\]{0,1024}")
"""What is in single quotes for sbatch's parser and for a shell alike."""


def carried(text: str) -> str:
    """An option that goes to sbatch as it is.

    Raises:
        ValueError: Corral sets it itself, sbatch has no such, or it cannot be quoted.
    """
    name = text.removeprefix("--").partition("=")[0]
    names = [option.name for option in sbatch_options().values() if option.carried]
    if name == "gres" and requests.SHARED_GPU.fullmatch(text.partition("=")[2]):
        return text
    if not text.startswith("--") or name not in names:
        raise ValueError(f"{text[:60]!r}: one of --gres=shard:N, --{', --'.join(sorted(names))}")
    if not VALUE.fullmatch(text):
        raise ValueError(f"--{name}: no quotation mark, backslash or control character")
    return text


_INSTEAD: Final[Mapping[str, str]] = {
    **dict.fromkeys(("output", "error", "open-mode"), "corral logs has what ranks print"),
    "get-user-env": "ranks have the environment of the job's user",
    "no-requeue": "",  # as without it
}
_EXPORTED: Final = {  # what of the submitter's environment a job has
    "ALL": "no variable of the machine that submits is carried but those of --env",
    "NONE": "a job has its user's environment, and srun in a script hands on the script's",
    "NIL": "a job has its user's environment, and srun in a script hands on the script's",
}


def is_field(option: str) -> bool:
    """Whether an option of a script is a field of a job."""
    return option in _FIELDS or option in requests.FIELDS


@dataclass(frozen=True, slots=True)
class Asked:
    """What a script asks for.

    Attributes:
        fields: of ``JobSpec``, without those that were given; its ``env`` is to be merged, its
            ``sbatch`` has what was given last.
        notes: what Corral does differently, each with its line.
    """

    fields: dict[str, Any]
    notes: tuple[str, ...] = ()


class _CarryError(ValueError):
    """Why one option cannot be carried over."""


def asked_of(script: str, file: str, given: Mapping[str, Any]) -> Asked:
    """What the ``#SBATCH`` lines of a script ask for.

    Args:
        script: its text.
        file: its name, for messages.
        given: fields that are given otherwise, and win.

    Raises:
        CorralError: SPEC_INVALID, with each line that cannot be carried over.
    """
    last, faults = _last_of_each(script, file)
    last = {name: option for name, option in last.items() if not _overridden(name, given)}
    notes = [
        f"{file}:{option.line}: --{name}{_shown(_unused(option))} is not used: {why}"
        for name, option in last.items()
        if (why := _replacement(option))
    ]
    fields, carried = _mail(last), list[str]()
    if fields:
        del last["mail-user"], last["mail-type"]
    # What is counted on each node needs the number of nodes first.
    for directive in sorted(last.values(), key=lambda option: _LAST.get(option.name, 0)):
        try:
            if named := requests.field_of(directive.name, directive.value):
                fields |= [named]
            elif sbatch_options()[directive.name].carried:
                carried.append(_text(directive))
            elif directive.name == "gres" and requests.SHARED_GPU.fullmatch(directive.value):
                carried.append(_text(directive))
                fields |= _gpus(0, "", {**fields, **given})
            elif _instead(directive.name) is None:
                fields |= _field(directive, {**fields, **given})
        except _CarryError as fault:
            faults.append(
                f"{file}:{directive.line}: --{directive.name}{_shown(directive.value)}: {fault}"
            )
    if faults:
        raise _refused(file, faults)
    notes += _memory_note(last, file, {**fields, **given})
    notes += _binding_note(last, file)
    if carried:
        fields["sbatch"] = (*carried, *given.get("sbatch", ()))
    left = {k: v for k, v in fields.items() if k not in given or k in ("env", "sbatch")}
    return Asked(left, tuple(notes))


def _last_of_each(script: str, file: str) -> tuple[dict[str, Directive], list[str]]:
    """The options that count, by name, and the lines that cannot be read."""
    last: dict[str, Directive] = {}
    faults: list[str] = []
    for directive in directives(script):
        if directive.fault:
            faults.append(f"{file}:{directive.line}: {directive.value}: {directive.fault}")
        else:
            last[directive.name] = directive
    if "requeue" in last and "no-requeue" in last:
        del last[min("requeue", "no-requeue", key=lambda name: last[name].line)]
    return last, faults


def _overridden(option: str, given: Mapping[str, Any]) -> bool:
    """Whether an option that is a field, or goes to sbatch as it is, is given otherwise."""
    field = requests.FIELDS.get(option)
    again = requests.option_in(tuple(given.get("sbatch", ())), f"--{option}")
    return field in given or again is not None


def _memory_note(last: Mapping[str, Directive], file: str, fields: Mapping[str, Any]) -> list[str]:
    if not fields.get("exclusive") or fields.get("mem") or "exclusive" not in last:
        return []
    line = last["exclusive"].line
    return [
        f"{file}:{line}: --exclusive: the job gets all memory of its nodes too; --mem limits it"
    ]


def _binding_note(last: Mapping[str, Directive], file: str) -> list[str]:
    """Under sbatch each task sees its own GPUs alone, numbered from 0; under Corral, all."""
    if "gpus-per-task" not in last:
        return []
    line = last["gpus-per-task"].line
    return [
        f"{file}:{line}: --gpus-per-task: each rank sees all GPUs that the job has on its node; "
        "LOCAL_RANK selects its own"
    ]


def _mail(last: Mapping[str, Directive]) -> dict[str, Any]:
    user, events = (last.get(f"mail-{part}") for part in ("user", "type"))
    mail = requests.mail_of(user.value, events.value) if user and events else None
    return {"mail": mail} if mail else {}


def _instead(name: str) -> str | None:
    if sbatch_options()[name].terminal:
        return "corral run follows it"
    return _INSTEAD.get(name)


def _unused(directive: Directive) -> str:
    """The part of a value that is not carried."""
    words = directive.value.split(",") if directive.name == "export" else []
    return next((word for word in words if word in _EXPORTED), "")


def _replacement(directive: Directive) -> str:
    """What is done in the place of an option, "" where it is carried over."""
    return _EXPORTED.get(_unused(directive), "") or _instead(directive.name) or ""


def _refused(file: str, faults: list[str]) -> CorralError:
    count = "1 #SBATCH line" if len(faults) == 1 else f"{len(faults)} #SBATCH lines"
    return CorralError(
        Code.SPEC_INVALID,
        f"{count} of {file} cannot be carried over",
        tail="\n".join(faults),
        hint="change or remove them; corral run's options and its script's #SBATCH lines ask for "
        "the same things (corral run --help)",
    )


def _shown(value: str) -> str:
    return f"={value[:80]}" if value else ""


def _text(directive: Directive) -> str:
    text = f"--{directive.name}={directive.value}" if directive.value else f"--{directive.name}"
    if not VALUE.fullmatch(text):
        raise _CarryError("its value holds a quotation mark, a backslash or a control character")
    return text


def _field(directive: Directive, known: Mapping[str, Any]) -> dict[str, Any]:
    reader = _FIELDS.get(directive.name)
    if reader is None:
        raise _CarryError("corral run has nothing for it")
    return reader(directive.value, known)


def _count(value: str) -> int:
    count = count_of(value)
    if count is None:
        raise _CarryError("not a number")
    return count


def _nodes(value: str, _: Mapping[str, Any]) -> dict[str, Any]:
    asked_for = nodes_of(value)
    if asked_for is None or asked_for[0] != asked_for[1]:
        raise _CarryError("a job has a fixed number of nodes here: give one")
    return {"nodes": asked_for[0]}


def _ntasks(value: str, known: Mapping[str, Any]) -> dict[str, Any]:
    ranks, nodes = _count(value), int(known.get("nodes", 1))
    if "ranks_per_node" in known and int(known["ranks_per_node"]) * nodes == ranks:
        return {}
    if ranks % nodes or "ranks_per_node" in known:
        raise _CarryError(f"each of {nodes} nodes runs as many ranks here")
    return {"ranks_per_node": ranks // nodes}


def _gpus(count: int, kind: str, known: Mapping[str, Any]) -> dict[str, Any]:
    if known.get("gpus_per_node", count) != count:
        raise _CarryError(f"{known['gpus_per_node']} GPUs on each node are asked for already")
    return {"gpus_per_node": count} | ({"gpu_type": kind} if kind else {})


def _gres(value: str, known: Mapping[str, Any]) -> dict[str, Any]:
    if value in ("none", ""):
        return {}
    gpus = asked(value, named=True)
    if gpus is None:
        raise _CarryError("a job gets GPUs of one type here, or shards, and no other resources")
    return _gpus(*gpus, known)


def _typed(value: str) -> tuple[int, str]:
    gpus = asked(value, named=False)
    if gpus is None:
        raise _CarryError("a job gets GPUs of one type here: NUMBER or TYPE:NUMBER")
    return gpus


def _gpus_in_all(value: str, known: Mapping[str, Any]) -> dict[str, Any]:
    (count, kind), nodes = _typed(value), int(known.get("nodes", 1))
    if count % nodes:
        raise _CarryError(f"each of {nodes} nodes gives as many GPUs here")
    return _gpus(count // nodes, kind, known)


def _gpus_of_rank(value: str, known: Mapping[str, Any]) -> dict[str, Any]:
    count, kind = _typed(value)
    if "ranks_per_node" not in known:
        raise _CarryError("give --ntasks-per-node or --ntasks too")
    return _gpus(count * int(known["ranks_per_node"]), kind, known)


def _mib(value: str) -> float:
    size = memory_option(value)
    if not size:
        raise _CarryError("a size such as 16G (0, all of a node's, is not supported)")
    return size


def _memory(mib: float) -> dict[str, Any]:
    return {"mem": f"{ceil(mib)}M" if mib % 1024 else f"{int(mib) >> 10}G"}


def _mem_per_cpu(value: str, known: Mapping[str, Any]) -> dict[str, Any]:
    ranks = known.get("ranks_per_node") or max(1, int(known.get("gpus_per_node", 0)))
    if "cpus_per_rank" not in known:
        raise _CarryError("give --cpus-per-task too, or --mem")
    return _memory(_mib(value) * int(known["cpus_per_rank"]) * int(ranks))


def _mem_per_gpu(value: str, known: Mapping[str, Any]) -> dict[str, Any]:
    if not known.get("gpus_per_node"):
        raise _CarryError("the job asks for no GPUs")
    return _memory(_mib(value) * int(known["gpus_per_node"]))


def _time(value: str, _: Mapping[str, Any]) -> dict[str, Any]:
    try:
        seconds = durations.seconds(value)
    except CorralError:
        seconds = 0
    if not seconds:
        raise _CarryError("a time limit such as 30, 2:00:00 or 1-12 (none: leave it out)")
    return {"time": durations.clock(seconds)}


def _array(value: str, _: Mapping[str, Any]) -> dict[str, Any]:
    numbers, at_once = without_limit(value)
    return {"array": numbers} | ({} if at_once is None else {"at_once": _count(at_once)})


def _export(value: str, _: Mapping[str, Any]) -> dict[str, Any]:
    pairs = [part for part in value.split(",") if part and part not in ("ALL", "NONE", "NIL")]
    if bare := [pair for pair in pairs if "=" not in pair]:
        raise _CarryError(f"give the value of {', '.join(bare)}, or take it from here by --env")
    return {"env": dict(pair.split("=", 1) for pair in pairs)} if pairs else {}


def _as(field: str) -> Callable[[str, Mapping[str, Any]], dict[str, Any]]:
    return lambda value, _: {field: value}


def _number(field: str) -> Callable[[str, Mapping[str, Any]], dict[str, Any]]:
    return lambda value, _: {field: _count(value)}


_FIELDS: Final[Mapping[str, Callable[[str, Mapping[str, Any]], dict[str, Any]]]] = {
    "job-name": _as("name"), "partition": _as("partition"), "chdir": _as("workdir"),
    "nodes": _nodes, "ntasks-per-node": _number("ranks_per_node"), "ntasks": _ntasks,
    "cpus-per-task": _number("cpus_per_rank"), "gres": _gres,
    "gpus-per-node": lambda value, known: _gpus(*_typed(value), known),
    "gpus": _gpus_in_all, "gpus-per-task": _gpus_of_rank, "mem": lambda v, _: _memory(_mib(v)),
    "mem-per-cpu": _mem_per_cpu, "mem-per-gpu": _mem_per_gpu, "time": _time, "array": _array,
    "requeue": lambda _value, _known: {"requeue": True}, "export": _export,
    "container-image": _as("container"),
    "container-mounts": lambda value, _: {"mounts": tuple(value.split(","))},
}  # fmt: skip
_LAST: Final = {"ntasks": 1, "gpus": 2, "gpus-per-task": 2, "mem-per-cpu": 3, "mem-per-gpu": 3}
