"""What of an update is due, which nodes come next, and what counts as proven."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.api.lifecycle import node_updates as module
from corral.api.lifecycle.node_updates import NodeUpdate, SystemUpdate, next_batch
from corral.errors import Code, CorralError
from corral.events import Event
from corral.hosts.quote import Script, call
from corral.hosts.transport import Result
from corral.inspect.slurm import KNOWN_NODES
from corral.inspect.system import UPDATE_MARK, UPDATES, PendingUpdate, pending_update
from corral.providers.base import Action, MachineAction
from corral.slurm.records import Node as SlurmNode
from corral.slurm.states.nodes import NodeState
from corral.spec.models import ClusterSpec
from corral.state.base import NOTHING, ROLL_TAG, UPDATE_TAG, Gate
from corral.state_dir import VARIABLE

NODES = ("c0", "n0", "n1", "n2", "n3")
CONTROLLERS = ("c0",)


def test_those_that_are_out_already_come_first_and_the_controller_last() -> None:
    assert next_batch(NODES, (), 2, CONTROLLERS) == ("n0", "n1")
    assert next_batch(NODES, ("n2",), 2, CONTROLLERS) == ("n2", "n0")
    assert next_batch(NODES, ("n2", "n3"), 2, CONTROLLERS) == ("n2", "n3")
    assert next_batch(("c0",), (), 2, CONTROLLERS) == ("c0",)
    assert next_batch(("c0", "n3"), (), 2, CONTROLLERS) == ("n3",)


def test_nodes_that_others_took_out_leave_less_room() -> None:
    assert next_batch(NODES, ("x1",), 2, CONTROLLERS) == ("n0",)
    assert next_batch(NODES, ("x1", "x2"), 2, CONTROLLERS) == ()
    assert next_batch(NODES, ("x1", "x2", "n3"), 2, CONTROLLERS) == ("n3",)  # is out as it is


@given(
    st.lists(st.sampled_from(NODES), unique=True, min_size=1),
    st.sets(st.sampled_from((*NODES, "x1", "x2", "x3"))),
    st.integers(1, 6),
)
def test_never_more_than_allowed(left: list[str], out: set[str], at_once: int) -> None:
    batch = next_batch(left, out, at_once, CONTROLLERS)
    assert set(batch) <= set(left)
    assert len(batch) <= at_once
    assert len({*out, *batch}) <= max(at_once, len(out))
    assert "c0" not in batch or batch == ("c0",)
    if len(out) < at_once:
        assert batch


def test_what_is_due() -> None:
    def needed(answer: str) -> tuple[bool, bool]:
        update = NodeUpdate("n0", "g", pending_update(answer))
        return update.needed, update.needed and update.reboots

    assert pending_update("package a\npackage b\nreboot\n") == PendingUpdate(
        ("a", "b"), reboot=True, begun=False, rebooted=False
    )
    assert needed("") == (False, False)
    assert needed("package a\n") == (True, True)
    assert needed("reboot\n") == (True, True)
    assert needed("begun\n") == (True, True)  # killed behind apt, before the reboot
    assert needed("begun\nrebooted\n") == (True, False)  # it is to be proven
    assert needed("begun\nrebooted\npackage a\n") == (True, True)


SPEC = ClusterSpec.model_validate(
    {
        "corral": "v1",
        "name": "lab",
        "groups": [
            {"name": "cpu", "provider": "ssh", "nodes": "n[0-3]", "addresses": "10.0.0.[1-4]"}
        ],
    }
)
LINE = "NodeName={} CPUTot=2 CPUAlloc=0 RealMemory=100 State={} Reason={}\n"


class Lab:
    """Machines that answer what apt has for them, and slurmctld."""

    pending = ()
    nodes: tuple[str, ...] = ("n0", "n1", "n2", "n3")

    def __init__(self) -> None:
        self.spec, self.controller, self.fleet = SPEC, "n0", self
        self.answers: dict[str, str] = {}
        self.silent: set[str] = set()
        self.failed: set[str] = set()
        self.states: dict[str, tuple[str, str]] = {}
        self.slurmctld = True
        self.ran: list[str] = []

    async def run(self, node: str, script: Script, **_: Any) -> Result:
        if node in self.silent:
            raise CorralError(Code.UNREACHABLE, "no route", node=node)
        if node in self.failed and script == UPDATES.shell:
            return Result(node, 100, "", "E: The repository 'http://gone' has no Release file.\n")
        if script == UPDATES.shell:
            return Result(node, 0, self.answers.get(node, ""), "")
        if script == KNOWN_NODES.shell:
            nodes = ((f"n{n}", *self.states.get(f"n{n}", ("IDLE", ""))) for n in range(4))
            lines = "".join(LINE.format(*node) for node in nodes)
            return Result(node, 0, f"slurmctld\n{lines}" if self.slurmctld else "silent\n", "")
        self.ran.append(str(script))
        return Result(node, 0, "", "")

    async def __aenter__(self) -> Lab:
        return self

    async def __aexit__(self, *raised: object) -> None: ...

    def require_running(self) -> None: ...


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    made = Lab()

    async def opened(_: object) -> Lab:
        return made

    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setattr(module.Connection, "open", opened)
    return made


def planned(spec: ClusterSpec = SPEC) -> SystemUpdate:
    return asyncio.run(module.plan_update(spec))


def test_an_update_that_was_killed_behind_its_drain_has_begun(lab: Lab) -> None:
    """It left nothing on the node, and its packages may have been upgraded by hand meanwhile."""
    lab.states["n2"] = ("IDLE+DRAIN", f"{UPDATE_TAG}packages and reboot")
    lab.states["n3"] = ("IDLE+DRAIN", "a new fan")
    assert [(each.node, each.reboots) for each in planned().pending] == [("n2", True)]


def test_a_drain_of_a_corral_up_that_did_not_end_is_refused(lab: Lab) -> None:
    lab.states["n2"] = ("IDLE+DRAIN", f"{ROLL_TAG}NVIDIA driver")
    assert not planned().pending
    lab.answers["n2"] = "package libc6\n"
    with pytest.raises(CorralError, match="a corral up that did not end") as caught:
        planned()
    assert (caught.value.code, caught.value.node) == (Code.NOT_GOOD, "n2")


def test_nothing_is_known_without_slurmctld(lab: Lab) -> None:
    lab.answers["n2"] = "package libc6\n"
    plan = planned()
    lab.slurmctld = False
    for asked in (module.plan_update(SPEC), module.update_nodes(SPEC, plan)):
        with pytest.raises(CorralError, match="slurmctld does not answer") as caught:
            asyncio.run(asked)
        assert caught.value.code is Code.NOT_GOOD


def test_nodes_that_do_not_answer_are_left_out_and_count_as_out(lab: Lab) -> None:
    lab.answers["n2"] = "package libc6\n"
    lab.silent = {"n1"}
    plan = planned()
    assert plan.silent == (("n1", "no route"),)
    assert [each.node for each in plan.pending] == ["n2"]
    with pytest.raises(CorralError, match="1 node out of service \\(n1\\), and at most 1"):
        asyncio.run(module.update_nodes(SPEC, plan))
    assert not lab.ran
    lab.silent = {"n1", "n2", "n3"}
    assert [node for node, _ in planned().silent] == ["n1", "n2", "n3"]


def test_a_node_whose_packages_cannot_be_read_does_not_end_the_plan_for_others(lab: Lab) -> None:
    """It takes jobs, so it leaves room for another one to be out of service."""
    lab.answers["n2"] = "package libc6\n"
    lab.failed = {"n1"}
    plan = planned()
    ((node, why),) = plan.failed
    assert node == "n1"
    assert why.endswith("E: The repository 'http://gone' has no Release file.")
    assert ([each.node for each in plan.pending], plan.silent) == (["n2"], ())
    assert asyncio.run(module._read_again(lab, plan)) == plan.pending  # type: ignore[arg-type]
    lab.failed = set(lab.nodes)
    with pytest.raises(CorralError) as caught:
        planned()
    assert (caught.value.code, caught.value.node) == (Code.COMMAND_FAILED, "n1")


def test_a_node_that_does_not_run_is_left_out(lab: Lab) -> None:
    lab.answers["n2"] = "package libc6\n"
    lab.nodes = ("n0", "n1", "n2")
    plan = planned()
    assert plan.silent == (("n3", "it does not run"),)
    assert [each.node for each in plan.pending] == ["n2"]


def test_a_container_that_was_not_started_after_its_reboot_is_started_first(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = ClusterSpec.model_validate(
        {
            "corral": "v1",
            "name": "lab",
            "groups": [{"name": "cpu", "provider": "embedded", "nodes": "n[0-3]"}],
        }
    )
    lab.spec = spec
    lab.nodes = ("n0", "n1", "n2")
    lab.states["n3"] = ("DOWN+DRAIN", f"{UPDATE_TAG}packages and reboot")

    class Provider:
        nodes = tuple(module.nodes_of(spec))

        async def read_machines(self) -> None: ...

        def plan(self, _: object) -> list[MachineAction]:
            return [MachineAction("n3", Action.START, "is stopped")]

        async def apply(self, actions: list[MachineAction], emit: object) -> None:
            lab.ran.append(f"started {actions[0].node}")
            lab.nodes = ("n0", "n1", "n2", "n3")

    monkeypatch.setattr(module, "providers_of", lambda _: [Provider()])
    monkeypatch.setattr(module, "here", lambda _: False)
    plan = planned(spec)
    assert [(each.node, each.stopped, each.pending.begun) for each in plan.pending] == [
        ("n3", True, True)
    ]
    asyncio.run(module._start_stopped(spec, plan, lambda _: None))
    assert lab.ran == ["started n3"]
    ((again),) = asyncio.run(module._read_again(lab, plan))  # type: ignore[arg-type]
    assert (again.node, again.stopped, again.pending.begun) == ("n3", False, True)


def test_what_is_due_is_read_again_once_no_other_call_works(lab: Lab) -> None:
    lab.answers["n2"] = "package libc6\n"
    plan = planned()
    lab.answers.clear()  # another call did it
    assert asyncio.run(module.update_nodes(SPEC, plan)) == ()
    assert not lab.ran


@pytest.mark.parametrize(
    "package", ["slurmd", "libslurm43t64", "munge", "nvidia-driver", "libcuda1"]
)
def test_slurm_and_the_driver_are_not_upgraded_here(lab: Lab, package: str) -> None:
    """They are free where software.hold is off, or is not applied yet."""
    lab.answers["n2"] = f"package libc6\npackage {package}\n"
    with pytest.raises(CorralError, match=f"apt would replace {package}") as caught:
        planned()
    assert (caught.value.code, caught.value.node) == (Code.NOT_GOOD, "n2")
    assert "software.hold: true" in caught.value.hint


def proof(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, seen: SlurmNode | None
) -> tuple[list[str], list[str]]:
    """What a proof of n2 reports, and the nodes whose job was run."""
    events: list[Event] = []
    proven: list[str] = []

    async def passes(_: object, node: Any, reason: str) -> str:
        proven.append(node.name)
        return ""

    async def registered(_: object) -> SlurmNode | None:
        return seen

    monkeypatch.setattr(module, "passes_job", passes)
    update = NodeUpdate("n2", "cpu", PendingUpdate(("libc6",), False, False, False))
    batch = module._Batch(lab, [update], events.append)  # type: ignore[arg-type]
    monkeypatch.setattr(batch._rolling, "registered", registered)
    asyncio.run(batch._prove(Gate("its proof", "n2", NOTHING)))
    return [event.message for event in events], proven


def slurm_node(state: str, reason: str = "") -> SlurmNode:
    return SlurmNode("n2", NodeState.parse(state), reason=reason)


def test_a_node_that_no_job_has_proven_keeps_its_mark(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages, proven = proof(lab, monkeypatch, slurm_node("IDLE+DRAIN", "a new fan"))
    assert messages == ["no job proves it while somebody else has it drained"]
    assert not proven
    over = str(call("node-update.sh", "update_over", UPDATE_MARK))
    assert over not in lab.ran
    messages, proven = proof(lab, monkeypatch, slurm_node("IDLE+DRAIN", f"{UPDATE_TAG}x"))
    assert (messages, proven) == (["passed its proof"], ["n2"])
    assert lab.ran[-1] == over


@pytest.mark.parametrize("reason", [f"{UPDATE_TAG}x", "a new fan"])
@pytest.mark.parametrize("state", ["IDLE+DRAIN+INVALID_REG", "DOWN+DRAIN+NOT_RESPONDING", ""])
def test_a_node_that_is_not_registered_does_not_pass(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, state: str, reason: str
) -> None:
    with pytest.raises(CorralError, match="its slurmd is not registered") as caught:
        proof(lab, monkeypatch, slurm_node(state, reason) if state else None)
    assert caught.value.code is Code.NOT_GOOD


def test_a_container_that_does_not_end_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Stuck:
        nodes = (next(iter(module.nodes_of(SPEC))),)

        async def read_machines(self) -> None: ...

        def plan(self, _: object) -> tuple[()]:
            return ()

    monkeypatch.setattr(module, "providers_of", lambda _: [Stuck()])
    with pytest.raises(CorralError) as caught:
        asyncio.run(module.started(SPEC, "n0", 0.0))
    assert (caught.value.code, caught.value.node) == (Code.TIMED_OUT, "n0")
