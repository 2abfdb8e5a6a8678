"""The use cases of the mesh: members, links, policy, keys, and whether NFS over it can pay."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, cast

from corral.apply.connection import Connection
from corral.apply.journal import Journal, cluster_lock
from corral.apply.mesh import devices_of
from corral.apply.run import run_stages
from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind, ignore
from corral.hosts.fleet import Fleet
from corral.hosts.quote import call
from corral.hosts.transport import check
from corral.inspect.facts import Facts
from corral.inspect.rules import key_ends
from corral.mesh import link
from corral.mesh.control import Device, Policy, tailnet
from corral.mesh.link import Link
from corral.plan.model import NodeChange, Plan, Stage
from corral.roles.inventory import Site
from corral.roles.machine.mesh import (
    login_of,
    member,
    member_of,
    mode_text,
)
from corral.spec.models import ClusterSpec, Storage
from corral.spec.nodes import digest
from corral.spec.sections.network import Mesh
from corral.spec.sections.tailnet import mesh_of, tag_of
from corral.state.base import Gate
from corral.state_dir import cluster_dir

OWNER = "autogroup:admin"
PORT_S: Final = 20.0
"""So long a measuring program may take until it listens."""


@dataclass(frozen=True, slots=True)
class PolicyPart:
    """What the policy must contain.

    Attributes:
        tag: ``tag:NAME``; its owners are under ``tagOwners``.
        owners: who that is.
        rule: an entry of ``acls``: machines with the tag reach each other by all ports, which
            Slurm, srun, NCCL and gloo choose as they please (F18).
    """

    tag: str
    rule: Mapping[str, Any]
    owners: tuple[str, ...] = (OWNER,)

    @property
    def text(self) -> str:
        """The part as JSON, to be put into a policy by hand."""
        part = {"tagOwners": {self.tag: list(self.owners)}, "acls": [dict(self.rule)]}
        return json.dumps(part, indent=2)


def needed(tag: str, *, tailscale: bool = True) -> PolicyPart:
    """The part that a cluster with this tag needs.

    headscale knows no ``autogroup:admin`` (0.29.3: "invalid owner format"); a key made by its API
    carries the tag whoever owns it.
    """
    rule = {"action": "accept", "src": [tag], "dst": [f"{tag}:*"]}
    return PolicyPart(tag, rule, (OWNER,) if tailscale else ())


def merged(policy: str, part: PolicyPart) -> str | None:
    """The policy with what it lacks; None when it lacks nothing.

    Raises:
        CorralError: NOT_GOOD, it is not plain JSON: comments would be lost.
    """
    try:
        parsed: Any = json.loads(policy)
    except ValueError as error:
        raise CorralError(
            Code.NOT_GOOD,
            "the policy has comments or trailing commas, which would be lost",
            tail=part.text,
            hint="add this part by hand",
        ) from error
    if not isinstance(parsed, dict):
        raise CorralError(
            Code.NOT_GOOD,
            "the policy is not a JSON object",
            hint="check the policy in the control server's console",
        )
    fields = cast("dict[str, Any]", parsed)
    owners = cast("dict[str, Any]", fields.get("tagOwners") or {})
    rules = cast("list[Any]", fields.get("acls") or [])
    if part.tag in owners and dict(part.rule) in rules:
        return None
    fields["tagOwners"] = {**owners, part.tag: owners.get(part.tag, list(part.owners))}
    fields["acls"] = rules if dict(part.rule) in rules else [*rules, dict(part.rule)]
    return json.dumps(fields, indent=2)


THIN_MBPS: Final = 500.0
"""Half of what a gigabit line carries, the least that NFS is usually run over."""

SET_GB: Final = 10
"""A data set to reckon with, in gigabytes."""


def thin(storage: Sequence[Storage], links: Sequence[Link], controller: str) -> tuple[str, ...]:
    """One line for each NFS folder and node whose link to its server is too thin for it.

    Args:
        storage: the cluster's shared folders.
        links: measured links; one without figures is left out.
        controller: serves what names no server.
    """
    return tuple(
        line
        for folder in storage
        if folder.kind == "nfs"
        for line in _of(folder, links, folder.server or controller)
    )


def _of(folder: Storage, links: Sequence[Link], server: str) -> Iterator[str]:
    for measured in links:
        if server not in (measured.source, measured.target) or not measured.mbps:
            continue
        other = measured.target if measured.source == server else measured.source
        where = f"{other}: {folder.mount} from {server}"
        if measured.mtu == 0:
            yield f"{where} cannot be mounted there: it is reached by TCP only"
        elif measured.path == "relayed" or measured.mbps < THIN_MBPS:
            minutes = SET_GB * 8e3 / measured.mbps / 60
            relayed = ", by a relay" if measured.path == "relayed" else ""
            yield (
                f"{where} comes at {measured.mbps:.0f} Mb/s{relayed}: {SET_GB} GB take "
                f"{minutes:.0f} minutes, in each epoch"
            )


LINKS_AT_MOST: Final = 24


@dataclass(frozen=True, slots=True)
class MeshNode:
    """One node and the tailnet.

    Attributes:
        node: its name.
        mode: how it takes part, in words; "" when it does not answer.
        address: its address there, "" for none.
        state: tailscaled's.
        expires: when its node key expires, "" for never.
        device: its record at the control server; None when that was not asked or has none.
        problem: what is wrong, "" for nothing.
        hint: what to do about it.
    """

    node: str
    mode: str
    address: str
    state: str
    expires: str
    device: Device | None
    problem: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class MeshStatus:
    """The tailnet of a cluster now.

    Attributes:
        server: base URL of the control server.
        tag: the nodes' tag.
        nodes: each node.
        strays: machines with the tag that are not nodes of the file.
        links: measured links, empty when none were asked for.
        asked: the control server was asked; else why not.
        thin: NFS folders that come over a link too thin for them, a line for each node.
    """

    server: str
    tag: str
    nodes: tuple[MeshNode, ...]
    strays: tuple[Device, ...]
    links: tuple[Link, ...]
    asked: str = ""
    thin: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """True when all nodes are in it and stay so."""
        return not self.strays and not any(n.problem for n in self.nodes)

    def as_dict(self) -> dict[str, Any]:
        """Whether all is good; nodes, other devices and links."""
        return {
            "good": self.good,
            "server": self.server,
            "tag": self.tag,
            "asked": self.asked,
            "nodes": [asdict(n) for n in self.nodes],
            "strays": [asdict(d) for d in self.strays],
            "links": [link.as_dict() for link in self.links],
            "thin": list(self.thin),
        }


def _mesh(spec: ClusterSpec) -> Mesh:
    mesh = mesh_of(spec)
    if mesh is None:
        raise CorralError(
            Code.USAGE,
            f"cluster {spec.name} has no mesh: its control network is {spec.network.control}",
            hint="write network: {control: tailscale}",
        )
    return mesh


async def mesh_status(
    spec: ClusterSpec, emit: Emit = ignore, *, links: bool = True, now: datetime | None = None
) -> MeshStatus:
    """Who is in the tailnet, what expires, what is there that should not, and the links' quality.

    The control server is asked where there is a key for it; the machines report the rest.

    Raises:
        CorralError: USAGE, the cluster has no mesh; a machine's answer made no sense.
    """
    mesh = _mesh(spec)
    devices, asked = await _devices(spec)
    async with await Connection.open(spec) as session:
        facts = await session.known_facts()
        by_name = {d.hostname.partition(".")[0]: d for d in devices or ()}
        moment = now or datetime.now(UTC)
        names = [n for p in (session.addresses(),) for n in p]
        nodes = tuple(
            watched(mesh, n, facts.get(n), by_name.get(n), moment, asked=devices is not None)
            for n in names
        )
        pairs = _pairs(mesh, {n: f for n, f in facts.items() if f}, session.controller)
        measured = await _measure(session.fleet, pairs, emit) if links else ()
        slow = thin(spec.storage, measured, session.controller)
    strays = tuple(d for name, d in by_name.items() if name not in names)
    return MeshStatus(mesh.url, tag_of(spec), nodes, strays, measured, asked, slow)


async def _devices(spec: ClusterSpec) -> tuple[tuple[Device, ...] | None, str]:
    try:
        return await devices_of(spec), ""
    except CorralError as error:
        return None, f"the control server was not asked: {error.message}"


def watched(
    mesh: Mesh, node: str, facts: Facts | None, device: Device | None, now: datetime, *, asked: bool
) -> MeshNode:
    """One node's place, and what is wrong with it. Pure."""
    if facts is None:
        hint = "check the machine and the network to it"
        return MeshNode(node, "", "", "", "", device, "does not answer", hint)
    own = facts.mesh
    expires = (device.expires if device else "") or own.expires
    seen = MeshNode(node, mode_text(own), own.address, own.state, expires, device)
    rekey = f"corral keys rotate FILE --which mesh; {node} only"
    problem, hint = "", ""
    if not member(mesh, own):
        gone = own.joined and own.state == "NeedsLogin"
        problem = "its key has expired or it was taken out" if gone else "it is not in the tailnet"
        hint = "corral up FILE brings it in again" if gone else "corral up FILE brings it in"
    elif device is not None and device.expired:
        problem, hint = "its node key has expired", rekey
    elif (left := key_ends(expires, now)) is not None:
        problem = f"its node key expires in {left.days} days ({expires})"
        hint = f"{rekey}; or switch key expiry off for it"
    elif asked and own.joined and device is None:
        problem, hint = "the control server does not know it any more", "corral up FILE"
    return replace(seen, problem=problem, hint=hint)


