"""What ssh's own messages mean: from its stderr to an error with a cause and a hint. Pure."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from corral.errors import Code, CorralError
from corral.hosts.sshkeys import known_fingerprints
from corral.hosts.target import SSH_PORT, SshTarget
from corral.hosts.transport import TAIL_LINES
from corral.tables import Row, read_table

SSH_FAILED: Final = 255  # ssh's own exit status; a remote command can end with it as well

_CHANGED: Final = re.compile(r"REMOTE HOST IDENTIFICATION HAS CHANGED")
_SENT: Final = re.compile(r"fingerprint for the \S+ key sent by the remote host is\s+(SHA256:\S+)")
_OFFENDING: Final = re.compile(r"Offending \S+ key in (.+):\d+")


class SshError(Row):
    """What a message means; ``ssh_errors.yaml`` has the meanings."""

    patterns: tuple[re.Pattern[str], ...]
    message: str
    hint: str
    user_hint: str = ""


@cache
def ssh_errors() -> tuple[SshError, ...]:
    """The table, in the order in which it counts."""
    return read_table("corral.hosts", "ssh_errors.yaml", tuple[SshError, ...])


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
        return _changed(node, target, status, stderr, known)
    words = {
        "user": target.user,
        "address": target.address,
        "port": str(target.port),
        "known_hosts": str(target.known_hosts or "known_hosts"),
    }
    message, hint = _explained(target, status, stderr)
    return CorralError(
        Code.UNREACHABLE,
        message.format_map(words),
        node=node,
        command=by_hand(target),
        status=status,
        tail=tail,
        hint=hint.format_map(words),
    )


def _explained(target: SshTarget, status: int | None, stderr: str) -> tuple[str, str]:
    for known in ssh_errors():
        if any(pattern.search(stderr) for pattern in known.patterns):
            user_hint = "" if target.privileged else known.user_hint
            return known.message, user_hint or known.hint
    if status is not None and status not in (0, SSH_FAILED) and status > 0:
        return (
            "{user}'s login shell ended with status " + str(status) + " and ran nothing",
            "give {user} a shell that runs commands: usermod -s /bin/sh {user}",
        )
    return (
        "the connection broke before the script ended",
        "check the machine and the network, then run the same command again",
    )


def _changed(
    node: str, target: SshTarget, status: int | None, stderr: str, known: str
) -> CorralError:
    sent = _SENT.search(stderr)
    where = _OFFENDING.search(stderr)
    shows = sent.group(1).rstrip(".") if sent else "another key"
    pinned = ", ".join(known_fingerprints(node, known)) or "the pinned one"
    file = where.group(1) if where else "the known_hosts file"
    again = f"corral keys forget {node} (its line in {file})"
    if not node.startswith("_"):  # jump hosts are not nodes
        again += f"; if it is another machine: corral nodes replace {node}"
    if not target.privileged:
        again = "corral logout NAME, then corral login; an administrator confirms the new key"
    return CorralError(
        Code.HOST_KEY_CHANGED,
        f"the host key changed: known is {pinned}, the machine shows {shows}",
        node=node,
        status=status,
        tail="\n".join(stderr.strip().splitlines()[-TAIL_LINES:]),
        hint=f"if the machine was installed again: {again}; "
        "else somebody may intercept the connection",
    )


def by_hand(target: SshTarget) -> str:
    """The connection as a person would type it."""
    key = f" -i {target.key}" if target.key else ""
    port = f" -p {target.port}" if target.port else ""
    jump = f" -J {','.join(_through(target.via))}" if target.via else ""
    return f"ssh{port}{key}{jump} {target.user}{'@' if target.user else ''}{target.address}"


def _through(hop: SshTarget | None) -> list[str]:
    if hop is None:
        return []
    port = "" if hop.port == SSH_PORT else f":{hop.port}"
    return [*_through(hop.via), f"{hop.user}{'@' if hop.user else ''}{hop.address}{port}"]
