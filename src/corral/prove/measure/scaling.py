"""Do several nodes pay for training? Reads ``agents/benchmarks/scaling.py`` and answers. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from corral.errors import Code, CorralError
from corral.prove.fabric.verdict import Outcome
from corral.prove.figures import Axis, Plot, Series
from corral.prove.measure.cost import METHODS, Compute, Cost, Timed, fitted, predicted, with_overlap
from corral.prove.measure.measurement import Remark, results_of, unreadable

PAYS: Final = 1.1
"""Times as fast as one node: less is not worth a second node's trouble."""
EFFICIENT: Final = 0.8
"""Of the nodes' number: above, there is nothing to gain by other methods."""
HELD: Final = (
    "the time of a step on other links was predicted within 15 % in 63 of 72 cases between shaped "
    "links of 1, 2.5 and 10 Gb/s (at worst off by 33 %), computing as measured"
)
"""docs/measurements/2026-11-22-shaped-links.md; ``tests/recorded/scaling`` holds the first 36."""
ROUGH: Final = (
    "a rough guide: predicted from NVLink, TCP of 30 Gb/s between two H200 was off by -23 to +30 %"
)
"""The recorded h200x2 files; a test holds it."""
SHOWN: Final = 0.05
"""Of a step: what takes less is left out of the answer."""
EXACT: Final = 0.15
"""A prediction is good when it is off by no more."""


@dataclass(frozen=True, slots=True)
class Trained:
    """One method of training over so many ranks, as measured; seconds of a micro-batch."""

    method: str
    ranks: int
    seconds: float
    compute: Compute
    loss: float
    spread: float


@dataclass(frozen=True, slots=True)
class Speed:
    """What the first seconds measured.

    Attributes:
        ranks: of all nodes.
        step: seconds with all of them at work, without traffic.
        alone: the same with one node at work.
        cost: the link.
    """

    ranks: int
    step: float
    alone: float
    cost: Cost


@dataclass(frozen=True, slots=True)
class Planned:
    """What is still to be measured.

    Attributes:
        seconds: the estimate for it.
        points: (method, ranks), the next first.
        left_out: (method, ranks) that do not fit into the time.
        limit: seconds for the complete measurement, 0: none.
        done: how many points are measured.
    """

    seconds: float
    points: tuple[tuple[str, int], ...]
    left_out: tuple[tuple[str, int], ...]
    limit: float
    done: int = 0


@dataclass(frozen=True, slots=True)
class Guess:
    """What the model predicts of a measurement that it had not seen."""

    method: str
    ranks: int
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """Share of the measured value; below 0: predicted too low."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True, slots=True)
class Scaling:
    """All that was measured, and the cost model that explains it.

    Attributes:
        parameters: of the model.
        size: bytes of its gradients.
        small: bytes of them as PowerSGD sends them.
        tokens: of a rank's micro-batch.
        ranks_per_node: ranks on each node.
        device: what computes.
        timed: all_reduces.
        trained: each method, for each number of ranks.
        cost: fitted to the smallest number of ranks above one.
        speed: as the first seconds measured it; records of earlier releases have none.
        planned: what was not measured when it ended; None as above.
        smaller: the model was made smaller to fit into the time.
    """

    parameters: int
    size: int
    small: int
    tokens: int
    ranks_per_node: int
    device: str
    timed: tuple[Timed, ...]
    trained: tuple[Trained, ...]
    cost: Cost
    speed: Speed | None = None
    planned: Planned | None = None
    smaller: bool = False

    def of(self, method: str, ranks: int) -> Trained | None:
        """One measurement."""
        return next((t for t in self.trained if t.method == method and t.ranks == ranks), None)

    @property
    def counts(self) -> tuple[int, ...]:
        """Numbers of ranks that were measured."""
        return tuple(sorted({trained.ranks for trained in self.trained}))

    @property
    def one_node(self) -> Trained | None:
        return self.of("ddp", self.ranks_per_node) or self.of("ddp", 1)

    def speedup(self, trained: Trained) -> float:
        """Times as many tokens in a second as on one node."""
        base = self.one_node
        if base is None:
            return 0.0
        return trained.ranks / trained.seconds / (base.ranks / base.seconds)

    def bytes_of(self, method: str) -> int:
        """What is sent at an exchange, before the method's own share."""
        return self.small if method == "powersgd" else self.size


