"""A proof of a healthy cluster: all checks pass, evidence is kept, nothing is left behind."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from tests.embedded.prove_record import Case, RecordingFleet

from corral.events import Event, Kind
from corral.hosts.fleet import Fleet
from corral.hosts.quote import sh
from corral.prove.catalog import CHECKS
from corral.prove.context import ProveContext
from corral.prove.model import Proof, Verdict
from corral.prove.runner import prove
from corral.spec.nodes import users_of

if TYPE_CHECKING:
    from tests.embedded.conftest import Live


NOT_HERE = {
    *("storage.mounts", "access.adopt"),
    "smoke.directory",
    *("multinode.nccl", "multinode.tcpxo", "multinode.tcpxo-speed"),
}
"""Checks of what this cluster does not have: test_people.py, test_prove_nccl.py, test_mega.py and
tests/machines."""
LEFT = sh(
    "squeue -h -u corral -o '%i %j %T' 2>/dev/null;"
    " ls -A /shared | grep corral-prove; ls /tmp | grep corral-prove;"
    " ps -eo args | grep '[c]orral-prove'; true"
)


def proof_of(
    cluster: Live,
    ids: tuple[str, ...] = (),
    events: list[Event] | None = None,
    record: str = "",
) -> Proof:
    """Prove the cluster, with all checks or with some; ``record`` names the file to keep it in."""
    folder = os.environ.get("CORRAL_TEST_RECORD", "")
    case = Case()
    chosen = [check for check in CHECKS if not ids or check.id in ids]
    emit = (events if events is not None else []).append

    async def work(fleet: Fleet) -> Proof:
        user = users_of(cluster.spec)[0].name
        kept = RecordingFleet(fleet, case) if folder and record else fleet
        ctx = ProveContext(cluster.spec, kept, cluster.controller, user, cluster.facts)
        case.token = ctx.token
        return await prove(ctx, chosen, emit, at=1.0)

    proof = cluster.with_fleet(work)
    if folder and record:
        case.write(Path(folder) / record)
    return proof


def test_healthy_cluster_passes_every_check(cluster: Live) -> None:
    events: list[Event] = []
    proof = proof_of(cluster, events=events, record="healthy.json")
    seen = {result.check: (result.verdict, result.summary) for result in proof.results}
    skipped = {check for check, (verdict, _) in seen.items() if verdict is Verdict.SKIP}
    assert skipped == NOT_HERE, seen
    assert {v for c, (v, _) in seen.items() if c not in NOT_HERE} == {Verdict.PASS}, seen
    assert proof.good
    assert list(seen) == [check.id for check in CHECKS]
    for result in proof.results:
        assert result.evidence or result.check in NOT_HERE, result.check
        assert all(item.command and item.output for item in result.evidence), result.check
        assert result.hint == ""
    assert Proof.from_dict(json.loads(json.dumps(proof.as_dict()))) == proof
    done = [event.subject for event in events if event.kind is Kind.CHECK_DONE]
    assert sorted(done) == sorted(seen)


def test_nothing_is_left_behind(cluster: Live) -> None:
    proof_of(cluster)
    for node in cluster.facts:
        assert cluster.run(node, LEFT).stdout.strip() == "", node


def test_evidence_holds_no_token(cluster: Live) -> None:
    proof = proof_of(cluster, ("rest.answers", "rest.refuses"))
    text = json.dumps(proof.as_dict())
    assert "eyJ" not in text  # how every JWT begins
    assert {result.verdict for result in proof.results} == {Verdict.PASS}
