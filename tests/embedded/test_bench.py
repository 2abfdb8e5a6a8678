"""The benchmark of collectives on a real cluster: measured, damaged, slowed down, and judged."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.embedded.links import shaped

from corral import api
from corral.api.evidence.collective_bench import Benched, BenchRequest
from corral.prove.fabric.comparison import Known
from corral.prove.fabric.corral_benchmark import MEASURES, Progress
from corral.prove.fabric.verdict import Outcome

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

MIB = 1 << 20
HEALTHY = 0.04
"""GB/s: a loaded machine's containers reach several times as much, a link of 100 Mb/s a third."""


def measure(live: Live, request: BenchRequest, known: Known | None = None) -> Benched:
    return asyncio.run(api.run_bench(live.spec, request, known))


def test_all_collectives_are_measured_and_kept(cluster: Live) -> None:
    rows: list[Progress] = []
    request = BenchRequest(smallest=MIB // 4, largest=MIB)
    benched = asyncio.run(api.run_bench(cluster.spec, request, on_row=rows.append))
    names = [table.collective for table, _ in benched.benchmark.tables]
    assert names == list(MEASURES)
    assert [(row.collective, row.size) for row in rows] == [
        (table.collective, row.size) for table, _ in benched.benchmark.tables for row in table.rows
    ]
    for table, verdict in benched.benchmark.tables:
        assert (table.ranks, table.nodes, table.wrong) == (3, 3, 0)
        assert table.checked and table.certain and table.complete
        assert len(table.rows) == 3
        assert verdict.outcome is Outcome.UNKNOWN
    assert len(benched.pairs) == 3
    kept = api.bench_history(cluster.spec.name)[-1]
    assert kept["job"] == benched.job
    assert [entry["collective"] for entry in kept["tables"]] == list(MEASURES)


def test_one_wrong_element_is_counted_in_each_collective(cluster: Live) -> None:
    benched = measure(cluster, BenchRequest(smallest=MIB, largest=MIB, spoil=1), Known(busbw=1e-6))
    assert not benched.benchmark.good
    for table, verdict in benched.benchmark.tables:
        assert [t.wrong for t in table.timings] == [1.0] * len(list(table.timings))
        assert verdict.outcome is Outcome.FAIL
        assert "results are wrong" in verdict.reasons[0]


def test_a_slow_link_fails_and_its_node_is_named(cluster: Live) -> None:
    request = BenchRequest(("all_reduce",), smallest=2 * MIB, largest=2 * MIB)
    known = Known(busbw=HEALTHY)
    with shaped(cluster, "node2", "100mbit"):
        slow = measure(cluster, request, known)
    assert [verdict.outcome for _, verdict in slow.benchmark.tables] == [Outcome.FAIL]
    assert slow.slow.nodes == ("node2",)
    assert slow.slow.links == ()
    healthy = measure(cluster, request, known)
    assert [verdict.outcome for _, verdict in healthy.benchmark.tables] == [Outcome.PASS]


def test_what_declared_links_should_reach_is_the_reference(cluster: Live) -> None:
    data = cluster.spec.network.model_validate({"data": {"gbps": 1000}})
    spec = cluster.spec.model_copy(update={"network": data})
    request = BenchRequest(("all_reduce",), nodes=2, smallest=MIB, largest=MIB)
    benched = asyncio.run(api.run_bench(spec, request))
    ((table, verdict),) = benched.benchmark.tables
    assert table.nodes == 2
    assert verdict.outcome is Outcome.FAIL  # containers of one machine have no 1000 Gb/s
    assert verdict.reference is not None
    assert verdict.reference.limit == 125.0
    assert benched.pairs == ()
