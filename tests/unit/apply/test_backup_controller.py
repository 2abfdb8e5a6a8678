"""Which controller is asked: the backup while the first is silent, without waiting each time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from corral.apply import connection
from corral.apply.connection import CHOSEN, CHOSEN_S, Connection
from corral.errors import Code, CorralError
from corral.providers.containers import machine
from corral.spec.load import load_or_raise
from corral.spec.models import BackupController, ClusterSpec

LAPTOP = Path(__file__).parents[3] / "examples" / "laptop.yaml"


class Machines:
    """The fleet: machines that are silent or answer, and who was asked."""

    nodes = ("node0", "node1", "node2")

    def __init__(self, *silent: str) -> None:
        self.silent = set(silent)
        self.asked: list[tuple[str, ...]] = []

    async def all(self, script: object, nodes: Sequence[str], *, timeout: float) -> dict[str, Any]:
        self.asked.append(tuple(nodes))
        lost = CorralError(Code.UNREACHABLE, "silent")
        answers = {node: SimpleNamespace(ok=True) for node in nodes}
        return {n: lost if n in self.silent else answer for n, answer in answers.items()}


@pytest.fixture
def spec() -> ClusterSpec:
    spec = load_or_raise(LAPTOP)
    backup = BackupController(node="node1", state="/shared/slurmctld")
    slurm = spec.slurm.model_copy(update={"backup_controller": backup})
    return spec.model_copy(update={"slurm": slurm})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(connection, "cluster_dir", lambda *_, **__: tmp_path)
    monkeypatch.setattr(machine, "host_runtime", tuple)  # whatever this machine has
    return tmp_path


def chosen(spec: ClusterSpec, machines: Machines) -> str:
    """The controller of the next question."""

    class Opened(Connection):
        async def refresh(self) -> None:
            self.fleet = machines  # pyright: ignore[reportAttributeAccessIssue]

    return asyncio.run(Opened.open(spec)).controller


BOTH, BACKUP = ("node0", "node1"), ("node1",)


def test_a_silent_controller_is_waited_for_once_a_minute(spec: ClusterSpec, folder: Path) -> None:
    machines = Machines("node0")
    assert [chosen(spec, machines) for _ in range(3)] == ["node1"] * 3
    assert machines.asked == [BOTH, BACKUP, BACKUP]
    past = (folder / CHOSEN).stat().st_mtime - CHOSEN_S
    os.utime(folder / CHOSEN, (past, past))
    machines.silent.clear()
    assert [chosen(spec, machines) for _ in range(2)] == ["node0"] * 2
    assert machines.asked[3:] == [BOTH, BOTH]


def test_a_chosen_backup_that_is_silent_now_is_left(spec: ClusterSpec, folder: Path) -> None:
    machines = Machines("node0")
    assert chosen(spec, machines) == "node1"
    machines.silent = {"node1"}
    assert chosen(spec, machines) == "node0"
    assert machines.asked == [BOTH, BACKUP, BOTH]
    machines.silent = {"node0", "node1"}
    assert chosen(spec, machines) == "node0"


def test_without_a_folder_nothing_is_kept(spec: ClusterSpec, folder: Path) -> None:
    machines = Machines("node0")
    folder.rmdir()
    assert [chosen(spec, machines) for _ in range(2)] == ["node1"] * 2
    assert machines.asked == [BOTH, BOTH]


def test_a_file_of_anybody_else_chooses_nothing(spec: ClusterSpec, folder: Path) -> None:
    for text in ("node2", "node0", "../x", ""):
        (folder / CHOSEN).write_text(text)
        machines = Machines()
        assert chosen(spec, machines) == "node0"
        assert machines.asked == [BOTH]
