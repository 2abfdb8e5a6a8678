"""The merged trace: nothing of a rank is lost or mixed with another's, and clocks are aligned."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.errors import Code, CorralError
from corral.jobs.profile.recordings import Clock, clock_of, timeline

TRACES = Path(__file__).parents[3] / "recorded" / "traces"


def trace(base: int, *collectives: tuple[float, float], groups: int = 1, pid: Any = 7) -> bytes:
    """A rank over gloo: an operator, a link, and its collectives."""
    common = {"pid": pid, "tid": 1}
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "args": {"name": "python3"}, **common},
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1.0, "dur": 2.0, **common},
        {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": 3, "ts": 1.0, **common},
        {"ph": "f", "cat": "fwdbwd", "name": "fwdbwd", "id": 3, "ts": 2.0, **common},
    ]
    events += [
        {
            "ph": "X",
            "cat": "user_annotation",
            "name": "gloo:all_reduce",
            "ts": begin,
            "dur": end - begin,
            **common,
        }
        for begin, end in collectives
    ]
    about = {"baseTimeNanoseconds": base, "distributedInfo": {"pg_count": groups}}
    return json.dumps({"traceEvents": events, **about}).encode()


def merged(*traces: bytes) -> dict[str, Any]:
    return json.loads(gzip.decompress(timeline(dict(enumerate(traces)), "job 7")))


def ops(document: dict[str, Any], name: str = "aten::mm") -> list[tuple[int, float]]:
    return [(e["pid"], e["ts"]) for e in document["traceEvents"] if e["name"] == name]


def test_ranks_have_processes_and_links_of_their_own() -> None:
    """Both ranks have process 7 and link 3, as ranks of two nodes may."""
    document = merged(trace(0), trace(0))
    names = {
        e["pid"]: e["args"]["name"] for e in document["traceEvents"] if e["name"] == "process_name"
    }
    assert sorted(names.values()) == ["rank 0: python3 7", "rank 1: python3 7"]
    links = [(e["pid"], e["id"]) for e in document["traceEvents"] if "id" in e]
    assert [count for _, count in sorted(Counter(links).items())] == [2, 2]
    assert len({link for _, link in links}) == 2
    assert document["otherData"]["title"] == "job 7"


def test_times_count_from_each_ranks_own_base() -> None:
    """PyTorch 2.6 writes times after baseTimeNanoseconds: two ranks may have begun a day apart."""
    document = merged(trace(5_000_000), trace(8_000_000))
    assert [at for _, at in ops(document)] == [1.0, 3001.0]
    assert document["otherData"]["clocks"]["1"] == {"by": "clock", "moved_us": 0.0}


def test_a_clock_that_is_wrong_is_moved_by_the_collectives() -> None:
    """Rank 1's clock is 9 s ahead: its collectives begin after those of rank 0 have ended."""
    shift = 9_000_000.0
    ahead = ((shift + 90, shift + 205), (shift + 301, shift + 312))
    document = merged(trace(0, (100, 200), (300, 310)), trace(0, *ahead))
    clock = document["otherData"]["clocks"]["1"]
    assert clock["by"] == "collectives"
    assert clock["moved_us"] == pytest.approx(-shift, abs=12)
    (_, first), (_, second) = ops(document, "gloo:all_reduce")[2:]
    assert first < 200
    assert second < 310


def test_clocks_that_agree_with_the_collectives_stay() -> None:
    late = ((100.0, 200.0),), ((180.0, 204.0),)
    document = merged(*(trace(0, *spans) for spans in late))
    assert document["otherData"]["clocks"]["1"]["moved_us"] == 0


@pytest.mark.parametrize(
    "other",
    [
        trace(0, (9100, 9200), (9300, 9310), groups=2),  # subsets have their own
        trace(0, (9100, 9200)),  # another number of them
        trace(0, (9100, 9200), (20000, 20010)),  # they contradict each other
    ],
    ids=["groups", "number", "contradiction"],
)
def test_collectives_that_prove_nothing_move_no_clock(other: bytes) -> None:
    document = merged(trace(0, (100, 200), (300, 310)), other)
    assert document["otherData"]["clocks"]["1"] == {"by": "clock", "moved_us": 0.0}


SPANS = st.lists(
    st.tuples(st.floats(1, 1e3), st.floats(1, 1e3), st.floats(0, 900)), min_size=1, max_size=6
)


@settings(max_examples=100, deadline=None)
@given(SPANS, st.floats(-1e7, 1e7))
def test_no_collective_ends_before_it_began_on_the_other_rank(
    spans: Sequence[tuple[float, float, float]], wrong: float
) -> None:
    """Whatever the clocks were, what is possible on a true clock is possible after the move."""
    first, other, at = [], [], 0.0
    for duration, other_duration, late in spans:
        end = at + max(duration, other_duration) + late
        first.append(("all_reduce", at, end))
        other.append(("all_reduce", at + late + wrong, end + wrong))
        at = end + 1
    clock = clock_of(0.0, first, other)
    assert isinstance(clock, Clock)
    for (_, begin, end), (_, begin2, end2) in zip(first, other, strict=True):
        assert end2 + clock.shift >= begin - 1e-3
        assert end >= begin2 + clock.shift - 1e-3


@pytest.mark.parametrize("name", ["digits-2-ranks-cpu", "gpt-2-h200-nccl"])
def test_recorded_traces_are_all_there(name: str) -> None:
    files = {r: (TRACES / name / f"rank-{r}.json.gz").read_bytes() for r in (0, 1)}
    document = json.loads(gzip.decompress(timeline(files, name)))
    kept = Counter(e["name"] for e in document["traceEvents"] if e["ph"] != "M")
    before: Counter[str] = Counter()
    for data in files.values():
        raw = json.loads(gzip.decompress(data))["traceEvents"]
        before.update(e["name"] for e in raw if e["ph"] != "M")
    assert kept == before
    # Both ranks of each ran on one machine: their clock was right.
    assert {c["by"] for c in document["otherData"]["clocks"].values()} == {"clock"}


@pytest.mark.parametrize(
    "bad",
    [b"", b"[]", trace("x"), trace(0, pid={"a": 1}), trace(0, groups=[]),  # pyright: ignore
     b'{"traceEvents": [{"ph": "i", "ts": NaN, "name": "x"}]}'],
)  # fmt: skip
def test_hostile_traces_are_refused_or_carried_along(bad: bytes) -> None:
    try:
        timeline({0: trace(0), 4: bad}, "x")
    except CorralError as error:
        assert error.code is Code.PARSE_FAILED
        assert "rank 4" in error.message
