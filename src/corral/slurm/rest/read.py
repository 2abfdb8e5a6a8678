"""Answers of slurmrestd and of commands with ``--json`` as our records, of any release. Pure.

Both have the same models, since the commands print what the newest data parser of their release
makes. A record that cannot be read is left out and counted, never a reason to show nothing. An
answer without the list that was asked for, or of whose records none can be read, is an error: it
does not mean that there are none.

Times are unix seconds, memory is MiB, limits are seconds; None is "not known" or "no limit".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, cast

from corral.errors import Code, CorralError
from corral.slurm.array_tasks import label_of
from corral.slurm.directives import refused_options
from corral.slurm.records import Job, Node, Partition, past_fields, reported_fields
from corral.slurm.rest.adapters import lift
from corral.slurm.rest.json_values import (
    Record,
    integer,
    maybe,
    moment,
    number,
    record,
    records,
    text,
    words,
)
from corral.slurm.states.jobs import has_ended, is_waiting
from corral.slurm.states.nodes import NodeState
from corral.slurm.states.reasons import by_limit
from corral.slurm.tres import (
    Gpus,
    Request,
    counts,
    fewest_nodes,
    of_job,
    recorded,
)

T = TypeVar("T")
USER, OPERATOR, ADMINISTRATOR = "user", "operator", "administrator"
"""Slurm's admin levels (sacctmgr(1), AdminLevel: None, Operator, Administrator), weakest first."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """Metadata of an answer.

    Attributes:
        release: Slurm's version, ``24.11.5``.
        errors: Slurm's own words, empty when all succeeded; not that a list is empty.
        last_update: when slurmctld last changed what was asked for; 0 where nothing changed since
            the time in the question.
    """

    release: str = ""
    errors: tuple[str, ...] = ()
    last_update: int | None = None


_PATTERN: Final = re.compile(r"%(\d*)([%jAaxu])")
_NO_TASK: Final = "4294967294"
"""slurmrestd's word for the task of an array that has not been split yet (NO_VAL)."""
_LOAD_UNIT: Final = 100
"""slurmd reports the load in hundredths."""
_EMPTY_RESULT: Final = 9003
"""ESLURM_REST_EMPTY_RESULT, "Nothing found with query": Slurm 22.05 (v0.0.38) adds it to an empty
list of accounting, with status 200."""
_NOT_LISTS: Final = ("errors", "warnings", "status", "meta")
_LEVELS: Final = {"OPERATOR": OPERATOR, "ADMINISTRATOR": ADMINISTRATOR}


def metadata(body: object) -> Metadata:
    """Metadata of the answer: release, errors, when it last changed."""
    document = record(body)
    meta = record(document.get("meta"))
    release = text(record(meta.get("slurm") or meta.get("Slurm")).get("release"))
    empty = any(value == [] for key, value in document.items() if key not in _NOT_LISTS)
    errors = [
        _error(error)
        for error in records(document.get("errors"))
        if not (empty and _is_empty_result(error))
    ]
    # A cancel is answered with 200 and each job's own error next to its number (24.11).
    each = [record(status.get("error")) for status in records(document.get("status"))]
    errors += [text(error.get("message")) for error in each if integer(error.get("code"))]
    update = number(document.get("last_update"))
    return Metadata(release, tuple(errors), None if update is None else int(update))


def _is_empty_result(error: Record) -> bool:
    return _number(error) == _EMPTY_RESULT or "nothing found" in _error(error).lower()


def _number(error: Record) -> int:
    return integer(error.get("error_number", error.get("errno")))


def _error(error: Record) -> str:
    parts = (text(error.get("description")), text(error.get("error")))
    known = list(dict.fromkeys(part for part in parts if part))
    return ": ".join(known) or f"error {_number(error)}"


def down(body: object) -> tuple[str, ...]:
    """The controllers, where ping reports that none of them answers; else none."""
    pings = records(record(body).get("pings"))
    if any(map(_responds, pings)):
        return ()
    return tuple(text(ping.get("hostname")) or "?" for ping in pings)


def controller_of(body: object) -> str:
    """The host of the first controller in ping that responds; "" where ping names none."""
    pings = records(record(body).get("pings"))
    return next((text(ping.get("hostname")) for ping in pings if _responds(ping)), "")


def _responds(ping: Record) -> bool:
    # v0.0.38: ping, to v0.0.44: pinged, later responding alone.
    words = (text(ping.get("pinged")), text(ping.get("ping")))
    return "UP" in words or ping.get("responding") is True