def read_scaling(lines: Sequence[str], *, partial: bool = False) -> Scaling:
    """Read what the program printed, and fit the cost model.

    Args:
        lines: as printed.
        partial: of a program that has not ended: the first measurement is enough.

    Raises:
        CorralError: PARSE_FAILED, it ended without a result, or a line is spoiled.
    """
    try:
        models = results_of(lines, "model")
        timed = tuple(
            Timed(int(o["ranks"]), int(o["bytes"]), float(o["seconds"]))
            for o in results_of(lines, "reduce")
        )
        trained = tuple(_trained(entry) for entry in results_of(lines, "train"))
        speed = next(map(_speed, results_of(lines, "speed")), None)
        planned = next(map(_planned, reversed(results_of(lines, "plan"))), None)
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(repr(error)) from error
    if not models or not (trained or (partial and speed)):
        raise CorralError(
            Code.PARSE_FAILED,
            "the measurement of training ended without a result",
            tail="\n".join(lines[-20:]),
            hint="corral logs JOB shows what it printed; its nodes need python3 with PyTorch",
        )
    model = models[-1]
    try:
        size = int(model["bytes"])
        return Scaling(
            int(model["parameters"]),
            size,
            int(model["small_bytes"]),
            int(model["batch"]) * int(model["length"]),
            int(model["ranks_per_node"]),
            str(model["device"]),
            timed,
            trained,
            _cost(timed, trained, size),
            speed,
            planned,
            bool(model.get("smaller")),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(repr(error)) from error


def progress(line: str) -> str:
    """A line of the program in words, "" where it reports nothing.

    Raises:
        CorralError: PARSE_FAILED, the line is spoiled.
    """
    try:
        for trained in map(_trained, results_of([line], "train")):
            return f"{trained.method} over {_ranks(trained.ranks)}: {trained.seconds * 1e3:.4g} ms"
        for speed in map(_speed, results_of([line], "speed")):
            link = f", {speed.cost.busbw:.3g} GB/s between nodes" if speed.cost.beta else ""
            return f"a step takes {_time(speed.step)}{link}"
        for plan in map(_planned, results_of([line], "plan")):
            return _left(plan)
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(repr(error)) from error
    return ""


def _left(plan: Planned) -> str:
    if not plan.points:
        return ""
    count = len(plan.points)
    text = f"{count} measurement{'s' * (count != 1)} to go, about {_time(plan.seconds)}"
    if plan.limit and plan.left_out and not plan.done:
        out = ", ".join(f"{method} over {_ranks(ranks)}" for method, ranks in plan.left_out)
        text += f"; not within {_time(plan.limit)}: {out}"
    return text


def _ranks(count: int) -> str:
    return f"{count} rank{'s' * (count != 1)}"


def _time(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 100 else f"{seconds / 60:.3g} min"  # noqa: PLR2004


def _speed(entry: Mapping[str, Any]) -> Speed:
    step, alone, alpha, beta = (float(entry[name]) for name in ("step", "alone", "alpha", "beta"))
    if not step > 0 or not alone > 0 or alpha < 0 or beta < 0:
        raise ValueError(str(entry)[:100])
    return Speed(int(entry["ranks"]), step, alone, Cost(alpha, beta))


def _planned(entry: Mapping[str, Any]) -> Planned:
    todo, out = (
        tuple((str(p["way"]), int(p["ranks"])) for p in entry[name])
        for name in ("points", "left_out")
    )
    return Planned(float(entry["seconds"]), todo, out, float(entry["limit"]), int(entry["done"]))


def _trained(entry: Mapping[str, Any]) -> Trained:
    names = ("forward", "backward", "update", "alone", "slowest")
    if entry["way"] not in METHODS or not float(entry["seconds"]) > 0:
        raise ValueError(str(entry)[:100])
    return Trained(
        str(entry["way"]),
        int(entry["ranks"]),
        float(entry["seconds"]),
        # Runs of releases that did not measure a method's own work have none.
        Compute(*(float(entry[name]) for name in names), own=float(entry.get("own", 0.0))),
        float(entry["loss"]),
        float(entry["spread"]),
    )


def _cost(timed: Sequence[Timed], trained: Sequence[Trained], size: int) -> Cost:
    # Only the fewest ranks: all others are there to check the model with.
    least = min((t.ranks for t in timed), default=0)
    cost = fitted([t for t in timed if t.ranks == least])
    plain = next((t for t in trained if t.method == "ddp" and t.ranks == least), None)
    if plain is None or least < 2:  # noqa: PLR2004
        return cost
    return with_overlap(cost, plain.compute, least, size, plain.seconds)


def guesses(seen: Scaling) -> tuple[Guess, ...]:
    """The model compared with all that it was not fitted to."""
    least = min((t.ranks for t in seen.timed), default=0)
    return tuple(
        Guess(
            trained.method,
            trained.ranks,
            predicted(
                seen.cost,
                trained.compute,
                METHODS[trained.method],
                trained.ranks,
                seen.bytes_of(trained.method),
            ),
            trained.seconds,
        )
        for trained in seen.trained
        if trained.ranks > 1
        and (METHODS[trained.method].modelled or trained.compute.own)
        and not (trained.method == "ddp" and trained.ranks == least)
    )


def on_link(seen: Scaling, gbps: float, method: str, ranks: int, now: float = 0.0) -> float:
    """Times as fast as one node, were the link of this rate in Gb/s; 0: not known."""
    trained, base = seen.of(method, ranks), seen.one_node
    if trained is None or base is None:
        return 0.0
    size, compute = seen.bytes_of(method), trained.compute
    seconds = predicted(seen.cost.on_link(gbps, now), compute, METHODS[method], ranks, size)
    # What the method itself computes (PowerSGD, an outer optimizer) stays, whatever the link.
    seconds += max(
        0.0, trained.seconds - predicted(seen.cost, compute, METHODS[method], ranks, size)
    )
    return ranks / seconds / (base.ranks / base.seconds)


def from_other_link(
    seen: Scaling, base: Scaling, gbps: float, now: float = 0.0
) -> Iterator[tuple[Trained, float]]:
    """Each measurement over several ranks, and its seconds predicted from another link's fit.

    Args:
        seen: as measured on a link of ``gbps``.
        base: as measured on another one.
        gbps: the rate in Gb/s.
        now: the rate of the other one, 0 when it is not known.
    """
    cost = base.cost.on_link(gbps, now)
    for trained in seen.trained:
        if trained.ranks > 1:
            size = seen.bytes_of(trained.method)
            yield (
                trained,
                predicted(cost, trained.compute, METHODS[trained.method], trained.ranks, size),
            )


def answer(seen: Scaling, links: Sequence[float] = (), now: float = 0.0) -> tuple[Remark, ...]:
    """In words: do several nodes pay, and what to use if not.

    Args:
        seen: as read.
        links: rates in Gb/s for which to predict the gain.
        now: the declared rate, 0 when none is.
    """
    plain = seen.of("ddp", seen.counts[-1]) if seen.counts else None
    if plain is None or plain.ranks <= seen.ranks_per_node or seen.one_node is None:
        return _early(seen)
    remarks = (_plain(seen), _advice(seen, plain), _others(seen, plain), _exact(seen))
    rest = [r for some in remarks for r in some]
    return (_verdict(seen, plain), *rest, *_links(seen, links, now), *_not_measured(seen))


@dataclass(frozen=True, slots=True)
class Pays:
    """From which step on several nodes pay: seconds between two exchanges, on one node.

    Attributes:
        ranks: of the nodes together.
        step: as it is now.
        times: as fast as one node, now.
        worth: the step from which on they are ``PAYS`` times as fast; None: no step is long enough.
        efficient: the step from which on they reach ``EFFICIENT`` of their number; None as above;
            ``well`` in JSON.
        slower: times as long as on one node, what a step computes with all nodes at work.
    """

    ranks: int
    step: float
    times: float
    worth: float | None
    efficient: float | None
    slower: float


def pays_from(seen: Scaling) -> Pays | None:
    """The longest measured DDP's answer, or the first measurement's; None where neither has one.

    On several nodes a step of ``c`` seconds takes ``slower x c``, and what of the exchange the
    backward pass does not hide; the exchange depends on the model's size and not on the step.
    """
    base, ranks = seen.one_node, seen.counts[-1] if seen.counts else 0
    plain = seen.of("ddp", ranks) if base and ranks > seen.ranks_per_node else None
    if base is not None and plain is not None:
        at = [timing for timing in seen.timed if timing.ranks == ranks]
        cost = fitted(at) if len(at) > 1 else seen.cost
        step, compute = base.seconds, plain.compute
        own = min(compute.own or compute.slowest, plain.seconds)
        net, visible = cost.reduce(ranks, seen.size), plain.seconds - own
        hidden = min(max(0.0, net - visible), compute.backward)
        # All times of this step are as measured, also where the fit has more traffic than was seen.
        parts = (min(net, visible + hidden), max(0.0, visible - net), hidden / step, own / step)
        return _pays(seen, ranks, step, parts)
    if seen.speed is None or seen.speed.ranks <= seen.ranks_per_node or not seen.speed.cost.beta:
        return None
    ranks, cost = seen.speed.ranks, seen.speed.cost
    step = base.seconds if base else seen.speed.alone
    slower = seen.speed.step / step
    return _pays(seen, ranks, step, (cost.reduce(ranks, seen.size), 0.0, 0.0, slower))


def _pays(seen: Scaling, ranks: int, step: float, parts: tuple[float, float, float, float]) -> Pays:
    net, extra, hidden, slower = parts
    nodes = ranks / seen.ranks_per_node
    now = nodes * step / (slower * step + max(0.0, net - hidden * step) + extra)

    def reached(times: float) -> float | None:
        spare = nodes / times - slower
        if spare <= 0:
            return None
        shortest = (net + extra) / (spare + hidden)
        return shortest if shortest * hidden <= net else extra / spare

    return Pays(ranks, step, now, reached(PAYS), reached(EFFICIENT * nodes), slower)


def _verdict(seen: Scaling, plain: Trained | None) -> Remark:
    """Do several nodes pay on this network, and from which step time on?"""
    pays = pays_from(seen)
    if pays is None:
        return Remark(Outcome.UNKNOWN, "", "one node was measured: give it two for an answer")
    nodes = _nodes(seen, pays.ranks)
    good = pays.times >= PAYS
    text = (
        f"training over several nodes {'pays' if good else 'does not pay'} on this network for "
        f"this model: {nodes} {'are' if plain else 'would be'} {pays.times:.2f} times as fast as "
        "one; "
    )
    size = f"{seen.size / 1e6:.3g} MB of gradients"
    if pays.worth is None:
        text += (
            "no step is long enough: with all nodes at work a step computes "
            f"{pays.slower:.2f} times as long as on one"
        )
    else:
        text += f"for {size} it pays from a step of {_time(pays.worth)} on"
        if pays.efficient is not None:
            text += f" ({EFFICIENT:.0%} of {nodes} from {_time(pays.efficient)} on)"
        text += f", and a step takes {_time(pays.step)} on one node"
    if plain is None:
        text += "; predicted from the first seconds, not measured"
        return Remark(Outcome.UNKNOWN, nodes, text)
    return Remark(Outcome.PASS if good else Outcome.WARN, nodes, text)


def _early(seen: Scaling) -> tuple[Remark, ...]:
    """Before plain training was measured on one node and on several."""
    return (_verdict(seen, None), *_not_measured(seen))


def _not_measured(seen: Scaling) -> Iterator[Remark]:
    plan = seen.planned
    if seen.smaller and plan:
        yield Remark(
            Outcome.UNKNOWN,
            "",
            f"the usual model does not fit into {_time(plan.limit)} on this network: measured is "
            f"one of {seen.parameters / 1e6:.3g} million parameters; --parameters names a size",
        )
    missing = (*plan.points, *plan.left_out) if plan else ()
    if missing:
        out = ", ".join(f"{method} over {_ranks(ranks)}" for method, ranks in missing)
        yield Remark(Outcome.UNKNOWN, "", f"not measured: {out}")


def _nodes(seen: Scaling, ranks: int) -> str:
    return f"{max(1, ranks // seen.ranks_per_node)} nodes"


def _what(seen: Scaling) -> str:
    millions = seen.parameters / 1e6
    return (
        f"a model of {millions:.3g} million parameters ({seen.size / 1e6:.3g} MB of gradients), "
        f"{seen.tokens} tokens on each rank"
    )


def _plain(seen: Scaling) -> Iterator[Remark]:
    for ranks in seen.counts:
        trained = seen.of("ddp", ranks)
        if trained is None or ranks <= seen.ranks_per_node:
            continue
        times, nodes = seen.speedup(trained), ranks // seen.ranks_per_node
        share = times / nodes
        head = f"{_nodes(seen, ranks)}, {_what(seen)}"
        tail = f"; {_spent(trained)}"
        if share >= EFFICIENT:
            text = f"{head}: {times:.2f} times as fast as one: it pays{tail}"
            yield Remark(Outcome.PASS, _nodes(seen, ranks), text)
        elif times >= PAYS:
            text = f"{head}: {times:.2f} times as fast as one, {share:.0%} of what they could be"
            yield Remark(Outcome.WARN, _nodes(seen, ranks), text + tail)
        else:
            text = f"{head}: {times:.2f} times as fast as one: several nodes do not pay{tail}"
            yield Remark(Outcome.WARN, _nodes(seen, ranks), text)


def _spent(trained: Trained) -> str:
    """Where a step's time goes that one node does not need: the network, and the rest."""
    took, compute = trained.seconds, trained.compute
    net = took - (compute.own or compute.slowest)
    rest = {
        "is DDP's own work (gradients gathered and copied)": min(took, compute.own)
        - compute.slowest,
        "waits for the slowest rank": min(took, compute.slowest) - compute.alone,
    }
    shares = [
        f", {spent / took:.0%} {what}" for what, spent in rest.items() if spent >= SHOWN * took
    ]
    return f"{max(0.0, net) / took:.0%} of a step waits for the network{''.join(shares)}"


def _advice(seen: Scaling, plain: Trained) -> Iterator[Remark]:
    base, nodes = seen.speedup(plain), plain.ranks // seen.ranks_per_node
    rest = [t for t in seen.trained if t.ranks == plain.ranks and t.method != "ddp"]
    if base >= EFFICIENT * nodes or not rest:
        return
    best = max(rest, key=seen.speedup)
    times = seen.speedup(best)
    if times >= max(PAYS, base * PAYS):
        text = f"use {METHODS[best.method].words}: {times:.2f} times as fast as one node here"
    elif base >= PAYS:
        text = (
            "no other method is much faster here: a faster network, or more work for each exchange"
        )
    else:
        text = "no method makes them pay: give each node separate jobs, or each step more work"
    yield Remark(Outcome.UNKNOWN, _nodes(seen, plain.ranks), text)


def _others(seen: Scaling, plain: Trained) -> Iterator[Remark]:
    base = seen.speedup(plain)
    rest = [t for t in seen.trained if t.ranks == plain.ranks and t.method != "ddp"]
    for trained in sorted(rest, key=seen.speedup, reverse=True):
        times, method = seen.speedup(trained), METHODS[trained.method]
        change = times / base - 1
        text = f"{method.words}: {times:.2f} times as fast as one node ({change:+.0%} on plain DDP)"
        yield Remark(Outcome.UNKNOWN, _nodes(seen, plain.ranks), f"{text}; {method.price}")


def _exact(seen: Scaling) -> Iterator[Remark]:
    predictions = guesses(seen)
    if not predictions:
        return
    errors = [abs(prediction.error) for prediction in predictions]
    good = sum(error <= EXACT for error in errors)
    yield Remark(
        Outcome.UNKNOWN,
        "",
        f"cost model: {seen.cost.alpha * 1e6:.0f} us a message, {seen.cost.busbw:.3g} GB/s, "
        f"{seen.cost.overlap:.0%} of the backward pass hides traffic, "
        f"{seen.cost.extra * 1e3:.1f} ms of a step unexplained; of {len(predictions)} measurements "
        f"that it had not seen it predicts {good} within {EXACT:.0%} (half of them within "
        f"{statistics.median(errors):.0%})",
    )


def _links(seen: Scaling, links: Sequence[float], now: float) -> Iterator[Remark]:
    if not links:
        return
    held = seen.cost.limited(now)
    if seen.device == "cpu" and not held:
        yield _not_predicted(seen, links, now)
        return
    most = seen.counts[-1]
    for gbps in links:
        ways = {
            method: on_link(seen, gbps, method, most, now)
            for method in METHODS
            if seen.of(method, most)
        }
        words = ", ".join(f"{method} {times:.2f}" for method, times in ways.items())
        text = f"on a link of {gbps:g} Gb/s {_nodes(seen, most)} would be so many times as fast"
        yield Remark(Outcome.UNKNOWN, f"{gbps:g} Gb/s", f"{text} as one: {words}")
    yield Remark(Outcome.UNKNOWN, "", HELD if seen.device == "cpu" else ROUGH)


def _not_predicted(seen: Scaling, links: Sequence[float], now: float) -> Remark:
    """Why there is no figure: traffic took the processors that train, and no link held it up.

    The model cannot distinguish the two: on links that were shaped afterwards it was off by -32 to
    +26 % (docs/measurements/2026-11-22-shaped-links.md), which does not answer "does it pay?".
    """
    rates = ", ".join(f"{gbps:g}" for gbps in links)
    rate = seen.cost.busbw * 8
    comparison = f"{'more' if rate > now else 'less'} than the declared {now:g} Gb/s carry"
    return Remark(
        Outcome.UNKNOWN,
        "",
        f"links of {rates} Gb/s are not predicted: these nodes reach {rate:.3g} Gb/s, "
        f"{comparison if now else 'and no link is declared'}; where no link is the limit, traffic "
        "takes the processors that train, and such predictions were off by a third. Shape the "
        "links (tc qdisc ... tbf rate), declare that rate as network.data.gbps and measure again",
    )


def _keyed(fields: Mapping[str, Any], name: str, key: str) -> dict[str, Any]:
    """Fields with one of them under the key that records have."""
    return {key if field == name else field: value for field, value in fields.items()}


def curve(seen: Scaling) -> Plot | None:
    """Speed by number of nodes, for a report; None without one node to compare with."""
    if seen.one_node is None:
        return None
    lines = [
        Series(
            method,
            tuple(
                (float(max(1, t.ranks // seen.ranks_per_node)), seen.speedup(t))
                for t in seen.trained
                if t.method == method
            ),
        )
        for method in METHODS
    ]
    most = max(1, seen.counts[-1] // seen.ranks_per_node)
    ideal = Series("as many as nodes", ((1.0, 1.0), (float(most), float(most))))
    shown = tuple(line for line in lines if line.points)
    title = f"training of {seen.parameters / 1e6:.3g} million parameters"
    return Plot(title, Axis("nodes"), Axis("times as fast as one node"), (*shown, ideal))


def figures(seen: Scaling) -> dict[str, object]:
    pays = pays_from(seen)
    return {
        **asdict(seen),
        "trained": [_keyed(asdict(t), "method", "way") for t in seen.trained],
        "speedups": [
            {"way": t.method, "ranks": t.ranks, "times": seen.speedup(t)} for t in seen.trained
        ],
        "pays_from": _keyed(asdict(pays), "efficient", "well") if pays else None,
        "guesses": [
            {**_keyed(asdict(guess), "method", "way"), "error": guess.error}
            for guess in guesses(seen)
        ],
    }
