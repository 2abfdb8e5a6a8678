from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from corral.apply.journal import Journal, cluster_lock, read_journal
from corral.apply.run import require_allowed, require_fresh, run_stages
from corral.errors import Code, CorralError, NodesFailedError
from corral.events import Event, Kind
from corral.hosts.fleet import Fleet
from corral.hosts.quote import Script, sh
from corral.plan.model import NodeChange, Plan, Stage
from corral.state.base import Change, Gate, SecretRef

from .conftest import Folder

Make = Callable[..., tuple[Fleet, dict[str, Folder]]]


def change(name: str, text: str, *, secrets: tuple[SecretRef, ...] = ()) -> Change:
    return Change(name, f"do {name}", "", "", Script(text), secrets=secrets)


def stage(
    name: str, *changes: tuple[tuple[str, ...], Change], gates: tuple[Gate, ...] = ()
) -> Stage:
    return Stage(name, name, tuple(NodeChange(n, c) for n, c in changes), gates)


REFUSED = change("user:eve", "true")


def run(fleet: Fleet, *stages: Stage) -> list[Event]:
    events: list[Event] = []
    asyncio.run(run_stages(Plan("c", "d", "o", (), stages), fleet, events.append))
    return events


def test_changes_run_in_order_and_are_reported(folders: Make) -> None:
    fleet, machines = folders("n0", "n1")
    both = ("n0", "n1")
    events = run(
        fleet,
        stage(
            "one",
            (both, change("a", "echo a >> @ROOT@/log")),
            (both, change("b", "echo b >> @ROOT@/log")),
        ),
        stage("two", (("n1",), change("c", "echo c >> @ROOT@/log"))),
    )
    assert (machines["n0"].root / "log").read_text() == "a\nb\n"
    assert (machines["n1"].root / "log").read_text() == "a\nb\nc\n"
    assert len(machines["n0"].scripts) == 1, "all changes of a stage travel in one script"
    done = [(e.subject, e.node) for e in events if e.kind is Kind.CHANGE_DONE]
    assert done == [("a", "n0"), ("b", "n0"), ("a", "n1"), ("b", "n1"), ("c", "n1")]


def test_a_plan_with_a_refusal_changes_nothing_at_all(folders: Make) -> None:
    fleet, machines = folders("n0", "n1", "n2")
    first = replace(change("user:eve", "echo eve >> @ROOT@/log"), refuses="eve has uid 7")
    other = replace(change("mount:/s", "echo s >> @ROOT@/log"), refuses="/s holds files")
    stages = (
        stage("one", (("n0", "n1", "n2"), change("a", "echo a >> @ROOT@/log"))),
        stage("two", (("n1", "n2"), first), (("n0",), other)),
    )
    with pytest.raises(CorralError) as refused:
        run(fleet, *stages)
    error = refused.value
    assert error.code is Code.NOT_GOOD
    assert error.message == "n[1-2]: eve has uid 7 (and 1 more)"
    assert error.tail == "n[1-2]: eve has uid 7\nn0: /s holds files"
    assert (error.node, error.command) == ("", "user:eve")
    assert [m.scripts for m in machines.values()] == [[], [], []], "no node ran anything"


def test_a_refusal_of_one_node_names_that_node() -> None:
    plan = Plan("c", "d", "o", (), (stage("one", (("n1",), replace(REFUSED, refuses="no"))),))
    with pytest.raises(CorralError) as refused:
        require_allowed(plan)
    assert (refused.value.node, refused.value.message) == ("n1", "n1: no")
    require_allowed(Plan("c", "d", "o", (), (stage("one", (("n1",), REFUSED)),)))


def test_the_first_failure_stops_the_node_and_the_next_stage(folders: Make) -> None:
    fleet, machines = folders("n0", "n1")
    both = ("n0", "n1")
    bad = change("bad", "[ ! -e @ROOT@/trap ] || { echo why >&2; exit 3; }")
    (machines["n1"].root / "trap").touch()
    with pytest.raises(CorralError) as caught:
        run(
            fleet,
            stage("one", (both, bad), (both, change("b", "touch @ROOT@/b"))),
            stage("two", (both, change("c", "touch @ROOT@/c"))),
        )
    error = caught.value
    assert (error.node, error.status, error.command) == ("n1", 3, "bad")
    assert error.tail == "why"
    assert (machines["n0"].root / "b").exists()
    assert not (machines["n1"].root / "b").exists()
    assert not (machines["n0"].root / "c").exists()


def test_failures_of_several_nodes_are_all_kept(folders: Make) -> None:
    fleet, machines = folders("n0", "n1", "n2")
    machines["n2"].broken = True
    with pytest.raises(NodesFailedError) as caught:
        run(fleet, stage("one", (("n0", "n1", "n2"), change("x", "exit 4"))))
    assert [(e.node, e.code) for e in caught.value.errors] == [
        ("n0", Code.COMMAND_FAILED),
        ("n1", Code.COMMAND_FAILED),
        ("n2", Code.UNREACHABLE),
    ]
    assert "n[0-2]" in caught.value.message


