"""What a machine nobody knows yet is: its facts, and what a cluster file is to say about it. Pure.

One script, one round trip: the facts script, and after it the sections of ``MORE``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from corral.hosts import readings
from corral.hosts.facts import FACTS, Facts, parse_clock, parse_facts
from corral.hosts.pci import type_of, type_of_name
from corral.hosts.quote import Script, join, sh

NO_ROOM: Final = ("/boot", "/snap", "/etc/", "/run")
NVIDIA: Final = "0x10de"

MORE: Final[Script] = sh(
    """\
echo '@@ hostname'; uname -n
echo '@@ login'; echo "${{SUDO_USER:-$(id -un)}}"
echo '@@ pretty'; sed -n 's/^PRETTY_NAME=//p' /etc/os-release
echo '@@ model'; sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1
echo '@@ pci'
for d in /sys/bus/pci/devices/*; do
  read -r c <"$d/class" && read -r v <"$d/vendor" && read -r i <"$d/device" || continue
  case $c in 0x0300*|0x0302*) echo "${{d##*/}} $v $i" ;; esac
done 2>/dev/null
echo '@@ wireless'
for d in /sys/class/net/*; do
  if [ -e "$d/wireless" ] || [ -e "$d/phy80211" ]; then echo "${{d##*/}}"; fi
done
echo '@@ disks'
df -P -k 2>/dev/null | grep '^/dev/'
echo '@@ ownname'
awk -v n="$(uname -n)" '$1 ~ /^127\\./ {{ for (i = 2; i <= NF; i++) if ($i == n) print $1 }}' \\
  /etc/hosts
echo '@@ firewall'
if command -v ufw >/dev/null && ufw status 2>/dev/null | grep -q '^Status: active'; then echo ufw
elif command -v nft >/dev/null && nft list ruleset 2>/dev/null | grep -q 'hook input'; then
  echo nftables
fi
echo '@@ sshd'
[ -d /run/sshd ] || mkdir -p -m 755 /run/sshd 2>/dev/null
sshd -T 2>/dev/null | grep -E '^passwordauthentication '
echo '@@ python'; if command -v python3 >/dev/null; then python3 -V; fi
echo '@@ people'
awk -F: '$3 >= 1000 && $3 <= 60000 {{ print $1, $3 }}' /etc/passwd
echo '@@ hostkey'
cat /etc/ssh/ssh_host_ed25519_key.pub 2>/dev/null | cut -d' ' -f2
echo '@@ finished'"""
)

SCRIPT: Final[Script] = join((FACTS, MORE))


@dataclass(frozen=True, slots=True)
class Disk:
    """A mounted disk: where, size and free space in GB."""

    mount: str
    size_gb: int
    free_gb: int


@dataclass(frozen=True, slots=True)
class Found:
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
        driver: nvidia-smi answers.
        wireless: Wi-Fi interfaces.
        disks: local disks, largest free space first.
        own_name: 127.x addresses its own name stands on.
        firewall: ufw or nftables where one is on.
        passwords: sshd takes passwords.
        python: version of its Python, "".
        people: login names and numbers of people.
        host_key: its Ed25519 host key, "".
        clock: its clock, in Unix seconds.
    """

    at: str
    facts: Facts
    hostname: str
    login: str
    system: str
    processor: str
    gpu: str
    gpus: int
    driver: bool
    wireless: tuple[str, ...]
    disks: tuple[Disk, ...]
    own_name: tuple[str, ...]
    firewall: str
    passwords: bool
    python: str
    people: tuple[tuple[str, int], ...]
    host_key: str
    clock: int

    @property
    def nic(self) -> str:
        """The interface of the control network's address, "" when it is not known."""
        address = self.facts.address
        return next((n.name for n in self.facts.nics if address in n.addresses), "")

    @property
    def gbps(self) -> float:
        """Speed of that interface in Gb/s, 0 when it is not known."""
        return next((n.speed_mbps / 1000 for n in self.facts.nics if n.name == self.nic), 0.0)


def parse(at: str, text: str) -> Found:
    """Take the answer of ``SCRIPT`` apart.

    Raises:
        CorralError: PARSE_FAILED.
    """
    facts = parse_facts(at, text)
    parts = readings.sections(text)
    devices = [line.split() for line in parts.get("pci", "").splitlines()]
    cards = [d[2].removeprefix("0x") for d in devices if len(d) > 2 and d[1] == NVIDIA]  # noqa: PLR2004
    names = [gpu.name for gpu in facts.gpus if gpu.name]
    kinds = [type_of(card) for card in cards]
    if not all(kinds):
        kinds = [type_of_name(n) for n in names] or [f"nvidia-{card}" for card in cards]
    line = _line(parts)
    return Found(
        at=at,
        facts=facts,
        hostname=line("hostname").partition(".")[0].lower(),
        login=line("login"),
        system=line("pretty").strip('"'),
        processor=line("model"),
        gpu=max(kinds, key=kinds.count, default=""),
        gpus=len(names) or len(cards),
        driver=bool(names),
        wireless=tuple(parts.get("wireless", "").split()),
        disks=_disks(parts.get("disks", "")),
        own_name=tuple(parts.get("ownname", "").split()),
        firewall=line("firewall"),
        passwords=line("sshd").endswith(" yes"),
        python=line("python").removeprefix("Python "),
        people=tuple(
            (name, int(uid))
            for name, uid in re.findall(r"^(\S+) (\d+)$", parts.get("people", ""), re.MULTILINE)
        ),
        host_key=line("hostkey"),
        clock=parse_clock(at, text),
    )


def _line(parts: readings.Sections) -> Callable[[str], str]:
    def line(name: str) -> str:
        return parts.get(name, "").strip().partition("\n")[0]

    return line


def _disks(text: str) -> tuple[Disk, ...]:
    """Rows of ``df -P -k``; a disk that is mounted several times counts once."""
    found: dict[str, Disk] = {}
    for row in text.splitlines():
        device, size, _, free, _, mount = [*row.split(None, 5), "", "", "", "", "", ""][:6]
        if size.isdecimal() and free.isdecimal() and not mount.startswith(NO_ROOM):
            disk = Disk(mount, int(size) * 1024 // 10**9, int(free) * 1024 // 10**9)
            found.setdefault(device, disk)
    return tuple(sorted(found.values(), key=lambda d: (-d.free_gb, d.mount)))
