"""Pods that are rented from a simulated RunPod become nodes over the tailnet, and go again."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from corral import api
from corral.errors import CorralError
from corral.providers.cloud.ledger import Ledger
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec
from corral.state_dir import cluster_dir
from corral.testing.clouds.contract import OpenApi
from corral.testing.clouds.runpod import RunPodSim
from corral.testing.clouds.server import CloudServer
from tests.mesh.conftest import show_event
from tests.mesh.lab import Lab, tools
from tests.mesh.lab.pods import Pods

DOCUMENT = Path(__file__).parents[1] / "recorded" / "openapi" / "runpod-v2.json"
KEY = "sim-key-0123456789"
CLUSTER = """\
  - name: pods
    provider: runpod
    nodes: pod[0-1]
    cloud: {type: NVIDIA H100 80GB HBM3, cluster: true}
"""
POD = """\
  - name: pods
    provider: runpod
    nodes: pod0
    cloud: {type: NVIDIA GeForce RTX 4090, regions: [US-KS-2]}
"""
# Over the network of the cluster, which is the only link between its pods.
SUM = """\
#!/bin/sh
export MASTER_PORT=45321 GLOO_SOCKET_IFNAME=ens1 USE_LIBUV=0 OMP_NUM_THREADS=1
export MASTER_ADDR=$(getent ahostsv4 pod0 | cut -d' ' -f1 | head -n 1)
timeout 300 srun -N2 -n2 --ntasks-per-node=1 sh -c 'RANK=$SLURM_PROCID WORLD_SIZE=2 python3 -c "
import os, torch, torch.distributed as d
d.init_process_group(\\"gloo\\")
t = torch.full((1000,), float(d.get_rank() + 1))
d.all_reduce(t)
print(os.environ[\\"MASTER_ADDR\\"], os.environ[\\"SLURMD_NODENAME\\"], t.sum().item())
d.destroy_process_group()
"'
"""
FILE = """\
corral: v1
name: {name}
controller: node0
groups:
  - {{name: desk, provider: ssh, nodes: node0, addresses: {address}, ssh: {{key: {key}}}}}
{pods}network:
  control: tailscale
  mesh: {{url: "{url}", programs: {programs}}}
budget: {{per_hour: 7}}
"""


@pytest.fixture(scope="module")
def sim(lab: Lab) -> Iterator[RunPodSim]:
    """A RunPod whose pods are behind the lab's second NAT."""
    cloud = RunPodSim(
        key=KEY,
        machines=Pods(lab, 1),
        boot_s=1,
        end_s=1,
        limits={},
        contract=OpenApi.load(DOCUMENT),
    )
    server = CloudServer({"runpod": cloud})
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUNPOD_API_KEY", KEY)
        patch.setenv("CORRAL_RUNPOD_URL", server.url("runpod"))
        yield cloud
    server.shutdown()
    for machine in cloud.alive():
        cloud.terminate(machine)


@contextmanager
def rented(lab: Lab, pods: str) -> Iterator[ClusterSpec]:
    """A cluster of the desk and rented pods, up; all of it is gone afterwards."""
    name = f"{lab.name}-r"
    path = lab.folder / "rented.yaml"
    path.write_text(
        FILE.format(
            name=name,
            address=lab.nodes[0].address,
            key=lab.key,
            pods=pods,
            url=lab.control.url,
            programs=tools.folder(),
        )
    )
    spec = load_or_raise(path)
    # The tests before have given the tailnet a policy: without this cluster's tag in it its nodes
    # would not see each other.
    asyncio.run(api.apply_mesh_policy(spec))
    try:
        asyncio.run(api.up(spec, show_event))
        yield spec
    except CorralError as error:
        pytest.fail(f"up: {error.code}: {error}\n{error.command}\n{error.tail}\n{error.hint}")
    finally:
        gone = asyncio.run(api.down(spec, force=True))
        left = [r for r in Ledger(name).rentals().values() if r.open]
        shutil.rmtree(cluster_dir(name, create=False), ignore_errors=True)
        Ledger(name).path.unlink(missing_ok=True)
    assert any("runpod" in line for line in gone), gone
    assert left == []
    assert lab.control.nodes() == []


def test_a_rented_pod_becomes_a_node_runs_a_job_and_goes(lab: Lab, sim: RunPodSim) -> None:
    with rented(lab, POD) as spec:
        _one_pod(lab, sim, spec)
    assert sim.alive() == []
    assert sim.violations == []


def test_pods_of_one_cluster_run_a_job_together_over_their_own_network(
    lab: Lab, sim: RunPodSim
) -> None:
    with rented(lab, CLUSTER) as spec:
        _check_cluster(lab, sim, spec)
    assert sim.alive() == [] and sim.clusters == {}
    assert sim.violations == []


def _check_cluster(lab: Lab, sim: RunPodSim, spec: ClusterSpec) -> None:
    desk = lab.nodes[0]
    assert sorted(m.more["rank"] for m in sim.alive()) == [0, 1]
    assert asyncio.run(api.plan(spec)).empty
    assert {n["name"] for n in lab.control.nodes()} == {"node0", "pod0", "pod1"}
    features = desk.ssh("sinfo -h -N -o '%N %f'") or ""
    assert features.count("island-fabric-pods") == 2, features
    as_user = "cd /tmp && su corral -s /bin/sh -c"
    hosts = desk.ssh(f"{as_user} 'timeout 90 srun -w pod[0-1] -N2 hostname' 2>&1", timeout=120)
    assert sorted((hosts or "").split()) == sorted(m.id for m in sim.alive())
    desk.ssh(f"cat > /tmp/sum.sh <<'END'\n{SUM}END\n")
    words = "sbatch -W -N2 -w pod[0-1] -t 10 -o /tmp/sum.out /tmp/sum.sh; true"
    submitted = desk.ssh(f"{as_user} '{words}' 2>&1", timeout=420)
    (first,) = (m.id for m in sim.alive() if m.more["rank"] == 0)  # one of another test is gone
    pod = sim.behind.pods[first]  # type: ignore[union-attr]
    out = (pod.root("cat /tmp/sum.out", check=False) or "").splitlines()
    jobs = desk.ssh("scontrol show jobs", check=False)
    assert sorted(out) == ["10.65.0.2 pod0 3000.0", "10.65.0.2 pod1 3000.0"], (out, submitted, jobs)
    bill = asyncio.run(api.cost(spec))
    assert bill.now.per_hour == pytest.approx(2 * 2.99)


def _one_pod(lab: Lab, sim: RunPodSim, spec: ClusterSpec) -> None:
    desk = lab.nodes[0]
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
