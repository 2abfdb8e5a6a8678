"""What of RDMA works without adapters: the inbox stack's libraries, and each group's NCCL."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.embedded.conftest import Live

from corral import api
from corral.api.workload.queue import RankLine
from corral.hosts.quote import sh
from corral.roles.machine.fabric import INBOX
from corral.spec.models import ClusterSpec, DataNetwork

pytestmark = pytest.mark.slow

NODES = ("node0", "node1", "node2")


def test_the_inbox_stack_is_what_nccl_opens(cluster: Live) -> None:
    network = cluster.spec.network.model_copy(update={"data": DataNetwork(fabric="infiniband")})
    spec = cluster.spec.model_copy(update={"network": network})
    try:
        assert asyncio.run(api.up(spec))
        assert asyncio.run(api.plan(spec)).empty
        probe = sh(
            "dpkg-query -W -f '${{db:Status-Status}}\\n' {names} | grep -c ^installed; "
            "python3 -c 'import ctypes; ctypes.CDLL(\"libibverbs.so.1\").ibv_get_device_list'",
            names=INBOX,
        )
        for node in NODES:
            answer = cluster.run(node, probe)
            assert answer.ok, answer.tail
            assert answer.stdout.split() == [str(len(INBOX))]
    finally:
        asyncio.run(api.up(cluster.spec))
    assert asyncio.run(api.plan(cluster.spec)).empty


def test_a_groups_own_settings_reach_its_ranks(cluster: Live, tmp_path: Path) -> None:
    (tmp_path / "show.sh").write_text('#!/bin/sh\necho "tc=$NCCL_IB_TC debug=$NCCL_DEBUG"\n')
    fields = {"script": str(tmp_path / "show.sh"), "folder": "none", "nodes": 3}

    def ranks(spec: ClusterSpec, **more: object) -> set[str]:
        lines: list[RankLine] = []
        job = api.job_spec({**fields, **more})
        outcome = asyncio.run(api.run(spec, job, on_line=lines.append))
        assert outcome.good, lines
        return {line.text for line in lines if line.text.startswith("tc=")}

    own = ("NCCL_IB_TC=106", "NCCL_DEBUG=WARN")
    group = cluster.spec.groups[0].model_copy(update={"nccl": own})
    spec = cluster.spec.model_copy(update={"groups": (group, *cluster.spec.groups[1:])})
    assert ranks(spec) == {"tc=106 debug=WARN"}
    assert ranks(spec, env={"NCCL_IB_TC": "7"}) == {"tc=7 debug=WARN"}, "a job's own value wins"
    assert ranks(cluster.spec) == {"tc= debug="}
