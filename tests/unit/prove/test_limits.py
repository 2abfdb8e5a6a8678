"""Limits that hold back a proof's jobs: avoided by a separate user where possible, else named."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from corral.hosts.fleet import Fleet
from corral.hosts.quote import sh
from corral.prove.context import ProveContext, failed, passed
from corral.prove.launch import (
    by_limit,
    held_back,
    limit_of,
    watched,
)
from corral.roles.machine.people import own_proof_user
from corral.spec.models import ClusterSpec, Slurm
from corral.spec.sections.people import Account, Limits, Qos, User
from corral.spec.sections.services import ScheduledProof
from tests.unit.roles.test_cluster import laptop


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("AssocGrpGRES", "AssocGrpGRES"),
        ("0 of 4 jobs ran at once on node0 (AssocMaxJobsLimit)", "AssocMaxJobsLimit"),
        ("(QOSMaxGRESPerUser)", "QOSMaxGRESPerUser"),
        ("None\nQOSGrpGRES\n", "QOSGrpGRES"),
        ("AccountingPolicy", "AccountingPolicy"),
        ("Resources", ""),
        ("srun: error: Unable to allocate resources: Requested nodes are busy", ""),
        ("Association with node1", ""),
        ("", ""),
    ],
)
def test_which_words_are_limits(text: str, word: str) -> None:
    assert limit_of(text) == word


def test_a_failure_by_a_limit_names_it() -> None:
    judged = by_limit(failed("node1 did not run its share"), "AssocGrpGRES", "alice")
    assert judged.summary == (
        "a limit holds back the jobs of alice: a limit on the running jobs of its user or account "
        "together is reached (AssocGrpGRES); "
        "node1 did not run its share"
    )
    assert "sacctmgr show assoc where user=alice" in judged.hint
    assert by_limit(failed("x"), "", "alice") == failed("x")
    assert by_limit(passed("x"), "AssocGrpGRES", "alice") == passed("x")


@pytest.mark.parametrize(
    ("queue", "reason", "status"),
    [("echo AssocGrpGRES", "AssocGrpGRES", 1), ("echo Resources", "", 1), (":", "", 0)],
)
def test_the_reason_is_seen_while_the_job_waits(
    tmp_path: Path, queue: str, reason: str, status: int
) -> None:
    (tmp_path / "squeue").write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/asked\n{queue}\n')
    (tmp_path / "sleep").write_text("#!/bin/sh\nexec /usr/bin/sleep 0.05\n")
    for name in ("squeue", "sleep"):
        (tmp_path / name).chmod(0o755)
    ctx = ProveContext(laptop(), Fleet({}), "node0", "corral-proof", {}, "77")
    job = sh("/usr/bin/sleep 1; echo {text}; sh -c {end}", text="@ hello", end=f"exit {status}")
    end = subprocess.run(
        ["/bin/sh", "-c", watched(ctx, job, "-launch")],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (held_back(end.stdout), end.returncode) == (reason, status)
    assert "@ hello" in end.stdout
    asked = (tmp_path / "asked").read_text()
    assert "-u corral-proof -n corral-prove-77-launch" in asked


LIMITED = User(name="alice", uid=2001, limits=Limits(gpus=0))
PLAIN = User(name="alice", uid=2001)


@pytest.mark.parametrize(
    ("spec", "own"),
    [
        (laptop(users=(LIMITED,)), True),
        (laptop(users=(PLAIN, LIMITED)), True),
        (laptop(users=(PLAIN,), qos=(Qos(name="low"),)), True),
        (laptop(accounts=(Account(name="a", limits=Limits(gpus=1)),)), True),
        (laptop(proof=ScheduledProof(every="1d")), True),
        (laptop(users=(PLAIN,)), True),
        (laptop(users=(LIMITED,), slurm=Slurm(accounting=False)), False),
        (laptop(), True),
        (laptop(slurm=Slurm(accounting=False)), False),
    ],
)
def test_where_the_proof_has_its_own_user(spec: ClusterSpec, own: bool) -> None:
    assert own_proof_user(spec) is own
