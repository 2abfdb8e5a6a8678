"""Limits that hold back a proof's jobs: by an own user where that is possible, else named."""

from __future__ import annotations

import asyncio

import pytest

from corral.hosts.fleet import Fleet
from corral.hosts.transport import Result
from corral.prove.context import ProveContext, failed, passed
from corral.prove.limits import by_limit, held_back, limit_of
from corral.roles.people import own_proof_user
from corral.spec.models import ClusterSpec, Slurm
from corral.spec.people import Account, Limits, Qos, User
from corral.spec.proof import ScheduledProof
from tests.fakes import Answer, Recorded
from tests.unit.roles.test_cluster import laptop


class Says(Recorded):
    """A controller whose every answer is this."""

    async def run(self, script: object, **more: object) -> object:  # type: ignore[override]
        self.calls.append((str(script), b""))
        answer = next(iter(self.table[""].values()))
        assert isinstance(answer, Answer)
        return Result(self.node, answer.status, answer.stdout, answer.stderr)


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
        "a limit holds back the jobs of alice: its account's share is used up (AssocGrpGRES); "
        "node1 did not run its share"
    )
    assert "sacctmgr show assoc where user=alice" in judged.hint
    assert by_limit(failed("x"), "", "alice") == failed("x")
    assert by_limit(passed("x"), "AssocGrpGRES", "alice") == passed("x")


@pytest.mark.parametrize(("answer", "reason"), [("AssocGrpGRES\n", "AssocGrpGRES"), ("None", "")])
def test_the_reason_is_asked_of_accounting(answer: str, reason: str) -> None:
    node = Says.of("node0", {"": Answer(answer)})
    ctx = ProveContext(laptop(), Fleet({"node0": node}), "node0", "corral-proof", {}, "77")
    assert asyncio.run(held_back(ctx, "-launch")) == reason
    assert "--name=corral-prove-77-launch" in node.calls[0][0]
    assert "-u corral-proof" in node.calls[0][0]


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
        (laptop(users=(PLAIN,)), False),
        (laptop(users=(LIMITED,), slurm=Slurm(accounting=False)), False),
        (laptop(), False),
    ],
)
def test_where_the_proof_has_its_own_user(spec: ClusterSpec, own: bool) -> None:
    assert own_proof_user(spec) is own
