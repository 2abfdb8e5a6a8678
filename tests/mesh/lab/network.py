"""The lab's networks: an internet in a namespace, homes behind NAT, and no other way.

Each home is a namespace that is its router: it has one public address and masquerades. Nodes hang
on a home's own bridge; all homes use the same private addresses, as real homes do. A second
interface of each node leads to this machine and nowhere else: there Corral logs in.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

HOME = "192.168.1"


def ip(*words: str | int, check: bool = True) -> str:
    """Run ``ip``."""
    return run("ip", *map(str, words), check=check)


def run(*argv: str, check: bool = True, stdin: str = "") -> str:
    """Run a program; its output."""
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=60)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout


@dataclass(frozen=True)
class Networks:
    """All of a lab's networks; ``index`` makes their names and addresses the lab's own."""

    index: int

    @property
    def internet(self) -> str:
        """The namespace of the internet."""
        return f"cm{self.index}i"

    @property
    def server(self) -> str:
        """The control server's address."""
        return f"198.18.{self.index}.1"

    def router(self, home: int) -> str:
        """The namespace of a home's router."""
        return f"cm{self.index}r{home}"

    def public(self, home: int) -> str:
        """A home's public address."""
        return f"198.18.{self.index}.{10 + home}"

    def managed(self, node: int) -> str:
        """The address by which this machine reaches a node."""
        return f"10.254.{self.index}.{4 * node + 2}"

    def make(self, homes: int) -> None:
        """The internet, joined to this machine as one more client, and the homes."""
        ip("netns", "add", self.internet)
        inside = ("-n", self.internet)
        ip(*inside, "link", "set", "lo", "up")
        ip(*inside, "link", "add", "net0", "type", "bridge")
        ip(*inside, "addr", "add", f"{self.server}/24", "dev", "net0")
        ip(*inside, "link", "set", "net0", "up")
        host = f"cm{self.index}h"
        ip("link", "add", host, "type", "veth", "peer", "name", "host", "netns", self.internet)
        ip(*inside, "link", "set", "host", "master", "net0", "up")
        ip("addr", "add", f"198.18.{self.index}.250/24", "dev", host)
        ip("link", "set", host, "up")
        for home in range(homes):
            self._home(home)

    def _home(self, home: int) -> None:
        name = self.router(home)
        ip("netns", "add", name)
        inside = ("-n", name)
        ip(*inside, "link", "set", "lo", "up")
        ip(
            "-n",
            self.internet,
            "link",
            "add",
            f"home{home}",
            "type",
            "veth",
            "peer",
            "name",
            "wan",
            "netns",
            name,
        )
        ip("-n", self.internet, "link", "set", f"home{home}", "master", "net0", "up")
        ip(*inside, "addr", "add", f"{self.public(home)}/24", "dev", "wan")
        ip(*inside, "link", "set", "wan", "up")
        ip(*inside, "link", "add", "lan", "type", "bridge")
        ip(*inside, "addr", "add", f"{HOME}.1/24", "dev", "lan")
        ip(*inside, "link", "set", "lan", "up")
        self.inside(home, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        # What comes unasked is dropped before conntrack keeps it: it would take the port that the
        # node behind is to be known by, and no hole could be punched.
        rules = """
        add table ip home
        add chain ip home post { type nat hook postrouting priority 100; }
        add rule ip home post oifname wan masquerade
        add chain ip home through { type filter hook forward priority 0; policy drop; }
        add chain ip home in { type filter hook input priority 0; policy accept; }
        add rule ip home in iifname wan drop
        add chain ip home cut
        add rule ip home through jump cut
        add rule ip home through ct state established,related accept
        add rule ip home through iifname lan accept
        """
        self.inside(home, "nft", "-f", "-", stdin=rules)

    def inside(self, home: int, *argv: str, stdin: str = "") -> str:
        """Run a program in a home's router."""
        return run("ip", "netns", "exec", self.router(home), *argv, stdin=stdin)

    def plug(self, node: int, home: int, pid: int) -> None:
        """Give a started node its two interfaces."""
        lan, control = f"n{node}", f"cm{self.index}n{node}"
        ip("-n", self.router(home), "link", "del", lan, check=False)
        ip("link", "del", control, check=False)
        ip(
            "-n",
            self.router(home),
            "link",
            "add",
            lan,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            pid,
        )
        ip("-n", self.router(home), "link", "set", lan, "master", "lan", "up")
        ip("link", "add", control, "type", "veth", "peer", "name", "mgmt0", "netns", pid)
        ip("addr", "add", f"10.254.{self.index}.{4 * node + 1}/30", "dev", control)
        ip("link", "set", control, "up")
        at = ("nsenter", "-t", str(pid), "-n", "ip")
        run(*at, "link", "set", "lo", "up")
        run(*at, "addr", "add", f"{self.managed(node)}/30", "dev", "mgmt0")
        run(*at, "link", "set", "mgmt0", "up")
        run(*at, "addr", "add", f"{HOME}.{10 + node}/24", "dev", "eth0")
        run(*at, "link", "set", "eth0", "up")
        run(*at, "route", "add", "default", "via", f"{HOME}.1")

    def join(self, node: int, home: int, address: str, pid: int) -> None:
        """Give a started node one more network, ens1, and no other path to those on it."""
        at = ("-n", self.router(home))
        ip(*at, "link", "add", "fabric", "type", "bridge", check=False)
        ip(*at, "link", "set", "fabric", "up")
        ip(*at, "link", "add", f"f{node}", "type", "veth", "peer", "name", "ens1", "netns", pid)
        ip(*at, "link", "set", f"f{node}", "master", "fabric", "up")
        ip(*at, "link", "set", f"n{node}", "type", "bridge_slave", "isolated", "on")
        # Where br_netfilter is loaded, what a bridge carries goes through the router's chain too.
        self.inside(
            home, "nft", "add", "rule", "ip", "home", "through", "iifname", "fabric", "accept"
        )
        inside = ("nsenter", "-t", str(pid), "-n", "ip")
        run(*inside, "addr", "add", f"{address}/24", "dev", "ens1")
        run(*inside, "link", "set", "ens1", "up")

    def cut(self, home: int, *rule: str) -> None:
        """Drop what a home's router forwards and matches; no rule: all of it."""
        self.inside(home, "nft", "add", "rule", "ip", "home", "cut", *rule, "drop")

    def reconnect(self, home: int) -> None:
        """Forward all again."""
        self.inside(home, "nft", "flush", "chain", "ip", "home", "cut")

    def limit(self, home: int, mbps: int) -> None:
        """What a home sends to the internet goes at so many Mb/s."""
        shape = ("root", "tbf", "rate", f"{mbps}mbit", "burst", "32kb", "latency", "100ms")
        self.inside(home, "tc", "qdisc", "replace", "dev", "wan", *shape)

    def remove(self, homes: int) -> None:
        """All of it; what is gone already is not an error."""
        ip("link", "del", f"cm{self.index}h", check=False)
        for home in range(homes):
            ip("netns", "del", self.router(home), check=False)
        ip("netns", "del", self.internet, check=False)

    def left(self) -> list[str]:
        """What is still there."""
        names = [p.name for p in Path("/run/netns").glob(f"cm{self.index}[ir]*")]
        links = [p.name for p in Path("/sys/class/net").glob(f"cm{self.index}[hn]*")]
        return sorted(names + links)
