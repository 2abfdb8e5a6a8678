"""Which of the machines on sale train a model in time, and what each would cost. Pure.

The time of a step is the network model's of ``corral bench scaling`` (``prove.measure.cost``), the
time lost by interruptions Daly's: of a run that is cut into pieces of ``t`` hours, each saved in
``c``, with interruptions each ``m`` hours and ``r`` to start again, a piece takes
``m x exp(r / m) x (exp((t + c) / m) - 1)`` (Daly, 2006: A higher order estimate of the optimum
checkpoint interval for restart dumps); the best ``t`` is about ``sqrt(2 c m)`` (Young, 1974).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, TypeVar

from corral.durations import interval_seconds
from corral.inspect.gpu import type_of_name
from corral.plurals import plural
from corral.prove.advice.run_file import Link, OnOffers, TrainingFile, Workload
from corral.prove.fabric.hardware import known_hardware, reference
from corral.prove.fabric.limits import limit
from corral.prove.fabric.model import Collective
from corral.prove.measure.cost import LINE, METHODS, Compute, Cost, predicted
from corral.prove.measure.gpu import GpuModel, model_of
from corral.prove.measure.scaling import ROUGH
from corral.providers.cloud.model import Capacity, Offer
from corral.spec.providers import RENTALS

MONTH_H: Final = 730.0
"""Hours of a month, as clouds bill: a twelfth of 365 days."""
Entry = TypeVar("Entry", bound=OnOffers)


@dataclass(frozen=True, slots=True)
class OnSale:
    """Machines of one kind and price.

    Attributes:
        offer: one of them.
        regions: where they are; none: where the cloud chooses.
        together: they come as one cluster of the cloud's own.
    """

    offer: Offer
    regions: tuple[str, ...]
    together: bool = False


@dataclass(frozen=True, slots=True)
class Option:
    """A cluster that could be rented.

    Attributes:
        sale: its machines.
        nodes: how many.
        step: seconds of a step; None where it is not known.
        hours: from the launch to the end of the run; None as above.
        lost: of these, expected for checkpoints and interruptions.
        cost: dollars of all of it; None where it is not known.
        speed: what the speed of its GPU is from.
        reasons: why it will not do.
        unknown: what is not known of it, and is needed to decide whether it will do.
        assumed: what is in these figures that nobody measured or stated.
    """

    sale: OnSale
    nodes: int
    step: float | None = None
    hours: float | None = None
    lost: float = 0.0
    cost: float | None = None
    speed: str = ""
    reasons: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()

    @property
    def meets(self) -> bool:
        """It will do, as far as all that is known."""
        return not self.reasons and not self.unknown

    def as_dict(self) -> dict[str, Any]:
        """All of it, JSON-ready; None for hours that never end."""
        endless = {
            name: None
            for name in ("hours", "lost", "cost")
            if not math.isfinite(getattr(self, name) or 0.0)
        }
        return {**asdict(self), **endless, "meets": self.meets}


@dataclass(frozen=True, slots=True)
class Advice:
    """What is on sale, judged.

    Attributes:
        options: the best cluster of each kind of machine: those that meet deadline and budget by
            cost, then those that do not, the nearest first, then those of which too little is
            known.
        notes: what no figure counts, and what all of them assume.
    """

    options: tuple[Option, ...]
    notes: tuple[str, ...]

    @property
    def best(self) -> Option | None:
        """The cheapest that meets deadline and budget; None where none does."""
        return next((option for option in self.options if option.meets), None)


@dataclass(frozen=True, slots=True)
class Gpu:
    """What is known of a machine's GPU.

    Attributes:
        speed: times the measured one; None where it is not known.
        basis: what that is from.
        memory_gib: None where it is not known.
        assumed: nobody measured the speed.
    """

    speed: float | None
    basis: str
    memory_gib: float | None
    assumed: bool = False


def advise(file: TrainingFile, work: Workload, sales: Iterable[tuple[Offer, bool]]) -> Advice:
    """Judge all that is on sale.

    Args:
        file: the training run.
        work: what was measured.
        sales: offers, and whether they come as one cluster.
    """
    kinds = _kinds(file, sales)
    best = [
        min(
            (option_of(file, work, kind, n) for n in _counts(file, kind)),
            key=lambda o: _rank(file, o),
        )
        for kind in kinds
    ]
    best.sort(key=lambda option: (_part(option), *_rank(file, option)))
    return Advice(tuple(best), tuple(_notes(file, work, kinds)))


def _kinds(file: TrainingFile, sales: Iterable[tuple[Offer, bool]]) -> list[OnSale]:
    """Machines with GPUs, of the clouds and regions that the file allows; regions in one."""
    regions: dict[tuple[Offer, bool], list[str]] = {}
    for offer, together in sales:
        allowed = not file.regions or offer.region in file.regions
        if offer.gpus and allowed and (not file.providers or offer.provider in file.providers):
            at = regions.setdefault((replace(offer, region=""), together), [])
            at += [offer.region] if offer.region else []
    return [OnSale(offer, tuple(at), both) for (offer, both), at in regions.items()]


def _counts(file: TrainingFile, kind: OnSale) -> range:
    rental = RENTALS[kind.offer.provider]
    if rental.pods and not kind.together:
        return range(1, 2)  # no job over several of them: each is a separate island
    fewest = rental.clusters if kind.together else 1
    return range(fewest, max(file.nodes, fewest) + 1)


def _part(option: Option) -> int:
    """Of the table: what will do, what will not, that of which too little is known."""
    if option.meets:
        return 0
    return 1 if option.reasons and option.hours is not None else 2


def _rank(file: TrainingFile, option: Option) -> tuple[float, ...]:
    """What will do by cost; else the fewest reasons, and the least over deadline and budget."""
    cost = math.inf if option.cost is None else option.cost
    hours = math.inf if option.hours is None else option.hours
    over = max(hours / _hours(file.deadline), cost / file.budget if file.budget else 0.0)
    if option.meets:
        return (0, 0, 0, cost, option.nodes)
    return (1 + bool(option.reasons), len(option.reasons), over, cost, option.nodes)


def _hours(length: str) -> float:
    return interval_seconds(length) / 3600


def option_of(file: TrainingFile, work: Workload, kind: OnSale, nodes: int) -> Option:
    """So many nodes of a kind of machine, judged."""
    gpu = gpu_of(file, kind.offer)
    link = _entry(file.links, kind.offer)
    reasons, unknown = list(_obstacles(file, kind, nodes, gpu)), list(_gaps(file, kind, gpu))
    assumed = [gpu.basis] if gpu.assumed else []
    if kind.offer.gpus != work.gpus:
        assumed.append(f"{plural(kind.offer.gpus, 'GPU')} of a node from {work.gpus} measured")
    cost = None
    if nodes > 1:
        cost, why = network(work, link, kind.offer, nodes)
        (unknown if cost is None else assumed).extend(why)
    option = Option(kind, nodes, speed=gpu.basis)
    if gpu.speed is not None and (cost is not None or nodes == 1):
        option = _timed(file, work, option, gpu.speed, cost)
        reasons += _too_much(file, option)
    elif gpu.speed is not None:
        least = _timed(file, work, option, gpu.speed, Cost(0.0, 0.0))
        reasons += (f"even if its network were free: {why}" for why in _too_much(file, least))
    return replace(option, reasons=tuple(reasons), unknown=tuple(unknown), assumed=tuple(assumed))


def _obstacles(file: TrainingFile, kind: OnSale, nodes: int, gpu: Gpu) -> Iterator[str]:
    offer = kind.offer
    if offer.capacity is Capacity.NONE:
        yield "no capacity now"
    if nodes > file.nodes:
        yield f"comes as {nodes} nodes or more, {file.nodes} are allowed"
    need, have = file.gpu_memory_gib, gpu.memory_gib
    if need is not None and have is not None and have < need:
        yield f"{have:g} GiB of memory a GPU, {need:g} needed"


def _gaps(file: TrainingFile, kind: OnSale, gpu: Gpu) -> Iterator[str]:
    if gpu.speed is None:
        yield "speed of this GPU: add it to gpus"
    if kind.offer.price is None:
        yield "price"
    if file.gpu_memory_gib is not None and gpu.memory_gib is None:
        yield "memory of this GPU: add it to gpus"


def _too_much(file: TrainingFile, option: Option) -> Iterator[str]:
    hours, deadline = option.hours or math.inf, _hours(file.deadline)
    if hours > deadline:
        words = f"takes {hours:.1f} h" if math.isfinite(hours) else "never ends (interruptions)"
        yield f"{words}, {deadline:g} h are allowed"
    if file.budget is not None and option.cost is not None and option.cost > file.budget:
        yield f"costs {option.cost:.2f} $, {file.budget:.2f} $ are allowed"


def _entry(entries: Sequence[Entry], offer: Offer) -> Entry | None:
    return next(
        (
            entry
            for entry in entries
            if entry.provider in (None, offer.provider) and entry.type in (None, offer.type)
        ),
        None,
    )


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.lower()))


def gpu_of(file: TrainingFile, offer: Offer) -> Gpu:
    """A machine's GPU: its speed by the file, its memory by the file or the cloud's own name of it.

    A name fits when each of its words is a word of the cloud's; that of the most words counts.
    """
    name = f"{offer.gpu} {offer.type}"
    measured = file.measured
    names = [
        (measured.gpu, 1.0, "measured", measured.memory_gib),
        *((g.name, g.speed, f"{g.speed} x {measured.gpu}", g.memory_gib) for g in file.gpus),
    ]
    fitting = [row for row in names if _words(row[0]) <= _words(name)]
    memory = next((row[3] for row in fitting if row[3] is not None), None) or _stated(name)
    known = [row for row in fitting if row[1] is not None]
    if known:
        _, speed, basis, _ = max(known, key=lambda row: len(_words(row[0])))
        return Gpu(speed, basis, memory)
    other, own = _model(offer.type) or _model(offer.gpu), _model(measured.gpu)
    if file.speed_from_peaks and other and own:
        speed = other.half / own.half
        basis = f"assumed: {speed:.2f} x {own.title} by peaks of data sheets"
        return Gpu(speed, basis, memory, assumed=True)
    return Gpu(None, "unknown", memory)


def _stated(name: str) -> float | None:
    """The memory that the cloud's name states: ``H100 (80 GB SXM5)``, ``A100-80G``."""
    sizes = {int(size) for size in re.findall(r"\b([0-9]{1,3}) ?GB?\b", name, re.ASCII)}
    return float(sizes.pop()) if len(sizes) == 1 else None