def node(raw: Record, version: int) -> Node:
    """One node of any version.

    Raises:
        CorralError: PARSE_FAILED, it has no name or an unknown state.
    """
    it = lift("node", raw, version)
    name = text(it.get("name"))
    state = NodeState.parse("+".join(words(it.get("state"))))
    if not name:
        raise CorralError(Code.PARSE_FAILED, "a node without a name")
    load = number(it.get("cpu_load"))
    energy = record(it.get("energy"))
    return Node(
        name=name,
        state=state,
        **reported_fields(Node, it),
        reason_at=moment(it.get("reason_changed_at")),
        load=None if load is None else load / _LOAD_UNIT,
        threads=integer(it.get("threads")) or 1,
        version=text(it.get("version")) or text(it.get("slurmd_version")),
        watts=moment(energy.get("current_watts")),
    )


def job(raw: Record, version: int) -> Job:
    """One job of any version.

    Raises:
        CorralError: PARSE_FAILED, it has no number or no state.
    """
    it = lift("job", raw, version)
    state = next(iter(words(it.get("job_state"))), "")
    job_id = integer(it.get("job_id"))
    if not job_id or not state:
        raise CorralError(Code.PARSE_FAILED, "a job without number or state")
    reason = text(it.get("state_reason"))
    reason = "" if reason == "None" else reason
    tres = text(it.get("tres_alloc_str")) or text(it.get("tres_req_str"))
    code = record(it.get("exit_code"))
    limit = number(it.get("time_limit"))
    gpus = _gpus(it, state)
    fields = reported_fields(Job, it)
    if is_waiting(state) and by_limit(reason):
        fields["start_at"] = None
    return Job(
        id=job_id,
        label=_label(it, job_id),
        name=text(it.get("name")),
        user=text(it.get("user_name")) or str(integer(it.get("user_id"))),
        state=state,
        **fields,
        reason=reason,
        gpus=gpus.count,
        gpus_exact=gpus.exact,
        tres=tres,
        memory=counts(tres).get("mem", 0),
        limit=None if limit is None else int(limit) * 60,
        exit_status=maybe(code.get("return_code")),
        exit_signal=_signal(code),
        stdout=_path(it, "stdout", job_id),
        stderr=_path(it, "stderr", job_id),
    )


def past_job(raw: Record, _: int) -> Job:
    """One job as accounting reports it (v0.0.40 on: its fields have not changed since).

    Raises:
        CorralError: PARSE_FAILED, it has no number or no state.
    """
    state = next(iter(words(record(raw.get("state")).get("current"))), "")
    job_id = integer(raw.get("job_id"))
    if not job_id or not state:
        raise CorralError(Code.PARSE_FAILED, "a job without number or state")
    reason = text(record(raw.get("state")).get("reason"))
    time, code = record(raw.get("time")), record(raw.get("exit_code"))
    tres, array = _counted(raw), record(raw.get("array"))
    listed = ",".join(f"{kind}={count}" for kind, count in tres.items())
    gpus = recorded(listed)
    limit = number(time.get("limit"))
    names = {f"array_{key}": array.get(key) for key in ("job_id", "task_id")}
    return Job(
        id=job_id,
        label=_label({**names, "array_task_string": array.get("task")}, job_id),
        name=text(raw.get("name")),
        user=text(raw.get("user")) or text(record(raw.get("association")).get("user")),
        state=state,
        reason="" if reason == "None" else reason,
        nodes="" if raw.get("nodes") == "None assigned" else text(raw.get("nodes")),
        node_count=tres.get("node", 0) or integer(raw.get("allocation_nodes")),
        cpus=tres.get("cpu", 0),
        gpus=gpus.count,
        gpus_exact=gpus.exact,
        tres=listed,
        memory=tres.get("mem", 0),
        submit_at=moment(time.get("submission")),
        start_at=moment(time.get("start")),
        end_at=moment(time.get("end")),
        elapsed=maybe(time.get("elapsed")),
        limit=None if limit is None else int(limit) * 60,
        exit_status=maybe(code.get("return_code")),
        exit_signal=_signal(code),
        stdout=_past_path(raw, "stdout"),
        stderr=_past_path(raw, "stderr"),
        eligible_at=moment(time.get("eligible")),
        tres_asked=_written(_listed(raw, "requested")),
        wckey=text(record(raw.get("wckey")).get("wckey")),
        comment=text(record(raw.get("comment")).get("job")),
        admin_comment=text(record(raw.get("comment")).get("administrator")),
        system_comment=text(record(raw.get("comment")).get("system")),
        **past_fields(raw),
    )


def _counted(raw: Record) -> dict[str, int]:
    """What a job was given, else what it asked for, by its kind: ``cpu``, ``mem``, ``gres/gpu``."""
    return _listed(raw, "allocated") or _listed(raw, "requested")


