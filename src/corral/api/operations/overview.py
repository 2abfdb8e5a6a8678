"""Use case: how is the cluster now? Read in one round trip per node; changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from corral.apply.connection import Connection
from corral.durations import interval_seconds
from corral.errors import CorralError
from corral.inspect.jobs import OWN_QUEUE, QUEUE
from corral.inspect.machine import LOAD
from corral.inspect.question import MachineState, Question
from corral.inspect.rules import UnitState, backup_problem, unit_state
from corral.inspect.services import BACKUP, UNITS, Backup, backup, units
from corral.inspect.slurm import NODES, PING, strictly, while_up
from corral.prove.context import ProveContext
from corral.prove.survey import units_of
from corral.runtime.tasks import concurrently
from corral.slurm.records import Node
from corral.slurm.states.jobs import has_ended
from corral.slurm.states.nodes import NodeBase, NodeState
from corral.spec.client import ClientSpec, by_rest
from corral.spec.models import ClusterSpec
from corral.spec.nodes import controller_of, nodes_of, partitions_of, users_of
from corral.spec.sections.tailnet import mesh_of

TIMEOUT: Final = 40.0
ADMINISTRATOR: Final = "an administrator looks at the machine: corral status, corral doctor"


@dataclass(frozen=True, slots=True)
class Member:
    """A node of the cluster now: its machine, and Slurm's record of it.

    Attributes:
        node: its name.
        state: Slurm's state in lower case; where there is none ``absent`` (no machine),
            ``unreachable``, ``service`` (no partition holds it: a controller, a login node or a
            file server) or ``unknown`` (Slurm does not know it or does not answer).
        reason: why it takes no jobs, as Slurm or the provider reports.
        record: Slurm's; None where there is none.
        load: one-minute load average of the machine, None where it is not known.
        services: state of each systemd unit that belongs there, as ``systemctl is-active`` reports.
    """

    node: str
    state: str
    reason: str = ""
    record: Node | None = None
    load: float | None = None
    services: Mapping[str, str] | None = None

    @property
    def usable(self) -> bool:
        """True when jobs can run there now."""
        return self.record is not None and self.record.usable

    @property
    def not_active(self) -> tuple[str, ...]:
        """Units that belong there and are not active."""
        units = (self.services or {}).items()
        return tuple(unit for unit, state in units if unit_state(state) is not UnitState.ACTIVE)

    def as_dict(self) -> dict[str, Any]:
        """Zeros where Slurm has no record."""
        known = self.record or Node(self.node, NodeState(NodeBase.UNKNOWN))
        return {
            "node": self.node,
            "state": self.state,
            "reason": self.reason,
            "usable": self.usable,
            "cpus": known.cpus,
            "cpus_used": known.cpus_used,
            "memory_mib": known.memory,
            "memory_used_mib": known.memory_used,
            "gpus": known.gpus,
            "gpus_used": known.gpus_used,
            "load": self.load,
            "services": self.services,
        }


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that is not good, and what to do about it."""

    subject: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Status:
    """A cluster now.

    Attributes:
        cluster: its name.
        controller: the node that runs slurmctld; "" where slurmrestd does not state it.
        slurm: its version, "" while it does not answer.
        nodes: each of them.
        jobs: number of jobs by Slurm's state, in lower case.
        troubles: what is not good.
        user: whose profile asked, without root: the machines were not checked, and the rest is as
            Slurm reports it; "" where they were.
        own_jobs: of this user, as ``jobs``.
        backup: the scheduled one; None where none is declared or it is not known.
    """

    cluster: str
    controller: str
    slurm: str
    nodes: tuple[Member, ...]
    jobs: Mapping[str, int]
    troubles: tuple[Trouble, ...]
    user: str = ""
    own_jobs: Mapping[str, int] = field(default_factory=dict[str, int])
    backup: Backup | None = None

    @property
    def good(self) -> bool:
        """True when every node takes jobs and every service runs."""
        return not self.troubles

    def as_dict(self) -> dict[str, Any]:
        """Whether all is good; each node, and counts of jobs."""
        return {
            "good": self.good,
            "cluster": self.cluster,
            "controller": self.controller,
            "slurm": self.slurm,
            "nodes": [node.as_dict() for node in self.nodes],
            "jobs": self.jobs,
            "machines_checked": not self.user,
            "own_jobs": self.own_jobs if self.user else None,
            "backup": asdict(self.backup) if self.backup else None,
            "troubles": [asdict(trouble) for trouble in self.troubles],
        }


