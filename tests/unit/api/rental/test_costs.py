from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from corral.api.rental import costs
from corral.api.rental.costs import IDLE, JobUse, cost_of_jobs, judge, uses_of, what_then
from corral.cli.rental.cost import cost_view
from corral.inspect.jobs import past_jobs
from corral.providers.cloud.budget import Spend
from corral.providers.cloud.ledger import Rental
from corral.slurm.records import Job
from corral.spec.models import ClusterSpec, NodeGroup
from corral.spec.sections.cloud import Budget, Cloud

RECORDED = Path(__file__).parents[3] / "recorded" / "gpus"
MARK = "m5"
SACCT = """\
7|7|COMPLETED|0:0|0:0|main|alice|a|2|8|x|cpu=8,gres/gpu=2,node=2|3600|1|1795341600|1795345200|gpu[0-1]|a|b
8|8|PENDING|0:0|0:0|main|bob|a|1|1|cpu=1||0|1|Unknown|Unknown|None assigned|wait
9|9|RUNNING|0:0|0:0|main|bob|a|1|2|cpu=2|cpu=2|1|1|1795345200|Unknown|gpu0|now
10|10|FAILED|0:0|0:0|main|bob|a|1|2|cpu=2|cpu=2|1|1|2026-11-22T10:00:00|Unknown|gpu0|a time of another form
"""  # noqa: E501


def marked(text: str) -> str:
    """Lines of accounting with the mark between fields, and not in the name."""
    return "\n".join(MARK.join(line.split("|", 17)) for line in text.splitlines())


def read_jobs(text: str) -> tuple[tuple[JobUse, ...], int]:
    """Uses in accounting's answer, and how many records cannot be read."""
    listed, unread = past_jobs(MARK, 7).parse(text)
    uses, odd = uses_of(listed, uncounted=True)
    return uses, unread + odd


def rental(node: str, hours: float, price: float | None = 2.0, gpus: int | None = 2) -> Rental:
    return Rental("lambda", node, node, "t", "r", price, 0.0, "i", hours * 3600, gpus=gpus)


def rendered(shown: Sequence[RenderableType]) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(*shown)
    return capture.get()


def test_jobs_are_read_and_waiting_ones_left_out() -> None:
    jobs, unread = read_jobs(marked(SACCT))
    assert unread == 1
    assert jobs[0].name == "a|b"  # a user's word, with the separator in it
    assert [(j.job, j.user, j.nodes, j.cpus, j.gpus) for j in jobs] == [
        (7, "alice", ("gpu0", "gpu1"), 4.0, 1.0),
        (9, "bob", ("gpu0",), 2.0, 0.0),
    ]
    assert jobs[0].end is not None and jobs[0].end - jobs[0].start == 3600
    assert jobs[1].end is None


def test_a_name_bills_nobody_else() -> None:
    """A job's name may hold line ends and any character: a line in it was read as a job."""
    forged = "8|8|COMPLETED|0:0|0:0|main|bob|a|1|8|x|cpu=8|3600|1|1795341600|1795345200|gpu0|b"
    evil = SACCT.splitlines()[0].replace("a|b", "x")
    jobs, unread = read_jobs(f"{marked(evil)}\n{forged}\n")
    assert [(job.user, job.name) for job in jobs] == [("alice", f"x\n{forged}")]
    assert unread == 0


def test_a_job_pays_its_part_and_the_rest_is_idle() -> None:
    use = JobUse(7, "alice", "train", ("gpu0", "home"), 0.0, 1800.0, 1, 1)
    bill = judge("lab", [rental("gpu0", 1)], [use], {"gpu0": 8}, 9e9, limits=(None, None))
    # Half an hour, one of two GPUs (1 of 8 CPUs is less), 2 $/h: 0.50 $ of 2 $.
    assert {line.name: round(line.dollars, 2) for line in bill.users} == {IDLE: 1.5, "alice": 0.5}
    assert bill.now.total == pytest.approx(2.0)
    assert sum(line.dollars for line in bill.users) == pytest.approx(bill.now.total)


def recorded_uses(folder: Path) -> tuple[JobUse, ...]:
    """Recorded records of accounting in the form that corral cost asks for."""
    lines = [line.split("|") for line in (folder / "sacct.txt").read_text().splitlines()]
    times = ["1795341600", "1795345200", "node0"]
    text = "\n".join(
        "|".join([*w[:11], w[10], *w[12:14], *times, w[-1]]) for w in lines if w[8] == "1"
    )
    uses, unread = read_jobs(marked(text))
    assert uses and not unread
    return uses


@pytest.mark.parametrize("folder", sorted(RECORDED.glob("*/*tracked")), ids=lambda p: p.parts[-2:])
def test_gpus_that_accounting_does_not_count_are_unknown(folder: Path) -> None:
    uses = recorded_uses(folder)
    counts = {use.gpus for use in uses}
    assert (counts == {None}) == (folder.name == "untracked")
    single = [use for use in uses if use.cpus == 1][:1]
    start = single[0].start
    machine = replace(rental("node0", 0, gpus=8), intent=start, ended=start + 3600)
    bill = judge("lab", [machine], single, {"node0": 16}, 9e9, limits=(None, None))
    shown = {line.name: (line.in_dollars(), line.in_hours()) for line in bill.users}
    known = folder.name == "tracked"
    least, most = ("", "") if known else ("at least ", "at most ")
    assert shown["kim"][0].startswith(f"{least}0.")
    assert shown[IDLE][0].startswith(f"{most}1.")
    texts = rendered(cost_view(bill))
    assert ("at least" in texts) == (not known)


