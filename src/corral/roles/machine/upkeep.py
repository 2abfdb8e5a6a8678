"""What makes a machine a good node: clock, ports, limits, upgrades, apt in one run, logins. Pure.

All of it is for machines with their own system; containers get the limits alone, since clock,
firewall and upgrades are their host's.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from corral.errors import Code, CorralError
from corral.roles.inventory import Site
from corral.roles.machine.mesh import pod_names
from corral.roles.role import Role, Share
from corral.roles.services import mlflow
from corral.roles.slurm import packages
from corral.spec.impacts import Impact
from corral.spec.nodes import Node
from corral.spec.systems import distributions
from corral.state.base import Desired, Resource
from corral.state.files import File, masked
from corral.state.network.firewall import Closed, Ports, exactly, opened
from corral.state.network.host_names import HostsBlock, kept_off
from corral.state.network.sshd import KeysOnly, confirmed
from corral.state.packages import Holds, Packages
from corral.state.service import Service
from corral.state.system.clock import Clock

CHRONY_CONF: Final = "/etc/chrony/conf.d/corral.conf"
UPGRADES_CONF: Final = "/etc/apt/apt.conf.d/52corral-upgrades"
NEEDRESTART_CONF: Final = "/etc/needrestart/conf.d/corral.conf"
LIMITS: Final = "/etc/systemd/system/slurmd.service.d/corral.conf"
SLEEP: Final = ("sleep.target", "suspend.target", "hibernate.target", "hybrid-sleep.target")

SLURMCTLD: Final = (6817, 6817)
SLURMD: Final = (6818, 6818)
SLURMDBD: Final = (6819, 6819)
NFS: Final = (2049, 2049)
NTP: Final = (123, 123)
DYNAMIC: Final = (32768, 63000)
"""Linux's own range for ports that nobody chose (ip(7), 32768 to 60999: slurmstepd, NCCL, gloo and
torch listen there) and SrunPortRange behind it (F18)."""

SLURM_PACKAGES: Final = ("slurm*", "libslurm*", "munge", "libmunge*")

# Regular expressions that match from the first letter on (unattended-upgrade(8)).
UPGRADES_TEXT: Final = """\
// Written by Corral: these change with the node drained, and not at night.
Unattended-Upgrade::Package-Blacklist {
  "slurm";
  "libslurm";
  "munge$";
  "libmunge";
  "nvidia-";
  "libnvidia-";
  "libcuda";
  "cuda-";
  "linux-modules-nvidia-";
  "xserver-xorg-video-nvidia-";
};
Unattended-Upgrade::Automatic-Reboot "false";
"""

# Perl. 0: never restart it unasked (needrestart's README.batch and its example configuration).
NEEDRESTART_TEXT: Final = """\
# Written by Corral: a library's upgrade does not restart Slurm in the middle of jobs.
$nrconf{override_rc}{qr(^(slurmd|slurmctld|slurmdbd|slurmrestd|munge|mariadb)\\.service$)} = 0;
$nrconf{override_rc}{qr(^nvidia-(persistenced|fabricmanager)\\.service$)} = 0;
1;
"""

_LIMITS_TEXT: Final = """\
# Written by Corral. RDMA pins memory, and limits.conf does not apply to services (F29).
[Service]
LimitMEMLOCK=infinity
LimitNOFILE=131072
"""

# The driver makes the device files that slurmd looks for at its start (F13).
_AFTER_DRIVER: Final = """\
[Unit]
Wants=nvidia-persistenced.service
After=nvidia-persistenced.service nvidia-fabricmanager.service
"""


def real(site: Site) -> tuple[Node, ...]:
    """Nodes that are separate machines."""
    return tuple(n for n in site.nodes if site.traits[n.name].own_clock)


def names_of(site: Site) -> HostsBlock:
    """The nodes' names in /etc/hosts."""
    named = tuple((site.addresses[n], n) for n in site.names)
    return HostsBlock((*named, *pod_names(site)))


def on_nodes(site: Site) -> tuple[Share, ...]:
    """Clock, ports, limits, quiet upgrades; Slurm's packages held, behind all that bring some.

    Raises:
        CorralError: NOT_GOOD, a firewall is on that Corral cannot open.
    """
    nodes = tuple(n.name for n in real(site))
    walled = tuple(n for n in site.names if n not in nodes and site.facts[n].firewall)
    if not nodes:
        return (Share((*_limits(site), *_firewalls(site, walled))),)
    cloud = tuple(n for n in nodes if site.facts[n].cloud_init)
    desired = [Desired(nodes, _quiet(site))]
    if cloud:
        desired.append(Desired(cloud, kept_off(names_of(site))))
    if site.controller in nodes:
        desired.append(Desired((site.controller,), (*_clock(site, serves=True), *_desktop(site))))
        others = tuple(n for n in nodes if n != site.controller)
        desired.append(Desired(others, _clock(site, serves=False)))
    desired += [*_limits(site), *_firewalls(site, (*nodes, *walled))]
    if site.spec.software.hold:
        hold = Holds("slurm", SLURM_PACKAGES, packages.BRINGING)
        desired.append(Desired(nodes, (hold,)))
    return (Share(tuple(w for w in desired if w.nodes and w.resources)),)


def following(site: Site) -> tuple[Share, ...]:
    """The other machines' clocks are right: they can be once the controller's chrony runs."""
    others = tuple(n.name for n in real(site) if n.name != site.controller)
    return (Share((Desired(others, (Clock(),)),)),) if others else ()


