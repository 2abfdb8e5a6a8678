"""NCCL in the proof: hardware recognised from what nodes show, tables judged, the job's shell."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from corral.api.evidence.proof import rank_setup
from corral.hosts.fleet import Fleet
from corral.hosts.quote import call
from corral.inspect.facts import Facts, Gpu, Nic
from corral.prove.checks import nccl
from corral.prove.context import ProveContext
from corral.prove.fabric.corral_benchmark import MEASURES
from corral.prove.fabric.hardware import Machine, known_hardware, recognised
from corral.prove.fabric.model import Collective, bus_factor
from corral.prove.launch import Batch
from corral.prove.model import Evidence, Verdict
from corral.spec.models import ClusterSpec
from tests.unit.prove.surveys import slurm_node

RECORDED = Path(__file__).parents[3] / "recorded/nccl/h200x4-own-benchmark.txt"
SHOWN = Evidence("node0", "srun", "output")
V100, A100, H100 = "Tesla V100-SXM2-32GB", "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"
H200, B200 = "NVIDIA H200", "NVIDIA B200"
GOOGLE = "Google Compute Engine"


@pytest.mark.parametrize(
    ("machine", "name"),
    [
        (Machine((V100,) * 8, "infiniband", 4, 100, "DGX-1"), "dgx1"),
        (Machine((A100,) * 8, "infiniband", 8, 200, "DGXA100"), "dgx-a100"),
        (Machine((H100,) * 8, "infiniband", 8, 400, "DGXH100"), "dgx-h100"),
        (Machine((H200,) * 8, "infiniband", 8, 400), "dgx-h100"),
        (Machine((H200,) * 8, "roce", 8, 400, GOOGLE), "a3-ultra"),
        (Machine((B200,) * 8, "roce", 8, 400, GOOGLE), "a4"),
        (Machine(("NVIDIA GeForce RTX 5090",), "ethernet", 1, 2.5), "2.5gbe"),
        # Nearly so: nobody published figures of these.
        (Machine((B200,) * 8, "infiniband", 8, 400, "DGXB200"), ""),
        (Machine((H200,) * 8, "roce", 8, 400, "PowerEdge XE9680"), ""),
        (Machine((B200,) * 8, "roce", 8, 400, "PowerEdge XE9680"), ""),
        (Machine(("NVIDIA GB200",) * 4, "roce", 4, 400, GOOGLE), "a4x"),
        (Machine(("NVIDIA GB200",) * 4, "roce", 4, 400), ""),
        (Machine(("NVIDIA GB200",) * 8, "infiniband", 8, 400), ""),
        (Machine(("NVIDIA B300 SXM6 AC",) * 8, "infiniband", 8, 800, "DGXB300"), ""),
        (Machine(("NVIDIA H100 PCIe",) * 8, "infiniband", 8, 400), ""),
        (Machine(("NVIDIA H100 NVL",) * 8, "infiniband", 8, 400), ""),
        (Machine(("NVIDIA A100 80GB PCIe",) * 8, "infiniband", 8, 200), ""),
        (Machine(("NVIDIA GH200 480GB",) * 8, "infiniband", 8, 400), ""),
        (Machine((H100,) * 8, "infiniband", 7, 400), ""),
        (Machine((H100,) * 8, "infiniband", 8, 200), ""),
        (Machine((H100,) * 4, "infiniband", 8, 400), ""),
        (Machine(("NVIDIA GeForce RTX 5090",) * 2, "ethernet", 1, 2.5), ""),
        (Machine((H100,) * 8), ""),
    ],
)
def test_hardware_is_recognised_or_unknown(machine: Machine, name: str) -> None:
    assert recognised([machine, machine]) == name


def test_unlike_nodes_and_no_nodes_are_nothing_known() -> None:
    dgx = Machine((H100,) * 8, "infiniband", 8, 400)
    assert recognised([dgx, replace(dgx, nics=7)]) == ""
    assert recognised([]) == ""


def test_no_two_kinds_show_the_same() -> None:
    shown = [
        (k.shows, k.topology.nics, k.topology.gbps) for k in known_hardware().values() if k.shows
    ]
    assert len(set(shown)) == len(shown)


def facts(node: str, gpus: tuple[str, ...], mbps: int = 1000) -> Facts:
    named = tuple(Gpu(f"/dev/nvidia{i}", name, 80000) for i, name in enumerate(gpus))
    nics = (Nic("eth0", ("10.0.0.1",), mbps),)
    return Facts(
        node, "ubuntu", "24.04", "6.8", 64, 2, 32, 1, 1000, "v2", True, "10.0.0.1", named, nics
    )


def context(gpus: tuple[str, ...], count: int = 2, **data: object) -> ProveContext:
    fields: dict[str, object] = {
        "corral": "v1",
        "name": "lab",
        "groups": [
            {
                "name": "dgx",
                "provider": "ssh",
                "nodes": "node[0-1]",
                "addresses": "192.0.2.[10-11]",
                "gpu": {"type": "h100", "count": max(1, len(gpus))},
            }
        ],
    }
    if data:
        fields["network"] = {"data": data}
    spec = ClusterSpec.model_validate(fields)
    known = {f"node{i}": facts(f"node{i}", gpus) for i in range(count)}
    return ProveContext(spec, Fleet({}), "node0", "corral", known)


def batch(count: int = 2, gpus: int = 8) -> Batch:
    nodes = tuple(slurm_node(f"node{i}", gpus=gpus, cpus=64) for i in range(count))
    return Batch("main", nodes, gpu=True)


@pytest.mark.parametrize(("cores", "ranks"), [(64, 8), (4, 4), (1, 1)])
def test_a_node_has_no_more_ranks_than_cores(cores: int, ranks: int) -> None:
    """Slurm refuses a job of eight tasks on four cores: "node configuration is not available"."""
    ctx = context((H100,) * 8, 1)
    nodes = (slurm_node("node0", gpus=8, cpus=cores),)
    few = Batch("main", nodes, gpu=True)
    assert nccl.gpus_of_each(ctx, few) == ranks
    script = str(nccl.script_of(ctx, few, nccl.gpus_of_each(ctx, few)))
    assert f"--ntasks-per-node={ranks} --cpus-per-task={cores // ranks} " in script
    assert f"--gres=gpu:{ranks} " in script


def document(name: str, busbw: float, nodes: int, gpus: int, wrong: int = 0) -> str:
    ranks, size = nodes * gpus, 1 << 30
    algbw = busbw / bus_factor(Collective(name), ranks)
    cell = {"time": size / algbw / 1e3, "alg_bw": algbw, "bus_bw": busbw, "nwrong": float(wrong)}
    chunks = ranks if name == "all_gather" else 1
    row = {
        "size": size,
        "count": size // 4 // chunks,
        "type": "float",
        "redop": "sum" if name == "all_reduce" else "none",
        "root": "-1",
        "out_of_place": None,
        "in_place": cell,
    }
    members = [
        {"rank": i, "hostname": f"node{i // gpus}", "device_info": H100} for i in range(ranks)
    ]
    record = {
        "version": 1,
        "args": [f"{name}_perf"],
        "config": {"maximum_bytes": size, "devices": members},
        "results": [row],
        "out_of_bounds": {"count": wrong},
        "average_bus_bandwidth": {"bandwidth": busbw},
    }
    return f"@@corral-bench {json.dumps(record)}\n"


def ports(count: int = 2, rate: int = 400) -> str:
    lines = [f"@ port node{n} mlx5_{i}:1 {rate} InfiniBand" for n in range(count) for i in range(8)]
    return "".join(f"{line}\n" for line in lines)


IB = "node0:1:1 [0] NCCL INFO Using network IB\n"
SOCKET = "node0:1:1 [0] NCCL INFO Using network Socket\n"


def run(reduce: float, gather: float, *, head: str = "", wrong: int = 0) -> str:
    return head + document("all_reduce", reduce, 2, 8, wrong) + document("all_gather", gather, 2, 8)


@pytest.mark.parametrize(
    ("text", "verdict", "words"),
    [
        (run(380, 371, head=ports() + IB), Verdict.PASS, "all_reduce 380 GB/s (103% of 370)"),
        (run(300, 371, head=ports() + IB), Verdict.WARN, "all_reduce: 300 GB/s is 81%"),
        (run(380, 200, head=ports() + IB), Verdict.FAIL, "all_gather: 200 GB/s is 54%"),
        (run(380, 371, head=ports() + IB, wrong=3), Verdict.FAIL, "3 results are wrong"),
        # Sockets on a machine with InfiniBand: the network is named, not only the speed.
        (run(20, 20, head=ports() + SOCKET), Verdict.FAIL, "silent fall-back to TCP sockets"),
        # Not recognised: kept and not judged, but wrong results are wrong anywhere.
        (run(20, 20, head=IB), Verdict.PASS, "20 GB/s (nothing is known to compare it with)"),
        (run(20, 20, head=IB, wrong=1), Verdict.FAIL, "1 results are wrong"),
        ("@ notorch node1\n@ notorch node0\n", Verdict.SKIP, "no PyTorch on node[0-1]"),
        (run(20, 20).replace(H100, "cpu"), Verdict.SKIP, "uses no GPU"),
        ("@ product node0 DGXH100\n", Verdict.FAIL, "ncclSystemError"),
    ],
)
def test_a_run_is_judged(text: str, verdict: Verdict, words: str) -> None:
    errors = "Traceback\nncclSystemError: a call failed\n"
    result = nccl.judge_run(context((H100,) * 8), batch(), text, errors, SHOWN)
    assert (result.verdict, words in result.summary) == (verdict, True), result.summary


def with_plugin(gpus: tuple[str, ...]) -> ProveContext:
    """Two A3 Ultra nodes, whose NCCL has a plugin."""
    ctx = context(gpus)
    group = ctx.spec.groups[0].model_copy(update={"machine": "a3-ultragpu-8g"})
    ctx.spec = ctx.spec.model_copy(update={"groups": (group,)})
    return ctx


ROCE = ports().replace("InfiniBand", "Ethernet")
PRODUCT = "".join(f"@ product node{n} {GOOGLE}\n" for n in range(2))


@pytest.mark.parametrize(
    ("network", "gather", "verdict", "words"),
    [
        ("gIB", 335, Verdict.PASS, "all_gather 335 GB/s (102% of 330)"),
        ("gIB", 250, Verdict.WARN, "all_gather: 250 GB/s is 76%"),
        # NCCL's own network for RoCE, and sockets: the plugin was not loaded.
        ("IB", 335, Verdict.FAIL, "NCCL used IB where the fabric is gib"),
        ("Socket", 20, Verdict.FAIL, "silent fall-back to TCP sockets"),
    ],
)
def test_nodes_with_a_plugin_have_to_use_it(
    network: str, gather: float, verdict: Verdict, words: str
) -> None:
    text = run(330, gather, head=PRODUCT + ROCE + IB.replace("IB", network))
    result = nccl.judge_run(with_plugin((H200,) * 8), batch(), text, "", SHOWN)
    assert (result.verdict, words in result.summary) == (verdict, True), result.summary
    assert result.evidence[0].figures["hardware"] == "a3-ultra"


def test_the_figures_name_what_was_compared() -> None:
    text = run(380, 371, head=ports() + IB)
    result = nccl.judge_run(context((H100,) * 8), batch(), text, "", SHOWN)
    figures = result.evidence[0].figures
    assert figures["hardware"] == "dgx-h100"
    assert (figures["all_gather reference GB/s"], figures["all_gather verdict"]) == (370.0, "pass")
    unknown = nccl.judge_run(context((H100,) * 8), batch(), run(20, 20), "", SHOWN)
    assert unknown.evidence[0].figures["hardware"] == "unknown"
    assert unknown.evidence[0].figures["all_reduce verdict"] == "unknown"


def test_a_declared_rate_is_the_reference_where_no_hardware_is_recognised() -> None:
    ctx = context((H100,) * 8, fabric="infiniband", gbps=100, nics=1)
    result = nccl.judge_run(ctx, batch(), run(5, 11.7, head=IB), "", SHOWN)
    assert result.verdict is Verdict.FAIL
    assert "all_reduce: 5 GB/s is 43% of the reference 11.75" in result.summary


def test_the_recorded_run_of_four_h200_is_not_compared_with_other_machines() -> None:
    result = nccl.judge_run(context((H200,) * 4), batch(1, 4), RECORDED.read_text(), "", SHOWN)
    assert result.verdict is Verdict.PASS
    assert "all_reduce 364.9 GB/s (nothing is known to compare it with)" in result.summary
    assert "over 4 GPUs on 1 node" in result.summary


@pytest.mark.parametrize(
    ("line", "machine"),
    [
        ("interface node0 eno1 2500 igc", Machine((H100,), "ethernet", 1, 2.5)),
        ("interface node0 eno1 -1 igc", Machine((H100,), "ethernet", 1, 0)),
        ("interface node0 ens4 10000 vmxnet3", Machine((H100,))),
        ("interface node0 eth0 10000", Machine((H100,))),
        ("port node0 mlx5_0:1 400 Ethernet", Machine((H100,), "roce", 1, 400)),
        ("port node0 mlx5_0:1 0", Machine((H100,))),
    ],
)
def test_what_a_node_shows(line: str, machine: Machine) -> None:
    (shown,) = nccl.parse_shown(f"@ {line}\n").values()
    assert shown.machine((H100,)) == machine


def test_ports_of_two_rates_are_nothing_known() -> None:
    text = "@ port node0 mlx5_0:1 400 InfiniBand\n@ port node0 mlx5_1:1 200 InfiniBand\n"
    (shown,) = nccl.parse_shown(text).values()
    assert shown.machine((H100,)) == Machine((H100,), "infiniband", 2, 0.0)


@pytest.mark.parametrize(
    ("gpus", "count", "reason"),
    [
        ((), 2, "nvidia-smi names no GPU on any node"),
        (("",), 2, "nvidia-smi names no GPU on any node"),
        ((H100,), 2, ""),
    ],
)
def test_where_it_applies(gpus: tuple[str, ...], count: int, reason: str) -> None:
    assert nccl.applies(context(gpus, count)) == reason


def test_stand_ins_are_no_gpus() -> None:
    ctx = context((H100,))
    group = ctx.spec.groups[0].model_copy(update={"provider": "embedded"})
    ctx.spec = ctx.spec.model_copy(update={"groups": (group,)})
    assert nccl.applies(ctx) == "the GPUs of these nodes are stand-ins"


@pytest.mark.parametrize(
    ("data", "mbps", "count", "largest"),
    [
        ({}, 1000, 2, 64 << 20),
        ({}, 100_000, 2, 1 << 30),
        ({}, 1000, 1, 1 << 30),
        ({"gbps": 2.5}, 100_000, 2, 64 << 20),
        ({"gbps": 200, "nics": 8}, 0, 2, 1 << 30),
        ({"fabric": "infiniband"}, 1000, 2, 1 << 30),
    ],
)
def test_a_slow_network_gets_small_buffers(
    data: dict[str, object], mbps: int, count: int, largest: int
) -> None:
    ctx = context((H100,) * 8, **data)
    ctx.facts = {name: facts(name, (H100,) * 8, mbps) for name in ctx.facts}
    assert nccl.sizes(ctx, batch(count))[1] == largest


def test_a_plugins_network_gets_large_buffers_whatever_else_a_node_shows() -> None:
    assert nccl.sizes(with_plugin((H200,) * 8), batch())[1] == 1 << 30


def sysfs(folder: Path) -> Path:
    sys = folder / "sys"
    for i in range(2):
        port = sys / f"class/infiniband/mlx5_{i}/ports/1"
        port.mkdir(parents=True)
        (port / "rate").write_text("400 Gb/sec (4X NDR)\n")
        (port / "link_layer").write_text("InfiniBand\n")
        (port / "state").write_text("4: ACTIVE\n" if i else "1: DOWN\n")
    nic = sys / "class/net/eth7"
    nic.mkdir(parents=True)
    (nic / "speed").write_text("2500\n")
    (nic / "device").mkdir()
    (nic / "device/driver").symlink_to("../../../../bus/pci/drivers/igc")
    (sys / "class/dmi/id").mkdir(parents=True)
    (sys / "class/dmi/id/product_name").write_text("Z790 AORUS ELITE\n")
    return sys


def test_the_links_of_a_made_node(tmp_path: Path) -> None:
    sys = sysfs(tmp_path)
    env = {
        "PATH": os.environ["PATH"],
        "SLURMD_NODENAME": "node0",
        "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1",
        "NCCL_SOCKET_IFNAME": "=eth7",
    }
    script = call("prove/node.sh", "task_links", str(sys))
    text = subprocess.run(
        ["sh", "-c", script], env=env, check=True, capture_output=True, text=True
    ).stdout
    shown = nccl.parse_shown(text)["node0"]
    assert shown.product == "Z790 AORUS ELITE"
    assert shown.ports == ((400.0, "InfiniBand"),) * 2
    assert (shown.interface, shown.gbps, shown.driver) == ("eth7", 2.5, "igc")
    del env["NCCL_IB_HCA"]
    text = subprocess.run(
        ["sh", "-c", script], env=env, check=True, capture_output=True, text=True
    ).stdout
    assert nccl.parse_shown(text)["node0"].machine((H100,)) == Machine(
        (H100,), "ethernet", 1, 2.5, "Z790 AORUS ELITE"
    )
    env["NCCL_NET"] = "gIB"  # a plugin that is given no ports takes all active ones
    text = subprocess.run(
        ["sh", "-c", script], env=env, check=True, capture_output=True, text=True
    ).stdout
    assert "@ port node0 mlx5_1:1 400 InfiniBand\n" in text
    assert nccl.parse_shown(text)["node0"].ports == ((400.0, "InfiniBand"),)


def test_a_node_without_pytorch_reports_it_and_ends_the_job(tmp_path: Path) -> None:
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python3").chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURMD_NODENAME": "node1"}
    script = call("prove/node.sh", "task_collectives", str(tmp_path), "print(1)", "--x")
    ran = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True)
    assert (ran.returncode, "@ notorch node1\n" in ran.stdout) == (3, True)


def test_only_rank_0_prints(tmp_path: Path) -> None:
    (tmp_path / "python3").write_text('#!/bin/sh\ncase $2 in import*) ;; *) echo "$2 $3" ;; esac\n')
    (tmp_path / "python3").chmod(0o755)
    script = call("prove/node.sh", "task_collectives", str(tmp_path), "program", "--x")
    printed: list[str] = []
    for rank in ("0", "1"):
        env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_PROCID": rank}
        env |= {"SLURMD_NODENAME": "node0", "SLURM_LOCALID": rank}
        ran = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True)
        printed.append(ran.stdout)
    assert printed[0].endswith("program --x\n")
    assert printed[1] == ""


def test_the_job_is_one_argument_that_the_kernel_takes() -> None:
    """Linux ends a process whose single argument is longer than 128 KiB (MAX_ARG_STRLEN)."""
    ctx = context((H100,) * 8, fabric="infiniband", gbps=400, nics=8)
    ctx.rank_setup = lambda partition, nodes: rank_setup(ctx.spec, partition, nodes)
    script = nccl.script_of(ctx, batch(), 8)
    assert "--gres=gpu:8" in script
    assert "--ntasks-per-node=8 --cpus-per-task=8" in script
    assert "NCCL_IB_HCA" in script
    command = nccl.command_of(ctx, script)
    assert len(command) < 120_000
    done = subprocess.run(["sh", "-n", "-c", command], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert set(nccl.COLLECTIVES.split(",")) <= set(MEASURES)
    assert re.fullmatch(r"[a-z_,]+", nccl.COLLECTIVES)