def _model(name: str) -> GpuModel | None:
    bare = " ".join(re.sub(r"[()]|\b[0-9]+ ?GB?\b", " ", name).split())
    return model_of(name) or model_of(bare)


def network(
    work: Workload, link: Link | None, offer: Offer, nodes: int
) -> tuple[Cost | None, tuple[str, ...]]:
    """The network between so many nodes; None where it is not known. And what is to be added.

    Args:
        work: what was measured.
        link: the file's entry for these machines.
        offer: the machine.
        nodes: how many, at least 2.
    """
    if link is None:
        return None, ("the network between these nodes: add it to links",)
    base = work.cost or Cost(0.0, 0.0)
    if link.message_us is not None:
        base = replace(base, alpha=link.message_us * 1e-6)
    if link.gbps is not None:
        return base.on_link(link.gbps, work.gbps), ()
    kind = known_hardware()[link.hardware or ""]
    if kind.topology.gpus != offer.gpus:
        gpus = plural(kind.topology.gpus, "GPU")
        return None, (f"the network: {link.hardware} is of nodes with {gpus}",)
    seen = reference(kind, Collective.ALL_REDUCE, nodes)
    busbw = seen.busbw if seen else limit(kind.topology, Collective.ALL_REDUCE, nodes)
    words = "seen elsewhere" if seen else "its limit, which nobody reached"
    note = f"assumed: {link.hardware}, {busbw:g} GB/s ({words})"
    return base.on_link(busbw * 8 / LINE, work.gbps), (note,)


