"""An unknown machine: its facts, and what a cluster file declares about it. Pure.

One script, one round trip: its clock, the questions for facts, and those of ``MORE``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import PurePosixPath
from typing import Final

from corral.hosts.framing import Inquiry
from corral.hosts.quote import call, sh
from corral.inspect import gpu, nvidia, question, system
from corral.inspect.facts import (
    QUESTIONS,
    Facts,
    parse_facts,
)
from corral.inspect.gpu import type_of, type_of_name
from corral.inspect.machine import CLOCK, HOSTNAME, ipv4_address
from corral.inspect.question import Answers, Question

NO_ROOM: Final = ("/boot", "/snap", "/etc/", "/run")


@dataclass(frozen=True, slots=True)
class Disk:
    """A mounted disk: where, size and free space in GB."""

    mount: str
    size_gb: int
    free_gb: int


def _line(answer: str) -> str:
    return answer.strip().partition("\n")[0]


def _takes_passwords(answer: str) -> bool:
    return _line(answer).endswith(" yes")


def _python(answer: str) -> str:
    return _line(answer).removeprefix("Python ")


def _words(answer: str) -> tuple[str, ...]:
    return tuple(answer.split())


def _own_addresses(answer: str) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses of lines of /etc/hosts."""
    words = (line.split(None, 1)[0] for line in answer.splitlines() if line.strip())
    return tuple(filter(None, map(ipv4_address, words)))


def _leased(answer: str) -> tuple[str, ...]:
    return tuple(re.findall(r" inet ([0-9.]+)/", answer))


def _people(answer: str) -> list[tuple[str, int, str]]:
    """Name, number and login shell of each person."""
    rows = re.findall(r"^(\S+) (\d+)(?: (.*))?$", answer, re.MULTILINE)
    return [(name, int(uid), shell) for name, uid, shell in rows]


