"""A real sshd on loopback, started as root with its own keys, and what tests ask about it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from corral.errors import CorralError
from corral.hosts.openssh import OpenSSH, SshTarget
from corral.hosts.quote import Script, sh
from corral.hosts.sshkeys import known_hosts_line, make_key

NODE = "node0"
SSHD = "/usr/sbin/sshd"
TRUE = sh("true")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Sshd:
    """A running sshd and the keys that belong to it."""

    folder: Path
    port: int

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        argv = [SSHD, "-D", "-e", "-f", str(self.folder / "config")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(argv, stderr=log)

    @property
    def target(self) -> SshTarget:
        return SshTarget(
            "127.0.0.1",
            self.port,
            key=self.folder / "id",
            known_hosts=self.folder / "known_hosts",
        )

    def transport(self, **changes: object) -> OpenSSH:
        return OpenSSH(NODE, replace(self.target, **changes), self.folder / "control")

    @property
    def connections(self) -> int:
        """Logins so far."""
        return (self.folder / "log").read_text().count("Accepted publickey")

    def descendants(self) -> set[int]:
        """The node's side: all processes below sshd."""
        return children(self.process.pid)

    def clients(self) -> set[int]:
        """This side: all processes below the test, without sshd's."""
        return children(os.getpid(), without=self.process.pid)


def children(root: int, *, without: int = 0) -> set[int]:
    """All processes below one, but not those from another on."""
    below: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            below.setdefault(parent, []).append(int(stat.parent.name))
    descendants: set[int] = set()
    ahead = [root]
    while ahead:
        fresh = [pid for pid in below.get(ahead.pop(), []) if pid != without]
        descendants.update(fresh)
        ahead.extend(fresh)
    return descendants


def processes_with(text: str) -> list[str]:
    """Command lines on this machine that hold a text."""
    commands: list[str] = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = file.read_bytes()
            if text.encode() in line:
                commands.append(line.replace(b"\0", b" ").decode(errors="replace"))
    return commands


def started(folder: Path, *, extra: str = "") -> Sshd:
    make_key(folder / "host")
    public = make_key(folder / "id")
    (folder / "authorized").write_text(f"{public}\n")
    (folder / "known_hosts").write_text(known_hosts_line(NODE, (folder / "host.pub").read_text()))
    port = free_port()
    (folder / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\n"
        f"AuthorizedKeysFile none\nAuthorizedKeysCommand /bin/cat {folder}/authorized\n"
        f"AuthorizedKeysCommandUser root\nPidFile none\nUsePAM no\nStrictModes no\n"
        f"PermitRootLogin yes\nPasswordAuthentication no\n{extra}"
    )
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    return Sshd(folder, port)


async def ready(sshd: Sshd) -> None:
    node = sshd.transport()
    await node.connect(within=90)
    await node.close()


@contextlib.contextmanager
def running(folder: Path, *, extra: str = "") -> Iterator[Sshd]:
    sshd = started(folder, extra=extra)
    try:
        asyncio.run(ready(sshd))
        yield sshd
    finally:
        sshd.process.terminate()
        sshd.process.wait(timeout=60)


@contextlib.contextmanager
def served(folder: Path) -> Iterator[Sshd]:
    """An sshd; at the end no shared connection of the test's may be left."""
    with running(folder) as server:
        yield server
        control = str(folder / "control")
        asyncio.run(until(lambda: not processes_with(control), "all shared connections ended"))


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition; the limit is for a broken test only."""
    for _ in range(2400):
        if condition():
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"never: {what}")


async def failing(node: OpenSSH, script: Script = TRUE, timeout: float = 30) -> CorralError:
    with pytest.raises(CorralError) as caught:
        await node.run(script, timeout=timeout)
    await node.close()
    return caught.value
