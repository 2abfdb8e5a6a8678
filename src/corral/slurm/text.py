"""Reads what scontrol, squeue and sacct print. Pure.

Nodes come from ``scontrol --oneliner show nodes``: that form works alike from 21.08 to 26.05, gives
base state and flags in words (``IDLE+DRAIN``), and needs one call for all nodes; ``sinfo`` squeezes
the same into one word and a sign, ``--json`` changes with each release.

A job's name may hold anything, line ends and ``|`` too, and neither squeue nor sacct escapes it:
with a plain separator a user could forge the line of another job (seen with 22.05.8, 24.11.5,
26.05.5). So are comments, and accounts where Slurm has no accounting (``FREE_TEXT``). So who
lists the jobs of several users with such a column makes up a mark for each call, that separates
fields, and the name comes last. ``SHOW_QUEUE`` has the plain mark ``|``: for
one job, whose first line is its own. Only a line feed ends a line: ``str.splitlines`` also takes
U+2028 and others, which any text may hold. Times are epoch seconds: run the commands with
``SLURM_TIME_FORMAT=%s``.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from corral.durations import seconds
from corral.errors import Code, CorralError
from corral.slurm.array_tasks import label_of
from corral.slurm.policy import Reservation
from corral.slurm.records import Association, Job, JobRun, Node, Outage, Partition
from corral.slurm.states.jobs import ExitCode, is_waiting, state_word
from corral.slurm.states.nodes import NodeState
from corral.slurm.states.reasons import by_limit
from corral.slurm.tres import (
    Gpus,
    Request,
    counts,
    fewest_nodes,
    listed,
    of_job,
    recorded,
    requested,
)

SHOW_NODES: Final = ("scontrol", "--oneliner", "show", "nodes")
"""The command whose answer ``parse_nodes`` reads; names of nodes may follow."""

_FIELD: Final = re.compile(r"(?:^| )([A-Z][A-Za-z_]*)=")
# src/api/node_info.c: Arch, Version and OS are what slurmd sent, and end where these begin; free
# text follows all that Slurm vouches for.
_BEHIND_ARCH: Final = re.compile(r" CoresPerSocket=\d+ +CPUAlloc=\d")
_BEHIND_OS: Final = re.compile(r" RealMemory=\d+ AllocMem=\d")
_SENT: Final = re.compile(r" (Version|OS)=")
_TRAILING: Final = (
    "Comment|Extra|InstanceId|InstanceType|ReservationName|TLSCertTokenSet|TLSCertLastRenewal"
    "|Topology|Parameters"
)
_TRAILING_FIELD: Final = re.compile(rf"(?:^| )({_TRAILING})=")
_TAIL: Final = re.compile(rf" (?=(?:Reason|{_TRAILING})=)")
# Slurm signs the first line of a reason; --oneliner puts eight spaces before further lines.
_REASON: Final = re.compile(
    r"Reason=(?P<text>.*?)(?: \[(?P<user>[^@\[\] ]*)@(?P<when>[^\[\] ]*)\])"
    rf"(?P<more> {{4,}}.*?)?(?P<rest> (?:{_TRAILING})=.*)?"
)
_UNSIGNED: Final = re.compile(rf"Reason=(?P<text>.*?)(?P<rest> (?:{_TRAILING})=.*)?")
_DECIMAL: Final = re.compile(r"\d+(?:\.\d+)?")
_EMPTY: Final = frozenset({"", "(null)", "N/A", "none", "None"})


def parse_nodes(text: str) -> tuple[Node, ...]:
    """Read the answer of ``SHOW_NODES``.

    A node of which there are two lines, or whose line can be read in two ways, is UNKNOWN: slurmd
    sent text that looks like fields (a line end in OS begins the line of another node).

    Raises:
        CorralError: a line is not a node, or a number or state cannot be read.
    """
    lines = [line for line in text.split("\n") if line.strip()]
    if lines == ["No nodes in the system"]:
        return ()
    nodes = {node.name: node for node in map(_node, lines)}
    return tuple((nodes | {name: _unknown(name) for name in _twice(lines)}).values())


def readable_nodes(text: str) -> dict[str, Node]:
    """As ``parse_nodes``, by name; what is not a complete line of a node is left out."""
    lines = text.split("\n")
    nodes: dict[str, Node] = {}
    for line in lines:
        with contextlib.suppress(CorralError):
            nodes |= {node.name: node for node in parse_nodes(line)}
    return nodes | {name: _unknown(name) for name in _twice(lines)}


def _twice(lines: Iterable[str]) -> list[str]:
    """Names of nodes with several lines."""
    names = Counter(line.partition(" ")[0] for line in lines if line.startswith("NodeName="))
    return [name.removeprefix("NodeName=") for name, count in names.items() if count > 1]


def _unknown(name: str) -> Node:
    return _node(f"NodeName={name} State=UNKNOWN")


_PINGED: Final = re.compile(r"^Slurmctld\(\w+\) at (\S+) is (UP|DOWN)", re.MULTILINE)


def parse_ping(text: str) -> dict[str, bool]:
    """Whether slurmctld answers, by the host that should run one; read from ``scontrol ping``."""
    return {host: state == "UP" for host, state in _PINGED.findall(text)}


SHOW_PARTITIONS: Final = ("scontrol", "--oneliner", "show", "partitions")
"""The command whose answer ``readable_partitions`` reads."""
SHOW_PARTITION: Final = ("scontrol", "--oneliner", "show", "partition")
"""The same for one partition: its name follows."""


def readable_partitions(text: str) -> tuple[Partition, ...]:
    """All partitions of scontrol's answer; a line that is not of one is left out.

    Args:
        text: the answer of ``SHOW_PARTITIONS``, or of ``SHOW_PARTITION`` with a name.
    """
    partitions: list[Partition] = []
    for line in text.split("\n"):
        fields = fields_of(line)
        with contextlib.suppress(CorralError):
            if "PartitionName" in fields:
                partitions.append(_partition(fields))
    return tuple(partitions)


def _partition(fields: Mapping[str, str]) -> Partition:
    return Partition(
        name=fields["PartitionName"],
        state=fields.get("State", ""),
        nodes=_text(fields, "Nodes"),
        node_count=_maybe(fields.get("TotalNodes", "")) or 0,
        max_time=seconds(fields.get("MaxTime", "")),
        max_nodes=_maybe(fields.get("MaxNodes", "")),
    )


def fields_of(line: str) -> dict[str, str]:
    """Fields of any ``--oneliner`` line of scontrol; the first field of a name counts.

    Values may hold spaces, also text that looks like a field: trust only fields that precede
    the first free text of the line.
    """
    return _pairs(line, _FIELD)


def node_fields(line: str) -> dict[str, str]:
    """Fields of a node's line; ``Reason`` comes with ``ReasonBy`` and ``ReasonAt``.

    Arch, Version, OS, Reason and Comment are taken out by what surrounds them, so that no such text
    can change another field. Where it holds what surrounds it, only the name is certain.
    """
    fields: dict[str, str] = {}
    cores = [match.start() for match in _BEHIND_ARCH.finditer(line)]
    memory = [match.start() for match in _BEHIND_OS.finditer(line)]
    if len(cores) > 1 or len(memory) > 1 or (cores and memory and cores > memory):
        return _pairs(line.partition(" ")[0], _FIELD) | {"State": "UNKNOWN"}
    if cores:
        line = line.partition(" ")[0] + line[cores[0] :]
    behind = _BEHIND_OS.search(line)
    sent = _SENT.search(line, 0, behind.start()) if behind else None
    if behind and sent:
        fields |= _sent(line[sent.start() : behind.start()])
        line = line[: sent.start()] + line[behind.start() :]
    head, *tail = _TAIL.split(line.rstrip(), maxsplit=1)
    fields |= _pairs(head, _FIELD)
    if tail and tail[0].startswith("Reason="):
        fields |= _reason(tail[0])
    elif tail:
        fields |= _pairs(tail[0], _TRAILING_FIELD)
    return fields


def _sent(text: str) -> dict[str, str]:
    """Version and OS as slurmd sent them."""
    version, named, system = text.partition(" OS=")
    fields = {"Version": version.removeprefix(" Version=").strip()} if version else {}
    return fields | ({"OS": system.rstrip(" ")} if named else {})


def _pairs(text: str, field: re.Pattern[str]) -> dict[str, str]:
    """``A=x B=y z`` as a mapping; the first field of a name counts."""
    pairs: dict[str, str] = {}
    marks = list(field.finditer(text))
    for at, mark in enumerate(marks):
        stop = marks[at + 1].start() if at + 1 < len(marks) else len(text)
        pairs.setdefault(mark.group(1), text[mark.end() : stop].strip())
    return pairs


def _reason(text: str) -> dict[str, str]:
    signed = _REASON.fullmatch(text)
    match = signed or _UNSIGNED.fullmatch(text)
    if match is None:  # only a line end inside the line could do that
        return {"Reason": text.removeprefix("Reason=")}
    parts = match.groupdict()
    rest = _pairs(parts["rest"] or "", _TRAILING_FIELD)
    more = (parts.get("more") or "").strip()
    by = {"ReasonBy": parts["user"], "ReasonAt": parts["when"]} if signed else {}
    return rest | by | {"Reason": f"{parts['text']} {more}".strip()}


def _node(line: str) -> Node:
    fields = node_fields(line)
    if "NodeName" not in fields or "State" not in fields:
        raise CorralError(
            Code.PARSE_FAILED,
            "scontrol did not describe a node",
            command=" ".join(SHOW_NODES),
            tail=line[:200],
            hint="is slurmctld up? see scontrol ping",
        )
    load = fields.get("CPULoad", "")
    return Node(
        name=fields["NodeName"],
        state=NodeState.parse(fields["State"]),
        reason=fields.get("Reason", ""),
        reason_by=fields.get("ReasonBy", ""),
        reason_at=_moment(fields.get("ReasonAt", "")),
        address=fields.get("NodeAddr", ""),
        version=_text(fields, "Version"),
        partitions=_list(fields, "Partitions"),
        features=_list(fields, "AvailableFeatures"),
        active_features=_list(fields, "ActiveFeatures"),
        cpus=_number(fields, "CPUTot"),
        cpus_used=_number(fields, "CPUAlloc"),
        system=_text(fields, "OS"),
        sockets=_number(fields, "Sockets"),
        socket_cores=_number(fields, "CoresPerSocket"),
        threads=_number(fields, "ThreadsPerCore") or 1,
        busy_at=busy if isinstance(busy := _moment(fields.get("LastBusyTime", "")), int) else None,
        load=float(load) if _DECIMAL.fullmatch(load) else None,
        memory=_number(fields, "RealMemory"),
        memory_used=_number(fields, "AllocMem"),
        memory_free=int(free) if (free := fields.get("FreeMem", "")).isdecimal() else None,
        gres=_text(fields, "Gres"),
        gres_used=_text(fields, "GresUsed"),
        tres=fields.get("CfgTRES", ""),
        tres_used=fields.get("AllocTRES", ""),
        boot_at=boot if isinstance(boot := _moment(fields.get("BootTime", "")), int) else None,
        watts=int(watts) or None if (watts := fields.get("CurrentWatts", "")).isdecimal() else None,
    )


def _moment(value: str) -> int | str | None:
    """Unix seconds where the command printed such, else its own text."""
    return int(value) if value.isascii() and value.isdigit() else value or None


def _text(fields: Mapping[str, str], name: str) -> str:
    value = fields.get(name, "")
    return "" if value in _EMPTY else value


def _list(fields: Mapping[str, str], name: str) -> tuple[str, ...]:
    value = _text(fields, name)
    return tuple(value.split(",")) if value else ()


def _number(fields: Mapping[str, str], name: str) -> int:
    value = fields.get(name, "0")
    if not (value.isascii() and value.isdigit()):
        raise CorralError(
            Code.PARSE_FAILED, f"{fields['NodeName']}: {name}={value!r} is not a number"
        )
    return int(value)


def _integer(value: str) -> int:
    if not (value.isascii() and value.isdigit()):
        raise CorralError(
            Code.PARSE_FAILED,
            f"{value[:40]!r} is not a number",
            hint="a newer Slurm than Corral knows? corral doctor shows the versions",
        )
    return int(value)


def _value(value: str) -> str:
    return "" if value in ("(null)", "N/A", "None assigned") else value


def _epoch(value: str) -> int | None:
    """Epoch seconds; None for Unknown, None and N/A.

    Raises:
        CorralError: it is a time of another form.
    """
    return _integer(value) or None if any(sign.isdigit() for sign in value) else None


SHOW_JOB: Final = ("scontrol", "--oneliner", "show", "job")
"""The command whose answer ``parse_job`` reads, for one job: add its number or label."""
_JOB_FIELD: Final = re.compile(r"(?:^|\s)([A-Z][A-Za-z:/]*)=(\S*)")


def parse_job(text: str) -> Job | None:
    """The job of the first line of ``SHOW_JOB``'s answer; None where it is not of a job.

    The first field of a name counts, and no field with a blank in its value is read: a job's name,
    which precedes all others, may claim any.

    Raises:
        CorralError: a number, time or exit code cannot be read.
    """
    fields: dict[str, str] = {}
    for name, value in _JOB_FIELD.findall(text.partition("\n")[0]):
        fields.setdefault(name, value)
    if not fields.get("JobId", "").isdecimal() or "JobState" not in fields:
        return None
    array, task = fields.get("ArrayJobId", ""), fields.get("ArrayTaskId", "")
    code = ExitCode.parse(fields.get("ExitCode", ""))
    return Job(
        id=int(fields["JobId"]),
        label=label_of(array, task) if array and task else fields["JobId"],
        state=state_word(fields["JobState"]),
        reason=_text(fields, "Reason"),
        nodes=_text(fields, "NodeList"),
        elapsed=seconds(fields.get("RunTime", "")),
        tres=requested(fields),
        exit_status=code.status,
        exit_signal=code.signal,
    )


Column = tuple[str, Callable[[str], Any]]
"""The record's field that a column is, and the column's reader."""

_QUEUE: Final[Mapping[str, Column]] = MappingProxyType(
    {
        "%i": ("label", str),
        "%A": ("id", _integer),
        "%T": ("state", state_word),
        "%r": ("reason", lambda value: "" if value == "None" else value),
        "%P": ("partition", str),
        "%u": ("user", str),
        "%a": ("account", _value),
        "%D": ("node_count", lambda value: _integer(value.partition("-")[0])),
        "%C": ("cpus", _integer),
        "%b": ("gres", _value),
        "%M": ("elapsed", lambda value: seconds(value) or 0),
        "%l": ("limit", seconds),
        "%V": ("submit_at", _epoch),
        "%S": ("start_at", _epoch),
        "%e": ("end_at", _epoch),
        "%N": ("nodes", _value),
        "%Q": ("priority", _integer),
        "%j": ("name", str),
    }
)
_HISTORY: Final[Mapping[str, Column]] = MappingProxyType(
    {
        "JobID": ("label", str),
        "JobIDRaw": ("id", lambda value: _integer(value.partition("+")[0])),
        "State": ("state", state_word),
        "ExitCode": ("exit_code", ExitCode.parse),
        "DerivedExitCode": ("", str),
        "Partition": ("partition", str),
        "User": ("user", str),
        "Account": ("account", _value),
        "NNodes": ("node_count", _integer),
        "NCPUS": ("cpus", _integer),
        "ReqTRES": ("asked", str),
        "AllocTRES": ("tres", str),
        "ElapsedRaw": ("elapsed", _integer),
        "Submit": ("submit_at", _epoch),
        "Start": ("start_at", _epoch),
        "End": ("end_at", _epoch),
        "NodeList": ("nodes", _value),
        "JobName": ("name", str),
    }
)
QUEUE: Final = tuple(column for column in _QUEUE if column not in ("%e", "%Q"))
HISTORY: Final = tuple(_HISTORY)
TIME_FORMAT: Final = ("SLURM_TIME_FORMAT", "%s")
"""Environment of both commands: times as seconds since 1970, whatever the node's time zone."""
FREE_TEXT: Final = frozenset(
    {
        *("%a", "%f", "%j", "%k", "%o", "%w", "%x", "%Z"),
        *("Account", "AdminComment", "Comment", "Constraints", "Container", "Extra", "JobName"),
        *("McsLabel", "StdErr", "StdIn", "StdOut", "SubmitLine", "SystemComment", "WCKey"),
        *(
            "WorkDir",
            "name",
            "comment",
            "command",
            "wckey",
            "account",
            "admin_comment",
            "exc_nodes",
        ),
        *("extra", "feature", "mcslabel", "network", "stderr", "stdin", "stdout", "workdir"),
    }
)
"""Columns of squeue's ``-o``, of sacct, and of squeue's ``-O`` in which a job's user may write, or
which hold what a user gave without a check by every configuration: line ends too."""
PLAIN: Final = "|"
"""The mark for asking about one job, and for columns in which no user's text is."""
_MARK: Final = re.compile(r"[A-Za-z0-9|:_-]{1,64}")


