"""Machines that are folders: the real scripts run in the real shell here, without root."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.errors import Code, CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.quote import Script
from corral.hosts.transport import OnLine, Result


class Folder:
    """A transport whose machine is this one; the node's lock is a file in a scratch folder."""

    def __init__(self, node: str, root: Path) -> None:
        self.node = node
        self.root = root
        self.scripts: list[str] = []
        self.broken = False
        root.mkdir(exist_ok=True)

    async def run(
        self,
        script: Script,
        *,
        stdin: bytes = b"",
        timeout: float = 120.0,
        on_line: OnLine | None = None,
    ) -> Result:
        if self.broken:
            raise CorralError(Code.UNREACHABLE, "cut off", node=self.node)
        self.scripts.append(script)
        text = script.replace("/run/corral.lock", str(self.root / "lock"))
        text = text.replace("/var/lib/corral", str(self.root / "ledger"))
        text = text.replace("@ROOT@", str(self.root))
        done = subprocess.run(["/bin/sh", "-c", text], input=stdin, capture_output=True)
        out = done.stdout.decode()
        for line in out.splitlines() if on_line else ():
            on_line(line)
        return Result(self.node, done.returncode, out, done.stderr.decode())

    async def close(self) -> None: ...


@pytest.fixture
def folders(tmp_path: Path) -> Callable[..., tuple[Fleet, dict[str, Folder]]]:
    def make(*names: str) -> tuple[Fleet, dict[str, Folder]]:
        machines = {name: Folder(name, tmp_path / name) for name in names}
        return Fleet(machines, cluster="c"), machines

    return make
