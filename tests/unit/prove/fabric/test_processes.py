"""Processes that each measured alone are recognised however their lines are mixed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.api.evidence.bench import read_benchmark
from corral.prove.fabric.processes import separate_processes

H200 = Path(__file__).parents[3] / "recorded/nccl/h200x2"
RUN = (H200 / "two-threads.txt").read_text().splitlines()[1:-2]
MIXED = (H200 / "no-mpi-2-processes.txt").read_text()


def interleaved(choices: list[int], *runs: list[str]) -> list[str]:
    """Lines of all runs, each in its order, taken from one or another; the heads are mixed."""
    left = [list(run) for run in runs]
    lines = [run.pop(0) for run in left for _ in range(3)]
    for choice in choices:
        having = [run for run in left if run]
        if having:
            lines.append(having[choice % len(having)].pop(0))
    return lines + [line for run in left for line in run]


@given(st.integers(2, 9), st.lists(st.integers(0, 100), max_size=60))
def test_mixed_lines(count: int, choices: list[int]) -> None:
    text = "\n".join(interleaved(choices, *[RUN] * count))
    assert separate_processes(text) == count


@given(st.integers(2, 9), st.lists(st.integers(0, 100), max_size=60))
def test_labels_of_ranks(count: int, choices: list[int]) -> None:
    runs = [[f"{rank}: {line}" for line in RUN] for rank in range(count)]
    assert separate_processes("\n".join(interleaved(choices, *runs))) == count
    runs = [[f"[1,{rank}]<stdout>:{line}" for line in RUN] for rank in range(count)]
    assert separate_processes("\n".join(interleaved(choices, *runs))) == count


@pytest.mark.parametrize(
    "end", ["", "vm: Test NCCL failure common.cu:222 'invalid usage'", "$ ./again"]
)
def test_one_run_after_the_other(end: str) -> None:
    failed = [*RUN[:6], end] if end else RUN
    assert separate_processes("\n".join([*failed, *RUN, *RUN])) == 0


def test_hosts_that_were_measured_alone_on_purpose() -> None:
    lines = [f"node{i}: {line}" for i in range(3) for line in RUN]
    assert separate_processes("\n".join(lines)) == 0


@pytest.mark.parametrize(
    "cut",
    [
        pytest.param(lambda text: text, id="as recorded"),
        pytest.param(lambda text: text.replace("#", ""), id="signs lost as headings"),
        pytest.param(lambda text: text[: text.index("#\n#  ")], id="up to the list of GPUs"),
        pytest.param(lambda text: text[text.index("# Out of") :], id="closing lines only"),
    ],
)
def test_pieces_of_a_log(cut: object) -> None:
    assert callable(cut)
    assert separate_processes(cut(MIXED)) == 2


@pytest.mark.parametrize(
    ("name", "count"),
    [("no-mpi-2-processes", 2), ("no-mpi-labelled", 4)],
)
def test_the_verdict(name: str, count: int) -> None:
    benchmark = read_benchmark((H200 / f"{name}.txt").read_text())
    assert not benchmark.good
    assert benchmark.tables == ()
    assert benchmark.failure is not None
    assert benchmark.failure.cause.startswith(f"{count} processes each measured alone")
    assert "MPI=1" in benchmark.failure.hint


def test_every_other_recording_is_of_one_run() -> None:
    files = [f for f in H200.glob("*.txt") if not f.name.startswith("no-mpi")]
    assert len(files) > 20
    assert {f.name: n for f in files if (n := separate_processes(f.read_text()))} == {}
