"""What nccl-tests itself printed on an H100: the real programs, built and run there."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.api.evidence.bench import read_benchmark, run_failure
from corral.prove.fabric.comparison import Known
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
    benchmark = read_benchmark((RECORDED / f"h100-one-rank-{name}").read_text())
    ((table, verdict),) = benchmark.tables
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


@pytest.mark.parametrize(
    ("name", "collective", "rows", "best"),
    [
        ("all-reduce", Collective.ALL_REDUCE, 28, 326.64),
        ("all-reduce-8g", Collective.ALL_REDUCE, 4, 346.89),
        ("all-gather", Collective.ALL_GATHER, 28, 0),
        ("reduce-scatter", Collective.REDUCE_SCATTER, 28, 0),
        ("all-to-all", Collective.ALL_TO_ALL, 28, 331.04),
        ("broadcast", Collective.BROADCAST, 28, 0),
        ("reduce", Collective.REDUCE, 28, 0),
        ("sendrecv", Collective.SENDRECV, 28, 360.95),
        ("bfloat16", Collective.ALL_REDUCE, 5, 301.95),
        ("two-threads", Collective.ALL_REDUCE, 5, 299.14),
        ("shared-memory", Collective.ALL_REDUCE, 5, 27.74),
        ("reduced-to-memory", Collective.ALL_REDUCE, 1, 348.29),
    ],
)
def test_collectives_of_two_h200(name: str, collective: Collective, rows: int, best: float) -> None:
    benchmark = read_benchmark((RECORDED / f"h200x2/{name}.txt").read_text())
    ((table, _),) = benchmark.tables
    assert (table.collective, table.ranks, table.nodes) == (collective, 2, 1)
    assert (len(table.rows), table.complete) == (rows, True)
    assert benchmark.good
    if best:
        assert max(row.best for row in table.rows) == pytest.approx(best, abs=0.1)


@pytest.mark.parametrize(
    ("name", "finding", "cause"),
    [
        ("fails-interface", "F2231", "interface"),
        ("fails-interface-info", "F2231", "interface"),
        ("fails-loopback-only", "F2231", "interface"),
        ("fails-no-infiniband", "F202", "setting"),
        ("fails-plugin", "F202", "setting"),
        ("fails-algorithm", "F202", "setting"),
        ("fails-algorithm-name", "F202", "setting"),
        ("fails-no-gpu", "F76", "GPU"),
        ("fails-too-few-gpus", "F114", "GPU"),
        ("fails-small-shm", "F112", "/dev/shm"),
    ],
)
def test_failed_runs_are_explained(name: str, finding: str, cause: str) -> None:
    """Recorded: each was a parse error that named no cause."""
    benchmark = read_benchmark((RECORDED / f"h200x2/{name}.txt").read_text())
    assert not benchmark.good
    assert benchmark.tables == ()
    assert benchmark.failure is not None
    assert benchmark.failure.finding == finding
    assert cause in benchmark.failure.cause
    assert benchmark.failure.hint
    assert benchmark.failure.lines


@pytest.mark.parametrize(
    ("kind", "finding"),
    [
        ("unhandled system error (run with NCCL_DEBUG=INFO for details) / ", "F2180"),
        ("internal error - please report this issue to the NCCL developers / ", "F2180"),
        ("invalid argument (run with NCCL_DEBUG=WARN for details) / ", "F2180"),
        ("remote process exited or there was a network error / ", "F199"),
        ("unhandled cuda error (run with NCCL_DEBUG=INFO for details) / ", "F1681"),
        ("invalid usage (run with NCCL_DEBUG=WARN for details) / ", "F2230"),
    ],
)
def test_the_kind_of_error_is_not_taken_for_another(kind: str, finding: str) -> None:
    """A system error or another rank's failure is not CUDA's (nccl-tests issues 219, 252)."""
    failure = run_failure(
        f"n1: Test NCCL failure common.cu:303 '{kind}'\n .. n1 pid 5: Test failure\n"
    )
    assert failure is not None
    assert failure.finding == finding


def test_what_a_failed_run_completed_is_judged() -> None:
    good = (RECORDED / "h200x2/all-reduce.txt").read_text()
    benchmark = read_benchmark(good + (RECORDED / "h200x2/fails-small-shm.txt").read_text())
    assert len(benchmark.tables) == 1
    assert benchmark.failure is not None
    assert benchmark.failure.finding == "F112"


def test_a_failure_that_no_rule_knows_shows_its_lines() -> None:
    text = (RECORDED / "h200x2/fails-small-shm.txt").read_text()
    lines = [line for line in text.splitlines() if "shm" not in line]
    benchmark = read_benchmark("\n".join(lines))
    assert benchmark.failure is not None
    assert "unhandled system error" in " ".join(benchmark.failure.lines)


@pytest.mark.parametrize(
    "file", sorted((RECORDED / "h200x2").glob("*.txt")), ids=lambda file: file.stem
)
def test_the_doctor_finds_no_failure_in_a_good_run(file: Path) -> None:
    """NCCL_DEBUG=INFO of a run without InfiniBand was called a missing plugin of Slurm's."""
    if not file.stem.startswith("fails-"):
        assert run_failure(file.read_text()) is None
