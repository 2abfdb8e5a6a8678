"""Verdicts on shared folders."""

from __future__ import annotations

import json
from typing import Any

import pytest

from corral.errors import CorralError
from corral.prove.fabric.verdict import Outcome
from corral.prove.measure.storage import Share, judge_shares, medians, read_shares, totals

NODES = ("n0", "n1", "n2")


def line(index: int, together: int, **changes: Any) -> str:
    record = {
        "mount": "/shared",
        "node": NODES[index],
        "together": together,
        "bytes": 256 << 20,
        "write": {"mb_s": changes.get("write", 500.0), "before_sync_mb_s": 900.0},
        "read": {
            "mb_s": changes.get("read", 800.0),
            "cached": changes.get("cached", 0.0),
            "wrong": changes.get("wrong", 0),
            "node": NODES[(index + 1) % 3],
        },
        "names": {"create_s": changes.get("create", 900.0), "stat_s": 1e5, "remove_s": 5e4},
    }
    return f"0: @@corral-storage {json.dumps(record)}"


def shares(**changes: Any) -> tuple[Share, ...]:
    """What changes is what n1 does alone."""
    alone = [line(i, 1, **(changes if i == 1 else {})) for i in range(3)]
    return read_shares([*alone, *(line(i, 3, write=100.0, read=300.0) for i in range(3))])


def outcomes(measured: tuple[Share, ...], **usual: float) -> list[tuple[Outcome, str]]:
    remarks = judge_shares(measured, {"/shared": usual})
    return [(r.outcome, r.about) for r in remarks]


def test_healthy_folders_pass() -> None:
    assert outcomes(shares()) == [(Outcome.PASS, "/shared")]
    assert totals(shares(), "/shared")["write"] == 300.0
    assert medians(shares(), "/shared")["read"] == 800.0


@pytest.mark.parametrize(
    ("changes", "outcome", "about"),
    [
        ({"write": 150.0}, Outcome.WARN, "n1"),
        ({"write": 50.0}, Outcome.FAIL, "n1"),
        ({"read": 50.0}, Outcome.FAIL, "n2"),  # n2 reads what n1 wrote
        ({"create": 100.0}, Outcome.WARN, "n1"),
        ({"wrong": 2}, Outcome.FAIL, "/shared"),
    ],
)
def test_each_fault_is_named(changes: dict[str, Any], outcome: Outcome, about: str) -> None:
    assert outcomes(shares(**changes))[0] == (outcome, about)


def test_the_clusters_own_history_is_a_reference() -> None:
    assert (Outcome.WARN, "/shared") in outcomes(shares(), write=1000.0)
    assert outcomes(shares(), write=600.0) == [(Outcome.PASS, "/shared")]


@pytest.mark.parametrize(
    ("cached", "words"), [(0.5, "50% of a file was in memory"), (-1.0, "helped reading is unknown")]
)
def test_help_from_memory_is_reported(cached: float, words: str) -> None:
    assert words in judge_shares(shares(cached=cached))[0].text


@pytest.mark.parametrize("lines", [[], ['@@corral-storage {"mount": "/x"}']])
def test_a_spoiled_answer_is_an_error(lines: list[str]) -> None:
    with pytest.raises(CorralError):
        read_shares(lines)
