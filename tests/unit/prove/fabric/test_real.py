"""What nccl-tests itself printed on an H100: the real programs, built and run there."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.api.bench import Known, read_benchmark
from corral.prove.fabric.model import Collective
from corral.prove.fabric.verdict import Outcome

RECORDED = Path(__file__).parents[3] / "recorded" / "nccl"


@pytest.mark.parametrize(
    ("name", "collective", "rows", "first", "last"),
    [
        ("2.19.6.txt", Collective.ALL_REDUCE, 6, 6.88, 713.61),
        ("2.13.8.txt", None, 6, 4.88, 713.3),  # it does not print its own name
        ("2.19.6.json", Collective.ALL_GATHER, 5, None, None),
    ],
)
def test_a_real_table_is_read(
    name: str, collective: Collective | None, rows: int, first: float | None, last: float | None
) -> None:
    found = read_benchmark((RECORDED / f"h100-one-rank-{name}").read_text())
    ((table, verdict),) = found.tables
    assert (table.collective, len(table.rows), table.ranks, table.nodes) == (collective, rows, 1, 1)
    assert table.wrong == 0
    assert table.checked
    assert table.complete
    assert verdict.outcome is Outcome.UNKNOWN
    assert "one rank" in verdict.reasons[0]
    if first is not None:
        times = [row.out_of_place.time_us for row in table.rows if row.out_of_place]
        assert (times[0], times[-1]) == (first, last)


def test_one_rank_has_no_bandwidth_to_judge() -> None:
    text = (RECORDED / "h100-one-rank-2.19.6.txt").read_text()
    ((_, verdict),) = read_benchmark(text, Known(busbw=300)).tables
    assert verdict.outcome is Outcome.UNKNOWN