def queue_format(columns: Sequence[str] = QUEUE, mark: str = PLAIN) -> str:
    """The value of squeue's ``--format`` for ``parse_queue``.

    Raises:
        CorralError: the mark holds other characters than letters and digits.
    """
    return _sane(mark).join(columns)


def show_queue(mark: str) -> tuple[str, ...]:
    """The command whose answer ``parse_queue`` reads; ``--jobs=ID`` may be added.

    Args:
        mark: separates fields; letters and digits nobody can know beforehand.

    Raises:
        CorralError: the mark holds other characters.
    """
    return ("squeue", "--noheader", "--array", "--all", f"--format={queue_format(mark=mark)}")


def show_history(mark: str, *, duplicates: bool = True) -> tuple[str, ...]:
    """The command whose answer ``parse_history`` reads; ``--jobs=ID`` may be added.

    Args:
        mark: as of ``show_queue``.
        duplicates: a requeued job has one entry for each run, not only for the last.

    Raises:
        CorralError: the mark holds other characters.
    """
    return (
        *("sacct", "--noheader", "--parsable2", f"--delimiter={_sane(mark)}"),
        *(("--duplicates",) if duplicates else ()),
        *("--allocations", f"--format={','.join(HISTORY)}"),
    )


def _sane(mark: str) -> str:
    if not _MARK.fullmatch(mark):
        raise CorralError(Code.USAGE, f"{mark!r} cannot separate fields", hint="use token_hex()")
    return mark


