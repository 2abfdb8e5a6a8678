"""Facts of machines that no cluster file names: one round trip to each."""

from __future__ import annotations

import asyncio
import os

import pytest

from corral.api.config import discovery
from corral.events import ignore
from corral.hosts.local import Local
from corral.hosts.transport import Result


def test_a_machine_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was asked for its facts, and then again for its name."""
    scripts: list[str] = []

    class Counted(Local):
        async def run(self, script, **more) -> Result:  # type: ignore[no-untyped-def]
            scripts.append(script)
            return await super().run(script, **more)

    monkeypatch.setattr(discovery, "OpenSSH", lambda node, *_: Counted(node))
    machines = asyncio.run(discovery.ask_machines(["head=root@192.0.2.1", "192.0.2.2"], ignore))
    here = os.uname().nodename.partition(".")[0]
    assert set(machines) == {"head", here}
    assert {machine.hostname for machine in machines.values()} == {here}
    assert len(scripts) == len(machines)