def _disks(text: str) -> tuple[Disk, ...]:
    """Rows of ``df -P -k``; a disk that is mounted several times counts once."""
    disks: dict[str, Disk] = {}
    for row in text.splitlines():
        device, size, _, free, _, mount = [*row.split(None, 5), "", "", "", "", "", ""][:6]
        if size.isdecimal() and free.isdecimal() and not mount.startswith(NO_ROOM):
            disk = Disk(mount, int(size) * 1024 // 10**9, int(free) * 1024 // 10**9)
            disks.setdefault(device, disk)
    return tuple(sorted(disks.values(), key=lambda d: (-d.free_gb, d.mount)))


LOGIN: Final = Question("login", sh('echo "${{SUDO_USER:-$(id -un)}}"'), _line)
MODEL: Final = Question(
    "model", sh("sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1"), _line
)
WIRELESS: Final = Question(
    "wireless",
    sh(
        """\
for d in /sys/class/net/*; do
  if [ -e "$d/wireless" ] || [ -e "$d/phy80211" ]; then echo "${{d##*/}}"; fi
done"""
    ),
    _words,
)
# ip(8): "dynamic" addresses have a lifetime, which a DHCP client gave them.
LEASED: Final = Question(
    "leased", sh("ip -o -4 addr show scope global dynamic 2>/dev/null"), _leased
)
DISKS: Final = Question("disks", sh("df -P -k 2>/dev/null | grep '^/dev/'"), _disks)
OWN_NAME: Final = Question(
    "ownname", call("state/machine.sh", "own_name_lines", "/etc/hosts"), _own_addresses
)
"""The addresses of the machine's own name in /etc/hosts."""
PASSWORDS: Final = Question(
    "sshd",
    sh(
        """\
[ -d /run/sshd ] || mkdir -p -m 755 /run/sshd 2>/dev/null
sshd -T 2>/dev/null | grep -E '^passwordauthentication '"""
    ),
    _takes_passwords,
)
PYTHON: Final = Question(
    "python", sh("if command -v python3 >/dev/null; then python3 -V; fi"), _python
)
PEOPLE: Final = Question(
    "people", sh("awk -F: '$3 >= 1000 && $3 <= 60000 {{ print $1, $3, $7 }}' /etc/passwd"), _people
)
HOST_KEY: Final = Question(
    "hostkey", sh("cat /etc/ssh/ssh_host_ed25519_key.pub 2>/dev/null | cut -d' ' -f2"), _line
)
MORE: Final = (
    HOSTNAME,
    LOGIN,
    MODEL,
    WIRELESS,
    LEASED,
    DISKS,
    OWN_NAME,
    PASSWORDS,
    PYTHON,
    PEOPLE,
    HOST_KEY,
    nvidia.PROGRAMS,
    nvidia.AMD,
)


def discovery_inquiry() -> Inquiry:
    """The questions that ``parse`` needs answered."""
    return question.inquiry((CLOCK, *QUESTIONS, *MORE))


@dataclass(frozen=True, slots=True)
class DiscoveredMachine:
    """One machine as it answered.

    Attributes:
        at: the address it was asked by.
        facts: its facts.
        hostname: what it calls itself, without the domain.
        login: the account that logged in.
        system: the OS in words.
        processor: the processor's name.
        gpu: Slurm type of its GPUs, "" when it has none.
        gpus: how many.
        gpu_kinds: type and count of each, where they are of several types.
        on_bus: PCI addresses of its GPUs.
        listed: those that nvidia-smi lists.
        programs: paths of the driver's programs.
        amd: device files of AMD's driver for computing.
        wireless: Wi-Fi interfaces.
        leased: addresses of DHCP.
        disks: local disks, largest free space first.
        own_name: IPv4 addresses that its own name has in /etc/hosts.
        passwords: sshd takes passwords.
        python: version of its Python, "".
        people: login names and numbers of people.
        shells: their login shells by name.
        host_key: its Ed25519 host key, "".
        clock: its clock, in Unix seconds; None when it was not read.
    """

    at: str
    facts: Facts
    hostname: str
    login: str
    system: str
    processor: str
    gpu: str
    gpus: int
    gpu_kinds: tuple[tuple[str, int], ...]
    on_bus: tuple[str, ...]
    listed: tuple[str, ...]
    programs: tuple[PurePosixPath, ...]
    amd: tuple[str, ...]
    wireless: tuple[str, ...]
    leased: tuple[str, ...]
    disks: tuple[Disk, ...]
    own_name: tuple[IPv4Address, ...]
    passwords: bool
    python: str
    people: tuple[tuple[str, int], ...]
    shells: Mapping[str, str]
    host_key: str
    clock: float | None

    @property
    def nic(self) -> str:
        """The interface of the control network's address, "" when it is not known."""
        address = self.facts.address
        return next((n.name for n in self.facts.nics if address in n.addresses), "")

    @property
    def gbps(self) -> float:
        """Speed of that interface in Gb/s, 0 when it is not known."""
        return next((n.speed_mbps / 1000 for n in self.facts.nics if n.name == self.nic), 0.0)


def _kinds(types: list[str], count: int) -> tuple[tuple[str, int], ...]:
    """Types with their counts, where there are several and each GPU has one.

    Sorted: machines with the same GPUs in other slots are alike.
    """
    kinds = Counter(types)
    return tuple(sorted(kinds.items())) if len(kinds) > 1 and len(types) == count else ()


def parse(at: str, parts: Answers) -> DiscoveredMachine:
    """Take the answers to ``inquiry`` apart.

    Raises:
        CorralError: PARSE_FAILED.
    """
    facts = parse_facts(at, parts)
    cards = gpu.gpu_pci(parts)
    names = [device.name for device in facts.gpus if device.name]
    kinds = [type_of(card) for card in cards]
    if not all(kinds):
        kinds = [type_of_name(n) for n in names] or [f"nvidia-{card}" for card in cards]
    people = PEOPLE.read_or_empty(parts)
    return DiscoveredMachine(
        at=at,
        facts=facts,
        hostname=HOSTNAME.read_or_empty(parts).short.lower(),
        login=LOGIN.read_or_empty(parts),
        system=system.OS.read(parts).name,
        processor=MODEL.read_or_empty(parts),
        gpu=max(kinds, key=kinds.count, default=""),
        gpus=len(names) or len(cards),
        gpu_kinds=_kinds(kinds, len(names) or len(cards)),
        on_bus=gpu.gpu_addresses(parts),
        listed=gpu.listed_addresses(parts),
        programs=nvidia.PROGRAMS.read_or_empty(parts),
        amd=tuple(nvidia.AMD.read_or_empty(parts)),
        wireless=WIRELESS.read_or_empty(parts),
        leased=LEASED.read_or_empty(parts),
        disks=DISKS.read_or_empty(parts),
        own_name=OWN_NAME.read_or_empty(parts),
        passwords=PASSWORDS.read_or_empty(parts),
        python=PYTHON.read_or_empty(parts),
        people=tuple((name, uid) for name, uid, _ in people),
        shells={name: shell for name, _, shell in people if shell},
        host_key=HOST_KEY.read_or_empty(parts),
        clock=CLOCK.read_or_empty(parts),
    )
