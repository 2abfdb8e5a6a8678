"""Going on without nodes that do not answer or where a change fails, on a real cluster."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.embedded.conftest import Live

from corral import api
from corral.apply.left_out import LeftOut
from corral.apply.observation import NAME
from corral.errors import Code, CorralError
from corral.hosts.quote import sh
from corral.plan.model import Plan
from corral.spec.models import ClusterSpec
from corral.state_dir import cluster_dir

DRIFT = sh("chmod 777 /var/spool/slurmd")
MODE = sh("stat -c %a /var/spool/slurmd")


@contextmanager
def silent(spec: ClusterSpec, node: str) -> Iterator[None]:
    """The node's sshd is gone, and with it all connections that are open."""

    def inside(script: str) -> None:
        name = f"corral-{spec.name}-{node}"
        subprocess.run(["podman", "exec", name, "sh", "-c", script], check=True, timeout=60)

    inside("systemctl stop ssh.socket ssh.service 2>/dev/null; pkill -KILL sshd; true")
    try:
        yield
    finally:
        inside("systemctl start ssh.service")


@contextmanager
def broken(cluster: Live, node: str, program: str) -> Iterator[None]:
    """The program fails on the node."""
    path = f"/usr/local/sbin/{program}"
    fake = sh(
        "printf '#!/bin/sh\\necho out of order >&2\\nexit 9\\n' > {p}; /bin/chmod 755 {p}", p=path
    )
    assert cluster.run(node, fake).ok
    try:
        yield
    finally:
        cluster.run(node, sh("rm {p}", p=path))


def nodes_of(plan: Plan) -> set[str]:
    return {node for s in plan.stages for c in s.changes for node in c.nodes}


def test_a_silent_node_is_left_as_it_is_and_done_later(cluster: Live) -> None:
    spec = cluster.spec
    for node in ("node1", "node2"):
        assert cluster.run(node, DRIFT).ok
    with silent(spec, "node2"):
        with pytest.raises(CorralError) as caught:
            asyncio.run(api.plan(spec))
        assert caught.value.node == "node2"
        assert "--keep-going" in caught.value.hint
        plan = asyncio.run(api.plan(spec, keep_going=True))
        assert list(plan.unreachable) == ["node2"]
        assert nodes_of(plan) == {"node1"}
        left_out = LeftOut(spec)
        assert asyncio.run(api.up(spec, left_out=left_out))
        assert list(left_out.reasons) == ["node2"]
        assert cluster.run("node1", MODE).stdout.strip() == "755"
        assert asyncio.run(api.plan(spec, keep_going=True)).empty
    plan = asyncio.run(api.plan(spec))
    assert nodes_of(plan) == {"node2"}
    assert asyncio.run(api.up(spec))
    assert cluster.run("node2", MODE).stdout.strip() == "755"


def test_a_plan_that_leaves_a_node_out_is_applied_without_asking_it(cluster: Live) -> None:
    spec = cluster.spec
    assert cluster.run("node1", DRIFT).ok
    with silent(spec, "node2"):
        plan = Plan.from_dict(json.loads(json.dumps(_plan(spec).as_dict())))
        asyncio.run(api.apply(spec, plan))
    assert cluster.run("node1", MODE).stdout.strip() == "755"
    assert asyncio.run(api.plan(spec)).empty


def _plan(spec: ClusterSpec) -> Plan:
    plan = asyncio.run(api.plan(spec, keep_going=True))
    assert list(plan.unreachable) == ["node2"]
    return plan


def test_a_node_that_never_answered_is_declared_like_its_group(cluster: Live) -> None:
    spec = cluster.spec
    file = cluster_dir(spec.name) / NAME
    facts = json.loads(file.read_text())
    with silent(spec, "node2"):
        file.write_text(json.dumps({n: f for n, f in facts.items() if n != "node2"}))
        plan = _plan(spec)
        assert plan.empty, "node2 has its line in slurm.conf as before"
        assert set(json.loads(file.read_text())) == {"node0", "node1"}, (
            "what is guessed is not kept"
        )


def test_a_node_where_a_change_fails_is_left_out(cluster: Live) -> None:
    spec = cluster.spec
    for node in ("node1", "node2"):
        assert cluster.run(node, DRIFT).ok
    assert cluster.run("node0", sh("echo 192.0.2.1 node1 >> /etc/hosts")).ok
    left_out = LeftOut(spec)
    with broken(cluster, "node2", "chmod"):
        assert asyncio.run(api.up(spec, left_out=left_out))
    assert left_out.errors["node2"].code is Code.COMMAND_FAILED
    assert "out of order" in left_out.errors["node2"].tail
    assert cluster.run("node1", MODE).stdout.strip() == "755"
    assert nodes_of(asyncio.run(api.plan(spec))) == {"node2"}
    assert asyncio.run(api.up(spec))
    assert asyncio.run(api.plan(spec)).empty


def test_no_run_goes_on_without_the_controller(cluster: Live) -> None:
    with silent(cluster.spec, "node0"), pytest.raises(CorralError) as caught:
        asyncio.run(api.up(cluster.spec, left_out=LeftOut(cluster.spec)))
    assert caught.value.node == "node0"
    assert "--keep-going" not in caught.value.hint


def test_the_others_are_proven_and_what_is_not_covered_is_named(cluster: Live) -> None:
    with silent(cluster.spec, "node2"):
        proof = asyncio.run(api.prove(cluster.spec, without=("node2",)))
    assert proof.good, [(r.check, r.summary) for r in proof.results if r.verdict.value == "fail"]
    assert not proof.proven
    assert "node2 left out" in proof.uncovered
    for asked, sentence in (("nobody", "no node called nobody"), ("node0", "runs slurmctld")):
        with pytest.raises(CorralError, match=sentence):
            asyncio.run(api.prove(cluster.spec, without=(asked,)))
