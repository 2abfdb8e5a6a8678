"""Do several nodes pay for training? Reads ``agents/benchmarks/scaling.py`` and answers. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from corral.errors import Code, CorralError
from corral.prove.fabric.verdict import Outcome
from corral.prove.figures import Axis, Plot, Series
from corral.prove.measure.cost import WAYS, Compute, Cost, Timed, fitted, predicted, with_overlap
from corral.prove.measure.remark import Remark, told, unreadable

PAYS: Final = 1.1
"""Times as fast as one node: less is not worth a second node's trouble."""
WELL: Final = 0.8
"""Of the nodes' number: above, there is nothing to gain by other ways."""
HELD: Final = (
    "the time of a step on other links was foretold within 15 % in 63 of 72 cases between shaped "
    "links of 1, 2.5 and 10 Gb/s (at worst off by 33 %), computing as measured"
)
"""docs/measurements/2026-11-22-shaped-links.md; ``tests/recorded/scaling`` holds the first 36."""
ROUGH: Final = (
    "a rough guide: foretold so from NVLink, TCP of 30 Gb/s between two H200 was off by -23 to "
    "+30 %"
)
"""The recorded h200x2 files; a test holds it."""
TOLD: Final = 0.05
"""Of a step: what takes less is left out of the answer."""
EXACT: Final = 0.15
"""A prediction is good when it is off by no more."""


@dataclass(frozen=True, slots=True)
class Trained:
    """One way of training over so many ranks, as measured; seconds of a micro-batch."""

    way: str
    ranks: int
    seconds: float
    compute: Compute
    loss: float
    spread: float


@dataclass(frozen=True, slots=True)
class Guess:
    """What the model said of a measurement that it had not seen."""

    way: str
    ranks: int
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """Relative."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True, slots=True)
class Scaling:
    """All that was measured, and the cost model that explains it.

    Attributes:
        parameters: of the model.
        size: bytes of its gradients.
        small: bytes of them as PowerSGD sends them.
        tokens: of a rank's micro-batch.
        beside: ranks on each node.
        device: what computes.
        timed: all_reduces.
        trained: each way, for each number of ranks.
        cost: fitted to the smallest number of ranks above one.
    """

    parameters: int
    size: int
    small: int
    tokens: int
    beside: int
    device: str
    timed: tuple[Timed, ...]
    trained: tuple[Trained, ...]
    cost: Cost

    def of(self, way: str, ranks: int) -> Trained | None:
        """One measurement."""
        return next((t for t in self.trained if t.way == way and t.ranks == ranks), None)

    @property
    def counts(self) -> tuple[int, ...]:
        """Numbers of ranks that were measured."""
        return tuple(sorted({one.ranks for one in self.trained}))

    @property
    def one_node(self) -> Trained | None:
        """Training on one node."""
        return self.of("ddp", self.beside) or self.of("ddp", 1)

    def speedup(self, one: Trained) -> float:
        """Times as many tokens in a second as on one node."""
        base = self.one_node
        if base is None:
            return 0.0
        return one.ranks / one.seconds / (base.ranks / base.seconds)

    def bytes_of(self, way: str) -> int:
        """What travels at a meeting, before the way's own share."""
        return self.small if way == "powersgd" else self.size


def read_scaling(lines: Sequence[str]) -> Scaling:
    """Read what the program printed, and fit the cost model.

    Raises:
        CorralError: PARSE_FAILED, it ended without a result, or a line is spoiled.
    """
    try:
        models = told(lines, "model")
        timed = tuple(
            Timed(int(o["ranks"]), int(o["bytes"]), float(o["seconds"]))
            for o in told(lines, "reduce")
        )
        trained = tuple(_trained(one) for one in told(lines, "train"))
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(repr(error)) from error
    if not models or not trained:
        raise CorralError(
            Code.PARSE_FAILED,
            "the measurement of training ended without a result",
            tail="\n".join(lines[-20:]),
            hint="corral logs JOB shows what it printed; its nodes need python3 with PyTorch",
        )
    model = models[-1]
    size = int(model["bytes"])
    return Scaling(
        int(model["parameters"]),
        size,
        int(model["small_bytes"]),
        int(model["batch"]) * int(model["length"]),
        int(model["beside"]),
        str(model["device"]),
        timed,
        trained,
        _cost(timed, trained, size),
    )


def _trained(one: Mapping[str, Any]) -> Trained:
    names = ("forward", "backward", "update", "alone", "slowest")
    if one["way"] not in WAYS or not float(one["seconds"]) > 0:
        raise ValueError(str(one)[:100])
    return Trained(
        str(one["way"]),
        int(one["ranks"]),
        float(one["seconds"]),
        # Runs of releases that did not measure a way's own work have none.
        Compute(*(float(one[name]) for name in names), own=float(one.get("own", 0.0))),
        float(one["loss"]),
        float(one["spread"]),
    )


