"""Public logs, rewritten from facts, whose cause was written down before the doctor saw them.

``tests/corpora/logs/*.yaml``: ``cause`` is that text. ``finding`` was added afterwards: the failure
that must be named first, ``healthy``, or ``unknown`` where no rule can decide: then no cause may be
named at all. So this guards what is named today; it is not an independent score.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from corral.doctor.catalog import catalog
from corral.doctor.logs.diagnosis import explain
from corral.doctor.model import Report, Severity

LOGS = sorted((Path(__file__).parents[3] / "corpora" / "logs").glob("*.yaml"))
LEAST = 200
"""Cases: fewer would be a corpus that was lost."""
MOST_UNKNOWN = 0.1


@cache
def case(file: Path) -> dict[str, Any]:
    recorded: dict[str, Any] = YAML(typ="safe").load(file.read_text())
    return recorded


@cache
def report_of(file: Path) -> Report:
    """What the doctor finds in a case. Two tests look at it, and all cases take seconds."""
    return explain(case(file)["log"])


def named(report: Report) -> str:
    """A report in one word."""
    if report.healthy:
        return "healthy"
    first = report.findings[0].failure if report.findings else None
    return first.id if first is not None else "unknown"


@pytest.mark.parametrize("file", LOGS, ids=[file.stem for file in LOGS])
def test_the_first_cause_of_a_public_log_is_named(file: Path) -> None:
    judged = case(file)
    report = report_of(file)
    if judged["finding"] == "unknown":
        assert not report.healthy, judged["cause"]
        causes = [
            judged.failure.id
            for judged in report.findings
            if judged.severity is Severity.ERROR and not judged.failure.stated
        ]
        assert causes == [], judged["cause"]
    else:
        assert named(report) == judged["finding"], judged["cause"]


@pytest.mark.parametrize("file", LOGS, ids=[file.stem for file in LOGS])
def test_a_case_names_its_source_and_what_is_expected(file: Path) -> None:
    judged = case(file)
    assert judged["source"] or file.stem.startswith("r"), file
    assert judged["cause"]
    assert judged["finding"] in {*catalog(), "healthy", "unknown"}


def test_the_corpus_is_large_and_few_of_it_are_unknown() -> None:
    kinds = Counter(case(file)["finding"] for file in LOGS)
    assert len(LOGS) >= LEAST
    assert kinds["healthy"] >= LEAST // 20
    assert kinds["unknown"] <= MOST_UNKNOWN * len(LOGS)


def test_an_unknown_log_ends_with_its_first_fatal_lines() -> None:
    for file in LOGS:
        judged = case(file)
        report = report_of(file)
        lines = re.sub(r"\x1b\[[\d;]*m", "", judged["log"]).split("\n")
        for fatal in report.unknown:
            assert fatal.text.strip()[:40] in lines[fatal.number - 1], (file.stem, fatal)
