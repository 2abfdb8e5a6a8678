# Installed as: the job's folder, next to scaling.py (api/evidence/collective_bench,
# api/evidence/node_bench)
# Started by: scaling.py
# Runs as: the user who starts the benchmark
# pyright: basic
# It runs under the node's own Python, not under Corral's.
"""Chooses what the measurement of training runs in its time: the model's size, points, cycles.

From what the first seconds measured: a step's time and the link. Standard library of
Python >= 3.8 only; ``scaling.py`` calls it.
"""

from __future__ import annotations

WARM = 2  # cycles before the measured ones: memory, buckets, PowerSGD's start
LEAST = 3  # measured cycles that have a quartile
SMALLEST = 100_000  # parameters: below, a step is the interpreter's time
SHRINK = 4
REDUCES = 0.05  # of the time: at most for each number of nodes' all_reduces
ANSWERING = 2  # points that are measured whether they fit or not: one node and all nodes
LATE = 2.0  # times its estimate: then a measurement ends with the cycles that it has


class Method:
    """A method of training.

    Attributes:
        name: as options and results call it.
        cycle: micro-batches between two exchanges of the ranks.
        share: of the gradients' bytes, what is sent at an exchange; 0: as PowerSGD sends them.
        messages: of an exchange.
        hook: what replaces DDP's all_reduce.
        local: each rank updates its own weights between exchanges.
    """

    def __init__(
        self,
        name: str,
        *,
        cycle: int = 1,
        share: float = 1.0,
        messages: int = 1,
        hook: str = "",
        local: bool = False,
    ) -> None:
        self.name, self.cycle, self.share, self.messages = name, cycle, share, messages
        self.hook, self.local = hook, local


METHODS = {
    method.name: method
    for method in (
        Method("ddp"),
        Method("accumulate", cycle=4),
        Method("bf16", share=0.5, hook="bf16"),
        Method("powersgd", share=0.0, messages=3, hook="powersgd"),
        Method("local_sgd", cycle=8, local=True),
        Method("diloco", cycle=16, local=True),
    )
}


class Speed:
    """What the first seconds measured.

    Attributes:
        step: seconds of a micro-batch, all ranks at work at once; the slowest rank's.
        alpha: seconds of a message from rank to rank.
        beta: seconds for each byte that a rank sends.
        size: bytes of the model's gradients.
        small: bytes of them as PowerSGD sends them.
        alone: as ``step``, with one node at work.
    """

    def __init__(
        self,
        step: float,
        alpha: float,
        beta: float,
        size: int,
        small: int,
        *,
        alone: float = 0.0,
    ) -> None:
        self.step, self.alpha, self.beta, self.size, self.small = step, alpha, beta, size, small
        self.alone = alone or step

    def reduce(self, ranks: int, size: float, messages: int = 1) -> float:
        """Seconds of an all_reduce over a ring."""
        turns = 2 * (ranks - 1)
        return messages * turns * self.alpha + turns / ranks * size * self.beta

    def scaled(self, share: float) -> Speed:
        """The same nodes and link with a model of this share of the parameters."""
        size, small = int(self.size * share), int(self.small * share)
        return Speed(
            self.step * share, self.alpha, self.beta, size, small, alone=self.alone * share
        )

    def seconds(self, name: str, ranks: int, cycles: int) -> float:
        """Estimate for a point: model, twin and the lone copy train, one of them with traffic."""
        method = METHODS[name]
        models = 3 if ranks > 1 else 2
        traffic = self.reduce(ranks, self.size * method.share or self.small, method.messages)
        return (cycles + WARM) * (models * method.cycle * self.step + traffic)


def points(names: list, counts: list) -> list:
    """(method, number of ranks) in the order of what each adds to the answer.

    Plain training on the fewest and on the most first: they alone answer whether several nodes pay.

    Args:
        names: methods of training.
        counts: numbers of ranks, ascending.
    """
    most = counts[-1]
    order = dict.fromkeys([counts[0], most, *counts])
    plain = [("ddp", ranks) for ranks in order]
    late = [ranks for ranks in (most, *counts[:-1]) if ranks != 1]
    rest = [(name, ranks) for ranks in dict.fromkeys(late) for name in names if name != "ddp"]
    return [*plain, *rest]


