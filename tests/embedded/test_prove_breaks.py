"""Every check must be able to fail: break the cluster, see the check fail, fix it, see it pass."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.embedded.prove_breaks import BREAKS, ELSEWHERE
from tests.embedded.prove_groups import Group, doing, groups, label, undoing
from tests.embedded.prove_record import file_name
from tests.embedded.test_prove import proof_of

from corral.prove.catalog import CHECKS
from corral.prove.model import Verdict

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

RECORDING = bool(os.environ.get("CORRAL_TEST_RECORD"))
# Two of three are slow tests: each run takes some of them.
ROTATED = [
    pytest.param(group, marks=pytest.mark.slow if index % 3 else (), id=label(group))
    for index, group in enumerate(groups(alone=RECORDING))
]


def needed(checks: set[str]) -> tuple[str, ...]:
    """The checks and all they need."""
    needs = {check.id: check.needs for check in CHECKS}
    required: dict[str, None] = {}
    left = sorted(checks)
    while left:
        check = left.pop()
        required[check] = None
        left += [need for need in needs[check] if need not in required]
    return tuple(required)


@pytest.mark.parametrize("group", ROTATED)
def test_break_fails_its_check_and_undoing_it_passes(group: Group, cluster: Live) -> None:
    try:
        for done in cluster.each(doing(group)):
            assert done.ok, done.tail
        proof = proof_of(cluster, record=file_name(group[0].check, group[0].name))
    finally:
        undone = cluster.each(undoing(group))
    assert all(result.ok for result in undone), [result.tail for result in undone]
    results = {result.check: result for result in proof.results}
    for fault in group:
        target = results[fault.check]
        assert target.verdict is Verdict.FAIL, (fault.name, target.summary)
        assert fault.summary in target.summary, fault.name
        assert target.hint
    assert not proof.good
    failed = {check for check, result in results.items() if result.verdict is Verdict.FAIL}
    true = {fault.check for fault in group}.union(*(fault.implies for fault in group))
    assert failed <= true, {c: results[c].summary for c in failed - true}
    again = proof_of(cluster, needed({fault.check for fault in group}))
    bad = [f"{r.check}: {r.summary}" for r in again.results if r.verdict is not Verdict.PASS]
    assert not bad


def test_every_check_has_a_break() -> None:
    assert {fault.check for fault in BREAKS} | set(ELSEWHERE) == {check.id for check in CHECKS}
