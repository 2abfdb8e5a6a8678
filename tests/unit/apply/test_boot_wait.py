"""Machines that a killed run had just started are waited for, with a limit."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from corral.apply import readiness
from corral.apply.journal import Journal
from corral.apply.readiness import (
    BOOTED,
    REBOOT_S,
    rebooting,
    until_booted,
)
from corral.apply.roll import BACK, REBOOTS
from corral.errors import Code, CorralError
from corral.events import Event, Kind
from corral.hosts.fleet import Fleet
from corral.hosts.quote import Script
from corral.hosts.transport import OnLine, Result
from corral.providers.cloud.model import Instance, State
from corral.providers.cloud.provider import CloudProvider
from corral.providers.cloud.readiness import PATIENCE_S
from corral.providers.containers import inventory, layout
from corral.spec.models import ClusterSpec

SILENT = CorralError(Code.UNREACHABLE, "nothing listens at 10.0.0.1 port 22", "node1")
LOCKED = CorralError(Code.LOGIN_REFUSED, "the key is refused", "node1")


class Boots:
    """A machine that does not answer the first times."""

    def __init__(self, errors: list[CorralError]) -> None:
        self.errors = errors
        self.asked: list[str] = []

    async def run(
        self,
        script: Script,
        *,
        stdin: bytes = b"",
        timeout: float = 120.0,
        on_line: OnLine | None = None,
    ) -> Result:
        self.asked.append(str(script))
        if self.errors:
            raise self.errors.pop(0)
        return Result("node1", 0, "", "")

    async def close(self) -> None:
        """The next run opens another connection."""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "EACH_S", 0.0)


def waited(machine: Boots, seconds: float) -> list[str]:
    events: list[Event] = []
    until = {"node1": time.time() + seconds, "gone": time.time() + 100}
    asyncio.run(until_booted(Fleet({"node1": machine}), until, events.append))
    return [event.message for event in events]


def test_a_machine_that_boots_is_waited_for() -> None:
    machine = Boots([SILENT, SILENT])
    first, last = waited(machine, 60)
    assert "still boots (nothing listens at 10.0.0.1 port 22)" in first
    assert "s at most" in first
    assert last == "answers"
    assert machine.asked == [":", ":", ":", str(BOOTED)]


def test_one_that_answers_costs_no_word() -> None:
    assert waited(Boots([]), 60) == []


def test_an_old_one_is_not_asked() -> None:
    machine = Boots([SILENT])
    assert waited(machine, -1) == []
    assert machine.asked == []


def test_the_wait_has_an_end() -> None:
    machine = Boots([SILENT] * 100000)
    waited(machine, 0.3)
    assert 1 < len(machine.asked) < 100_000


def test_another_error_is_no_boot() -> None:
    machine = Boots([LOCKED])
    assert waited(machine, 60) == []
    assert machine.asked == [":"]


def test_a_reboot_that_was_cut_off_is_known(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    assert rebooting(path) == {}
    emit = Journal(path, "a").following(lambda event: None)
    for node in ("node1", "node2"):
        emit(Event(Kind.NOTE, "reboots", node, "drained: takes no new jobs"))
        emit(Event(Kind.NOTE, "reboots", node, REBOOTS))
    emit(Event(Kind.NOTE, "reboots", "node1", BACK, 31.0))
    emit(Event(Kind.NOTE, "probe", "node3", REBOOTS))
    (reboots,) = rebooting(path).items()
    assert reboots[0] == "node2"
    assert abs(reboots[1] - time.time() - REBOOT_S) < 60


def test_providers_declare_how_long_a_machine_may_boot() -> None:
    """A container by podman's start, a rented one by the cloud's; 0 where neither is known."""
    labels = {
        layout.NODE: "node0",
        layout.ADDRESS: "10.0.0.2",
        layout.SPEC: "x",
        layout.MEMORY: "512",
    }
    fields = {"Id": "a", "Labels": labels, "State": "exited", "Pid": 0}
    young = inventory._machine({**fields, "StartedAt": 1000}, {}, set())
    assert young.boots_until == 1000 + inventory.BOOT_S
    assert inventory._machine(fields, {}, set()).boots_until < time.time()
    spec = ClusterSpec.model_validate(
        {
            "corral": "v1",
            "name": "lab",
            "groups": [
                {"name": "g", "provider": "lambda", "nodes": "a0", "cloud": {"type": "gpu_1x_a10"}}
            ],
        }
    )
    provider = CloudProvider(spec, apis={})
    (node,) = provider.nodes
    for created, until in ((1000.0, 1000.0 + PATIENCE_S), (None, 0.0)):
        instance = Instance(
            "lambda", "i-1", "x", None, State.RUNNING, address="198.51.100.1", created=created
        )
        provider._sorted.nodes["a0"] = instance
        assert provider._machine(node).boots_until == until
