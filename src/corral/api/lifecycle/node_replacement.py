"""Use case: another machine under the name and address of a node, in service once it is proven."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from corral.api.evidence.proof import job_user
from corral.api.lifecycle.deployment import Approve, up
from corral.api.operations.keys import install_keys, open_jump_hosts
from corral.api.operations.nodes import chosen
from corral.apply.connection import Connection
from corral.apply.journal import Journal, declared_before, read_journal
from corral.apply.observation import guessed
from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind, ignore
from corral.hosts.keysetup import keys_dir, proven, shown_keys
from corral.hosts.openssh import OpenSSH, control_dir
from corral.hosts.quote import call
from corral.hosts.sshkeys import known_fingerprints, pin, unpin
from corral.hosts.transport import check
from corral.inspect.facts import Facts, facts_inquiry, facts_of
from corral.inspect.jobs import held_by, queued_job
from corral.inspect.question import answer_to
from corral.inspect.slurm import nodes_named, strictly
from corral.plan.model import Plan
from corral.plurals import plural
from corral.providers.lookup import here, providers_of
from corral.roles.data_loss import lost_with
from corral.slurm.records import Job
from corral.slurm.records import Node as SlurmNode
from corral.spec.models import ClusterSpec
from corral.spec.nodes import Node, controller_of, nodes_of, partitions_of
from corral.state.slurm.members import REPLACED
from corral.state_dir import cluster_dir

_PROGRAM: Final = "node-replacement.sh"
ASK_S: Final = 30.0
JOB_S: Final = 60
"""Seconds that the job of the proof may wait for the new machine."""
_IS_UP: Final = "is slurmctld up? see: corral status"
BEGUN: Final = "replacing"
DONE: Final = "replaced"


def _gpus(facts: Facts) -> str:
    models = list(dict.fromkeys(gpu.name or gpu.device for gpu in facts.gpus))
    return f"{len(facts.gpus)} ({', '.join(models)})" if models else "none"


SHOWN: Final[Mapping[str, Callable[[Facts], str]]] = {
    "CPUs": lambda facts: str(facts.cpus),
    "sockets x cores x threads": lambda facts: (
        f"{facts.sockets} x {facts.cores_per_socket} x {facts.threads_per_core}"
    ),
    "memory (MiB)": lambda facts: str(facts.memory_mib),
    "GPUs": _gpus,
    "system": lambda facts: f"{facts.os_id} {facts.os_version}",
    "kernel": lambda facts: facts.kernel,
}
"""What a machine is compared by with the one before it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing in which the new machine is not as the old one was."""

    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Replacement:
    """What is known before anything is changed.

    Attributes:
        node: the node.
        before: the old machine, as it was last read; None where it never was.
        known: fingerprints of the host keys that are pinned; none for machines that Corral makes.
        shown: those that the machine at the node's address shows now.
        keys: the lines of known_hosts with them.
        slurm: the node as Slurm has it; None where it runs no jobs.
        jobs: jobs that it holds.
        lost: what only the old machine held, in words.
    """

    node: str
    before: Facts | None
    known: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    keys: str = field(default="", repr=False)
    slurm: SlurmNode | None = None
    jobs: tuple[Job, ...] = ()
    lost: str = ""

    @property
    def new_key(self) -> bool:
        """True where the machine shows a key that is not pinned."""
        return not set(self.shown) <= set(self.known)

    def as_dict(self) -> dict[str, Any]:
        """The differences and host keys, as ``--json`` prints them."""
        return {
            "node": self.node,
            "known": list(self.known),
            "shown": list(self.shown),
            "state": str(self.slurm.state) if self.slurm else "",
            "jobs": [_job(job) for job in self.jobs],
            "lost": self.lost,
        }


@dataclass(frozen=True, slots=True)
class Replaced:
    """What became of it.

    Attributes:
        node: the node.
        applied: whether the plan was approved; else the node stays drained.
        differences: in what the new machine is not as the old one.
        jobs: the old machine's jobs as they are now; those that left the queue are not in it.
        fault: why the new machine did not pass; "": it is in service.
    """

    node: str
    applied: bool
    differences: tuple[Difference, ...] = ()
    jobs: tuple[Job, ...] = ()
    fault: str = ""

    @property
    def good(self) -> bool:
        """True where the new machine takes jobs."""
        return self.applied and not self.fault

    def as_dict(self) -> dict[str, Any]:
        """How it ended, as ``--json`` prints it."""
        return {
            "node": self.node,
            "good": self.good,
            "applied": self.applied,
            "differences": [
                {"what": each.what, "before": each.before, "after": each.after}
                for each in self.differences
            ],
            "jobs": [_job(job) for job in self.jobs],
            "fault": self.fault,
        }


def _job(job: Job) -> dict[str, Any]:
    return {"id": job.label, "user": job.user, "state": job.state}


def differences(before: Facts | None, after: Facts) -> tuple[Difference, ...]:
    """In what a machine is not as the one before it."""
    if before is None:
        return ()
    pairs = ((what, shown(before), shown(after)) for what, shown in SHOWN.items())
    return tuple(Difference(*each) for each in pairs if each[1] != each[2])


async def plan_replacement(spec: ClusterSpec, node: str) -> Replacement:
    """Read what a replacement of a node's machine would meet; changes nothing.

    Args:
        spec: the cluster.
        node: whose machine is another one now.

    Raises:
        CorralError: USAGE, the node is the controller, or Corral makes its machine, it is there and
            no replacement of it is unfinished; NOT_FOUND, no such node, or the cluster is not up;
            UNREACHABLE, no machine answers.
    """
    declared = _node(spec, node)
    folder = cluster_dir(spec.name, create=False)
    plan = Replacement(node, _last_known(folder, node))
    async with await Connection.open(spec) as session:
        session.require_running()
        if declared.group.capabilities.owned:
            plan = await _keys_of(spec, plan)
        elif node not in {a.node for a in session.pending} and _unfinished(folder, node) is None:
            raise CorralError(
                Code.USAGE,
                "its machine is there and as the file declares, so there is none to replace",
                node=node,
                hint="corral makes this machine: end it first, or change it in the file; a node "
                f"that is only to be checked: corral drain {node} --reason TEXT",
            )
        if runs_jobs(spec, declared):
            plan = await _in_slurm(session, plan)
    return replace(plan, lost=lost_with([spec, *declared_before(folder / "journal.jsonl")], node))


def _node(spec: ClusterSpec, node: str) -> Node:
    names = chosen(spec, node)
    if not node or len(names) != 1:
        raise CorralError(Code.USAGE, f"one node is meant, not {node!r}", hint="name one node")
    name = names[0]
    if name == controller_of(spec):
        raise CorralError(
            Code.USAGE,
            "is the controller: what it holds cannot be made again on another machine",
            node=name,
            hint="put a backup of it onto the new machine: corral keys forget "
            f"{name}, corral up FILE, corral restore ARCHIVE FILE",
        )
    return next(each for each in nodes_of(spec) if each.name == name)


def _unfinished(folder: Path, node: str) -> dict[str, Any] | None:
    """The journal's record of a replacement that began and has not ended yet; None for none."""
    begun: dict[str, Any] | None = None
    for record in read_journal(folder / "journal.jsonl"):
        if record.get("node") == node and record.get("kind") in (BEGUN, DONE):
            begun = record if record["kind"] == BEGUN else None
    return begun


