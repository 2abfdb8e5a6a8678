"""Use case: what is broken, why, and what to do about it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from secrets import token_hex
from typing import Final

from corral.api.nodes import chosen
from corral.apply.guess import guessed
from corral.apply.session import Session
from corral.doctor.diagnosis import explain
from corral.doctor.examine import examine
from corral.doctor.job_steps import AGAIN, doubtful
from corral.doctor.look import JOBS, STEPS, Ask, Told, marked, ports_script, script, sections
from corral.doctor.model import Report
from corral.doctor.probes import Scene
from corral.doctor.why import of_nodes
from corral.errors import Code, CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.quote import join
from corral.hosts.transport import Result
from corral.roles.mesh import addresses as mesh_addresses
from corral.roles.mesh import mesh_of
from corral.spec.models import ClusterSpec
from corral.spec.nodes import nodes_of, partitions_of, sole_user

TIMEOUT: Final = 120.0
_CTLD: Final = 6817
_SLURMD: Final = 6818


def doctor_log(text: str) -> Report:
    """Failures that a pasted log of anything shows: Slurm, NCCL, a job, the kernel, apt.

    A log with errors that no known failure explains is not healthy: ``unknown`` has its first fatal
    lines.
    """
    return explain(text)


async def doctor(spec: ClusterSpec, nodes: str = "") -> Report:
    """Look at the whole cluster: every machine in one round trip; changes nothing.

    Args:
        spec: the cluster.
        nodes: a hostlist: only what concerns these nodes; "" for all. All are looked at in any
            case, as what is odd about one shows beside the others.

    Raises:
        CorralError: NOT_FOUND, no machine of the cluster runs, or no such node; USAGE, no
            hostlist; the provider could not be asked.
    """
    names = set(chosen(spec, nodes))
    found = examine(await look(spec))
    return of_nodes(found, names) if nodes else found


async def look(spec: ClusterSpec) -> Scene:
    """Ask every machine; what they told, with what the cluster file says.

    Raises:
        CorralError: NOT_FOUND, no machine of the cluster runs; the provider could not be asked.
    """
    async with await Session.open(spec) as session:
        if not session.fleet.nodes:
            raise CorralError(
                Code.NOT_FOUND,
                f"cluster {spec.name} is not up: none of its machines runs",
                hint="bring it up with: corral up FILE",
            )
        addresses = mesh_addresses(spec, guessed(session.folder), session.addresses())
        asks = _asks(session, spec)
        told = await _told(session.fleet, asks)
        if not _scene(session, spec, addresses, told).well:
            told = await _with_ports(session.fleet, told, _targets(session, spec, addresses))
        told = await _confirmed(session.fleet, _scene(session, spec, addresses, told))
        absent = {action.node: action.summary for action in session.pending}
        silent = {
            n.name: Told(
                n.name,
                error=CorralError(Code.UNREACHABLE, absent.get(n.name, "it does not run"), n.name),
            )
            for n in nodes_of(spec)
            if n.name not in told
        }
    return _scene(session, spec, addresses, {**told, **silent})


def _targets(
    session: Session, spec: ClusterSpec, addresses: Mapping[str, str]
) -> dict[str, list[tuple[str, int]]]:
    """What each node must reach: all the controller, the controller all compute nodes."""
    lead = session.controller
    found = {name: [(addresses[lead], _CTLD)] for name in session.fleet.nodes}
    found.setdefault(lead, []).extend((addresses[n], _SLURMD) for n in _compute(spec))
    return found


async def _with_ports(
    fleet: Fleet, told: Mapping[str, Told], targets: Mapping[str, list[tuple[str, int]]]
) -> dict[str, Told]:
    mark = token_hex(8)
    asked = (n for n, t in told.items() if t.error is None)
    scripts = {n: marked(ports_script(targets[n]), mark) for n in asked}
    answers = await fleet.each(scripts, timeout=TIMEOUT)
    found = dict(told)
    for name, answer in answers.items():
        if isinstance(answer, Result):
            before = told[name]
            more = sections(answer.stdout, mark)
            found[name] = replace(before, sections={**before.sections, **more})
    return found


async def _confirmed(fleet: Fleet, scene: Scene) -> dict[str, Told]:
    """The answers, with a second one about jobs where Slurm and nodes disagree about them.

    Jobs start and end between the answers of the first.
    """
    lead = scene.controller
    mark = token_hex(8)
    again = {n: marked(join([STEPS, JOBS]) if n == lead else STEPS, mark) for n in doubtful(scene)}
    answers = await fleet.each(again, timeout=TIMEOUT) if again else {}
    found = dict(scene.told)
    for name, answer in answers.items():
        if isinstance(answer, Result):
            more = {f"{key}{AGAIN}": text for key, text in sections(answer.stdout, mark).items()}
            found[name] = replace(found[name], sections={**found[name].sections, **more})
    return found


def _asks(session: Session, spec: ClusterSpec) -> dict[str, Ask]:
    names = tuple(n.name for n in nodes_of(spec))
    compute = _compute(spec)
    auth = ("munge",) if spec.slurm.auth == "munge" else ()
    lead = session.controller
    found: dict[str, Ask] = {}
    for name in session.fleet.nodes:
        units = [*auth]
        if name in compute:
            units.append("slurmd")
        if name == lead:
            units.append("slurmctld")
            if spec.slurm.accounting:
                units += ["mariadb", "slurmdbd"]
            if spec.slurm.rest:
                units.append("slurmrestd")
        # A folder that a server shows at its own place is no mount there.
        mounts = tuple(s.mount for s in spec.storage if (name, s.mount) != (s.server, s.path))
        mesh = mesh_of(spec) is not None
        found[name] = Ask(
            names,
            tuple(units),
            mounts,
            controller=name == lead,
            mesh=mesh,
            containers=spec.software.containers == "pyxis" and name in compute,
            shared=spec.storage[0].mount if spec.storage else "",
            keeper=sole_user(spec),
        )
    return found


def _compute(spec: ClusterSpec) -> tuple[str, ...]:
    groups = {g for p in partitions_of(spec) for g in p.groups}
    return tuple(n.name for n in nodes_of(spec) if n.group.name in groups)


async def _told(fleet: Fleet, asks: Mapping[str, Ask]) -> dict[str, Told]:
    answers = await asyncio.gather(*(_one(fleet, name, ask) for name, ask in asks.items()))
    return {one.node: one for one in answers}


async def _one(fleet: Fleet, name: str, ask: Ask) -> Told:
    arrived: list[float] = []
    mark = token_hex(8)

    def on_line(line: str) -> None:
        if not arrived and not line.startswith("@@"):
            arrived.append(time.time())

    sent = time.time()
    try:
        asked = marked(script(ask), mark)
        result = await fleet.run(name, asked, timeout=TIMEOUT, on_line=on_line)
    except CorralError as error:
        return Told(name, error=error)
    parts = sections(result.stdout, mark)
    return Told(name, parts, _skew(parts.get("clock", ""), sent, (arrived or [time.time()])[0]))


def _skew(text: str, sent: float, received: float) -> float:
    """Seconds that the round trip cannot explain; positive when the node's clock is ahead."""
    try:
        clock = float(text.split(maxsplit=1)[0])
    except (ValueError, IndexError):
        return 0.0
    return max(clock - received, 0.0) + min(clock - sent, 0.0)


def _scene(
    session: Session,
    spec: ClusterSpec,
    addresses: Mapping[str, str],
    told: Mapping[str, Told],
) -> Scene:
    data = spec.network.data
    lead = told.get(session.controller)
    config = lead.text("slurmconf") if lead else ""
    return Scene(
        controller=session.controller,
        compute=_compute(spec),
        told=told,
        addresses=addresses,
        gpus={n.name: n.group.gpu.count for n in nodes_of(spec) if n.group.gpu},
        fabric=data.fabric if data else "",
        auth="munge" if "auth/munge" in config else "slurm" if "auth/slurm" in config else "",
    )
