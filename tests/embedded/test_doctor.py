"""The doctor on a real cluster: silent on a healthy one, and right about each injected failure."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from tests.embedded.doctor_injections import INJECTIONS, Injection

from corral import api
from corral.doctor.model import Report

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.embedded.conftest import Live

WITHIN_S = 90.0
"""Seconds a failure may take until Slurm shows it, and until a mended cluster is well again."""


def look(cluster: Live) -> Report:
    return asyncio.run(api.doctor(cluster.spec))


def until(cluster: Live, good: Callable[[Report], bool]) -> Report:
    """Look again until the report is as it should be, or time is up."""
    end = time.monotonic() + WITHIN_S
    while True:
        report = look(cluster)
        if good(report) or time.monotonic() > end:
            return report
        time.sleep(1)


def ids(report: Report) -> list[str]:
    return [finding.failure.id for finding in report.findings]


def test_a_healthy_cluster_has_nothing(cluster: Live) -> None:
    report = until(cluster, lambda r: r.healthy)
    assert ids(report) == [], [f.as_dict() for f in report.findings]


@pytest.mark.parametrize("one", INJECTIONS, ids=lambda i: f"{i.id}: {i.name}")
def test_an_injected_failure_is_named_first(one: Injection, cluster: Live) -> None:
    try:
        for node, script in one.do.items():
            done = cluster.run(node, script)
            assert done.ok, done.tail
        report = until(cluster, lambda r: ids(r)[:1] == [one.id])
    finally:
        undone = [cluster.run(node, script, timeout=120) for node, script in one.undo.items()]
        after = until(cluster, lambda r: r.healthy)
    assert all(result.ok for result in undone), [result.tail for result in undone]
    assert ids(report)[:1] == [one.id], [f.as_dict() for f in report.findings]
    first = report.findings[0]
    assert first.evidence
    assert first.failure.fix
    assert set(one.nodes) <= set(first.nodes)
    assert set(ids(report)) <= {one.id} | one.also, [f.as_dict() for f in report.findings]
    assert after.healthy, [f.as_dict() for f in after.findings]
