"""A machine with three GPUs of which the file declares one: no job gets the other two."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.embedded.bare import container
from tests.embedded.conftest import Live, named
from tests.embedded.test_gpu_types import EPERM, devices_of
from tests.embedded.test_node_replacement import admit, live_without
from tests.embedded.test_prove import proof_of

from corral import api
from corral.hosts.quote import sh
from corral.hosts.sshkeys import make_key
from corral.plan.model import Plan
from corral.prove.context import as_user
from corral.prove.model import Verdict
from corral.providers.containers import layout
from corral.spec.models import ClusterSpec

pytestmark = pytest.mark.slow

DEVICES = "for n in 0 1 2; do mknod -m 666 /dev/nvidia$n c 195 $n; done"
NOT_FOR_JOBS = "gres/withheld: these GPUs are not for jobs"


def with_iron(spec: ClusterSpec, address: str, key: Path) -> ClusterSpec:
    """The cluster with node1, a machine by ssh, of whose GPUs one is declared."""
    data = spec.model_dump(mode="json")
    data["groups"].append(
        {
            "name": "iron",
            "provider": "ssh",
            "nodes": "node1",
            "addresses": address,
            "ssh": {"user": "root", "key": str(key)},
            "gpu": {"type": "big", "count": 1},
        }
    )
    data["partitions"][0]["groups"].append("iron")
    return ClusterSpec.model_validate(data)


@pytest.fixture(scope="module")
def lab(
    fresh_cluster: Callable[[ClusterSpec], Live], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Live, Plan]]:
    """The cluster, and the plan that added the machine."""
    base = named(f"withheld-{os.getpid()}", storage=())
    group = base.groups[0].model_copy(update={"nodes": "node0", "gpu": None})
    live = fresh_cluster(base.model_copy(update={"groups": (group,)}))
    key = tmp_path_factory.mktemp("key") / "key"
    public = make_key(key)
    with container("iron", layout.network(live.spec.name)) as machine:
        machine.root(DEVICES)
        admit(machine, public)
        spec = with_iron(live.spec, machine.address, key)
        plan = asyncio.run(api.plan(spec))
        asyncio.run(api.up(spec))
        yield Live(spec, {}), plan
        # The machine goes with this test, not by corral down, which would restore it.
        asyncio.run(api.up(live_without(spec)))


def submitted(lab: Live, *words: str) -> str:
    """What a submission prints that Slurm must refuse."""
    done = lab.run(lab.controller, as_user("corral", sh("cd /tmp; {words}", words=list(words))))
    assert not done.ok, done.stdout
    return done.stderr


def test_the_plan_names_them(lab: tuple[Live, Plan]) -> None:
    live, plan = lab
    lines = [entry.change.summary for stage in plan.stages for entry in stage.changes]
    named_ones = [line for line in lines if "not declared" in line]
    assert named_ones == [
        "change /etc/slurm/gres.conf: no job gets GPUs that are not declared "
        "(node1: /dev/nvidia[1-2])"
    ]
    assert asyncio.run(api.plan(live.spec)).empty


@pytest.mark.parametrize(
    ("options", "opened"),
    [
        ((), set[str]()),
        (("--gres=gpu:1",), {"/dev/nvidia0"}),
        (("--gres=gpu:big:1", "--exclusive"), {"/dev/nvidia0"}),
    ],
)
def test_jobs_open_those_that_they_got_alone(
    lab: tuple[Live, Plan], options: tuple[str, ...], opened: set[str]
) -> None:
    """Also with the node to themselves: Slurm then gives a job all resources of the node."""
    errors, _ = devices_of(lab[0], "-w", "node1", *options)
    assert set(errors) == {"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2"}
    assert {path for path, error in errors.items() if error != EPERM} == opened


def test_no_job_can_ask_for_them(lab: tuple[Live, Plan]) -> None:
    live, _ = lab
    srun = ("srun", "-n1", "--mem=50", "--immediate=30", "-w", "node1")
    for option in ("--gres=withheld:1", "--gres=gpu:1,withheld:2", "--tres-per-task=gres/withheld"):
        assert NOT_FOR_JOBS in submitted(live, *srun, option, "true")
    alone = ("salloc", "-n1", "--mem=50", "--immediate=30", "-w", "node1", "--exclusive")
    assert "Invalid generic resource" in submitted(
        live, *alone, "srun", "--gres=withheld:1", "true"
    )
    held = sh("cd /tmp; sbatch --parsable --hold -n1 --mem=50 -w node1 -o /dev/null --wrap true")
    job = live.run(live.controller, as_user("corral", held)).stdout.strip()
    change = ("scontrol", "update", f"jobid={job}", "TresPerNode=gres/withheld:1")
    assert NOT_FOR_JOBS in submitted(live, *change)
    live.run(live.controller, sh("scancel {j}", j=job))


def test_verbs_and_proof_count_the_declared_ones(lab: tuple[Live, Plan]) -> None:
    live, _ = lab
    nodes = {member.node: member for member in asyncio.run(api.status(live.spec)).nodes}
    record = nodes["node1"].record
    assert record is not None
    assert record.gpus == 1
    checks = ("smoke.config", "smoke.registered", "isolation.devices")
    proof = proof_of(live, checks)
    assert [result.check for result in proof.results] == list(checks)
    for result in proof.results:
        assert result.verdict is Verdict.PASS, result
    (devices,) = [result for result in proof.results if result.check == "isolation.devices"]
    figures = {name: value for each in devices.evidence for name, value in each.figures.items()}
    assert figures["node1 /dev/nvidia1"] == figures["node1 /dev/nvidia2"] == "not permitted"
