"""Slurm's records: one class for each, whichever way it was read. Pure.

``slurm.text`` reads what scontrol, squeue and sacct print, ``slurm.rest.read`` what slurmrestd and
``--json`` print. What an answer lacks is as the field's default.
A field that the REST API's record has as it is names it, and its reader, in place (``reported``):
a new one is one line here. Times are unix seconds, memory is MiB, limits are seconds; None is "not
known" or "no limit".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, TypeVar

from corral.slurm.array_tasks import array_label, without_limit
from corral.slurm.rest.json_values import integer, maybe, moment, text, words
from corral.slurm.states.jobs import (
    Began,
    EndsAbout,
    ExitCode,
    JobState,
    Phase,
    has_ended,
    is_waiting,
    job_states,
    state_word,
)
from corral.slurm.states.nodes import NodeState
from corral.slurm.states.reasons import Wait, explain, wait_of
from corral.slurm.tres import Gpus, listed

T = TypeVar("T")


def reported(
    name: str, read: Callable[[object], T], default: T, *, past: str = "", compare: bool = True
) -> T:
    """A field that is ``name`` in the newest REST API's record, as ``read`` makes it.

    Args:
        name: in slurmctld's record.
        read: what makes a value of it.
        default: the value without it.
        past: its name in accounting's record, read in the same way; "": it is not there, or has
            another form (``slurm.rest.read.past_job``).
        compare: whether a record with another value of it is another record.
    """
    metadata = {"rest": (name, read), "past": (past, read)}
    return field(default=default, compare=compare, metadata=metadata)


def reported_fields(kind: type[Any], raw: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a record of slurmctld's that are ``reported``."""
    return {name: read(raw.get(key)) for name, key, read in _REPORTED[kind, "rest"]}