def _shared(compute: Compute, share: float) -> Compute:
    """A step of which each GPU computes this share; the optimizer's update stays."""

    def part(seconds: float) -> float:
        rest = min(compute.update, seconds)
        return (seconds - rest) * share + rest

    return Compute(
        compute.forward * share,
        compute.backward * share,
        compute.update,
        part(compute.alone),
        part(compute.slowest),
        part(compute.own),
    )


def _timed(
    file: TrainingFile, work: Workload, option: Option, speed: float, cost: Cost | None
) -> Option:
    ranks = option.nodes * option.sale.offer.gpus
    more = ranks / work.gpus
    steps, share = _steps(file, work), 1 / more
    if file.batch == "grows":
        steps, share = math.ceil(steps / more), 1.0
    compute = _slower(_shared(work.peers, share), speed)
    alone = replace(work.peers, alone=work.alone)
    step = _slower(_shared(alone, share), speed).alone
    if cost is not None:
        step = predicted(cost, compute, METHODS["ddp"], ranks, work.size)
    run = steps * step / 3600
    start = _hours(file.start) if file.start else 0.0
    took = with_interruptions(run, *_saving(file, option), start)
    hours = start + took
    price, stored = option.sale.offer.price, file.storage
    dollars = None if price is None else price * option.nodes * hours
    if dollars is not None and stored is not None:
        dollars += stored.gib * stored.per_gib_month * hours / MONTH_H
    return replace(option, step=step, hours=hours, lost=took - run, cost=dollars)


def _slower(compute: Compute, speed: float) -> Compute:
    names = ("forward", "backward", "update", "alone", "slowest", "own")
    return Compute(*(getattr(compute, name) / speed for name in names))


