"""Limits, references and verdicts, against the worked examples of the published tables."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from corral.errors import Code, CorralError
from corral.prove.fabric.hardware import known_hardware, reference
from corral.prove.fabric.limits import Algorithm, Topology, limit
from corral.prove.fabric.model import Collective, Row, Table, Timing, bus_factor
from corral.prove.fabric.nccl_tests_text import read_text
from corral.prove.fabric.verdict import GIB, Outcome, Reference, judge, plateau

RECORDED = Path(__file__).parents[3] / "recorded/nccl"
REDUCE = Collective.ALL_REDUCE


def table_of(busbw: float, size: int = GIB, **more: object) -> Table:
    timing = Timing(1.0, busbw, busbw, wrong=0)
    row = Row(0, size, size // 4, "float", "sum", -1, timing, timing)
    return Table((row,), REDUCE, certain=True, ranks=2, complete=True, **more)  # type: ignore[arg-type]


def test_a_result_without_a_check_does_not_count_next_to_one_with_it() -> None:
    # All-to-all of two H200, nccl-tests 2.19.6: in place, a rank's own part does not move.
    out, within = Timing(12699.8, 676.38, 338.19, wrong=0), Timing(11774.2, 729.56, 364.78)
    row = Row(158, 8 * GIB, 2 * GIB, "float", "none", -1, out, within)
    assert row.best == 338.19
    unchecked = dataclasses.replace(row, out_of_place=dataclasses.replace(out, wrong=None))
    assert unchecked.best == 364.78


@pytest.mark.parametrize(("nodes", "times"), [(2, 1.875), (4, 1.2917), (8, 1.125), (16, 1.0583)])
def test_trees_over_several_nodes_of_eight(nodes: int, times: float) -> None:
    topology = Topology(8, 200, gpus=8)
    assert limit(topology, REDUCE, nodes) == pytest.approx(200 * times, rel=1e-4)
    assert limit(topology, REDUCE, nodes, Algorithm.RING) == 200
    assert limit(topology, Collective.ALL_GATHER, nodes) == 200


def test_one_gpu_per_node_has_no_tree_gain() -> None:
    assert limit(Topology(1, 2.5), REDUCE, 3) == pytest.approx(0.3125)


def test_within_a_node_and_capped_by_it() -> None:
    ring = Topology(8, 400, intra=450, gpus=8)
    assert limit(ring, REDUCE, 1) == 450
    assert limit(ring, REDUCE, 2) == 450
    nvls = Topology(8, 400, intra=450, gpus=8, nvls=True)
    assert limit(nvls, REDUCE, 1) == 450 * bus_factor(REDUCE, 8)
    assert limit(nvls, Collective.ALL_GATHER, 1) == 450
    assert limit(nvls, REDUCE, 2) == 750


def test_seed_002_passes_by_its_peak_and_would_not_by_its_average() -> None:
    (table,) = read_text((RECORDED / "dgx1-all-reduce.txt").read_text())
    dgx1 = known_hardware()["dgx1"]
    seen = reference(dgx1, REDUCE, 2)
    assert seen is not None
    bound = limit(dgx1.topology, REDUCE, 2)
    assert bound == 93.75
    verdict = judge(table, Reference(seen.busbw, bound, seen.source), 2)
    assert (verdict.outcome, verdict.busbw, verdict.size) == (Outcome.PASS, 54.06, 536870912)
    assert any("plateau may be higher" in r for r in verdict.reasons)
    assert table.average is not None
    assert table.average < 0.7 * seen.busbw


def test_seed_003_passes() -> None:
    (table,) = read_text((RECORDED / "a3-mega-all-gather.txt").read_text())
    mega = known_hardware()["a3-mega"]
    seen = reference(mega, Collective.ALL_GATHER, 2)
    assert seen is not None
    assert limit(mega.topology, Collective.ALL_GATHER, 2) == 200
    verdict = judge(table, Reference(seen.busbw, 200, seen.source), 2)
    assert (verdict.outcome, verdict.busbw) == (Outcome.PASS, 188.26)
    assert any("not checked" in r for r in verdict.reasons)


def test_nodes_of_one_nvlink_domain_are_not_bound_by_their_interfaces() -> None:
    a4x = known_hardware()["a4x"]
    within, across = (limit(a4x.topology, Collective.ALL_GATHER, nodes) for nodes in (18, 19))
    assert (within, across) == (900, 200)
    assert reference(a4x, Collective.ALL_GATHER, 18) is not None
    assert reference(a4x, Collective.ALL_GATHER, 19) is None
    # NVLink SHARP over the domain's 8 GPUs: the sum is made in the switch.
    assert limit(a4x.topology, REDUCE, 2) == pytest.approx(900 * 2 * 7 / 8)
    assert limit(a4x.topology, REDUCE, 19) < 900


def test_googles_own_table_of_a4_is_at_the_reference() -> None:
    (table,) = read_text((RECORDED / "a4-all-gather.txt").read_text())
    a4 = known_hardware()["a4"]
    table = dataclasses.replace(table, collective=Collective.ALL_GATHER)
    seen, bound = (
        reference(a4, Collective.ALL_GATHER, 2),
        limit(a4.topology, Collective.ALL_GATHER, 2),
    )
    assert seen is not None
    verdict = judge(table, Reference(seen.busbw, bound, seen.source), 2)
    assert verdict.busbw == 377.38
    assert "101% of the reference" in verdict.reasons[0]
    assert verdict.outcome is Outcome.WARN  # the page leaves the closing lines out
    assert reference(a4, Collective.ALL_TO_ALL, 2) is None
    assert reference(a4, Collective.ALL_GATHER, 1) is None


@pytest.mark.parametrize(
    ("busbw", "nodes", "outcome"),
    [
        (370, 8, Outcome.PASS),
        (333, 8, Outcome.PASS),
        (332, 8, Outcome.WARN),
        (259, 8, Outcome.WARN),
        (258, 8, Outcome.FAIL),
        (356, 1, Outcome.PASS),
        (355, 1, Outcome.WARN),
        (332, 1, Outcome.FAIL),
        (332, 0, Outcome.WARN),
    ],
)
def test_the_rule(busbw: float, nodes: int, outcome: Outcome) -> None:
    assert judge(table_of(busbw), Reference(370, 750), nodes).outcome is outcome


def test_wrong_results_fail_whatever_the_speed() -> None:
    verdict = judge(table_of(400, out_of_bounds=3), Reference(370), 2)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.reasons[0].startswith("3 results are wrong")


def test_faster_than_possible_is_a_wrong_declaration() -> None:
    verdict = judge(table_of(0.5), Reference(0.117, 0.125), 2)
    assert verdict.outcome is Outcome.WARN
    assert "more than the topology can carry" in verdict.reasons[0]


def test_nothing_to_compare_with_is_no_pass() -> None:
    assert judge(table_of(400), None, 2).outcome is Outcome.UNKNOWN


def test_the_plateau_is_the_best_of_large_sizes() -> None:
    small, large = table_of(500, GIB // 2).rows[0], table_of(300, GIB).rows[0]
    larger = table_of(290, 8 * GIB).rows[0]
    assert plateau(Table((small, large, larger))) is large
    assert plateau(Table((table_of(10, 1024).rows[0], small))) is small


@pytest.mark.parametrize("busbw", [0.0, -1.0, float("nan"), float("inf"), 256.0])
def test_references_nobody_can_reach_are_refused(busbw: float) -> None:
    with pytest.raises(CorralError) as caught:
        Reference(busbw, 250)
    assert caught.value.code is Code.USAGE


@pytest.mark.parametrize("name", known_hardware())
def test_no_known_hardware_is_above_its_own_limit(name: str) -> None:
    hardware = known_hardware()[name]
    assert hardware.seen
    for seen in hardware.seen:
        for collective in seen.collectives:
            nodes = 2 if seen.several else 1
            bound = limit(hardware.topology, collective, nodes)
            assert bound > 0
            Reference(seen.busbw, bound, seen.source)
            assert seen.source
