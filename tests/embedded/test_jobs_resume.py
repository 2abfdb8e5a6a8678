"""Jobs that go on: a node dies in the middle of training, a time limit comes."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from corral import api
from corral.api.workload.queue import JobHandle, JobOutcome, RankLine
from corral.events import Event, Kind
from corral.hosts.quote import sh

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

DIGITS = Path(__file__).parents[2] / "examples" / "train_digits.py"
COUNT = """\
import os, sys, time
from corral.checkpoint import Checkpoints
saved = Checkpoints(keep=2)
found = saved.load()
first = found.number + 1 if found else 0
total = found.state["total"] if found else 0
print("begins at", first, flush=True)
for step in range(first, 200):
    total += step
    saved.save(step, {"total": total})
    if os.environ["RANK"] == "0" and step == 20:
        print("is at work", flush=True)
    if saved.leaving():
        saved.leave()
    if step < 150:
        time.sleep(1 if not found else 0)
print("total", total, flush=True)
"""


def result(lines: list[RankLine]) -> dict[str, object]:
    text = next(line.text for line in lines if line.text.startswith("RESULT "))
    return json.loads(text.removeprefix("RESULT "))


class Disturbed:
    """Runs a job, does something to it at one of its lines, and lets it start again at once.

    Slurm lets a requeued job wait two minutes, until its credentials have expired; an owner may set
    its start to now.
    """

    def __init__(self, cluster: Live) -> None:
        self.cluster = cluster
        self.lines: list[RankLine] = []
        self.events: list[Event] = []
        self.handle: JobHandle | None = None
        self._hurry: asyncio.Task[None] | None = None

    async def run(self, at: str, do: list[str], **fields: object) -> JobOutcome:
        def heard(line: RankLine) -> None:
            self.lines.append(line)
            if do and at in line.text:
                self.disturb(do.pop(), line.text)

        def noticed(event: Event) -> None:
            self.events.append(event)
            if event.kind is Kind.JOB and "start time has not come" in event.message:
                self._hurry = asyncio.create_task(self._start())

        def submitted(handle: JobHandle) -> None:
            self.handle = handle

        outcome = await api.run(
            self.cluster.spec,
            api.job_spec(fields),
            noticed,
            on_line=heard,
            on_submit=submitted,
        )
        assert isinstance(outcome, JobOutcome)
        return outcome

    def disturb(self, command: str, line: str) -> None:
        subprocess.run(command.split(), check=True, capture_output=True)

    async def _start(self) -> None:
        assert self.handle is not None
        await api.execute(
            self.cluster.spec,
            ["scontrol", "update", f"JobId={self.handle.id}", "StartTime=now"],
            self.cluster.controller,
        )


@pytest.mark.slow
def test_a_node_dies_and_the_job_ends_as_an_undisturbed_one(cluster: Live) -> None:
    fields = {
        "script": str(DIGITS),
        "folder": "none",
        "nodes": 2,
        "gpus_per_node": 1,
        "requeue": True,
        "time": "30m",
        "args": ("--epochs", "25"),
    }
    undisturbed = Disturbed(cluster)
    assert asyncio.run(undisturbed.run("", [], **fields)).good, undisturbed.lines
    broken = Disturbed(cluster)
    names = [n for n in cluster.facts if n != cluster.controller]
    kill = f"podman kill corral-{cluster.spec.name}-{names[0]}"
    try:
        outcome = asyncio.run(broken.run("epoch 6/25", [kill], **fields))
    finally:
        asyncio.run(api.up(cluster.spec))
        with_node = sh("scontrol update NodeName={n} State=RESUME || :", n=names[0])
        cluster.run(cluster.controller, with_node)
    assert outcome.good, broken.lines
    assert any("goes on after epoch " in line.text for line in broken.lines)
    assert names[0] not in outcome.nodes
    ended, expected = result(broken.lines), result(undisturbed.lines)
    assert (ended["weights"], ended["accuracy"]) == (expected["weights"], expected["accuracy"])


@pytest.mark.slow
def test_a_time_limit_comes_and_the_job_goes_on(cluster: Live, tmp_path: Path) -> None:
    script = tmp_path / "count.py"
    script.write_text(COUNT)
    ran = Disturbed(cluster)
    outcome = asyncio.run(
        ran.run("", [], script=str(script), nodes=2, requeue=True, time="2m", grace="40s")
    )
    assert outcome.good, ran.lines
    begins = [line.text for line in ran.lines if line.text.startswith("begins at ")]
    assert begins.count("begins at 0") == 2
    assert len(begins) == 4, "two ranks, each started twice"
    totals = {line.text for line in ran.lines if line.text.startswith("total ")}
    assert totals == {f"total {sum(range(200))}"}