SHOW_QUEUE: Final = show_queue(PLAIN)
"""The command whose answer ``parse_queue`` reads, for one job: add ``--jobs=ID``."""


def parse_queue(text: str, mark: str = PLAIN, columns: Sequence[str] = QUEUE) -> tuple[Job, ...]:
    """Read squeue's answer with ``queue_format(columns, mark)``, ``show_queue(mark)``'s by default.

    Raises:
        CorralError: a line does not have the fields asked for.
    """
    rows = _rows(text, mark, len(columns))
    return tuple(_queued(_fields(row, columns, _QUEUE)) for row in rows)


def readable_queue(text: str, columns: Sequence[str], mark: str = PLAIN) -> Iterator[Job]:
    """The jobs of squeue's answer; what is not a complete line is left out."""
    for line in text.split("\n"):
        with contextlib.suppress(CorralError):
            yield from parse_queue(line, mark, columns)


def parse_history(
    text: str, mark: str = PLAIN, columns: Sequence[str] = HISTORY
) -> tuple[Job, ...]:
    """Read sacct's answer of these columns, ``show_history(mark)``'s by default.

    Raises:
        CorralError: a line does not have the fields asked for.
    """
    rows = _rows(text, mark, len(columns))
    return tuple(_past(_fields(row, columns, _HISTORY)) for row in rows)


