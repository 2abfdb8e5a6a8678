"""A lab's network: one bridge with its own subnet, one tap per machine, and the way out by NAT.

What is made is named after the lab's number, so that removal needs no memory of what was made.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

SUBNETS = range(1, 250)
PREFIX = "10.213"


def ip(*argv: str, check: bool = True) -> str:
    """Run ``ip``; its output."""
    end = subprocess.run(["ip", *argv], capture_output=True, text=True, check=False)
    if check and end.returncode != 0:
        raise RuntimeError(f"ip {' '.join(argv)}: {end.stderr.strip()}")
    return end.stdout


def _iptables(*argv: str) -> bool:
    end = subprocess.run(["iptables", "-w", *argv], capture_output=True, text=True, check=False)
    return end.returncode == 0


@dataclass(frozen=True)
class Network:
    """The network number ``number`` (1 to 249): bridge ``clab<number>``, 10.213.<number>.0/24."""

    number: int

    @property
    def bridge(self) -> str:
        return f"clab{self.number}"

    @property
    def subnet(self) -> str:
        return f"{PREFIX}.{self.number}.0/24"

    @property
    def gateway(self) -> str:
        return f"{PREFIX}.{self.number}.1"

    def address(self, index: int) -> str:
        """Address of the machine with this index, from 0."""
        return f"{PREFIX}.{self.number}.{10 + index}"

    def tap(self, index: int) -> str:
        return f"{self.bridge}t{index}"

    def mac(self, index: int) -> str:
        return f"02:c0:ab:{self.number:02x}:00:{index:02x}"

    def make(self, machines: int) -> None:
        """Bridge, taps and NAT; what exists already stays."""
        links = self._links()
        if self.bridge not in links:
            ip("link", "add", self.bridge, "type", "bridge")
            # Without its own address a bridge takes the lowest of its taps' and changes it
            # with each tap that comes: machines would hold a stale neighbour entry.
            ip("link", "set", self.bridge, "address", f"02:c0:ab:{self.number:02x}:ff:01")
            ip("address", "add", f"{self.gateway}/24", "dev", self.bridge)
        ip("link", "set", self.bridge, "mtu", str(mtu()), "up")
        for index in range(machines):
            if self.tap(index) not in links:
                ip("tuntap", "add", self.tap(index), "mode", "tap")
            ip("link", "set", self.tap(index), "mtu", str(mtu()), "master", self.bridge)
            # The vector driver loses what this machine's TCP leaves unsegmented (seen: 20 MB not
            # through within 60 s, thousands of retransmits; 0.9 s with segmentation before it).
            ip("link", "set", self.tap(index), "gso_max_segs", "1", "up")
        for rule in self._rules():
            table, chain, *rest = rule
            if not _iptables("-t", table, "-C", chain, *rest):
                _iptables("-t", table, "-I", chain, *rest)

    def remove(self) -> None:
        """All of it, also what an earlier run left."""
        for table, chain, *rest in self._rules():
            while _iptables("-t", table, "-D", chain, *rest):
                pass
        for link in self._links():
            if link == self.bridge or link.startswith(f"{self.bridge}t"):
                ip("link", "delete", link, check=False)

    def cut(self, index: int) -> None:
        """Pull the machine's cable."""
        ip("link", "set", self.tap(index), "nomaster")

    def reconnect(self, index: int) -> None:
        """Put it back."""
        ip("link", "set", self.tap(index), "master", self.bridge)

    def left(self) -> list[str]:
        """Links and rules of this network that are there now."""
        links = [x for x in self._links() if x == self.bridge or x.startswith(f"{self.bridge}t")]
        rules = [r for r in self._rules() if _iptables("-t", r[0], "-C", *r[1:])]
        return links + [" ".join(rule) for rule in rules]

    def _rules(self) -> tuple[tuple[str, ...], ...]:
        return (
            ("nat", "POSTROUTING", "-s", self.subnet, "!", "-d", self.subnet, "-j", "MASQUERADE"),
            ("filter", "FORWARD", "-i", self.bridge, "-j", "ACCEPT"),
            ("filter", "FORWARD", "-o", self.bridge, "-j", "ACCEPT"),
        )

    def _links(self) -> list[str]:
        return [link["ifname"] for link in json.loads(ip("-json", "link", "show"))]


def used() -> set[int]:
    """Numbers that this machine's addresses take already."""
    numbers: set[int] = set()
    for link in json.loads(ip("-json", "address", "show")):
        for info in link.get("addr_info", []):
            parts = info.get("local", "").split(".")
            if info.get("family") == "inet" and ".".join(parts[:2]) == PREFIX:
                numbers.add(int(parts[2]))
    return numbers


def mtu() -> int:
    """What fits through this machine's way out; there is no path MTU discovery to rely on."""
    for route in json.loads(ip("-json", "route", "show", "default")):
        for link in json.loads(ip("-json", "link", "show", "dev", route["dev"])):
            return min(int(link["mtu"]), 1500)
    return 1500
