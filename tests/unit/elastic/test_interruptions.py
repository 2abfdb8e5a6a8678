"""A training on a machine that its cloud takes back, again and again, over a clock that nobody waits for.

What decides is Corral's own: ``preemption.sh`` on the node, ``corral.checkpoint`` in the job, ``marks.decide``
for the node, ``require_within`` and ``wind-down.sh`` for the budget. Simulated are time, Slurm's records and the cloud.
"""  # noqa: E501

from __future__ import annotations

import math
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral import checkpoint
from corral.checkpoint import Checkpoints
from corral.elastic import marks
from corral.errors import Code, CorralError
from corral.inspect.slurm import NODES
from corral.providers.cloud.budget import Spend, require_within, reserved
from corral.spec.sections.cloud import ELASTIC_RETRY_S, TERMINATION_S, Budget
from tests.preemption import acted, prepared
from tests.wind_down import ran

NOTICE_S, MARGIN_S = 30, 5
SAVE_S = 3
START_S = 600
MEAN_S = 3600
PRICE = 2.5
GRACE_S = 600
NODE = "NodeName=gpu0 CoresPerSocket=1 CPUAlloc=0 State={state} ThreadsPerCore=1{reason}"
TAKEN = f" Reason={marks.TAKEN_REASON} [root@2026-11-29T10:00:00]"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files need not survive a power cut here, nor hold tensors."""
    monkeypatch.setattr(os, "fsync", lambda number: None)
    monkeypatch.setattr(checkpoint, "_torch", lambda: None)
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


class World:
    """One node, one job, a clock, and what was paid.

    Args:
        folder: for checkpoints and for the fake Slurm.
        seed: of what happens when.
        total: dollars that may be spent.
    """

    def __init__(self, folder: Path, seed: int, total: float = 1e9) -> None:
        self.fake = prepared(folder / "fake")
        (self.fake / "done").write_text("")
        self.saved = folder / "checkpoints"
        self.draw = random.Random(seed)
        self.now, self.spent = 1_000_000.0, 0.0
        self.allow(total)
        self.reached = self.kept = 0
        self.step_s, self.every = 10, 60
        self.kinds: Counter[str] = Counter()
        self.lost: list[float] = []

    def allow(self, total: float) -> None:
        self.total, self.budget = total, Budget(total=total, grace=f"{GRACE_S}s")
        self.over = False

    @property
    def interval(self) -> float:
        return self.every * self.step_s + SAVE_S

    def live(self) -> None:
        """One machine from its launch to its end.

        Raises:
            CorralError: the budget allows no machine any more.
        """
        if self.over:  # the driver launches nothing from then on
            raise CorralError(Code.NOT_GOOD, "the budget is spent")
        require_within(self.budget, Spend(0.0, self.spent), [PRICE], "gpu0")
        launched, begin = self.now, self.now + START_S
        gone = begin + self.draw.expovariate(1 / MEAN_S)
        noticed = self.draw.random() < 0.5
        left = self.total - self.spent - reserved(self.budget, PRICE)
        # Seen at a poll, at the latest after one that failed.
        ending = launched + left / PRICE * 3600 + self.draw.uniform(0, ELASTIC_RETRY_S)
        kind = "noticed" if noticed else "gone"
        if ending < gone - NOTICE_S:
            # The driver's end of a budget: the job's new end, and its signal before that.
            gone, noticed, kind = ending + GRACE_S, True, "spent"
        if ending <= begin and kind == "spent":  # without a job nobody waits for the grace
            self.now, self.reached = ending, self.kept
            self.lost.append(0.0)
        else:
            self.lost.append(self.trained(begin, gone, kind if noticed else ""))
        self.kinds[kind] += 1
        if kind == "spent":  # the machine is ended a poll later, and that takes a time
            self.now += self.draw.uniform(0, ELASTIC_RETRY_S + TERMINATION_S)
        self.spent += PRICE * (self.now - launched) / 3600
        self.over = kind == "spent"
        if not self.over:
            self.replaced(noticed=noticed)

    def trained(self, begin: float, gone: float, kind: str) -> float:
        """The guide's loop until the machine goes; gives the seconds of work that are lost."""
        saved = Checkpoints(self.saved, keep=2)
        newest = saved.load()
        # What an earlier machine did behind it is done again, and was counted there.
        self.reached = step = newest.number if newest else 0
        assert step == self.kept
        time, kept, until = begin, begin, gone
        warned = not kind
        while True:
            after = time + self.step_s
            if not warned and gone - NOTICE_S <= after:
                warned = True
                until = min(until, self.warned(kind, gone, after + SAVE_S))
            if after > until:
                break
            time, step = after, step + 1
            self.reached = step
            leaving = saved.leaving()
            if leaving or step % self.every == 0:
                if time + SAVE_S > until:  # the machine goes while it saves
                    (self.saved / f"{step:012}.ckpt.part").write_bytes(b"torn")
                    break
                saved.save(step, {"step": step})
                self.kept = step
                time = kept = time + SAVE_S
            if leaving:
                self.now = time
                return 0.0
        self.now = until
        return until - kept

    def warned(self, kind: str, gone: float, leaves: float) -> float:
        """The node's program, or the budget's; gives when the node is down."""
        now, leaves = math.ceil(gone - NOTICE_S), math.ceil(leaves)
        if kind == "spent":
            (self.fake / "jobs").write_text(f"7 R {int(now - 3600)} NONE\n")
            printed = ran(self.fake, "end", "gpu0", str(int(gone)))
            assert "Slurm sends the signal that it asked for" in printed
            os.kill(os.getpid(), signal.SIGUSR1)
            return gone
        calls, down = acted(self.fake, f"7 corral:signal=USR1 {leaves}\n", now)
        assert f"state=drain reason={marks.TAKEN_REASON}" in calls
        if "scancel --batch --signal=USR1 -- 7" in calls:
            os.kill(os.getpid(), signal.SIGUSR1)
        assert down <= gone
        return max(down, leaves) if leaves <= now + NOTICE_S - MARGIN_S else down

    def replaced(self, *, noticed: bool) -> None:
        """From the states that Slurm has then to another machine."""
        if noticed:
            first = self.decide("DOWN+CLOUD+DRAIN", TAKEN, ("gpu0",))
            assert (first.taken, first.failed) == (("gpu0",), ())
        else:
            first = self.decide("ALLOCATED+CLOUD", "", ())
            assert first.lost == ("gpu0",)
        off = self.decide("DOWN+CLOUD+DRAIN+POWERED_DOWN", TAKEN, ())
        assert off.back == ("gpu0",)
        assert self.decide("ALLOCATED+CLOUD+POWERING_UP", "", ()).come == ("gpu0",)

    def decide(self, state: str, reason: str, rented: tuple[str, ...]) -> marks.Marks:
        states = marks.states(NODES.parse(NODE.format(state=state, reason=reason)))
        return marks.decide(states, rented, (), {"spot": (("gpu0",), 0)})


