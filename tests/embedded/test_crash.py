"""SIGKILL of ``up`` at every change of the first apply: what is left converges, nothing is lost."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.embedded.conftest import Live, named, needs

from corral import api
from corral.hosts.quote import sh

REPO = Path(__file__).parents[2]
SEED = int(os.environ.get("CORRAL_TEST_SEED", "20261121"))
SAMPLES = 40 if os.environ.get("CORRAL_TEST_SLOW") else 2
KILLS = 300


def up(name: str, kill_at: int) -> tuple[int, list[str]]:
    """Exit status (negative: the signal) and the changes begun."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.embedded.killed_up", name, str(kill_at)],
        cwd=REPO, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode, done.stdout.splitlines()


@pytest.fixture
def name() -> Iterator[str]:
    reason = needs()
    if reason:
        pytest.skip(reason)
    cluster = f"kill-{os.getpid()}"
    yield cluster
    asyncio.run(api.down(named(cluster)))


def settled(name: str) -> None:
    """Up by itself now, the next plan is empty, and all nodes take work."""
    status, _ = up(name, 0)
    assert status == 0
    spec = named(name)
    plan = asyncio.run(api.plan(spec))
    assert plan.empty, [c.change.summary for s in plan.stages for c in s.changes]
    where = "srun -N3 --gres=gpu:1 -t 1 hostname | sort | tr '\\n' ' '"
    answer = Live(spec, {}).run("node0", sh("timeout 60 {s}", s=sh(where)))
    assert answer.stdout.strip() == "node0 node1 node2", answer.tail


def test_killed_at_each_change_in_turn(name: str) -> None:
    """Up is killed as soon as it begins anything, again and again, until nothing is left to begin.

    The node finishes the change it is in, since only its next progress line tells it that nobody
    listens: so each round gets at least one change further, and every change is the one killed at.
    """
    killed: list[str] = []
    for _ in range(KILLS):
        status, begun = up(name, 1)
        if status == 0:
            break
        killed.append(begun[-1])
    else:
        pytest.fail(f"no end after {KILLS} kills: {killed[-10:]}")
    resources = {line.partition(" ")[0] for line in killed}
    print(f"{len(killed)} kills at {len(resources)} kinds of change")
    assert "machine" in resources
    assert {"secret:/etc/slurm/slurm.key", "service:mariadb", "service:slurmdbd"} <= resources
    assert {"file:/etc/slurm/slurm.conf", "service:slurmctld", "service:slurmd"} <= resources
    settled(name)


@pytest.mark.parametrize("sample", range(SAMPLES))
def test_killed_in_the_middle_of_the_first_apply(name: str, sample: int) -> None:
    """A seeded sample of the first apply's changes (all of a longer run: CORRAL_TEST_SLOW=1).

    Here the machine that is being changed loses its power, too: the script on it is cut off in
    the middle of the change.
    """
    at = random.Random(SEED + sample).randrange(4, 48)
    status, begun = up(name, at)
    assert status == -signal.SIGKILL
    node = begun[-1].partition(" ")[2]
    subprocess.run(["podman", "kill", f"corral-{name}-{node}"], check=True, capture_output=True)
    print(f"seed {SEED + sample}: killed at change {at}: {begun[-1]}, power of {node} cut")
    settled(name)