def test_a_machine_without_a_price_is_not_free() -> None:
    unpriced = replace(rental("gpu0", 0, None), ended=None)
    bill = judge("lab", [unpriced, rental("gpu1", 1)], [], {}, 7200.0, limits=(None, None))
    assert {line.name: line.in_dollars() for line in bill.nodes} == {"gpu0": "?", "gpu1": "2.00"}
    assert [line.in_dollars() for line in bill.providers] == ["at least 2.00"]
    assert (bill.now.rate(), bill.now.spent()) == ("?", "at least 2.00")
    assert "lab: ? $/h now, at least 2.00 $ so far" in rendered(cost_view(bill))


def test_a_part_of_a_machine_whose_gpus_or_cpus_are_unknown() -> None:
    use = JobUse(7, "alice", "train", ("gpu0",), 0.0, 3600.0, 4, 1)

    def line(machine: Rental, cpus: int) -> str:
        bill = judge("lab", [machine], [use], {"gpu0": cpus}, 9e9, limits=(None, None))
        return bill.jobs[0].in_dollars()

    assert line(rental("gpu0", 1, gpus=4), 8) == "1.00"
    assert line(rental("gpu0", 1, gpus=None), 8) == "at least 1.00"
    assert line(rental("gpu0", 1, gpus=4), 0) == "at least 0.50"
    assert line(rental("gpu0", 1, gpus=None), 0) == "?"
    assert line(rental("gpu0", 1, gpus=1), 0) == "2.00"
    assert line(rental("gpu0", 1, None, gpus=4), 8) == "?"


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

    def forecast(now: Spend, nodes: tuple[str, ...] = ("gpu1", "gpu0"), **budget: object) -> str:
        limits = Budget.model_validate({"total": 10, **budget})
        return what_then(spec.model_copy(update={"budget": limits}), now, nodes)

    assert forecast(Spend(2.0, 5.0)) == (
        "at this rate the budget is spent in 2.5 h: nothing ends gpu[0-1] then "
        "(budget.guard is off)"
    )
    assert forecast(Spend(2.0, 11.0), guard="5m") == (
        "the budget is spent: the guard on desk drains gpu[0-1] now, gives jobs 10m to save, and "
        "ends the machines"
    )
    # 10 minutes of grace and two rounds of 5 minutes before the budget is spent.
    begins = forecast(Spend(2.0, 5.0), guard="5m")
    assert begins.startswith("at this rate the budget is spent in 2.5 h: the guard on desk drains ")
    assert "gpu[0-1] in 2.2 h, " in begins
    assert "in 0.2 h: the guard on desk drains gpu[0-1] now, " in forecast(
        Spend(2.0, 9.6), guard="5m"
    )
    assert "spent at the latest in 2.5 h" in forecast(Spend(2.0, 5.0, 1))
    assert forecast(Spend(0.0, 5.0), ()) == ""
    assert what_then(spec, Spend(2.0, 5.0), ("gpu0",)) == ""


def test_jobs_of_a_user_cost_their_part_of_the_period(monkeypatch: pytest.MonkeyPatch) -> None:
    rentals = {"a": rental("gpu0", 10), "b": rental("gpu1", 10, price=None)}

    class Kept:
        def __init__(self, cluster: str) -> None:
            assert cluster == "lab"

        def rentals(self) -> dict[str, Rental]:
            return rentals

        def now(self) -> float:
            return 10 * 3600.0

    monkeypatch.setattr(costs, "Ledger", Kept)
    ran = Job(1, "1", state="COMPLETED", nodes="gpu0", node_count=1, cpus=4, gpus=1, end_at=14400)
    going = replace(ran, id=2, state="RUNNING", start_at=9 * 3600, end_at=99 * 3600)
    jobs = [replace(ran, start_at=3600), going, Job(3, "3", state="PENDING", nodes="gpu0")]
    cpus = {"gpu0": 8}
    line = cost_of_jobs("lab", jobs, cpus, 0.0)
    assert line is not None
    assert (line.hours, line.dollars, line.in_dollars()) == (2.0, 4.0, "4.00"), (
        "half of 3 h and 1 h"
    )
    later = cost_of_jobs("lab", jobs, cpus, 2 * 3600.0)
    assert later is not None
    assert later.dollars == 3.0
    unpriced = cost_of_jobs("lab", [replace(ran, start_at=3600, nodes="gpu1")], cpus, 0.0)
    assert unpriced is not None
    assert unpriced.in_dollars() == "?"
    odd = cost_of_jobs("lab", [replace(ran, start_at=3600, nodes="gpu[")], cpus, 0.0)
    assert odd is not None
    assert odd.dollars == 0
    del rentals["a"]
    assert cost_of_jobs("lab", jobs, cpus, 0.0) is None, "no price is known"
