"""Rented nodes of one file at simulated clouds: what is refused is reported before any launch."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from corral.api.lifecycle import deployment
from corral.apply.session import Session
from corral.errors import Code, CorralError
from corral.events import ignore
from corral.providers.base import Action
from corral.providers.cloud import provider
from corral.providers.cloud.client.rate_limit import Pacer
from corral.providers.cloud.client.secrets import key_of
from corral.providers.cloud.elastic import on_call
from corral.providers.cloud.model import State
from corral.providers.cloud.provider import CloudProvider
from corral.spec.models import ClusterSpec
from corral.spec.providers import CLOUDS
from corral.spec.sections.cloud import hours
from corral.testing.clouds import SIMS
from corral.testing.virtual import run
from tests.clouds.common import World


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No state of this machine, and sshd of machines that are entries only answers at once."""

    async def reachable(*_: object) -> None:
        """At once: no sshd is waited for."""

    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(provider, "until_reachable", reachable)


def spec_of(cloud: dict[str, Any], name: str = "lambda", **budget: Any) -> ClusterSpec:
    group = {"name": "gpu", "provider": name, "nodes": "gpu[0-1]", "cloud": cloud}
    limits = {"per_hour": 20, "unguarded": ["lambda"], **budget}
    return ClusterSpec.model_validate(
        {"corral": "v1", "name": "lab", "groups": [group], "budget": limits}
    )


class Clouds:
    """Simulated clouds with one ledger and one clock."""

    def __init__(self, folder: Path, *names: str, **options: Any) -> None:
        first = World(names[0], folder, options=options)
        self.worlds = [first, *(World(n, folder, first.loop) for n in names[1:])]
        self.loop, self.ledger = first.loop, first.ledger

    def provider(self, spec: ClusterSpec) -> CloudProvider:
        return CloudProvider(spec, {w.name: w.client() for w in self.worlds}, self.ledger)

    def up(self, spec: ClusterSpec) -> None:
        async def go() -> None:
            cloud_provider = self.provider(spec)
            await cloud_provider.apply(
                cloud_provider.plan(await cloud_provider.read_machines()), ignore
            )

        run(self.loop, go())

    def alive(self) -> list[tuple[str, float]]:
        return [(m.type, m.price) for w in self.worlds for m in w.sim.alive()]

    def made(self) -> Iterator[str]:
        """Calls that made anything."""
        calls = (c.operation for w in self.worlds for c in w.sim.calls)
        return (text for text in calls if not text.startswith("GET"))


