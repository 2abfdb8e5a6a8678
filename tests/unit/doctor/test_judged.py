"""Logs that an independent reader judged: what was right stays right."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from corral.doctor.diagnosis import explain
from tests.unit.doctor.test_corpus import case, named

LOGS = sorted((Path(__file__).parents[2] / "corpora/logs_judged").glob("*.yaml"))
RIGHT = [file for file in LOGS if case(file)["judged"] == "right"]


def test_the_record_is_complete() -> None:
    assert Counter(case(file)["judged"] for file in LOGS).total() == 130
    assert len(RIGHT) >= 75


@pytest.mark.parametrize("file", RIGHT, ids=[file.stem for file in RIGHT])
def test_what_was_judged_right_is_still_named(file: Path) -> None:
    one = case(file)
    assert named(explain(one["log"])) == one["finding"], one["cause"]