def interrupted(world: World, count: int) -> None:
    """The machine is taken so often; whenever the budget ends it, a person allows 20 $ more."""
    while len(world.lost) < count:
        # Short and long steps: of the long ones not every one ends before the machine.
        world.step_s = world.draw.choice((1, 10, 20, 40))
        world.every = world.draw.choice((15, 30, 60))
        try:
            world.live()
        except CorralError as error:
            assert "budget" in error.message
            world.allow(world.total + 20)
            continue
        assert world.lost[-1] <= world.interval
        assert world.reached - world.kept <= world.every
        assert world.spent < world.total + 1e-6


def test_no_interruption_loses_more_than_an_interval(tmp_path: Path) -> None:
    world = World(tmp_path, 16, total=20)
    interrupted(world, 40)
    assert world.reached > 0
    assert min(world.kinds["noticed"], world.kinds["gone"]) > 10
    assert world.kinds["spent"] > 2


@pytest.mark.slow
def test_of_1000_interruptions_none_loses_more_than_an_interval(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(tmp_path, 1000, total=20)
    interrupted(world, 1000)
    nothing = sum(lost == 0 for lost in world.lost)
    with capsys.disabled():
        print(
            f"\n{dict(world.kinds)}: {nothing} lost nothing, worst {max(world.lost):.0f} s; "
            f"{world.spent:.2f} $ spent of {world.total:.2f} $"
        )
    assert len(world.lost) == 1000
    assert nothing > 300
    assert world.kinds["spent"] > 50


def test_a_notice_loses_nothing_where_step_and_checkpoint_fit_into_it(tmp_path: Path) -> None:
    world = World(tmp_path, 3)
    for _ in range(20):
        world.live()
    kinds = sum(lost == 0 for lost in world.lost)
    assert kinds >= world.kinds["noticed"] > 5


def test_the_budget_holds_and_the_last_machine_saves_too(tmp_path: Path) -> None:
    world = World(tmp_path, 5, total=20)
    with pytest.raises(CorralError, match="budget"):
        for _ in range(1000):
            world.live()
    assert 20 - reserved(world.budget, PRICE) <= world.spent < 20 + 1e-6
    assert world.kinds["spent"] == 1
    assert world.lost[-1] == 0