def _pairs(mesh: Mesh, facts: Mapping[str, Facts], controller: str) -> list[tuple[Facts, Facts]]:
    """Links to measure: from the controller to all, then between the others, not too many.

    One that is reached by TCP only cannot send.
    """
    inside = [f for f in facts.values() if member(mesh, f.mesh)]
    inside.sort(key=lambda f: (f.node != controller, not f.mesh.kernel))
    pairs = [(a, b) for i, a in enumerate(inside) for b in inside[i + 1 :] if a.mesh.kernel]
    return pairs[:LINKS_AT_MOST]


async def _measure(
    fleet: Fleet, pairs: Sequence[tuple[Facts, Facts]], emit: Emit
) -> tuple[Link, ...]:
    links: list[Link] = []
    for source, target in pairs:  # one after the other: they share their lines
        text = f"{source.node} to {target.node}"
        emit(Event(Kind.NOTE, "links", message=text))
        links.append(await _link(fleet, source, target))
    return tuple(links)


async def _link(fleet: Fleet, source: Facts, target: Facts) -> Link:
    path, via, mtu = link.parse_path("")
    try:
        address = target.mesh.address
        answer = await fleet.run(source.node, link.path_script(address), timeout=40)
        path, via, mtu = link.parse_path(answer.stdout)
        mtu = mtu if target.mesh.kernel else 0
        port: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def heard(line: str) -> None:
            word, _, number = line.partition(" ")
            if word == "port" and number.isdecimal() and not port.done():
                port.set_result(int(number))

        server = asyncio.create_task(
            fleet.run(target.node, link.server_script(), timeout=60, on_line=heard)
        )
        try:
            first = asyncio.FIRST_COMPLETED
            await asyncio.wait({server, port}, timeout=PORT_S, return_when=first)
            if server.done() and not port.done():  # its own failure, not one of time
                check(await server, "measuring")
                raise ValueError("the measuring program ended before it listened")
            if not port.done():
                raise TimeoutError
            client = link.client_script(address, port.result())
            sent = check(await fleet.run(source.node, client, timeout=60), "measuring")
            rtt, mbps = link.parse_figures(sent.stdout)
            await server
        finally:
            server.cancel()
            await asyncio.gather(server, return_exceptions=True)
    except (CorralError, ValueError, TimeoutError) as error:
        problem = getattr(error, "tail", "") or str(error) or "no answer in time"
        return Link(source.node, target.node, path, via, 0, 0, mtu, problem.strip())
    return Link(source.node, target.node, path, via, round(rtt, 3), round(mbps, 1), mtu)


