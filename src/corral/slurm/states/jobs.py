"""Job states and exit codes, and the answers of squeue and sacct.

A job's name may hold anything, line ends and ``|`` too, and neither command escapes it: with a
plain separator a user could forge the line of another job (seen with 22.05.8, 24.11.5, 26.05.5). So
who lists the jobs of several users makes up a mark for each call, that separates fields, and the
name comes last. ``SHOW_QUEUE`` and ``SHOW_HISTORY`` have the plain mark ``|``: for one job, whose
first line is its own.
Times are epoch seconds: run the commands with ``SLURM_TIME_FORMAT=%s``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from corral.errors import Code, CorralError
from corral.slurm.duration import seconds
from corral.slurm.gpus import Gpus, Request, fewest_nodes, of_job, recorded, tracked

TIME_FORMAT: Final = ("SLURM_TIME_FORMAT", "%s")
"""Environment of both commands: times as seconds since 1970, whatever the node's time zone."""

_QUEUE_FIELDS: Final = (
    "%i", "%A", "%T", "%r", "%P", "%u", "%a", "%D", "%C", "%b", "%m", "%M", "%l", "%V", "%S",
    "%N", "%j",
)  # fmt: skip
_HISTORY_FIELDS: Final = (
    "JobID", "JobIDRaw", "State", "ExitCode", "DerivedExitCode", "Partition", "User", "Account",
    "NNodes", "NCPUS", "ReqTRES", "AllocTRES", "ElapsedRaw", "Submit", "Start", "End", "NodeList",
    "JobName",
)  # fmt: skip
_MARK: Final = re.compile(r"[A-Za-z0-9|:_-]{1,64}")


def show_queue(mark: str) -> tuple[str, ...]:
    """The command whose answer ``parse_queue`` reads; ``--jobs=ID`` may be added.

    Args:
        mark: separates fields; letters and digits nobody can know beforehand.

    Raises:
        CorralError: the mark holds other characters.
    """
    return (
        "squeue", "--noheader", "--array", "--all", f"--format={_sane(mark).join(_QUEUE_FIELDS)}",
    )  # fmt: skip


def show_history(mark: str) -> tuple[str, ...]:
    """The command whose answer ``parse_history`` reads; ``--jobs=ID`` may be added.

    Raises:
        CorralError: the mark holds other characters than letters and digits.
    """
    return (
        "sacct", "--noheader", "--parsable2", f"--delimiter={_sane(mark)}", "--duplicates",
        "--allocations", f"--format={','.join(_HISTORY_FIELDS)}",
    )  # fmt: skip


PLAIN: Final = "|"
"""The mark for asking about one job."""


def _sane(mark: str) -> str:
    if not _MARK.fullmatch(mark):
        raise CorralError(Code.USAGE, f"{mark!r} cannot separate fields", hint="use token_hex()")
    return mark


SHOW_QUEUE: Final = show_queue(PLAIN)
"""The command whose answer ``parse_queue`` reads, for one job: add ``--jobs=ID``."""

SHOW_HISTORY: Final = show_history(PLAIN)
"""The command whose answer ``parse_history`` reads, for one job: add ``--jobs=ID``."""


_TRES_WIDTHS: Final = {
    "JobID": 24, "State": 24, "MaxNodes": 12, "NumTasks": 12,
    "tres-per-job": 255, "tres-per-node": 255, "tres-per-socket": 255, "tres-alloc": 400,
}  # fmt: skip
QUEUE_TRES: Final = (
    *("squeue", "--noheader", "--all", "--states=all"),
    *("-O", ",".join(f"{name}:{width}" for name, width in _TRES_WIDTHS.items())),
)
"""The command whose answer ``parse_tres`` reads: fixed columns, and nothing that a user names."""


