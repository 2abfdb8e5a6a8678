"""Host keys: what the user's own known_hosts has, and pinning under node names.

A cluster has its own known_hosts file, in which each key is listed under its node's name, so
that a node stays the same machine whatever its address is (docs/decisions/0014). A node that has no
key there yet may be known to the user already, under its address: then that key is the one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from corral.errors import CorralError
from corral.hosts import process
from corral.hosts.sshkeys import known_hosts_line
from corral.hosts.target import SSH_PORT, SshTarget

LOOK_S = 10.0


async def settings(target: SshTarget, *, any_user: bool = False) -> dict[str, str]:
    """What ssh makes of a target with the user's config (``ssh -G``), by lower-case keyword.

    Of keywords that occur several times the first counts. ``any_user``: the config sets the user.
    """
    port = ["-p", str(target.port)] if target.port != SSH_PORT else []
    user = [] if any_user or not target.user else ["-l", target.user]
    argv = ["ssh", "-G", *target.options, *port, *user, "--", target.address]
    ended = await process.run(argv, timeout=LOOK_S)
    values: dict[str, str] = {}
    for line in ended.out.splitlines():
        key, _, value = line.partition(" ")
        values.setdefault(key.lower(), value)
    return values


async def known_to_user(node: str, target: SshTarget) -> str:
    """known_hosts lines, under the node's name, of the keys that the user's own files have for it.

    Certificate authorities and revoked keys are left out: lines with a marker.
    """
    config = await settings(target)
    host = config.get("hostkeyalias") or config.get("hostname", target.address).lower()
    port = config.get("port", "22")
    name = host if port == "22" or "hostkeyalias" in config else f"[{host}]:{port}"
    files = (
        f"{config.get('userknownhostsfile', '')} {config.get('globalknownhostsfile', '')}".split()
    )
    lines: dict[str, None] = {}
    for file in files:
        # A file that is not there is an error of ssh-keygen's and no line.
        path = option_file(file)
        ended = await process.run(["ssh-keygen", "-F", name, "-f", path], timeout=LOOK_S)
        lines |= dict.fromkeys(pinned_as(node, ended.out))
    return "".join(lines)


def option_file(text: str) -> str:
    """A path as ``ssh -G`` prints it, made absolute."""
    return str(Path(text).expanduser())


def pinned_as(node: str, text: str) -> list[str]:
    """Lines that ``ssh-keygen -F`` gave, as lines that pin the same keys to a node's name."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(("#", "@")):
            continue
        with contextlib.suppress(CorralError):
            lines.append(known_hosts_line(node, line.partition(" ")[2]))
    return lines


def pin(file: Path, lines: str) -> None:
    """Add known_hosts lines that the file does not have yet."""
    _rewrite(file, lambda old: old + "".join(x for x in _lines(lines) if x not in _lines(old)))


def unpin(file: Path, node: str) -> None:
    """Take a node's lines out of a known_hosts file."""
    _rewrite(file, lambda old: "".join(x for x in _lines(old) if x.partition(" ")[0] != node))


def _lines(text: str) -> list[str]:
    return [f"{line}\n" for line in text.splitlines()]


def _rewrite(file: Path, change: Callable[[str], str]) -> None:
    """Rewrite a file in one rename, under a lock: several nodes are pinned at once."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (file.parent / f".{file.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        old = file.read_text() if file.is_file() else ""
        new = change(old)
        if new == old:
            return
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
        with os.fdopen(handle, "w") as out:
            out.write(new)
        Path(name).replace(file)
