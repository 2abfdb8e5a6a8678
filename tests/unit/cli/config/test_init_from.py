"""``corral init --from`` and ``corral keys``: what is parsed, called and shown."""

from __future__ import annotations

from pathlib import Path

from corral.api.config.cluster_draft import Draft
from corral.hosts.keysetup import Installed
from tests.unit.cli.conftest import Fake, Run, stdout_json

MADE = Draft("lab", "corral: v1\n", {"10.0.0.1": "node0"}, ("node0: its clock is 9 s ahead",))


def test_all_addresses_go_to_one_use_case(corral: Run, fake: Fake, home: Path) -> None:
    fake.answer("discover", MADE)
    done = corral("init", "--from", "10.0.0.1", "10.0.0.2", "10.0.0.3", "--user", "bob", "--keys")
    assert done.exit_code == 0, done.stderr
    ((args, kwargs),) = fake.calls["discover"]
    assert args[0] == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    assert (kwargs["access"].user, kwargs["access"].install_key) == ("bob", True)
    assert (kwargs["name"], kwargs["file"]) == ("lab", "lab.yaml")
    assert (home / "lab.yaml").read_text() == "corral: v1\n"
    assert "its clock is 9 s ahead" in done.stderr
    assert "next: corral up lab.yaml --rehearse" in done.stdout


def test_a_file_that_is_there_is_left_and_no_machine_is_asked(
    corral: Run, fake: Fake, home: Path
) -> None:
    fake.answer("discover", MADE)
    (home / "lab.yaml").write_text("mine")
    done = corral("init", "--from", "10.0.0.1")
    assert (done.exit_code, fake.calls["discover"]) == (2, [])
    assert (home / "lab.yaml").read_text() == "mine"
    assert corral("init", "--from", "10.0.0.1", "--force").exit_code == 0
    assert (home / "lab.yaml").read_text() == "corral: v1\n"


def test_to_stdout(corral: Run, fake: Fake) -> None:
    fake.answer("discover", MADE)
    assert corral("init", "--from", "10.0.0.1", "-o", "-").stdout == "corral: v1\n"
    shown = stdout_json(corral("init", "--from", "10.0.0.1", "-o", "-", "--json"))
    assert shown == {"text": "corral: v1\n", "warnings": ["node0: its clock is 9 s ahead"]}


def test_two_kinds_are_none(corral: Run) -> None:
    done = corral("init", "laptop", "lab")
    assert done.exit_code == 2
    assert "write --from first" in done.stderr


def test_keys_install(corral: Run, fake: Fake) -> None:
    fake.answer("install_keys", (Installed("node0", "bob@10.0.0.1", "was there already"),))
    done = corral("keys", "install", "laptop.yaml", "--json")
    assert done.exit_code == 0, done.stderr
    assert stdout_json(done)["nodes"][0]["how"] == "was there already"