def test_secrets_go_from_node_to_node_by_stdin_only(folders: Make) -> None:
    fleet, machines = folders("n0", "n1")
    key = bytes(range(256)) * 4
    (machines["n0"].root / "key").write_bytes(key)
    ref = SecretRef("secret:k", "n0", str(machines["n0"].root / "key"))
    take = 'IFS= read -r n && head -c "$n" > @ROOT@/{}'
    run(
        fleet,
        stage(
            "keys",
            (("n1",), change("greedy", "cat > @ROOT@/stolen")),
            (("n1",), change("k1", take.format("k1"), secrets=(ref,))),
            (("n1",), change("k2", take.format("k2"), secrets=(ref,))),
        ),
    )
    assert (machines["n1"].root / "k1").read_bytes() == key
    assert (machines["n1"].root / "k2").read_bytes() == key
    assert (machines["n1"].root / "stolen").read_bytes() == b"", "no stdin without asking for it"


def test_a_gate_is_waited_for(folders: Make) -> None:
    fleet, machines = folders("n0")
    gate = Gate("b is there", "n0", Script("[ -e @ROOT@/b ]"), 20)
    late = "( while [ ! -e @ROOT@/polled ]; do :; done; touch @ROOT@/b ) >/dev/null 2>&1 &"
    polled = Gate("polled", "n0", Script("touch @ROOT@/polled"), 20)
    run(fleet, stage("one", (("n0",), change("a", late)), gates=(polled, gate)))
    assert (machines["n0"].root / "b").exists()


def test_a_gate_that_stays_shut_fails_with_the_reason(folders: Make) -> None:
    fleet, _ = folders("n0")
    gate = Gate("b is there", "n0", sh("echo not yet; false"), 0, "look at b", sh("echo b refuses"))
    with pytest.raises(CorralError) as caught:
        run(fleet, stage("one", (("n0",), change("a", "true")), gates=(gate,)))
    error = caught.value
    assert (error.code, error.node, error.hint) == (Code.GATE_FAILED, "n0", "look at b")
    assert error.tail == "not yet\nb refuses"


def test_a_node_under_another_corrals_lock_is_busy(
    folders: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corral.apply.script.LOCK_WAIT", 0)
    fleet, machines = folders("n0")
    with (machines["n0"].root / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(CorralError) as caught:
            run(fleet, stage("one", (("n0",), change("a", "touch @ROOT@/a"))))
    assert caught.value.code is Code.BUSY
    assert not (machines["n0"].root / "a").exists()


def test_a_daemon_started_by_a_change_does_not_keep_the_lock(folders: Make) -> None:
    fleet, machines = folders("n0")
    stop = machines["n0"].root / "stop"
    daemon = "( while [ ! -e @ROOT@/stop ]; do sleep 0.05; done ) >/dev/null 2>&1 </dev/null &"
    run(fleet, stage("one", (("n0",), change("a", daemon))))
    with (machines["n0"].root / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    stop.touch()


def test_stale_plans_are_refused() -> None:
    plan = Plan("c", "file", "seen")
    require_fresh(plan, "file", "seen")
    for spec, seen, what in (("other", "seen", "file"), ("file", "other", "machines")):
        with pytest.raises(CorralError, match=f"{what} ha(s|ve) changed") as caught:
            require_fresh(plan, spec, seen)
        assert caught.value.code is Code.STALE_PLAN


def test_journal_lines_are_complete_and_a_cut_one_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "journal.jsonl"
    journal = Journal(path, "r1")
    emit = journal.following(lambda _: None)
    emit(Event(Kind.NOTE, "x", message="a\nb"))
    with path.open("a") as cut:
        cut.write('{"at": 1, "kind": "pl\n')
    journal.write("plan", {"n": 1})
    got = [(r["kind"], r["run"]) for r in read_journal(path)]
    assert got == [("event", "r1"), ("plan", "r1")]
    assert path.stat().st_mode & 0o777 == 0o600


def test_one_writer_per_cluster(tmp_path: Path) -> None:
    with cluster_lock(tmp_path), pytest.raises(CorralError) as caught, cluster_lock(tmp_path):
        pass
    assert caught.value.code is Code.BUSY
    with cluster_lock(tmp_path):
        pass


@pytest.mark.parametrize(
    ("uid", "sudo", "author"),
    [(0, "kim", "kim"), (0, "", "root"), (987654, "kim", "987654")],
)
def test_the_journal_names_who_did_it(
    uid: int, sudo: str, author: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under sudo, the user who ran it; SUDO_USER is ignored for users other than root."""
    monkeypatch.setattr(os, "getuid", lambda: uid)
    monkeypatch.setenv("SUDO_USER", sudo)
    Journal(tmp_path / "j.jsonl", "r1").write("plan", {})
    assert [record["by"] for record in read_journal(tmp_path / "j.jsonl")] == [author]
