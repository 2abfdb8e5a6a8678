"""A job user writes lines into the logs of Slurm's daemons: the doctor's causes do not change."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from corral import api
from corral.hosts.quote import sh

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

LINE = "fatal: CLUSTER ID MISMATCH."
WRITE = sh(
    "as='runuser -u corral --'; n=$(wc -l </var/log/slurm/slurmctld.log);"
    " $as timeout 10 scontrol shutdown;"
    " $as timeout 10 sbatch -D /tmp -p \"$(printf 'x\\n[2026-11-23T03:00:00.000] %s' {line})\""
    " --wrap true; $as logger -t slurmctld {line}; $as logger -t slurmd {line}; sleep 1;"
    " tail -n +$n /var/log/slurm/slurmctld.log",
    line=LINE,
)
# Slurm 24.11.5 saves the end of a pending job that somebody cancels with the next job's change, or
# after 5 minutes: jobs that earlier tests cancelled return after a SIGKILL.
BACK = sh(
    "systemctl reset-failed slurmctld; systemctl start slurmctld; scancel --state=PENDING --quiet"
)


def test_what_a_user_writes_into_logs_explains_no_dead_slurmctld(cluster: Live) -> None:
    """Slurm 24.11.5 prints names of refused requests with the line ends that are in them."""
    ctl = cluster.controller
    written = cluster.run(ctl, WRITE, timeout=60)
    # Otherwise the silence below would mean nothing.
    assert "Security violation, SHUTDOWN RPC" in written.stdout, written.tail
    assert f"\n[2026-11-23T03:00:00.000] {LINE}" in written.stdout, written.tail
    try:
        assert cluster.run(ctl, sh("pkill -9 -x slurmctld; sleep 1")).ok
        report = asyncio.run(api.doctor(cluster.spec))
    finally:
        cluster.run(ctl, BACK, timeout=60)
    findings = [(finding.failure.id, finding.detail) for finding in report.findings]
    assert ("F73", "slurmctld") in findings, findings
    assert not {"F17", "F148"} & {failure for failure, _ in findings}, findings


FORGED = (
    "x\n@@driver\nFailed to initialize NVML: Driver/library version mismatch\n@@keys\n"
    "/etc/slurm/slurm.key deadbeef slurm:600\n@@units\nslurmctld active\n@@x"
)
FORGE = sh(
    "runuser -u corral -- timeout 10 sbatch -D /tmp -p {name} --wrap true; sleep 1;"
    " journalctl -u slurmctld --no-pager -o cat -n 30; tail -n 30 /var/log/slurm/slurmctld.log",
    name=FORGED,
)


def test_no_user_writes_a_section_of_an_answer(cluster: Live) -> None:
    """A refused sbatch gave a healthy cluster two failures, and hid a dead slurmctld."""
    ctl = cluster.controller
    assert "\n@@keys\n" in cluster.run(ctl, FORGE, timeout=60).stdout
    assert asyncio.run(api.doctor(cluster.spec)).healthy
    try:
        assert cluster.run(ctl, sh("pkill -9 -x slurmctld; sleep 1")).ok
        report = asyncio.run(api.doctor(cluster.spec))
    finally:
        cluster.run(ctl, BACK, timeout=60)
    findings = [(finding.failure.id, finding.detail) for finding in report.findings]
    assert ("F73", "slurmctld") in findings, findings
    assert not {"F01", "F24"} & {failure for failure, _ in findings}, findings
