"""The mesh: who joins the tailnet, by which link, and what follows for the rest. Pure.

A node's address in the tailnet is known when it has joined, so a cluster is planned twice: first
who joins, then all the rest (docs/decisions/0006).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from corral.inspect.facts import Facts, Traits
from corral.inspect.mesh import MeshFacts
from corral.roles.inventory import Site
from corral.roles.role import Role, Share
from corral.slurm.conf.conf_file import Setting, assembled
from corral.slurm.conf.model import Contribution
from corral.spec.impacts import Impact
from corral.spec.models import ClusterSpec
from corral.spec.sections.network import TAILSCALE, Mesh
from corral.spec.sections.tailnet import mesh_of, tag_of
from corral.spec.slurm.hostlist import fold_in_order
from corral.spec.slurm.node_features import ISLANDS_JOINED, island_feature
from corral.state.base import Desired, Resource
from corral.state.files import Directory, File
from corral.state.network.mesh import STATE, MeshMember, MeshProgram, Supervised, Supervisor
from corral.state.packages import Packages
from corral.state.service import Service

BIN: Final = "/usr/local/bin/tailscale"
SBIN: Final = "/usr/local/sbin/tailscaled"
SOCKS: Final = 1055
"""Port of tailscaled's proxy where it has no interface; on loopback."""
UNIT: Final = "/etc/systemd/system/tailscaled.service"
SOCKET: Final = "/run/tailscale/tailscaled.sock"
PORT: Final = 41641
"""UDP port of tailscaled where it may choose: its own default."""

_UNIT_TEXT: Final = """\
# Written by Corral.
[Unit]
Description=Tailscale node agent
Wants=network-pre.target
After=network-pre.target NetworkManager.service systemd-resolved.service
Before=slurmd.service slurmctld.service

[Service]
Type=notify
ExecStart={command}
ExecStopPost={sbin} --cleanup
Restart=on-failure
RuntimeDirectory=tailscale
RuntimeDirectoryMode=0755
StateDirectory=tailscale
StateDirectoryMode=0700
CacheDirectory=tailscale
CacheDirectoryMode=0750

[Install]
WantedBy=multi-user.target
"""


def login_of(mesh: Mesh) -> str:
    """The login server that ``tailscale up`` gets; "" for Tailscale's own."""
    return "" if mesh.url == TAILSCALE else mesh.url.rstrip("/")


def member(mesh: Mesh, facts: MeshFacts) -> bool:
    """True for a machine that is in the cluster's tailnet."""
    login = login_of(mesh)
    return facts.member and facts.server == (login or facts.server)


def addresses(
    spec: ClusterSpec, facts: Mapping[str, Facts], declared: Mapping[str, str]
) -> dict[str, str]:
    """The address of each node on the control network: in the tailnet, where it has joined it."""
    mesh = mesh_of(spec)
    if mesh is None:
        return dict(declared)
    return {
        n: facts[n].mesh.address if n in facts and member(mesh, facts[n].mesh) else address
        for n, address in declared.items()
    }


def outside(spec: ClusterSpec, facts: Mapping[str, Facts]) -> tuple[str, ...]:
    """Nodes that are to be in the tailnet and are not."""
    mesh = mesh_of(spec)
    if mesh is None:
        return ()
    return tuple(n for n, f in facts.items() if not member(mesh, f.mesh))


def contained(traits: Traits, facts: Facts) -> Traits:
    """What follows for a node that is a container of somebody else's machine."""
    if not facts.mesh.container:
        return traits
    limit = traits.memory_mib or facts.mesh.limit_mib
    return replace(traits, own_clock=False, memory_mib=limit)


def userspace(site: Site, node: str) -> bool:
    """True for a node that the mesh reaches by TCP only, and that opens no connections in it."""
    return mesh_of(site.spec) is not None and site.facts[node].mesh.mode == "userspace"


def fabric_of(site: Site, node: str) -> str:
    """A container's address on the network that it shares with its group; "" without one."""
    together = any(
        n.name == node and n.group.cloud is not None and n.group.cloud.cluster for n in site.compute
    )
    return site.facts[node].mesh.fabric if together else ""