async def rotate_mesh(spec: ClusterSpec, emit: Emit = ignore) -> tuple[str, ...]:
    """Give each node a new node key; addresses stay, and so do jobs and connections.

    Machines that their owner brought in are left alone.

    Returns:
        the nodes with a new key.

    Raises:
        CorralError: USAGE, no mesh; NOT_FOUND, no key for the control server; what a node could
            not do. Run again it starts over.
    """
    mesh = _mesh(spec)
    await tailnet(mesh.url).devices(tag_of(spec))  # refuses a bad key before a node is touched
    with cluster_lock(cluster_dir(spec.name)):
        async with await Connection.open(spec) as session:
            session.require_running()
            facts = {n: f for n, f in (await session.known_facts()).items() if f}
            ours = [n for n, f in facts.items() if f.mesh.joined and f.mesh.member]
            site = Site(spec, facts, {}, {})
            # One at a time, the controller last: a node that fails does not affect the others.
            ours.sort(key=lambda n: n == session.controller)
            stages = tuple(_renewal(site, n) for n in ours)
            plan = Plan(spec.name, digest(spec), "", stages=stages)
            journal = Journal(cluster_dir(spec.name) / "journal.jsonl", secrets.token_hex(4))
            journal.write("plan", {"plan": plan.as_dict()})
            await run_stages(plan, session.fleet, journal.following(emit))
    return tuple(ours)


