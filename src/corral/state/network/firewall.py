"""The cluster's ports in a firewall that is on, open for the cluster's own addresses. Pure.

A small script on the machine adds and removes the rules, and a unit runs it: so they come back
after a boot or a restart of nftables, and stopping the unit takes all of them back (F18). A
firewall is never switched on or off.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from corral import agents
from corral.hosts.quote import Script, call, sh
from corral.state.base import (
    Change,
    Context,
    Resource,
    Seen,
    Standalone,
)
from corral.state.files import File
from corral.state.service import Service

Kind = Literal["ufw", "nftables"]

PROGRAM: Final = "/usr/local/sbin/corral-firewall"
UNIT: Final = "/etc/systemd/system/corral-firewall.service"

UNIT_TEXT: Final = f"""\
# Written by Corral: the cluster's ports, open towards its own addresses.
[Unit]
Description=Ports of the Corral cluster in the firewall
After=ufw.service nftables.service network-pre.target
PartOf=nftables.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={PROGRAM}
ExecStop={PROGRAM} remove

[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True, slots=True)
class Ports:
    """What is open on a machine, and for whom.

    Attributes:
        sources: IPv4 addresses or networks that may come in.
        tcp: ports or (first, last) ranges.
        udp: as ``tcp``.
    """

    sources: tuple[str, ...]
    tcp: tuple[tuple[int, int], ...]
    udp: tuple[tuple[int, int], ...] = ()

    def text(self, kind: Kind) -> str:
        """The machine's program for its kind of firewall."""
        return _ufw(self) if kind == "ufw" else _nft(self)


def exactly(addresses: Iterable[str]) -> tuple[str, ...]:
    """The addresses as the fewest networks that hold them and no other; /32 is left out."""
    networks = ipaddress.collapse_addresses(ipaddress.IPv4Network(a) for a in addresses)
    return tuple(str(n).removesuffix("/32") for n in networks)


def opened(kind: Kind, ports: Ports) -> tuple[Resource, ...]:
    """All that keeps a machine's ports open."""
    return (
        File(PROGRAM, ports.text(kind), mode="755"),
        File(UNIT, UNIT_TEXT),
        Service("corral-firewall", (PROGRAM, UNIT)),
        Open(kind),
    )


@dataclass(frozen=True, slots=True)
class Open:
    """The rules are in the firewall now, and no older ones of Corral's."""

    kind: Kind

    @property
    def id(self) -> str:
        return "ports"

    @property
    def watches(self) -> tuple[str, ...]:
        """The service that opens them."""
        return ("service:corral-firewall",)

    def probe(self) -> Script:
        """One word: open, closed, or nothing while the program is missing."""
        return sh("[ ! -x {program} ] || {program} check", program=PROGRAM)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Open them again when somebody has taken the rules away."""
        if seen.text == "open" or self.watches[0] in context.changed:
            return None
        return Change(
            self.id,
            f"open the cluster's ports in {self.kind}",
            seen.text,
            "open",
            sh("{program}", program=PROGRAM),
        )


@dataclass(frozen=True, slots=True)
class Closed(Standalone):
    """No rule of Corral's: where no firewall is on, or the file leaves it alone."""

    @property
    def id(self) -> str:
        return "ports"

    def probe(self) -> Script:
        """Whether the program is there."""
        return sh("[ ! -e {program} ] || echo there", program=PROGRAM)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Take the rules back, then the program."""
        if not seen.text:
            return None
        return Change(
            self.id,
            "take the cluster's ports out of the firewall",
            seen.text,
            "",
            call("state/machine.sh", "firewall_remove", PROGRAM, UNIT),
        )


def _ranges(ports: tuple[tuple[int, int], ...], dash: str) -> tuple[str, ...]:
    """One word with all ports, or none."""
    joined = ",".join(str(a) if a == b else f"{a}{dash}{b}" for a, b in sorted(ports))
    return (joined,) if joined else ()


def _ufw(ports: Ports) -> str:
    tcp, udp = _ranges(ports.tcp, ":"), _ranges(ports.udp, ":")
    values = sh(
        "sources={sources} tcp={tcp} udp={udp}",
        sources=" ".join(ports.sources),
        tcp=" ".join(tcp),
        udp=" ".join(udp),
    )
    return _program(values, "firewall-ufw.sh")


def _nft(ports: Ports) -> str:
    tcp, udp = _ranges(ports.tcp, "-"), _ranges(ports.udp, "-")
    digest = hashlib.sha256(repr(ports).encode()).hexdigest()[:12]
    values = sh(
        "tag={tag} each={each} sources={sources} tcp={tcp} udp={udp}",
        tag=f"corral-{digest}",
        each=len(tcp) + len(udp),
        sources=",".join(ports.sources),
        tcp=" ".join(tcp),
        udp=" ".join(udp),
    )
    return _program(values, "firewall-nft.sh")


def _program(values: Script, name: str) -> str:
    text = agents.program(name).removeprefix("#!/bin/sh\n")
    return f"#!/bin/sh\n# Written by Corral: the cluster's ports.\n{values}\n{text}"