def readable_history(
    text: str, mark: str = PLAIN, columns: Sequence[str] = HISTORY
) -> tuple[list[Job], int]:
    """The jobs of the same answer that can be read, and how many cannot."""
    jobs: list[Job] = []
    unread = 0
    for row in _rows(text, mark, len(columns)):
        try:
            jobs.append(_past(_fields(row, columns, _HISTORY)))
        except CorralError:
            unread += 1
    return jobs, unread


def _rows(text: str, mark: str, count: int) -> list[list[str]]:
    """Lines as fields; a line without marks goes on with the job name of the one before.

    Where nobody can know the mark, a line with too few of them goes on with the field before, too.
    """
    if mark != PLAIN:
        return [record.split(mark, count - 1) for record in _records(text, mark, count - 1)]
    rows: list[list[str]] = []
    for line in text.removesuffix("\n").split("\n"):
        row = line.split(mark, count - 1)
        if len(row) == count:
            rows.append(row)
        elif rows:
            rows[-1][-1] += f"\n{line}"
        elif line.strip():
            rows.append([line])
    return rows


def _records(text: str, mark: str, marks: int) -> list[str]:
    """Parts of a text with so many marks each; a part begins where a line does."""
    parts: list[list[str]] = []
    seen = 0
    for line in text.removesuffix("\n").split("\n"):
        more = line.count(mark)
        if parts and (not more or (seen and seen + more <= marks)):
            parts[-1].append(line)
            seen += more
        elif line.strip():
            parts.append([line])
            seen = more
    return ["\n".join(part) for part in parts]


