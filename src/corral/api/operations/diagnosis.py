"""Use case: what is broken, why, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from corral.api.operations.nodes import chosen
from corral.apply.connection import Connection
from corral.apply.observation import guessed
from corral.doctor.catalog import catalog
from corral.doctor.cluster_diagnosis import diagnose
from corral.doctor.drain_reason import of_nodes
from corral.doctor.job_end import explain_end
from corral.doctor.job_steps import AGAIN, doubtful
from corral.doctor.logs.diagnosis import explain
from corral.doctor.machine_report import Ask, MachineReport, questions
from corral.doctor.model import Report
from corral.doctor.probes import Scene
from corral.durations import interval_seconds
from corral.errors import Code, CorralError
from corral.hosts.fleet import Fleet
from corral.inspect.jobs import JOBS, STEPS
from corral.inspect.machine import ports
from corral.inspect.question import Question
from corral.inspect.slurm import SLURM_CONF
from corral.roles.machine.mesh import addresses as mesh_addresses
from corral.runtime.tasks import concurrently
from corral.runtime.threads import abandonable
from corral.slurm.states.jobs import ExitCode
from corral.spec.models import ClusterSpec
from corral.spec.nodes import (
    controller_of,
    controllers_of,
    nodes_of,
    partitions_of,
    sole_user,
)
from corral.spec.sections.tailnet import mesh_of

TIMEOUT: Final = 120.0
_CTLD: Final = 6817
_SLURMD: Final = 6818


def doctor_log(text: str) -> Report:
    """Failures that a pasted log of anything shows: Slurm, NCCL, a job, the kernel, apt.

    A log with errors that no known failure explains is not healthy: ``unknown`` has its first fatal
    lines.
    """
    return explain(text)


def doctor_job(state: str, reason: str, code: ExitCode | None, text: str) -> Report:
    """Why a job failed: failures that its end and its last lines show.

    Args:
        state: Slurm's word for its state, such as ``OUT_OF_MEMORY``.
        reason: Slurm's word or message, "" for none.
        code: how it ended; None where that is unknown.
        text: what it printed last, "" where that is unknown.
    """
    return explain_end(state, reason, code, text)


async def doctor(spec: ClusterSpec, nodes: str = "") -> Report:
    """Diagnose the entire cluster: every machine in one round trip; changes nothing.

    Args:
        spec: the cluster.
        nodes: a hostlist: only what concerns these nodes; "" for all. All are inspected in any
            case, as what is odd about one shows in comparison with the others.

    Raises:
        CorralError: NOT_FOUND, no machine of the cluster runs, or no such node; USAGE, no
            hostlist; the provider could not be asked.
    """
    names = set(chosen(spec, nodes))
    report = diagnose(await scene_of(spec))
    return of_nodes(report, names) if nodes else report


async def scene_of(spec: ClusterSpec) -> Scene:
    """Ask every machine; what they reported, with what the cluster file declares.

    Raises:
        CorralError: NOT_FOUND, no machine of the cluster runs; the provider could not be asked.
    """
    async with await Connection.open(spec) as session:
        if not session.fleet.nodes:
            session.require_visible()
            raise CorralError(
                Code.NOT_FOUND,
                f"cluster {spec.name} is not up: none of its machines runs",
                hint="bring it up with: corral up FILE",
            )
        addresses = mesh_addresses(spec, guessed(session.folder), session.addresses())
        asks = _asks(session, spec)
        asked = _all(session.fleet, {name: questions(ask) for name, ask in asks.items()})
        # The catalogue is read (0.4 s) while the machines answer.
        answers, _ = await concurrently(asked, abandonable(catalog))
        if not _scene(session, spec, addresses, answers).all_usable:
            answers = await _with_ports(session.fleet, answers, _targets(session, spec, addresses))
        answers = await _confirmed(session.fleet, _scene(session, spec, addresses, answers))
        absent = {action.node: action.summary for action in session.pending}
        silent = {
            n.name: MachineReport(
                n.name,
                error=CorralError(Code.UNREACHABLE, absent.get(n.name, "it does not run"), n.name),
            )
            for n in nodes_of(spec)
            if n.name not in answers
        }
    return _scene(session, spec, addresses, {**answers, **silent})


def _targets(
    session: Connection, spec: ClusterSpec, addresses: Mapping[str, str]
) -> dict[str, list[tuple[str, int]]]:
    """What each node must reach: all the controller, the controller all compute nodes."""
    lead = session.controller
    targets = {name: [(addresses[lead], _CTLD)] for name in session.fleet.nodes}
    targets.setdefault(lead, []).extend((addresses[n], _SLURMD) for n in _compute(spec))
    return targets


async def _with_ports(
    fleet: Fleet,
    answers: Mapping[str, MachineReport],
    targets: Mapping[str, list[tuple[str, int]]],
) -> dict[str, MachineReport]:
    asked = {n: (ports(targets[n]),) for n, t in answers.items() if t.error is None}
    return _with(answers, await _all(fleet, asked))


async def _confirmed(fleet: Fleet, scene: Scene) -> dict[str, MachineReport]:
    """The answers, with a second one about jobs where Slurm and nodes disagree about them.

    Jobs start and end between the answers of the first.
    """
    lead = scene.controller
    again = {n: (STEPS, JOBS) if n == lead else (STEPS,) for n in doubtful(scene)}
    return _with(scene.machines, await _all(fleet, again), AGAIN)


def _with(
    answers: Mapping[str, MachineReport], more: Mapping[str, MachineReport], suffix: str = ""
) -> dict[str, MachineReport]:
    """The answers with later ones, under names that end with ``suffix``."""
    merged = dict(answers)
    for name, later in more.items():
        renamed = {f"{key}{suffix}": text for key, text in later.sections.items()}
        merged[name] = replace(answers[name], sections={**answers[name].sections, **renamed})
    return merged


def _asks(session: Connection, spec: ClusterSpec) -> dict[str, Ask]:
    names = tuple(n.name for n in nodes_of(spec))
    compute = _compute(spec)
    auth = ("munge",) if spec.slurm.auth == "munge" else ()
    lead = session.controller
    asks: dict[str, Ask] = {}
    for name in session.fleet.nodes:
        units = [*auth]
        if name in compute:
            units.append("slurmd")
        if name in controllers_of(spec):
            units.append("slurmctld")
        if name == controller_of(spec):
            if spec.slurm.accounting:
                units += ["mariadb", "slurmdbd"]
            if spec.slurm.rest:
                units.append("slurmrestd")
        # A folder that a server shows at its own place is not a mount there.
        mounts = tuple(s.mount for s in spec.storage if (name, s.mount) != (s.server, s.path))
        mesh = mesh_of(spec) is not None
        asks[name] = Ask(
            names,
            tuple(units),
            mounts,
            controller=name == lead,
            mesh=mesh,
            containers=spec.software.containers == "pyxis" and name in compute,
            shared=spec.storage[0].mount if spec.storage else "",
            keeper=sole_user(spec),
            people=spec.directory,
            backup=interval_seconds(spec.backup.every),
        )
    return asks


def _compute(spec: ClusterSpec) -> tuple[str, ...]:
    groups = {g for p in partitions_of(spec) for g in p.groups}
    return tuple(n.name for n in nodes_of(spec) if n.group.name in groups)


async def _all(
    fleet: Fleet, asked: Mapping[str, tuple[Question[object], ...]]
) -> dict[str, MachineReport]:
    each = (MachineReport.ask(fleet, name, what, timeout=TIMEOUT) for name, what in asked.items())
    return {answer.node: answer for answer in await concurrently(*each)}


def _scene(
    session: Connection,
    spec: ClusterSpec,
    addresses: Mapping[str, str],
    answers: Mapping[str, MachineReport],
) -> Scene:
    data = spec.network.data
    lead = answers.get(session.controller)
    conf = lead.get(SLURM_CONF) if lead else None
    kind = ((conf.get("AuthType") if conf else None) or "").removeprefix("auth/")
    return Scene(
        controller=session.controller,
        compute=_compute(spec),
        machines=answers,
        addresses=addresses,
        gpus={n.name: n.group.gpu_count for n in nodes_of(spec) if n.group.gpu_kinds},
        fabric=data.fabric if data else "",
        auth=kind if kind in ("munge", "slurm") else "",
    )