def _limits(site: Site) -> tuple[Desired, ...]:
    """Additions to slurmd's unit; on a node that has GPUs it starts after their driver."""
    own = [n for n in site.compute if not site.is_pod(n.name)]
    driven = tuple(n.name for n in own if n.group.gpu_kinds and site.traits[n.name].own_clock)
    known = set(driven)
    plain = tuple(n.name for n in own if n.name not in known)
    desired = (
        Desired(plain, (File(LIMITS, _LIMITS_TEXT),)),
        Desired(driven, (File(LIMITS, _LIMITS_TEXT + _AFTER_DRIVER),)),
    )
    return tuple(w for w in desired if w.nodes)


def _quiet(site: Site) -> tuple[Resource, ...]:
    resources: list[Resource] = []
    if site.spec.software.hold:
        resources += [File(UPGRADES_CONF, UPGRADES_TEXT), File(NEEDRESTART_CONF, NEEDRESTART_TEXT)]
    if not site.spec.software.sleep:
        resources += [masked(u, f"{u.partition('.')[0]} switched off (masked)") for u in SLEEP]
    return tuple(resources)


def _clock(site: Site, *, serves: bool) -> tuple[Resource, ...]:
    """chrony: all nodes follow the controller in addition to the sources they have.

    So they agree also where no time server can be reached; and an offset too big to be slewed is
    stepped at any time, not only at the start (chrony.conf(5), makestep).
    """
    lines = ["# Written by Corral: nodes agree with each other, also without the internet."]
    if serves:
        lines += ["local stratum 10", *(f"allow {a}" for a in _sources(site))]
    else:
        lines.append(f"server {_ip(site, site.controller)} iburst")
    lines.append("makestep 30 -1")
    resources: tuple[Resource, ...] = (
        Packages("clock", ("chrony",)),
        File(CHRONY_CONF, "\n".join(lines) + "\n"),
        Service("chrony", (CHRONY_CONF,), impact=Impact.NONE),
    )
    return (*resources, Clock()) if serves else resources


def _desktop(site: Site) -> tuple[Resource, ...]:
    kind = site.spec.software.desktop
    if kind == "none":
        return ()
    system = site.facts[site.controller].os_id
    known = distributions().get(system)
    names = known.desktops.get(kind, ()) if known else ()
    if not names:
        raise CorralError(
            Code.NOT_GOOD,
            f"no {kind} desktop is known for {system}",
            node=site.controller,
            hint="install it by hand and leave software.desktop out",
        )
    return (Packages("desktop", names),)


def _firewalls(site: Site, nodes: tuple[str, ...]) -> tuple[Desired, ...]:
    """The cluster's ports where a firewall is on; nothing of Corral's in it elsewhere."""
    groups: dict[tuple[Resource, ...], list[str]] = {}
    for node in nodes:
        groups.setdefault(_firewall(site, node), []).append(node)
    return tuple(Desired(tuple(names), resources) for resources, names in groups.items())


def _firewall(site: Site, node: str) -> tuple[Resource, ...]:
    kind = site.facts[node].firewall
    if not kind or site.spec.network.firewall == "leave":
        return (Closed(),)
    if kind == "ufw" or kind == "nftables":  # noqa: PLR1714  # narrows the type
        return opened(kind, _ports(site, node))
    raise CorralError(
        Code.NOT_GOOD,
        f"its firewall is {kind}, which Corral does not open",
        node=node,
        hint=f"let TCP 6817-6819 and {DYNAMIC[0]}-{DYNAMIC[1]} in from the cluster's addresses, "
        "then write network: {firewall: leave}",
    )


def _ports(site: Site, node: str) -> Ports:
    tcp: list[tuple[int, int]] = [DYNAMIC]
    udp: tuple[tuple[int, int], ...] = ()
    if node == site.controller:
        tcp.append(SLURMCTLD)
        udp = (NTP,)
        if site.spec.slurm.accounting:
            tcp.append(SLURMDBD)
        if site.spec.services.mlflow:
            tcp.append((mlflow.PORT, mlflow.PORT))
    if site.spec.services.metrics:
        tcp += [(port, port) for port in (9100, 9400)]  # node exporter, DCGM exporter
    if any(n.name == node for n in site.compute):
        tcp.append(SLURMD)
    if any(s.kind == "nfs" and s.server == node for s in site.spec.storage):
        tcp.append(NFS)
    return Ports(_sources(site), tuple(sorted(tcp)), udp)


def _sources(site: Site) -> tuple[str, ...]:
    """The cluster's own addresses, and no other one."""
    return exactly(_ip(site, n) for n in site.names)


def _ip(site: Site, node: str) -> str:
    """The node's IPv4 address; where the file names it otherwise, the one it has."""
    declared = site.addresses[node]
    try:
        return str(ipaddress.IPv4Address(declared))
    except ValueError:
        return site.facts[node].address or declared


ROLE: Final = Role("upkeep", {"base": on_nodes, "keys": following})


KEEP = "keep"


def keys_only(site: Site) -> tuple[Share, ...]:
    """One stage where a group has ``ssh.password_login: off``, else none."""
    groups = [n for n in site.nodes if n.group.capabilities.owned]
    nodes = tuple(n.name for n in groups if n.group.ssh.password_login != KEEP)
    if not nodes:
        return ()
    return (
        Share(
            (Desired(nodes, (KeysOnly(),)),),
            tuple(confirmed(node) for node in nodes),
            "logins by key only",
        ),
    )


PASSWORD_LOGIN: Final = Role("password_login", {"logins": keys_only})
