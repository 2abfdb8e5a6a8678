"""``corral`` alone names what is here and the one command that comes next."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral import api
from corral.api.config import situation
from corral.cli.config import first_command
from corral.spec.models import ClusterSpec

from .conftest import Run

NOTHING = api.Situation()
STATES = {
    "nothing": (NOTHING, "no podman", "corral init --from ADDRESS"),
    "podman": (api.Situation(podman=True), "podman is installed", "corral init laptop -o"),
    "gpus": (api.Situation(gpus=1, podman=True), "1 NVIDIA GPU", "corral init --here -o here.yaml"),
    "file": (
        api.Situation(files=("my lab.yaml",), gpus=8),
        "my lab.yaml",
        "corral up 'my lab.yaml'",
    ),
    "profile": (api.Situation(profiles=("theirs",)), "logged in to", "corral status -c theirs"),
    "cluster": (
        api.Situation(clusters=("lab",), files=("lab.yaml",), podman=True),
        "brought up from here: lab",
        "corral status -c lab",
    ),
    "many": (
        api.Situation(clusters=tuple(f"c{i}" for i in range(30))),
        "c0, c1, c2, c3, c4 and 25 more",
        "corral status -c c0",
    ),
}


@pytest.mark.parametrize("state", STATES)
def test_each_state_has_its_next_command(state: str) -> None:
    here, fact, command = STATES[state]
    text = first_command.lines(here)
    assert len(text) <= 9
    assert any(fact in line for line in text)
    assert [line for line in text if line.startswith("next: ")] == [
        line for line in text if line.startswith(f"next: {command}")
    ]
    assert "corral --help" in text[-1]


def test_corral_alone(
    corral: Run, home: Path, known: ClusterSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(situation, "driven", lambda: 2)
    ended = corral()
    assert ended.exit_code == 2
    assert "brought up from here: laptop" in ended.stdout
    assert "cluster files of this folder: laptop.yaml" in ended.stdout
    assert "this machine: 2 NVIDIA GPUs" in ended.stdout
    assert "next: corral status -c laptop" in ended.stdout
    assert "Usage:" not in ended.stdout


def test_only_cluster_files_are_named(home: Path) -> None:
    (home / "other.yaml").write_text("name: x\ntext: corral: v1\n")
    (home / "quoted.yml").write_text('# mine\ncorral: "v1"\n')
    (home / "binary.yaml").write_bytes(b"\xff" * 10_000)
    (home / "folder.yaml").mkdir()
    (home / "closed.yaml").symlink_to(home / "gone")
    assert situation.situation(home).files == ("laptop.yaml", "quoted.yml")