def _fields(
    row: Sequence[str], columns: Sequence[str], readers: Mapping[str, Column]
) -> dict[str, Any]:
    """The values of one line's columns, by the record's fields.

    Raises:
        CorralError: it is not a job's line, or a value cannot be read.
    """
    if len(row) != len(columns):
        command = "squeue" if readers is _QUEUE else "sacct"
        raise CorralError(
            Code.PARSE_FAILED,
            f"{command} did not answer with jobs",
            command=command,
            tail=row[-1][:200],
            hint="is slurmctld (squeue) or slurmdbd (sacct) up?",
        )
    named = zip(columns, row, strict=True)
    return {readers[column][0]: readers[column][1](value) for column, value in named}


def _queued(fields: dict[str, Any]) -> Job:
    """GPUs are not in squeue's columns: nobody asked."""
    if is_waiting(fields.get("state", "")) and by_limit(fields.get("reason", "")):
        fields["start_at"] = None
    return Job(**fields, gpus=None, gpus_exact=False)


def _past(fields: dict[str, Any]) -> Job:
    fields.pop("", None)
    asked: str = fields.pop("asked", "")
    code: ExitCode | None = fields.pop("exit_code", None)
    job = Job(**fields)
    tres = job.tres or asked
    gpus = recorded(tres)
    return replace(
        job,
        tres=tres,
        memory=counts(tres).get("mem", 0),
        gpus=gpus.count,
        gpus_exact=gpus.exact,
        exit_status=code.status if code and job.ended else None,
        exit_signal=code.signal if code and job.ended else 0,
    )


