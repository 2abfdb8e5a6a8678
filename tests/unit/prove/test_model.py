"""Proof, results and evidence as data."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.errors import Code, CorralError
from corral.prove.model import CheckResult, Evidence, Proof, Verdict

FIGURES = st.dictionaries(st.text(), st.text() | st.integers() | st.floats(allow_nan=False))
EVIDENCE = st.builds(Evidence, st.text(), st.text(), st.text(), FIGURES)
RESULTS = st.builds(
    CheckResult,
    st.text(),
    st.text(),
    st.text(),
    st.sampled_from(Verdict),
    st.text(),
    st.text(),
    st.lists(EVIDENCE, max_size=3).map(tuple),
    st.floats(0, 1e6),
)


def result(verdict: Verdict) -> CheckResult:
    return CheckResult("a.b", "A", "a", verdict, "s")


@given(st.builds(Proof, st.text(), st.floats(0, 1e12), st.lists(RESULTS, max_size=4).map(tuple)))
def test_a_proof_survives_json(proof: Proof) -> None:
    assert Proof.from_dict(json.loads(json.dumps(proof.as_dict()))) == proof


@pytest.mark.parametrize(
    ("verdicts", "good"),
    [
        ((Verdict.PASS,), True),
        ((Verdict.PASS, Verdict.WARN, Verdict.SKIP), True),
        ((Verdict.PASS, Verdict.FAIL), False),
        ((Verdict.SKIP,), False),
        ((), False),
    ],
)
def test_good_needs_a_pass_and_no_fail(verdicts: tuple[Verdict, ...], good: bool) -> None:
    proof = Proof("lab", 1.0, tuple(result(v) for v in verdicts))
    assert proof.good is good
    assert proof.as_dict()["good"] is good
    assert sum(proof.count(v) for v in Verdict) == len(verdicts)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"cluster": "lab", "at": 1.0, "results": [{}]},
        {"cluster": "lab", "at": "soon", "results": []},
        {"cluster": "lab", "at": 1.0, "results": [None]},
        {"cluster": "lab", "at": 1.0, "results": None},
    ],
)
def test_what_is_no_proof_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(CorralError) as raised:
        Proof.from_dict(data)
    assert raised.value.code is Code.PARSE_FAILED
    assert raised.value.hint
