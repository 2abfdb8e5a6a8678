"""Traces of ranks: times add up, recorded ones are read, broken ones are refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.errors import Code, CorralError
from corral.jobs.profile import trace as tracing
from corral.jobs.profile.recordings import CALLS, parse_sizes, parse_stats
from corral.jobs.profile.trace import (
    clipped,
    length,
    merged,
    read_trace,
)

TRACES = Path(__file__).parents[3] / "recorded" / "traces"
SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(sorted).map(tuple))


def event(
    name: str, begin: float, span: float, cat: str = "kernel", tid: int = 7
) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": tid, "ts": begin, "dur": span}


def mark(number: int, at: float) -> dict[str, Any]:
    return event(f"corral step {number}", at, 0, "user_annotation", 1)


def packed(*events: dict[str, Any]) -> bytes:
    return gzip.compress(json.dumps({"traceEvents": list(events)}).encode(), mtime=0)


def test_times_of_a_gpu() -> None:
    """Kernels 0-10 and 20-30, NCCL 5-25 on another stream, of 40."""
    recording = read_trace(
        packed(
            mark(3, 0),
            mark(4, 15),
            mark(5, 40),
            event("gemm", 0, 10),
            event("gemm", 20, 10),
            event("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 5, 20, tid=8),
            event("aten::mm", 0, 39, "cpu_op", 1),
            event("Memcpy HtoD", 28, 2, "gpu_memcpy"),
        ),
        rank=0,
    )
    assert recording.gpu
    assert (recording.steps, recording.wall) == (2, 40)
    assert length(recording.compute) == 20
    assert length(recording.communication) == 20
    assert (recording.overlap, recording.idle) == (10, 10)
    assert [(k.name[:5], k.microseconds, k.calls) for k in recording.top] == [
        ("ncclD", 20, 1),
        ("gemm", 18, 2),
        ("Memcp", 2, 1),
    ]


def test_times_of_a_cpu_without_counting_callers_or_waits() -> None:
    recording = read_trace(
        packed(
            mark(3, 0),
            mark(4, 100),
            event("aten::linear", 10, 30, "cpu_op", 1),
            event("aten::addmm", 15, 20, "cpu_op", 1),
            event("autograd::engine::evaluate_function: X", 50, 50, "cpu_op", 1),
            event("c10d::allreduce_", 60, 1, "cpu_op", 1),
            event("gloo:all_reduce", 30, 40, "user_annotation", 9),
        ),
        rank=3,
    )
    assert not recording.gpu
    assert (length(recording.compute), length(recording.communication)) == (30, 40)
    assert (recording.overlap, recording.idle) == (10, 40)
    assert [(k.name, k.microseconds) for k in recording.top] == [
        ("aten::addmm", 20),
        ("aten::linear", 10),
    ]


def test_kernels_that_outlive_the_last_mark_count() -> None:
    recording = read_trace(packed(mark(1, 0), mark(2, 10), event("gemm", 8, 12)), rank=0)
    assert recording.wall == 20
    assert length(recording.compute) == 12


def test_a_recording_without_marks_is_taken_completely() -> None:
    recording = read_trace(packed(event("gemm", 5, 10)), rank=0)
    assert (recording.steps, recording.wall, recording.idle) == (0, 10, 0)


def test_recorded_traces_of_two_ranks_over_gloo(golden: Any) -> None:
    """Of PyTorch 2.6: examples/train_digits.py on two nodes of an embedded cluster."""
    ranks = [
        read_trace((TRACES / "digits-2-ranks-cpu" / f"rank-{r}.json.gz").read_bytes(), r)
        for r in (0, 1)
    ]
    for rank in ranks:
        assert (rank.gpu, rank.steps) == (False, 2)
        assert length(rank.communication) > 0
        parts = length(rank.compute) + length(rank.communication) - rank.overlap + rank.idle
        assert parts == pytest.approx(rank.wall)
        assert {"aten::mm", "aten::convolution_backward"} <= {k.name for k in rank.top}
    golden("jobs/digits-trace.json", json.dumps([r.as_dict() for r in ranks], indent=1) + "\n")


def test_recorded_traces_of_two_gpus_over_nccl(golden: Any) -> None:
    """Of PyTorch 2.11: examples/train_gpt on two H200. Rank 0 waits in NCCL for rank 1."""
    ranks = [
        read_trace((TRACES / "gpt-2-h200-nccl" / f"rank-{r}.json.gz").read_bytes(), r)
        for r in (0, 1)
    ]
    for rank in ranks:
        assert (rank.gpu, rank.steps) == (True, 2)
        assert rank.top[0].name.startswith("ncclDevKernel_AllReduce")
        parts = length(rank.compute) + length(rank.communication) - rank.overlap + rank.idle
        assert parts == pytest.approx(rank.wall)
    assert length(ranks[0].communication) > 4 * length(ranks[1].communication)
    golden("jobs/gpt-trace.json", json.dumps([r.as_dict() for r in ranks], indent=1) + "\n")


@settings(max_examples=60, deadline=None)
@given(SPANS, st.integers(0, 30), st.integers(0, 30))
def test_merging_is_counting_moments(spans: list[tuple[int, int]], a: int, b: int) -> None:
    moments = {m for begin, end in spans for m in range(begin, end)}
    assert length(merged(spans)) == len(moments)
    inside = {m for m in moments if min(a, b) <= m < max(a, b)}
    assert length(clipped(merged(spans), min(a, b), max(a, b))) == len(inside)


VALID = packed(event("gemm", 0, 10))


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x1f\x8b", VALID[:-9], b"[]", b"{}", b'{"traceEvents": 5}', b'{"traceEvents": [5]}',
        b'{"traceEvents": []}', packed(event("x", float("nan"), 1)), packed(event("x", 0, -1)),
        packed({"ph": "X", "ts": "now", "dur": 1, "name": "x"}), b"\xff\xfe{",
    ],
    ids=lambda data: repr(data[:24]),
)  # fmt: skip
def test_what_is_no_trace_is_refused(data: bytes) -> None:
    with pytest.raises(CorralError) as caught:
        read_trace(data, 5)
    assert caught.value.code is Code.PARSE_FAILED
    assert "rank 5" in caught.value.message


def test_a_trace_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "MOST_BYTES", 1 << 20)
    with pytest.raises(CorralError, match="record fewer steps"):
        read_trace(gzip.compress(b" " * (2 << 20), mtime=0), 0)


NSYS = """\
Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
60.0,6000000,3,2000000.0,2000000.0,1,2,0.0,"void gemm<float, 128>(float*, int)"
40.0,4000000,1,4000000.0,4000000.0,1,2,0.0,ncclDevKernel_AllReduce

