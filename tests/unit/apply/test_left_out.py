"""Nodes that a run goes on without, and those without which it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from corral.apply.left_out import LeftOut, needed
from corral.apply.run import run_stages
from corral.errors import Code, CorralError, NodesFailedError
from corral.events import Event, Kind
from corral.hosts.fleet import Fleet
from corral.hosts.quote import Script
from corral.inspect.facts import Facts, Nic, parse_facts
from corral.inspect.mesh import MeshFacts
from corral.plan.make import make_plan
from corral.plan.model import NodeChange, Plan, Stage
from corral.spec.models import ClusterSpec
from corral.state.base import Change, DesiredStage, Gate, Roll
from tests.fakes import recorded
from tests.unit.apply.conftest import Folder

Make = Callable[..., tuple[Fleet, dict[str, Folder]]]
RECORDED = Path(__file__).parents[2] / "recorded/facts/debian-13-container/node.txt"


def facts_of(node: str, cpus: int) -> Facts:
    return replace(parse_facts(node, recorded(RECORDED.read_text())), cpus=cpus)


def six() -> ClusterSpec:
    """A controller, a file server, four nodes that run jobs."""
    return ClusterSpec.model_validate(
        {
            "corral": "v1",
            "name": "six",
            "controller": "head",
            "groups": [
                {"name": "servers", "provider": "ssh", "nodes": "head,disk"},
                {"name": "cpu", "provider": "ssh", "nodes": "n[0-3]"},
            ],
            "partitions": [{"name": "main", "groups": ["cpu"]}],
            "storage": [{"mount": "/shared", "kind": "nfs", "server": "disk", "path": "/srv/s"}],
        }
    )


def silent(node: str, code: Code = Code.UNREACHABLE) -> CorralError:
    return CorralError(code, f"{node} is silent", node=node)


def both(*nodes: str) -> NodesFailedError:
    return NodesFailedError(Code.UNREACHABLE, "several", errors=tuple(map(silent, nodes)))


def test_others_depend_on_controllers_and_file_servers() -> None:
    assert needed(six()) == {"head", "disk"}


@pytest.mark.parametrize(
    ("error", "taken"),
    [
        (silent("n1"), ["n1"]),
        (silent("n1", Code.HOST_KEY_CHANGED), ["n1"]),
        (silent("n1", Code.COMMAND_FAILED), ["n1"]),
        (silent("n1", Code.GATE_FAILED), ["n1"]),
        (silent("head", Code.GATE_FAILED), []),
        (both("n0", "n1", "n2"), ["n0", "n1", "n2"]),
        (silent("head"), []),
        (silent("disk"), []),
        (both("n1", "disk"), []),
        (silent("stranger"), []),
        (both("n0", "n1", "n2", "n3"), []),
        (silent("n1", Code.NOT_GOOD), []),
        (CorralError(Code.UNREACHABLE, "of no node"), []),
        (NodesFailedError(Code.UNREACHABLE, "of no node"), []),
    ],
)
def test_what_a_run_goes_on_without(error: CorralError, taken: list[str]) -> None:
    left_out = LeftOut(six())
    assert left_out.takes(error) is bool(taken)
    assert list(left_out.errors) == taken
    assert (left_out.error is None) is not bool(taken)


def test_half_of_the_nodes_is_the_limit_of_all_rounds_together() -> None:
    left_out = LeftOut(six())
    assert left_out.takes(both("n0", "n1"))
    assert left_out.takes(silent("n2"))
    assert not left_out.takes(silent("n3"))
    assert list(left_out.reasons) == ["n0", "n1", "n2"]


def test_a_node_that_is_left_out_already_is_no_progress() -> None:
    left_out = LeftOut(six(), {"n1": "silent"})
    assert not left_out.takes(silent("n1"))


def test_facts_are_those_of_the_last_time_or_of_a_node_of_the_group() -> None:
    left_out = LeftOut(six(), {"n1": "silent", "n2": "silent"})
    known = {"n1": facts_of("n1", 4), "n0": facts_of("n0", 4)}
    facts = left_out.facts(known, {"n0": facts_of("n0", 8), "head": facts_of("head", 2)})
    assert (facts["n1"].cpus, facts["n2"].cpus) == (4, 8)


def test_facts_of_another_node_name_no_machine() -> None:
    left_out = LeftOut(six(), {"n1": "silent"})
    other = replace(facts_of("n0", 8), address="10.0.0.7", nics=(Nic("eth0", ("10.0.0.7",)),))
    facts = left_out.facts({}, {"n0": other})["n1"]
    assert (facts.node, facts.address, facts.nics, facts.cpus) == ("n1", "", (), 8)


def test_in_a_tailnet_nobody_has_the_address_of_a_node_that_never_joined() -> None:
    joined = replace(facts_of("n0", 8), mesh=MeshFacts(address="100.64.0.7"))
    left_out = LeftOut(six(), {"n1": "silent"})
    with pytest.raises(CorralError, match="silent"):
        left_out.facts({}, {"n0": joined})
    known = replace(facts_of("n1", 4), mesh=MeshFacts(address="100.64.0.8"))
    assert left_out.facts({"n1": known}, {"n0": joined})["n1"].mesh.address == "100.64.0.8"


def test_a_plan_of_nodes_that_the_file_has_no_more_is_stale_and_no_fault() -> None:
    assert LeftOut(six(), {"gone": "silent"}).facts({}, {"n0": facts_of("n0", 8)}) == {}


def test_a_node_of_a_group_that_never_answered_ends_the_run() -> None:
    left_out = LeftOut(six(), {"n1": "silent"})
    with pytest.raises(CorralError, match="silent") as caught:
        left_out.facts({}, {"head": facts_of("head", 2)})
    assert caught.value.node == "n1"


def two_stages(roll: Roll | None = None) -> Plan:
    nodes = ("n0", "n1")
    trap = Change("trap", "do trap", "", "", Script("[ ! -e @ROOT@/trap ] || exit 3"))
    then = Change("then", "do then", "", "", Script("touch @ROOT@/then"))
    stages = (
        Stage("one", "one", (NodeChange(nodes, trap),), roll=roll),
        Stage("two", "two", (NodeChange(nodes, then),)),
    )
    return Plan("six", "d", "o", stages=stages)


def test_a_failed_change_leaves_its_node_out_and_the_rest_is_planned_again(folders: Make) -> None:
    fleet, machines = folders("n0", "n1")
    (machines["n1"].root / "trap").touch()
    left_out = LeftOut(six())
    events: list[Event] = []
    assert not asyncio.run(run_stages(two_stages(), fleet, events.append, left_out))
    assert list(left_out.reasons) == ["n1"]
    assert left_out.owed == {"one"}
    assert not (machines["n0"].root / "then").exists(), "a plan without n1 comes first"
    notes = [e for e in events if e.kind is Kind.NOTE]
    assert [(e.node, e.message.partition(":")[0]) for e in notes] == [("n1", "left out")]


def test_a_failed_turn_of_a_rolling_stage_ends_the_run(folders: Make) -> None:
    fleet, machines = folders("head", "n0", "n1")
    (machines["n0"].root / "trap").touch()
    left_out = LeftOut(six())
    with pytest.raises(CorralError):
        asyncio.run(run_stages(two_stages(Roll("head", "why")), fleet, lambda _: None, left_out))
    assert not left_out.errors


def test_without_the_list_the_first_failure_ends_the_run(folders: Make) -> None:
    fleet, machines = folders("n0", "n1")
    (machines["n1"].root / "trap").touch()
    with pytest.raises(CorralError):
        asyncio.run(run_stages(two_stages(), fleet, lambda _: None))


def test_gates_of_a_stage_that_failed_are_asked_by_the_next_plan(folders: Make) -> None:
    fleet, machines = folders("n0")
    gate = Gate("opens", "n0", Script("touch @ROOT@/asked"), 5, "")
    stages = (DesiredStage("one", "one", (), (gate,)),)
    left_out = LeftOut(six())
    left_out.owed.add("one")
    plan = make_plan(cluster="c", spec_digest="d", stages=stages, observed={}, owed=left_out.owed)
    assert not plan.empty
    assert asyncio.run(run_stages(plan, fleet, lambda _: None, left_out))
    assert (machines["n0"].root / "asked").exists()
    assert not left_out.owed
    assert make_plan(cluster="c", spec_digest="d", stages=stages, observed={}).empty