def chosen(todo: list, speed: Speed, seconds: float, batches: int, kept: int = 0) -> list:
    """The points of ``todo`` that fit into ``seconds``, as (method, ranks, cycles, seconds).

    Args:
        todo: in order; the last are left out first.
        speed: as measured.
        seconds: there are, 0: without limit.
        batches: micro-batches of each point at most.
        kept: points at the start that are measured whether they fit or not.
    """

    def at(count: int, most: int) -> list:
        cycles = [max(LEAST, most // METHODS[name].cycle) for name, _ in todo[:count]]
        return [
            (name, ranks, turns, speed.seconds(name, ranks, turns))
            for (name, ranks), turns in zip(todo, cycles)  # noqa: B905 - Python 3.10's
        ]

    if not seconds:
        return at(len(todo), batches)
    count = len(todo)
    while count > kept and total(at(count, 0)) > seconds:
        count -= 1
    most = batches
    while most > LEAST and total(at(count, most)) > seconds:
        most -= 1
    return at(count, most)


def total(entries: list) -> float:
    """Seconds of chosen points."""
    return sum(entry[3] for entry in entries)


def share_of(speed: Speed, counts: list, seconds: float, parameters: int) -> float:
    """Share of the parameters with which plain training fits into half of the time."""
    share = 1.0
    while seconds and parameters * share / SHRINK >= SMALLEST:
        scaled = speed.scaled(share)
        if sum(scaled.seconds("ddp", ranks, LEAST) for ranks in counts) <= seconds / 2:
            break
        share /= SHRINK
    return share


def reduces(sizes: list, speed: Speed, ranks: int, seconds: float, turns: int) -> list:
    """(bytes, turns) of the all_reduces: the two smallest sizes always, the others as time allows.

    A line needs two sizes; the largest show the bandwidth best, and cost most.
    """
    reductions = []
    left = seconds * REDUCES if seconds else float("inf")
    for place, size in enumerate(sorted(sizes)):
        cost = speed.reduce(ranks, size)
        times = turns if not seconds else min(turns, int(left / cost) - WARM)
        if times < LEAST and place > 1:
            break
        reductions.append((size, max(LEAST, times)))
        left -= (reductions[-1][1] + WARM) * cost
    return reductions


class Plan:
    """The points still to measure, chosen again before each with the time that is left.

    Args:
        todo: as ``points`` gives them.
        speed: as measured.
        seconds: from ``begun`` on, 0: without limit.
        batches: micro-batches of each point at most.
    """

    def __init__(self, todo: list, speed: Speed, seconds: float, batches: int) -> None:
        self.todo, self.speed, self.seconds, self.batches = list(todo), speed, seconds, batches
        self.size = len(todo)
        self.slower = 1.0  # times as long as estimated, as the last points took

    def rest(self, spent: float) -> list:
        """What is going to be measured from now on."""
        # 1 ms and not 0, which is "without limit".
        left = max(1e-3, (self.seconds - spent) / self.slower) if self.seconds else 0.0
        kept = max(0, ANSWERING - (self.size - len(self.todo)))
        fitting = chosen(self.todo, self.speed, left, self.batches, min(kept, len(self.todo)))
        return [(name, ranks, cycles, took * self.slower) for name, ranks, cycles, took in fitting]

    def next(self, spent: float):
        """The next point, None when the time or the list is over."""
        rest = self.rest(spent)
        if not rest:
            return None
        self.todo.pop(0)
        return rest[0]

    def took(self, estimate: float, seconds: float) -> None:
        """Correct the estimates by a point: never below the first ones, made under full load."""
        self.slower = max(1.0, self.slower * seconds / estimate)
