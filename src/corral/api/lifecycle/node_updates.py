"""Use case: packages of nodes' systems updated, a few nodes at a time, each proven in turn.

What an update has done is on the nodes: a file from before its packages until its proof, and the
reason of Slurm's drain. So the same command continues one that stopped or was killed anywhere.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Final

from corral.api.lifecycle.node_replacement import passes_job, runs_jobs
from corral.api.operations.nodes import chosen
from corral.apply.connection import Connection
from corral.apply.journal import Journal, cluster_lock
from corral.apply.roll import Rolling
from corral.apply.run import STAGE_TIMEOUT
from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind, ignore
from corral.hosts.quote import call
from corral.hosts.transport import check
from corral.inspect.question import answer_to
from corral.inspect.slurm import KNOWN_NODES
from corral.inspect.system import UPDATE_MARK, UPDATES, PendingUpdate
from corral.plan.model import NodeChange, Stage
from corral.plurals import plural
from corral.providers.base import Action
from corral.providers.lookup import here, providers_of
from corral.roles.machine.nvidia import HELD
from corral.roles.machine.upkeep import SLURM_PACKAGES
from corral.slurm.records import Node as SlurmNode
from corral.spec.impacts import Impact
from corral.spec.models import ClusterSpec
from corral.spec.nodes import Node, controllers_of, nodes_of
from corral.spec.slurm.hostlist import fold
from corral.state.base import NOTHING, ROLL_TAG, UPDATE_TAG, Change, Gate, Roll
from corral.state.system.kernel import REBOOT
from corral.state_dir import cluster_dir

_PROGRAM: Final = "node-update.sh"
ASK_S: Final = 300.0
"""Seconds that a node may take to read its package index."""
UNITS_S: Final = 240.0
POLL_S: Final = 0.5
REASON: Final = "packages and reboot"
_IS_UP: Final = "is slurmctld up? see: corral status"
_SILENT: Final = frozenset({Code.UNREACHABLE, Code.TIMED_OUT})
FAILED: Final = f"{UPDATE_TAG}it did not pass its proof"


@dataclass(frozen=True, slots=True)
class NodeUpdate:
    """What is due on a node.

    Attributes:
        node: its name.
        group: its group.
        pending: what its package source has for it, and how far an earlier update is.
        stopped: its container does not run: an earlier update was killed behind its reboot.
    """

    node: str
    group: str
    pending: PendingUpdate
    stopped: bool = False

    @property
    def needed(self) -> bool:
        """Whether there is something to do."""
        return bool(self.pending.packages) or self.pending.reboot or self.pending.begun

    @property
    def reboots(self) -> bool:
        """Whether it is rebooted; an update that was interrupted behind the reboot is not."""
        pending = self.pending
        return bool(pending.packages) or pending.reboot or not pending.rebooted

    def as_dict(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {
            "node": self.node,
            "group": self.group,
            "packages": list(self.pending.packages),
            "reboot": self.needed and self.reboots,
            "begun": self.pending.begun,
            "stopped": self.stopped,
        }


@dataclass(frozen=True, slots=True)
class SystemUpdate:
    """An update of nodes' systems.

    Attributes:
        nodes: the nodes that were asked for, in their turns: by groups, controllers last.
        at_once: so many nodes of the cluster may be out of service at most.
        silent: nodes that were asked for and do not answer, each with why: they are left out.
        failed: the same for nodes whose package source could not be read: they take jobs.
    """

    nodes: tuple[NodeUpdate, ...]
    at_once: int
    silent: tuple[tuple[str, str], ...] = ()
    failed: tuple[tuple[str, str], ...] = ()

    @property
    def pending(self) -> tuple[NodeUpdate, ...]:
        """Those on which there is something to do."""
        return tuple(each for each in self.nodes if each.needed)


async def plan_update(spec: ClusterSpec, nodes: str = "", at_once: int = 0) -> SystemUpdate:
    """Read what is to be updated; the nodes read their package index, and nothing else changes.

    Args:
        spec: the cluster.
        nodes: a hostlist; "" for all nodes.
        at_once: so many nodes may be out of service at most; 0: ``software.at_once``.

    Raises:
        CorralError: USAGE, a node is the machine that this runs on, or has its system from its
            provider; NOT_FOUND, no such node, or the cluster is not up; UNREACHABLE, no node
            answers; COMMAND_FAILED, of apt on all nodes; NOT_GOOD, slurmctld does not answer, a
            ``corral up`` that did not end has a node drained, or apt would replace Slurm or
            NVIDIA's driver.
    """
    names = set(chosen(spec, nodes))
    targets = _in_turn(spec, [node for node in nodes_of(spec) if node.name in names])
    _require_own_system(spec, targets)
    async with await Connection.open(spec) as session:
        session.require_running()
        return await _read(session, targets, at_once or spec.software.at_once)


async def _read(session: Connection, targets: Sequence[Node], at_once: int) -> SystemUpdate:
    slurm = await _in_slurm(session)
    answers = await asyncio.gather(
        *(_node_update(session, node, slurm.get(node.name)) for node in targets),
        return_exceptions=True,
    )
    updates: list[NodeUpdate] = []
    silent: list[tuple[str, str]] = []
    failed: list[tuple[str, str]] = []
    errors: list[CorralError] = []
    for node, answer in zip(targets, answers, strict=True):
        if isinstance(answer, NodeUpdate):
            updates.append(answer)
        elif isinstance(answer, CorralError):
            errors.append(answer)
            left_out = silent if answer.code in _SILENT else failed
            left_out.append((node.name, _why(answer)))
        else:
            raise answer
    if errors and not updates:
        raise errors[0]
    for update in updates:
        _require_own_drain(update, slurm.get(update.node))
    _require_held(session.spec, updates)
    return SystemUpdate(tuple(updates), at_once, tuple(silent), tuple(failed))


async def _node_update(session: Connection, node: Node, seen: SlurmNode | None) -> NodeUpdate:
    """What is due on a node; one that does not run has begun where an update drained it.

    Raises:
        CorralError: COMMAND_FAILED, of apt; UNREACHABLE, TIMED_OUT, it does not answer or run.
    """
    if node.name in session.fleet.nodes:
        pending = _continued(await _pending(session, node.name), seen)
        return NodeUpdate(node.name, node.group.name, pending)
    pending = _continued(PendingUpdate((), reboot=False, begun=False, rebooted=True), seen)
    if pending.begun and node.group.capabilities.containers:
        return NodeUpdate(node.name, node.group.name, pending, stopped=True)
    raise CorralError(
        Code.UNREACHABLE, "it does not run", node=node.name, hint="start it with: corral up FILE"
    )


def _why(error: CorralError) -> str:
    """An error in one sentence: apt's own last words with it."""
    last = error.tail.strip().rpartition("\n")[2]
    return f"{error.message}: {last}" if last else error.message


