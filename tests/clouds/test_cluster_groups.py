"""A group as one RunPod cluster: launched, kept and ended as a whole, whatever goes wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from corral.agents import rental_guard
from corral.errors import CorralError
from corral.events import ignore
from corral.providers.base import Action
from corral.providers.cloud import cluster_groups
from corral.providers.cloud.budget import spend
from corral.providers.cloud.client.accounts import calls_of
from corral.providers.cloud.model import Capacity, Label
from corral.providers.cloud.provider import CloudProvider
from corral.spec.models import ClusterSpec
from corral.testing.clouds import Fault, Faults
from corral.testing.clouds.wire import Request
from corral.testing.clouds.world import Killed
from corral.testing.rentals import SECRET
from corral.testing.virtual import run
from tests.clouds.common import World

NODES = ("pod0", "pod1", "pod2")
TRIES = 8


def spec_of(nodes: str = "pod[0-2]", **budget: float) -> ClusterSpec:
    return ClusterSpec.model_validate(
        {
            "corral": "v1",
            "name": "lab",
            "controller": "desk",
            "groups": [
                {"name": "home", "provider": "ssh", "nodes": "desk", "addresses": "10.0.0.1"},
                {
                    "name": "pods",
                    "provider": "runpod",
                    "nodes": nodes,
                    "cloud": {"type": "NVIDIA H100 80GB HBM3", "count": 2, "cluster": True},
                },
            ],
            "network": {"control": "tailscale"},
            "budget": {"per_hour": 50, **budget},
        }
    )


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No state of this machine, and sshd of machines that are entries only answers at once."""

    async def reachable(*_: object) -> None:
        """At once: no sshd is waited for."""

    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(cluster_groups, "until_reachable", reachable)


class Cluster:
    """One cluster's rented part: each call as a separate process would make it."""

    def __init__(self, folder: Path, faults: Faults | None = None, **options: object) -> None:
        self.world = World("runpod", folder, options={"faults": faults or Faults(), **options})
        self.sim = self.world.sim

    def provider(self, spec: ClusterSpec | None = None) -> CloudProvider:
        return CloudProvider(spec or spec_of(), {"runpod": self.world.client()}, self.world.ledger)

    def actions(self, spec: ClusterSpec | None = None) -> list[tuple[str, Action]]:
        cloud_provider = self.provider(spec)
        observed = run(self.world.loop, cloud_provider.read_machines())
        return [(a.node, a.action) for a in cloud_provider.plan(observed)]

    def up(self, spec: ClusterSpec | None = None) -> None:
        async def go() -> None:
            cloud_provider = self.provider(spec)
            await cloud_provider.apply(
                cloud_provider.plan(await cloud_provider.read_machines()), ignore
            )

        run(self.world.loop, go())

    def down(self) -> None:
        run(self.world.loop, self.provider().destroy(ignore))

    def until_done(self, what: str) -> int:
        """Runs that failed before one did not."""
        for failed in range(TRIES):
            try:
                getattr(self, what)()
            except (CorralError, Killed):
                continue
            return failed
        raise AssertionError(f"{what} does not get done in {TRIES} runs")

    def nodes(self) -> dict[str, str]:
        """The machine's id of each node, and that it costs money."""
        cloud_provider = self.provider()
        run(self.world.loop, cloud_provider.read_machines())
        return {n: i.id for n, i in cloud_provider._sorted.nodes.items()}