def _set_limit(value: str) -> int | None:
    """A limit of sacctmgr; 0 is one."""
    return int(value) if value.isascii() and value.isdigit() else None


_ASSOCIATION: Final[Mapping[str, Column]] = MappingProxyType(
    {
        "Account": ("account", str),
        "User": ("user", str),
        "ParentName": ("parent", str),
        "Share": ("share", str),
        "GrpTRES": ("tres", str),
        "GrpJobs": ("jobs", _set_limit),
        "GrpSubmit": ("submitted", _set_limit),
        "QOS": ("qos", lambda value: tuple(filter(None, value.split(",")))),
        "DefaultQOS": ("default_qos", str),
    }
)
ASSOCIATION: Final = tuple(_ASSOCIATION)
"""All columns of an association."""


_RUN: Final = "JobID,State,Eligible,Start,End,NCPUS,AllocTRES,ReqTRES,Account"


def show_runs(mark: str, start: str, end: str) -> tuple[str, ...]:
    """The command whose answer ``readable_runs`` reads.

    Args:
        mark: as of ``show_queue``: slurmctld takes any text as an account where nothing checks it.
        start: when the time begins in which they ran or were pending, as sacct(1) reads it.
        end: when it ends.
    """
    every = ("sacct", "--noheader", "--parsable2", "--allusers", "--duplicates", "--allocations")
    shown = (f"--delimiter={_sane(mark)}", f"--format={_RUN}")
    return (*every, f"--starttime={start}", f"--endtime={end}", *shown)


def readable_runs(text: str, mark: str) -> tuple[JobRun, ...]:
    """Runs of jobs; what is not a complete line is left out, and further lines of an account."""
    runs = (_run(line.split(mark)) for line in text.split("\n"))
    return tuple(run for run in runs if run is not None)