def _listed(raw: Record, which: str) -> dict[str, int]:
    """What accounting has of a job as allocated or requested, by its kind."""
    listed = records(record(raw.get("tres")).get(which))
    pairs = [
        ("/".join(p for p in (text(o.get("type")), text(o.get("name"))) if p), o) for o in listed
    ]
    return {kind: integer(entry.get("count")) for kind, entry in pairs}


def _written(tres: dict[str, int]) -> str:
    """As slurmctld writes it, ``cpu=2,mem=200M``; accounting counts memory in MiB."""
    return ",".join(f"{kind}={count}{'M' if kind == 'mem' else ''}" for kind, count in tres.items())


def partition(raw: Record, version: int) -> Partition:
    """One partition of any version.

    Raises:
        CorralError: PARSE_FAILED, it has no name.
    """
    it = lift("partition", raw, version)
    name = text(it.get("name"))
    if not name:
        raise CorralError(Code.PARSE_FAILED, "a partition without a name")
    nodes = record(it.get("nodes"))
    most = record(it.get("maximums"))
    longest = number(most.get("time"))
    state = words(record(it.get("partition")).get("state"))
    return Partition(
        name=name,
        state="+".join(state),
        nodes=text(nodes.get("configured")),
        node_count=integer(nodes.get("total")),
        max_time=None if longest is None else int(longest) * 60,
        max_nodes=maybe(most.get("nodes")),
    )


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """The records of an answer.

    Attributes:
        records: those that can be read.
        unread: how many others there are.
    """

    records: tuple[T, ...]
    unread: int = 0

    def note(self, key: str) -> str:
        """The others in words; "" where there are none."""
        if not self.unread:
            return ""
        known = len(self.records) + self.unread
        return f"{self.unread} of {known} {key} in Slurm's answer cannot be read and are left out"


def listed(body: object, key: str, reader: Callable[[Record, int], T], version: int) -> Listed[T]:
    """The records of a list.

    Args:
        body: of the answer.
        key: of the list: ``jobs``.
        reader: reads one record, or raises CorralError.
        version: of the API that gave it.

    Raises:
        CorralError: PARSE_FAILED, the list is not there, or none of its records can be read.
    """
    values: Any = record(body).get(key)
    if not isinstance(values, list):
        raise unreadable(f"it has no list of {key}")
    return tried(values, key, reader, version)  # pyright: ignore[reportUnknownArgumentType]


def tried(
    values: Iterable[object], key: str, reader: Callable[[Record, int], T], version: int
) -> Listed[T]:
    """What can be read of some records.

    Raises:
        CorralError: PARSE_FAILED, nothing of them.
    """
    good, unread, why = list[T](), 0, ""
    for raw in values:
        try:
            if not isinstance(raw, dict):
                raise CorralError(Code.PARSE_FAILED, "a record that is not an object")
            good.append(reader(cast("Record", raw), version))
        except CorralError as error:
            unread, why = unread + 1, error.message
    if unread and not good:
        raise unreadable(f"none of its {unread} {key} can be read: {why}")
    return Listed(tuple(good), unread)


def unreadable(why: str, tail: str = "") -> CorralError:
    """The error of an answer that is not what was asked for: it states nothing about Slurm."""
    return CorralError(
        Code.PARSE_FAILED,
        f"Slurm's answer cannot be read: {why}",
        tail=tail,
        hint="try again; if it stays so, is it slurmrestd that answers, and not a proxy, and does "
        "this version of Corral read Slurm's release?",
    )


def nodes_of(body: object, version: int) -> Listed[Node]:
    """All nodes of an answer; raises as ``listed``."""
    return listed(body, "nodes", node, version)


def jobs_of(body: object, version: int) -> Listed[Job]:
    """All jobs of an answer; raises as ``listed``."""
    return listed(body, "jobs", job, version)


def partitions_of(body: object, version: int) -> Listed[Partition]:
    """All partitions of an answer; raises as ``listed``."""
    return listed(body, "partitions", partition, version)


def cluster_of(body: object) -> str:
    """The name of the cluster that answers; "" before v0.0.40, which does not state it."""
    return text(record(record(record(body).get("meta")).get("slurm")).get("cluster"))


def state(raw: Record) -> tuple[str, str]:
    """Label and state of one job, out of a record of ``/jobs/state``.

    Raises:
        CorralError: PARSE_FAILED, it lacks one of them.
    """
    label, states = str(raw.get("job_id", "")), words(raw.get("state"))
    if not label or not states:
        raise CorralError(Code.PARSE_FAILED, "a job without number or state")
    return label, states[0]