def test_all_come_as_one_and_go_as_one(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    assert cluster.actions() == [(n, Action.CREATE) for n in NODES]
    cluster.up()
    assert [c.operation for c in cluster.sim.calls].count("POST /v2/clusters") == 1
    assert set(cluster.nodes()) == set(NODES)
    run(cluster.world.loop, asyncio.sleep(120))
    ranks = {m.id: m.more["rank"] for m in cluster.sim.alive()}
    assert [ranks[cluster.nodes()[n]] for n in NODES] == [0, 1, 2]
    assert cluster.actions() == []
    rentals = cluster.world.ledger.rentals().values()
    assert {r.node: r.id for r in rentals if r.open} == cluster.nodes()
    assert spend(rentals, cluster.world.loop.time()).per_hour == pytest.approx(3 * 2 * 2.99)
    cluster.down()
    assert cluster.sim.alive() == [] and cluster.sim.clusters == {}  # type: ignore[attr-defined]
    assert not [r for r in cluster.world.ledger.rentals().values() if r.open]
    assert cluster.sim.violations == []


def test_another_size_or_a_lost_machine_is_another_cluster(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.up()
    more = spec_of("pod[0-3]")
    assert cluster.actions(more) == [(n, Action.RECREATE) for n in (*NODES, "pod3")]
    run(cluster.world.loop, asyncio.sleep(120))
    fewer = spec_of("pod[0-1]")
    assert cluster.actions(fewer) == [(n, Action.RECREATE) for n in NODES[:2]]
    cluster.up(fewer)
    run(cluster.world.loop, asyncio.sleep(120))
    assert len(cluster.sim.alive()) == 2 and cluster.actions(fewer) == []
    cluster.sim.terminate(cluster.sim.alive()[0])
    run(cluster.world.loop, asyncio.sleep(cluster_groups.FORMING_S + 60))
    assert cluster.actions(fewer) == [(n, Action.RECREATE) for n in NODES[:2]]
    cluster.up(fewer)
    assert len(cluster.sim.alive()) == 2
    cluster.down()
    assert cluster.sim.alive() == []


def test_a_second_cluster_of_one_group_goes(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.up()
    body = {
        "name": Label("lab", "pods", "00000a").name,
        "type": "TRAINING",
        "image": "x",
        "compute": {"gpuTypeId": "NVIDIA H100 80GB HBM3", "gpuCountPerPod": 2, "podCount": 2},
    }
    cluster.sim._create_cluster(body)  # type: ignore[attr-defined]
    run(cluster.world.loop, asyncio.sleep(120))
    assert {a for _, a in cluster.actions()} == {Action.REMOVE}
    cluster.up()
    assert len(cluster.sim.alive()) == 3 and len(cluster.sim.clusters) == 1  # type: ignore[attr-defined]


def test_a_cluster_that_shows_no_machine_yet_is_waited_for_and_not_doubled(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.up()
    seen = cluster.sim.now() + 200
    for machine in cluster.sim.alive():
        machine.shown = seen
    assert cluster.actions() == [(n, Action.START) for n in NODES]
    cluster.up()
    assert cluster.sim.now() >= seen and len(cluster.sim.clusters) == 1  # type: ignore[attr-defined]
    # Another one without machines, such as one whose launch was not answered, goes.
    empty = dict(next(iter(cluster.sim.clusters.values())))  # type: ignore[attr-defined]
    name = Label("lab", "pods", "00000b").name
    cluster.sim.clusters["cluzz"] = empty | {"id": "cluzz", "name": name}  # type: ignore[attr-defined]
    assert ("cluzz", Action.REMOVE) in cluster.actions()
    cluster.up()
    assert "cluzz" not in cluster.sim.clusters and len(cluster.sim.alive()) == 3  # type: ignore[attr-defined]


def test_a_dearer_offer_to_fall_back_on_is_counted_for_all_of_them(tmp_path: Path) -> None:
    full = {("NVIDIA A100 80GB PCIe", center): 0 for center in ("US-KS-2", "EU-RO-1")}
    cluster = Cluster(tmp_path, capacity=full)
    fields = spec_of(per_hour=12.0).model_dump(mode="json", exclude_unset=True)
    fields["groups"][1]["cloud"] |= {
        "type": "NVIDIA A100 80GB PCIe",
        "fallback": [{"provider": "runpod", "type": "NVIDIA H100 80GB HBM3", "count": 2}],
    }
    # 9.84 $/h fits and is not available, 17.94 $/h is available and does not fit.
    with pytest.raises(CorralError, match=r"17\.94"):
        cluster.up(ClusterSpec.model_validate(fields))
    assert cluster.sim.alive() == []
    assert not [r for r in cluster.world.ledger.rentals().values() if r.open]


def test_a_rehearsals_cloud_that_starts_again_knows_its_clusters(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.up()
    again = World("runpod", tmp_path / "again").sim
    again.adopt(cluster.sim.alive())
    assert again._clusters() == cluster.sim._clusters()  # type: ignore[attr-defined]


def test_what_is_on_sale_for_clusters_is_asked_for_apart(tmp_path: Path) -> None:
    capacity = {("NVIDIA H100 80GB HBM3", "US-KS-2"): 1}
    cluster = Cluster(tmp_path, capacity=capacity)

    async def asked() -> list[set[str]]:
        api = cluster.world.client()
        every = (await api.offers(), await api.cluster_offers())
        return [
            {o.region for o in offers if "H100" in o.type and o.capacity is Capacity.HIGH}
            for offers in every
        ]

    assert run(cluster.world.loop, asked()) == [{"US-KS-2", "EU-RO-1"}, {"EU-RO-1"}]


def test_no_room_for_all_of_them_launches_none(tmp_path: Path) -> None:
    full = {("NVIDIA H100 80GB HBM3", center): 2 for center in ("US-KS-2", "EU-RO-1")}
    cluster = Cluster(tmp_path, capacity=full)
    with pytest.raises(CorralError, match="none of 2 offers"):
        cluster.up()
    assert cluster.sim.alive() == []
    assert not [r for r in cluster.world.ledger.rentals().values() if r.open]


def test_the_budget_counts_all_of_them(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    with pytest.raises(CorralError, match="the budget is"):
        cluster.up(spec_of(per_hour=17.0))
    assert cluster.sim.alive() == []


def test_the_guard_knows_its_nodes_and_ends_the_complete_cluster(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.up()
    run(cluster.world.loop, asyncio.sleep(60))

    def call(_: str, method: str, path: str, body: object) -> object:
        cluster.world.loop.clock += 1.1
        parts = urlsplit(path)
        headers = {"authorization": f"Bearer {SECRET}", "content-type": "application/json"}
        answer = cluster.sim.handle(
            Request(method, parts.path, dict(parse_qsl(parts.query)), headers, body)
        )
        if answer.status >= 300:
            raise rental_guard.Refused(answer.status)
        return answer.body

    def round_of(name: str) -> rental_guard.Round:
        conf = {
            "cluster": name,
            "nodes": NODES,
            "elastic": [],
            "groups": {"pods": NODES},
            "clouds": {"runpod": ""},
            "clients": {"runpod": calls_of("runpod")},
        }
        return rental_guard.Round(conf, {}, call, lambda _: "", now=cluster.world.loop.time)

    turn = round_of("lab")
    machines = turn.rentals()
    assert sorted(f.node for f in machines) == list(NODES)
    assert round_of("other").rentals() == []
    for machine in machines:
        turn.finish(machine, "a test")
    assert not turn.failed
    assert cluster.sim.alive() == []


@pytest.mark.parametrize("fault", [*Fault, "killed before", "killed after"])
def test_every_call(fault: Fault | str, tmp_path: Path) -> None:
    """One fault at each call of a complete life in turn."""

    def life(folder: Path, faults: Faults) -> Cluster:
        cluster = Cluster(folder, faults)
        cluster.until_done("up")
        run(cluster.world.loop, asyncio.sleep(120))
        cluster.until_done("up")
        there = cluster.sim.alive()
        if len(there) != len(NODES) or len(cluster.sim.clusters) != 1:  # type: ignore[attr-defined]
            bad.append(f"{len(there)} machines")
        run(cluster.world.loop, asyncio.sleep(3600))
        cluster.until_done("down")
        return cluster

    bad: list[str] = []
    calls = len(life(tmp_path / "first", Faults()).sim.calls)
    assert not bad and calls > 8
    for call in range(calls):
        faults = Faults()
        if isinstance(fault, Fault):
            faults.at[call] = fault
        elif fault == "killed before":
            faults.kill_before = call
        else:
            faults.kill_after = call
        cluster = life(tmp_path / str(call), faults)
        where = f"call {call} {cluster.sim.calls[call].operation}"
        left = [*cluster.sim.alive(), *cluster.sim.clusters]  # type: ignore[attr-defined]
        bill, counted = cluster.sim.bill(), cluster.world.spent()
        bad += [f"{where}: {len(left)} left"] if left else []
        bad += [f"{where}: {v}" for v in cluster.sim.violations[:1]]
        if not bill - 1e-6 <= counted <= bill * 1.12 + 3:
            bad.append(f"{where}: spent {counted:.2f}, bill {bill:.2f}")
    assert bad == []