def mates(site: Site, node: str) -> tuple[str, ...]:
    """A container and the others of its group that it reaches past the mesh."""
    every = _island_of(site)
    return tuple(n for n, island in every.items() if island == every.get(node))


def pod_names(site: Site) -> tuple[tuple[str, str], ...]:
    """(address, name) of containers that call themselves otherwise than the file does.

    slurmctld sends srun its notices by that name, and asks for it for 40 s when it is unknown
    (seen with 24.11.5: _xgetaddrinfo, ten tries).
    """
    known = {n: site.facts[n].mesh.name for n in site.names if not site.facts[n].systemd}
    return tuple(
        (site.addresses[n], own) for n, own in known.items() if own not in ("", *site.names)
    )


def mode_text(facts: MeshFacts, udp: str = "") -> str:
    """How a machine takes part, and why so.

    Args:
        facts: what it can do.
        udp: whether a relay answered it by UDP, as far as it was asked: yes, no or "".
    """
    relayed = "; no UDP goes out of it, so its links are relayed" if udp == "no" else ""
    if facts.mode == "tun":
        return f"by its own interface (TUN){relayed}"
    lacks = [
        w
        for w, there in (("/dev/net/tun", facts.tun), ("CAP_NET_ADMIN", facts.net_admin))
        if not there
    ]
    without = " and ".join(lacks) or "an interface"
    like = "; to the others of its cloud's cluster by their own network" if facts.fabric else ""
    alone = "; without user namespaces, so jobs cannot run in containers there"
    fenced = alone if facts.container and not facts.userns else ""
    return f"in user space by TCP only, without {without}{relayed}{like}{fenced}"


def _island_of(site: Site) -> dict[str, str]:
    """The island of each compute node."""
    mesh = mesh_of(site.spec)
    if mesh is None:
        return {}
    named = {group: island.name for island in mesh.islands for group in island.groups}
    by_node: dict[str, str] = {}
    for node in site.compute:
        if not userspace(site, node.name):
            by_node[node.name] = named.get(node.group.name, node.group.name)
        elif fabric_of(site, node.name):
            by_node[node.name] = f"fabric-{node.group.name}"
        else:
            by_node[node.name] = f"alone-{node.name}"
    return by_node


def _features(site: Site, node: str) -> tuple[str, ...]:
    """Slurm features that name where a node is."""
    island = _island_of(site).get(node)
    if not island:
        return ()
    more = (ISLANDS_JOINED,) if island in bridged(site) else ()
    return (island_feature(island), *more)


def islands(site: Site) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """(name, nodes) of each island where there are several; else nothing."""
    members: dict[str, list[str]] = {}
    for node, island in _island_of(site).items():
        members.setdefault(island, []).append(node)
    if len(members) <= 1:
        return ()
    return tuple((name, tuple(nodes)) for name, nodes in members.items())


def bridged(site: Site) -> tuple[str, ...]:
    """Islands that one job may use together: those with an interface, where the file allows it."""
    mesh = mesh_of(site.spec)
    if mesh is None or mesh.jobs == "within-an-island":
        return ()
    return tuple(name for name, nodes in islands(site) if not userspace(site, nodes[0]))


def slurm_conf(site: Site) -> Contribution:
    """What links with latency, relays and NAT ask for, and the islands as switches."""
    if mesh_of(site.spec) is None:
        return Contribution()
    settings = (
        Setting("MessageTimeout", "60"),
        Setting("SlurmdTimeout", "300"),
        Setting("TCPTimeout", "15"),
        Setting("BatchStartTimeout", "60"),
        Setting("TreeWidth", "65533"),
    )
    switches = islands(site)
    features = {n.name: _features(site, n.name) for n in site.compute if not n.group.elastic}
    if not switches:
        return Contribution(settings, features=features)
    # Switches that are not connected: a job's nodes are on one of them (topology.conf(5)).
    joined = bridged(site)
    lines = [(("SwitchName", name), ("Nodes", fold_in_order(nodes))) for name, nodes in switches]
    if joined:
        lines.append((("SwitchName", "mesh"), ("Switches", ",".join(joined))))
    plugin = Setting("TopologyPlugin", "topology/tree")
    return Contribution(
        (*settings, plugin),
        files=(assembled("topology.conf", site.version, lines=lines),),
        features=features,
    )


