"""A cluster file for other machines, rehearsed here: nodes, GPUs, partitions, users and storage."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest
from tests.embedded.conftest import EXAMPLES, Live, needs

from corral import api
from corral.hosts.quote import sh
from corral.prove.model import Verdict
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec
from corral.spec.rehearsal import rehearse


@pytest.fixture
def lab() -> Iterator[ClusterSpec]:
    reason = needs()
    if reason:
        pytest.skip(reason)
    spec = rehearse(load_or_raise(EXAMPLES / "lab-3x5090.yaml"))
    spec = spec.model_copy(update={"name": f"lab-{os.getpid()}"})
    yield spec
    asyncio.run(api.down(spec))


def test_the_lab_of_three_workstations(lab: ClusterSpec) -> None:
    assert asyncio.run(api.up(lab))
    proof = asyncio.run(api.prove(lab))
    # Skipped: what the file does not declare, and NFS, which is the provider's folder here.
    bad = [
        (r.check, r.summary) for r in proof.results if r.verdict not in (Verdict.PASS, Verdict.SKIP)
    ]
    assert bad == []
    live = Live(lab, {})
    shown = live.run("node0", sh("sinfo -h -o '%N %G %P'")).stdout
    assert "node[0-2] gpu:rtx5090:1 main*" in shown
    user = lab.users[0].name
    job = live.run(
        "node1", sh("cd / && runuser -u {u} -- srun -N3 --gres=gpu:rtx5090:1 id -un", u=user)
    )
    assert job.stdout.split() == [user] * 3, job.tail