Time (%),Total Time (ns),Count,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Operation
100.0,10,1,10.0,10.0,10,10,0.0,[CUDA memcpy HtoD]

Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Style,Range
1.0,1,1,1.0,1.0,1,1,0.0,PushPop,:step

Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
99.5,201415579,20,10070779.0,10069103.5,10018265,10124628,19126.9,clock_nanosleep
"""


def test_nsys_stats_of_kernels() -> None:
    """The columns of cuda_gpu_kern_sum as Nsight Systems documents them; other reports follow."""
    rows = parse_stats(NSYS)
    assert [(r.percent, r.milliseconds, r.calls) for r in rows] == [(60.0, 6.0, 3), (40.0, 4.0, 1)]
    assert rows[0].name == "void gemm<float, 128>(float*, int)"
    (sleep,) = parse_stats(NSYS, CALLS)  # as Nsight Systems 2023.4.4 wrote it
    assert (sleep.milliseconds, sleep.calls, sleep.name) == (201.415579, 20, "clock_nanosleep")
    assert parse_stats("SKIPPED: x.sqlite does not contain CUDA kernel data.\n") == ()


@given(st.text(max_size=200))
@settings(max_examples=50, deadline=None)
def test_any_text_of_nsys_is_read_or_left_out(text: str) -> None:
    parse_stats(text)
    assert all("/" not in name for name in parse_sizes(text))


def test_names_that_no_rank_gives_are_left_out() -> None:
    text = "5 rank-0.json.gz\n7 rank-1.nsys-rep\n1 rank-x.csv\n1 ../rank-0.csv\n2 rank-0.sh\nx y\n"
    assert parse_sizes(text) == {"rank-0.json.gz": 5, "rank-1.nsys-rep": 7}
