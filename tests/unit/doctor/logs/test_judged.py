"""Logs that an independent reader judged: what was right stays right, what was not is learned."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from corral.doctor.logs.diagnosis import explain
from tests.unit.doctor.logs.test_corpus import case, named

LOGS = sorted((Path(__file__).parents[3] / "corpora/logs_judged").glob("*.yaml"))
RIGHT = [file for file in LOGS if case(file)["judged"] == "right"]
LEARNED = [file for file in LOGS if "learned" in case(file)]


def test_the_record_is_complete() -> None:
    """The verdicts were given once and do not change; what was learned from them is not a score."""
    rounds = {n: [case(f) for f in LOGS if case(f).get("round", 1) == n] for n in range(1, 13)}
    assert {n: Counter(entry["judged"] for entry in cases) for n, cases in rounds.items()} == {
        1: {"right": 75, "half": 21, "unknown": 14, "wrong": 20},
        2: {"right": 72, "half": 11, "unknown": 11, "wrong": 15},
        3: {"right": 50, "half": 18, "unknown": 23, "wrong": 31},
        4: {"right": 18, "half": 21, "unknown": 9, "wrong": 13},
        5: {"right": 6, "unknown": 4, "wrong": 1},
        6: {"right": 19, "half": 35, "unknown": 13, "wrong": 33},
        7: {"right": 88, "half": 16, "unknown": 4, "wrong": 3},
        8: {"right": 76, "half": 14, "unknown": 10, "wrong": 10},
        9: {"right": 41, "half": 35, "unknown": 27, "wrong": 17},
        10: {"right": 43, "half": 12, "unknown": 12, "wrong": 3},
        11: {"right": 27, "half": 12, "unknown": 6, "wrong": 2},
        12: {"right": 23, "half": 11, "unknown": 14, "wrong": 3},
    }
    apart = [file for file in LOGS if case(file).get("apart")]
    assert not set(RIGHT) & set(LEARNED)
    assert not set(apart) & set(LEARNED)
    assert len(LEARNED) >= 120
    assert len(apart) == 17


@pytest.mark.parametrize("file", RIGHT, ids=[file.stem for file in RIGHT])
def test_what_was_judged_right_is_still_named(file: Path) -> None:
    """By the same entry, or (``now``) by a narrower one that was made later."""
    entry = case(file)
    assert named(explain(entry["log"])) == entry.get("now", entry["finding"]), entry["cause"]


@pytest.mark.parametrize("file", LEARNED, ids=[file.stem for file in LEARNED])
def test_what_was_not_judged_right_is_named_now(file: Path) -> None:
    entry = case(file)
    assert named(explain(entry["log"])) == entry["learned"], entry["cause"]
