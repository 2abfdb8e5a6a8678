"""Rounds of the scheduled proof, read back; and what a cluster is given to run them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.prove.model import Verdict
from corral.prove.rounds import parse_rounds

ROUND = """\
round 1795307133
node node0 pass healthy
figure node0 cpu_mb_s 450.3
figure node0 odd nan
figure node0
node node1 fail cpu_mb_s is 48, its peers have 300
node node2 preempted a job of somebody came first
end 1795307151
"""


def test_a_round_becomes_a_proof() -> None:
    (proof,) = parse_rounds("lab", ROUND)
    (result,) = proof.results
    assert (proof.cluster, proof.at, proof.good) == ("lab", 1795307133.0, False)
    assert result.summary == "node1: cpu_mb_s is 48, its peers have 300; 1 gave way to jobs"
    assert result.hint
    assert [(e.node, dict(e.figures)) for e in result.evidence] == [
        ("node0", {"cpu_mb_s": 450.3}),
        ("node1", {}),
        ("node2", {}),
    ]


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        ("node a pass healthy\nnode b preempted x", Verdict.PASS),
        ("node a preempted x\nnode b busy x", Verdict.SKIP),
        ("", Verdict.SKIP),
        ("node a pass healthy\nnode b broken no sh", Verdict.WARN),
        ("node a fail x\nnode b broken y", Verdict.FAIL),
        ("node a pass healthy\nnode b pass healthy\ngroup a,b pass healthy", Verdict.PASS),
        ("node a pass healthy\nnode b pass healthy\ngroup a,b preempted x", Verdict.PASS),
        ("node a pass healthy\nnode b pass healthy\ngroup a,b broken x", Verdict.WARN),
        ("node a pass healthy\nnode b pass healthy\ngroup a,b fail slow", Verdict.FAIL),
    ],
)
def test_verdicts(lines: str, verdict: Verdict) -> None:
    (proof,) = parse_rounds("lab", f"round 1\n{lines}\nend 2\n")
    assert proof.results[0].verdict is verdict


def test_collectives_are_listed_next_to_the_nodes() -> None:
    lines = (
        "node a pass healthy\nnode b pass healthy\ngroup a,b fail all_reduce_gb_s is 1; b is slow\n"
    )
    (proof,) = parse_rounds("lab", f"round 1\n{lines}figure a,b all_reduce_gb_s 1\nend 2\n")
    (result,) = proof.results
    assert result.summary.startswith("collectives over a,b: all_reduce_gb_s is 1; b is slow; 2 ")
    assert (result.evidence[-1].node, dict(result.evidence[-1].figures)) == (
        *("a,b", {"all_reduce_gb_s": 1.0}),
    )


@pytest.mark.parametrize(
    ("lines", "likely"),
    [
        ("node a fail cpu_mb_s is 4, it had 300 before", "clocks"),
        ("node a fail disk_write_mb_s is 4, its peers have 300", "its disk"),
        ("node a fail mount1_write_mb_s is 4, its peers have 300", "the file server"),
        ("node a fail gpu3_bf16_tflops is 4, its peers have 300", "heat, power"),
        ("node a fail gpu0_gpu1_gb_s is 4, its peers have 300", "NVLink"),
        ("node a pass healthy\ngroup a,b fail all_reduce_gb_s is 1; b is slow", "corral bench run"),
        ("node a broken no sh", "begin with corral doctor"),
    ],
)
def test_what_is_likely_is_reported(lines: str, likely: str) -> None:
    """The hint named a drained node for collectives too, which drain no node."""
    (proof,) = parse_rounds("lab", f"round 1\n{lines}\nend 2\n")
    (result,) = proof.results
    assert likely in result.hint
    assert ("measured again by the next round" in result.hint) is ("broken" in lines)


def test_a_round_that_was_cut_is_none() -> None:
    cut = ROUND.replace("end 1795307151\n", "")
    assert parse_rounds("lab", cut) == ()
    assert len(parse_rounds("lab", cut + ROUND)) == 1


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from(["round 7", "end 9", "node a fail", "figure a b 1e999"]) | st.text())
)
def test_any_text_is_read(lines: list[str]) -> None:
    for proof in parse_rounds("lab", "\n".join(lines)):
        assert len(proof.results) == 1
