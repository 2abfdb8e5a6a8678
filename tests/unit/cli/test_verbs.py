"""Each verb: what it asks of the use cases, what it prints, how it ends."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corral.api.lifecycle.bundle import Bundled
from corral.api.operations.nodes import Outcome
from corral.api.operations.overview import Member, Status, Trouble
from corral.apply.left_out import LeftOut
from corral.errors import Code, CorralError
from corral.inspect.services import Backup
from corral.plan.model import Plan
from corral.slurm.records import Node
from corral.slurm.states.nodes import NodeState
from corral.spec.models import ClusterSpec

from .conftest import (
    BAD_PROOF,
    CHANGES,
    EMPTY,
    GOOD_PROOF,
    MACHINES,
    Fake,
    Run,
    stdout_json,
)

Golden = Callable[[str, str], None]


def without(plan: Plan) -> Plan:
    """The plan with nodes that are left as they are."""
    silent = {node: f"{node} does not answer" for node in ("node3", "node4")}
    return dataclasses.replace(plan, unreachable={**silent, "node7": "its host key has changed"})


def approving(*plans: Plan) -> Callable[..., bool]:
    """An ``api.up`` that shows these plans for approval."""

    def up(spec: ClusterSpec, emit: Any, approve: Callable[[Plan], bool], **_: object) -> bool:
        return all(approve(plan) for plan in plans)

    return up


# plan


@pytest.mark.parametrize(
    ("name", "plan", "more"),
    [
        ("plan-empty", EMPTY, []),
        ("plan-machines", MACHINES, []),
        ("plan-changes", CHANGES, []),
        ("plan-diff", CHANGES, ["--diff"]),
        ("plan-without-nodes", without(CHANGES), ["--keep-going"]),
        ("plan-empty-without-nodes", without(EMPTY), ["--keep-going"]),
    ],
)
def test_plan(  # noqa: PLR0917
    name: str, plan: Plan, more: list[str], corral: Run, fake: Fake, golden: Golden
) -> None:
    fake.answer("plan", plan)
    result = corral("plan", "laptop.yaml", *more)
    assert result.exit_code == 0
    golden(f"cli/{name}.txt", result.stdout)


def test_plan_as_json_can_be_applied(corral: Run, fake: Fake, home: Path) -> None:
    fake.answer("plan", CHANGES)
    data = stdout_json(corral("plan", "laptop.yaml", "--json", "--out", "plan.json"))
    assert (data["empty"], data["impact"]) == (False, "drain")
    assert Plan.from_dict(data) == CHANGES
    fake.answer("apply", None)
    result = corral("apply", "laptop.yaml", "plan.json", "--yes")
    assert result.exit_code == 0
    assert fake.calls["apply"][0][0][1] == CHANGES


def test_plan_of_a_rehearsal_is_of_another_cluster(corral: Run, fake: Fake) -> None:
    fake.answer("plan", EMPTY)
    result = corral("plan", "laptop.yaml", "--rehearse")
    assert fake.calls["plan"][0][0][0].name == "laptop-rehearsal"
    assert "rehearsal: " in result.stderr


def test_plan_that_cannot_be_written_is_an_error(corral: Run, fake: Fake) -> None:
    fake.answer("plan", CHANGES)
    result = corral("plan", "laptop.yaml", "--out", "no/such/folder/plan.json")
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr


# up, apply


def test_up_needs_yes_where_nobody_can_be_asked(corral: Run, fake: Fake) -> None:
    fake.answer("up", approving(CHANGES))
    fake.answer("prove", GOOD_PROOF)
    result = corral("up", "laptop.yaml")
    assert result.exit_code == 2
    assert "--yes" in result.stderr
    assert not fake.calls["prove"]


def test_up_shows_the_plans_and_the_proof(corral: Run, fake: Fake, golden: Golden) -> None:
    fake.answer("up", approving(MACHINES, CHANGES))
    fake.answer("prove", GOOD_PROOF)
    result = corral("up", "laptop.yaml", "--yes")
    assert result.exit_code == 0
    golden("cli/up.txt", result.stdout)


def test_up_compares_the_digest_of_a_bundle(corral: Run, fake: Fake) -> None:
    fake.answer("use_bundle", None)
    fake.answer("up", approving())
    digest = "a" * 64
    words = ("up", "laptop.yaml", "--no-prove", "--sha256", digest)
    alone = corral(*words)
    assert alone.exit_code != 0
    assert "--sha256 needs a bundle" in alone.output
    assert not fake.calls["use_bundle"]
    assert corral(*words, "--bundle", "kit.tar.zst").exit_code == 0
    ((arguments, named),) = fake.calls["use_bundle"]
    assert arguments[1] == Path("kit.tar.zst")
    assert named == {"sha256": digest}


def test_bundle_shows_how_it_is_used_with_its_digest(corral: Run, fake: Fake) -> None:
    fake.answer("make_bundle", Bundled("out/kit.tar.zst", 1, "b" * 64, "localhost/x", "3.13", 9))
    shown = corral("bundle", "laptop.yaml", "-o", "out/kit.tar.zst").stdout
    assert f"corral up FILE --bundle kit.tar.zst --sha256 {'b' * 64}" in shown


def test_up_with_nothing_to_do_still_proves(corral: Run, fake: Fake) -> None:
    fake.answer("up", approving())
    fake.answer("prove", GOOD_PROOF)
    result = corral("up", "laptop.yaml")
    assert result.exit_code == 0
    assert "nothing to do" in result.stderr
    assert "laptop: proven" in result.stdout


def test_up_names_the_nodes_that_it_left_out(corral: Run, fake: Fake) -> None:
    def up(*_: object, left_out: LeftOut) -> bool:
        return left_out.takes(CorralError(Code.UNREACHABLE, "is silent", node="node2"))

    fake.answer("up", up)
    fake.answer("prove", GOOD_PROOF)
    result = corral("up", "laptop.yaml", "--yes", "--keep-going")
    assert result.exit_code == 1, "the proof is good, and node2 is not done"
    assert "1 node left out: node2" in result.stderr and "is silent" in result.stderr
    assert "machines that answer" in result.stderr
    assert dict(fake.calls["prove"][0][1]) == {"without": {"node2": "is silent"}}
    data = stdout_json(corral("up", "laptop.yaml", "--yes", "--keep-going", "--json"))
    assert data["left_out"] == {"node2": "is silent"}


def test_up_that_is_not_proven_is_not_good(corral: Run, fake: Fake) -> None:
    fake.answer("up", approving(CHANGES))
    fake.answer("prove", BAD_PROOF)
    result = corral("up", "laptop.yaml", "--yes", "--json")
    assert result.exit_code == 1
    data = stdout_json(result)
    assert data["applied"] is True
    assert data["proof"]["good"] is False
    assert [Plan.from_dict(plan) for plan in data["plans"]] == [CHANGES]


def test_up_without_proof(corral: Run, fake: Fake) -> None:
    fake.answer("up", approving(CHANGES))
    result = corral("up", "laptop.yaml", "--yes", "--no-prove", "--json")
    assert result.exit_code == 0
    assert stdout_json(result)["proof"] is None


def test_apply_refuses_a_file_that_is_no_plan(corral: Run, home: Path) -> None:
    for text in ("", "[]", "{}", '{"format": 1}', "\0"):
        (home / "plan.json").write_text(text)
        result = corral("apply", "laptop.yaml", "plan.json", "--yes")
        assert result.exit_code in (2, 3), text
        assert "hint:" in result.stderr
    assert corral("apply", "laptop.yaml", "none.json", "--yes").exit_code == 2


def test_apply_of_a_stale_plan_is_not_good(corral: Run, fake: Fake) -> None:
    fake.answer("plan", CHANGES)
    fake.answer("apply", CorralError(Code.STALE_PLAN, "the machines have changed"))
    assert corral("apply", "laptop.yaml", "--yes").exit_code == 1


# prove


@pytest.mark.parametrize("more", [[], ["--verbose"]])
def test_prove(more: list[str], corral: Run, fake: Fake, known: Any, golden: Golden) -> None:
    fake.answer("prove", BAD_PROOF)
    result = corral("prove", *more)
    assert result.exit_code == 1
    assert "\x1b" not in result.stdout
    golden(f"cli/prove{''.join(more)}.txt", result.stdout)


def test_prove_as_json_is_the_proof(corral: Run, fake: Fake, known: Any) -> None:
    fake.answer("prove", GOOD_PROOF)
    result = corral("prove", "--json", "--only", "smoke", "--only", "rest.answers")
    assert result.exit_code == 0
    assert stdout_json(result) == GOOD_PROOF.as_dict()
    assert fake.calls["prove"][0][1] == {
        "only": ("smoke", "rest.answers"),
        "without": (),
    }


# status


def slurms(name: str, state: str, cpus: int = 0, memory: int = 0, gpus: int = 0) -> Node:
    """Slurm's record of a node of which so much is in use."""
    return Node(
        name,
        NodeState.parse(state),
        cpus=16,
        cpus_used=cpus,
        memory=65536,
        memory_used=memory,
        gres="gpu:2",
        gres_used=f"gpu:{gpus}",
    )


