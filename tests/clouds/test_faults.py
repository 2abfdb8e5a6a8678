"""Every fault at every call of a cluster's complete life, and the process killed at every call.

After each: run ``up`` again as a user would, then count instances, then ``down``, then count what
is left, and compare the ledger's sum with the cloud's own bill.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from corral.errors import CorralError
from corral.spec.providers import CLOUDS
from corral.testing.clouds import Fault, Faults
from corral.testing.clouds.world import Killed
from corral.testing.virtual import run
from tests.clouds.common import World

TRIES = 6


def life(world: World) -> Counter[str]:
    """Up until it works, an hour of work, down until it works; gives what happened."""
    events: Counter[str] = Counter()

    def until_done(name: str) -> None:
        for _ in range(TRIES):
            try:
                run(world.loop, getattr(world, name)())
                return
            except CorralError:
                events[f"{name} failed"] += 1
            except Killed:
                events["killed"] += 1
        raise AssertionError(f"{name} does not get done in {TRIES} runs")

    until_done("up")
    # Late instances show up, the next check of `up` ends the double ones.
    run(world.loop, asyncio.sleep(120))
    until_done("up")
    names = Counter(m.name.rsplit("-", 1)[0] for m in world.sim.alive())
    events["double"] += sum(n - 1 for n in names.values())
    events["missing"] += 2 - len(names)
    run(world.loop, asyncio.sleep(3600))
    until_done("down")
    events["orphans"] += len(world.sim.alive())
    made = ("ssh_keys", "scripts", "clusters")
    events["extras"] += sum(len(getattr(world.sim, name, ())) for name in made)
    return events


def calls_of(name: str, folder: Path) -> int:
    """How many calls the undisturbed life makes."""
    world = World(name, folder)
    life(world)
    return len(world.sim.calls)


def verdict(world: World, events: Counter[str]) -> list[str]:
    """What is not as it must be."""
    bad = [f"{k}: {events[k]}" for k in ("double", "missing", "orphans", "extras") if events[k]]
    bad += world.sim.violations[:2]
    bill, counted = world.sim.bill(), world.spent()
    # Counted from before the launch until the end was seen: never less than the bill, and more by
    # the minutes that a lost answer takes to notice, no more; a launch of which nothing came is
    # counted until down has seen that there is none.
    if not bill - 1e-6 <= counted <= bill * 1.12 + 0.05:
        bad.append(f"spent {counted:.3f}, bill {bill:.3f}")
    return bad


@pytest.mark.parametrize("name", CLOUDS)
def test_undisturbed(name: str, tmp_path: Path) -> None:
    world = World(name, tmp_path)
    events = life(world)
    assert verdict(world, events) == []
    assert not events["up failed"] and not events["down failed"]
    assert not [c for c in world.sim.calls if c.status in (0, 429) or c.status >= 500]


@pytest.mark.parametrize("fault", [*Fault, "killed before", "killed after"])
@pytest.mark.parametrize("name", CLOUDS)
def test_every_call(
    name: str, fault: Fault | str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One fault at each call in turn; the table of all of them is printed (``-s``)."""
    total, bad = calls_of(name, tmp_path / "first"), []
    sums: Counter[str] = Counter()
    for call in range(total):
        faults = Faults()
        if isinstance(fault, Fault):
            faults.at[call] = fault
        elif fault == "killed before":
            faults.kill_before = call
        else:
            faults.kill_after = call
        world = World(name, tmp_path / str(call), options={"faults": faults})
        events = life(world)
        sums += events
        bad += [
            f"call {call} {world.sim.calls[call].operation}: {v}" for v in verdict(world, events)
        ]
    with capsys.disabled():
        again = sums["up failed"] + sums["down failed"] + sums["killed"]
        print(
            f"\n{name:<11}{fault:<14}{total:>4} calls, {again:>3} runs ended by it;"
            f" double {sums['double']}, orphans {sums['orphans']}, wrong {len(bad)}",
            end="",
        )
    assert bad == []
