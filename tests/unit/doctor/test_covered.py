"""The guide's tables against the catalogue and against what the tests really inject."""

from __future__ import annotations

import re
from pathlib import Path

from corral.doctor.catalog import catalog
from tests.embedded.doctor_injections import INJECTIONS, MUNGE_INJECTIONS
from tests.embedded.doctor_injections_machine import MACHINE_INJECTIONS
from tests.embedded.doctor_injections_more import MORE_INJECTIONS
from tests.embedded.test_doctor_jobs import CASES, PROGRAMS

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs" / "guide" / "doctor.md").read_text()
OWN = {"F29", "F20"}
"""Injected by separate tests in test_doctor.py; F52 is, where the machine has cgroup v1."""


def listed() -> set[str]:
    return set(re.findall(r"^\| \[(F\d+)\]", GUIDE, re.MULTILINE))


def not_here() -> dict[str, str]:
    """What is not injected, with what tests it."""
    rows = re.findall(r"^\| (F\d+(?:, F\d+)*) \| [^|]+ \| ([^|]+) \|$", GUIDE, re.MULTILINE)
    return {number: tested for ids, tested in rows for number in ids.split(", ")}


def later() -> set[str]:
    """What the row "F106 and later" speaks of: entries with their own examples."""
    first = int(re.findall(r"^\| F(\d+) and later \|", GUIDE, re.MULTILINE)[0])
    return {f.id for f in catalog().values() if int(f.id[1:]) >= first and (f.examples or f.needs)}


def test_each_failure_is_injected_or_has_a_reason_why_not() -> None:
    assert listed() | set(not_here()) | later() == set(catalog())
    assert not listed() & set(not_here())


def test_what_the_guide_calls_injected_is() -> None:
    made = {i.id for i in (*INJECTIONS, *MUNGE_INJECTIONS, *MORE_INJECTIONS, *MACHINE_INJECTIONS)}
    failed = {case.id for case in (*CASES.values(), *PROGRAMS.values())}
    assert listed() - {"F52"} == (made | failed | OWN) - {"F52"}


def test_each_case_of_a_job_is_in_the_guide() -> None:
    for name, case in {**CASES, **PROGRAMS}.items():
        assert f"| [{case.id}](../reference/failures.md) | {name}" in GUIDE


def test_what_tests_the_others_is_there() -> None:
    for tested in not_here().values():
        for path in re.findall(r"`(tests/[^`]+)`", tested):
            assert (ROOT / path).exists(), path
