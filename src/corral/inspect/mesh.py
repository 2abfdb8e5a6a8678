"""What a machine can do for a mesh, and its state in one: read with the facts. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from corral.errors import BAD_JSON
from corral.hosts.quote import join, sh, shipped
from corral.inspect.question import Answers, Question, text
from corral.spec.providers import RENTALS
from corral.state.network.mesh import JOINED

NET_ADMIN: Final = 12
"""CAP_NET_ADMIN's bit in CapEff (capability.h)."""
_MARKERS: Final = tuple(rental.marker for rental in RENTALS.values() if rental.marker)

FABRIC: Final = "/run/corral-fabric"
"""On a rented container: its address on a network that it shares with its peers, if any."""

CONTAINER: Final = Question(
    "container",
    sh(
        """\
if [ -e /run/.containerenv ] || [ -e /.dockerenv ]{markers}; then
  echo yes
  if unshare -Ur true 2>/dev/null; then echo userns; fi
  [ ! -s {fabric} ] || echo "fabric $(cat {fabric})"
  echo "name $(uname -n)"
fi
for f in /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes; do
  if [ -r "$f" ]; then echo "limit $(cat "$f")"; break; fi
done""",
        fabric=FABRIC,
        markers=join([sh(' || [ -n "$(printenv {name})" ]', name=name) for name in _MARKERS]),
    ),
    text,
)
STATUS: Final = Question(
    "mesh",
    sh(
        """\
{status}
[ ! -c /dev/net/tun ] || echo tun
sed -n 's/^CapEff:[^0-9a-f]*/caps /p' /proc/self/status
if command -v tailscale >/dev/null; then
  [ ! -e {joined} ] || echo "joined $(cat {joined})"
  tailnet_status | sed '/^Online /d'
fi""",
        status=shipped("tailnet-status.sh"),
        joined=JOINED,
    ),
    text,
)
# The lines of `tailnet_status` that stay the same while nothing changes: the plan's digest is made
# from them.
# unshare makes a process, so it is asked only of containers: a dedicated machine always can.
QUESTIONS: Final = (
    CONTAINER,
    STATUS,
)


def own_status(text: str) -> dict[str, str]:
    """What ``agents/tailnet-status.sh`` printed, by key; the first line of a key counts."""
    first: dict[str, str] = {}
    for key, _, value in (line.partition(" ") for line in text.splitlines()):
        first.setdefault(key, value.strip())
    return first


@dataclass(frozen=True, slots=True)
class Peer:
    """Another machine of the tailnet, as a machine's tailscaled knows it.

    Attributes:
        addresses: its addresses in the tailnet.
        expired: the control server reports that its node key has expired.
        offline: the control server reports that it has no connection to it.
        relay: the DERP server that packets to it go through; "" where it is linked directly, or
            nothing is sent.
    """

    addresses: tuple[str, ...]
    expired: bool
    offline: bool
    relay: str


def peers(answer: str) -> tuple[Peer, ...] | None:
    """The peers in what ``tailscale status --json`` printed; None where that is something else."""
    try:
        status = _object(json.loads(answer))
    except BAD_JSON:
        return None
    listed = status.get("Peer", ())
    if listed is None:  # of a machine that knows no other one
        return ()
    return tuple(map(_peer, _object(listed).values())) if isinstance(listed, dict) else None


def _peer(value: Any) -> Peer:
    peer = _object(value)
    listed = peer.get("TailscaleIPs")
    relayed = peer.get("Active") is True and not peer.get("CurAddr")
    return Peer(
        tuple(map(str, cast("list[Any]", listed))) if isinstance(listed, list) else (),
        expired=peer.get("Expired") is True,
        offline=peer.get("Online") is False,
        relay=str(peer.get("Relay") or "") if relayed else "",
    )


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


TAILNET: Final = Question(
    "tailnet", sh("{status}\ntailnet_status", status=shipped("tailnet-status.sh")), own_status
)
"""What tailscaled reports about the machine it runs on."""
TAILNET_PEERS: Final = Question(
    "tailnet-peers",
    sh("timeout 10 tailscale status --json 2>/dev/null | head -c 4000000; echo"),
    peers,
)
"""What it knows of all other machines: a kilobyte each."""