def _continued(pending: PendingUpdate, seen: SlurmNode | None) -> PendingUpdate:
    """An update that was killed behind its drain has begun, though it left nothing on the node."""
    drained = seen is not None and seen.state.drained and seen.reason.startswith(UPDATE_TAG)
    return replace(pending, begun=pending.begun or drained)


def _require_own_drain(update: NodeUpdate, seen: SlurmNode | None) -> None:
    """Nobody's drain that ``corral up`` would take back, without the proof of the update."""
    if update.needed and seen and seen.state.drained and seen.reason.startswith(ROLL_TAG):
        raise CorralError(
            Code.NOT_GOOD,
            f"a corral up that did not end has it drained: {seen.reason}",
            node=update.node,
            hint="finish that first: corral up; or name the other nodes",
        )


def _require_held(spec: ClusterSpec, updates: Iterable[NodeUpdate]) -> None:
    """Slurm and NVIDIA's driver are upgraded by ``corral up``, in their own order."""
    groups = {node.name: node.group for node in nodes_of(spec)}
    for update in updates:
        free = [
            name
            for name in update.pending.packages
            if any(fnmatchcase(name, pattern) for pattern in (*SLURM_PACKAGES, *HELD))
        ]
        if free:
            node, names = update.node, " ".join(free)
            # Corral holds nothing in containers, whose Slurm is their image's.
            held = groups[node].capabilities.containers
            by_hand = f"hold them there: corral exec --nodes {node} -- apt-mark hold {names}"
            raise CorralError(
                Code.NOT_GOOD,
                f"apt would replace {', '.join(free)}, which must not change in any order",
                node=node,
                hint=by_hand if held else "software.hold: true in the cluster file, then corral up",
            )


def _in_turn(spec: ClusterSpec, nodes: Sequence[Node]) -> list[Node]:
    """By groups as the file has them; controllers last."""
    last = controllers_of(spec)
    return sorted(nodes, key=lambda node: node.name in last)


def _require_own_system(spec: ClusterSpec, nodes: Iterable[Node]) -> None:
    providers = {node.name: p for p in providers_of(spec) for node in p.nodes}
    for node in nodes:
        if here(providers[node.name]):
            raise CorralError(
                Code.USAGE,
                "is the machine that this runs on, which its reboot would end",
                node=node.name,
                hint=f"name the others, and run this for {node.name} from another machine",
            )
        can = node.group.capabilities
        if node.group.elastic or can.configures or (can.rental and can.rental.pods):
            raise CorralError(
                Code.USAGE,
                f"its system comes from {node.group.provider} each time it starts",
                node=node.name,
                hint="name the others; a newer image has newer packages",
            )


