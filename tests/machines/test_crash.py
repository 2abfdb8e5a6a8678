"""SIGKILL of ``up`` in the middle of the first apply on bare machines: what is left converges."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Callable

import pytest

from corral import api
from corral.hosts.quote import sh
from tests.embedded.conftest import Live
from tests.embedded.test_crash import SEED, up
from tests.machines.conftest import spec_of
from tests.machines.lab import Lab

pytestmark = pytest.mark.slow
KILLS = 3
CHANGES = 60
"""About so many changes the first apply makes on two machines."""


def test_killed_again_and_again_in_the_first_apply(fresh_lab: Callable[..., Lab]) -> None:
    """A seeded sample of its changes; each time the machine that is changed loses its power.

    CORRAL_TEST_SEED chooses another sample.
    """
    lab = fresh_lab(f"crash-{os.getpid()}", 2)
    spec = spec_of(lab)
    dice = random.Random(SEED)
    for _ in range(KILLS):
        at = dice.randrange(2, CHANGES // KILLS)
        status, begun = up(spec, at)
        if status == 0:
            break
        assert status == signal.SIGKILL
        node = begun[-1].partition(" ")[2]
        print(f"seed {SEED}: killed at change {at}: {begun[-1]}, power of {node} cut", flush=True)
        machine = lab.machines[int(node.removeprefix("node"))]
        machine.power_cut()
        machine.on()
        lab.wait()
    status, _ = up(spec, 0)
    assert status == 0
    plan = asyncio.run(api.plan(spec))
    assert plan.empty, [c.change.summary for s in plan.stages for c in s.changes]
    where = sh("timeout 100 srun -N2 -t 2 hostname | sort")
    assert Live(spec, {}).run("node0", where, timeout=120).stdout.split() == ["node0", "node1"]
