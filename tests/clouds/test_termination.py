"""What runs is ended, used and counted, whatever else is wrong: a cloud, a budget, a stale list."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from corral.api.lifecycle import deployment
from corral.api.rental import unused_machines
from corral.errors import Code, CorralError
from corral.events import Emit, ignore
from corral.providers.cloud.termination import end_all, find
from corral.spec.models import ClusterSpec
from corral.state_dir import cluster_dir
from corral.testing.virtual import run
from tests.clouds.common import World


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path / "state"))


def two(folder: Path) -> dict[str, World]:
    """A machine at each of two clouds, one cluster."""
    first = World("lambda", folder)
    worlds = {"lambda": first, "paperspace": World("paperspace", folder, first.loop)}
    for node, world in zip(("gpu0", "gpu1"), worlds.values(), strict=True):
        run(first.loop, world.up((node,)))
    return worlds


def test_a_cloud_that_takes_no_key_keeps_nothing_at_the_others_running(tmp_path: Path) -> None:
    worlds = two(tmp_path)
    loop, ledger = worlds["lambda"].loop, worlds["lambda"].ledger

    def down() -> tuple[str, ...]:
        apis = {name: world.client() for name, world in worlds.items()}
        return run(loop, end_all(apis, "lab", ledger, ignore))

    worlds["lambda"].sim.key = "another"
    with pytest.raises(CorralError, match="the API key is wrong") as caught:
        down()
    assert "ended all the same: paperspace instance corral-lab-gpu1" in caught.value.tail
    assert [len(world.sim.alive()) for world in worlds.values()] == [1, 0]
    worlds["lambda"].sim.key = worlds["paperspace"].sim.key
    assert any("corral-lab-gpu0" in line for line in down())
    assert worlds["lambda"].sim.alive() == []


def test_reap_asks_the_clouds_that_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worlds = two(tmp_path)
    worlds["lambda"].sim.key = "another"

    def account(name: str) -> object:
        if name in worlds:
            return worlds[name].client()
        raise CorralError(Code.NOT_FOUND, "no API key")

    monkeypatch.setattr(unused_machines, "open_account", account)
    seen = run(worlds["lambda"].loop, unused_machines.survey())
    (name,) = (instance.name for cluster in seen.clusters for instance in cluster.assets.instances)
    assert name.startswith("corral-lab-gpu1")
    assert set(seen.silent) == {"lambda", "runpod"} and seen.unsure == ("lambda",)


def test_one_whose_end_a_stale_list_made_up_goes_on_to_cost(tmp_path: Path) -> None:
    world = World("lambda", tmp_path)
    run(world.loop, world.up(("gpu0",)))
    (machine,) = world.sim.alive()

    async def observed(after: float) -> None:
        await asyncio.sleep(after)
        await find({"lambda": world.client()}, "lab", world.ledger)

    machine.shown = world.loop.time() + 12
    run(world.loop, observed(0))
    assert not any(r.open for r in world.ledger.rentals().values())
    run(world.loop, observed(20))
    assert [r.id for r in world.ledger.rentals().values() if r.open] == [machine.id]
    run(world.loop, observed(3600))
    assert world.spent() >= world.sim.bill() > 0.7


RENTED = {
    "corral": "v1",
    "name": "lab",
    "controller": "desk",
    "groups": [
        {"name": "home", "provider": "ssh", "nodes": "desk", "addresses": "10.0.0.1"},
        {"name": "gpu", "provider": "lambda", "nodes": "gpu0", "cloud": {"type": "gpu_1x_a10"}},
    ],
}


@dataclass
class Desk:
    """A session whose own machine does not answer."""

    spec: ClusterSpec
    rented: list[str] = field(default_factory=lambda: ["lambda instance i1"])

    def require_visible(self) -> None:
        """This user may see all machines."""

    async def end_rented(self, _: Emit) -> tuple[str, ...]:
        gone, self.rented = tuple(self.rented), []
        return gone


@pytest.mark.parametrize("force", [True, False])
def test_down_ends_what_is_rented_though_the_desk_does_not_answer(
    force: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(ClusterSpec.model_validate(RENTED))

    async def opened(_: ClusterSpec) -> Desk:
        return desk

    async def silent(*_: object, **__: object) -> None:
        raise CorralError(Code.UNREACHABLE, "no answer", node="desk", hint="start it")

    monkeypatch.setattr(deployment.Session, "open", opened)
    monkeypatch.setattr(deployment, "release_machines", silent)
    with pytest.raises(CorralError, match="no answer") as caught:
        asyncio.run(deployment.down(desk.spec, force=force))
    assert desk.rented == ([] if force else ["lambda instance i1"])
    assert ("ended: lambda instance i1" in caught.value.tail) is force
    assert ("go on to cost money" in caught.value.hint) is not force
    assert cluster_dir("lab", create=False).exists(), "the same command must go on from there"
