"""Links of a mesh: measured path, latency and throughput; whether UDP leaves a machine. Pure.

In Perl, since every Debian and Ubuntu has it: a small server on one node, a client on the other.
Bytes go from client to server only.

A STUN request (RFC 8489) as tailscaled sends it, to the control server's relay: Tailscale's relays
answer no other (they require SOFTWARE "tailnode" and a fingerprint). Without an answer all links
of the machine go through a relay.
"""

from __future__ import annotations

import re
import struct
import zlib
from dataclasses import dataclass
from typing import Any, Final, Literal

from corral.agents import program
from corral.hosts.quote import Script, call, sh

SECONDS: Final = 2
ROUNDS: Final = 15
GRADIENT_BYTES: Final = 124_000_000 * 4
"""Gradients of a model of 124 million parameters (GPT-2 small) in fp32."""
PAYS_S: Final = 0.5
"""An exchange of gradients that is no longer than a training iteration of that model may take."""
NEARLY_S: Final = 10 * PAYS_S
"""Ten iterations' gradients added up before each exchange still hide it."""

Path = Literal["direct", "relayed", "local", "unknown"]


@dataclass(frozen=True, slots=True)
class Link:
    """One link between two nodes.

    Attributes:
        source: the node that sent.
        target: the node that received.
        path: direct (UDP between the two), relayed (over a DERP server), or unknown.
        via: the address or the relay that it goes over.
        rtt_ms: median of small exchanges over TCP, in milliseconds; 0 when it failed.
        mbps: payload in Mb/s, from source to target; 0 when it failed.
        mtu: of the interface, in bytes; 0 where there is none.
        problem: why it could not be measured, "" when it was.
    """

    source: str
    target: str
    path: Path
    via: str
    rtt_ms: float
    mbps: float
    mtu: int
    problem: str = ""

    @property
    def exchange_s(self) -> float:
        """Seconds that two nodes need to add up the gradients of GPT-2 small over it; 0: never."""
        return GRADIENT_BYTES * 8 / (self.mbps * 1e6) if self.mbps else 0.0

    @property
    def verdict(self) -> str:
        """Whether training over it can pay, in words."""
        if not self.mbps:
            return "no: it could not be measured"
        if self.mtu == 0:
            return "no: TCP only, jobs of one node"
        if self.path == "relayed":
            return "no: relayed, so slow today and slower when others use the relay"
        if self.exchange_s <= PAYS_S:
            return "yes"
        if self.exchange_s <= NEARLY_S:
            return "perhaps: with gradients added up over several iterations"
        return "no: jobs of one node"

    def as_dict(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "target": self.target,
            "path": self.path,
            "via": self.via,
            "rtt_ms": self.rtt_ms,
            "mbps": self.mbps,
            "mtu": self.mtu,
            "exchange_s": round(self.exchange_s, 3),
            "verdict": self.verdict,
            "problem": self.problem,
        }


def path_script(address: str) -> Script:
    """The path to an address in the tailnet, and the MTU of the interface."""
    return call("tailnet-status.sh", "tailnet_path", address)


def server_script() -> Script:
    """Waits for one client; its first line is its port."""
    return sh("exec perl -e {program} {rounds}", program=program("link-server.pl"), rounds=ROUNDS)


def client_script(address: str, port: int) -> Script:
    """Asks the server, then sends for some seconds."""
    return sh(
        "exec perl -e {program} {address} {port} {rounds} {seconds}",
        program=program("link-client.pl"),
        address=address,
        port=port,
        rounds=ROUNDS,
        seconds=SECONDS,
    )


def parse_path(text: str) -> tuple[Path, str, int]:
    """Path, address or relay, MTU."""
    replies = re.findall(r"^pong from .* via (\S+) in", text, re.MULTILINE)
    mtu = re.search(r"^mtu (\d+)$", text, re.MULTILINE)
    size = int(mtu[1]) if mtu else 0
    if not replies:
        return "unknown", "", size
    via = replies[-1]
    relay = re.fullmatch(r"(?:DERP|peer-relay)\((.*)\)", via)
    return ("relayed", relay[1], size) if relay else ("direct", via, size)


def parse_figures(client: str) -> tuple[float, float]:
    """(RTT in ms, Mb/s) of what the client printed.

    Raises:
        ValueError: it printed something else.
    """
    rtt = re.search(r"^rtt ([0-9.]+)$", client, re.MULTILINE)
    sent = re.search(r"^sent (\d+) ([0-9.]+)$", client, re.MULTILINE)
    if not rtt or not sent or not float(sent[2]):
        raise ValueError("the client did not come to its end")
    return float(rtt[1]) * 1e3, int(sent[1]) * 8 / float(sent[2]) / 1e6


PORT: Final = 3478
TAILSCALE: Final = "derp1.tailscale.com"
_MAGIC: Final = 0x2112A442
_XOR: Final = 0x5354554E
_ID: Final = b"corral-probe"


def question() -> bytes:
    """A binding request with SOFTWARE and FINGERPRINT."""
    software = struct.pack(">HH", 0x8022, 8) + b"tailnode"
    body = struct.pack(">HHI", 1, len(software) + 8, _MAGIC) + _ID + software
    return body + struct.pack(">HHI", 0x8028, 4, zlib.crc32(body) ^ _XOR)


def udp_script(host: str) -> Script:
    """Prints ``udp yes`` or ``udp no``; bash speaks UDP by /dev/udp."""
    octal = "".join(f"\\{byte:03o}" for byte in question())
    return call("tailnet-status.sh", "udp_answers", host, PORT, octal)


def udp_of(text: str) -> str:
    """``yes``, ``no`` or "" from what the script printed."""
    word = text.strip().removeprefix("udp ")
    return word if word in ("yes", "no") else ""