def _last_known(folder: Path, node: str) -> Facts | None:
    """The old machine: as it was when its replacement began, if that has not ended yet."""
    begun = _unfinished(folder, node)
    if begun is None:
        return guessed(folder).get(node)
    return Facts.from_dict(begun["before"]) if begun.get("before") else None


async def _keys_of(spec: ClusterSpec, plan: Replacement) -> Replacement:
    provider = next(p for p in providers_of(spec) if any(n.name == plan.node for n in p.nodes))
    if here(provider):
        raise CorralError(
            Code.USAGE, "is the machine that this runs on", node=plan.node, hint="corral up FILE"
        )
    await open_jump_hosts(spec.name, lambda: [provider.ssh_target(plan.node)], ignore)
    target = provider.ssh_target(plan.node)
    with TemporaryDirectory(prefix="corral-keys-") as folder:
        file = Path(folder) / "known_hosts"
        await shown_keys(plan.node, replace(target, known_hosts=file))
        lines = file.read_text()
    known = known_fingerprints(plan.node, "\n".join(target.pinned(plan.node)))
    return replace(plan, known=known, shown=known_fingerprints(plan.node, lines), keys=lines)


async def _in_slurm(session: Connection, plan: Replacement) -> Replacement:
    jobs = await answer_to(
        session.fleet,
        session.controller,
        held_by(plan.node),
        "asking Slurm about the node's jobs",
        timeout=ASK_S,
        hint=_IS_UP,
    )
    return replace(plan, slurm=await _slurms(session, plan.node), jobs=jobs)


