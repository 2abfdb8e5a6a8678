"""Every check must be able to fail: break the cluster, see the check fail, mend it, see it pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.embedded.prove_breaks import BREAKS, ELSEWHERE, Break
from tests.embedded.prove_record import file_name
from tests.embedded.test_prove import proof_of

from corral.prove.catalog import CHECKS
from corral.prove.model import Verdict

if TYPE_CHECKING:
    from tests.embedded.conftest import Live


def needed(check: str) -> tuple[str, ...]:
    """The check and all it needs."""
    needs = {one.id: one.needs for one in CHECKS}
    found: dict[str, None] = {}
    left = [check]
    while left:
        one = left.pop()
        found[one] = None
        left += [need for need in needs[one] if need not in found]
    return tuple(found)


@pytest.mark.parametrize("one", BREAKS, ids=lambda b: f"{b.check}: {b.name}")
def test_break_fails_its_check_and_mending_it_passes(one: Break, cluster: Live) -> None:
    try:
        for node, script in one.do.items():
            done = cluster.run(node, script)
            assert done.ok, done.tail
        proof = proof_of(cluster, record=file_name(one.check, one.name))
    finally:
        mended = [cluster.run(node, script) for node, script in one.undo.items()]
    assert all(result.ok for result in mended), [result.tail for result in mended]
    results = {result.check: result for result in proof.results}
    target = results[one.check]
    assert target.verdict is Verdict.FAIL, target.summary
    assert one.says in target.summary
    assert target.hint
    assert not proof.good
    failed = {check for check, result in results.items() if result.verdict is Verdict.FAIL}
    assert failed <= {one.check} | one.implies, {c: results[c].summary for c in failed}
    again = proof_of(cluster, needed(one.check))
    bad = [f"{r.check}: {r.summary}" for r in again.results if r.verdict is not Verdict.PASS]
    assert not bad


def test_every_check_has_a_break() -> None:
    assert {one.check for one in BREAKS} | set(ELSEWHERE) == {check.id for check in CHECKS}
