"""Answers of slurmrestd (and of ``squeue --json`` and its kin) as our records. Pure.

Both have the same models, since the commands print what the newest data parser of their release
makes. A record that cannot be read is left out and counted, never a reason to show nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from corral.errors import Code, CorralError
from corral.slurm.gpus import Gpus, Request, fewest_nodes, of_job, recorded
from corral.slurm.records import ENDED, WAITING, Job, Node, Partition, told_of
from corral.slurm.rest.adapters import lift
from corral.slurm.rest.loose import (
    Record,
    maybe,
    moment,
    number,
    record,
    records,
    text,
    whole,
    words,
)
from corral.slurm.rest.model import ADMINISTRATOR, OPERATOR, USER, Told
from corral.slurm.states.nodes import NodeState
from corral.slurm.states.reasons import explain
from corral.slurm.tres import counts

_PATTERN: Final = re.compile(r"%(\d*)([%jAaxu])")
_LOAD_UNIT: Final = 100
"""slurmd reports the load in hundredths."""
_HELD: Final = frozenset({"JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue"})
_LEVELS: Final = {"OPERATOR": OPERATOR, "ADMINISTRATOR": ADMINISTRATOR}


def told(body: object) -> Told:
    """Metadata of the answer: release, errors, when it last changed."""
    whole_ = record(body)
    meta = record(whole_.get("meta"))
    release = text(record(meta.get("slurm") or meta.get("Slurm")).get("release"))
    errors = [_error(one) for one in records(whole_.get("errors"))]
    # A cancel is answered with 200 and each job's own error next to its number (24.11).
    each = [record(one.get("error")) for one in records(whole_.get("status"))]
    errors += [text(one.get("message")) for one in each if whole(one.get("code"))]
    update = number(whole_.get("last_update"))
    return Told(release, tuple(errors), None if update is None else int(update))


def _error(one: Record) -> str:
    parts = (text(one.get("description")), text(one.get("error")))
    known = list(dict.fromkeys(part for part in parts if part))
    return ": ".join(known) or f"error {whole(one.get('error_number', one.get('errno')))}"


def node(found: Record, version: int) -> Node:
    """One node of any version.

    Raises:
        CorralError: PARSE_FAILED, it has no name or an unknown state.
    """
    it = lift("node", found, version)
    name = text(it.get("name"))
    state = NodeState.parse("+".join(words(it.get("state"))))
    if not name:
        raise CorralError(Code.PARSE_FAILED, "a node without a name")
    load = number(it.get("cpu_load"))
    energy = record(it.get("energy"))
    return Node(
        name=name,
        state=state,
        **told_of(Node, it),
        reason_at=moment(it.get("reason_changed_at")),
        load=None if load is None else load / _LOAD_UNIT,
        threads=whole(it.get("threads")) or 1,
        version=text(it.get("version")) or text(it.get("slurmd_version")),
        watts=moment(energy.get("current_watts")),
    )


def job(found: Record, version: int) -> Job:
    """One job of any version.

    Raises:
        CorralError: PARSE_FAILED, it has no number or no state.
    """
    it = lift("job", found, version)
    state = next(iter(words(it.get("job_state"))), "")
    number_ = whole(it.get("job_id"))
    if not number_ or not state:
        raise CorralError(Code.PARSE_FAILED, "a job without number or state")
    reason = text(it.get("state_reason"))
    reason = "" if reason == "None" else reason
    tres = text(it.get("tres_alloc_str")) or text(it.get("tres_req_str"))
    code = record(it.get("exit_code"))
    limit = number(it.get("time_limit"))
    held = whole(it.get("priority"), 1) == 0 or reason in _HELD
    gpus = _gpus(it, state)
    return Job(
        id=number_,
        label=_label(it, number_),
        name=text(it.get("name")),
        user=text(it.get("user_name")) or str(whole(it.get("user_id"))),
        state=state,
        **told_of(Job, it),
        reason=reason,
        # A job that is held while it waits for something else keeps that reason for a while.
        why=explain("JobHeldUser" if held and reason not in _HELD else reason)
        if state in WAITING
        else "",
        gpus=gpus.count,
        gpus_exact=gpus.exact,
        tres=tres,
        memory=counts(tres).get("mem", 0),
        limit=None if limit is None else int(limit) * 60,
        exit_status=maybe(code.get("return_code")),
        exit_signal=_signal(code),
        held=held,
        stdout=_path(it, "stdout", number_),
        stderr=_path(it, "stderr", number_),
    )


def past_job(found: Record, _: int) -> Job:
    """One job as accounting reports it (v0.0.40 on: its fields have not changed since).

    Raises:
        CorralError: PARSE_FAILED, it has no number or no state.
    """
    state = next(iter(words(record(found.get("state")).get("current"))), "")
    number_ = whole(found.get("job_id"))
    if not number_ or not state:
        raise CorralError(Code.PARSE_FAILED, "a job without number or state")
    reason = text(record(found.get("state")).get("reason"))
    time, code = record(found.get("time")), record(found.get("exit_code"))
    tres, array = _counted(found), record(found.get("array"))
    listed = ",".join(f"{kind}={count}" for kind, count in tres.items())
    gpus = recorded(listed)
    limit = number(time.get("limit"))
    names = {f"array_{key}": array.get(key) for key in ("job_id", "task_id")}
    return Job(
        id=number_,
        label=_label({**names, "array_task_string": array.get("task")}, number_),
        name=text(found.get("name")),
        user=text(found.get("user")) or text(record(found.get("association")).get("user")),
        state=state,
        reason="" if reason == "None" else reason,
        account=text(found.get("account")),
        partition=text(found.get("partition")),
        qos=text(found.get("qos")),
        priority=maybe(found.get("priority")),
        nodes="" if found.get("nodes") == "None assigned" else text(found.get("nodes")),
        node_count=tres.get("node", 0) or whole(found.get("allocation_nodes")),
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
        stdout=text(found.get("stdout_expanded")),
        stderr=text(found.get("stderr_expanded")),
        workdir=text(found.get("working_directory")),
        comment=text(record(found.get("comment")).get("job")),
        restarts=whole(found.get("restart_cnt")),
    )


def _counted(found: Record) -> dict[str, int]:
    """What a job was given, else what it asked for, by its kind: ``cpu``, ``mem``, ``gres/gpu``."""
    tres = record(found.get("tres"))
    listed = records(tres.get("allocated")) or records(tres.get("requested"))
    pairs = [
        ("/".join(p for p in (text(o.get("type")), text(o.get("name"))) if p), o) for o in listed
    ]
    return {kind: whole(one.get("count")) for kind, one in pairs}


def partition(found: Record, version: int) -> Partition:
    """One partition of any version.

    Raises:
        CorralError: PARSE_FAILED, it has no name.
    """
    it = lift("partition", found, version)
    name = text(it.get("name"))
    if not name:
        raise CorralError(Code.PARSE_FAILED, "a partition without a name")
    nodes = record(it.get("nodes"))
    longest = number(record(it.get("maximums")).get("time"))
    state = words(record(it.get("partition")).get("state"))
    return Partition(
        name=name,
        state="+".join(state),
        nodes=text(nodes.get("configured")),
        node_count=whole(nodes.get("total")),
        max_time=None if longest is None else int(longest) * 60,
    )


def nodes_of(body: object, version: int) -> tuple[Node, ...]:
    """All nodes of an answer that can be read."""
    found = records(record(body).get("nodes"))
    return tuple(n for one in found if (n := _tried(node, one, version)))


def jobs_of(body: object, version: int) -> tuple[Job, ...]:
    """All jobs of an answer that can be read."""
    found = records(record(body).get("jobs"))
    return tuple(j for one in found if (j := _tried(job, one, version)))


def past_jobs(listed: Iterable[Record], version: int) -> tuple[Job, ...]:
    """All jobs of accounting that can be read."""
    return tuple(j for one in listed if (j := _tried(past_job, one, version)))


def cluster_of(body: object) -> str:
    """The name of the cluster that answers; "" before v0.0.40, which does not state it."""
    return text(record(record(record(body).get("meta")).get("slurm")).get("cluster"))


def partitions_of(body: object, version: int) -> tuple[Partition, ...]:
    """All partitions of an answer that can be read."""
    found = records(record(body).get("partitions"))
    return tuple(p for one in found if (p := _tried(partition, one, version)))


def state(found: Record) -> tuple[str, str]:
    """Label and state of one job, out of a record of ``/jobs/state``.

    Raises:
        CorralError: PARSE_FAILED, it lacks one of them.
    """
    label, states = str(found.get("job_id", "")), words(found.get("state"))
    if not label or not states:
        raise CorralError(Code.PARSE_FAILED, "a job without number or state")
    return label, states[0]


def _tried(reader: Any, one: Record, version: int) -> Any:
    try:
        return reader(one, version)
    except CorralError:
        return None


def submitted(body: object) -> int:
    """The number of a job just submitted.

    Raises:
        CorralError: SLURM_REFUSED, with Slurm's own words.
    """
    found = record(body)
    number_ = whole(found.get("job_id")) or whole(record(found.get("result")).get("job_id"))
    if number_:
        return number_
    errors = told(body).errors
    raise CorralError(
        Code.SLURM_REFUSED,
        "Slurm refused the job" + (f": {errors[0]}" if errors else ""),
        tail="\n".join(errors[1:]),
        hint="change what it names, and submit it again",
    )


def role_of(body: object, name: str) -> str:
    """The role of a user out of slurmdbd's answer about users; user where it has none."""
    for one in records(record(body).get("users")):
        if text(one.get("name")) == name:
            level = next(iter(words(one.get("administrator_level"))), "")
            return _LEVELS.get(level.upper(), USER)
    return USER