async def _slurms(session: Connection, node: str) -> SlurmNode:
    nodes = await answer_to(
        session.fleet,
        session.controller,
        strictly(nodes_named(node)),
        "asking Slurm about the node",
        timeout=ASK_S,
        hint=_IS_UP,
    )
    return nodes[0]


def _partition(spec: ClusterSpec, node: Node) -> str:
    """A partition in which the node runs jobs, "" for none."""
    return next((p.name for p in partitions_of(spec) if node.group.name in p.groups), "")


def runs_jobs(spec: ClusterSpec, node: Node) -> bool:
    """Whether a partition holds the node."""
    return bool(_partition(spec, node))


async def replace_node(
    spec: ClusterSpec,
    plan: Replacement,
    emit: Emit = ignore,
    approve: Approve | None = None,
) -> Replaced:
    """Take the old machine out of service, bring the cluster up with the new one, and prove it.

    Safe to run again after it stopped anywhere: the node stays drained until it passes.

    Args:
        spec: the cluster.
        plan: what ``plan_replacement`` gave; its keys are pinned in place of the known ones.
        emit: receives all events, among them in what the machines differ.
        approve: asked with each plan, as with ``up``; None: yes.

    Raises:
        CorralError: as ``up`` and ``install_keys``; SLURM_REFUSED; NOT_GOOD, the new machine has
            fewer GPUs than the file declares.
    """
    node = _node(spec, plan.node)
    folder = cluster_dir(spec.name)
    journal = Journal(folder / "journal.jsonl", secrets.token_hex(4))
    old = plan.before.as_dict() if plan.before else None
    journal.write(BEGUN, {"node": plan.node, "before": old, "was": list(plan.known)})
    if runs_jobs(spec, node):
        async with await Connection.open(spec) as session:
            await _taken_out(session, plan.node)
    if plan.new_key:
        await _trust(spec, plan, emit)
    compared = _Compared(plan, node, folder, emit)
    if not await up(spec, emit, compared.asked_before(approve)):
        return Replaced(plan.node, applied=False, differences=compared.differences)
    async with await Connection.open(spec) as session:
        asked, what = facts_inquiry(), "reading facts"
        read = await session.fleet.run(plan.node, asked.script, timeout=2 * ASK_S)
        facts = facts_of(plan.node, asked, check(read, what).stdout)
        compared.note(facts)
        fault = await passes_job(session, node, REPLACED)
        jobs = [job for each in plan.jobs for job in await _still_queued(session, each)]
        seen = compared.differences + await _reckoned(session, plan)
    if not fault:
        journal.write(DONE, {"node": plan.node, "before": old, "after": facts.as_dict()})
    return Replaced(plan.node, applied=True, differences=seen, jobs=tuple(jobs), fault=fault)


async def _taken_out(session: Connection, node: str) -> None:
    answer = await session.fleet.run(
        session.controller, call(_PROGRAM, "node_lost", node, REPLACED), timeout=ASK_S * 3
    )
    if not answer.ok:
        raise CorralError(
            Code.SLURM_REFUSED,
            "Slurm did not take it out of service",
            node=node,
            status=answer.status,
            tail=answer.tail,
            hint="see its state with: corral status",
        )


