"""What ssh's own messages mean: from its stderr to an error with a cause and a hint. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from corral.errors import Code, CorralError
from corral.hosts.sshkeys import known_fingerprints
from corral.hosts.target import SSH_PORT, SshTarget
from corral.hosts.transport import TAIL_LINES

SSH_FAILED: Final = 255  # ssh's own exit status; a remote command can end with it as well

_CHANGED: Final = re.compile(r"REMOTE HOST IDENTIFICATION HAS CHANGED")
_SENT: Final = re.compile(r"fingerprint for the \S+ key sent by the remote host is\s+(SHA256:\S+)")
_OFFENDING: Final = re.compile(r"Offending \S+ key in (.+):\d+")


@dataclass(frozen=True, slots=True)
class _Cause:
    pattern: re.Pattern[str]
    message: str
    hint: str


def _cause(pattern: str, message: str, hint: str) -> _Cause:
    return _Cause(re.compile(pattern), message, hint)


# In order: sudo's and the login's own words first, then ssh's (strings of OpenSSH 8.9 to 10.0).
_CAUSES: Final = (
    _cause(
        r"you must have a tty to run sudo",
        "sudo on the node wants a terminal (requiretty)",
        "on the node, as root: echo 'Defaults:{user} !requiretty' > /etc/sudoers.d/90-corral",
    ),
    _cause(
        r"not in the sudoers file|may not run sudo|not allowed to (execute|run sudo)|I'm sorry \w+",
        "{user} may not use sudo: it is not in sudoers",
        "on the node, as root: usermod -aG sudo {user} (wheel where there is no group sudo)",
    ),
    # Of a password that was sent: sudo saw the end of its input after it.
    _cause(
        r"incorrect (password|authentication) attempt|Sorry, try again|Authentication failed",
        "sudo refused the password of {user}",
        "type it again; one password is asked for and used on all nodes",
    ),
    _cause(
        r"account validation failure|[Aa]ccount or password is expired|password expired",
        "sudo refuses the account {user}: it is locked or expired",
        "on the node, as root: chage -l {user}; passwd -S {user}",
    ),
    _cause(
        r"sudo: (a password is required|a terminal is required|interactive authentication)"
        r"|no password was provided",
        "{user} may not use sudo without a password",
        "run it on a terminal, which asks for the password; or name a file with it in "
        "CORRAL_SUDO_PASSWORD_FILE; or on the node, as root: "
        "echo '{user} ALL=(ALL) NOPASSWD:ALL' > /etc/sudoers.d/90-corral",
    ),
    _cause(
        r"sudo: (command )?not found|exec: sudo|Unknown command.*sudo",
        "sudo is not installed",
        "install sudo on the node, or let Corral log in as root",
    ),
    _cause(
        r"head: (command )?not found",
        "the node has no head(1)",
        "install coreutils or busybox on the node",
    ),
    _cause(
        r"This account is currently not available|account is not available",
        "{user} may not log in: its shell refuses",
        "give {user} a shell on the node: usermod -s /bin/sh {user}",
    ),
    _cause(
        r"No \S+ host key is known for",
        "the node's host key is not known to this cluster",
        "add its key to {known_hosts} once you have compared it with the node's own",
    ),
    _cause(
        r"Host key verification failed",
        "the node's host key was refused, or that of a jump host you never logged in to",
        "log in to the jump host once by hand, or name it in ssh.jump; compare the node's key with "
        "its own, then run: corral keys forget NODE",
    ),
    _cause(
        r"administratively prohibited",
        "its jump host does not forward to {address} port {port}",
        "on the jump host, in sshd_config: AllowTcpForwarding yes (or local), and no PermitOpen "
        "that leaves this address out",
    ),
    _cause(
        r"Permission denied \(|Too many authentication failures",
        "{user} may not log in with this key",
        "put the public key into ~{user}/.ssh/authorized_keys on the node; look at its sshd log",
    ),
    _cause(
        r"Could not resolve hostname|Name or service not known",
        "the name {address} does not resolve",
        "correct the address, or write an IP address",
    ),
    _cause(
        r"Connection refused",
        "nothing listens at {address} port {port}",
        "start sshd on the node (an installer may have left out openssh-server), or correct "
        "address and port; right after boot: wait",
    ),
    _cause(
        r"timed out|Connection timed out during banner exchange",
        "{address} port {port} does not answer",
        "is the machine on, is the address right, does a firewall drop port {port}?",
    ),
    _cause(
        r"No route to host|Network is unreachable|Host is down",
        "no route to {address}",
        "is the machine on, and is this machine in the same network or mesh?",
    ),
    _cause(
        r"too long for Unix domain socket|ControlPath too long",
        "the path of ssh's control socket is too long",
        "set XDG_RUNTIME_DIR or TMPDIR to a shorter folder",
    ),
    _cause(
        r"Exceeded MaxStartups|kex_exchange_identification|ssh_exchange_identification"
        r"|Connection (reset|closed)",
        "{address} closed the connection before login",
        "sshd is overloaded (MaxStartups), or keeps this address away for a while after failed "
        "logins (PerSourcePenalties: wait half a minute), or another service is there",
    ),
    _cause(
        r"UNPROTECTED PRIVATE KEY|bad permissions",
        "ssh refuses the private key: others can read it",
        "chmod 600 on the private key file",
    ),
    _cause(
        r"no such identity|Load key .*: ",
        "ssh cannot read the private key",
        "correct the path of the private key, or make a new one",
    ),
)


def failure(
    node: str, target: SshTarget, status: int | None, stderr: str, known: str
) -> CorralError:
    """The error for a connection that gave no sentinel.

    Args:
        node: the node's name.
        target: how it was to be reached.
        status: ssh's exit status.
        stderr: what ssh, and perhaps the login, wrote.
        known: text of the known_hosts file, "" when there is none to read.
    """
    tail = "\n".join(stderr.strip().splitlines()[-TAIL_LINES:])
    if _CHANGED.search(stderr):
        return _changed(node, status, stderr, known)
    words = {
        "user": target.user,
        "address": target.address,
        "port": str(target.port),
        "known_hosts": str(target.known_hosts or "known_hosts"),
    }
    message, hint = _explained(status, stderr)
    return CorralError(
        Code.UNREACHABLE,
        message.format_map(words),
        node=node,
        command=by_hand(target),
        status=status,
        tail=tail,
        hint=hint.format_map(words),
    )


def _explained(status: int | None, stderr: str) -> tuple[str, str]:
    for cause in _CAUSES:
        if cause.pattern.search(stderr):
            return cause.message, cause.hint
    if status is not None and status not in (0, SSH_FAILED) and status > 0:
        return (
            "{user}'s login shell ended with status " + str(status) + " and ran nothing",
            "give {user} a shell that runs commands: usermod -s /bin/sh {user}",
        )
    return (
        "the connection broke before the script ended",
        "check the machine and the network, then run the same command again",
    )


def _changed(node: str, status: int | None, stderr: str, known: str) -> CorralError:
    sent = _SENT.search(stderr)
    where = _OFFENDING.search(stderr)
    shows = sent.group(1).rstrip(".") if sent else "another key"
    pinned = ", ".join(known_fingerprints(node, known)) or "the pinned one"
    file = where.group(1) if where else "the known_hosts file"
    return CorralError(
        Code.HOST_KEY_CHANGED,
        f"the host key changed: known is {pinned}, the machine shows {shows}",
        node=node,
        status=status,
        tail="\n".join(stderr.strip().splitlines()[-TAIL_LINES:]),
        hint=f"if the machine was installed again: corral keys forget {node} (its line in {file}); "
        "else somebody may stand between you and it",
    )


def by_hand(target: SshTarget) -> str:
    """The connection as a person would type it."""
    key = f" -i {target.key}" if target.key else ""
    port = f" -p {target.port}" if target.port else ""
    jump = f" -J {','.join(_way(target.via))}" if target.via else ""
    return f"ssh{port}{key}{jump} {target.user}{'@' if target.user else ''}{target.address}"


def _way(hop: SshTarget | None) -> list[str]:
    if hop is None:
        return []
    port = "" if hop.port == SSH_PORT else f":{hop.port}"
    return [*_way(hop.via), f"{hop.user}{'@' if hop.user else ''}{hop.address}{port}"]
