"""Complete proofs replayed from what real nodes answered: healthy ones, and one for every break.

The listing of ``recorded/`` is the matrix: one folder per Slurm version, one file per break.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from corral.errors import Code, CorralError
from corral.hosts.fleet import Fleet
from corral.inspect.facts import Facts
from corral.prove.catalog import CHECKS
from corral.prove.context import ProveContext
from corral.prove.model import CheckResult, Proof, Verdict
from corral.prove.runner import prove
from corral.spec.models import ClusterSpec
from tests.embedded.prove_breaks import BREAKS, ELSEWHERE, Break
from tests.embedded.prove_record import Case, Replayed, Unreachable, file_name, replayed

RECORDED = Path(__file__).parent / "recorded"
NEWER = {"multinode.mpi", "smoke.reached"}
"""Checks that came after these proofs were recorded."""
VERSIONS = sorted(path.name for path in RECORDED.iterdir())
NODES = ("node0", "node1", "node2")
# examples/laptop.yaml as it was when the proofs were recorded
SPEC = ClusterSpec.model_validate(
    {
        "corral": "v1",
        "name": "lab",
        "groups": [
            {
                "name": "cpu",
                "provider": "embedded",
                "nodes": "node[0-2]",
                "gpu": {"type": "slot", "count": 2},
            }
        ],
        "storage": [{"mount": "/shared", "kind": "provider"}],
        "health": {"every": "off"},
    }
)


def facts(node: str) -> Facts:
    return Facts(node, "debian", "13", "6.18", 2, 1, 2, 1, 24105, "hybrid", True, "")


def proved(
    fleet: Fleet, token: str = "", left: frozenset[str] = frozenset(NEWER)
) -> dict[str, CheckResult]:
    async def run() -> Proof:
        known = {node: facts(node) for node in NODES}
        ctx = ProveContext(SPEC, fleet, "node0", "corral", known, token or "x")
        checks = [check for check in CHECKS if check.id not in left]
        return await prove(ctx, checks, lambda _: None, at=1.0)

    return {result.check: result for result in asyncio.run(run()).results}


def replay(version: str, name: str) -> dict[str, CheckResult]:
    case = Case.read(RECORDED / version / name)
    return proved(replayed(case, NODES), case.token)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_healthy_cluster_passes(version: str) -> None:
    seen = replay(version, "healthy.json")
    bad = {r.check: r.summary for r in seen.values() if r.verdict is not Verdict.PASS}
    assert set(bad) == set(ELSEWHERE) - NEWER, bad


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("fault", BREAKS, ids=lambda b: f"{b.check}: {b.name}")
def test_a_break_fails_its_check(fault: Break, version: str) -> None:
    seen = replay(version, file_name(fault.check, fault.name))
    target = seen[fault.check]
    assert target.verdict is Verdict.FAIL, target.summary
    assert fault.summary in target.summary
    failed = {r.check: r.summary for r in seen.values() if r.verdict is Verdict.FAIL}
    assert set(failed) <= {fault.check} | fault.implies, failed


@pytest.mark.parametrize("version", VERSIONS)
def test_recordings_hold_no_secret(version: str) -> None:
    for path in (RECORDED / version).iterdir():
        assert "eyJ" not in path.read_text(), path.name  # how every JWT begins


def test_a_node_out_of_reach_fails_and_does_not_end_the_proof() -> None:
    case = Case.read(RECORDED / VERSIONS[-1] / "healthy.json")
    error = CorralError(Code.UNREACHABLE, "no route to host", node="node2", hint="look at it")
    nodes = {n: Replayed(n, case.answers[n]) for n in ("node0", "node1")}
    fleet = Fleet({**nodes, "node2": Unreachable("node2", error)})
    seen = proved(fleet, case.token, frozenset({"multinode.mpi"}))
    failed = {r.check: r.summary for r in seen.values() if r.verdict is Verdict.FAIL}
    assert failed == {"smoke.reached": "node2 cannot be reached (no route to host)"}
    assert "node2 cannot be reached" in seen["storage.shared"].summary  # skipped, with the cause
    passed = {r.check for r in seen.values() if r.verdict is Verdict.PASS}
    assert passed == {"smoke.nodes", "rest.answers", "rest.refuses", "rest.loopback"}


def test_a_controller_out_of_reach_fails_every_check() -> None:
    error = CorralError(Code.UNREACHABLE, "no route to host")
    case = Case.read(RECORDED / VERSIONS[-1] / "healthy.json")
    nodes = {n: Replayed(n, case.answers[n]) for n in ("node1", "node2")}
    seen = proved(Fleet({"node0": Unreachable("node0", error), **nodes}), case.token)
    assert {r.verdict for r in seen.values()} == {Verdict.FAIL, Verdict.SKIP}


@pytest.mark.parametrize("version", VERSIONS)
def test_garbage_from_the_nodes_never_passes(version: str) -> None:
    case = Case.read(RECORDED / version / "healthy.json")
    for kinds in case.answers.values():
        for kind in kinds:
            kinds[kind] = (0, "\x00 | @ @@ = 137 active RUNNING\n", "")
    seen = proved(replayed(case, NODES), case.token)
    seen |= proved(replayed(case, NODES), case.token, frozenset({"multinode.mpi"}))
    passed = {r.check for r in seen.values() if r.verdict is Verdict.PASS}
    assert passed == set(), json.dumps({k: seen[k].summary for k in passed})
