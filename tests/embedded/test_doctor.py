"""The doctor on a real cluster: silent on a healthy one, and right about each injected failure."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
import warnings
from typing import TYPE_CHECKING

import pytest
from tests.embedded.conftest import Live, forget_outages, named
from tests.embedded.doctor_injections import INJECTIONS, MUNGE_INJECTIONS
from tests.embedded.doctor_injections_machine import MACHINE_INJECTIONS
from tests.embedded.doctor_injections_more import MORE_INJECTIONS
from tests.embedded.prove_breaks import RECONFIGURE

from corral import api
from corral.doctor.model import Report
from corral.hosts.quote import sh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.embedded.injection import Injection

    from corral.spec.models import ClusterSpec

WITHIN_S = 90.0
"""Seconds a failure may take until Slurm shows it, and until a fixed cluster is healthy again."""


def report_of(cluster: Live) -> Report:
    return asyncio.run(api.doctor(cluster.spec))


def until(cluster: Live, good: Callable[[Report], bool]) -> Report:
    """Look again until the report is as it should be, or time is up."""
    end = time.monotonic() + WITHIN_S
    while True:
        report = report_of(cluster)
        if good(report) or time.monotonic() > end:
            return report
        time.sleep(0.3)


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
    """Rows of what was injected and what was found, shown at the end with their sums."""
    rows: list[str] = []
    yield rows
    head = "| failure | injected | found | named first | also true | false alarms |"
    cells = [[c.strip() for c in row.strip("|").split("|")] for row in rows]
    detected, first = (sum(c[i] == "yes" for c in cells) for i in (2, 3))
    false = sum(len(c[5].split(",")) for c in cells if c[5] != "none")
    sums = f"{len(rows)} injected, {detected} found, {first} named first, {false} false alarms"
    with request.config.pluginmanager.get_plugin("capturemanager").global_and_fixture_disabled():
        # A worker of pytest-xdist has no terminal but this machine's.
        print("", head, "|---" * 6 + "|", *rows, "", sums, sep="\n", file=sys.stderr, flush=True)


def row(injection: Injection, report: Report) -> str:
    """One row: others are true consequences, and false alarms where ``also`` has them not."""
    failures = ids(report)
    true = ", ".join(i for i in failures if i != injection.id and i in injection.also) or "none"
    false = (
        ", ".join(i for i in failures if i != injection.id and i not in injection.also) or "none"
    )
    place = "yes" if failures[:1] == [injection.id] else "no"
    seen = "yes" if injection.id in failures else "no"
    return f"| {injection.id} | {injection.name} | {seen} | {place} | {true} | {false} |"


@pytest.fixture(scope="module")
def munge_cluster(fresh_cluster: Callable[[ClusterSpec], Live]) -> Live:
    """A cluster with munge; CORRAL_TEST_MUNGE=NAME uses an existing one."""
    existing = os.environ.get("CORRAL_TEST_MUNGE", "")
    if existing:
        return Live(api.spec_of(existing), {})
    slurm = named("x").slurm.model_copy(update={"auth": "munge"})
    return fresh_cluster(named(f"munge-{os.getpid()}", slurm=slurm))


@pytest.mark.parametrize(
    "injection", INJECTIONS + MORE_INJECTIONS, ids=lambda i: f"{i.id}: {i.name}"
)
def test_an_injected_failure_is_named_first(
    injection: Injection, cluster: Live, table: list[str]
) -> None:
    injected(injection, cluster, table)


@pytest.mark.parametrize("injection", MACHINE_INJECTIONS, ids=lambda i: f"{i.id}: {i.name}")
def test_an_injected_failure_of_the_machine_is_named_first(
    injection: Injection, cluster: Live, table: list[str]
) -> None:
    injected(injection, cluster, table)


@pytest.mark.parametrize("injection", MUNGE_INJECTIONS, ids=lambda i: f"{i.id}: {i.name}")
def test_an_injected_failure_of_munge_is_named_first(
    injection: Injection, munge_cluster: Live, table: list[str]
) -> None:
    injected(injection, munge_cluster, table)


def injected(injection: Injection, cluster: Live, table: list[str]) -> None:
    """Break it, diagnose it, fix it, diagnose it again."""
    forget_outages(cluster)
    try:
        here(cluster, injection.host)
        for done in cluster.each(injection.do.items()) if injection.do else ():
            assert done.ok, done.tail
        report = until(cluster, lambda r: ids(r)[:1] == [injection.id])
        table.append(row(injection, report))
    finally:
        here(cluster, injection.host_undo)
        undone = cluster.each(injection.undo.items(), timeout=120) if injection.undo else []
        after = until(cluster, lambda r: r.healthy)
        if not after.healthy:
            # Seen once, in CI: a node took neither reconfiguration of the undo and kept what the
            # doctor still named; a slurmd whose helper hangs receives none
            # (docs/guide/living.md#reconfigurations-that-hang).
            warnings.warn(f"{injection.id}, {injection.name}: reconfigured once more", stacklevel=1)
            cluster.run(cluster.controller, RECONFIGURE, timeout=60)
            after = until(cluster, lambda r: r.healthy)
    assert all(result.ok for result in undone), [result.tail for result in undone]
    assert ids(report)[:1] == [injection.id], [f.as_dict() for f in report.findings]
    first = report.findings[0]
    assert first.evidence
    assert first.failure.fix
    assert set(injection.nodes) <= set(first.nodes)
    assert set(ids(report)) <= {injection.id} | injection.also, [
        f.as_dict() for f in report.findings
    ]
    assert after.healthy, [f.as_dict() for f in after.findings]


def test_repair_starts_what_stopped_and_resumes_what_slurm_took_out(cluster: Live) -> None:
    ctl = cluster.controller
    rebooted, mine = "Node unexpectedly rebooted", "my own"
    drain = "scontrol update nodename={n} state=drain reason={r}"
    try:
        assert cluster.run("node1", sh("systemctl stop slurmd")).ok
        assert cluster.run(ctl, sh(drain, n="node0", r=rebooted)).ok
        assert cluster.run(ctl, sh(drain, n="node2", r=mine)).ok
        done = asyncio.run(api.repair(cluster.spec))
        why = asyncio.run(api.explain_drained(cluster.spec, "node2"))
    finally:
        cluster.run(ctl, sh("scontrol update nodename=node[0,2] state=resume; true"))
    assert {f.failure.id for f in done.before.findings} == {"F73", "F39"}
    assert (done.applied, done.resumed) == (True, ("node0",))
    assert done.after.healthy
    assert (why.reason, why.by, why.usable) == (mine, "root", False)
    assert until(cluster, lambda r: r.healthy).healthy


def test_why_a_job_waits(cluster: Live) -> None:
    submit = "setpriv --reuid=corral --regid=corral --init-groups sbatch --parsable -D /tmp {more}"
    ctl = cluster.controller
    held = cluster.run(ctl, sh(submit, more=["--hold", "--wrap=true"])).stdout.strip()
    large = cluster.run(ctl, sh(submit, more=["-H", "-N2", "--gres=gpu:2", "--wrap=true"]))
    numbers = [int(held), int(large.stdout)]
    try:
        first, second = (asyncio.run(api.explain_pending(cluster.spec, n)) for n in numbers)
    finally:
        cluster.run(ctl, sh("scancel {ids}", ids=[str(n) for n in numbers]))
    assert (first.reason, first.stuck, first.missing) == ("JobHeldUser", True, ())
    assert first.advice == f"scontrol release {held}"
    assert second.missing == ()


def test_little_locked_memory_counts_where_rdma_needs_it(cluster: Live) -> None:
    data = cluster.spec.network.model_validate({"data": {"fabric": "infiniband"}})
    rdma = cluster.spec.model_copy(update={"network": data})
    unit = "/run/systemd/system/slurmd.service.d/little.conf"
    limit = sh(
        "mkdir -p $(dirname {u}) && printf '%s\\n' '[Service]' LimitMEMLOCK=65536 >{u} &&"
        " systemctl daemon-reload",
        u=unit,
    )
    try:
        before = asyncio.run(api.doctor(rdma))
        assert cluster.run("node1", limit).ok
        report = asyncio.run(api.doctor(rdma))
    finally:
        cluster.run("node1", sh("rm -f {u}; systemctl daemon-reload", u=unit))
    assert "F29" not in ids(before)
    (finding,) = [f for f in report.findings if f.failure.id == "F29"]
    assert finding.nodes == ("node1",)
    assert "65536" in " ".join(finding.evidence)
    assert ids(asyncio.run(api.doctor(cluster.spec))) == []  # without RDMA nobody needs it


@pytest.mark.slow
def test_blocked_user_namespaces_count_where_containers_are_wanted(cluster: Live) -> None:
    """Refused by seccomp to all that sshd starts on node1: the machine's own setting is shared."""
    pyxis = cluster.spec.software.model_copy(update={"containers": "pyxis"})
    with_containers = Live(cluster.spec.model_copy(update={"software": pyxis}), cluster.facts)
    unit = "/run/systemd/system/ssh.service.d/fenced.conf"
    # Connections outlive a command (docs/decisions/0001); those of before are free of it.
    restart = sh(
        "systemctl daemon-reload; systemctl --no-block restart ssh;"
        " systemd-run -q --collect --on-active=1 pkill sshd-session; true"
    )
    fence = sh(
        "mkdir -p $(dirname {u}) && printf '%s\\n' '[Service]' RestrictNamespaces=~user >{u}",
        u=unit,
    )
    before = report_of(with_containers)
    try:
        assert cluster.run("node1", sh("{fence}; {restart}", fence=fence, restart=restart)).ok
        report = until(with_containers, lambda r: ids(r)[:1] == ["F20"])
        plain = report_of(cluster)
    finally:
        cluster.run("node1", sh("rm -f {u}; {restart}", u=unit, restart=restart))
    assert before.healthy
    assert ids(report) == ["F20"], [f.as_dict() for f in report.findings]
    assert report.findings[0].nodes == ("node1",)
    assert "not permitted" in " ".join(report.findings[0].evidence)
    assert plain.healthy  # without containers nobody needs it
    assert until(with_containers, lambda r: r.healthy).healthy
