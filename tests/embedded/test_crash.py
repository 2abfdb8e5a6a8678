"""SIGKILL of ``up`` at every change of the first apply: what is left converges, nothing is lost."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import traceback
from collections.abc import Collection, Iterator

import pytest
from tests.embedded.conftest import Live, named, needs

from corral import api
from corral.events import Event, Kind
from corral.hosts.quote import sh
from corral.spec.models import ClusterSpec

SEED = int(os.environ.get("CORRAL_TEST_SEED", "20261121"))
CHANGES = range(4, 34)
DRAWN = list(dict.fromkeys(random.Random(SEED + i).choice(CHANGES) for i in range(40)))
"""A seeded sample of the first apply's changes, each once."""
SAMPLES = [DRAWN[0], *(pytest.param(at, marks=pytest.mark.slow) for at in DRAWN[1:])]
KILLS = 300


def up(spec: ClusterSpec, kill_at: int, known: Collection[str] = ()) -> tuple[int, list[str]]:
    """``up`` in a separate process that SIGKILLs itself at the N-th thing it begins (0: never).

    What is ``known`` does not count. Gives its wait status (the signal when killed) and what it
    began, as ``resource node``.
    """
    reading, writing = os.pipe()
    child = os.fork()  # what is imported already need not be imported again, 50 times
    if child == 0:
        os.close(reading)
        status = 1
        try:
            asyncio.run(api.up(spec, Fuse(kill_at, writing, known)))
            status = 0
        except BaseException:  # the child must not go on as a second pytest
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as lines:
        begun = lines.read().splitlines()
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), f"up failed after {begun[-3:]}"
    return status, begun


def kill_scripts(name: str) -> None:
    """SIGKILL every script of Corral on the nodes (all of them have the framing's command line).

    From here, by the nodes' process namespaces: a program in each of the machines takes longer.
    """
    running = ["podman", "ps", "--filter", f"name=^corral-{name}-node", "--format", "{{.Pid}}"]
    listed = subprocess.run(running, check=True, capture_output=True, text=True, timeout=60)
    for init in listed.stdout.split():
        kill = ["pkill", "-9", "--ns", init, "--nslist", "pid", "-f", r"IFS= read -r n.*head -c"]
        # 1: it runs none; the init may have ended meanwhile.
        subprocess.run(kill, capture_output=True, timeout=60)


class Fuse:
    """Burns at the N-th change or machine that is begun, of those that are not known."""

    def __init__(self, at: int, out: int, known: Collection[str] = ()) -> None:
        self.left = at
        self.out = out
        self.known = known

    def __call__(self, event: Event) -> None:
        machine = event.kind is Kind.NODE_STARTED and event.subject == "machines"
        if not machine and event.kind is not Kind.CHANGE_STARTED:
            return
        begun = f"{'machine' if machine else event.subject} {event.node}"
        os.write(self.out, f"{begun}\n".encode())
        self.left -= begun not in self.known
        if self.left == 0 and begun not in self.known:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def name() -> Iterator[str]:
    reason = needs()
    if reason:
        pytest.skip(reason)
    cluster = f"kill-{os.getpid()}"
    yield cluster
    asyncio.run(api.down(named(cluster)))


def settled(name: str) -> None:
    """Up, undisturbed this time: the next plan is empty, and all nodes take work."""
    spec = named(name)
    status, _ = up(spec, 0)
    assert status == 0
    plan = asyncio.run(api.plan(spec))
    assert plan.empty, [c.change.summary for s in plan.stages for c in s.changes]
    where = "srun -N3 --gres=gpu:1 -t 1 hostname | sort | tr '\\n' ' '"
    answer = Live(spec, {}).run("node0", sh("timeout 60 {s}", s=sh(where)))
    assert answer.stdout.strip() == "node0 node1 node2", answer.tail


@pytest.mark.slow
def test_killed_at_each_change_in_turn(name: str) -> None:
    """Up is killed as soon as it begins anything new, again and again, until nothing is left.

    Its scripts on the nodes are killed with it, in the middle of what they do; so the next round
    begins with the same thing, goes through it, and is killed at the first new one.
    """
    killed: list[str] = []
    for _ in range(KILLS):
        status, begun = up(named(name), 1, killed)
        if status == 0:
            break
        kill_scripts(name)
        assert begun[-1] not in killed
        killed.append(begun[-1])
    else:
        pytest.fail(f"no end after {KILLS} kills: {killed[-10:]}")
    resources = {line.partition(" ")[0] for line in killed}
    print(f"{len(killed)} kills at {len(resources)} kinds of change")
    # Which ones it is among neighbours of one script depends on how far that came before it was
    # killed; that all kinds of change were hit does not.
    assert "machine" in resources
    assert len(resources) >= 12, sorted(resources)
    kinds = {name.partition(":")[0] for name in resources}
    assert {"secret", "service", "file", "database"} <= kinds, sorted(resources)
    settled(name)


@pytest.mark.parametrize("at", SAMPLES)
def test_killed_in_the_middle_of_the_first_apply(name: str, at: int) -> None:
    """Here the machine that is being changed loses its power, too: the script on it is cut off in
    the middle of the change.
    """
    status, begun = up(named(name), at)
    assert status == signal.SIGKILL
    node = begun[-1].partition(" ")[2]
    subprocess.run(["podman", "kill", f"corral-{name}-{node}"], check=True, capture_output=True)
    print(f"seed {SEED}: killed at change {at}: {begun[-1]}, power of {node} cut")
    settled(name)
