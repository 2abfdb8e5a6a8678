"""Questions about network interfaces, addresses and routes; for facts. Pure.

Functions here raise ValueError on nonsense; ``facts.parse_facts`` makes it a CorralError.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from corral.hosts.quote import sh
from corral.inspect.question import Answers, Question


def addresses(
    answer: str, *, strict: bool = False
) -> tuple[tuple[str, ipaddress.IPv4Interface], ...]:
    """(interface, address and its network), from lines of ``ip -o -4 addr show``.

    Raises:
        ValueError: ``strict``, and one is not an address.
    """
    matches = re.finditer(r"^\d+: ([^@\s]+)\S* +inet ([\d./]+)(?=\s|$)", answer, re.MULTILINE)
    rows: list[tuple[str, ipaddress.IPv4Interface]] = []
    for row in matches:
        try:
            rows.append((row[1], ipaddress.IPv4Interface(row[2])))
        except ValueError:
            if strict:
                raise
    return tuple(rows)


def mtus(answer: str) -> dict[str, int]:
    """MTU by interface, from lines of ``ip -o link show``."""
    links = re.finditer(r"^\d+: ([^:@\s]+)[@:].*? mtu (\d+)", answer, re.MULTILINE)
    return {link[1]: int(link[2]) for link in links}


@dataclass(frozen=True, slots=True)
class Route:
    """One row of the kernel's table."""

    device: str
    network: ipaddress.IPv4Network
    gateway: bool


def kernel_routes(table: str) -> Iterator[Route]:
    """The rows of /proc/net/route."""
    for line in table.splitlines()[1:]:
        fields = line.split()
        base, mask = (int(fields[n], 16).to_bytes(4, "little") for n in (1, 7))
        network = ipaddress.IPv4Network((base, ipaddress.IPv4Address(mask).exploded))
        yield Route(fields[0], network, gateway=bool(int(fields[2], 16)))


def _kernel_routes(table: str) -> tuple[Route, ...]:
    return tuple(kernel_routes(table))


def local_addresses(trie: str) -> list[str]:
    """The machine's own addresses out of /proc/net/fib_trie."""
    last = ""
    local: list[str] = []
    for line in trie.splitlines():
        fields = line.split()
        if fields[:1] == ["|--"]:
            last = fields[1]
        elif fields == ["/32", "host", "LOCAL"] and last not in local:
            local.append(last)
    return local


def _nics(answer: str) -> list[tuple[str, str, int, int]]:
    """Name, ``device`` or ``virtual``, speed and MTU of each interface."""
    rows = (line.split() for line in answer.splitlines())
    return [(name, kind, int(speed), int(mtu)) for name, kind, speed, mtu in rows]


ADDRESSES: Final = Question(
    "addresses", sh("if command -v ip >/dev/null; then ip -o -4 addr show; fi"), addresses
)
LINKS: Final = Question(
    "links", sh("if command -v ip >/dev/null; then ip -o link show up; fi"), mtus
)


@dataclass(frozen=True, slots=True)
class DefaultRoute:
    """Where packets to elsewhere go.

    Attributes:
        source: the address that they come from; "" where the route names none.
        device: the interface; "" for no such route.
    """

    source: str
    device: str


def default_route(answer: str) -> DefaultRoute:
    """The first route of ``ip -o -4 route show default``.

    Raises:
        ValueError: its source is not an address.
    """
    source = re.search(r"\bsrc (\S+)", answer)
    device = re.search(r"\bdev (\S+)", answer)
    return DefaultRoute(_ipv4(source[1]) if source else "", device[1] if device else "")


def _ipv4(text: str) -> str:
    return str(ipaddress.IPv4Address(text))


DEFAULT: Final = Question(
    "default",
    sh("if command -v ip >/dev/null; then ip -o -4 route show default; fi"),
    default_route,
)
ROUTES: Final = Question(
    "routes", sh("if ! command -v ip >/dev/null; then cat /proc/net/route; fi"), _kernel_routes
)
TRIE: Final = Question(
    "trie", sh("if ! command -v ip >/dev/null; then cat /proc/net/fib_trie; fi"), local_addresses
)
NICS: Final = Question(
    "nics",
    sh(
        """\
for d in /sys/class/net/*; do
  s=0 m=1500 k=virtual
  [ ! -e "$d/device" ] || k=device
  {{ read -r s <"$d/speed"; read -r m <"$d/mtu"; }} 2>/dev/null
  echo "${{d##*/}} $k ${{s:-0}} ${{m:-1500}}"
done"""
    ),
    _nics,
)
CONNECTION: Final = Question("connection", sh('echo "$SSH_CONNECTION"'), str.split)


def _strict_addresses(answer: str) -> tuple[tuple[str, ipaddress.IPv4Interface], ...]:
    return addresses(answer, strict=True)


_STRICT: Final = replace(ADDRESSES, parse=_strict_addresses)
# Without iproute2 (many containers, pods among them) the kernel's own tables hold the same.
QUESTIONS: Final = (
    DEFAULT,
    ADDRESSES,
    ROUTES,
    TRIE,
    NICS,
    CONNECTION,
)


@dataclass(frozen=True, slots=True)
class Interface:
    """One network interface as the kernel lists it."""

    name: str
    addresses: tuple[str, ...]
    speed: int
    mtu: int


def interfaces(parts: Answers) -> tuple[Interface, ...]:
    """Interfaces that are devices or have an address; not lo, not the veths of other containers."""
    known = _by_interface(parts)
    nics: list[Interface] = []
    for name, kind, speed, mtu in NICS.read(parts):
        own = tuple(known.get(name, ()))
        if name != "lo" and (own or kind == "device"):
            nics.append(Interface(name, own, max(0, speed), mtu))
    return tuple(nics)


def _by_interface(parts: Answers) -> dict[str, list[str]]:
    listed: dict[str, list[str]] = {}
    for name, own in _STRICT.read(parts):
        listed.setdefault(name, []).append(str(own.ip))
    return listed or _addresses_of_kernel(parts)


def _addresses_of_kernel(parts: Answers) -> dict[str, list[str]]:
    """Addresses by interface from fib_trie (local addresses) and route (whose network it is)."""
    local = TRIE.read_or_empty(parts)
    listed: dict[str, list[str]] = {}
    for name, network in _own_networks(parts):
        if network.prefixlen:
            inside = [a for a in local if ipaddress.IPv4Address(a) in network]
            listed.setdefault(name, []).extend(inside)
    return listed


def _own_networks(parts: Answers) -> Iterator[tuple[str, ipaddress.IPv4Network]]:
    """Networks that are reached directly, and those of default routes."""
    for route in ROUTES.read_or_empty(parts):
        if not route.gateway or not route.network.prefixlen:
            yield route.device, route.network


def address(parts: Answers, nics: tuple[Interface, ...]) -> str:
    """The control network's address: as ssh was reached, else by default.

    "" when the machine has no IPv4 address but loopback.
    """
    own = [a for nic in nics for a in nic.addresses]
    reached = CONNECTION.read_or_empty(parts)
    if len(reached) == 4 and reached[2] in own:  # noqa: PLR2004  # behind NAT it is another's
        return reached[2]
    default = DEFAULT.read(parts)
    if default.source:
        return default.source
    name = default.device or _default_of_kernel(parts)
    first = [a for nic in nics if nic.name == name for a in nic.addresses]
    return (first or own or [""])[0]


def _default_of_kernel(parts: Answers) -> str:
    for name, network in _own_networks(parts):
        if not network.prefixlen:
            return name
    return ""
