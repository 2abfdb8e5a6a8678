"""Network, folders and training of a real cluster: measured, broken on purpose, and judged."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.embedded.links import peer_of, shaped

from corral import api
from corral.api.evidence.collective_bench import BenchRequest
from corral.api.evidence.node_bench import measured_before
from corral.api.evidence.scaling import Training
from corral.errors import Code, CorralError
from corral.hosts.quote import sh
from corral.prove.fabric.comparison import Known
from corral.prove.fabric.verdict import Outcome
from corral.prove.measure.measurement import Measured
from corral.spec.models import ClusterSpec

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

RECORDED = Path(__file__).parents[1] / "recorded"
PROGRAMS = Path(__file__).parent / "programs"
NODES = ("node0", "node1", "node2")


def host(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def with_data(live: Live, **data: object) -> ClusterSpec:
    network = live.spec.network.model_validate({"data": data})
    return live.spec.model_copy(update={"network": network})


def network(live: Live, **data: object) -> Measured:
    spec = with_data(live, **data) if data else live.spec
    return asyncio.run(api.bench_network(spec, seconds=0.4))


def bad(measured: Measured) -> set[tuple[str, str]]:
    grave = (Outcome.FAIL, Outcome.WARN)
    return {(r.about, r.failure) for r in measured.remarks if r.outcome in grave}


def faults(measured: Measured) -> set[tuple[str, str]]:
    """What is wrong with the cluster: a rate is low where other tests run too."""
    return {(about, failure) for about, failure in bad(measured) if failure}


def process(live: Live, node: str) -> str:
    return host("podman", "inspect", "-f", "{{.State.Pid}}", f"corral-{live.spec.name}-{node}")


@contextmanager
def second_network(live: Live, bridge: str, subnet: str) -> Iterator[tuple[str, ...]]:
    """A second interface, eth1, on each node; gives this machine's ends."""
    ends = tuple(f"{live.spec.name[-9:]}x{i}" for i in range(3))
    try:
        for i, (node, end) in enumerate(zip(NODES, ends, strict=True)):
            pid = process(live, node)
            host("ip", "link", "add", end, "type", "veth", "peer", "name", "eth1", "netns", pid)
            host("ip", "link", "set", end, "master", bridge, "up")
            inside = ("nsenter", "-t", pid, "-n", "ip")
            host(*inside, "addr", "add", f"{subnet}.{60 + i}/24", "dev", "eth1")
            host(*inside, "link", "set", "eth1", "up")
        yield ends
    finally:
        for end in ends:
            subprocess.run(["ip", "link", "del", end], check=False, capture_output=True)


@contextmanager
def bridged() -> Iterator[str]:
    name = "corraltestbr"
    host("ip", "link", "add", name, "type", "bridge")
    try:
        host("ip", "link", "set", name, "up")
        yield name
    finally:
        host("ip", "link", "del", name)


def test_a_healthy_network_is_measured_and_kept(cluster: Live) -> None:
    measured = network(cluster)
    flows = measured.figures["flows"]
    assert {(f["source"], f["target"]) for f in flows} == {
        (a, b) for a in NODES for b in NODES if a != b
    }
    assert all(f["gbps"] > 0 and f["path_mtu"] == 1500 and f["rtt_us"] > 0 for f in flows)
    assert faults(measured) == set()
    assert measured.charts
    kept = measured_before(cluster.spec.name, "network")[-1]
    assert (kept["job"], kept["good"]) == (measured.job, measured.good)


def test_a_slow_node_is_named(cluster: Live) -> None:
    with shaped(cluster, "node2", "50mbit"):
        measured = network(cluster, gbps=0.4)
    assert ("node2", "") in bad(measured)
    assert any("node2 is slow with every other node" in r.text for r in measured.remarks)
    assert not measured.good


@pytest.mark.slow
def test_a_path_that_loses_large_packets_is_found(cluster: Live) -> None:
    with bridged() as bridge, second_network(cluster, bridge, "10.211.7") as ends:
        assert faults(network(cluster, interface="eth1")) == set()
        host("ip", "link", "set", ends[1], "mtu", "1400")
        measured = network(cluster, interface="eth1")
    failed = [r for r in measured.remarks if r.outcome is Outcome.FAIL]
    assert failed and all("node1" in r.about and r.failure == "F28" for r in failed)
    assert any("more than 1400 bytes are lost" in r.text for r in failed)


