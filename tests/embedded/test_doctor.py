"""The doctor on a real cluster: silent on a healthy one, and right about each injected failure."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from tests.embedded.conftest import named
from tests.embedded.doctor_injections import INJECTIONS, MUNGE_INJECTIONS, Injection

from corral import api
from corral.doctor.model import Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.embedded.conftest import Live

    from corral.spec.models import ClusterSpec

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


def here(cluster: Live, shell: str) -> None:
    """Run shell on this machine."""
    if shell:
        env = {**os.environ, "C": cluster.spec.name}
        subprocess.run(["sh", "-c", shell], check=True, env=env, timeout=60)


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Rows of what was injected and what was found, shown at the end."""
    rows: list[str] = []
    yield rows
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    head = "| injected | | found | named first | others |\n|---|---|---|---|---|\n"
    reporter.write_line("\n" + head + "\n".join(rows))


def row(one: Injection, report: Report) -> str:
    """One row: others are true consequences, and false alarms where ``also`` has them not."""
    found = ids(report)
    others = [i + ("" if i in one.also else " (false)") for i in found if i != one.id]
    place = "yes" if found[:1] == [one.id] else "no"
    seen = "yes" if one.id in found else "no"
    return f"| {one.id} | {one.name} | {seen} | {place} | {', '.join(others)} |"


@pytest.fixture(scope="module")
def munge_cluster(fresh_cluster: Callable[[ClusterSpec], Live]) -> Live:
    """A cluster with munge; CORRAL_TEST_MUNGE=NAME uses one that stands."""
    standing = os.environ.get("CORRAL_TEST_MUNGE", "")
    if standing:
        return Live(api.spec_of(standing), {})
    slurm = named("x").slurm.model_copy(update={"auth": "munge"})
    return fresh_cluster(named(f"munge-{os.getpid()}", slurm=slurm))


@pytest.mark.parametrize("one", INJECTIONS, ids=lambda i: f"{i.id}: {i.name}")
def test_an_injected_failure_is_named_first(
    one: Injection, cluster: Live, table: list[str]
) -> None:
    injected(one, cluster, table)


@pytest.mark.parametrize("one", MUNGE_INJECTIONS, ids=lambda i: f"{i.id}: {i.name}")
def test_an_injected_failure_of_munge_is_named_first(
    one: Injection, munge_cluster: Live, table: list[str]
) -> None:
    injected(one, munge_cluster, table)


def injected(one: Injection, cluster: Live, table: list[str]) -> None:
    """Break it, look, mend it, look again."""
    try:
        here(cluster, one.host)
        for node, script in one.do.items():
            done = cluster.run(node, script)
            assert done.ok, done.tail
        report = until(cluster, lambda r: ids(r)[:1] == [one.id])
        table.append(row(one, report))
    finally:
        here(cluster, one.host_undo)
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
