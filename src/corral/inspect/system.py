"""Questions about the system itself: OS, kernel, init, cgroups, boot, firewall; for facts. Pure.

Functions here raise ValueError on nonsense; ``facts.parse_facts`` makes it a CorralError.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from corral.hosts.quote import call, sh
from corral.inspect.question import Question


@dataclass(frozen=True, slots=True)
class System:
    """ID, VERSION_ID (rolling releases have none: "") and PRETTY_NAME of os-release."""

    id: str
    version: str
    name: str


def os_release(answer: str) -> System:
    """What the operating system is.

    Raises:
        ValueError: os-release does not name it.
    """
    fields = release_fields(answer)
    if not fields.get("ID"):
        raise ValueError("os-release has no ID")
    return System(fields["ID"], fields.get("VERSION_ID", ""), fields.get("PRETTY_NAME", ""))


def release_fields(text: str) -> dict[str, str]:
    """Keys and values of os-release(5), whose values are quoted as in a shell."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, assigned, value = line.partition("=")
        if assigned and not key.startswith("#"):
            fields[key.strip()] = " ".join(shlex.split(value))
    return fields


CgroupMode = Literal["v1", "hybrid", "v2", "none"]


def hierarchies(answer: str) -> dict[str, str]:
    """Kinds of file system by the folders where cgroups are mounted."""
    kinds: dict[str, str] = {}
    # Users mount by FUSE: the kernel escapes line feeds and blanks of their names, and no others.
    for line in answer.split("\n"):
        fields = line.split(" ")
        if len(fields) > 2 and fields[1].startswith("/sys/fs/cgroup"):  # noqa: PLR2004
            kinds[fields[1]] = fields[2]
    return kinds


def cgroup(answer: str) -> CgroupMode:
    """v1, hybrid (version 2 next to version 1 controllers), v2, or none."""
    kinds = set(hierarchies(answer).values())
    if "cgroup2" in kinds:
        return "hybrid" if "cgroup" in kinds else "v2"
    return "v1" if "cgroup" in kinds else "none"


def _booted_by_systemd(answer: str) -> bool:
    words = answer.split()
    return words[:1] in (["systemd"], ["init"]) and "booted" in words


def _is(word: str) -> Callable[[str], bool]:
    def is_word(answer: str) -> bool:
        return answer.split()[:1] == [word]

    return is_word


Firewall = Literal["", "ufw", "firewalld", "nftables", "iptables"]
_FIREWALLS: Final[Mapping[str, Firewall]] = MappingProxyType(
    {"ufw": "ufw", "firewalld": "firewalld", "nftables": "nftables", "iptables": "iptables"}
)


def firewall(answer: str) -> Firewall:
    """The firewall that is on; "" when none is."""
    return _FIREWALLS.get(answer.strip(), "")


def host_key(answer: str) -> str:
    """Type and public key by which its sshd is known; "" where it has none that can be one."""
    text = answer.strip()
    return text if re.fullmatch(r"ssh-ed25519 [A-Za-z0-9+/]{68}={0,2}", text) else ""


# ufw itself takes half a second to print its one setting. nft: a chain that drops, by its policy or
# by its last rule, is a firewall that is on.
FIREWALL: Final = Question(
    "firewall",
    sh(
        """\
if grep -q '^ENABLED=yes' /etc/ufw/ufw.conf 2>/dev/null; then echo ufw
elif command -v firewall-cmd >/dev/null && firewall-cmd --state >/dev/null 2>&1; then echo firewalld
elif command -v nft >/dev/null; then
  nft list ruleset 2>/dev/null | awk '
    /hook input/ {{ inside = 1; last = /policy drop/ ? "drop" : "" ; next }}
    inside && $1 == "}}" {{ if (last ~ /(drop|reject)( |$)/) on = 1; inside = 0 }}
    inside {{ if (last != "drop" || /drop|reject/) last = $0 }}
    END {{ if (on) print "nftables" }}'
elif command -v iptables >/dev/null; then
  iptables -S INPUT 2>/dev/null | grep -qE '^-P INPUT DROP|^-A INPUT -j (DROP|REJECT)' &&
    echo iptables
fi"""
    ),
    firewall,
)
OS: Final = Question(
    "os", sh("grep -E '^(ID|VERSION_ID|PRETTY_NAME)=' /etc/os-release"), os_release
)
KERNEL: Final = Question("kernel", sh("uname -r"), str.strip)
SYSTEMD: Final = Question(
    "pid1", sh("cat /proc/1/comm; [ ! -d /run/systemd/system ] || echo booted"), _booted_by_systemd
)
"""PID 1 is systemd and it booted the machine (sd_booted(3))."""
CGROUP: Final = Question("mounts", sh("grep cgroup /proc/self/mounts"), cgroup)
SWAP_LIMIT: Final = Question(
    "swap",
    sh(
        """\
for f in /sys/fs/cgroup/memory/memory.memsw.limit_in_bytes /sys/fs/cgroup/*/memory.swap.max; do
  if [ -e "$f" ]; then echo accounted; break; fi
done"""
    ),
    _is("accounted"),
)
"""The kernel can limit a job's swap."""
SECURE_BOOT: Final = Question(
    "secureboot",
    sh(
        """\
for f in /sys/firmware/efi/efivars/SecureBoot-*; do
  [ ! -r "$f" ] || od -An -tu1 -j4 -N1 "$f"
done"""
    ),
    _is("1"),
)
"""The firmware boots signed kernels only, which load signed modules only."""
CLOUD_INIT: Final = Question(
    "cloudinit", sh("[ ! -e /etc/cloud/cloud.cfg ] || echo yes"), _is("yes")
)
"""cloud-init is there, which may write host name and /etc/hosts at each boot."""
HOST_KEY: Final = Question(
    "sshdkey",
    sh("cut -d' ' -f1,2 /etc/ssh/ssh_host_ed25519_key.pub 2>/dev/null || :"),
    host_key,
)
QUESTIONS: Final = (
    OS,
    KERNEL,
    SYSTEMD,
    CGROUP,
    SWAP_LIMIT,
    SECURE_BOOT,
    CLOUD_INIT,
    FIREWALL,
    HOST_KEY,
)


UPDATE_MARK: Final = "/var/lib/corral/update"
"""On a node whose system is being updated, from before its packages until its proof."""


@dataclass(frozen=True, slots=True)
class PendingUpdate:
    """What a node's package source has for it.

    Attributes:
        packages: names of packages that are not held and have a newer version.
        reboot: its packages ask for a reboot.
        begun: an update of it has not ended yet.
        rebooted: it was rebooted since that began.
    """

    packages: tuple[str, ...]
    reboot: bool
    begun: bool
    rebooted: bool


def pending_update(answer: str) -> PendingUpdate:
    """What ``update_probe`` printed."""
    lines = answer.split("\n")
    packages = (line.partition(" ")[2] for line in lines if line.startswith("package "))
    return PendingUpdate(
        tuple(packages), "reboot" in lines, begun="begun" in lines, rebooted="rebooted" in lines
    )


UPDATES: Final = Question(
    "updates", call("node-update.sh", "update_probe", UPDATE_MARK), pending_update
)