def test_traffic_over_another_interface_is_found(cluster: Live) -> None:
    """Two interfaces in one subnet: the kernel takes the first for both."""
    address = cluster.facts["node0"].address
    master = Path("/sys/class/net") / peer_of(cluster, "node0") / "master"
    subnet = address.rpartition(".")[0]
    with second_network(cluster, master.resolve().name, subnet):
        measured = network(cluster, interface="eth1")
    assert {(node, "F37") for node in NODES} <= bad(measured)
    assert any(
        "over eth0 and not over the declared interface eth1" in r.text for r in measured.remarks
    )


def test_an_interface_that_is_not_there_is_found(cluster: Live) -> None:
    assert bad(network(cluster, interface="eth7")) == {(node, "F26") for node in NODES}


def test_folders_are_measured_compared_and_left_clean(cluster: Live) -> None:
    measured = asyncio.run(api.bench_storage(cluster.spec, size=8 << 20, files=50))
    shares = measured.figures["shares"]
    assert [(s["node"], s["together"]) for s in shares] == [
        *((node, 1) for node in NODES),
        *((node, 3) for node in NODES),
    ]
    assert all(s["reader"] != s["node"] and s["wrong"] == 0 for s in shares)
    assert all(rate > 0 for s in shares for rate in s["rates"].values())
    left = cluster.run("node0", sh("ls -A /shared | grep corral-bench || true"))
    assert left.stdout == ""


def test_gpus_that_are_device_files_are_refused(cluster: Live) -> None:
    with pytest.raises(CorralError) as caught:
        asyncio.run(api.bench_gpu(cluster.spec))
    assert caught.value.code is Code.USAGE


def test_training_over_nodes_is_measured_and_answered(cluster: Live) -> None:
    training = Training(
        parameters=100_000, batch=1, length=16, batches=16, ways=("ddp", "bf16"), links=(1.0,)
    )
    measured = asyncio.run(api.bench_scaling(cluster.spec, training))
    ways = {(t["way"], t["ranks"]) for t in measured.figures["trained"]}
    assert ways == {("ddp", 1), ("ddp", 2), ("ddp", 3), ("bf16", 2), ("bf16", 3)}
    assert all(t["loss"] > 0 and t["seconds"] > 0 for t in measured.figures["trained"])
    texts = " ".join(r.text for r in measured.remarks)
    assert "3 nodes, a model of" in texts
    assert "gradients sent as bfloat16" in texts
    # Nothing shapes these links: the nodes' processors are the limit, and no figure would hold.
    assert "cost model" in texts and "links of 1 Gb/s are not predicted" in texts


@pytest.mark.slow
def test_ctrl_c_prints_what_training_measured(cluster: Live, tmp_path: Path) -> None:
    """Once plain training on one and on three nodes is known; a new job then runs at once."""
    words = ("scaling", "-c", cluster.spec.name, "--parameters", "100K", "--length", "16", "--json")
    log = tmp_path / "stderr"
    with log.open("w") as stderr:
        program = subprocess.Popen(
            [sys.executable, "-m", "corral", "bench", *words],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
    end = time.monotonic() + 120
    while "ddp over 3 ranks" not in log.read_text() and program.poll() is None:
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.1)
    program.send_signal(signal.SIGINT)
    out, _ = program.communicate(timeout=30)
    progress, report = log.read_text(), json.loads(out)
    asyncio.run(api.cancel(cluster.spec, [report["job"]]))
    assert program.returncode == 130, progress
    assert re.search(r"measurements to go, about [\d.]+ (s|min)", progress)
    assert report["partial"] and report["error"]["code"] == "interrupted"
    assert {(t["way"], t["ranks"]) for t in report["figures"]["trained"]} >= {
        ("ddp", 1),
        ("ddp", 3),
    }
    assert report["remarks"][0]["text"].startswith("training over several nodes ")
    assert report["figures"]["pays_from"]["ranks"] == 3
    assert any(remark["text"].startswith("not measured: ") for remark in report["remarks"])


