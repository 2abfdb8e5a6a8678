from __future__ import annotations

import pytest

from corral.api.costs import IDLE, JobUse, judge, read_jobs, what_then
from corral.providers.cloud.budget import Spend
from corral.providers.cloud.ledger import Rental
from corral.spec.cloud import Budget, Cloud
from corral.spec.models import ClusterSpec, NodeGroup

SACCT = """\
7|alice|train|gpu[0-1]|2026-11-22T10:00:00|2026-11-22T11:00:00|8|2|billing=8,cpu=8,gres/gpu=2,node=2
8|bob|wait|None assigned|Unknown|Unknown|1|1|
9|bob|now|gpu0|2026-11-22T11:00:00|Unknown|2|1|cpu=2
broken line
"""


def rental(node: str, hours: float, price: float = 2.0, gpus: int = 2) -> Rental:
    return Rental("lambda", node, node, "t", "r", price, 0.0, "i", hours * 3600, gpus=gpus)


def test_jobs_are_read_and_waiting_ones_left_out() -> None:
    jobs = read_jobs(SACCT)
    assert [(j.job, j.user, j.nodes, j.cpus, j.gpus) for j in jobs] == [
        (7, "alice", ("gpu0", "gpu1"), 4.0, 1.0),
        (9, "bob", ("gpu0",), 2.0, 0.0),
    ]
    assert jobs[0].end is not None and jobs[0].end - jobs[0].start == 3600
    assert jobs[1].end is None


def test_a_job_pays_its_part_and_the_rest_is_idle() -> None:
    use = JobUse(7, "alice", "train", ("gpu0", "home"), 0.0, 1800.0, 1, 1)
    bill = judge("lab", [rental("gpu0", 1)], [use], {"gpu0": 8}, 9e9, limits=(None, None))
    # Half an hour, one of two GPUs (1 of 8 CPUs is less), 2 $/h: 0.50 $ of 2 $.
    assert {line.name: round(line.dollars, 2) for line in bill.users} == {IDLE: 1.5, "alice": 0.5}
    assert bill.now.total == pytest.approx(2.0)
    assert sum(line.dollars for line in bill.users) == pytest.approx(bill.now.total)


def test_same_node_name_rented_twice() -> None:
    first = rental("gpu0", 1)
    again = Rental("runpod", "gpu0", "x", "t", "r", 4.0, 7200.0, "j", None, gpus=2)
    use = JobUse(9, "bob", "b", ("gpu0",), 0.0, None, 8, 2)
    bill = judge("lab", [first, again], [use], {"gpu0": 8}, 10800.0, limits=(None, None))
    assert [(x.name, x.dollars) for x in bill.providers] == [("runpod", 4.0), ("lambda", 2.0)]
    assert bill.jobs[0].dollars == pytest.approx(6.0)
    assert bill.now.per_hour == 4.0


def test_what_ends_when_the_budget_is_spent() -> None:
    spec = ClusterSpec(
        corral="v1",
        name="lab",
        groups=(
            NodeGroup(name="home", provider="ssh", nodes="desk", addresses="10.0.0.1"),
            NodeGroup(name="gpu", provider="lambda", nodes="gpu[0-1]", cloud=Cloud(type="gpu_1x")),
        ),
    )

    def told(now: Spend, nodes: tuple[str, ...] = ("gpu1", "gpu0"), **budget: object) -> str:
        limits = Budget.model_validate({"total": 10, **budget})
        return what_then(spec.model_copy(update={"budget": limits}), now, nodes)

    assert told(Spend(2.0, 5.0)) == (
        "at this rate the budget is spent in 2.5 h: nothing ends gpu[0-1] then "
        "(budget.guard is off)"
    )
    assert told(Spend(2.0, 11.0), guard="5m") == (
        "the budget is spent: the guard on desk drains gpu[0-1] then, gives jobs 10m to save, and "
        "ends the machines"
    )
    assert told(Spend(0.0, 5.0), ()) == ""
    assert what_then(spec, Spend(2.0, 5.0), ("gpu0",)) == ""
