"""Questions about a machine itself: clock, names, users, network, devices, kernel, firewall."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from corral.hosts.quote import Script, defined, sh
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
HOSTNAME: Final = Question("hostname", sh("uname -n"), str.strip)
USERS: Final = Question(
    "uids",
    sh('for u in slurm munge; do printf \'%s %s\\n\' "$u" "$(id -u "$u" 2>/dev/null)"; done'),
    pairs,
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
LOAD: Final = Question("load", sh("cut -d' ' -f1 /proc/loadavg"), load)
"""Processes that ran or waited in the last minute, on average."""
_SOCKET: Final = re.compile(r"^\s*\d+: ([0-9A-F]+):([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]+ 0A", re.M)


def listening(answer: str) -> tuple[tuple[str, int], ...]:
    """Listening sockets: (address in the kernel's hex, port)."""
    return tuple((address, int(port, 16)) for address, port in _SOCKET.findall(answer))


LISTENING: Final = Question(
    "listen", sh("cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | sed -n '/ 0A /p'"), listening
)


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


NAMES: Final = Answer("names", pairs)


def names(hosts: Sequence[str]) -> Question[dict[str, str]]:
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


PORTS: Final = Answer("ports", pairs)


def ports(targets: Sequence[tuple[str, int]]) -> Question[dict[str, str]]:
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


DIRECTORY: Final = Answer("directory", lines)


def directory(declared: Directory) -> Question[list[str]]:
    """What servers of the directory of people and SSSD answer: ``NAME WORD SENTENCE`` each."""
    return DIRECTORY.by(answers(declared))
