"""Where a node is reached by SSH, and the client's command line that follows from it."""

from __future__ import annotations

import hashlib
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError
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

    With ``known_hosts`` the connection is the cluster's own: the user's ssh config is not read, the
    host key must stand in that file under the node's name. Without it the user's config, agent and
    known_hosts are used, and a new host's key is taken and remembered (``accept-new``).

    Args:
        address: IP address or name; without ``known_hosts`` also a Host of the user's ssh config.
        port: TCP port.
        user: the account; any other than root uses ``sudo -n``.
        key: private key file; None leaves the choice to ssh.
        known_hosts: the cluster's own known_hosts file.
        options: more arguments for ssh, as ``("-o", "ProxyJump=gate")``; they win over Corral's.
        connect_timeout: seconds for TCP and key exchange.
    """

    address: str
    port: int = SSH_PORT
    user: str = "root"
    key: Path | None = None
    known_hosts: Path | None = None
    options: tuple[str, ...] = ()
    connect_timeout: int = 10

    def __post_init__(self) -> None:
        """Refuse what ssh would take for an option, a URI or another user.

        Raises:
            CorralError: USAGE.
        """
        for what, value, pattern in (
            ("address", self.address, _ADDRESS),
            ("user", self.user, _USER),
        ):
            if not pattern.fullmatch(value):
                raise CorralError(
                    Code.USAGE,
                    f"{value!r} is no {what} for ssh",
                    hint="use letters, digits, dots, colons and dashes",
                )

    @property
    def remote(self) -> str:
        """The one remote command there is; ``exec`` makes it work in csh and fish too."""
        shell = f"/bin/sh -c {shlex.quote(REMOTE)}"
        return f"exec {shell}" if self.user == "root" else f"exec sudo -n -- {shell}"

    def control_name(self, node: str) -> str:
        """A short name for the control socket: the same for the same node reached the same way.

        So the next command finds the connection of the last one (it stays for PERSIST_S). A node
        that shows another host key is another node.
        """
        text = "\0".join((node, repr(self), self._pinned(node)))
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    def _pinned(self, node: str) -> str:
        if self.known_hosts is None or not self.known_hosts.is_file():
            return ""
        lines = self.known_hosts.read_text(errors="replace").splitlines()
        return "\n".join(line for line in lines if line.partition(" ")[0] == node)

    def arguments(self, node: str, control: Path, *, opens: bool) -> list[str]:
        """``ssh`` and all its options up to the address.

        Args:
            node: the node's name, under which its key stands in ``known_hosts``.
            control: path of the control socket.
            opens: True for the call that opens the shared connection, False for those that use it.

        Raises:
            CorralError: USAGE, a path that ssh's option syntax cannot express.
        """
        settings = dict(_COMMON)
        settings["ConnectTimeout"] = str(self.connect_timeout)
        settings["ControlPath"] = _path(control)
        settings["ControlMaster"] = "yes" if opens else "no"
        settings["ControlPersist"] = f"{PERSIST_S}s"
        settings |= self._trust(node)
        if self.key is not None:
            settings |= {
                "IdentityFile": _path(self.key),
                "IdentitiesOnly": "yes",
                "IdentityAgent": "none",
            }
        argv = ["ssh", "-T"]
        if self.known_hosts is not None:
            argv += ["-F", "none"]
        argv += self.options
        if self.known_hosts is not None or self.port != SSH_PORT:
            argv += ["-p", str(self.port)]
        for name, value in settings.items():
            argv += ["-o", f"{name}={value}"]
        return [*argv, "-l", self.user, "--", self.address]

    def _trust(self, node: str) -> dict[str, str]:
        if self.known_hosts is None:
            return {"StrictHostKeyChecking": "accept-new"}
        return {
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": _path(self.known_hosts),
            "GlobalKnownHostsFile": "none",
            "HostKeyAlias": node,
            "CheckHostIP": "no",
            "UpdateHostKeys": "no",
        }


def _path(path: Path) -> str:
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