def _run(fields: Sequence[str]) -> JobRun | None:
    if len(fields) != _RUN.count(",") + 1:
        return None
    label, state, *times, cpus, given, asked, account = fields
    eligible, start, end = (int(t) if t.isdecimal() and int(t) else None for t in times)
    if not cpus.isdecimal():
        return None
    # A job that ends before its start has the time of its end as start, and was given nothing.
    began = start if given else None
    tres = given or asked
    return JobRun(label, account, state_word(state), eligible, began, end, tres, int(cpus))


def show_events(event: str, start: str, end: str = "now", *, node: str = "") -> tuple[str, ...]:
    """The command whose answer ``readable_outages`` or ``readable_sizes`` reads.

    With ``SLURM_TIME_FORMAT=%s``.

    Args:
        event: ``node`` for outages, ``cluster`` for sizes of the cluster.
        start: when the time begins that they fall into, as sacctmgr(1) reads it: ``now-30days``.
        end: when it ends.
        node: of this node alone; "" for all.
    """
    show = ("sacctmgr", "--noheader", "--parsable2", "show", "event", f"event={event}")
    show = (*show, f"nodes={node}") if node else show
    columns = "NodeName,TimeStart,TimeEnd,State,User,TRES,Reason"
    return (*show, f"start={start}", f"end={end}", f"format={columns}")


def _events(text: str) -> Iterator[Outage]:
    for line in text.split("\n"):
        # The reason is last: it may hold anything but a line end.
        node, _, rest = line.partition("|")
        times = re.fullmatch(r"(\d+)\|(\d+|Unknown)\|([^|]*)\|([^|]*)\|([^|]*)\|(.*)", rest)
        if times:
            start, end, state, user, tres, reason = times.groups()
            ended = int(end) if end.isdecimal() and int(end) else None
            by = user.partition("(")[0]
            yield Outage(node, int(start), ended, state, by, reason.strip(), tres)


def readable_outages(text: str) -> tuple[Outage, ...]:
    """Outages of nodes in order of their start; what is not a complete line is left out."""
    outages = (event for event in _events(text) if event.node)
    return tuple(sorted(outages, key=lambda outage: (outage.start, outage.node)))


def readable_sizes(text: str) -> tuple[Outage, ...]:
    """What the cluster had from when to when: events without a node, but those of slurmctld."""
    return tuple(e for e in _events(text) if not e.node and e.reason.startswith("Cluster Regis"))


def show_associations(*where: str, columns: Sequence[str] = ASSOCIATION) -> tuple[str, ...]:
    """The command whose answer ``readable_associations`` reads.

    Args:
        where: which ones, such as ``user=ada``.
        columns: of ``ASSOCIATION``.
    """
    show = ("sacctmgr", "--noheader", "--parsable2", "show", "associations")
    return (*show, *where, f"format={','.join(columns)}")


def readable_associations(
    text: str, columns: Sequence[str] = ASSOCIATION
) -> tuple[Association, ...]:
    """The associations of sacctmgr's answer; what is not a complete line is left out."""
    readers = [_ASSOCIATION[column] for column in columns]
    rows = (line.split("|") for line in text.split("\n"))
    return tuple(
        Association(**{name: read(value) for (name, read), value in zip(readers, row, strict=True)})
        for row in rows
        if len(row) == len(columns) and row[0]
    )


_TRES_WIDTHS: Final = MappingProxyType(
    {
        "JobID": 24, "State": 24, "MaxNodes": 12, "NumTasks": 12,
        "tres-per-job": 255, "tres-per-node": 255, "tres-per-socket": 255, "tres-alloc": 400,
    }
)  # fmt: skip
_COUNTED_WIDTHS: Final = MappingProxyType(
    {
        "State": 24, "Partition": 64, "UserName": 64, "tres-alloc": 400,
        "JobID": 12, "Account": 48, "Reason": 40, "EligibleTime": 12, "StartTime": 12,
    }
)  # fmt: skip


def _in_columns(widths: Mapping[str, int]) -> tuple[str, ...]:
    """The squeue of fixed columns, in none of which but the account a user's text is."""
    columns = ",".join(f"{name}:{width}" for name, width in widths.items())
    return ("squeue", "--noheader", "--all", "--states=all", "-O", columns)


