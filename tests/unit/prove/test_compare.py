"""Two proofs compared, and the history they come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.api.evidence.past_proofs import (
    chosen_proof,
    compare_proofs,
    keep_proof,
    proofs,
    since_last,
)
from corral.errors import Code, CorralError
from corral.prove.compare import Change, compare
from corral.prove.model import CheckResult, Evidence, Proof, Verdict

DAY = 86400.0
AT = 1795305600.0  # 2026-11-22 00:00 UTC


def result(check: str, verdict: Verdict = Verdict.PASS, **figures: float) -> CheckResult:
    evidence = Evidence("node1", "measure", "", figures)
    return CheckResult(check, check, "g", verdict, f"{check} says", evidence=(evidence,))


def proof(*results: CheckResult, at: float = AT) -> Proof:
    return Proof("lab", at, results)


def test_the_same_twice_is_no_change() -> None:
    before = proof(result("a", busbw_gb_s=10.0))
    comparison = compare(before, proof(result("a", busbw_gb_s=10.9), at=AT + DAY))
    assert (comparison.differences, comparison.same, comparison.worse) == ((), 2, False)


@pytest.mark.parametrize(
    ("name", "before", "after", "change"),
    [
        ("busbw_gb_s", 10.0, 8.9, Change.WORSE),
        ("busbw_gb_s", 10.0, 11.5, Change.BETTER),
        ("latency_us", 10.0, 12.0, Change.WORSE),
        ("latency_us", 10.0, 8.0, Change.BETTER),
        ("results_wrong", 0.0, 1.0, Change.WORSE),
        ("busbw_gb_s", 10.0, 9.1, None),
        ("reference_gb_s", 10.0, 5.0, None),  # a constant, not a measurement
        ("jobs", 10.0, 5.0, None),  # unknown whether more is better
    ],
)
def test_figures_beyond_the_noise(
    name: str, before: float, after: float, change: Change | None
) -> None:
    comparison = compare(
        proof(result("a", **{name: before})), proof(result("a", **{name: after}), at=AT + 1)
    )
    assert [difference.change for difference in comparison.differences] == (
        [change] if change else []
    )


def test_a_measured_spread_widens_the_noise() -> None:
    before = proof(result("a", x_gb_s=10.0, x_gb_s_spread=0.08))
    assert compare(before, proof(result("a", x_gb_s=8.0), at=AT + 1)).differences == ()
    (difference,) = compare(before, proof(result("a", x_gb_s=7.0), at=AT + 1)).differences
    assert difference.words == "-30% (noise up to 24%)"


def test_verdicts_new_and_gone() -> None:
    before = proof(result("a"), result("b", Verdict.FAIL), result("old"))
    after = proof(result("a", Verdict.FAIL), result("b"), result("new"), at=AT + 1)
    comparison = compare(after, before)  # in any order: the older one is "before"
    assert [(d.change.value, d.check) for d in comparison.differences] == [
        ("worse", "a"),
        ("better", "b"),
        ("new", "new"),
        ("gone", "old"),
    ]
    assert comparison.worse
    assert comparison.words == "1 worse, 1 better, 1 new, 1 gone, 0 the same"
    assert not [d for d in compare(before, after, common=True).differences if d.check == "old"]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path))
    return tmp_path


def test_history_is_kept_and_found_again(state: Path) -> None:
    ids = [keep_proof(proof(result("a", x_gb_s=10.0 + i), at=AT + i * DAY)) for i in range(3)]
    assert ids == ["20261122-000000", "20261123-000000", "20261124-000000"]
    assert keep_proof(proof(result("a"), at=AT)) == "20261122-000000-2"
    history = proofs("lab")
    assert [kept.id for kept in history] == [ids[0], f"{ids[0]}-2", *ids[1:]]
    words = {
        "last": ids[2],
        "previous": ids[1],
        "2026-11-22": f"{ids[0]}-2",
        "20261123": ids[1],
        ids[0]: ids[0],
    }
    assert {word: chosen_proof(history, word).id for word in words} == words
    assert compare_proofs("lab", ids[0], "last").differences[0].figure == "x_gb_s"
    changes = since_last("lab", proof(result("a", x_gb_s=1.0), at=AT + 9 * DAY), partial=False)
    assert changes is not None
    assert changes.worse


def test_a_scheduled_proof_is_kept_once(state: Path) -> None:
    assert keep_proof(proof(result("a")), "schedule") == keep_proof(proof(result("a")), "schedule")
    assert len(proofs("lab")) == 1


def test_measurements_are_no_proofs_to_compare_with(state: Path) -> None:
    """A bench of the same day has one check of another kind: nothing would be the same."""
    ids = [keep_proof(proof(result("a", x_gb_s=10.0 + i), at=AT + i * 3600)) for i in range(2)]
    bench = keep_proof(proof(result("measure.network"), at=AT + 2 * 3600), "bench", partial=True)
    last = keep_proof(proof(result("a", x_gb_s=20.0), at=AT + DAY))
    history = proofs("lab")
    words = {"last": last, "previous": ids[1], "2026-11-22": ids[1], bench: bench}
    assert {word: chosen_proof(history, word).id for word in words} == words
    late = proof(result("a", x_gb_s=1.0), at=AT + DAY - 3600)
    changes = since_last("lab", late, partial=True)
    assert changes is not None
    assert changes.worse  # against the second proof, and not the bench after it


def test_a_day_with_measurements_alone(state: Path) -> None:
    bench = keep_proof(proof(result("measure.network"), at=AT), "bench", partial=True)
    assert chosen_proof(proofs("lab"), "2026-11-22").id == bench


def test_the_one_before_the_only_one(state: Path) -> None:
    keep_proof(proof(result("a")))
    with pytest.raises(CorralError, match="no previous proof yet"):
        chosen_proof(proofs("lab"), "previous")


@pytest.mark.parametrize("word", ["2026", "nothing", "", "1999-01-01"])
def test_what_names_no_proof(state: Path, word: str) -> None:
    for i in range(2):
        keep_proof(proof(result("a"), at=AT + i * DAY))
    with pytest.raises(CorralError) as raised:
        chosen_proof(proofs("lab"), word)
    assert raised.value.code is Code.NOT_FOUND
    assert "--history" in raised.value.hint


def test_an_empty_or_broken_history(state: Path) -> None:
    with pytest.raises(CorralError):
        compare_proofs("lab", "last", "previous")
    keep_proof(proof(result("a")))
    file = state / "clusters" / "lab" / "proofs.jsonl"
    file.write_text('{"id": 1}\nnonsense\n[]\n' + file.read_text() + '{"id": "cut", "proof"')
    assert len(proofs("lab")) == 1
    with pytest.raises(CorralError) as raised:
        compare_proofs("lab", "last", "last")
    assert raised.value.code is Code.USAGE
