"""Which cluster is meant, errors, usage, Ctrl-C and help: how every verb begins and ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corral.cli.main import VERBS, load_verb
from corral.cli.terminal.ui import InterruptedByUserError, Ui
from corral.errors import Code, CorralError, NodesFailedError
from corral.spec.models import ClusterSpec

from .conftest import Fake, Run, remember, stdout_json
from .test_verbs import STATUS

Golden = Callable[[str, str], None]


REFUSED = CorralError(
    Code.SLURM_REFUSED,
    "Slurm did not change node1",
    node="node0",
    command="scontrol update NodeName=node1",
    status=1,
    tail="slurm_update error: Invalid node state\x1b[2J specified",
    hint="see their states with: corral status",
)


# which cluster


def test_no_cluster_is_known(corral: Run) -> None:
    result = corral("status")
    assert result.exit_code == 2
    assert "corral up FILE" in result.stderr


def test_several_clusters_are_known(corral: Run, known: ClusterSpec, fake: Fake) -> None:
    remember(known.model_copy(update={"name": "other"}))
    fake.answer("status", STATUS)
    result = corral("status")
    assert result.exit_code == 2
    assert "laptop, other" in result.stderr
    assert corral("status", "-c", "other").exit_code == 1
    assert fake.calls["status"][0][0][0].name == "other"
    assert corral("status", "-c", "nobody").exit_code == 2


def test_a_cluster_by_environment_and_by_file(
    corral: Run, known: ClusterSpec, fake: Fake, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    fake.answer("status", STATUS)
    monkeypatch.setenv("CORRAL_CLUSTER", "laptop")
    assert corral("status").exit_code == 1
    text = (home / "laptop.yaml").read_text().replace("name: laptop", "name: elsewhere")
    (home / "two.yaml").write_text(text)
    assert corral("status", "two.yaml").exit_code == 1
    assert [call[0][0].name for call in fake.calls["status"]] == ["laptop", "elsewhere"]


@pytest.mark.parametrize("name", ["../../etc", "a b", "$(id)", "-x", "LAPTOP"])
def test_hostile_cluster_names_are_refused(name: str, corral: Run, home: Path) -> None:
    before = sorted(home.parent.rglob("*"))
    result = corral("status", f"--cluster={name}")
    assert result.exit_code == 2
    assert sorted(home.parent.rglob("*")) == before


# errors


def test_an_error_for_people(corral: Run, fake: Fake, known: Any, golden: Golden) -> None:
    fake.answer("resume", REFUSED)
    result = corral("resume", "node1")
    assert (result.exit_code, result.stdout) == (1, "")
    golden("cli/error.txt", result.stderr)


def test_an_error_of_many_nodes(corral: Run, fake: Fake, golden: Golden) -> None:
    errors = tuple(CorralError(Code.UNREACHABLE, "no route", node=f"n{i}") for i in range(8))
    several = NodesFailedError(
        Code.UNREACHABLE,
        "reading facts failed on 8 nodes (n[0-7])",
        hint="is it the switch?",
        errors=errors,
    )
    fake.answer("plan", several)
    result = corral("plan", "laptop.yaml")
    assert result.exit_code == 3
    golden("cli/error-nodes.txt", "\n".join(result.stderr.splitlines()[-8:]) + "\n")
    assert len(stdout_json(corral("plan", "laptop.yaml", "--json"))["error"]["errors"]) == 8


def test_an_error_as_json(corral: Run, fake: Fake, known: Any) -> None:
    fake.answer("resume", REFUSED)
    result = corral("resume", "node1", "--json")
    assert stdout_json(result) == {"error": REFUSED.as_dict()}
    assert result.exit_code == 1


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["drain"],
        ["plan", "a", "b"],
        ["plan", "--nonsense", "laptop.yaml"],
        ["plan", "none.yaml"],
        ["exec"],
        ["exec", "-n", "node[0-", "--", "true"],
        ["exec", "-n", "node99", "--", "true"],
        ["image"],
        ["image", "nonsense"],
        ["up", "laptop.yaml", "--rehearse=yes"],
        ["down", "laptop", "--rehearse"],
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_usage_errors_are_2(words: list[str], as_json: bool, corral: Run, known: Any) -> None:
    words = [words[0], *(["--json"] if as_json and words[0] != "image" else []), *words[1:]]
    result = corral(*words)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    if "--json" in words:
        assert stdout_json(result)["error"]["code"] in ("usage", "not-found")


def test_a_typo_gets_a_suggestion(corral: Run) -> None:
    assert "the nearest name is status" in corral("statsu").stderr


def test_what_nobody_expected_is_one_line_without_a_traceback(
    corral: Run, fake: Fake, known: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.answer("status", KeyError("node\x1b[2J"))
    result = corral("status")
    assert result.exit_code == 3
    assert result.stderr.startswith("error: unexpected KeyError: 'node")
    assert "Traceback" not in result.stderr
    assert "CORRAL_DEBUG=1" in result.stderr
    monkeypatch.setenv("CORRAL_DEBUG", "1")
    assert "Traceback" in corral("status").stderr


@pytest.mark.parametrize("verb", ["plan", "up", "prove", "status"])
def test_ctrl_c_reports_how_things_are_and_how_to_go_on(
    verb: str, corral: Run, fake: Fake, known: Any
) -> None:
    fake.answer(verb, KeyboardInterrupt())
    result = corral(verb, "laptop.yaml", "--json")
    assert result.exit_code == 130
    assert f"continues from there: corral {verb} laptop.yaml --json" in result.stderr
    assert stdout_json(result)["error"]["code"] == "interrupted"


# help


@pytest.mark.parametrize("verb", VERBS)
def test_help_describes_and_shows_an_example(verb: str, corral: Run) -> None:
    result = corral(verb, "--help")
    assert result.exit_code == 0
    assert f"    corral {verb}" in result.stdout
    summary = load_verb(verb).help.splitlines()[0]
    assert VERBS[verb].summary.rstrip(".") in summary.rstrip(".;").replace(";", ";"), summary


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_takes_json(verb: str, corral: Run) -> None:
    """Where a verb has sub-commands, each of them does."""
    below = getattr(load_verb(verb), "commands", {})
    for words in [[verb, name] for name in below] or [[verb]]:
        assert "--json" in corral(*words, "--help").stdout, words


def test_help_and_version(corral: Run, golden: Golden) -> None:
    golden("cli/help.txt", corral("--help").stdout)
    assert corral("--version").stdout.startswith("corral 0.")
    assert corral().exit_code == 2


def test_ctrl_c_while_the_question_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C may come before the question is read: the state is reported nonetheless."""
    ui = Ui()

    def pressed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Ui, "interactive", True)
    monkeypatch.setattr(ui.err, "print", pressed)
    with pytest.raises(InterruptedByUserError, match="job 7 keeps running"):
        ui.confirm("Cancel job 7?", state="job 7 keeps running")