def _cost(timed: Sequence[Timed], trained: Sequence[Trained], size: int) -> Cost:
    # Only the fewest ranks: all others are there to hold the model against.
    least = min((t.ranks for t in timed), default=0)
    cost = fitted([t for t in timed if t.ranks == least])
    plain = next((t for t in trained if t.way == "ddp" and t.ranks == least), None)
    if plain is None or least < 2:  # noqa: PLR2004
        return cost
    return with_overlap(cost, plain.compute, least, size, plain.seconds)


def guesses(seen: Scaling) -> tuple[Guess, ...]:
    """The model held against all that it was not fitted to."""
    least = min((t.ranks for t in seen.timed), default=0)
    return tuple(
        Guess(
            one.way,
            one.ranks,
            predicted(seen.cost, one.compute, WAYS[one.way], one.ranks, seen.bytes_of(one.way)),
            one.seconds,
        )
        for one in seen.trained
        if one.ranks > 1
        and (WAYS[one.way].modelled or one.compute.own)
        and not (one.way == "ddp" and one.ranks == least)
    )


def on_link(seen: Scaling, gbps: float, way: str, ranks: int, now: float = 0.0) -> float:
    """Times as fast as one node, were the link of this rate in Gb/s; 0: not known."""
    one, base = seen.of(way, ranks), seen.one_node
    if one is None or base is None:
        return 0.0
    size, way_ = seen.bytes_of(way), WAYS[way]
    seconds = predicted(seen.cost.on_link(gbps, now), one.compute, way_, ranks, size)
    # What the way itself computes (PowerSGD, an outer optimizer) stays, whatever the link.
    seconds += max(0.0, one.seconds - predicted(seen.cost, one.compute, way_, ranks, size))
    return ranks / seconds / (base.ranks / base.seconds)


def answer(seen: Scaling, links: Sequence[float] = (), now: float = 0.0) -> tuple[Remark, ...]:
    """In words: do several nodes pay, and what to use if not.

    Args:
        seen: as read.
        links: rates in Gb/s for which to say what they would bring.
        now: the declared rate, 0 when none is.
    """
    most = seen.counts[-1]
    plain = seen.of("ddp", most)
    if plain is None or most <= seen.beside or seen.one_node is None:
        text = "one node was measured: give it two for an answer"
        return (Remark(Outcome.UNKNOWN, "", text),)
    found = (_plain(seen), _advice(seen, plain), _others(seen, plain), _exact(seen))
    return tuple([*(r for some in found for r in some), *_links(seen, links, now)])


def _nodes(seen: Scaling, ranks: int) -> str:
    return f"{max(1, ranks // seen.beside)} nodes"


def _what(seen: Scaling) -> str:
    millions = seen.parameters / 1e6
    return (
        f"a model of {millions:.3g} million parameters ({seen.size / 1e6:.3g} MB of gradients), "
        f"{seen.tokens} tokens on each rank"
    )


def _plain(seen: Scaling) -> Iterator[Remark]:
    for ranks in seen.counts:
        one = seen.of("ddp", ranks)
        if one is None or ranks <= seen.beside:
            continue
        times, nodes = seen.speedup(one), ranks // seen.beside
        share = times / nodes
        head = f"{_nodes(seen, ranks)}, {_what(seen)}"
        tail = f"; {_spent(one)}"
        if share >= WELL:
            text = f"{head}: {times:.2f} times as fast as one: it pays{tail}"
            yield Remark(Outcome.PASS, _nodes(seen, ranks), text)
        elif times >= PAYS:
            text = f"{head}: {times:.2f} times as fast as one, {share:.0%} of what they could be"
            yield Remark(Outcome.WARN, _nodes(seen, ranks), text + tail)
        else:
            text = f"{head}: {times:.2f} times as fast as one: several nodes do not pay{tail}"
            yield Remark(Outcome.WARN, _nodes(seen, ranks), text)


def _spent(one: Trained) -> str:
    """Where a step's time goes that one node does not need: the network, and what none mends."""
    took, compute = one.seconds, one.compute
    net = took - (compute.own or compute.slowest)
    rest = {
        "is DDP's own work (gradients gathered and copied)": min(took, compute.own)
        - compute.slowest,
        "waits for the slowest rank": min(took, compute.slowest) - compute.alone,
    }
    told = [f", {spent / took:.0%} {what}" for what, spent in rest.items() if spent >= TOLD * took]
    return f"{max(0.0, net) / took:.0%} of a step waits for the network{''.join(told)}"


