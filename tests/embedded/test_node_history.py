"""Outages of nodes from slurmdbd: the history, and a node that three causes make a lemon."""

from __future__ import annotations

import asyncio

from tests.embedded.conftest import Live

from corral import api

REASONS = ("planned: new memory", "no link", "health.gpus: 1 of 2 GPUs", "it smells")


def drained_by(live: Live, node: str, reason: str) -> None:
    """Drain a node for this reason and resume it."""
    asyncio.run(api.drain(live.spec, node, reason))
    asyncio.run(api.resume(live.spec, node))


def lemons(live: Live) -> list[str]:
    """Evidence of F2241 of the doctor."""
    report = asyncio.run(api.doctor(live.spec))
    return [
        f"{finding.nodes} {line}"
        for finding in report.findings
        if finding.failure.id == "F2241"
        for line in finding.evidence
    ]


def test_three_causes_make_a_lemon(cluster: Live) -> None:
    node = "node2"
    before = asyncio.run(api.node_history(cluster.spec, node))[0]
    assert not before.lemon
    for reason in REASONS[:3]:
        drained_by(cluster, node, reason)
    (seen,) = asyncio.run(api.node_history(cluster.spec, node))
    new = [outage for outage in seen.outages if outage not in before.outages]
    assert [outage.reason for outage in new] == list(REASONS[:3])
    assert all(o.end is not None and o.state.startswith("DRAIN") and o.by == "root" for o in new)
    assert not seen.lemon, seen.causes
    assert lemons(cluster) == []
    drained_by(cluster, node, REASONS[3])
    (seen,) = asyncio.run(api.node_history(cluster.spec, node))
    assert seen.lemon
    assert len(seen.causes) == len(before.causes) + 3
    (line,) = lemons(cluster)
    assert line.startswith(f"('{node}',) 3 causes in 30 days: no link; ")
    other = asyncio.run(api.node_history(cluster.spec, "node0"))[0]
    assert not other.lemon