async def _trust(spec: ClusterSpec, plan: Replacement, emit: Emit) -> None:
    """Pin the new machine's keys, and have the cluster's key on it where the old one had it."""
    provider = next(p for p in providers_of(spec) if any(n.name == plan.node for n in p.nodes))
    target = provider.ssh_target(plan.node)
    if target.known_hosts is None:
        return
    await OpenSSH(plan.node, target, control_dir()).close()
    unpin(target.known_hosts, plan.node)
    pin(target.known_hosts, plan.keys)
    if plan.node not in proven(keys_dir(spec.name)):
        return
    (installed,) = await install_keys(spec, emit, nodes=plan.node)
    if installed.error is not None:
        raise installed.error


async def _reckoned(session: Connection, plan: Replacement) -> tuple[Difference, ...]:
    """In what Slurm reckons with another node now."""
    if plan.slurm is None:
        return ()
    now = await _slurms(session, plan.node)
    pairs = (
        ("CPUs of jobs", plan.slurm.cpus, now.cpus),
        ("memory of jobs (MiB)", plan.slurm.memory, now.memory),
        ("GRES", plan.slurm.gres, now.gres),
    )
    return tuple(Difference(what, str(old), str(new)) for what, old, new in pairs if old != new)


class _Compared:
    """The new machine against the old one, reported once, before its plan is asked about."""

    def __init__(self, plan: Replacement, node: Node, folder: Path, emit: Emit) -> None:
        self._plan, self._node, self._folder, self._emit = plan, node, folder, emit
        self._noted = False
        self.differences: tuple[Difference, ...] = ()

    def asked_before(self, approve: Approve | None) -> Approve:
        """``approve`` with the differences in front; they are known once the machine was read."""

        def asked(plan: Plan) -> bool:
            facts = guessed(self._folder).get(self._plan.node)
            if facts is not None and not any(m.node == self._plan.node for m in plan.machines):
                self.note(facts)
            return approve is None or approve(plan)

        return asked

    def note(self, facts: Facts) -> None:
        """Report the differences, unless that was done.

        Raises:
            CorralError: NOT_GOOD, fewer GPUs than declared.
        """
        if self._noted:
            return
        self._noted = True
        self.differences = differences(self._plan.before, facts)
        for each in self.differences:
            text = f"{each.what}: {each.before} before, {each.after} now"
            self._emit(Event(Kind.NOTE, "replace", self._plan.node, text))
        group = self._node.group
        if group.capabilities.owned and len(facts.gpus) < group.gpu_count:
            raise CorralError(
                Code.NOT_GOOD,
                f"the new machine has {plural(len(facts.gpus), 'GPU')}, and the file declares "
                f"{group.gpu_count}; it stays drained",
                node=self._plan.node,
                hint=f"put the node into a separate group with its own gpu:, or look why the "
                f"others do not show: corral doctor; then corral nodes replace {self._plan.node}",
            )


async def passes_job(session: Connection, node: Node, reason: str) -> str:
    """Why a drained node does not pass a job on all of it, "" where it does: then it takes jobs.

    Args:
        session: the cluster.
        node: the node; one that runs no jobs passes.
        reason: with which it stays drained where it does not pass.
    """
    partition = _partition(session.spec, node)
    if not partition:
        return ""
    count = node.group.gpu_count
    user = await job_user(session)
    script = call(_PROGRAM, "node_proven", node.name, reason, user, partition, count, JOB_S)
    answer = await session.fleet.run(session.controller, script, timeout=JOB_S + 300.0)
    last = answer.tail.strip().splitlines()
    return "" if answer.ok else (last[-1] if last else f"its proof ended with {answer.status}")


async def _still_queued(session: Connection, job: Job) -> tuple[Job, ...]:
    question = queued_job(job.label)
    answer = await session.fleet.run(session.controller, question.shell, timeout=ASK_S)
    return question.parse(check(answer, "asking for jobs").stdout) if answer.ok else ()