def past_fields(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a job's record of accounting's that are ``reported``."""
    return {name: read(raw.get(key)) for name, key, read in _REPORTED[Job, "past"]}


@dataclass(frozen=True, slots=True)
class Node:
    """A node as slurmctld knows it.

    Attributes:
        state: base state and flags.
        reason, reason_by, reason_at: why it is drained or down, who set that and when; a text
            where the command printed a local time.
        address: NodeAddr.
        version: slurmd's version, "" while it never registered.
        features: those it can have; active_features: those it has now.
        architecture, system: of its machine, and its kernel's name and version as slurmd sent them;
            the text of scontrol is not read for the first.
        sockets, socket_cores: sockets, and the cores of one; threads: hardware threads of one core.
        busy_at: when it was last in use, as slurmctld has it. A record with another time is not
            another record: the time may move at each poll, and nothing else with it.
        load: one-minute load average.
        memory: RealMemory; memory_used: given to jobs; memory_free: free on the machine.
        gres, gres_used: as Slurm writes them; scontrol prints the second only with ``--details``.
        tres, tres_used: CfgTRES and AllocTRES.
        watts: power drawn now, where an energy plugin reports it.
    """

    name: str
    state: NodeState
    reason: str = reported("reason", text, "")
    reason_by: str = reported("reason_set_by_user", text, "")
    reason_at: int | str | None = None
    address: str = reported("address", text, "")
    version: str = ""
    partitions: tuple[str, ...] = reported("partitions", words, ())
    features: tuple[str, ...] = reported("features", words, ())
    active_features: tuple[str, ...] = reported("active_features", words, ())
    cpus: int = reported("cpus", integer, 0)
    cpus_used: int = reported("alloc_cpus", integer, 0)
    architecture: str = reported("architecture", text, "")
    system: str = reported("operating_system", text, "")
    sockets: int = reported("sockets", integer, 0)
    socket_cores: int = reported("cores", integer, 0)
    threads: int = 1
    busy_at: int | None = reported("last_busy", moment, None, compare=False)
    load: float | None = None
    memory: int = reported("real_memory", integer, 0)
    memory_used: int = reported("alloc_memory", integer, 0)
    memory_free: int | None = reported("free_mem", maybe, None)
    gres: str = reported("gres", text, "")
    gres_used: str = reported("gres_used", text, "")
    tres: str = reported("tres", text, "")
    tres_used: str = reported("tres_used", text, "")
    boot_at: int | None = reported("boot_time", moment, None)
    watts: int | None = None

    @property
    def usable(self) -> bool:
        """Whether jobs can be started there now or once the jobs on it end."""
        return self.state.usable

    @property
    def why_out(self) -> str:
        """Why no job is started there: Slurm's reason, else what its state does not show."""
        unknown = ", ".join(self.state.unknown_flags)
        return self.reason or (f"Corral does not know the flag {unknown}" if unknown else "")

    @property
    def gpus(self) -> int:
        """GPUs configured."""
        return listed(self.gres) or 0

    @property
    def gpus_used(self) -> int | None:
        """GPUs given to jobs; None where the answer has them neither as GRES nor as TRES."""
        used = listed(self.gres_used)
        if used is None and listed(self.tres) is not None:  # AllocTRES counts them
            used = listed(self.tres_used) or 0
        return used if used is not None or self.gpus else 0

    @property
    def cores(self) -> int:
        """Cores, hardware threads of one core counted once."""
        return max(self.cpus // max(self.threads, 1), 1)


@dataclass(frozen=True, slots=True)
class Job:
    """A job as slurmctld or accounting knows it.

    Attributes:
        id: Slurm's number; label is what people call it and scancel takes: ``12_3``, ``12_[3-30]``
            of an array.
        state: Slurm's word, also one of a later release.
        nodes: where it runs or ran, as a hostlist; "" before.
        exit_status, exit_signal: how it ended (squeue does not report it).
        eligible_at: since when it may start: it was submitted, its dependencies have ended and its
            begin time has come.
        start_at: for a pending job when Slurm expects to start it.
        elapsed: seconds it ran; None in slurmctld's JSON.
        limit: time limit in seconds.
        gpus: those it has or had, before it starts those it asks for, None where nobody asked;
            gpus_exact: it gets no more (see ``slurm.tres``).
        gres: what it asks for on each node.
        tres: what it was given, else what it asks for; not in squeue's columns.
        tres_asked: what it asks for.
        comment: its user's; admin_comment: an administrator's or a plugin's; system_comment:
            Slurm's own, such as why a burst buffer failed.
        group: of its user, as it runs; wckey: what it is accounted by in addition.
        gres_detail: what it was given of each of its nodes, in their order: ``gpu:2(IDX:0-1)``.
        submit_line: the command that submitted it, its words joined by blanks; slurmctld reports it
            from 26.05 on, accounting before.
    """

    id: int = 0
    label: str = ""
    name: str = ""
    user: str = ""
    state: str = ""
    reason: str = ""
    account: str = reported("account", text, "", past="account")
    partition: str = reported("partition", text, "", past="partition")
    qos: str = reported("qos", text, "", past="qos")
    priority: int | None = reported("priority", maybe, None, past="priority")
    nodes: str = reported("nodes", text, "")
    node_count: int = reported("node_count", integer, 0)
    cpus: int = reported("cpus", integer, 0)
    gpus: int | None = 0
    gpus_exact: bool = True
    gres: str = reported("tres_per_node", text, "")
    tres: str = ""
    tres_asked: str = reported("tres_req_str", text, "")
    memory: int = 0
    submit_at: int | None = reported("submit_time", moment, None)
    eligible_at: int | None = reported("eligible_time", moment, None)
    start_at: int | None = reported("start_time", moment, None)
    end_at: int | None = reported("end_time", moment, None)
    elapsed: int | None = None
    limit: int | None = None
    exit_status: int | None = None
    exit_signal: int = 0
    stdout: str = ""
    stderr: str = ""
    workdir: str = reported("current_working_directory", text, "", past="working_directory")
    command: str = reported("command", text, "")
    comment: str = reported("comment", text, "")
    admin_comment: str = reported("admin_comment", text, "")
    system_comment: str = reported("system_comment", text, "")
    group: str = reported("group_name", text, "", past="group")
    wckey: str = reported("wckey", text, "")
    dependency: str = reported("dependency", text, "")
    restarts: int = reported("restart_cnt", integer, 0, past="restart_cnt")
    gres_detail: tuple[str, ...] = reported("gres_detail", words, ())
    submit_line: str = reported("submit_line", text, "", past="submit_line")

    @property
    def array(self) -> str:
        """The number of the array that it is a task of, "" for any other job."""
        label = array_label(self.label) if "_" in self.label else None  # of 50,000 few have it
        return str(label.array) if label else ""

    @property
    def ref(self) -> str:
        """What names it and no other job, for Slurm's commands: ``12``, ``12_3``, ``12_[4-7]``.

        The record of an array's tasks that have not begun has the number of the array, with which
        commands reach its running tasks too; so has its last task. "" where the text of a long list
        of tasks was cut.
        """
        label = array_label(self.label)
        if label is None or (label.task is not None and str(self.id) != str(label.array)):
            return str(self.id)
        if label.task is not None:
            return self.label
        pending, _ = without_limit(label.pending)
        return f"{label.array}_[{pending}]" if label.tasks.exact else ""

    @property
    def ended(self) -> bool:
        """It will not run any more."""
        return has_ended(self.state)

    @property
    def waiting(self) -> bool:
        """It has not begun."""
        return is_waiting(self.state)

    @property
    def held(self) -> bool:
        """Somebody holds it until it is released: by its reason, or by its priority of 0."""
        return not self.ended and (self.priority == 0 or wait_of(self.reason) is Wait.HELD)

    @property
    def wait(self) -> Wait:
        """What it is pending for, as far as priority and reason decide it."""
        return Wait.HELD if self.held else wait_of(self.reason)

    @property
    def why(self) -> str:
        """What it waits for, in words; "" for a job that is not pending."""
        if not self.waiting:
            return ""
        # A job that is held while it waits for something else keeps that reason for a while.
        by_priority = self.held and wait_of(self.reason) is not Wait.HELD
        return explain("JobHeldUser" if by_priority else self.reason)

    @property
    def began(self) -> bool:
        """It has started, so ``start_at`` is when."""
        row = job_states().get(self.state)
        began = row.began if row else Began.NEVER
        return began is Began.ALWAYS or (began is Began.WITH_NODES and bool(self.nodes))

    @property
    def paused(self) -> bool:
        """Its processes are stopped, and it keeps its nodes."""
        row = job_states().get(self.state)
        return row is not None and row.paused

    @property
    def has_steps(self) -> bool:
        """On each of its nodes slurmstepd runs for it."""
        row = job_states().get(self.state)
        return row is not None and row.steps

    @property
    def running(self) -> bool:
        """Its program runs now."""
        return self.state == JobState.RUNNING

    @property
    def going(self) -> bool:
        """It has begun and not ended; no, in a state of a later release."""
        row = job_states().get(self.state)
        return row is not None and row.phase is Phase.GOING

    @property
    def completed(self) -> bool:
        """It ended as it should."""
        return self.state == JobState.COMPLETED

    @property
    def failed(self) -> bool:
        """Its program ended with a failure."""
        return self.state == JobState.FAILED

    @property
    def cancelled(self) -> bool:
        """Somebody ended it."""
        return self.state == JobState.CANCELLED

    @property
    def ended_about(self) -> EndsAbout:
        """Which part of its request its end is about, "" for none."""
        known = job_states().get(state_word(self.state))
        return known.about if known else ""

    @property
    def exit_code(self) -> ExitCode | None:
        """How it ended; None while it lives, and where the answer does not have it."""
        if not self.ended or (self.exit_status is None and not self.exit_signal):
            return None
        # The REST API has no status where a signal ended it; scontrol prints 0:53.
        return ExitCode(self.exit_status or 0, self.exit_signal)

    @property
    def gpu_count(self) -> Gpus | None:
        """Its GPUs with how far they are known; None where nobody asked."""
        return None if self.gpus is None else Gpus(self.gpus, self.gpus_exact)


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition: its nodes as a hostlist, and its limits.

    Attributes:
        state: UP, DOWN, DRAIN or INACTIVE; "" where the answer lacks it.
        max_time: longest job.
        max_nodes: most nodes of one job.
    """

    name: str
    state: str = ""
    nodes: str = ""
    node_count: int = 0
    max_time: int | None = None
    max_nodes: int | None = None


@dataclass(frozen=True, slots=True)
class JobRun:
    """One run of a job in accounting, or its wait: a job that was requeued has several.

    Attributes:
        label: ``12``, ``12_3``, or ``12_[3-30]`` of tasks that have not begun.
        account: whose it is.
        state: Slurm's word.
        eligible: since when it might start, in epoch seconds; None where it might not yet.
        start, end: when it ran; None before, and the start of one that ended before it.
        tres: what it was given, else what it asks for.
        cpus: the same of CPUs.
    """

    label: str
    account: str
    state: str
    eligible: int | None
    start: int | None
    end: int | None
    tres: str
    cpus: int


@dataclass(frozen=True, slots=True)
class Outage:
    """A time in which a node took no jobs, as slurmdbd keeps it.

    Attributes:
        node: its name.
        start: when it began, in epoch seconds.
        end: when it ended; None while it goes on.
        state: Slurm's state, such as ``DRAIN*``.
        by: who caused it, "" where Slurm did.
        reason: why, "" for none.
        tres: what the node has: ``cpu=2,gres/gpu=2``.
    """

    node: str
    start: int
    end: int | None
    state: str
    by: str = ""
    reason: str = ""
    tres: str = ""


@dataclass(frozen=True, slots=True)
class Association:
    """An account of slurmdbd, or a user in one, with its share and limits.

    ``slurm.text`` reads what sacctmgr prints, ``slurm.rest.policy`` its JSON with all limits
    (``slurm.policy.Member``).

    Attributes:
        user: "" for the account itself.
        parent: the account above it, for an account.
        share: Fairshare, a number or ``parent``.
        tres, jobs, submitted: GrpTRES, GrpJobs, GrpSubmitJobs.
        qos: those that may be asked for; default_qos: what a job gets that names none.
    """

    account: str = ""
    user: str = ""
    parent: str = ""
    share: str = ""
    tres: str = ""
    jobs: int | None = None
    submitted: int | None = None
    qos: tuple[str, ...] = ()
    default_qos: str = ""


def gpus_settled(jobs: Iterable[Job], *, uncounted: bool) -> tuple[Job, ...]:
    """Jobs of accounting, those without GPUs in it as none where it counts GPUs.

    Without ``AccountingStorageTRES=gres/gpu`` no record of any job names GPUs.

    Args:
        jobs: an entire answer.
        uncounted: the cluster may have GPUs that accounting does not count. False where it has
            none, and where gres/gpu is known to be tracked: what names none then had none.
    """
    records = tuple(jobs)
    if uncounted and not any(job.gpus for job in records):
        return records
    return tuple(replace(job, gpus_exact=True) for job in records)


_REPORTED: Final = {
    (kind, source): tuple(
        (attribute.name, *attribute.metadata[source])
        for attribute in fields(kind)
        if source in attribute.metadata and attribute.metadata[source][0]
    )
    for kind in (Node, Job)
    for source in ("rest", "past")
}
