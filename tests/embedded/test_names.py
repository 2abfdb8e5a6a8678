"""Names that Slurm accepts, and hostname(1), systemd and DNS do not: capitals and "_"."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Iterator

import pytest
from tests.embedded.conftest import Live, bringing_up, named

from corral import api
from corral.api.operations.overview import Trouble
from corral.hosts.quote import sh
from corral.spec.models import NodeGroup, Partition, Storage

pytestmark = [pytest.mark.embedded, pytest.mark.slow]
HEAD, NODE = "Head_Node", "Node_A1"


@pytest.fixture(scope="module")
def odd() -> Iterator[Live]:
    groups = (
        NodeGroup(name="head", provider="embedded", nodes=HEAD),
        NodeGroup(name="work", provider="embedded", nodes="Node_A[1-2]"),
    )
    partitions = (Partition(name="Main_Q", groups=("work",), default=True),)
    storage = (Storage(mount="/shared", kind="provider"),)
    with bringing_up() as bring_up:
        yield bring_up(
            named(
                "test-names", controller=HEAD, groups=groups, partitions=partitions, storage=storage
            )
        )


def healthy(live: Live, within: float) -> tuple[Trouble, ...]:
    """What is not good when it should be again."""
    end = time.monotonic() + within
    while True:
        seen = asyncio.run(api.status(live.spec))
        if seen.good or time.monotonic() > end:
            return seen.troubles
        time.sleep(1)


def test_a_cluster_of_such_names_runs_jobs_and_plans_nothing(odd: Live) -> None:
    assert not healthy(odd, 30)
    for node in (HEAD, NODE):
        answer = odd.run(node, sh("uname -n; getent hosts {node} | awk '{{print $2}}'", node=node))
        assert answer.stdout.split() == [node, node]
    ran = odd.run(HEAD, sh("srun -p Main_Q -N2 sh -c 'echo $SLURMD_NODENAME $(uname -n)' | sort"))
    assert ran.stdout.split() == [NODE, NODE, "Node_A2", "Node_A2"], ran.tail
    plan = asyncio.run(api.plan(odd.spec))
    assert plan.empty, plan


def test_such_a_name_is_there_after_a_boot(odd: Live) -> None:
    name = f"corral-{odd.spec.name}-{NODE}"
    subprocess.run(["podman", "restart", "-t", "10", name], check=True, timeout=60)
    asyncio.run(api.up(odd.spec))
    assert odd.run(NODE, sh("uname -n")).stdout.strip() == NODE
    assert not healthy(odd, 90)