STATUS = Status(
    "laptop",
    "node0",
    "24.11.5",
    (
        Member(
            "node0",
            "mixed",
            "",
            slurms("node0", "MIXED", 4, 2048, 1),
            0.42,
            {"slurmd": "active", "slurmctld": "active"},
        ),
        Member(
            "node1",
            "idle+drain",
            "new memory\x1b[2J",
            slurms("node1", "IDLE+DRAIN"),
            0.0,
            {"slurmd": "failed"},
        ),
        Member("node2", "absent", "container corral-laptop-node2 is stopped"),
    ),
    {"running": 2, "pending": 1},
    (Trouble("node1", "idle+drain: new memory", "when the reason is gone: corral resume node1"),),
)


def test_status(corral: Run, fake: Fake, known: Any, golden: Golden) -> None:
    fake.answer("status", STATUS)
    result = corral("status")
    assert result.exit_code == 1
    assert "\x1b" not in result.stdout
    golden("cli/status.txt", result.stdout)


@pytest.mark.parametrize(
    ("age", "line"),
    [
        (None, "backup: none yet"),
        (93784, "backup: 1-02:03:04 ago, 12 MB, /archive/lab-1.tar"),
        (-9, "backup: in the future, 12 MB, /archive/lab-1.tar"),
    ],
)
def test_status_has_the_age_of_the_last_backup(
    corral: Run, fake: Fake, known: Any, age: int | None, line: str
) -> None:
    backup = Backup(86400, "active", failed=False, age=age, since=9, size=12_300_000)
    backup = dataclasses.replace(backup, path="/archive/lab-1.tar")
    fake.answer("status", dataclasses.replace(STATUS, backup=backup))
    assert f"\n{line}\n" in corral("status").stdout
    assert stdout_json(corral("status", "--json"))["backup"]["age"] == age