@pytest.mark.slow
def test_three_nodes_have_their_answer_within_three_minutes(cluster: Live) -> None:
    """With all methods and the default model; on a loaded machine fewer of them."""
    begun = time.monotonic()
    measured = asyncio.run(api.bench_scaling(cluster.spec, Training()))
    assert time.monotonic() - begun < 180
    assert {(t["way"], t["ranks"]) for t in measured.figures["trained"]} >= {("ddp", 1), ("ddp", 3)}
    assert measured.figures["pays_from"]


@pytest.mark.slow
def test_each_way_of_training_is_measured(cluster: Live) -> None:
    training = Training(
        parameters=100_000, batch=1, length=16, batches=16, counts=(1, 2), seconds=0
    )
    measured = asyncio.run(api.bench_scaling(cluster.spec, training))
    ways = {t["way"] for t in measured.figures["trained"] if t["ranks"] == 2}
    assert ways == set(Training().ways)


@pytest.fixture
def nccl_tests(cluster: Live) -> Iterator[str]:
    """Something in the place of nccl-tests, on the shared folder; see its own comment."""
    folder = "/shared/fake-nccl-tests"
    where = host(
        "podman",
        "inspect",
        "-f",
        '{{range .Mounts}}{{if eq .Destination "/shared"}}{{.Source}}{{end}}{{end}}',
        f"corral-{cluster.spec.name}-node0",
    )
    here = Path(where) / "fake-nccl-tests"
    here.mkdir(exist_ok=True)
    shutil.copy(PROGRAMS / "all_reduce_perf", here)
    shutil.copy(RECORDED / "nccl" / "dgx1-all-reduce.txt", here / "table.txt")
    yield folder
    shutil.rmtree(here)


def test_nccl_tests_runs_over_nodes_and_is_read(cluster: Live, nccl_tests: str) -> None:
    request = BenchRequest(("all_reduce",), nodes=2, nccl_tests=nccl_tests)
    benched = asyncio.run(api.run_bench(cluster.spec, request, Known(hardware="dgx1")))
    ((table, verdict),) = benched.benchmark.tables
    assert len(table.rows) == 10
    assert (verdict.outcome, verdict.busbw) == (Outcome.PASS, 54.06)


def test_nccl_tests_without_mpi_is_found(cluster: Live, nccl_tests: str) -> None:
    """Without MPI each process measures alone and prints its own table."""
    folder = nccl_tests
    cluster.run("node0", sh("sed -i 's/^rank=.*/rank=0/' {f}", f=f"{folder}/all_reduce_perf"))
    with pytest.raises(CorralError) as caught:
        request = BenchRequest(("all_reduce",), nodes=2, nccl_tests=folder)
        asyncio.run(api.run_bench(cluster.spec, request))
    # One after the other, or their lines mixed: the ranks write at the same time.
    message = caught.value.message
    assert "2 tables" in message or "second header" in message
    assert "MPI=1" in caught.value.hint


def test_a_missing_program_is_reported(cluster: Live) -> None:
    with pytest.raises(CorralError) as caught:
        request = BenchRequest(("all_reduce",), nodes=2, nccl_tests="/opt/nowhere")
        asyncio.run(api.run_bench(cluster.spec, request))
    assert "/opt/nowhere/all_reduce_perf is not a program" in caught.value.tail


@pytest.mark.slow
def test_a_node_that_reads_slowly_is_named(cluster: Live) -> None:
    """Its container may read no more than 8 MB/s of the disk (blkio of cgroup v1)."""
    name = f"corral-{cluster.spec.name}-node2"
    group = next(
        line.rpartition(":")[2]
        for line in Path(f"/proc/{process(cluster, 'node2')}/cgroup").read_text().splitlines()
        if ":blkio:" in line or line.startswith("0::")
    )
    limit = Path(f"/sys/fs/cgroup/blkio{group}/blkio.throttle.read_bps_device")
    if not limit.exists():
        pytest.skip("this kernel has no blkio of cgroup v1")
    disk = host("podman", "exec", name, "stat", "-c", "%Hd:%Ld", "/shared")
    try:
        limit.write_text(f"{disk} 8000000")
        measured = asyncio.run(api.bench_storage(cluster.spec, size=16 << 20, files=20))
    finally:
        limit.write_text(f"{disk} 0")
    assert ("node2", "") in bad(measured)
    assert any("node2: read in /shared" in r.text for r in measured.remarks)
