"""A machine's own name and those of its peers, and cloud-init kept off them. Pure.

A file in cloud.cfg.d sets it and wins over the image's own. It does not win over the user-data that
the machine was made with (cloud-init 25.1, seen): with ``manage_etc_hosts: true`` there, each boot
writes /etc/hosts from a template, the machine's own name on 127.0.1.1 first (F06). So a unit behind
cloud-init writes the managed block again.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from corral import agents
from corral.hosts.quote import Script, call, join, sh, shipped
from corral.spec.impacts import Impact
from corral.state.base import Change, Context, Resource, Seen, Standalone
from corral.state.files import File
from corral.state.service import Service

BEGIN = "# corral begin: managed block, changes inside are overwritten"
END = "# corral end"
BOOT: Final = "/etc/tmpfiles.d/corral-hostname.conf"


def own_name(name: str) -> tuple[Resource, ...]:
    """What gives a machine its name, at each boot too.

    systemd drops each "_" of /etc/hostname as it starts (257, hostname_cleanup), and slurmd then
    finds no NodeName that matches.
    """
    if "_" not in name:
        return (Hostname(name),)
    line = f"w /proc/sys/kernel/hostname - - - - {name}\n"
    return (Hostname(name), File(BOOT, line))


@dataclass(frozen=True, slots=True)
class Hostname(Standalone):
    """The machine's persistent host name."""

    name: str

    @property
    def id(self) -> str:
        return "hostname"

    def probe(self) -> Script:
        """The running name and the one in /etc/hostname."""
        return sh('echo "$(uname -n) $(cat /etc/hostname 2>/dev/null)"')

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Compare both names. A running change would confuse slurmd: impact restart."""
        running, _, kept = seen.text.partition(" ")
        if running == self.name and kept.strip() == self.name:
            return None
        impact = Impact.NONE if running == self.name else Impact.RESTART
        # In place: /etc/hostname is a bind mount in containers (F65 is the same for /etc/hosts).
        return Change(
            self.id,
            f"host name {self.name}",
            seen.text,
            self.name,
            call(
                "state/machine.sh",
                "name_keep",
                self.name,
                # What sets a name with "_" at each boot is a separate file.
                *([] if "_" in self.name else [BOOT]),
            ),
            impact,
        )


@dataclass(frozen=True)
class HostsBlock(Standalone):
    """A managed block in /etc/hosts, and no own name on 127.x (F06).

    Attributes:
        entries: (address, name) of every node.
        path: the hosts file.
    """

    entries: tuple[tuple[str, str], ...]
    path: str = "/etc/hosts"

    @property
    def id(self) -> str:
        return "hosts"

    @cached_property
    def block(self) -> str:
        """The lines between the markers, markers included."""
        lines = [f"{address}\t{name}" for address, name in self.entries]
        return "\n".join([BEGIN, *lines, END])

    @cached_property
    def digest(self) -> str:
        """Sha256 of the block and a last newline."""
        return hashlib.sha256(f"{self.block}\n".encode()).hexdigest()

    def probe(self) -> Script:
        """Digest of the block found, and lines that put the machine's own name on 127.x."""
        return call("state/machine.sh", "hosts_probe", self.path)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Compare block and 127.x lines."""
        first, _, loopback = seen.text.partition("\n")
        if first == self.digest and not loopback:
            return None
        return Change(
            self.id,
            f"names of {len(self.entries)} nodes in /etc/hosts"
            + (", own name off 127.x" if loopback else ""),
            loopback,
            self.block,
            self.write(),
        )

    def write(self) -> Script:
        """Shell that makes it so."""
        return join([self._values, shipped("hosts-block.sh")])

    @property
    def _values(self) -> Script:
        return sh("path={path} block={block}", path=self.path, block=self.block)

    def program(self) -> str:
        """The same as a program that a machine keeps."""
        text = agents.program("hosts-block.sh").removeprefix("#!/bin/sh\n")
        return f"#!/bin/sh\n# Written by Corral: the cluster's names.\n{self._values}\n{text}"


CONF: Final = "/etc/cloud/cloud.cfg.d/99-corral.cfg"
PROGRAM: Final = "/usr/local/sbin/corral-hosts"
UNIT: Final = "/etc/systemd/system/corral-hosts.service"

CONF_TEXT: Final = """\
# Written by Corral: host name and /etc/hosts are the cluster's.
preserve_hostname: true
manage_etc_hosts: false
"""
# cloud-init.service is called cloud-init-network.service from 24.3 on. Daemons of Slurm look up
# names when they start.
_UNIT_TEXT: Final = f"""\
# Written by Corral: the cluster's names in /etc/hosts, after cloud-init wrote its own.
[Unit]
Description=Names of the Corral cluster in /etc/hosts
After=cloud-init.service cloud-init-network.service
Before=slurmctld.service slurmdbd.service slurmd.service sackd.service munge.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={PROGRAM}

[Install]
WantedBy=multi-user.target
"""


def kept_off(hosts: HostsBlock) -> tuple[Resource, ...]:
    """What a machine with cloud-init holds beyond its hosts file."""
    return (
        File(CONF, CONF_TEXT),
        File(PROGRAM, hosts.program(), mode="755"),
        File(UNIT, _UNIT_TEXT),
        Service("corral-hosts", (PROGRAM, UNIT), impact=Impact.NONE),
    )
