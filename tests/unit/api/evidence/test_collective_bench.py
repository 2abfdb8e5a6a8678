"""The benchmark's job and what it is compared with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corral.api.evidence.bench import judged
from corral.api.evidence.collective_bench import (
    BenchRequest,
    _likely,
    bench_history,
    bench_job,
    given_or_declared,
)
from corral.errors import Code, CorralError
from corral.prove.fabric.benchmark_log import Reading
from corral.prove.fabric.comparison import Known, refuse_unreachable
from corral.prove.fabric.corral_benchmark import PROGRAM
from corral.prove.fabric.limits import Topology, efficiency
from corral.prove.fabric.model import Collective, Row, Table, Timing
from corral.prove.fabric.transport import Transport
from corral.prove.fabric.verdict import Outcome
from corral.spec.models import ClusterSpec

GIB = 1 << 30


def spec(*, provider: str = "ssh", gpus: int = 0, count: int = 3, **data: Any) -> ClusterSpec:
    group: dict[str, Any] = {
        "name": "rtx",
        "provider": provider,
        "nodes": f"node[0-{count - 1}]" if count > 1 else "node0",
    }
    if provider == "ssh":
        last = 10 + count - 1
        group["addresses"] = f"192.0.2.[10-{last}]" if count > 1 else "192.0.2.10"
    if gpus:
        group["gpu"] = {"type": "rtx5090", "count": gpus}
    fields: dict[str, Any] = {"corral": "v1", "name": "lab", "groups": [group]}
    fields["storage"] = [{"mount": "/shared", "kind": "existing"}]
    if data:
        fields["network"] = {"data": data}
    return ClusterSpec.model_validate(fields)


def test_one_rank_per_gpu_on_all_nodes() -> None:
    job, gpus = bench_job(spec(gpus=4), BenchRequest())
    assert (job.nodes, job.gpus_per_node, job.ranks_on_node, gpus) == (3, 4, 4, 4)
    assert job.script == str(PROGRAM)
    assert job.env == {"NCCL_DEBUG": "INFO"}
    assert f"--apart={256 << 20}" in job.args


def test_rehearsed_gpus_compute_nothing() -> None:
    job, gpus = bench_job(spec(provider="embedded", gpus=2), BenchRequest(largest=1 << 20))
    assert (job.gpus_per_node, job.ranks_on_node, gpus) == (0, 1, 0)
    assert f"--apart={1 << 20}" in job.args


def test_two_nodes_are_one_pair_and_not_measured_again() -> None:
    job, _ = bench_job(spec(), BenchRequest(nodes=2))
    assert "--apart=0" in job.args


@pytest.mark.parametrize(
    ("impossible", "reason"),
    [
        (BenchRequest(collectives=("all_reduse",)), "all_reduse"),
        (BenchRequest(smallest=2, largest=1), "is above"),
        (BenchRequest(nodes=1), "two ranks"),
        (BenchRequest(nccl_tests="/opt/nccl-tests/build"), "one collective at a time"),
    ],
)
def test_what_cannot_be_measured(impossible: BenchRequest, reason: str) -> None:
    with pytest.raises(CorralError, match=reason) as caught:
        bench_job(spec(), impossible)
    assert caught.value.code is Code.USAGE


def test_nccl_tests_on_one_node() -> None:
    request = BenchRequest(
        ("all_to_all",), nodes=1, largest=GIB, type="float16", nccl_tests="/opt/b"
    )
    job, _ = bench_job(spec(gpus=8), request)
    assert job.script.endswith("/exec.sh")
    assert job.ranks_on_node == 1
    assert job.args == (
        "/opt/b/alltoall_perf",
        *("-b", "1048576", "-e", "1073741824", "-f", "2"),
        *("-g", "8", "-d", "half"),
    )
    with pytest.raises(CorralError, match="one collective"):
        bench_job(spec(gpus=8), BenchRequest(nodes=1, nccl_tests="/opt/b"))


def test_in_a_container() -> None:
    request = BenchRequest(
        ("all_reduce",), nodes=1, nccl_tests="/opt/b", container="/nfs/nccl.sqsh"
    )
    job, _ = bench_job(spec(gpus=8), request)
    assert job.container == "/nfs/nccl.sqsh"
    job, _ = bench_job(spec(gpus=8), BenchRequest(container="nvidia/pytorch:26.10-py3"))
    assert job.container  # as corral.jobs.batch.containers writes an image's name
    assert job.script == str(PROGRAM)
    with pytest.raises(CorralError):
        bench_job(spec(gpus=8), BenchRequest(container="a b"))


@pytest.mark.parametrize(
    ("fabric", "gbps", "share"),
    [
        ("ethernet", 1, 0.94),
        ("ethernet", 10, 0.94),
        ("ethernet", 25, 0.75),
        ("ethernet", 100, 0.45),
        ("infiniband", 400, 0.94),
        ("roce", 200, 0.94),
    ],
)
def test_share_of_the_line(fabric: str, gbps: float, share: float) -> None:
    assert efficiency(fabric, gbps) == share


def test_the_declared_network_is_the_reference() -> None:
    lab = spec(gpus=1, gbps=2.5)
    known = given_or_declared(lab, None, nodes=3, gpus=1)
    assert known.topology == Topology(1, 2.5, gpus=1)
    assert (known.busbw, known.share) == (0.0, 0.94)
    assert (known.nodes, known.fabric) == (3, "ethernet")


def measured(collective: Collective, busbw: float, *, ranks: int) -> Reading:
    timing = Timing(1.0, busbw, busbw, wrong=0)
    row = Row(0, GIB, GIB // 4, "float", "sum", -1, timing, timing)
    return Reading((Table((row,), collective, ranks=ranks, complete=True),), Transport())


def test_figures_of_complete_nodes_do_not_judge_a_part_of_one() -> None:
    """Two H200 without NVLS reach 340 GB/s, and eight with it 480: 71 % was called a failure."""
    two = measured(Collective.ALL_REDUCE, 340.1, ranks=2)
    ((_, verdict),) = judged(two, Known(hardware="dgx-h100", nodes=1)).tables
    assert (verdict.outcome, verdict.reference) == (Outcome.UNKNOWN, None)
    assert "of 8 GPUs a node, and 2 on 1 node took part" in verdict.reasons[0]
    ((_, verdict),) = judged(two, Known(hardware="dgx-h100", nodes=1, busbw=345)).tables
    assert verdict.outcome is Outcome.PASS
    eight = measured(Collective.ALL_REDUCE, 340.1, ranks=8)
    ((_, verdict),) = judged(eight, Known(hardware="dgx-h100", nodes=1)).tables
    assert verdict.outcome is Outcome.FAIL


@pytest.mark.parametrize(("path", "named"), [("P2P/CUMEM", False), ("NET/Socket/0", True)])
def test_sockets_that_nothing_went_over_are_no_cause(path: str, *, named: bool) -> None:
    """NCCL names a network on one node too, where all channels are P2P."""
    head = "node0:42:42 [0] NCCL INFO "
    lines = [
        f"{head}NET/IB : No device found.",
        f"{head}Using network Socket",
        f"{head}Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
        f"{head}Channel 01/0 : 0[0] -> 1[1] via {path}",
    ]
    causes = [cause.failure.name for cause in _likely(lines)]
    assert ("silent-socket-fallback" in causes) is named


@pytest.mark.parametrize(
    ("collective", "busbw", "reference", "outcome"),
    [
        (Collective.ALL_GATHER, 370, 376, Outcome.PASS),
        (Collective.ALL_GATHER, 55, 376, Outcome.FAIL),  # one of eight cards
        (Collective.ALL_REDUCE, 440, 376, Outcome.PASS),  # a tree
        # 8 of 15 others are on the other node: 50 GB/s a GPU carry 93.75
        (Collective.ALL_TO_ALL, 85, 88.125, Outcome.PASS),
        (Collective.ALL_TO_ALL, 40, 88.125, Outcome.FAIL),
        # one rank of each node sends to the other: by one card
        (Collective.SENDRECV, 46, 47, Outcome.PASS),
        (Collective.SENDRECV, 24, 47, Outcome.FAIL),
        (Collective.BROADCAST, 360, 376, Outcome.PASS),
    ],
)
def test_two_nodes_of_eight_gpus_and_cards(
    collective: Collective, busbw: float, reference: float, outcome: Outcome
) -> None:
    dgx = spec(gpus=8, count=2, fabric="infiniband", gbps=400, nics=8)
    known = given_or_declared(dgx, None, nodes=2, gpus=8)
    assert not known.gloo
    ((_, verdict),) = judged(measured(collective, busbw, ranks=16), known).tables
    assert verdict.reference is not None
    assert verdict.reference.busbw == pytest.approx(reference)
    assert verdict.outcome is outcome


@pytest.mark.parametrize("known", [None, Known(hardware="1gbe")])
@pytest.mark.parametrize(
    ("collective", "busbw", "outcome"),
    [
        (Collective.ALL_REDUCE, 0.117, Outcome.PASS),
        (Collective.ALL_REDUCE, 0.06, Outcome.FAIL),
        (Collective.ALL_TO_ALL, 0.06, Outcome.FAIL),
        (Collective.SENDRECV, 0.06, Outcome.FAIL),
        (Collective.BROADCAST, 0.058, Outcome.UNKNOWN),
        (Collective.REDUCE_SCATTER, 0.052, Outcome.UNKNOWN),
        (Collective.ALL_GATHER, 0.09, Outcome.UNKNOWN),
    ],
)
def test_what_gloo_does_another_way_is_not_judged_by_the_rate(
    known: Known | None, collective: Collective, busbw: float, outcome: Outcome
) -> None:
    """Figures of three healthy nodes on links of 1 Gb/s, and of sick ones."""
    lab = spec(fabric="ethernet", gbps=1)
    given = given_or_declared(lab, known, nodes=3, gpus=0)
    ((_, verdict),) = judged(measured(collective, busbw, ranks=3), given).tables
    assert verdict.outcome is outcome
    assert ("is not a ring" in verdict.reasons[0]) == (outcome is Outcome.UNKNOWN)
    asked = given_or_declared(lab, Known(busbw=0.117), nodes=3, gpus=0)
    ((_, verdict),) = judged(measured(collective, busbw, ranks=3), asked).tables
    assert verdict.outcome is not Outcome.UNKNOWN


def test_a_reference_nobody_can_reach_is_refused_before_anything_runs() -> None:
    dgx = spec(gpus=8, count=2, fabric="infiniband", gbps=400, nics=8)
    known = given_or_declared(dgx, Known(busbw=370), nodes=2, gpus=8)
    refuse_unreachable(Collective.ALL_GATHER, known, 2)
    with pytest.raises(CorralError, match=r"all_to_all: .*above the limit of 93.75") as caught:
        refuse_unreachable(Collective.ALL_TO_ALL, known, 2)
    assert caught.value.code is Code.USAGE


def test_ranks_without_gpus_have_one_interface() -> None:
    dgx = spec(gpus=8, count=2, fabric="infiniband", gbps=400, nics=8)
    assert given_or_declared(dgx, None, nodes=2, gpus=8).topology == Topology(8, 400, gpus=8)
    assert given_or_declared(dgx, None, nodes=2, gpus=0).topology == Topology(1, 400, gpus=1)


def test_what_was_given_wins() -> None:
    lab = spec(gpus=1, gbps=2.5, fabric="roce")
    hardware = given_or_declared(lab, Known(hardware="dgx-h100"), nodes=3, gpus=8)
    assert (hardware.topology, hardware.busbw, hardware.fabric) == (None, 0.0, "roce")
    assert given_or_declared(lab, Known(busbw=0.2), nodes=3, gpus=1).busbw == 0.2


def test_the_network_gives_no_limit_for_one_node_nor_without_a_rate() -> None:
    assert given_or_declared(spec(gbps=10), None, nodes=1, gpus=2) == Known(nodes=1)
    assert given_or_declared(spec(), None, nodes=3, gpus=0) == Known(nodes=3, gloo=True)
    # gloo writes no NCCL log: its transport is unknown
    assert given_or_declared(spec(gbps=10), None, nodes=3, gpus=0).fabric == ""


def test_history_of_a_cluster_that_never_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path))
    assert bench_history("lab") == ()
    folder = tmp_path / "clusters" / "lab"
    folder.mkdir(parents=True)
    good = '{"at": 1, "run": "job-1", "kind": "bench", "tables": []}'
    (folder / "bench.jsonl").write_text(f'{good}\n{{"kind": "bench"}}\n{{"kind": "be')
    assert [record["at"] for record in bench_history("lab")] == [1]
