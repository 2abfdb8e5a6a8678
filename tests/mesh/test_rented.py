"""A pod that is rented from a simulated RunPod becomes a node over the tailnet, and goes again."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral import api
from corral.errors import CorralError
from corral.hosts.state_dir import cluster_dir
from corral.providers.cloud.ledger import Ledger
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec
from corral.testing.clouds.contract import OpenApi
from corral.testing.clouds.runpod_sim import RunPodSim
from corral.testing.clouds.server import CloudServer
from tests.mesh.conftest import said
from tests.mesh.lab import Lab, tools
from tests.mesh.lab.pods import Pods

DOCUMENT = Path(__file__).parents[1] / "recorded" / "openapi" / "runpod-v2.json"
KEY = "sim-key-0123456789"
FILE = """\
corral: v1
name: {name}
controller: node0
groups:
  - {{name: desk, provider: ssh, nodes: node0, addresses: {address}, ssh: {{key: {key}}}}}
  - name: pods
    provider: runpod
    nodes: pod0
    cloud: {{type: NVIDIA GeForce RTX 4090, regions: [US-KS-2]}}
network:
  control: tailscale
  mesh: {{url: "{url}", programs: {programs}}}
budget: {{per_hour: 1}}
"""


@pytest.fixture(scope="module")
def sim(lab: Lab) -> Iterator[RunPodSim]:
    """A RunPod whose pods stand behind the lab's second NAT."""
    cloud = RunPodSim(key=KEY, machines=Pods(lab, 1), boot_s=1, end_s=1, limits={},
                      contract=OpenApi.load(DOCUMENT))  # fmt: skip
    server = CloudServer({"runpod": cloud})
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUNPOD_API_KEY", KEY)
        patch.setenv("CORRAL_RUNPOD_URL", server.url("runpod"))
        yield cloud
    server.shutdown()
    for machine in cloud.alive():
        cloud.terminate(machine)


@pytest.fixture(scope="module")
def spec(lab: Lab, sim: RunPodSim) -> Iterator[ClusterSpec]:
    name = f"{lab.name}-r"
    path = lab.folder / "rented.yaml"
    path.write_text(FILE.format(name=name, address=lab.nodes[0].address, key=lab.key,
                                url=lab.control.url, programs=tools.folder()))  # fmt: skip
    yield load_or_raise(path)
    shutil.rmtree(cluster_dir(name, create=False), ignore_errors=True)
    Ledger(name).path.unlink(missing_ok=True)


def test_a_rented_pod_becomes_a_node_runs_a_job_and_goes(
    lab: Lab, sim: RunPodSim, spec: ClusterSpec
) -> None:
    desk = lab.nodes[0]
    # The tests before have given the tailnet a policy: without this cluster's tag in it its nodes
    # would not see each other.
    asyncio.run(api.apply_mesh_policy(spec))
    try:
        asyncio.run(api.up(spec, said))
    except CorralError as error:
        pytest.fail(f"up: {error.code}: {error}\n{error.command}\n{error.tail}\n{error.hint}")
    (machine,) = sim.alive()
    pod = sim.behind.pods[machine.id]  # type: ignore[union-attr]
    assert pod.root("cat /proc/1/comm") == "sshd"
    assert pod.root("test -e /dev/net/tun", check=False) is None
    assert asyncio.run(api.plan(spec)).empty
    run = "cd /tmp && su corral -s /bin/sh -c 'timeout 60 srun -w pod0 -n1 hostname' 2>&1"
    assert desk.ssh(run) == machine.id  # a pod may not change its host name
    features = desk.ssh("sinfo -h -N -n pod0 -o %f") or ""
    assert "no-cgroups" in features and "island-alone-pod0" in features
    assert {n["name"] for n in lab.control.nodes()} == {"node0", "pod0"}
    bill = asyncio.run(api.cost(spec))
    assert bill.now.per_hour == pytest.approx(0.69)
    gone = asyncio.run(api.down(spec, force=True))
    assert any("runpod instance" in line for line in gone), gone
    assert sim.alive() == []
    assert lab.control.nodes() == []
    assert not [r for r in Ledger(spec.name).rentals().values() if r.open]
    assert sim.violations == []
