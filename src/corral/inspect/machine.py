"""Questions about a machine itself: clock, names, users, network, devices, kernel, firewall."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from corral.hosts.quote import Script, call, defined, sh
from corral.inspect.question import Answer, Question, lines, pairs, text
from corral.spec.sections.directory import Directory
from corral.state.network.firewall import PROGRAM
from corral.state.system.directory import answers

AT_ONCE: Final = 64
"""Commands that may each wait for a network: names of a dead DNS, ports that a firewall drops."""

NAME_S: Final = 10
"""Seconds for one name."""
NO_ANSWER: Final = "?"


def seconds(answer: str) -> float | None:
    """Unix time; None for anything else."""
    return float(answer) if re.fullmatch(r"\s*\d+\.\d+\s*", answer) else None


def load(answer: str) -> float | None:
    """A number; None for anything else."""
    try:
        return float(answer)
    except ValueError:
        return None


CLOCK: Final = Question("clock", sh("date +%s.%N"), seconds)
"""Asked first, before anything slow."""


@dataclass(frozen=True, slots=True)
class HostName:
    """What a machine calls itself.

    Attributes:
        full: as it is set.
        short: without a domain.
    """

    full: str
    short: str


def host_name(answer: str) -> HostName:
    """Read ``uname -n``."""
    full = answer.strip().partition("\n")[0]
    return HostName(full, full.partition(".")[0])


def user_ids(answer: str) -> dict[str, int]:
    """The uid of each user that is there, from lines ``NAME UID``."""
    return {user: int(uid) for user, uid in pairs(answer).items() if uid.isdecimal()}


HOSTNAME: Final = Question("hostname", sh("uname -n"), host_name)
USERS: Final = Question(
    "uids",
    sh('for u in slurm munge; do printf \'%s %s\\n\' "$u" "$(id -u "$u" 2>/dev/null)"; done'),
    user_ids,
)
OPEN_KEYS: Final = Question(
    "open_keys",
    sh(
        """h=$(getent passwd "${{SUDO_USER:-$(id -un)}}" | cut -d: -f6)
for k in "$h"/.ssh/id_*; do case $k in *.pub) ;; *)
  if [ -f "$k" ] && ssh-keygen -y -P '' -f "$k" >/dev/null 2>&1; then echo "$k"; fi;;
esac; done"""
    ),
    str.splitlines,
)
"""SSH keys without a passphrase, of who logged in."""
FIREWALL: Final = Question(
    "own-rules", sh("if [ -x {program} ]; then {program} check; fi", program=PROGRAM), str.strip
)
"""Whether Corral's own rules are still in the firewall."""
DRIVER: Final = Question(
    "driver",
    sh("if command -v nvidia-smi >/dev/null; then timeout 20 nvidia-smi -L 2>&1; fi"),
    text,
)
# The kernel names files and processes of users, line ends in their names too. A message begins
# after the kernel's own time; journalctl puts blanks before its further lines.
_MESSAGES: Final = sh("sed -n 's/^\\[ *[0-9]*\\.[0-9]*\\] [^ ]* kernel: //p'")
KERNEL_LOG: Final = Question(
    "kernel-log",
    # A container's kernel log is its host's: what happened there is not this node's.
    sh(
        "if ! systemd-detect-virt -cq 2>/dev/null; then"
        " journalctl -k --since -1h --no-pager -o short-monotonic 2>/dev/null | {message} | grep -E"
        " 'Xid|NVRM|nouveau|Out of memory|oom-kill|read-only|nfs: server|No space|EDAC MC.* UE '"
        " | tail -n 40; fi",
        message=_MESSAGES,
    ),
    text,
)


@dataclass(frozen=True, slots=True)
class Fitness:
    """Whether a new machine can take work.

    Attributes:
        gpus: how many of its GPUs answer; None where the machine has another fault.
        fault: what is wrong with it; "" where only the GPUs count.
    """

    gpus: int | None
    fault: str


def fitness(answer: str) -> Fitness:
    """Read ``gpus COUNT``, or a fault."""
    printed = answer.strip()
    count = re.fullmatch(r"gpus (\d+)", printed)
    return Fitness(int(count[1]), "") if count else Fitness(None, printed)


FITNESS: Final = Question("fitness", call("gates/slurm.sh", "machine_fault"), fitness)
"""Whether systemd runs, there is room, and GPUs answer, each of them to a program."""
LOAD: Final = Question("load", sh("cut -d' ' -f1 /proc/loadavg"), load)
"""Processes that ran or waited in the last minute, on average."""
_LISTEN: Final = "0A"
"""TCP_LISTEN of the kernel's net/tcp_states.h."""
_FIELDS: Final = 8


@dataclass(frozen=True, slots=True)
class ListeningSocket:
    """A TCP socket that takes connections.

    Attributes:
        address: where.
        port: its port.
        uid: whose it is.
    """

    address: IPv4Address | IPv6Address
    port: int
    uid: int

    @property
    def is_loopback(self) -> bool:
        """Whether it takes connections of the machine itself alone."""
        mapped = self.address.ipv4_mapped if isinstance(self.address, IPv6Address) else None
        return (mapped or self.address).is_loopback


def listening(answer: str) -> tuple[ListeningSocket, ...] | None:
    """Listening sockets, from the kernel's tables; None where one of them cannot be read."""
    rows = (line.split() for line in answer.split("\n"))
    try:
        return tuple(_socket(row) for row in rows if len(row) >= _FIELDS and row[3] == _LISTEN)
    except (ValueError, struct.error):
        return None