QUEUE_TRES: Final = _in_columns(_TRES_WIDTHS)
"""The command whose answer ``parse_tres`` reads."""
QUEUE_COUNTED: Final = _in_columns(_COUNTED_WIDTHS)
"""The command whose answer ``parse_counted`` reads: 50,000 jobs are 34 MB of it, and 350 MB of
JSON. Its times are unix seconds with ``TIME_FORMAT`` in the environment."""


def _columns(line: str, widths: Mapping[str, int]) -> dict[str, str]:
    """A line of fixed columns."""
    fields: dict[str, str] = {}
    at = 0
    for name, width in widths.items():
        fields[name] = line[at : at + width].strip()
        at += width
    return fields


def parse_tres(text: str) -> dict[int, Gpus]:
    """GPUs by job out of ``QUEUE_TRES``, of a Slurm that counts them among a job's resources."""
    by_job: dict[int, Gpus] = {}
    for line in text.split("\n"):
        fields = _columns(line, _TRES_WIDTHS)
        if fields["JobID"].isdigit():
            tres = fields["tres-alloc"]
            ask = Request(
                per_job=fields["tres-per-job"],
                per_node=fields["tres-per-node"],
                per_socket=fields["tres-per-socket"],
                nodes=fewest_nodes(tres),
                most_nodes=_maybe(fields["MaxNodes"]),
                tasks=_maybe(fields["NumTasks"]) or 0,
                sockets=1,
            )
            waits = is_waiting(fields["State"])
            by_job[int(fields["JobID"])] = of_job(
                "" if waits else tres, (), tres, ask, waiting=waits
            )
    return by_job


_COUNTED_LEAST: Final = sum(_COUNTED_WIDTHS[name] for name in ("State", "Partition", "UserName"))
"""Characters of a line up to its TRES; those from an account on are fewer."""


def parse_counted(text: str) -> list[Job]:
    """Jobs out of ``QUEUE_COUNTED``; a line that is too short is left out.

    So is what follows a line end in an account, which may hold one where Slurm has no accounting.
    """
    jobs: list[Job] = []
    gpus = dict[str, int]()  # the TRES of most jobs are those of another
    for line in text.split("\n"):
        fields = _columns(line, _COUNTED_WIDTHS)
        state, user, tres = fields["State"], fields["UserName"], fields["tres-alloc"]
        if state and user and len(line) >= _COUNTED_LEAST:
            if tres not in gpus:
                gpus[tres] = listed(tres) or 0
            jobs.append(
                Job(
                    id=_maybe(fields["JobID"]) or 0,
                    state=state,
                    user=user,
                    account=_value(fields["Account"]),
                    partition=fields["Partition"],
                    reason=fields["Reason"],
                    gpus=gpus[tres],
                    eligible_at=_maybe(fields["EligibleTime"]),
                    start_at=_maybe(fields["StartTime"]),
                )
            )
    return jobs


def _maybe(value: str) -> int | None:
    return int(value) or None if value.isascii() and value.isdigit() else None


def readable_reservation(line: str) -> Reservation | None:
    """One line of ``scontrol --oneliner show reservation``; None for another line.

    Its times are of the controller's clock: there is no option for another form.
    """
    if not line.startswith("ReservationName="):
        return None
    pairs = (word.partition("=") for word in line.split())
    fields = {key: _value(value) for key, _, value in pairs}

    def names(key: str) -> tuple[str, ...]:
        return tuple(filter(None, fields.get(key, "").split(",")))

    return Reservation(
        fields["ReservationName"],
        nodes=fields.get("Nodes", ""),
        node_count=_count(fields, "NodeCnt"),
        cores=_count(fields, "CoreCnt"),
        partition=fields.get("PartitionName", ""),
        users=names("Users"),
        accounts=names("Accounts"),
        licenses=fields.get("Licenses", ""),
        flags=names("Flags"),
        start_local=fields.get("StartTime", ""),
        end_local=fields.get("EndTime", ""),
        length=_length(fields.get("Duration", "")),
    )


def _count(fields: Mapping[str, str], name: str) -> int:
    value = fields.get(name, "")
    return int(value) if value.isascii() and value.isdigit() else 0


def _length(text: str) -> int | None:
    try:
        return seconds(text)
    except CorralError:
        return None
