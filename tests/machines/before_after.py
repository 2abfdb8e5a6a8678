"""Everything of a machine that Corral could leave changed, as sections of lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.machines.lab.labs import Machine

OWNERS: Final = r"""
mkdir -p /etc/default
printf 'SLURMD_OPTIONS="-v" # the owner'"'"'s\n' > /etc/default/slurmd
chmod 640 /etc/default/slurmd
echo '10.0.0.5 printer # the owner'"'"'s' >> /etc/hosts
id owner >/dev/null 2>&1 || useradd -m -u 1500 owner
"""
"""What the owner of machine 1 has there before Corral comes."""

SNAPSHOT: Final = r"""
echo "# etc"
find /etc -xdev -type f -exec stat -c '%n %a %U:%G' {} + | sort
find /etc -xdev -type f -exec sha256sum {} + | sort -k2
find /etc -xdev ! -type f -printf '%p %y %m %u:%g %l\n' | sort
echo "# paths"
find /var /srv /opt /home /root /usr/local -xdev -maxdepth 3 | sort
echo "# packages"; dpkg-query -W -f '${db:Status-Abbrev} ${Package} ${Version}\n' | sort
echo "# auto"; apt-mark showauto | sort
echo "# hold"; apt-mark showhold
echo "# passwd"; getent passwd
echo "# group"; getent group
echo "# shadow"; cut -d: -f1,2 /etc/shadow
echo "# units"; systemctl list-unit-files --no-legend --no-pager | awk '{print $1,$2}' | sort
echo "# active"
systemctl list-units --no-legend --no-pager --plain --type=service,socket,timer,mount \
  --state=active | awk '{print $1,$4}' | sort
echo "# hostname"; uname -n; cat /etc/hostname
echo "# mounts"; awk '{print $1,$2,$3,$4}' /proc/mounts | sort
echo "# processes"; ps -eo user:32,comm --no-headers | awk '{print $1,$2}' | sort -u
echo "# listening"; ss -ltnH | awk '{print $4}' | sort
"""

MAY_DIFFER: Final = {
    # shadow-utils and ldconfig keep the last version, and a cache, of what they write.
    "etc": r"/etc/(passwd|group|shadow|gshadow|subuid|subgid)-|/etc/ld\.so\.cache|/etc/\.pwd\.lock",
    # Logs, caches, and what dpkg, apt, ucf and systemd remember; what Corral keeps on purpose.
    "paths": r"/var/(log|cache|tmp)/|/var/lib/(apt|dpkg|ucf|systemd)(/|$)|/root/\.ssh|"
    r"/var/backups/(corral-|dpkg|apt|alternatives)|/home/(alice|bob)",
    # Login sessions and a service's idle workers come and go.
    "active": r"^(session-|user@|user-runtime-dir@|run-user-|systemd-(hostnamed|timedated)|apt-|"
    r"dpkg-|sshd-keygen|systemd-(journal-catalog-update|sysusers|update-done)|"
    r"logrotate|man-db|fstrim|e2scrub)",
    # A machine that was switched off and on has a little more or less memory for /run.
    "mounts": r"/run/user/|^tmpfs /run ",
    "units": r"^session-.* transient$",
    "processes": r" (kworker|dio/|sshd|ps|awk|sort|sh|sudo|bash|\(sd-pam\)|systemd|jbd2|ext4|"
    r"systemd-(hostnam|timedat|executo).*|mld|find|stat|sftp-server|dpkg|apt)",
}


def sections(text: str) -> dict[str, set[str]]:
    """The snapshot's lines by section."""
    lines_by_section: dict[str, set[str]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("# "):
            name = line[2:]
            lines_by_section[name] = set()
        elif name:
            lines_by_section[name].add(line)
    return lines_by_section


def differences(before: str, after: str) -> list[str]:
    """What is not as it was, ``MAY_DIFFER`` left out."""
    old, new = sections(before), sections(after)
    assert old.keys() == new.keys()
    assert all(old[name] for name in ("etc", "paths", "packages", "passwd", "units", "processes"))
    changes: list[str] = []
    for name in old:
        allowed = re.compile(MAY_DIFFER.get(name, r"\A\Z(?!)"))
        for sign, lines in (("-", old[name] - new[name]), ("+", new[name] - old[name])):
            changes += [
                f"{name} {sign} {line}" for line in sorted(lines) if not allowed.search(line)
            ]
    return changes


def snapshot(machine: Machine) -> str:
    """All of it, now."""
    return machine.root(SNAPSHOT, timeout=240)
