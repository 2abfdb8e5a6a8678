"""Where a node is reached by SSH, and the client's command line that follows from it."""

from __future__ import annotations

import hashlib
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError
from corral.hosts import sudo
from corral.hosts.transport import REMOTE

# sun_path holds 108 bytes on Linux and 104 on macOS and the BSDs, a NUL among them; while ssh binds
# the socket it adds a dot and 16 characters (OpenSSH mux.c, muxserver_listen).
MAX_CONTROL_PATH: Final = 104 - 1 - 17
PERSIST_S: Final = 60
SSH_PORT: Final = 22

_ADDRESS: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:%-]*|::[0-9A-Fa-f:.%]*")
_USER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*\$?")

_COMMON: Final = {
    "BatchMode": "yes",
    "ClearAllForwardings": "yes",
    "ConnectionAttempts": "1",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "LogLevel": "ERROR",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
    "RequestTTY": "no",
    "ServerAliveCountMax": "3",
    "ServerAliveInterval": "10",
}


@dataclass(frozen=True, slots=True)
class SshTarget:
    """How one node is reached.

    With ``known_hosts`` the host key must be in that file, the cluster's own, under the node's
    name; and the user's ssh config is not read, unless ``user_config``. Without it the user's
    config, agent and known_hosts are used, and a new host's key is taken and remembered
    (``accept-new``).

    Args:
        address: IP address or name; where the user's ssh config is read also a Host of it.
        port: TCP port; 22 leaves it to the user's ssh config, where that is read.
        user: the account; any other than root uses sudo if ``privileged``. "" leaves it to ssh, for
            a jump host.
        key: private key file; None leaves the choice to ssh.
        known_hosts: the cluster's own known_hosts file.
        user_config: read the user's ssh config too, and use the user's agent (docs/decisions/0014).
        pin_new: take and pin the key of a node that has none in ``known_hosts`` yet.
        only_key: use ``key`` and no agent.
        options: more arguments for ssh, as ``("-o", "Ciphers=x")``; they win over Corral's.
        connect_timeout: seconds for TCP and key exchange.
        via: the jump host to go through (docs/decisions/0014); its own ``via`` is the one before.
        privileged: scripts run as root; False: as the user that logs in.
    """

    address: str
    port: int = SSH_PORT
    user: str = "root"
    key: Path | None = None
    known_hosts: Path | None = None
    user_config: bool = False
    pin_new: bool = False
    only_key: bool = True
    options: tuple[str, ...] = ()
    connect_timeout: int = 10
    via: SshTarget | None = None
    privileged: bool = True

    def __post_init__(self) -> None:
        """Refuse what ssh would take for an option, a URI or another user.

        Raises:
            CorralError: USAGE.
        """
        for what, value, pattern in (
            ("address", self.address, _ADDRESS),
            ("user", self.user, _USER),
        ):
            if not pattern.fullmatch(value) and (what, value) != ("user", ""):
                raise CorralError(
                    Code.USAGE,
                    f"{value!r} is not a valid {what} for ssh",
                    hint="use letters, digits, dots, colons and dashes",
                )

    @property
    def remote(self) -> str:
        """The one remote command there is; ``exec`` makes it work in csh and fish too."""
        plain = self.user == "root" or not self.privileged
        return self.unprivileged if plain else sudo.as_root(REMOTE)

    @property
    def unprivileged(self) -> str:
        """The remote command that runs a script as the user that logs in."""
        return f"exec /bin/sh -c {shlex.quote(REMOTE)}"

    @property
    def remote_with_password(self) -> str:
        """The remote command for a stdin that begins with the line of a sudo password."""
        return sudo.as_root_with_password(REMOTE)

    @property
    def reads_config(self) -> bool:
        """True when ssh reads the user's own config."""
        return self.known_hosts is None or self.user_config

    def control_name(self, node: str) -> str:
        """A short name for the control socket: the same for the same node reached the same way.

        So the next command finds the connection of the last one (it stays for PERSIST_S). A node
        that shows another host key is another node.
        """
        text = "\0".join((node, repr(self), *self.pinned(node), *self._pinned_before()))
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    @property
    def alias(self) -> str:
        """The name of a jump host in ``known_hosts``: none that a node can have."""
        port = "" if self.port == SSH_PORT else f"-{self.port}"
        return f"_jump.{self.address.replace(':', '.')}{port}"

    def place(self, node: str) -> str:
        """Which machine this is and which account there: equal for equal ones.

        With the node's name, under which the host key is pinned, and all jump hosts.
        """
        hops = f" by {self.via.place(self.via.alias)}" if self.via else ""
        return f"{node}: {self.user}@{self.address} port {self.port}{hops}"

    def _pinned_before(self) -> tuple[str, ...]:
        return (self.via.control_name(self.via.alias),) if self.via else ()

    def pinned(self, node: str) -> tuple[str, ...]:
        """The lines of ``known_hosts`` that pin keys of a node."""
        if self.known_hosts is None or not self.known_hosts.is_file():
            return ()
        lines = self.known_hosts.read_text(errors="replace").splitlines()
        return tuple(line for line in lines if line.partition(" ")[0] == node)

    def arguments(
        self, node: str, control: Path | None, *, opens: bool, hops: Path | None = None
    ) -> list[str]:
        """``ssh`` and all its options up to the address.

        Args:
            node: the node's name, under which its key is in ``known_hosts``.
            control: path of the control socket; None for a connection that shares nothing.
            opens: True for the call that opens the shared connection, False for those that use it.
            hops: folder with the shared connections to jump hosts; None: a separate login there.

        Raises:
            CorralError: USAGE, a path that ssh's option syntax cannot express.
        """
        settings = dict(_COMMON)
        settings["ConnectTimeout"] = str(self.connect_timeout)
        settings["ControlPath"] = option_path(control) if control else "none"
        settings["ControlMaster"] = "yes" if opens else "no"
        settings["ControlPersist"] = f"{PERSIST_S}s" if control else "no"
        settings |= self.trust(node)
        if self.key is not None:
            settings |= {"IdentityFile": option_path(self.key), "IdentitiesOnly": "yes"}
            if self.only_key:
                settings["IdentityAgent"] = "none"
        if self.via is not None:
            settings["ProxyCommand"] = self.via.forwarding(hops)
        argv = ["ssh", "-T"]
        if not self.reads_config:
            argv += ["-F", "none"]
        argv += self.options
        if not self.reads_config or self.port != SSH_PORT:
            argv += ["-p", str(self.port)]
        for name, value in settings.items():
            argv += ["-o", f"{name}={value}"]
        argv += ["-l", self.user] if self.user else []
        return [*argv, "--", self.address]

    def forwarding(self, hops: Path | None) -> str:
        """This jump host as a value of ProxyCommand; ssh fills in where the connection goes.

        ssh's own ProxyJump takes no options for the way: neither a pinned key, nor one connection
        for all nodes (sshd begins to drop logins at ten unfinished ones, MaxStartups).
        """
        control = hops / self.control_name(self.alias) if hops else None
        words = self.arguments(self.alias, control, opens=False, hops=hops)
        # ssh expands % in the value once; what is meant for the command's own ssh is doubled.
        rest = (shlex.quote(word.replace("%", "%%")) for word in words[1:])
        return " ".join(("ssh", "-W", "'[%h]:%p'", *rest))

    def trust(self, node: str) -> dict[str, str]:
        """Settings of ssh about host keys."""
        if self.known_hosts is None:
            return {"StrictHostKeyChecking": "accept-new"}
        new = self.pin_new and not self.pinned(node)
        return {
            "StrictHostKeyChecking": "accept-new" if new else "yes",
            "UserKnownHostsFile": option_path(self.known_hosts),
            "GlobalKnownHostsFile": "none",
            "HostKeyAlias": node,
            # Debian's ssh_config hashes names, and a hashed one cannot be found again by reading.
            "HashKnownHosts": "no",
            "CheckHostIP": "no",
            "UpdateHostKeys": "no",
            # The pin is the plain key's; a DNS record would be somebody else's word for it.
            "VerifyHostKeyDNS": "no",
        }


def option_path(path: Path) -> str:
    """A path as a value of ssh_config: quoted, percent signs doubled.

    Raises:
        CorralError: USAGE.
    """
    text = str(path)
    if any(c in text for c in '"\\\n') or "${" in text:
        raise CorralError(
            Code.USAGE,
            f"ssh cannot be given the path {text!r}",
            hint="use a folder whose name has no quotes, backslashes, line breaks or ${",
        )
    return '"{}"'.format(text.replace("%", "%%"))
