"""``corral bench run`` and ``history``: what is asked of the use case, and how its answer looks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from corral import api
from corral.api.evidence.bench import judged
from corral.api.evidence.collective_bench import Benched, BenchRequest
from corral.apply.journal import Journal
from corral.cli.evidence import bench_run
from corral.cli.evidence.bench_run import bytes_of
from corral.errors import CorralError
from corral.prove.fabric.corral_benchmark import progress_of, read_program
from corral.prove.fabric.slow_parts import Pair
from corral.prove.fabric.verdict import Outcome
from corral.prove.measure.measurement import Measured, Remark
from corral.spec.load import load_or_raise
from tests.unit.cli.conftest import Run

ROOT = Path(__file__).parents[4]
LOG = (ROOT / "tests/recorded/nccl/h200x4-own-benchmark.txt").read_text().splitlines()
SLOW = (Pair("node0", "node1", 300.0), Pair("node0", "node2", 30.0), Pair("node1", "node2", 30.0))


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("4096", 4096), ("64k", 64 << 10), ("1M", 1 << 20), ("8G", 8 << 30)],
)
def test_sizes(text: str, size: int) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["", "M", "0", "0G", "1T", "1.5G", "-1M", "1 M", "x"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(CorralError):
        bytes_of(text)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the use case was called with; it answers with the recorded run, and three pairs."""
    seen: dict[str, Any] = {}
    spec = load_or_raise(ROOT / "examples/laptop.yaml")

    async def run_bench(
        _spec: object, request: BenchRequest, known: api.Known, _emit: object, **calls: Any
    ) -> Benched:
        seen.update(request=request, known=known)
        for row in filter(None, map(progress_of, LOG)):
            calls["on_row"](row)
        reading, _ = read_program(LOG)
        return Benched(7, "node[0-2]", judged(reading, known), SLOW)

    monkeypatch.setattr(api, "run_bench", run_bench, raising=False)
    monkeypatch.setattr(bench_run, "cluster", lambda *_: spec)
    return seen


def test_a_good_run(corral: Run, asked: dict[str, Any]) -> None:
    done = corral(
        *("bench", "run", "--collectives", "all_reduce,all_gather", "-N", "3"),
        *("--smallest", "8M", "--largest", "8G", "--type", "bfloat16", "--reference", "360"),
    )
    assert done.exit_code == 0, done.output
    assert asked["request"] == BenchRequest(
        ("all_reduce", "all_gather"), 3, 8 << 20, 8 << 30, type="bfloat16"
    )
    assert asked["known"].busbw == 360
    assert "pass: 364.9 GB/s at 8 GiB" in done.stdout
    assert "all_reduce 4 GiB: 17774.1 us, 362.5 GB/s" in done.stderr
    assert "slow:" not in done.stdout


def test_a_bad_run_names_the_node(corral: Run, asked: dict[str, Any]) -> None:
    done = corral("bench", "run", "--reference", "500")
    assert done.exit_code == 1
    assert "fail: 364.9 GB/s at 8 GiB" in done.stdout
    assert "slow: node2 is slow with every other node" in done.stdout
    assert asked["request"] == BenchRequest()


def test_a_slow_node_is_named_where_nothing_else_is_known(
    corral: Run, asked: dict[str, Any]
) -> None:
    done = corral("bench", "run")
    assert done.exit_code == 0
    assert "unknown: 364.9 GB/s" in done.stdout
    assert "slow: node2 is slow with every other node" in done.stdout
    assert asked


def test_json(corral: Run, asked: dict[str, Any]) -> None:
    done = corral("bench", "run", "--json", "--reference", "500")
    printed = json.loads(done.stdout)
    assert (printed["good"], printed["job"], printed["slow_nodes"]) == (False, 7, ["node2"])
    assert [table["outcome"] for table in printed["tables"]] == ["fail", "fail"]
    assert asked


def test_a_type_that_there_is_not(corral: Run, asked: dict[str, Any]) -> None:
    assert corral("bench", "run", "--type", "float8").exit_code == 2
    assert not asked


def test_history(
    corral: Run, asked: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path))
    assert "nothing was measured yet" in corral("bench", "history").stderr
    reading, _ = read_program(LOG)
    benched = Benched(7, "node[0-2]", judged(reading, api.Known(busbw=360)), SLOW)
    journal = Journal(tmp_path / "clusters" / "laptop" / "bench.jsonl", "job-7")
    journal.write("bench", benched.as_dict())
    slow = Remark(Outcome.WARN, "node1", "node1 is slow")
    journal.write("network", Measured("network", (slow,), job=8, nodes="node[0-1]").as_dict())
    journal.write("gpu", Measured("gpu", ()).as_dict())
    journal.write("scaling", {"outcome": "pass"})  # cut off, or of another release
    shown = corral("bench", "history").stdout
    assert [" ".join(line.split()[2:]) for line in shown.splitlines()[1:]] == [
        "all_reduce node[0-2] pass 364.9 GB/s at 8 GiB (reference 360)",
        "all_gather node[0-2] pass 357 GB/s at 8 GiB (reference 360)",
        "network node[0-1] warn node1 is slow",
        "gpu - unknown nothing",
    ]
    kept = json.loads(corral("bench", "history", "--json").stdout)["history"]
    assert [(row["kind"], row["job"]) for row in kept] == [("bench", 7), ("network", 8), ("gpu", 0)]
    assert not asked
