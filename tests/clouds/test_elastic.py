"""Elastic nodes on simulated clouds with containers: what goes wrong, each seen on a live Slurm."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from corral import api
from corral.hosts.quote import sh
from corral.providers.cloud.ledger import Ledger
from corral.spec.models import ClusterSpec
from corral.state_dir import cluster_dir
from corral.testing.clouds.orders import FILE
from tests.embedded.conftest import Live, needs

pytestmark = [pytest.mark.embedded, pytest.mark.slow]
KEPT = os.environ.get("CORRAL_TEST_ELASTIC", "")
H100 = "gpu_1x_h100_pcie"
CENTERS = ("us-west-1", "us-east-1", "us-south-1", "europe-central-1")


def file_of(name: str, **budget: Any) -> ClusterSpec:
    """A desk that stays, and two nodes that come: from Lambda, else from Paperspace."""
    return api.rehearsal(
        ClusterSpec.model_validate(
            {
                "corral": "v1",
                "name": name,
                "controller": "desk",
                "groups": [
                    {
                        "name": "home",
                        "provider": "ssh",
                        "nodes": "desk",
                        "addresses": "192.168.1.10",
                    },
                    {
                        "name": "h100",
                        "provider": "lambda",
                        "nodes": "gpu[0-1]",
                        "gpu": {"type": "h100", "count": 1},
                        "cloud": {
                            "type": H100,
                            "regions": ["us-west-1"],
                            "fallback": [{"provider": "paperspace", "type": "H100"}],
                        },
                        "elastic": {"idle": "20s", "boot": "10m", "cpus": 1, "memory_gib": 1},
                    },
                ],
                "partitions": [{"name": "h100", "groups": ["h100"], "default": True}],
                "storage": [
                    {"mount": "/shared", "kind": "nfs", "server": "desk", "path": "/srv/corral"}
                ],
                "health": {"every": "off"},
                "budget": {"per_hour": 20, "unguarded": ["lambda"], **budget},
            }
        )
    )[0]


class Rented:
    """The cluster, its driver turn by turn, and orders to its clouds."""

    def __init__(self, spec: ClusterSpec) -> None:
        self.spec, self.live = spec, Live(spec, {})
        self.messages: list[str] = []

    def order(self, cloud: str, **changes: Any) -> None:
        """Give an order to a cloud and wait until it is carried out."""
        file = cluster_dir(self.spec.name) / FILE
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps({cloud: changes}))
        fresh.replace(file)
        until(lambda: not file.exists(), 30, "the order is carried out")

    def drive(self) -> None:
        """The driver, until a check shows nothing to do."""
        asyncio.run(api.drive(self.spec, lambda e: self.messages.append(e.message), once=True))

    def desk(self, command: str, timeout: float = 60) -> str:
        return self.live.run("desk", sh("sh -c {c}", c=command), timeout=timeout).stdout.strip()

    def submit(self, *words: str, wrap: str = "hostname") -> str:
        script = sh("cd /shared && sbatch --parsable -p h100 {w} --wrap {c}", w=words, c=wrap)
        return self.live.run("desk", script).stdout.strip()

    def state(self, job: str) -> str:
        return self.desk(f"squeue -h -j {job} -o %T 2>/dev/null; sacct -nXPj {job} -o State")

    def runs(self, job: str) -> bool:
        return self.desk(f"squeue -h -j {job} -o %T") == "RUNNING"

    def nodes(self) -> dict[str, str]:
        """Provider of each node that is rented now, by the ledger."""
        rentals = Ledger(self.spec.name).rentals().values()
        return {r.node: r.provider for r in rentals if r.open}

    def done(self, job: str, seconds: float = 120) -> None:
        until(lambda: self.drive() or "COMPLETED" in self.state(job), seconds, f"job {job} is done")

    def quiet(self) -> None:
        """No job, no elastic node."""
        self.desk("scancel -u root; true")
        until(lambda: self.drive() or not self.nodes(), 240, "all elastic nodes are gone")


def until(true: Callable[[], object], seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not within {seconds:.0f} s: {what}"
        time.sleep(1)


@pytest.fixture(scope="module")
def rented() -> Iterator[Rented]:
    if needs():
        pytest.skip(needs())
    spec = file_of(KEPT or f"cl-el{os.getpid()}")
    made = Rented(spec)
    try:
        asyncio.run(api.up(spec))
        yield made
    finally:
        if not KEPT:
            asyncio.run(api.down(spec, force=True))
            Ledger(spec.name).path.unlink()


def test_another_cloud_when_capacity_is_out_and_a_lame_machine_is_replaced(rented: Rented) -> None:
    rented.order("lambda", capacity=[[H100, region, 0] for region in CENTERS])
    rented.order("paperspace", lame={"H100": 1})
    job = rented.submit("--gres=gpu:1")
    rented.drive()
    assert rented.nodes() == {"gpu0": "paperspace"}
    assert any("failed its check: 0 of 1 GPUs answer" in text for text in rented.messages)
    ended = [r for r in Ledger(rented.spec.name).rentals().values() if r.ended]
    assert [r.provider for r in ended] == ["paperspace"]  # the lame one
    rented.done(job)


def test_of_a_job_on_two_nodes_none_is_kept_when_one_cannot_be_had(rented: Rented) -> None:
    rented.quiet()
    rented.order("paperspace", capacity=[["H100", r, 0] for r in ("ny2", "ca1", "ams1")])
    rented.order("lambda", capacity=[[H100, "us-west-1", 1]])
    job = rented.submit("-N2", "--gres=gpu:1", wrap="srun hostname")
    rented.drive()
    assert rented.nodes() == {}
    assert "COMPLETED" not in rented.state(job)
    rented.order("lambda", capacity=[[H100, "us-west-1", 9]])
    rented.done(job, 400)  # after the hold of what was not available


def test_a_machine_that_the_cloud_takes_back_requeues_its_job(rented: Rented) -> None:
    rented.quiet()
    job = rented.submit("--gres=gpu:1", "--requeue", wrap='[ "$SLURM_RESTART_COUNT" ] || sleep 600')
    rented.drive()
    until(lambda: rented.drive() or rented.runs(job), 240, "it runs")
    node = rented.desk(f"squeue -h -j {job} -o %N")
    rented.order(rented.nodes()[node], vanish=[node])
    rented.done(job, 500)
    assert any("taken its machine back" in text for text in rented.messages)
    assert rented.desk(f"sacct -nXPj {job} -D -o State").split()[-1] == "COMPLETED"


def test_min_keeps_a_node_without_a_job(rented: Rented) -> None:
    rented.quiet()
    least = rented.spec.model_copy(
        update={
            "groups": tuple(
                g.model_copy(update={"elastic": g.elastic.model_copy(update={"min": 1})})
                if g.elastic
                else g
                for g in rented.spec.groups
            )
        }
    )
    asyncio.run(api.up(least))
    small = Rented(least)
    until(lambda: small.drive() or len(small.nodes()) == 1, 300, "one node stays")
    (node,) = small.nodes()
    until(lambda: small.desk(f"sinfo -h -N -n {node} -o %t") == "idle", 90, "it is idle")
    time.sleep(45)  # longer than elastic.idle and SuspendTimeout's turn
    small.drive()
    assert list(small.nodes()) == [node]
    asyncio.run(api.up(rented.spec))
    rented.quiet()


def test_a_spent_budget_signals_jobs_and_ends_machines_from_the_controller(rented: Rented) -> None:
    rented.quiet()
    saves = "trap 'touch /shared/saved; exit 0' USR1; sleep 900 & wait"
    rented.desk("rm -f /shared/saved")
    job = rented.submit("--gres=gpu:1", "--signal=B:USR1@25", wrap=saves)
    rented.drive()
    until(lambda: rented.drive() or rented.runs(job), 240, "it runs")
    watched = file_of(
        rented.spec.name.removesuffix("-rehearsal"), total=0.06, guard="10s", grace="45s"
    )
    asyncio.run(api.up(watched))
    assert asyncio.run(api.plan(watched)).empty
    key = rented.desk("stat -c '%a %U' /etc/corral/guard/lambda.key")
    assert key == "600 root"
    # From here on nobody but the controller's timer does anything.
    until(lambda: rented.desk("ls /shared/saved 2>/dev/null"), 240, "the job got its signal")
    until(lambda: not _listed(rented), 300, "the clouds list nothing")
    # The round that ended them asks once more before it reports the end.
    state = "cat /var/lib/corral/guard/state.json"
    last = "the clouds list nothing any more"
    until(lambda: json.loads(rented.desk(state))["messages"][-1] == last, 300, last)
    report = json.loads(rented.desk(state))
    assert 0.04 <= report["spent"] < 0.3, report
    assert rented.desk("journalctl -u corral-guard | grep -c sim-; true") == "0"
    asyncio.run(api.up(rented.spec))
    assert rented.desk("ls /etc/corral/guard/lambda.key /etc/corral/guard.json; true") == ""


def _listed(rented: Rented) -> tuple[object, ...]:
    seen = asyncio.run(api.survey((rented.spec.name,)))
    return tuple(i for c in seen.clusters for i in c.assets.instances)