def _label(it: dict[str, Any], number_: int) -> str:
    array, het = whole(it.get("array_job_id")), whole(it.get("het_job_id"))
    if het:
        return f"{het}+{whole(it.get('het_job_offset'))}"
    if not array:
        return str(number_)
    one = number(it.get("array_task_id"))
    if one is not None:
        return f"{array}_{int(one)}"
    rest = text(it.get("array_task_string"))
    return f"{array}_[{rest}]" if rest else str(number_)


def _signal(code: Record) -> int:
    """The signal: an object with an id; v0.0.39 has the number alone under ``signal_id``."""
    signal = record(code.get("signal"))
    return whole(signal.get("id")) or whole(signal.get("signal_id"))


def _gpus(it: dict[str, Any], state: str) -> Gpus:
    """GPUs of a job of slurmctld's."""
    waiting, ended = state in WAITING, state in ENDED
    asked = text(it.get("tres_req_str"))
    nodes = fewest = whole(it.get("node_count"))
    if waiting:  # node_count is the most then (24.11), or a guess
        fewest = fewest_nodes(asked) or nodes
        nodes = whole(it.get("max_nodes"))
    request = Request(
        per_job=text(it.get("tres_per_job")),
        per_node=text(it.get("tres_per_node")),
        per_socket=text(it.get("tres_per_socket")),
        per_task=text(it.get("tres_per_task")),
        nodes=fewest,
        most_nodes=nodes or None,
        tasks=whole(it.get("tasks")),
        tasks_per_node=whole(it.get("tasks_per_node")),
        tasks_per_gpu=whole(it.get("tasks_per_tres")),
        sockets=whole(it.get("sockets_per_node")),
        exclusive="none" in words(it.get("shared")),
    )
    detail = it.get("gres_detail")
    each = [detail] if isinstance(detail, str) else words(detail)
    given = text(it.get("tres_alloc_str"))
    return of_job(given, each, asked, request, waiting=waiting, ended=ended)


def _path(it: dict[str, Any], which: str, number_: int) -> str:
    """The file of an output stream, with sbatch's patterns filled in (sbatch(1), filename pattern).

    Since 25.05 slurmrestd fills them in itself.
    """
    ready = text(it.get(f"{which}_expanded"))
    if ready:
        return ready
    array = whole(it.get("array_job_id")) or number_
    values = {
        "%": "%",
        "j": str(number_),
        "A": str(array),
        "a": str(whole(it.get("array_task_id"))),
        "x": text(it.get("name")),
        "u": text(it.get("user_name")),
    }
    name = {"stdout": "standard_output", "stderr": "standard_error"}[which]
    return _PATTERN.sub(lambda m: values.get(m[2], m[0]).zfill(int(m[1] or 0)), text(it.get(name)))