async def _pending(session: Connection, node: str) -> PendingUpdate:
    return await answer_to(
        session.fleet,
        node,
        UPDATES,
        "asking apt what is to be upgraded",
        timeout=ASK_S,
        hint=f"see what it prints: corral exec --nodes {node} -- apt-get update",
    )


async def update_nodes(
    spec: ClusterSpec, update: SystemUpdate, emit: Emit = ignore
) -> tuple[str, ...]:
    """Update, reboot and prove the nodes; stops at the first that fails, which stays drained.

    Args:
        spec: the cluster.
        update: what ``plan_update`` gave; what is due is read again once no other call works.
        emit: receives all events.

    Returns:
        Nodes that are updated and that no job has proven, as somebody else has them drained.

    Raises:
        CorralError: as ``plan_update``; BUSY; NOT_GOOD, a node did not pass its proof, or more
            nodes are out of service than may be; TIMED_OUT, jobs did not end or a machine did not
            come back; COMMAND_FAILED, apt. What was done stays done, and the same call goes on.
    """
    folder = cluster_dir(spec.name)
    journal = Journal(folder / "journal.jsonl", secrets.token_hex(4))
    with cluster_lock(folder):
        await _start_stopped(spec, update, journal.following(emit))
        async with await Connection.open(spec) as session:
            session.require_running()
            left = list(await _read_again(session, update))
            silent = frozenset(node for node, _ in update.silent)
            unproven: list[str] = []
            while left:
                out = _out(await _in_slurm(session)) | silent
                names = [each.node for each in left]
                batch = next_batch(names, out, update.at_once, controllers_of(spec))
                if not batch:
                    raise _too_many_out(out, update.at_once)
                now = [each for each in left if each.node in batch]
                unproven += await _Batch(session, now, journal.following(emit)).run()
                left = [each for each in left if each.node not in batch]
    return tuple(unproven)


async def _start_stopped(spec: ClusterSpec, update: SystemUpdate, emit: Emit) -> None:
    """Start containers that an earlier update rebooted and did not come to start."""
    for node in (each.node for each in update.pending if each.stopped):
        provider = next(p for p in providers_of(spec) if any(n.name == node for n in p.nodes))
        planned = provider.plan(await provider.read_machines())
        if actions := [a for a in planned if a.node == node and a.action is Action.START]:
            emit(Event(Kind.NOTE, "update", node, "is started: an earlier run rebooted it"))
            await provider.apply(actions, ignore)


async def _read_again(session: Connection, update: SystemUpdate) -> tuple[NodeUpdate, ...]:
    """What is due now: another call may have worked since the plan was made."""
    names = {each.node for each in update.pending}
    targets = _in_turn(session.spec, [n for n in nodes_of(session.spec) if n.name in names])
    now = await _read(session, targets, update.at_once)
    for node, why in (*now.silent, *now.failed):
        raise CorralError(Code.UNREACHABLE, why, node=node, hint="run the same command again")
    return now.pending


async def _in_slurm(session: Connection) -> Mapping[str, SlurmNode]:
    known = await answer_to(
        session.fleet,
        session.controller,
        KNOWN_NODES,
        "asking Slurm for its nodes",
        timeout=60.0,
        hint=_IS_UP,
    )
    if known.nodes is None:
        raise CorralError(
            Code.NOT_GOOD,
            "slurmctld does not answer, so it is unknown which nodes are out of service",
            node=session.controller,
            hint=_IS_UP,
        )
    return {node.name: node for node in known.nodes}


def _out(nodes: Mapping[str, SlurmNode]) -> frozenset[str]:
    return frozenset(name for name, node in nodes.items() if not node.state.in_service)


def next_batch(
    left: Sequence[str], out: Collection[str], at_once: int, controllers: Collection[str]
) -> tuple[str, ...]:
    """The nodes that come next; none where that would take more than ``at_once`` out of service.

    Pure. Those that are out already come first: with them no more are. A controller comes alone.

    Args:
        left: the nodes that are still to be updated, in their turns.
        out: all nodes of the cluster that take no jobs.
        at_once: so many may be out.
        controllers: nodes that run slurmctld.
    """
    batch: list[str] = []
    for name in sorted(left, key=lambda name: (name in controllers, name not in out)):
        room = name in out or len({*out, *batch, name}) <= at_once
        alone = name in controllers and batch
        if len(batch) == at_once or not room or alone:
            break
        batch.append(name)
        if name in controllers:
            break
    return tuple(batch)


def _too_many_out(out: Collection[str], at_once: int) -> CorralError:
    return CorralError(
        Code.NOT_GOOD,
        f"{plural(len(out), 'node')} out of service ({fold(sorted(out))}), and at most {at_once} "
        "may be: no other is taken out",
        hint="see why with corral status; --at-once allows more",
    )