async def status(spec: ClusterSpec) -> Status:
    """Read the state of the machines, the services and Slurm.

    Raises:
        CorralError: NOT_FOUND, the cluster is not up; the provider could not be asked; UNREACHABLE,
            a profile's node.
    """
    if by_rest(spec):
        return await _by_rest(spec)
    async with await Connection.open(spec, root=False) as session:
        session.require_running()
        if not session.administers:
            return await _as_user(session)
        context = ProveContext(
            spec, session.fleet, session.controller, users_of(spec)[0].name, facts={}
        )
        each = (
            MachineState.ask(session.fleet, name, questions(context, name), timeout=TIMEOUT)
            for name in session.fleet.nodes
        )
        machines = {machine.node: machine for machine in await concurrently(*each)}
        absent = {action.node: action.summary for action in session.pending}
    overview = judge(spec, session.controller, machines, absent)
    return replace(overview, troubles=(*overview.troubles, *await _mesh_troubles(spec)))


async def _as_user(session: Connection) -> Status:
    """What Slurm reports to a user without root; no machine is looked at.

    Raises:
        CorralError: the profile's node does not answer.
    """
    spec, entry = session.spec, session.controller
    asked = (PING, while_up(NODES), while_up(QUEUE), while_up(OWN_QUEUE))
    answer = await MachineState.ask(session.fleet, entry, asked, timeout=TIMEOUT)
    if answer.error is not None:
        raise answer.error
    machines = {node.name: MachineState(node.name) for node in nodes_of(spec)} | {entry: answer}
    seen = judge(spec, entry, machines, {})
    return replace(
        seen,
        controller=controller_of(spec),
        troubles=tuple(replace(trouble, hint=ADMINISTRATOR) for trouble in seen.troubles),
        user=users_of(spec)[0].name,
        own_jobs=_counted(answer.get(OWN_QUEUE)),
    )


async def _by_rest(spec: ClientSpec) -> Status:
    """What slurmrestd reports to a user; no machine is looked at.

    Raises:
        CorralError: LOGIN_REFUSED; UNREACHABLE.
    """
    from corral.api.workload.rest import rest_client  # noqa: PLC0415  # HTTP

    client = rest_client(spec)
    nodes, jobs = await client.nodes(), await client.jobs()
    members = tuple(
        Member(node.name, str(node.state).lower(), node.why_out, node) for node in nodes
    )
    troubles = [
        Trouble(each.node, f"{each.state}{f': {each.reason}' * bool(each.reason)}", ADMINISTRATOR)
        for each in members
        if not each.usable
    ]
    live = [job for job in jobs if not has_ended(job.state)]
    return Status(
        spec.name,
        client.controller,
        client.release,
        members,
        _counted(job.state for job in live),
        tuple(troubles),
        user=client.user,
        own_jobs=_counted(job.state for job in live if job.user == client.user),
    )


def _counted(states: Iterable[str] | None) -> dict[str, int]:
    """How many jobs are in each state, in lower case."""
    return dict(sorted(Counter(state.lower() for state in states or ()).items()))


async def _mesh_troubles(spec: ClusterSpec) -> list[Trouble]:
    """Nodes that are out of the tailnet, or soon will be."""
    if mesh_of(spec) is None:
        return []
    from corral.api.mesh.tailnet import mesh_status  # noqa: PLC0415  # roles, the planner

    seen = await mesh_status(spec, links=False)
    return [Trouble(f"{n.node} in the tailnet", n.problem, n.hint) for n in seen.nodes if n.problem]


