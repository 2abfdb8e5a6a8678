"""A proof's page with what was last measured: drawn and dated, and counted by no verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral import api
from corral.api.evidence.bench import judged
from corral.api.evidence.collective_bench import HISTORY, Benched, BenchRequest, keep
from corral.apply.journal import Journal
from corral.prove.fabric.corral_benchmark import read_program
from corral.prove.fabric.slow_parts import Pair
from corral.prove.fabric.verdict import Outcome
from corral.prove.figures import Axis, Plot, Series
from corral.prove.measure.measurement import Measured, Remark
from corral.prove.model import CheckResult, Proof, Verdict
from corral.state_dir import cluster_dir

LOG = Path(__file__).parents[3] / "recorded" / "nccl" / "h200x4-own-benchmark.txt"
PAIRS = (Pair("node0", "node1", 300.0), Pair("node0", "node2", 30.0), Pair("node1", "node2", 30.0))
CURVE = Plot("training", Axis("nodes"), Axis("times"), (Series("ddp", ((1.0, 1.0), (2.0, 1.8))),))
PROOF = Proof("lab", 1.0, (CheckResult("smoke.nodes", "Nodes", "smoke", Verdict.PASS, "3 up"),))


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two collectives and pairs, then one of the collectives again, then training."""
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path))
    reading, _ = read_program(LOG.read_text().splitlines())
    bad = judged(reading, api.Known(busbw=900))
    keep("lab", BenchRequest(), Benched(7, "node[0-2]", bad, PAIRS))
    again = judged(type(reading)(reading.tables[:1], reading.transport), api.Known(busbw=360))
    keep("lab", BenchRequest(), Benched(8, "node[0-2]", again))
    journal = Journal(cluster_dir("lab") / HISTORY, "job-9")
    slow = Remark(Outcome.WARN, "2 nodes", "1.8 times as fast as one")
    training = Measured("scaling", (slow,), charts=(CURVE,), job=9, nodes="node[0-1]")
    journal.write("scaling", training.as_dict())
    journal.write("network", training.as_dict() | {"charts": [{"kind": "of another release"}]})


@pytest.mark.usefixtures("measured")
def test_the_newest_of_each_is_kept_with_its_plots() -> None:
    checks = {check.id: check for check in api.last_measured("lab")}
    assert {name: (check.word, len(check.charts)) for name, check in checks.items()} == {
        "measured.all_gather": ("fail", 1),
        "measured.pairs": ("warn", 1),
        "measured.all_reduce": ("pass", 1),
        "measured.scaling": ("warn", 1),
    }
    assert "364.9 GB/s at 8 GiB" in checks["measured.all_reduce"].summary
    assert checks["measured.all_gather"].evidence[0].command == "job 7 on node[0-2]"
    assert "slow: node2" in checks["measured.pairs"].summary


@pytest.mark.usefixtures("measured")
def test_a_proof_shows_it_and_does_not_count_it() -> None:
    page = api.proof_page(PROOF, None, api.last_measured("lab"))
    assert "1 check: 1 passed" in page
    assert "NOT proven" not in page
    assert page.count("<figure>") == 4
    assert page.index("Last measured") < page.index("Figures") < page.index("smoke.nodes")
    assert "the verdict above does not count it" in page
    assert "Last measured" not in api.proof_page(PROOF)


def test_a_cluster_that_was_never_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path))
    assert api.last_measured("lab") == ()
