"""``corral resume``: only nodes that are out of service are resumed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from corral import api
from corral.api.operations import nodes as module
from corral.errors import Code, CorralError
from corral.hosts.quote import Script
from corral.hosts.transport import Result
from corral.spec.load import load_or_raise
from tests.embedded.conftest import EXAMPLES

SPEC = load_or_raise(EXAMPLES / "laptop.yaml")


class Slurm:
    """A controller whose nodes have states; RESUME of one in service is refused (24.11)."""

    def __init__(self, **states: str) -> None:
        self.states = states
        self.resumed: list[str] = []

    async def __aenter__(self) -> Slurm:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    controller = "node0"

    @property
    def fleet(self) -> Slurm:
        return self

    def require_running(self) -> None:
        pass

    def shown(self) -> str:
        return "".join(
            f"NodeName={name} CPUAlloc=0 CPUTot=2 RealMemory=100 State={state}\n"
            for name, state in self.states.items()
        )

    async def run(self, node: str, script: Script, **_: Any) -> Result:
        assert node == "node0"
        text = str(script)
        if "State=RESUME" not in text:
            return Result(node, 0, self.shown(), "")
        for name, state in self.states.items():
            if name not in text and "node[" not in text:
                continue
            if state == "IDLE":
                return Result(node, 1, "", "slurm_update error: Invalid node state specified")
            self.resumed.append(name)
            self.states[name] = "IDLE"
        return Result(node, 0, self.shown(), "")


def resume(monkeypatch: pytest.MonkeyPatch, slurm: Slurm, nodes: str) -> dict[str, str]:
    async def opened(_: object) -> Slurm:
        return slurm

    monkeypatch.setattr(module.Connection, "open", opened)
    return asyncio.run(api.resume(SPEC, nodes))


def test_an_idle_node_stays_and_slurm_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = Slurm(node0="IDLE", node1="IDLE", node2="IDLE")
    assert resume(monkeypatch, slurm, "node1") == {"node1": "IDLE"}
    assert slurm.resumed == []


def test_of_several_only_those_out_of_service_are_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = Slurm(node0="IDLE", node1="IDLE+DRAIN", node2="IDLE")
    after = resume(monkeypatch, slurm, "node[0-1]")
    assert after == {"node0": "IDLE", "node1": "IDLE"}
    assert slurm.resumed == ["node1"]


def test_a_name_that_is_not_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CorralError) as caught:
        resume(monkeypatch, Slurm(), "node9")
    assert caught.value.code is Code.NOT_FOUND


def test_a_refusal_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(Slurm):
        async def run(self, node: str, script: Script, **more: Any) -> Result:
            if "State=RESUME" in str(script):
                return Result(node, 1, "", "slurm_update error: Invalid node state specified")
            return await super().run(node, script, **more)

    with pytest.raises(CorralError) as caught:
        resume(monkeypatch, Refusing(node0="IDLE", node1="DOWN", node2="IDLE"), "node1")
    assert caught.value.code is Code.SLURM_REFUSED