BAD = {
    "unknown type": ({"type": "gpu_1x_h10"}, {}, "has no type gpu_1x_h10"),
    "unknown region": ({"type": "gpu_1x_a10", "regions": ["us-wst-1"]}, {}, "no region us-wst-1"),
    "no such size": ({"type": "gpu_1x_a10", "count": 4}, {}, "with 4 GPUs"),
    "too dear": ({"type": "gpu_1x_a10", "price_at_most": 0.5}, {}, "nothing costs 0.50"),
    "budget": ({"type": "gpu_1x_a10"}, {"per_hour": 1.4}, "would cost 1.50"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_rented_is_refused_by_the_plan_and_nothing_is_made(
    case: str, tmp_path: Path
) -> None:
    cloud, budget, words = BAD[case]
    clouds, spec = Clouds(tmp_path, "lambda"), spec_of(cloud, **budget)
    session = Session(spec, (clouds.provider(spec),))
    run(clouds.loop, session.refresh())  # status, exec and down do no more than this
    with pytest.raises(CorralError, match=words) as caught:
        run(clouds.loop, session.read_state())  # plan and up
    assert caught.value.hint
    with pytest.raises(CorralError, match=words):
        clouds.up(spec)
    assert list(clouds.made()) == [] and clouds.ledger.rentals() == {}


@pytest.mark.parametrize("name", CLOUDS)
def test_a_key_that_has_expired_makes_nothing(name: str, tmp_path: Path) -> None:
    clouds = Clouds(tmp_path, name)
    clouds.worlds[0].sim.key = "another"
    with pytest.raises(CorralError, match="wrong, expired or deleted"):
        clouds.up(spec_of({"type": SIMS[name].offer[0]}, name))
    assert list(clouds.made()) == [] and clouds.ledger.rentals() == {}


def test_an_account_that_cannot_pay_makes_nothing(tmp_path: Path) -> None:
    clouds = Clouds(tmp_path, "paperspace")
    clouds.worlds[0].sim.payable = False  # type: ignore[attr-defined]
    with pytest.raises(CorralError, match="does not rent to this account"):
        clouds.up(spec_of({"type": "A4000"}, "paperspace"))
    assert list(clouds.made()) == []


def test_what_runs_is_used_and_ended_when_the_budget_allows_no_more(tmp_path: Path) -> None:
    clouds = Clouds(tmp_path, "lambda")
    clouds.up(spec_of({"type": "gpu_1x_a10"}))
    clouds.worlds[0].sim.terminate(clouds.worlds[0].sim.alive()[1])
    run(clouds.loop, asyncio.sleep(120))
    spent = spec_of({"type": "gpu_1x_a10"}, total=0.001)
    cloud_provider = clouds.provider(spent)
    observed = run(clouds.loop, cloud_provider.read_machines())
    assert observed.refusal is not None and "are spent" in observed.refusal.message
    assert observed.machines["gpu0"].running
    assert [(a.node, a.action) for a in cloud_provider.plan(observed)] == [("gpu1", Action.CREATE)]
    run(clouds.loop, cloud_provider.destroy(ignore))
    assert clouds.alive() == []


def test_the_plan_states_the_price_of_each_and_of_all(tmp_path: Path) -> None:
    clouds = Clouds(tmp_path, "lambda")
    cloud_provider = clouds.provider(spec_of({"type": "gpu_1x_a10"}))
    (summary,) = {
        a.summary for a in cloud_provider.plan(run(clouds.loop, cloud_provider.read_machines()))
    }
    assert "lambda gpu_1x_a10 in us-west-1, 0.75 $/h, else 3 other offers" in summary
    assert summary.endswith("cluster then 1.50 of 20.00 $/h")


def elastic(cloud: dict[str, Any], **budget: Any) -> ClusterSpec:
    """A desk that stays, and two nodes that come for jobs."""
    fields = spec_of(cloud, **budget).model_dump(mode="json", exclude_unset=True)
    desk = {"name": "home", "provider": "ssh", "nodes": "desk", "addresses": "203.0.113.1"}
    group = {**fields["groups"][0], "elastic": {"cpus": 1, "memory_gib": 1}}
    return ClusterSpec.model_validate({**fields, "groups": [desk, group], "controller": "desk"})


def test_nodes_that_come_for_jobs_are_priced_before(tmp_path: Path) -> None:
    clouds = Clouds(tmp_path, "lambda")

    def prices(spec: ClusterSpec) -> tuple[str, ...]:
        return run(clouds.loop, on_call(spec, {"lambda": clouds.worlds[0].client()}))

    assert prices(elastic({"type": "gpu_1x_a10"})) == (
        "gpu: 0 to 2 nodes for jobs: lambda gpu_1x_a10 in us-west-1, 0.75 $/h each, all of them "
        "1.50 of 20.00 $/h, else 3 other offers",
    )
    assert prices(spec_of({"type": "gpu_1x_a10"})) == ()
    small = ({"type": "gpu_1x_a10"}, {"per_hour": 0.7}, "a node of group gpu would cost 0.75")
    for cloud, budget, words in (BAD["unknown type"], BAD["unknown region"], small):
        with pytest.raises(CorralError, match=words):
            prices(elastic(cloud, **budget))
    assert list(clouds.made()) == []


def test_a_plan_shows_prices_before_it_asks_any_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lines(_: ClusterSpec) -> tuple[str, ...]:
        return ("the price",)

    async def silent(_: ClusterSpec) -> None:
        raise CorralError(Code.UNREACHABLE, "no answer")

    monkeypatch.setattr(deployment, "on_call", lines)
    monkeypatch.setattr(deployment.Session, "open", silent)
    messages: list[str] = []
    with pytest.raises(CorralError, match="no answer"):
        asyncio.run(deployment.plan(spec_of({"type": "x"}), lambda e: messages.append(e.message)))
    with pytest.raises(CorralError, match="no answer"):
        asyncio.run(
            deployment.up(
                spec_of({"type": "x"}), lambda e: messages.append(e.message), lambda _: True
            )
        )
    assert messages == ["the price", "the price"]


@pytest.mark.parametrize(("most", "kept"), [(6.5, 1), (5.0, 0)])
def test_launches_side_by_side_stay_within_the_budget(
    most: float, kept: int, tmp_path: Path
) -> None:
    """The plan counts the first offers; those that are fallen back on are dearer."""
    clouds = Clouds(tmp_path, "lambda", "paperspace")
    dear = {"type": "gpu_1x_a10", "regions": ["us-west-1"],
            "fallback": [{"provider": "paperspace", "type": "H100"}]}  # fmt: skip
    cloud_provider = clouds.provider(spec_of(dear, per_hour=most))
    planned = cloud_provider.plan(run(clouds.loop, cloud_provider.read_machines()))
    clouds.worlds[0].sim.capacity["gpu_1x_a10", "us-west-1"] = 0
    with pytest.raises(CorralError, match="the budget is"):
        run(clouds.loop, cloud_provider.apply(planned, ignore))
    assert clouds.alive() == [("H100", 5.95)] * kept


@pytest.mark.parametrize(
    ("text", "expected"), [("0h", 0), ("1s", 1), ("30m", 1), ("60m", 1), ("90m", 2), ("24h", 24)]
)
def test_only_zero_is_never(text: str, expected: int) -> None:
    assert hours(text) == expected


@pytest.mark.parametrize(("dead_man", "minutes"), [("30m", "-60"), ("0h", "")])
def test_a_pod_carries_its_dead_man_timer(dead_man: str, minutes: str, tmp_path: Path) -> None:
    clouds = Clouds(tmp_path, "runpod")
    clouds.up(spec_of({"type": "NVIDIA GeForce RTX 4090"}, "runpod", dead_man=dead_man))
    bodies = [m.more["body"]["args"] for m in clouds.worlds[0].sim.alive()]
    assert len(bodies) == 2
    assert all(("runpodctl remove pod" in text) is bool(minutes) for text in bodies)
    assert all(minutes in text for text in bodies)


def _turns(folder: Path, queue: Any) -> None:
    pacer = Pacer(folder, "account", {"calls": 2.0}, lambda: 1000.0)
    queue.put([pacer._take("calls", 2.0) for _ in range(20)])


def test_processes_share_one_rate(tmp_path: Path) -> None:
    fork = get_context("fork")
    queue = fork.Queue()
    workers = [fork.Process(target=_turns, args=(tmp_path, queue)) for _ in range(2)]
    for worker in workers:
        worker.start()
    every = sorted(turn for _ in workers for turn in queue.get(timeout=60))
    for worker in workers:
        worker.join(60)
    assert every == [1000.0 + 2.0 * i for i in range(40)]


@pytest.mark.parametrize("name", CLOUDS)
def test_a_machine_is_switched_off_where_the_cloud_can_and_still_counted(
    name: str, tmp_path: Path
) -> None:
    world = World(name, tmp_path)
    run(world.loop, world.up(("gpu0",)))

    async def stop() -> list[State]:
        await asyncio.sleep(120)
        api = world.client()
        (instance,) = await api.instances()
        await api.stop(instance)
        return [i.state for i in await api.instances()]

    if not world.sim.stops:
        with pytest.raises(CorralError, match="only terminate"):
            run(world.loop, stop())
    else:
        assert run(world.loop, stop()) == [State.STOPPED]
    assert world.sim.violations == []
    assert [r.open for r in world.ledger.rentals().values()] == [True]


@pytest.mark.parametrize(
    ("name", "kind", "volumes"),
    [("lambda", "gpu_1x_a10", ["data"]), ("runpod", "NVIDIA GeForce RTX 4090", ["vol1"])],
)
def test_file_systems_of_the_account_are_attached(
    name: str, kind: str, volumes: list[str], tmp_path: Path
) -> None:
    clouds = Clouds(tmp_path, name)
    clouds.up(spec_of({"type": kind, "volumes": volumes}, name))
    sim = clouds.worlds[0].sim
    attached = [m.more.get("systems") or m.more["body"]["mounts"]["network"] for m in sim.alive()]
    expected = volumes if name == "lambda" else [{"volumeId": "vol1", "path": "/workspace"}]
    assert attached == [expected] * 2 and sim.violations == []


def test_a_key_comes_from_the_keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = {("corral", "lambda"): "key-in-the-keyring"}
    fake = SimpleNamespace(get_password=lambda service, name: held.get((service, name)))
    monkeypatch.setitem(sys.modules, "keyring", fake)
    none = tmp_path / "none"
    assert key_of("lambda", {}, file=none) == "key-in-the-keyring"
    with pytest.raises(CorralError, match="no API key of RunPod"):
        key_of("runpod", {}, file=none)