def _steps(file: TrainingFile, work: Workload) -> int:
    if file.steps is not None:
        return file.steps
    return math.ceil((file.tokens or 0.0) / (work.tokens or 1.0))


def _saving(file: TrainingFile, option: Option) -> tuple[float, float, float]:
    """Hours between interruptions of the cluster, between checkpoints, and of a checkpoint."""
    entry = _entry(file.interruptions, option.sale.offer)
    between = _hours(entry.every) / option.nodes if entry else math.inf
    saved = file.checkpoint
    if saved is None:
        return between, math.inf, 0.0
    takes = _hours(saved.takes)
    best = math.sqrt(2 * takes * between) or math.inf if math.isfinite(between) else math.inf
    return between, _hours(saved.every) if saved.every else best, takes


def with_interruptions(
    run: float, between: float, every: float, takes: float, start: float
) -> float:
    """Expected hours of a run with checkpoints and interruptions, from its first step on.

    Args:
        run: hours without either.
        between: mean hours between two interruptions, inf for none.
        every: hours between two checkpoints, inf for none.
        takes: hours of a checkpoint.
        start: hours from an interruption until the run continues.
    """
    piece = min(every, run)
    cost = takes if math.isfinite(every) else 0.0
    if not math.isfinite(between):
        return run * (1 + cost / piece)
    try:
        stretch = between * math.exp(start / between) * math.expm1((piece + cost) / between)
    except OverflowError:
        return math.inf
    return run / piece * stretch


def _notes(file: TrainingFile, work: Workload, kinds: Sequence[OnSale]) -> Iterator[str]:
    """What the figures do not count, and assume."""
    if file.batch == "grows":
        yield "the batch grows with the GPUs: fewer and larger steps, which is another training"
    else:
        yield "the batch is fixed: all GPUs share a step evenly"
    if file.start is None:
        yield "not counted: the time until the training runs (start)"
    if file.gpu_memory_gib is None:
        yield "not checked: memory of the GPUs (gpu_memory_gib)"
    if file.storage is None:
        yield "not counted: storage"
    silent = sorted({k.offer.provider for k in kinds if not _entry(file.interruptions, k.offer)})
    if silent:
        yield f"unknown and not counted: interruptions of machines of {', '.join(silent)}"
    apart = {k.offer.provider for k in kinds if len(_counts(file, k)) == 1 and not k.together}
    for provider in sorted(apart if file.nodes > 1 else ()):
        yield f"no job over several single machines of {provider}: each is a separate island"
    if file.checkpoint is None:
        yield "not counted: checkpoints; after an interruption the run begins again"
    elif silent and file.checkpoint.every is None:
        yield "not counted where interruptions are unknown: checkpoints (checkpoint.every)"
    yield from _measured(work)


def _measured(work: Workload) -> Iterator[str]:
    """What step and network are from."""
    if work.basis:
        yield work.basis
    if work.cost is None:
        yield (
            "the network without a record: no traffic is hidden by computing, and a message costs "
            "nothing where links have no message_us"
        )
    else:
        yield f"the network from the record of {work.device}: {ROUGH}"


def excerpt(option: Option) -> str:
    """The part of a cluster file that rents these machines; several of them in one region."""
    offer, nodes = option.sale.offer, option.nodes
    hosts = "gpu0" if nodes == 1 else f"gpu[0-{nodes - 1}]"
    kind = type_of_name(offer.gpu)
    rental = RENTALS[offer.provider]
    several = nodes > 1 and not option.sale.together
    where = option.sale.regions[:1] if several else option.sale.regions
    regions = ", ".join(map(_scalar, where))
    regions = f", regions: [{regions}]" if regions else ""
    count = f", count: {offer.gpus}" if rental.counts else ""
    together = ", cluster: true" if option.sale.together else ""
    price = (offer.price or 0.0) * nodes
    lines = [
        "groups:",
        "  - name: train",
        f"    provider: {offer.provider}",
        f"    nodes: {hosts}",
        f"    gpu: {{type: {kind}, count: {offer.gpus}}}",
        f"    cloud: {{type: {_scalar(offer.type)}{regions}{count}{together}}}",
        f"budget: {{per_hour: {_up(price)}, total: {_up(option.cost or 0.0)}}}",
    ]
    return "\n".join(lines) + "\n"


def _scalar(text: str) -> str:
    """A text of a cloud's in a YAML flow mapping."""
    return text if re.fullmatch(r"[A-Za-z][A-Za-z0-9 ._-]*", text) else json.dumps(text)


def _up(dollars: float) -> str:
    """Rounded up to the next cent, so that a budget admits it."""
    return f"{math.ceil(round(dollars * 100, 6)) / 100:.2f}"
