"""Logins from node to node by the keys of the nodes (sshd's host-based authentication). Pure.

The client's ssh asks ssh-keysign, which is setuid root, to sign with the host's key that this user
is logged in here; sshd there knows the key. So people need no key of theirs on any machine. Nobody
but root reads a host's key, and ssh-keysign signs for its caller's name alone. sshd passes over
``shosts.equiv`` for root (rhosts.c, sshd(8)), and Corral's lines are not for those who may sudo.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from corral.hosts.quote import Script, call
from corral.hosts.target import SSH_PORT
from corral.plurals import plural
from corral.state.base import Change, Context, Seen, Standalone

# sshd and ssh read it behind ssh_known_hosts, which is the machine's own (ssh_config(5),
# GlobalKnownHostsFile; auth2-hostbased.c).
KNOWN_HOSTS: Final = "/etc/ssh/ssh_known_hosts2"
CLIENT: Final = "/etc/ssh/ssh_config.d/00-corral-host-based.conf"
DROP_IN: Final = "/etc/ssh/sshd_config.d/01-corral-host-based.conf"
HOSTS: Final = "/etc/ssh/shosts.equiv"
_PROGRAM: Final = "state/host-based.sh"
_MARK: Final = "# Written by Corral (access.between_nodes)."


@dataclass(frozen=True, slots=True)
class Host:
    """A node from which people log in: its name, address and public key, and its sshd's port."""

    name: str
    address: str
    key: str
    port: int = SSH_PORT

    @property
    def known(self) -> str:
        """Its line of known_hosts: ssh looks for another port with it, sshd without (sshd(8))."""
        names = [self.name, self.address]
        names += [] if self.port == SSH_PORT else [f"[{name}]:{self.port}" for name in names]
        return f"{','.join(names)} {self.key}\n"


@dataclass(frozen=True)
class HostBased(Standalone):
    """Who logs in to a node from others by their keys, and where it lets its users log in so.

    Attributes:
        hosts: all nodes that are trusted; none: people need keys of theirs.
        groups: of the cluster's people who may log in here so; none: it is only where they come
            from.
        never: users who may become root. Members of the group sudo are among them.
        person: one of the people, by whom sshd's reading of its config is tested.
    """

    hosts: tuple[Host, ...] = ()
    groups: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    person: str = ""

    @property
    def id(self) -> str:
        return "host-based"

    @cached_property
    def files(self) -> tuple[tuple[str, str], ...]:
        """Path and text of each, in the order in which they are written; "" for none."""
        known, client = self._client() if self.hosts else ("", "")
        server, hosts = self._server() if self.groups else ("", "")
        return ((KNOWN_HOSTS, known), (CLIENT, client), (DROP_IN, server), (HOSTS, hosts))

    def _client(self) -> tuple[str, str]:
        names = " ".join(f"{host.name} {host.address}" for host in self.hosts)
        known = "".join(host.known for host in self.hosts)
        client = f"EnableSSHKeysign yes\nHost {names}\n    HostbasedAuthentication yes\n"
        ports = [host for host in self.hosts if host.port != SSH_PORT]
        client += "".join(f"Host {h.name} {h.address}\n    Port {h.port}\n" for h in ports)
        return f"{_MARK}\n{known}", f"{_MARK}\n{client}"

    def _server(self) -> tuple[str, str]:
        users = ",".join(("*", *(f"!{name}" for name in self.never)))
        groups = ",".join((*self.groups, "!sudo", "!root"))
        server = (
            f"{_MARK}\nIgnoreUserKnownHosts yes\nMatch User {users} Group {groups}\n"
            "    HostbasedAuthentication yes\n    IgnoreRhosts yes\n"
        )
        # What sshd has read is known by the digest: the list is written behind its reload.
        digest = hashlib.sha256(server.encode()).hexdigest()
        # sshd compares with the address where it resolves no names (UseDNS no, its default).
        hosts = "".join(f"{h.name}\n{h.address}\n" for h in self.hosts)
        return server, f"{_MARK}\n# sshd: {digest}\n{hosts}"

    def probe(self) -> Script:
        """What each file is; whether sshd takes hosts' keys for a person, and for root."""
        paths = (path for path, _ in self.files)
        return call(_PROGRAM, "host_based_probe", self._tested, *paths)

    @property
    def _tested(self) -> str:
        return self.person if self.groups else ""

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Write all files where one differs or sshd does otherwise."""
        lines = seen.text.splitlines()
        digests, sshd = lines[: len(self.files)], lines[len(self.files) :]
        present = dict(zip((path for path, _ in self.files), digests, strict=False))
        foreign = [path for path, text in self.files if text and present.get(path) == "foreign"]
        if all(self._same(present.get(path, ""), text) for path, text in self.files) and (
            not self._tested or sshd == ["yes no"]
        ):
            return None
        words = [word for file in self.files for word in file]
        on = f"people log in from {plural(len(self.hosts), 'node')} without keys of theirs"
        return Change(
            self.id,
            f"ssh: {on if self.hosts else 'people need keys of theirs again from node to node'}",
            "\n".join(f"{path}: {digest}" for path, digest in present.items()),
            "\n".join(text for _, text in self.files),
            call(_PROGRAM, "host_based_put", self._tested, *words),
            keeps=tuple(f"file:{path}" for path, _ in self.files),
            refuses=f"{foreign[0]} is there, which Corral did not write: move it away, or leave "
            "access.between_nodes out"
            if foreign
            else "",
        )

    @staticmethod
    def _same(digest: str, text: str) -> bool:
        if not text:
            return digest in ("absent", "foreign")
        return digest == hashlib.sha256(text.encode()).hexdigest()
