"""``corral nodes``: outages as a table and as JSON, lemons named; replacements and updates."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from corral import api
from corral.api.lifecycle.node_replacement import Replaced, Replacement
from corral.api.lifecycle.node_updates import NodeUpdate, SystemUpdate
from corral.api.operations.node_history import NodeHistory
from corral.inspect.system import PendingUpdate
from corral.slurm.records import Job, Outage
from corral.spec.models import ClusterSpec
from tests.unit.cli.conftest import Run

CAUSES = ("no link", "it smells", "GPUs are missing")


def seen(*causes: str) -> tuple[NodeHistory, ...]:
    outages = (
        Outage("node1", 1_800_000_000, 1_800_003_600, "DRAIN", "root", "no link"),
        Outage("node1", 1_800_100_000, None, "DRAIN*", "", "health.gpus: \x1b[31m7 of 8"),
    )
    return NodeHistory("node0", (), ()), NodeHistory("node1", outages, causes)


def answer(monkeypatch: pytest.MonkeyPatch, histories: tuple[NodeHistory, ...]) -> None:
    async def node_history(
        spec: ClusterSpec, nodes: str = "", *, days: int = 30
    ) -> tuple[NodeHistory, ...]:
        return histories

    monkeypatch.setattr(api, "node_history", node_history)


def test_outages_and_lemons(
    corral: Run, known: ClusterSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, seen(*CAUSES))
    done = corral("nodes", "history", "--cluster", known.name)
    assert done.exit_code == 0, done.output
    assert "01:00:00" in done.stdout
    assert "goes on" in done.stdout
    assert "\x1b" not in done.stdout
    assert "node1 is a lemon: 3 causes in 30 days" in " ".join(done.output.split())


def test_json(corral: Run, known: ClusterSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, seen(*CAUSES[:2]))
    done = corral("nodes", "history", "node1", "--cluster", known.name, "--json")
    report = json.loads(done.stdout)
    assert [node["lemon"] for node in report["nodes"]] == [False, False]
    first, last = report["nodes"][1]["outages"]
    assert (first["cause"], first["title"], first["end"]) == ("no link", "no link", 1_800_003_600)
    assert (last["cause"], last["end"], last["by"]) == ("health.gpus", None, "")


def test_no_outage(corral: Run, known: ClusterSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, seen()[:1])
    done = corral("nodes", "history", "--days", "7", "--cluster", known.name)
    assert done.stdout.strip() == "no outage of 1 node in 7 days"


LOST = Job(id=7, label="7", user="ada", state="RUNNING")
OTHER = Replacement("node1", None, known=("SHA256:old",), shown=("SHA256:new",), jobs=(LOST,))


@dataclass
class Replacing:
    """The use case played: whether it was called, and with what it ends."""

    done: Replaced
    called: int = 0


@pytest.fixture
def replacing(monkeypatch: pytest.MonkeyPatch) -> Replacing:
    played = Replacing(Replaced("node1", applied=True))

    async def plan_replacement(spec: ClusterSpec, node: str) -> Replacement:
        return OTHER

    async def replace_node(*_: object) -> Replaced:
        played.called += 1
        return played.done

    monkeypatch.setattr(api, "plan_replacement", plan_replacement)
    monkeypatch.setattr(api, "replace_node", replace_node)
    return played


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--yes",), "--yes needs --host-key here"),
        (("--host-key", "SHA256:evil", "--yes"), "SHA256:evil is not what the machine shows"),
        ((), "standard input is not a terminal"),
    ],
)
def test_a_key_that_nobody_compared_replaces_no_machine(
    corral: Run, known: ClusterSpec, replacing: Replacing, words: tuple[str, ...], message: str
) -> None:
    done = corral("nodes", "replace", "node1", "--cluster", known.name, *words)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())
    assert replacing.called == 0


def test_the_named_key_is_the_answer(corral: Run, known: ClusterSpec, replacing: Replacing) -> None:
    words = ("nodes", "replace", "node1", "--cluster", known.name, "--host-key", "SHA256:new")
    done = corral(*words, "--yes")
    assert done.exit_code == 0, done.output
    assert "node1: the new machine is in service" in done.stdout
    replacing.done = Replaced("node1", applied=True, fault="no job ran on it: no slurmd")
    failed = corral(*words, "--yes")
    assert failed.exit_code == 1
    assert "node1 stays drained: no job ran on it: no slurmd" in " ".join(failed.output.split())


@dataclass
class Updating:
    """What an update of two nodes was asked for, and the nodes that it updated."""

    asked: list[tuple[str, int]]
    done: list[str]
    silent: tuple[tuple[str, str], ...] = ()
    unproven: tuple[str, ...] = ()


@pytest.fixture
def updating(monkeypatch: pytest.MonkeyPatch) -> Updating:
    record = Updating([], [])
    old, new = (
        PendingUpdate(packages, reboot=False, begun=False, rebooted=False)
        for packages in (("libc6",), ())
    )

    async def plan_update(spec: ClusterSpec, nodes: str, at_once: int) -> SystemUpdate:
        record.asked.append((nodes, at_once))
        both = (NodeUpdate("node0", "cpu", new), NodeUpdate("node1", "cpu", old))
        return SystemUpdate(both[:1] if nodes == "node0" else both, at_once or 1, record.silent)

    async def update_nodes(
        spec: ClusterSpec, update: SystemUpdate, emit: object
    ) -> tuple[str, ...]:
        record.done += [each.node for each in update.pending]
        return record.unproven

    monkeypatch.setattr(api, "plan_update", plan_update)
    monkeypatch.setattr(api, "update_nodes", update_nodes)
    return record


def test_an_update_of_what_is_needed(corral: Run, known: ClusterSpec, updating: Updating) -> None:
    done = corral("nodes", "update", "--cluster", known.name, "--yes", "--json", "--at-once", "3")
    assert done.exit_code == 0, done.output
    assert updating == Updating([("", 3)], ["node1"])
    report = json.loads(done.stdout)
    assert (report["updated"], report["at_once"]) == (["node1"], 3)
    assert [node["packages"] for node in report["nodes"]] == [[], ["libc6"]]


def test_an_update_of_nodes_that_need_none(
    corral: Run, known: ClusterSpec, updating: Updating
) -> None:
    done = corral("nodes", "update", "node0", "--cluster", known.name)
    assert done.exit_code == 0, done.output
    assert updating == Updating([("node0", 0)], [])
    assert "1 node: nothing to upgrade" in done.output


def test_nodes_that_do_not_answer_and_those_that_no_job_proves_are_named(
    corral: Run, known: ClusterSpec, updating: Updating
) -> None:
    updating.silent, updating.unproven = (("node2", "no route"),), ("node1",)
    done = corral("nodes", "update", "--cluster", known.name, "--yes")
    assert done.exit_code == 1, done.output
    assert "node2 is left out: no route" in done.output
    assert "updated and proven" not in done.output
    assert "node1: updated, and unproven" in done.output