def _advice(seen: Scaling, plain: Trained) -> Iterator[Remark]:
    base, nodes = seen.speedup(plain), plain.ranks // seen.beside
    rest = [t for t in seen.trained if t.ranks == plain.ranks and t.way != "ddp"]
    if base >= WELL * nodes or not rest:
        return
    best = max(rest, key=seen.speedup)
    times = seen.speedup(best)
    if times >= max(PAYS, base * PAYS):
        text = f"use {WAYS[best.way].words}: {times:.2f} times as fast as one node here"
    elif base >= PAYS:
        text = "no other way is much faster here: a faster network, or more work for each meeting"
    else:
        text = "no way makes them pay: give each node jobs of its own, or each step more work"
    yield Remark(Outcome.UNKNOWN, _nodes(seen, plain.ranks), text)


def _others(seen: Scaling, plain: Trained) -> Iterator[Remark]:
    base = seen.speedup(plain)
    rest = [t for t in seen.trained if t.ranks == plain.ranks and t.way != "ddp"]
    for one in sorted(rest, key=seen.speedup, reverse=True):
        times, way = seen.speedup(one), WAYS[one.way]
        change = times / base - 1
        text = f"{way.words}: {times:.2f} times as fast as one node ({change:+.0%} on plain DDP)"
        yield Remark(Outcome.UNKNOWN, _nodes(seen, plain.ranks), f"{text}; {way.price}")


def _exact(seen: Scaling) -> Iterator[Remark]:
    found = guesses(seen)
    if not found:
        return
    errors = [abs(one.error) for one in found]
    good = sum(error <= EXACT for error in errors)
    yield Remark(
        Outcome.UNKNOWN,
        "",
        f"cost model: {seen.cost.alpha * 1e6:.0f} us a message, {seen.cost.busbw:.3g} GB/s, "
        f"{seen.cost.overlap:.0%} of the backward pass hides traffic, "
        f"{seen.cost.extra * 1e3:.1f} ms of a step unexplained; of {len(found)} measurements that "
        f"it had not seen it foretells {good} within {EXACT:.0%} (half of them within "
        f"{statistics.median(errors):.0%})",
    )


def _links(seen: Scaling, links: Sequence[float], now: float) -> Iterator[Remark]:
    if not links:
        return
    held = seen.cost.limited(now)
    if seen.device == "cpu" and not held:
        yield _not_foretold(seen, links, now)
        return
    most = seen.counts[-1]
    for gbps in links:
        ways = {way: on_link(seen, gbps, way, most, now) for way in WAYS if seen.of(way, most)}
        words = ", ".join(f"{way} {times:.2f}" for way, times in ways.items())
        text = f"on a link of {gbps:g} Gb/s {_nodes(seen, most)} would be so many times as fast"
        yield Remark(Outcome.UNKNOWN, f"{gbps:g} Gb/s", f"{text} as one: {words}")
    yield Remark(Outcome.UNKNOWN, "", HELD if seen.device == "cpu" else ROUGH)


def _not_foretold(seen: Scaling, links: Sequence[float], now: float) -> Remark:
    """Why there is no figure: traffic took the processors that train, and no link held it up.

    The model cannot tell the two apart: on links that were shaped afterwards it was off by -32 to
    +26 % (docs/measurements/2026-11-22-shaped-links.md), which is no answer to "does it pay?".
    """
    rates = ", ".join(f"{gbps:g}" for gbps in links)
    rate = seen.cost.busbw * 8
    said = f"{'more' if rate > now else 'less'} than the declared {now:g} Gb/s carry"
    return Remark(
        Outcome.UNKNOWN,
        "",
        f"links of {rates} Gb/s are not foretold: these nodes talk at {rate:.3g} Gb/s, "
        f"{said if now else 'and no link is declared'}; where no link is the limit, traffic takes "
        "the processors that train, and what was foretold so was a third wrong. Shape the links "
        "(tc qdisc ... tbf rate), declare that rate as network.data.gbps and measure once more",
    )


def curve(seen: Scaling) -> Plot | None:
    """Speed by number of nodes, for a report; None without one node to compare with."""
    if seen.one_node is None:
        return None
    lines = [
        Series(
            way,
            tuple(
                (float(max(1, t.ranks // seen.beside)), seen.speedup(t))
                for t in seen.trained
                if t.way == way
            ),
        )
        for way in WAYS
    ]
    most = max(1, seen.counts[-1] // seen.beside)
    ideal = Series("as many as nodes", ((1.0, 1.0), (float(most), float(most))))
    shown = tuple(line for line in lines if line.points)
    title = f"training of {seen.parameters / 1e6:.3g} million parameters"
    return Plot(title, Axis("nodes"), Axis("times as fast as one node"), (*shown, ideal))


def figures(seen: Scaling) -> dict[str, object]:
    """JSON-ready fields."""
    return {
        **asdict(seen),
        "speedups": [
            {"way": t.way, "ranks": t.ranks, "times": seen.speedup(t)} for t in seen.trained
        ],
        "guesses": [{**asdict(one), "error": one.error} for one in guesses(seen)],
    }