def test_status_as_json(corral: Run, fake: Fake, known: Any) -> None:
    fake.answer("status", Status("laptop", "node0", "24.11.5", STATUS.nodes[:1], {}, ()))
    result = corral("status", "--json")
    assert result.exit_code == 0
    assert stdout_json(result)["nodes"][0]["gpus_used"] == 1


def test_a_node_of_status_as_json_with_and_without_slurms_record() -> None:
    assert [node.as_dict() for node in STATUS.nodes[::2]] == [
        {
            "node": "node0",
            "state": "mixed",
            "reason": "",
            "usable": True,
            "cpus": 16,
            "cpus_used": 4,
            "memory_mib": 65536,
            "memory_used_mib": 2048,
            "gpus": 2,
            "gpus_used": 1,
            "load": 0.42,
            "services": {"slurmd": "active", "slurmctld": "active"},
        },
        {
            "node": "node2",
            "state": "absent",
            "reason": "container corral-laptop-node2 is stopped",
            "usable": False,
            "cpus": 0,
            "cpus_used": 0,
            "memory_mib": 0,
            "memory_used_mib": 0,
            "gpus": 0,
            "gpus_used": 0,
            "load": None,
            "services": None,
        },
    ]


# exec


def test_exec_folds_what_is_equal(corral: Run, fake: Fake, known: Any, golden: Golden) -> None:
    fake.answer(
        "execute",
        (
            Outcome("node0", 0, "up 3 days\n", ""),
            Outcome("node1", 0, "up 3 days\n", ""),
            Outcome("node2", 7, "a\nb\n", "broken\n"),
        ),
    )
    result = corral("exec", "-n", "node[0-2]", "--", "sh", "-c", "uptime | tail", "--json")
    assert result.exit_code == 1
    golden("cli/exec.txt", f"{result.stdout}--- stderr\n{result.stderr}")
    assert fake.calls["execute"][0][0][1:] == (
        ["sh", "-c", "uptime | tail", "--json"],
        "node[0-2]",
    )


def test_exec_passes_output_on_as_it_is_only_where_that_is_asked_for(
    corral: Run, fake: Fake, known: Any
) -> None:
    fake.answer("execute", (Outcome("node0", 0, "\x1b[31mred\x1b]0;title\x07\n"),))
    assert corral("exec", "--", "x").stdout == "node0: red\\x1b]0;title\\x07\n"
    assert corral("exec", "--raw", "--", "x").stdout == "node0: \x1b[31mred\x1b]0;title\x07\n"


def test_exec_on_a_node_that_does_not_answer(corral: Run, fake: Fake, known: Any) -> None:
    error = CorralError(Code.UNREACHABLE, "no route", node="node1", hint="check the cable")
    fake.answer("execute", (Outcome("node0", 0, "x\n"), Outcome("node1", error=error)))
    result = corral("exec", "--json", "--", "x")
    assert result.exit_code == 3
    assert stdout_json(result)["nodes"][1]["error"]["code"] == "unreachable"


# ssh, drain, resume, down