TunnelMode = Literal["tun", "userspace"]


@dataclass(frozen=True, slots=True)
class MeshFacts:
    """One machine and the mesh.

    Attributes:
        container: it is a container: clock, kernel and firewall are its host's.
        userns: a container that may make user namespaces (enroot and pyxis need them).
        fabric: a container's IPv4 address on its cloud's own network for clusters; "" for none.
        name: what a container calls itself, without a domain: rented ones may not change it.
        limit_mib: memory that the container's cgroup allows, 0 for no limit.
        tun: /dev/net/tun is there.
        net_admin: it may make network interfaces (CAP_NET_ADMIN).
        version: of tailscale, "" when it is not installed or does not answer.
        state: tailscaled's: Running, NeedsLogin, Stopped, NoState ...; "" without one.
        kernel: tailscaled carries the tailnet by an interface, not in user space.
        server: URL of its control server.
        address: its IPv4 address in the tailnet, "" for none.
        id: the node's id there.
        tags: its tags.
        expires: when its node key expires, RFC 3339; "" for never.
        udp: STUN was answered when Corral brought it in: yes, no or "" when not known.
        joined: Corral brought it in.
    """

    container: bool = False
    userns: bool = False
    fabric: str = ""
    name: str = ""
    limit_mib: int = 0
    tun: bool = False
    net_admin: bool = False
    version: str = ""
    state: str = ""
    kernel: bool = False
    server: str = ""
    address: str = ""
    id: str = ""
    tags: tuple[str, ...] = ()
    expires: str = ""
    udp: str = ""
    joined: bool = False

    @property
    def mode(self) -> TunnelMode:
        """How it can take part: by an interface, or by TCP in user space only."""
        if self.state == "Running":
            return "tun" if self.kernel else "userspace"
        return "tun" if self.tun and self.net_admin else "userspace"

    @property
    def member(self) -> bool:
        """True when it is in a tailnet and has an address."""
        return self.state == "Running" and bool(self.address)


def mesh(parts: Answers) -> MeshFacts:
    """Take the sections apart; facts recorded before they were read give the defaults."""
    container, status = CONTAINER.read_or_empty(parts), STATUS.read_or_empty(parts)
    around = container.split()
    lines = [line.partition(" ") for line in status.splitlines()]
    first = own_status(status)
    return MeshFacts(
        container="yes" in around,
        userns="userns" in around,
        fabric=_line(r"fabric ([0-9]{1,3}(?:\.[0-9]{1,3}){3})", container),
        name=_line(r"name ([a-z0-9][a-z0-9-]{0,62})(?:\..*)?", container),
        limit_mib=_limit(container),
        tun="tun" in first,
        net_admin=bool(int(first.get("caps") or "0", 16) >> NET_ADMIN & 1),
        version=first.get("Version", ""),
        state=first.get("BackendState", ""),
        kernel=first.get("TUN", "") == "true",
        server=first.get("server", "").rstrip("/"),
        address=first.get("address", ""),
        id=first.get("ID", ""),
        tags=tuple(dict.fromkeys(value for key, _, value in lines if key == "tag")),
        expires=_never(first.get("KeyExpiry", "")),
        udp=first.get("joined", ""),
        joined="joined" in first,
    )


def _line(pattern: str, text: str) -> str:
    match = re.search(f"^{pattern}$", text, re.MULTILINE)
    return match[1] if match else ""


def _limit(text: str) -> int:
    match = re.search(r"^limit ([0-9]{1,19})$", text, re.MULTILINE)
    mib = int(match[1]) >> 20 if match else 0
    return mib if mib < 1 << 30 else 0  # cgroup v1 writes 2^63 for no limit


def _never(text: str) -> str:
    """Go's zero time stands for a key that does not expire."""
    return "" if text.startswith("0001-") else text