def judge(
    spec: ClusterSpec,
    controller: str,
    machines: Mapping[str, MachineState],
    absent: Mapping[str, str],
) -> Status:
    """The status from what the nodes answered; pure."""
    lead = machines.get(controller, MachineState(controller))
    known, silence = _known(lead)
    runs = {group for part in partitions_of(spec) for group in part.groups}
    nodes = tuple(
        _node(
            n.name,
            machines.get(n.name),
            absent.get(n.name, ""),
            known.get(n.name),
            serves=n.group.name not in runs,
        )
        for n in nodes_of(spec)
    )
    jobs = _counted(lead.get(QUEUE))
    version = next((node.version for node in known.values() if node.version), "")
    troubles = [t for node in nodes for t in _troubles(node, controller, answers=not silence)]
    if silence:
        hint = f"read: corral exec -n {controller} -- journalctl -u slurmctld -n 30"
        troubles.insert(0, Trouble("slurmctld", f"does not answer: {silence}", hint))
    backup = lead.get(BACKUP)
    if backup and (problem := backup_problem(backup)):
        hint = f"read: corral exec -n {controller} -- journalctl -u corral-backup -n 30"
        troubles.append(Trouble("backup:", problem, hint))
    return Status(spec.name, controller, version, nodes, jobs, tuple(troubles), backup=backup)


def _known(lead: MachineState) -> tuple[dict[str, Node], str]:
    """The nodes as Slurm knows them, or why they are not known."""
    text = lead.text(NODES) or lead.text(PING)
    if lead.error is not None:
        return {}, lead.error.message
    try:
        nodes = {node.name: node for node in strictly(NODES).parse(text)}
    except CorralError as error:
        return {}, (error.tail or str(error)).strip()
    return nodes, "" if nodes else "it knows no node"


def questions(context: ProveContext, name: str) -> tuple[Question[object], ...]:
    """What a node is asked."""
    main = (PING, while_up(NODES), while_up(QUEUE)) if name == context.controller else ()
    every = interval_seconds(context.spec.backup.every) if main else 0
    saved = (backup(every),) if every else ()
    return (LOAD, units(units_of(context, name) or ["ssh"]), *main, *saved)


def _node(
    name: str,
    machine: MachineState | None,
    absent: str,
    slurm: Node | None,
    *,
    serves: bool = False,
) -> Member:
    if absent or machine is None:
        return Member(name, "absent", absent or "its machine does not run")
    if machine.error is not None:
        return Member(name, "unreachable", machine.error.message)
    services = {name: unit.state for name, unit in machine.by_key(UNITS).items()}
    load = machine.get(LOAD)
    if slurm is None and serves:
        return Member(name, "service", "runs no jobs", load=load, services=services)
    if slurm is None:
        return Member(name, "unknown", "Slurm does not know it", load=load, services=services)
    return Member(name, str(slurm.state).lower(), slurm.why_out, slurm, load, services)


def _troubles(node: Member, controller: str, *, answers: bool) -> list[Trouble]:
    troubles = [
        Trouble(
            f"{unit} on {node.node}",
            f"is {(node.services or {})[unit]}",
            f"read: corral exec -n {node.node} -- journalctl -u {unit} -n 30; "
            "`corral up` starts it again",
        )
        for unit in node.not_active
    ]
    alone = answers and not node.usable and node.state != "service"
    about_node = node.state in ("absent", "unreachable") or alone
    if about_node:
        reason = f": {node.reason}" if node.reason else ""
        troubles.append(Trouble(node.node, f"{node.state}{reason}", _hint(node, controller)))
    return troubles


def _hint(node: Member, controller: str) -> str:
    if node.state == "absent":
        return "bring it up with: corral up FILE"
    if node.state == "unreachable":
        return "check the machine and the network to it"
    state = node.record.state if node.record else None
    if state is not None and state.drained:
        return f"when the reason is gone: corral resume {node.node}"
    if state is not None and state.misconfigured:
        return "the machine differs from slurm.conf; `corral plan` shows what differs"
    if node.state == "unknown":
        return "`corral up` writes it into slurm.conf"
    return f"read: corral exec -n {node.node} -- journalctl -u slurmd -n 30, and the same on " + (
        f"{controller} for slurmctld"
    )