def on_control(spec: ClusterSpec, facts: Facts) -> Facts:
    """Facts with the address on the control network, and the memory that a container may use."""
    mesh = mesh_of(spec)
    if mesh is not None and member(mesh, facts.mesh):
        facts = replace(facts, address=facts.mesh.address)
    limit = facts.mesh.limit_mib if facts.mesh.container else 0
    return replace(facts, memory_mib=min(facts.memory_mib, limit or facts.memory_mib))


def ahead(site: Site) -> tuple[Share, ...]:
    """The others' addresses are known once all have joined: no other role can be asked before."""
    return joined(site) if outside(site.spec, site.facts) else ()


def joined(site: Site) -> tuple[Share, ...]:
    """All nodes in the tailnet; nothing where there is none."""
    mesh = mesh_of(site.spec)
    if mesh is None:
        return ()
    alike: dict[tuple[Resource, ...], list[str]] = {}
    for node in site.names:
        alike.setdefault(_node(site, mesh, node), []).append(node)
    desired = [Desired(tuple(nodes), resources) for resources, nodes in alike.items() if resources]
    desired += [Desired((n,), (member_of(site, n),)) for n in site.names]
    title = f"all nodes in the tailnet of {mesh.url}"
    if outside(site.spec, site.facts):
        title += "; all else is planned once they have their addresses there"
    return (Share(tuple(desired), title=title),)


def member_of(site: Site, node: str) -> MeshMember:
    """A node's place in the tailnet."""
    mesh = mesh_of(site.spec) or Mesh()
    return MeshMember(
        node,
        mesh.url,
        login_of(mesh),
        tag_of(site.spec),
        mode_text(site.facts[node].mesh, site.udp.get(node, "")),
        mesh.key_minutes,
    )


def _node(site: Site, mesh: Mesh, node: str) -> tuple[Resource, ...]:
    """The client on one node; nothing on a machine whose owner has it there already."""
    facts = site.facts[node]
    if facts.mesh.version and not facts.mesh.joined:
        return ()
    resources: tuple[Resource, ...]
    if mesh.programs:
        programs = {p.name: p for p in site.programs}
        resources = tuple(
            MeshProgram(path, programs[name].path, programs[name].sha256)
            for name, path in (("tailscale", BIN), ("tailscaled", SBIN))
            if name in programs
        )
    else:
        resources = (Packages("mesh", ("tailscale",)),)
    folder = Directory(STATE.rpartition("/")[0], mode="700")
    return (*resources, Packages("mesh-data", ("rsync",)), folder, *_daemon(site, mesh, node))


def _daemon(site: Site, mesh: Mesh, node: str) -> tuple[Resource, ...]:
    facts = site.facts[node]
    command = _command(mesh, SBIN if mesh.programs else "/usr/sbin/tailscaled", facts.mesh)
    inputs = (BIN, SBIN) if mesh.programs else ()
    if not facts.systemd:
        return (
            Supervisor(),
            Supervised("tailscaled", f"{command} --statedir=/var/lib/tailscale", inputs, 10),
        )
    unit = File(UNIT, _UNIT_TEXT.format(command=command, sbin=command.split()[0]))
    # Connections within the tailnet outlive a restart: the peers' keys stay the same.
    return (unit, Service("tailscaled", (UNIT, *inputs), impact=Impact.NONE))


def _command(mesh: Mesh, program: str, facts: MeshFacts) -> str:
    words = [program, f"--state={STATE}", f"--socket={SOCKET}", f"--port={PORT}"]
    if facts.mode == "userspace":
        words += ["--tun=userspace-networking", f"--socks5-server=127.0.0.1:{SOCKS}"]
    if login_of(mesh):
        # Without it the log goes to Tailscale, also from the nodes of somebody's own headscale.
        words.append("--no-logs-no-support")
    return " ".join(words)


def host_of(url: str) -> str:
    """The host in a base URL."""
    return urlsplit(url).hostname or ""


ROLE: Final = Role("mesh", {"mesh": joined}, slurm_conf, ahead=ahead)
