"""The entire life on simulated clouds with containers: prices, up, job, cost, down, elastic."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from corral import api
from corral.hosts.quote import sh
from corral.providers.cloud.ledger import Ledger
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec
from corral.state_dir import cluster_dir
from tests.embedded.conftest import Live, needs

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE = EXAMPLES / "cloud-mesh.yaml"
TURNS = 60


def rehearsed(**elastic: object) -> ClusterSpec:
    spec = load_or_raise(EXAMPLE).model_dump(mode="python")
    spec["name"] = f"cloud-{'e' if elastic else 't'}{os.getpid()}"
    if elastic:
        spec["groups"][1]["elastic"] = elastic
    return api.rehearsal(ClusterSpec.model_validate(spec))[0]


@pytest.mark.embedded
@pytest.mark.slow
def test_life_of_a_rented_cluster() -> None:
    if needs():
        pytest.skip(needs())
    spec = rehearsed()
    try:
        plan = asyncio.run(api.plan(spec))
        summaries = {m.node: m.summary for m in plan.machines}
        assert "2.49 $/h" in summaries["gpu0"] and "of 10.00 $/h" in summaries["small0"]
        asyncio.run(api.up(spec))
        assert asyncio.run(api.plan(spec)).empty
        live = Live(spec, {})
        ran = live.run("desk", sh("timeout 60 srun -p small hostname"), timeout=90)
        assert ran.stdout.strip() == "small0"
        bill = asyncio.run(api.cost(spec))
        assert bill.now.per_hour == pytest.approx(2.49 + 0.76)
        assert {line.name for line in bill.users} == {"root", "(no job)"}
    finally:
        gone = asyncio.run(api.down(spec))
    assert sum("instance" in line for line in gone) == 2
    assert not cluster_dir(spec.name, create=False).exists()
    assert not [r for r in Ledger(spec.name).rentals().values() if r.open]
    Ledger(spec.name).path.unlink()


@pytest.mark.embedded
@pytest.mark.slow
def test_a_controller_with_a_gpu_runs_jobs_next_to_a_rented_machine() -> None:
    if needs():
        pytest.skip(needs())
    given = load_or_raise(EXAMPLES / "desk-and-cloud.yaml")
    spec = api.rehearsal(given.model_copy(update={"name": f"desk-{os.getpid()}"}))[0]
    try:
        asyncio.run(api.up(spec))
        assert asyncio.run(api.plan(spec)).empty
        live = Live(spec, {})
        show = 'echo "$SLURMD_NODENAME $CUDA_VISIBLE_DEVICES"'
        seen = {
            partition: live.run(
                "desk",
                sh("timeout 60 srun -p {p} {more} sh -c {show}", p=partition, more=more, show=show),
                timeout=90,
            ).stdout.split("\n")
            for partition, more in (
                ("desk", ["--gres=gpu:rtxa6000:1"]),
                ("h100", ["--gres=gpu:h100:1"]),
                ("all", ["-N2", "--gres=gpu:1"]),
            )
        }
        assert seen["desk"] == ["desk 0", ""]
        assert seen["h100"] == ["gpu0 0", ""]
        assert sorted(seen["all"]) == ["", "desk 0", "gpu0 0"]
    finally:
        gone = asyncio.run(api.down(spec))
    assert sum("instance" in line for line in gone) == 1
    Ledger(spec.name).path.unlink()


@pytest.mark.embedded
@pytest.mark.slow
def test_nodes_come_for_a_job_and_go_when_idle() -> None:
    if needs():
        pytest.skip(needs())
    spec = rehearsed(idle="30s", boot="10m", cpus=1, memory_gib=1)
    try:
        asyncio.run(api.up(spec))
        live = Live(spec, {})
        assert "idle~" in live.run("desk", sh("sinfo -hN -n gpu0 -o %T")).stdout
        job = sh("cd /shared && sbatch --parsable -p h100 --gres=gpu:1 --wrap 'hostname'")
        number = live.run("desk", job).stdout.strip()
        asyncio.run(api.drive(spec, once=True))
        asked = sh(
            "timeout 60 sh -c 'while squeue -hj {n} | grep -q .; do sleep 1; done'; "
            "sacct -nXPj {n} -o State,NodeList",
            n=number,
        )
        assert live.run("desk", asked, timeout=90).stdout.strip() == "COMPLETED|gpu0"
        down = sh(
            "timeout 150 sh -c 'until sinfo -hN -n gpu0 -o %T | grep -q idle[%~]; do sleep 1; done'"
        )
        assert live.run("desk", down, timeout=170).ok
        asyncio.run(api.drive(spec, once=True))
        open_ = [r.node for r in Ledger(spec.name).rentals().values() if r.open]
        assert open_ == ["small0"]
    finally:
        asyncio.run(api.down(spec))
    Ledger(spec.name).path.unlink()