def submitted(body: object) -> int:
    """The number of a job just submitted.

    Raises:
        CorralError: SLURM_REFUSED, with Slurm's own words; PARSE_FAILED, the answer has neither
            the job's number nor an error, and Slurm may have taken the job.
    """
    answer = record(body)
    job_id = integer(answer.get("job_id")) or integer(record(answer.get("result")).get("job_id"))
    if job_id:
        return job_id
    errors = metadata(body).errors
    if not errors:
        raise unreadable("it has neither the job's number nor an error")
    raise CorralError(
        Code.SLURM_REFUSED,
        f"Slurm refused the job: {errors[0]}",
        tail="\n".join(errors[1:]),
        hint="change what it names, and submit it again",
        fields={option: errors[0] for option in refused_options(errors)},
    )


def role_of(body: object, name: str) -> str:
    """The role of a user out of slurmdbd's answer about users; user where it has none."""
    for user in records(record(body).get("users")):
        if text(user.get("name")) == name:
            level = next(iter(words(user.get("administrator_level"))), "")
            return _LEVELS.get(level.upper(), USER)
    return USER


def _label(it: dict[str, Any], job_id: int) -> str:
    array, het = integer(it.get("array_job_id")), integer(it.get("het_job_id"))
    if het:
        return f"{het}+{integer(it.get('het_job_offset'))}"
    if not array:
        return str(job_id)
    task = number(it.get("array_task_id"))
    tasks = text(it.get("array_task_string")) if task is None else str(int(task))
    return label_of(str(array), tasks, begun=task is not None) if tasks else str(job_id)


def _signal(code: Record) -> int:
    """The signal: an object with an id; v0.0.39 has the number alone under ``signal_id``."""
    signal = record(code.get("signal"))
    return integer(signal.get("id")) or integer(signal.get("signal_id"))


def _gpus(it: dict[str, Any], state: str) -> Gpus:
    """GPUs of a job of slurmctld's."""
    waiting, ended = is_waiting(state), has_ended(state)
    asked = text(it.get("tres_req_str"))
    nodes = fewest = integer(it.get("node_count"))
    if waiting:  # node_count is the most then (24.11), or a guess
        fewest = fewest_nodes(asked) or nodes
        nodes = integer(it.get("max_nodes"))
    request = Request(
        per_job=text(it.get("tres_per_job")),
        per_node=text(it.get("tres_per_node")),
        per_socket=text(it.get("tres_per_socket")),
        per_task=text(it.get("tres_per_task")),
        nodes=fewest,
        most_nodes=nodes or None,
        tasks=integer(it.get("tasks")),
        tasks_per_node=integer(it.get("tasks_per_node")),
        tasks_per_gpu=integer(it.get("tasks_per_tres")),
        sockets=integer(it.get("sockets_per_node")),
        exclusive="none" in words(it.get("shared")),
    )
    detail = it.get("gres_detail")
    each = [detail] if isinstance(detail, str) else words(detail)
    given = text(it.get("tres_alloc_str"))
    return of_job(given, each, asked, request, waiting=waiting, ended=ended)


def _path(it: dict[str, Any], which: str, job_id: int) -> str:
    """The file of an output stream, with sbatch's patterns filled in (sbatch(1), filename pattern).

    Slurm fills them in itself (25.05 in a separate field, 24.11 in the pattern's), also for an
    array's tasks that have not started and have no number: ``%a`` is 4294967294 there. Their path
    keeps ``%a``.
    """
    task = number(it.get("array_task_id"))
    of_no_task = bool(integer(it.get("array_job_id"))) and task is None
    ready = text(it.get(f"{which}_expanded"))
    name = {"stdout": "standard_output", "stderr": "standard_error"}[which]
    if ready and not (of_no_task and _NO_TASK in ready):
        return ready
    array = integer(it.get("array_job_id")) or job_id
    values = {
        "%": "%",
        "j": str(job_id),
        "A": str(array),
        "x": text(it.get("name")),
        "u": text(it.get("user_name")),
    }
    if not of_no_task:
        values["a"] = str(int(task or 0))
    pattern = text(it.get(name))
    if of_no_task:
        pattern = pattern.replace(_NO_TASK, "%a")
    return _PATTERN.sub(
        lambda m: values[m[2]].zfill(int(m[1] or 0)) if m[2] in values else m[0], pattern
    )


def _past_path(raw: Record, which: str) -> str:
    """The file of an output stream as accounting filled it in; its ``%a`` of no task stays."""
    path = text(raw.get(f"{which}_expanded"))
    array = record(raw.get("array"))
    if integer(array.get("job_id")) and number(array.get("task_id")) is None:
        return path.replace(_NO_TASK, "%a")
    return path
