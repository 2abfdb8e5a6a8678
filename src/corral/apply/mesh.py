"""The cluster's tailnet while a session lasts: keys made when asked for, machines taken out."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from corral.errors import CorralError
from corral.events import Emit, Event, Kind
from corral.hosts.fleet import Fleet, Mint
from corral.inspect.facts import Facts
from corral.mesh import link
from corral.mesh.control import Device, tailnet
from corral.mesh.programs import Program, read_programs
from corral.roles.machine.mesh import (
    host_of,
    login_of,
    member,
)
from corral.spec.models import ClusterSpec
from corral.spec.nodes import nodes_of
from corral.spec.sections.tailnet import mesh_of, tag_of
from corral.spec.slurm.hostlist import fold


def minter(spec: ClusterSpec) -> Mint | None:
    """What makes the keys with which the cluster's nodes join; None without a tailnet."""
    mesh = mesh_of(spec)
    if mesh is None:
        return None

    async def mint(node: str) -> bytes:
        key = await tailnet(mesh.url).mint(tag_of(spec), node, mesh.key_minutes)
        return key.encode()

    return mint


def programs_of(spec: ClusterSpec) -> tuple[Program, ...]:
    """The client's programs where the file names a folder with them.

    Raises:
        CorralError: NOT_FOUND.
    """
    mesh = mesh_of(spec)
    return read_programs(mesh.programs) if mesh and mesh.programs else ()


async def udp_of(spec: ClusterSpec, fleet: Fleet, facts: Mapping[str, Facts]) -> dict[str, str]:
    """Whether UDP goes out of those nodes that are not in the tailnet yet: yes, no or "".

    Args:
        spec: the cluster.
        fleet: its machines.
        facts: what is known of them; a node without any counts as outside.
    """
    mesh = mesh_of(spec)
    out = [n for n in fleet.nodes if mesh and not (n in facts and member(mesh, facts[n].mesh))]
    if mesh is None or not out:
        return {}
    host = host_of(login_of(mesh)) or link.TAILSCALE
    answers = await fleet.all(link.udp_script(host), out, timeout=30)
    return {n: link.udp_of(a.stdout) for n, a in answers.items() if not isinstance(a, CorralError)}


async def devices_of(spec: ClusterSpec) -> tuple[Device, ...]:
    """Machines with the cluster's tag, as the control server knows them.

    Raises:
        CorralError: NOT_FOUND, no key for it; PROVIDER_FAILED.
    """
    mesh = mesh_of(spec)
    return await tailnet(mesh.url).devices(tag_of(spec)) if mesh else ()


async def take_out(spec: ClusterSpec, stay: Collection[str], emit: Emit) -> tuple[str, ...]:
    """Take machines of the cluster out of its tailnet: those with its tag that do not stay.

    A machine that its owner has brought in carries no such tag, and is left.

    Args:
        spec: the cluster.
        stay: names of nodes that stay.
        emit: receives the removed machines and the servers that did not answer.

    Returns:
        ``node: did what`` of each that was taken out, proven by listing again.
    """
    mesh = mesh_of(spec)
    if mesh is None:
        return ()
    try:
        server, tag = tailnet(mesh.url), tag_of(spec)
        leaving = [d for d in await server.devices(tag) if _node(d) not in stay]
        for device in leaving:
            await server.remove(device)
        ids = {d.id for d in await server.devices(tag)}
    except CorralError as error:
        text = f"machines with the tag {tag_of(spec)} stay in the tailnet: {error}; {error.hint}"
        emit(Event(Kind.NOTE, "mesh", message=text))
        return ()
    gone = [_node(d) for d in leaving if d.id not in ids]
    if gone:
        emit(Event(Kind.NOTE, "mesh", message=f"{fold(gone)} left the tailnet"))
    return tuple(f"{name}: did left the tailnet" for name in gone)


async def gone_from_file(spec: ClusterSpec, emit: Emit) -> tuple[str, ...]:
    """Take out those that the file names no longer."""
    return await take_out(spec, {n.name for n in nodes_of(spec)}, emit)


def _node(device: Device) -> str:
    return device.hostname.partition(".")[0]
