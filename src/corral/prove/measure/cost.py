"""What training over several nodes costs: time by latency, bandwidth and overlap. Pure.

A ring of n ranks sends S bytes in 2(n-1) turns of S/n bytes each (Patarasuk and Yuan, 2009): the
time is ``2(n-1) x alpha + 2(n-1)/n x S x beta`` for each message. Of that, what overlaps the
backward pass is hidden; what synchronizes at each step waits for its slowest rank as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from corral.agents.benchmarks.scaling_plan import METHODS as MEASURED

LINE: Final = 0.95
"""Share of a line's rate that large all_reduces over TCP reach (containers, tbf at 1 and 2.5 Gb/s:
0.96; Ethernet frames of 1500 bytes carry 0.949)."""


FULL: Final = 0.8
"""Of its line's rate: from there on the line is the limit, and not the nodes."""
OVER: Final = 1.25
"""Times a line's rate: who sends faster has another link than the declared one (tbf at 2.5 Gb/s
with its bucket: 1.10)."""
_TURNS: Final = 30


@dataclass(frozen=True, slots=True)
class Timed:
    """One all_reduce: ranks, bytes, seconds."""

    ranks: int
    size: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost model of one cluster.

    Attributes:
        alpha: seconds of one message from rank to rank.
        beta: seconds for each byte that a rank sends.
        overlap: share of the backward pass under which traffic is hidden, 0 to 1.
        extra: seconds of a step that neither computing nor traffic explains.
    """

    alpha: float
    beta: float
    overlap: float = 0.0
    extra: float = 0.0

    def reduce(self, ranks: int, size: float, messages: int = 1) -> float:
        """Seconds of an all_reduce of ``size`` bytes in all, in so many messages."""
        turns = 2 * (ranks - 1)
        return messages * turns * self.alpha + turns / ranks * size * self.beta

    def on_link(self, gbps: float, now: float = 0.0) -> Cost:
        """The same nodes on a link of another rate, never faster than the nodes themselves.

        Args:
            gbps: the other rate.
            now: the rate of the link they have, 0 when it is not known. Where the link is what
                limits them, their speed is unknown: then a faster link counts in full.
        """
        full = 8e-9 / (gbps * LINE)
        return replace(self, beta=full if self.limited(now) else max(self.beta, full))

    def limited(self, now: float) -> bool:
        """Whether a link of so many Gb/s (0: not known) is what limits the nodes."""
        if not now:
            return False
        return 8e-9 / (now * OVER) <= self.beta <= 8e-9 / (now * LINE) / FULL

    @property
    def busbw(self) -> float:
        """GB/s of large messages."""
        return 1e-9 / self.beta if self.beta else 0.0


def fitted(timed: Sequence[Timed]) -> Cost:
    """Alpha and beta by the least sum of relative errors; neither below 0.

    Relative, since else the largest size alone would decide; the sum and not the squares, since one
    disturbed measurement must not decide either (iteratively reweighted least squares).
    """
    rows = [
        (2 * (t.ranks - 1) / t.seconds, 2 * (t.ranks - 1) / t.ranks * t.size / t.seconds)
        for t in timed
        if t.seconds > 0
    ]
    weights, factors = [1.0] * len(rows), (0.0, 0.0)
    for _ in range(_TURNS):
        factors = _solved(rows, weights)
        errors = [abs(1 - factors[0] * x - factors[1] * y) for x, y in rows]
        weights = [1 / max(error, 1e-3) for error in errors]
    return Cost(*factors)


def _solved(rows: Sequence[tuple[float, float]], weights: Sequence[float]) -> tuple[float, float]:
    """Weighted least squares of ``1 = a x + b y``, a and b from 0 on."""
    both = list(zip(rows, weights, strict=True))
    xx = sum(w * x * x for (x, _), w in both)
    xy = sum(w * x * y for (x, y), w in both)
    yy = sum(w * y * y for (_, y), w in both)
    xs = sum(w * x for (x, _), w in both)
    ys = sum(w * y for (_, y), w in both)
    determinant = xx * yy - xy * xy
    if not xx or not yy:
        return 0.0, 0.0
    if determinant <= xx * yy * 1e-12:
        return 0.0, ys / yy
    a, b = (xs * yy - ys * xy) / determinant, (ys * xx - xs * xy) / determinant
    if a < 0:
        return 0.0, ys / yy
    return (xs / xx, 0.0) if b < 0 else (a, b)


@dataclass(frozen=True, slots=True)
class Compute:
    """What a step takes without any traffic, in seconds.

    Attributes:
        forward: of one micro-batch.
        backward: of one micro-batch.
        update: of the optimizer.
        alone: of all three, on one rank.
        slowest: of all three, on the slowest rank of each cycle.
        own: of a micro-batch in its method of training, its own work (PowerSGD's products, an outer
            optimizer) included, without peers; on the slowest rank. 0: not measured.
    """

    forward: float
    backward: float
    update: float
    alone: float
    slowest: float
    own: float = 0.0


@dataclass(frozen=True, slots=True)
class Method:
    """One method of training.

    Attributes:
        name: as the program calls it.
        cycle: micro-batches between two exchanges of the ranks.
        share: of the gradients' bytes, what is sent at an exchange.
        hidden: the backward pass can hide traffic.
        words: what it is.
        price: what it changes besides the speed.
        modelled: known without a measurement of its own work; not so of one that computes much.
        messages: that an exchange takes.
    """

    name: str
    cycle: int
    share: float
    hidden: bool
    words: str
    price: str
    modelled: bool = True
    messages: int = 1


def _described(
    name: str, words: str, price: str = "", *, hidden: bool = False, modelled: bool = True
) -> Method:
    """A method of the program, with its numbers."""
    method = MEASURED[name]
    words = words.format(cycle=method.cycle)
    return Method(name, method.cycle, method.share, hidden, words, price, modelled, method.messages)


METHODS: Final = {
    method.name: method
    for method in (
        _described("ddp", "plain DistributedDataParallel", hidden=True),
        _described(
            "accumulate",
            "gradient accumulation over {cycle} micro-batches",
            "the same mathematics with a batch four times as large",
            hidden=True,
        ),
        _described("bf16", "gradients sent as bfloat16", "rounding of the gradients", hidden=True),
        _described(
            "powersgd",
            "PowerSGD of rank 4",
            "approximate gradients; the error is fed back",
            modelled=False,
        ),
        _described(
            "local_sgd",
            "local SGD, weights averaged every {cycle} steps",
            "ranks drift apart between exchanges: watch the loss",
        ),
        _described(
            "diloco",
            "DiLoCo with {cycle} inner steps",
            "an outer optimizer to tune; in practice 100 to 500 inner steps",
        ),
    )
}
"""The methods of training that the program measures (``MEASURED``), with what its report states."""


def predicted(cost: Cost, compute: Compute, method: Method, ranks: int, size: float) -> float:
    """Seconds of one micro-batch with a method of training.

    Args:
        cost: the network.
        compute: the step without traffic, with as many ranks at work.
        method: the method.
        ranks: how many.
        size: bytes of the gradients, or of what PowerSGD sends of them.
    """
    if ranks < 2:  # noqa: PLR2004
        return compute.alone
    traffic = cost.reduce(ranks, size * (method.share or 1.0), method.messages)
    if not method.hidden:
        return (compute.own or compute.slowest) + (cost.extra + traffic) / method.cycle
    visible = max(0.0, traffic - cost.overlap * compute.backward) + cost.extra
    if compute.own:
        return compute.own + visible / method.cycle
    # Updates happen once in a cycle, and so does the exchange.
    apart = (compute.slowest - compute.update) + compute.update / method.cycle
    return apart + visible / method.cycle


def with_overlap(cost: Cost, compute: Compute, ranks: int, size: float, seconds: float) -> Cost:
    """The cost model completed by one measured DDP step.

    Args:
        cost: as fitted to all_reduces.
        compute: the step without traffic.
        ranks: how many took part.
        size: bytes of the gradients.
        seconds: of a DDP step.
    """
    traffic = cost.reduce(ranks, size)
    visible = max(0.0, seconds - (compute.own or compute.slowest))
    if visible >= traffic or not compute.backward:
        return replace(cost, overlap=0.0, extra=max(0.0, visible - traffic))
    return replace(cost, overlap=min(1.0, (traffic - visible) / compute.backward), extra=0.0)
