"""What the cluster file and the cluster's own past ask for, and what is asked of the nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.api.evidence.collective_bench import ENOUGH, HISTORY, given_or_declared, usual_of
from corral.api.evidence.node_bench import as_proof, causes_of, measured_before
from corral.apply.journal import Journal
from corral.prove.fabric.comparison import Known
from corral.prove.fabric.limits import Topology
from corral.prove.fabric.model import Collective
from corral.prove.fabric.verdict import Outcome
from corral.prove.measure.measurement import Measured, Remark
from corral.prove.model import Verdict
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec
from corral.state_dir import cluster_dir

EXAMPLES = Path(__file__).parents[4] / "examples"


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path))


def spec(name: str) -> ClusterSpec:
    return load_or_raise(EXAMPLES / f"{name}.yaml")


def remember(name: str, rates: list[float], *, outcome: str = "pass", nodes: int = 3) -> None:
    journal = Journal(cluster_dir(name) / HISTORY, "test")
    for rate in rates:
        table = {"collective": "all_reduce", "nodes": nodes, "busbw_gb_s": rate, "outcome": outcome}
        journal.write("bench", {"tables": [table]})


def test_the_past_is_a_reference_once_there_is_enough_of_it() -> None:
    lab = spec("lab-3x5090")
    remember(lab.name, [0.30, 0.28])
    assert usual_of(lab, 3) == {}
    remember(lab.name, [0.29] * (ENOUGH - 2))
    assert usual_of(lab, 3) == {Collective.ALL_REDUCE: 0.29}
    assert usual_of(lab, 2) == {}


def test_what_failed_is_no_reference() -> None:
    lab = spec("lab-3x5090")
    remember(lab.name, [0.01] * 5, outcome="fail")
    assert usual_of(lab, 3) == {}


def test_the_past_of_containers_is_no_reference() -> None:
    laptop = spec("laptop")
    remember(laptop.name, [1.0] * 5)
    assert usual_of(laptop, 3) == {}


def test_what_is_declared_comes_before_the_past() -> None:
    lab = spec("lab-3x5090")
    remember(lab.name, [0.1] * 5)
    reference = given_or_declared(lab, Known(), nodes=3, gpus=1)
    assert (reference.share, reference.topology) == (0.94, Topology(1, 2.5))
    assert reference.usual == {Collective.ALL_REDUCE: 0.1}


def test_a_measurement_is_kept_as_a_proof_with_its_causes() -> None:
    remarks = (
        Remark(Outcome.FAIL, "n0", "packets are lost", "F28"),
        Remark(Outcome.FAIL, "n1", "packets are lost", "F28"),
        Remark(Outcome.UNKNOWN, "", "figures", "F37"),
    )
    measured = Measured("network", remarks, job=7, nodes="n[0-1]")
    assert [failure.id for failure in causes_of(measured)] == ["F28"]
    (check,) = as_proof(spec("laptop"), measured).results
    assert (check.check, check.verdict) == ("measure.network", Verdict.FAIL)
    assert "packets are lost" in check.summary
    assert measured_before("laptop", "network") == ()