class _Batch:
    """Nodes that are out of service at the same time."""

    def __init__(self, session: Connection, updates: Sequence[NodeUpdate], emit: Emit) -> None:
        self._session, self._fleet, self._emit = session, session.fleet, emit
        self._updates = {each.node: each for each in updates}
        self._nodes = {node.name: node for node in nodes_of(session.spec)}
        software = session.spec.software
        roll = Roll(
            session.controller,
            REASON,
            at_once=len(updates),
            patience=software.drain_minutes * 60.0,
            tag=UPDATE_TAG,
        )
        stage = Stage(
            "update",
            f"packages of {fold(list(self._updates))}, reboot, proof",
            tuple(NodeChange((each.node,), _change(each)) for each in updates),
            tuple(Gate("its proof", each.node, NOTHING) for each in updates),
            roll,
        )
        self._boot = roll.boot
        self._unproven: list[str] = []
        self._rolling = Rolling(stage, roll, self._fleet, emit, work=self._work, gate=self._prove)

    async def run(self) -> tuple[str, ...]:
        """Update them; those that no job has proven."""
        await self._rolling.run()
        return tuple(self._unproven)

    async def _work(self, node: str, _: Sequence[Change]) -> None:
        update = self._updates[node]
        if not update.reboots:
            self._note(node, "was rebooted by an earlier run, and is only proven")
            return
        count = len(update.pending.packages)
        self._note(node, f"upgrades {plural(count, 'package')}" if count else "nothing to upgrade")
        script = call(_PROGRAM, "update_run", UPDATE_MARK)
        answer = await self._fleet.run(node, script, timeout=STAGE_TIMEOUT)
        check(answer, "upgrading packages")
        check(await self._fleet.run(node, REBOOT, timeout=30.0), "rebooting")
        if self._nodes[node].group.capabilities.containers:
            await started(self._session.spec, node, self._boot)

    async def _prove(self, gate: Gate) -> None:
        """No unit fails that did not before, and a job runs on all of it, where it runs jobs."""
        node = gate.node
        units = await self._fleet.run(
            node, call(_PROGRAM, "update_units", UPDATE_MARK), timeout=UNITS_S
        )
        fault = "" if units.ok else units.tail.strip()
        if not fault:
            fault = await self._job(node)
        if fault:
            raise CorralError(
                Code.NOT_GOOD,
                f"it did not pass its proof after the update: {fault}",
                node=node,
                hint="the other nodes were left as they are; once it is right: corral nodes update",
            )
        if node in self._unproven:
            self._note(node, "no job proves it while somebody else has it drained")
            return
        check(await self._fleet.run(node, call(_PROGRAM, "update_over", UPDATE_MARK)), "its mark")
        runs = runs_jobs(self._session.spec, self._nodes[node])
        self._note(node, "passed its proof" if runs else "its units are good; it runs no jobs")

    async def _job(self, node: str) -> str:
        """Why a job does not run on all of it; whom somebody else drained stays so, unproven."""
        spec = self._session.spec
        if node in controllers_of(spec) and not await self._rolling.controller_answers():
            return "slurmctld does not answer"
        if not runs_jobs(spec, self._nodes[node]):
            return ""
        seen = await self._rolling.registered(node)
        if seen is None or not seen.state.registered:
            state = "does not list it" if seen is None else f"has it as {seen.state}"
            return f"its slurmd is not registered; slurmctld {state}"
        if seen.state.drained and not seen.reason.startswith(UPDATE_TAG):
            self._unproven.append(node)
            return ""
        return await passes_job(self._session, self._nodes[node], FAILED)

    def _note(self, node: str, message: str) -> None:
        self._emit(Event(Kind.NOTE, "update", node, message))


def _change(update: NodeUpdate) -> Change:
    packages = ", ".join(update.pending.packages)
    impact = Impact.REBOOT if update.reboots else Impact.DRAIN
    return Change("update", f"upgrade {packages or 'nothing'}", "", packages, NOTHING, impact)


async def started(spec: ClusterSpec, node: str, patience: float) -> None:
    """A container ends at its reboot, and is started here.

    Args:
        spec: the cluster.
        node: whose container it is.
        patience: seconds that it may take to end.

    Raises:
        CorralError: TIMED_OUT, it did not end; PROVIDER_FAILED.
    """
    provider = next(p for p in providers_of(spec) if any(n.name == node for n in p.nodes))
    end = time.monotonic() + patience
    while True:
        planned = provider.plan(await provider.read_machines())
        actions = [a for a in planned if a.node == node and a.action is Action.START]
        if actions:
            await provider.apply(actions, ignore)
            return
        if time.monotonic() >= end:
            raise CorralError(
                Code.TIMED_OUT,
                f"its container did not end within {patience:.0f} s of its reboot",
                node=node,
                hint="restart it by hand; then the same command continues",
            )
        await asyncio.sleep(POLL_S)
