"""The page without slurmrestd, where Slurm's own commands are as old as Debian 12's."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from corral.api.operations.nodes import CommandResult
from corral.slurm.records import Partition
from corral.web.settings import Declared
from corral.web.slurm import commands
from corral.web.slurm.commands import ByCommands
from corral.web.slurm.slurmrest import Login
from tests.unit.slurm.test_records import PARTITION_LINE

OLD = Path(__file__).parents[3] / "recorded" / "commands" / "22.05"


def test_partitions_of_22_05_come_with_their_state_and_limits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its scontrol has no ``--json``; they were made up of the nodes, each as up and endless."""
    line = PARTITION_LINE.format(name="main", most="2", longest="1-00:00:00", state="DOWN")

    async def command(_: Any, user: str, words: tuple[str, ...], *more: str) -> CommandResult:
        if "--json" in words:
            return CommandResult(1, "", (OLD / "scontrol.txt").read_text())
        assert words == ("scontrol", "--oneliner", "show", "partitions")
        return CommandResult(0, f"{line}\n", "")

    monkeypatch.setattr(commands.api, "slurm_command", command)
    slurm: Any = ByCommands(Declared(None))  # type: ignore[arg-type]
    assert asyncio.run(slurm.partitions(Login("kim", "t"))).records == (
        Partition("main", "DOWN", "node[0-2]", 3, 86400, 2),
    )