class JobState(StrEnum):
    """Job states (job_state_string of slurm_protocol_defs.c, 21.08 to 26.05)."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    PREEMPTED = "PREEMPTED"
    BOOT_FAIL = "BOOT_FAIL"
    DEADLINE = "DEADLINE"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    COMPLETING = "COMPLETING"
    CONFIGURING = "CONFIGURING"
    EXPEDITING = "EXPEDITING"
    LAUNCH_FAILED = "LAUNCH_FAILED"
    POWER_UP_NODE = "POWER_UP_NODE"
    RECONFIG_FAIL = "RECONFIG_FAIL"
    REQUEUED = "REQUEUED"
    REQUEUE_FED = "REQUEUE_FED"
    REQUEUE_HOLD = "REQUEUE_HOLD"
    RESIZING = "RESIZING"
    RESV_DEL_HOLD = "RESV_DEL_HOLD"
    REVOKED = "REVOKED"
    SIGNALING = "SIGNALING"
    SPECIAL_EXIT = "SPECIAL_EXIT"
    STAGE_OUT = "STAGE_OUT"
    STOPPED = "STOPPED"
    UPDATE_DB = "UPDATE_DB"

    @classmethod
    def read(cls, text: str) -> JobState:
        """The state in a field such as ``CANCELLED by 1000``.

        Raises:
            CorralError: no release up to 26.05 has this state.
        """
        word = text.strip().split(" ", 1)[0].rstrip("+").upper()
        found = cls.__members__.get(word)
        if found is None:
            raise CorralError(
                Code.PARSE_FAILED,
                f"{text[:60]!r} is not a job state",
                hint="a newer Slurm than Corral knows? corral doctor shows the versions",
            )
        return found

    @property
    def ended(self) -> bool:
        """It will not run any more (a requeued job gets another record)."""
        return self in _ENDED

    @property
    def good(self) -> bool:
        """It ended as it should."""
        return self is JobState.COMPLETED

    @property
    def waiting(self) -> bool:
        """It has not begun."""
        return self in _WAITING


_ENDED: Final = frozenset(
    {JobState.COMPLETED, JobState.CANCELLED, JobState.FAILED, JobState.TIMEOUT, JobState.NODE_FAIL,
     JobState.PREEMPTED, JobState.BOOT_FAIL, JobState.DEADLINE, JobState.OUT_OF_MEMORY,
     JobState.LAUNCH_FAILED, JobState.RECONFIG_FAIL, JobState.REVOKED}
)  # fmt: skip
_WAITING: Final = frozenset(
    {JobState.PENDING, JobState.CONFIGURING, JobState.POWER_UP_NODE, JobState.REQUEUED,
     JobState.REQUEUE_FED, JobState.REQUEUE_HOLD, JobState.RESV_DEL_HOLD, JobState.SPECIAL_EXIT,
     JobState.EXPEDITING}
)  # fmt: skip

_SIGNALS: Final[Mapping[int, str]] = MappingProxyType(
    {1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
     9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM",
     15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ", 53: "Slurm's own: a file could not be written"}
)  # fmt: skip
_STATUSES: Final[Mapping[int, str]] = MappingProxyType(
    {125: "out of memory", 126: "the command cannot be executed", 127: "command not found"}
)
_SHELL_SIGNAL: Final = 128  # a shell's exit status for a signal is 128 and its number
_EXIT: Final = re.compile(r"(\d+):(\d+)")


@dataclass(frozen=True, slots=True)
class ExitCode:
    """How a job ended: its exit status, and the signal that ended it (0 for none)."""

    status: int
    signal: int = 0

    @classmethod
    def parse(cls, text: str) -> ExitCode:
        """Read Slurm's ``status:signal``; an empty field is 0:0.

        Raises:
            CorralError: it has another form.
        """
        if not text.strip():
            return cls(0)
        found = _EXIT.fullmatch(text.strip())
        if not found:
            raise CorralError(Code.PARSE_FAILED, f"{text[:40]!r} is not an exit code of Slurm")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.status}:{self.signal}"

    @property
    def words(self) -> str:
        """What it means: ``ended by SIGKILL``."""
        signal = self.signal
        if not signal and self.status > _SHELL_SIGNAL:
            signal = self.status - _SHELL_SIGNAL
        if signal:
            return f"ended by {_SIGNALS.get(signal, f'signal {signal}')}"
        if not self.status:
            return "succeeded"
        known = _STATUSES.get(self.status)
        return f"exit status {self.status}" + (f" ({known})" if known else "")


@dataclass(frozen=True, slots=True)
class JobInfo:
    """One job, from squeue or sacct.

    Attributes:
        id: what scancel takes: ``12`` or, for a part of an array, ``12_3``.
        raw_id: the plain number, also for a part of an array.
        state: where it stands.
        name: its name.
        partition: its partition.
        user: who submitted it.
        account: charged account, "" for none.
        nodes: number of nodes.
        cpus: number of CPUs.
        node_list: where it runs or ran, as a hostlist; "" before.
        tres: what was asked for (squeue: GRES per node; sacct: AllocTRES, else ReqTRES).
        elapsed: seconds it ran.
        submitted: epoch seconds, None when unknown.
        started: epoch seconds; for a pending job when Slurm expects to start it; None: unknown.
        ended: epoch seconds, None while it lives (and in squeue's answer).
        limit: its time limit in seconds, None for none (and in sacct's answer).
        reason: why it waits, Slurm's own word; "" for none (and in sacct's answer).
        exit_code: how it ended; None while it lives (and in squeue's answer).
        gpus: those it has or asks for; None where nobody asked for them (squeue's answer).
    """

    id: str
    raw_id: int
    state: JobState
    name: str
    partition: str
    user: str
    account: str
    nodes: int
    cpus: int
    node_list: str
    tres: str
    elapsed: int
    submitted: int | None
    started: int | None
    ended: int | None = None
    limit: int | None = None
    reason: str = ""
    exit_code: ExitCode | None = None
    gpus: Gpus | None = None


def parse_queue(text: str, mark: str = PLAIN) -> tuple[JobInfo, ...]:
    """Read the answer of ``show_queue(mark)``.

    Raises:
        CorralError: a line does not have the fields asked for.
    """
    return tuple(_queued(row) for row in _rows(text, mark, len(_QUEUE_FIELDS), "squeue"))


def parse_history(text: str, mark: str = PLAIN) -> tuple[JobInfo, ...]:
    """Read the answer of ``show_history(mark)``; a requeued job has one entry for each run.

    Raises:
        CorralError: a line does not have the fields asked for.
    """
    return tuple(_past(row) for row in _rows(text, mark, len(_HISTORY_FIELDS), "sacct"))


def settled(jobs: Iterable[JobInfo], *, gpus: bool) -> tuple[JobInfo, ...]:
    """Past jobs, those without GPUs in accounting as none where it keeps them (see ``tracked``).

    Args:
        jobs: the entire answer of ``parse_history``.
        gpus: the cluster has GPUs.
    """
    found = tuple(jobs)
    if not tracked((job.gpus for job in found), cluster=gpus):
        return found
    return tuple(replace(j, gpus=replace(j.gpus, exact=True)) if j.gpus else j for j in found)


def parse_tres(text: str) -> dict[int, Gpus]:
    """GPUs by job out of ``QUEUE_TRES``, of a Slurm that counts them among a job's resources."""
    found: dict[int, Gpus] = {}
    for line in text.splitlines():
        fields: dict[str, str] = {}
        at = 0
        for name, width in _TRES_WIDTHS.items():
            fields[name] = line[at : at + width].strip()
            at += width
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
            waits = fields["State"] in _WAITING
            found[int(fields["JobID"])] = of_job(
                "" if waits else tres, (), tres, ask, waiting=waits
            )
    return found


def _maybe(value: str) -> int | None:
    return int(value) or None if value.isascii() and value.isdigit() else None


def _rows(text: str, mark: str, count: int, command: str) -> list[list[str]]:
    """Lines as fields; a line without marks goes on with the job name of the one before."""
    rows: list[list[str]] = []
    for line in text.removesuffix("\n").split("\n"):
        row = line.split(mark, count - 1)
        if len(row) == count:
            rows.append(row)
        elif rows:
            rows[-1][-1] += f"\n{line}"
        elif line.strip():
            raise CorralError(
                Code.PARSE_FAILED,
                f"{command} did not answer with jobs",
                command=command,
                tail=line[:200],
                hint="is slurmctld (squeue) or slurmdbd (sacct) up?",
            )
    return rows


def _queued(row: list[str]) -> JobInfo:
    (job, raw, state, reason, partition, user, account, nodes, cpus, gres, _memory, elapsed, limit,
     submitted, started, node_list, name) = row  # fmt: skip
    return JobInfo(
        id=job,
        raw_id=_number(raw),
        state=JobState.read(state),
        name=name,
        partition=partition,
        user=user,
        account=_text(account),
        nodes=_number(nodes.partition("-")[0]),
        cpus=_number(cpus),
        node_list=_text(node_list),
        tres=_text(gres),
        elapsed=seconds(elapsed) or 0,
        submitted=_epoch(submitted),
        started=_epoch(started),
        limit=seconds(limit),
        reason="" if reason == "None" else reason,
    )


def _past(row: list[str]) -> JobInfo:
    (job, raw, state, exit_code, _derived, partition, user, account, nodes, cpus, asked, given,
     elapsed, submitted, started, ended, node_list, name) = row  # fmt: skip
    found = JobState.read(state)
    return JobInfo(
        id=job,
        raw_id=_number(raw.partition("+")[0]),
        state=found,
        name=name,
        partition=partition,
        user=user,
        account=_text(account),
        nodes=_number(nodes),
        cpus=_number(cpus),
        node_list="" if node_list == "None assigned" else _text(node_list),
        tres=given or asked,
        elapsed=_number(elapsed),
        submitted=_epoch(submitted),
        started=_epoch(started),
        ended=_epoch(ended),
        exit_code=ExitCode.parse(exit_code) if found.ended else None,
        gpus=recorded(given or asked),
    )


def _text(value: str) -> str:
    return "" if value in ("(null)", "N/A") else value


def _number(value: str) -> int:
    if not (value.isascii() and value.isdigit()):
        raise CorralError(
            Code.PARSE_FAILED, f"{value[:40]!r} is not a number", hint="a new release?"
        )
    return int(value)


def _epoch(value: str) -> int | None:
    """Epoch seconds; None for Unknown, None and N/A."""
    return int(value) if value.isascii() and value.isdigit() and int(value) else None