def _socket(row: Sequence[str]) -> ListeningSocket:
    text, _, port = row[1].partition(":")
    # The kernel prints 32-bit words in the byte order of the node, which is little-endian on all
    # machines that Slurm's packages are built for.
    words = struct.unpack(f">{len(text) // 8}I", bytes.fromhex(text))
    address = ip_address(struct.pack(f"<{len(words)}I", *words))
    return ListeningSocket(address, int(port, 16), int(row[7]))


LISTENING: Final = Question(
    "listen", sh("cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | sed -n '/ 0A /p'"), listening
)
"""TCP sockets that take connections, of both families where there are two; needs no root."""


def uid_of(user: str) -> Question[int | None]:
    """The number of a user; fails where there is none."""
    return Question("user-id", sh("id -u {user}", user=user), _number)


def _number(answer: str) -> int | None:
    return int(answer) if answer.strip().isdecimal() else None


def refusal(answer: str) -> str | None:
    """What a command printed that was refused, "" where it printed nothing."""
    printed = lines(answer)
    if printed[-1:] != ["refused"]:
        return None
    return printed[0] if len(printed) > 1 else ""


USER_NAMESPACES: Final = Question(
    "userns",
    sh(
        "{function}\nnobody_unshares 2>&1 || echo refused",
        function=defined("state/containers.sh", "nobody_unshares"),
    ),
    refusal,
)
"""Why nobody may make a user namespace; None where it may."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a name means on a machine.

    Attributes:
        addresses: its IPv4 addresses there, in the resolver's order.
        late: the resolver did not answer in time.
    """

    addresses: tuple[IPv4Address, ...] = ()
    late: bool = False


def resolved(answer: str) -> dict[str, Resolved]:
    """What each name means, from lines ``NAME ADDRESS...``."""
    return {
        name: Resolved(tuple(filter(None, map(ipv4_address, words))), late=NO_ANSWER in words)
        for name, addresses in pairs(answer).items()
        for words in [addresses.split()]
    }


def ipv4_address(text: str) -> IPv4Address | None:
    try:
        return IPv4Address(text)
    except ValueError:
        return None


NAMES: Final = Answer("names", resolved)


def names(hosts: Sequence[str]) -> Question[dict[str, Resolved]]:
    """The IPv4 addresses of each name, ``NO_ANSWER`` for one that takes too long; many at once."""
    return NAMES.by(
        sh(
            "{{ i=0; for n in {names}; do {{"
            ' a=$(timeout {limit} getent ahostsv4 "$n"); [ $? -ne 124 ] || a="{unknown} STREAM";'
            ' printf \'%s %s\\n\' "$n" "$(printf \'%s\\n\' "$a" |'
            " sed -n 's/ *STREAM.*//p' | tr '\\n' ' ')\"; }} &"
            " i=$((i + 1)); [ $((i % {batch})) -ne 0 ] || wait; done; wait; }} | sort",
            names=list(hosts),
            batch=AT_ONCE,
            limit=NAME_S,
            unknown=Script(NO_ANSWER),
        ),
    )


@dataclass(frozen=True, slots=True)
class Reached:
    """Whether a machine reaches a port.

    Attributes:
        address: of the machine that has it.
        port: TCP port.
        is_open: it does.
    """

    address: str
    port: int
    is_open: bool


def reached(answer: str) -> tuple[Reached, ...]:
    """Ports, from lines ``ADDRESS:PORT open`` or ``closed``."""
    rows = re.findall(r"^(\S+):(\d{1,5}) (open|closed)$", answer, re.MULTILINE)
    return tuple(Reached(address, int(port), state == "open") for address, port, state in rows)


PORTS: Final = Answer("ports", reached)


def ports(targets: Sequence[tuple[str, int]]) -> Question[tuple[Reached, ...]]:
    """Which of these addresses and ports the machine reaches: ``ADDRESS:PORT open`` or closed.

    Asked only when something is wrong: Slurm's daemons log an error for each connection that sends
    nothing.
    """
    # bash opens TCP connections without other programs; every Debian and Ubuntu has it. Many at
    # once: each port that a firewall drops, or of a machine that is off, takes the 5 s.
    return PORTS.by(
        sh(
            "{{ n=0; for t in {targets}; do {{"
            ' if timeout 5 bash -c {probe} "${{t%:*}}" "${{t##*:}}" 2>/dev/null;'
            ' then echo "$t open"; else echo "$t closed"; fi; }} &'
            " n=$((n + 1)); [ $((n % {batch})) -ne 0 ] || wait; done; wait; }} | sort",
            targets=[f"{address}:{port}" for address, port in targets],
            probe=": </dev/tcp/$0/$1",
            batch=AT_ONCE,
        ),
    )


@dataclass(frozen=True, slots=True)
class DirectoryAnswer:
    """What a server of the directory of people answered, or SSSD about a group.

    Attributes:
        name: URI of the server, name of the group.
        server: it is a server.
        good: it answers, the group is known.
        unknown: SSSD does not know the group.
        text: the reason otherwise.
        shown: all of it for people.
    """

    name: str
    server: bool
    good: bool
    unknown: bool
    text: str
    shown: str


def directory_answers(answer: str) -> tuple[DirectoryAnswer, ...]:
    """What each server and group is, from lines ``NAME WORD SENTENCE``."""
    rows = [(line, *[*line.split(" ", 2), "", ""][:3]) for line in lines(answer)]
    return tuple(
        DirectoryAnswer(name, "://" in name, word == "ok", word == "unknown", text or word, line)
        for line, name, word, text in rows
    )


DIRECTORY: Final = Answer("directory", directory_answers)


def directory(declared: Directory) -> Question[tuple[DirectoryAnswer, ...]]:
    """What servers of the directory of people and SSSD answer."""
    return DIRECTORY.by(answers(declared))
