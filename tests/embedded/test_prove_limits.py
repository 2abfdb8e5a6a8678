"""Users with small limits do not hold back the proof; another limit is named as the cause."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from tests.embedded.conftest import named

from corral import api
from corral.hosts.quote import sh
from corral.prove.model import Proof, Verdict
from corral.roles.machine.people import PROOF
from corral.spec.sections.people import Access, Limits, User

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

    from corral.spec.models import ClusterSpec

LIMIT = sh(
    "sacctmgr -i -Q add qos small set GrpTRES=gres/gpu=1 && "
    "scontrol update partitionname=main qos=small"
)
LIFT = sh(
    "scontrol update partitionname=main qos=; sacctmgr -i -Q delete qos small;"
    " sacctmgr -i -Q modify account corral-proof set GrpTRES=gres/gpu=-1"
)
HELD = sh("sacctmgr -i -Q modify account corral-proof set GrpTRES=gres/gpu=1")


def bad(proof: Proof) -> dict[str, str]:
    return {r.check: r.summary for r in proof.results if r.verdict is Verdict.FAIL}


@pytest.mark.slow
def test_limits_of_users_and_of_others(
    fresh_cluster: Callable[[ClusterSpec], Live],
) -> None:
    users = (
        User(name="alice", uid=2001, limits=Limits(gpus=1)),
        User(name="bob", uid=2002, limits=Limits(gpus=0, jobs=1)),
    )
    spec = named("test-limits", users=users, access=Access(ssh="jobs_only"))
    cluster = fresh_cluster(spec)
    proof = asyncio.run(api.prove(spec))
    assert proof.proven, (bad(proof), proof.uncovered)
    # The first user may use no GPU at all.
    turned = spec.model_copy(update={"users": users[::-1]})
    proof = asyncio.run(api.prove(turned))
    assert proof.proven, (bad(proof), proof.uncovered)
    try:
        for script, reason in ((LIMIT, "QOSGrpGRES"), (HELD, "AssocGrpGRES")):
            done = cluster.run(cluster.controller, script)
            assert done.ok, done.tail
            proof = asyncio.run(api.prove(spec, only=("smoke", "concurrency")))
            failed = {r.check: r for r in proof.results if r.verdict is Verdict.FAIL}
            assert set(failed) == {"smoke.launch"}, bad(proof)
            assert "a limit holds back the jobs of corral-proof" in failed["smoke.launch"].summary
            assert reason in failed["smoke.launch"].summary
            assert "6818" not in failed["smoke.launch"].hint
            assert "sacctmgr" in failed["smoke.launch"].hint
            cluster.run(cluster.controller, LIFT)
    finally:
        cluster.run(cluster.controller, LIFT)
    assert asyncio.run(api.plan(spec)).empty


def test_without_limits_too_the_proof_is_no_users_work(cluster: Live) -> None:
    """Its jobs are Corral's in accounting, and no list has them unless it is asked to."""
    before = {job.id for job in asyncio.run(api.jobs(cluster.spec, ended=True, checks=True))}
    proof = asyncio.run(api.prove(cluster.spec, only=("multinode.mpi",)))
    assert proof.good, proof.results
    every = asyncio.run(api.jobs(cluster.spec, ended=True, checks=True))
    new = [job for job in every if job.id not in before]
    assert new
    assert {(job.user, job.account) for job in new} == {(PROOF, PROOF)}
    listed = {job.id for job in asyncio.run(api.jobs(cluster.spec, ended=True))}
    assert not listed & {job.id for job in new}
    show = sh("sacct -aXnP -j {jobs} -o QOS | sort -u", jobs=",".join(str(job.id) for job in new))
    assert cluster.run(cluster.controller, show).stdout.split() == [PROOF]