def _renewal(site: Site, node: str) -> Stage:
    change = member_of(site, node).renewed()
    gate = Gate(
        f"{node} is in the tailnet with its new key",
        node,
        call("tailnet-status.sh", "tailnet_is_online"),
        60,
        "read on the node: tailscale status",
    )
    return Stage("mesh-keys", f"a new node key on {node}", (NodeChange((node,), change),), (gate,))


async def mesh_policy(spec: ClusterSpec) -> PolicyPart:
    """What the tailnet's access policy must contain for the cluster; changes nothing.

    Raises:
        CorralError: USAGE, the cluster has no mesh.
    """
    return _needed(spec, _mesh(spec))


def _needed(spec: ClusterSpec, mesh: Mesh) -> PolicyPart:
    return needed(tag_of(spec), tailscale=not login_of(mesh))


async def apply_mesh_policy(spec: ClusterSpec) -> tuple[bool, str]:
    """Add to the tailnet's access policy what it lacks, and nothing else.

    Returns:
        (changed, what was done or why nothing was).

    Raises:
        CorralError: NOT_GOOD, the policy cannot be changed without loss (comments); what the
            control server reports.
    """
    mesh = _mesh(spec)
    server = tailnet(mesh.url)
    before = await server.policy()
    if before is None:
        return False, (
            "the control server has no policy: all its machines reach each other. One that names "
            "the cluster alone would shut out all others, so write it yourself"
        )
    text = merged(before.text, _needed(spec, mesh))
    if text is None:
        return False, "the policy contains all that the cluster needs"
    await server.set_policy(Policy(text, before.etag))
    after = await server.policy()
    if after is None or merged(after.text, _needed(spec, mesh)) is not None:
        raise CorralError(
            Code.PROVIDER_FAILED,
            "the control server accepted the policy but does not return it",
            hint="check the policy in the control server's console",
        )
    return True, "added to the policy, and read back"