def test_ssh_becomes_ssh(
    corral: Run, fake: Fake, known: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[str, list[str]]] = []
    monkeypatch.setattr("os.execvp", lambda file, argv: ran.append((file, argv)))
    fake.answer("ssh_argv", ["ssh", "-l", "root", "--", "10.0.0.1", "ls"])
    corral("ssh", "node0", "ls", "-l", "--json")
    assert ran == [("ssh", ["ssh", "-l", "root", "--", "10.0.0.1", "ls"])]
    assert fake.calls["ssh_argv"][0][0][1:] == ("node0", ["ls", "-l", "--json"])


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["-c", "laptop", "node0"], []),
        (["node0", "-c", "laptop"], []),
        (["node0", "--cluster=laptop"], []),
        (["node0", "-claptop", "ls", "-c", "x"], ["ls", "-c", "x"]),
        (["node0", "-c", "laptop", "--", "-c", "x"], ["-c", "x"]),
        (["node0", "--", "ls", "--", "-l"], ["ls", "--", "-l"]),
        (["--", "node0", "ls"], ["ls"]),
        (["-c", "laptop", "node0", "ls", "--json"], ["ls", "--json"]),
        (["node0", "-", "x"], ["-", "x"]),
    ],
)
def test_options_of_corral_stand_before_and_after_the_node(
    corral: Run,
    fake: Fake,
    known: Any,
    monkeypatch: pytest.MonkeyPatch,
    *,
    words: list[str],
    command: list[str],
) -> None:
    monkeypatch.setattr("os.execvp", lambda file, argv: None)
    fake.answer("ssh_argv", ["ssh"])
    result = corral("ssh", *words)
    assert result.exit_code == 0, result.stderr
    spec, node, passed = fake.calls["ssh_argv"][0][0]
    assert (spec.name, node, list(passed)) == ("laptop", "node0", command)


def test_an_option_that_corral_does_not_have_is_not_the_nodes(
    corral: Run, fake: Fake, known: Any
) -> None:
    assert corral("ssh", "node0", "-v").exit_code == 2
    assert corral("ssh", "-c").exit_code == 2
    assert "ssh_argv" not in fake.calls


def test_ssh_as_json_runs_nothing(corral: Run, fake: Fake, known: Any) -> None:
    fake.answer("ssh_argv", ["ssh", "x"])
    assert stdout_json(corral("ssh", "--json", "node0")) == {"argv": ["ssh", "x"]}


def test_drain_and_resume(corral: Run, fake: Fake, known: Any) -> None:
    fake.answer("drain", {"node1": "IDLE+DRAIN"})
    result = corral("drain", "node1", "--reason", "new memory")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, "node1: idle+drain")
    fake.answer("resume", {"node1": "IDLE"})
    result = corral("resume", "node1", "--json")
    assert stdout_json(result) == {"nodes": {"node1": "IDLE"}}


def test_drain_without_a_reason_is_refused(corral: Run, known: Any) -> None:
    assert corral("drain", "node1").exit_code == 2
    assert corral("drain", "node1", "--reason", " ").exit_code == 2
    assert corral("drain", "node1", "--reason", "a\nb").exit_code == 2


def test_down_needs_yes_and_lists_what_is_gone(corral: Run, fake: Fake, known: Any) -> None:
    fake.answer("down", ("container corral-laptop-node0", "network corral-laptop"))
    assert "laptop" in corral("down", "--yes").stderr, "removing is never guessed"
    assert corral("down", "laptop").exit_code == 2
    assert not fake.calls["down"]
    result = corral("down", "laptop", "--yes")
    assert result.exit_code == 0
    assert result.stdout == (
        "removed container corral-laptop-node0\nremoved network corral-laptop\n"
        "laptop: nothing is left\n"
    )


def test_down_of_a_rehearsal_leaves_the_real_cluster(corral: Run, fake: Fake, known: Any) -> None:
    fake.answer("down", ())
    assert corral("down", "laptop.yaml", "--rehearse", "--yes").exit_code == 0
    assert fake.calls["down"][0][0][0].name == "laptop-rehearsal"


# image


def test_images(corral: Run, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.answer("images", ())
    assert "corral image build" in corral("image", "list").stdout
    fake.answer("build_image", "localhost/corral-node:1")
    result = corral("image", "build", "--again", "--json")
    assert stdout_json(result) == {"reference": "localhost/corral-node:1"}
    assert fake.calls["build_image"][0][1] == {"again": True}
    fake.answer("remove_images", ("localhost/corral-node:1",))
    assert corral("image", "rm").exit_code == 2
    assert stdout_json(corral("image", "rm", "--yes", "--json")) == {
        "removed": ["localhost/corral-node:1"]
    }
