"""Is each GPU what its model should be (``gpu_models.yaml``)? Pure.

Two opinions on each rate: against the model's data sheet, which is coarse, for shapes, libraries
and power differ; and against GPUs of the same model in the same measurement, which is sharp.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from pydantic import Field

from corral.errors import Code, CorralError
from corral.inspect.gpu import type_of_name
from corral.inspect.rules import EccFault, LinkFault, ecc_faults, link_faults, remap_faults
from corral.inspect.xids import xids_by_number
from corral.prove.fabric.verdict import Outcome
from corral.prove.figures import Matrix
from corral.prove.measure.measurement import Remark, graver_first, results_of
from corral.tables import Row, read_table


class GpuModel(Row):
    """One kind of GPU.

    Attributes:
        title: its name.
        pattern: what its name looks like to PyTorch and nvidia-smi.
        half: peak of bfloat16 and float16 in TFLOP/s.
        tf32: peak in TFLOP/s, 0 where there is none.
        single: peak of float32 in TFLOP/s.
        memory: peak of its memory in GB/s.
        watts: the most that its board draws as it is sold.
        source: where the peaks are from.
        own: type to TFLOP/s, and ``memory`` to GB/s, that Corral's own program measured on a
            healthy one (docs/measurements/).
        seen: type to TFLOP/s that somebody else published for a healthy one.
        seen_source: who.
    """

    title: str
    pattern: str
    half: float
    tf32: float
    single: float
    memory: float
    watts: int
    source: str
    own: Mapping[str, float] = Field(default_factory=dict)
    seen: Mapping[str, float] = Field(default_factory=dict)
    seen_source: str = ""

    def peak(self, kind: str) -> float:
        """TFLOP/s, GB/s of ``memory``, that cannot be passed; 0: not known."""
        return {
            "bfloat16": self.half,
            "float16": self.half,
            "tf32": self.tf32,
            "float32": self.single,
            "memory": self.memory,
        }.get(kind, 0.0)


@cache
def gpu_models() -> tuple[GpuModel, ...]:
    """All known ones; the first whose pattern fits a name counts."""
    return read_table("corral.prove.measure", "gpu_models.yaml", tuple[GpuModel, ...])


def board_watts(kind: str) -> int:
    """The most that a GPU of this Slurm type draws; of an unknown one that of the largest known.

    A machine's own limit may be lower, and two boards of one type (``a100``) count as the larger.
    """
    types = [(type_of_name(model.title), model.watts) for model in gpu_models()]
    named = [(len(name), watts) for name, watts in types if name in kind.lower()]
    return max(named)[1] if named else max(watts for _, watts in types)


class Slowed(Row):
    """Why a clock is held down."""

    bit: int
    outcome: Outcome
    text: str


class GpuStates(Row):
    """The table ``gpu_states.yaml``, which explains each key."""

    lanes: Mapping[int, float]
    slowed: tuple[Slowed, ...]


@cache
def gpu_states() -> GpuStates:
    """What a GPU reports about its link and its clocks."""
    return read_table("corral.prove.measure", "gpu_states.yaml", GpuStates)


def model_of(name: str) -> GpuModel | None:
    """The kind of GPU that has this name; None for one that is not known."""
    return next((m for m in gpu_models() if re.search(m.pattern, name, re.I)), None)


SIBLINGS: Final = (0.95, 0.90)
"""GPUs of one node differ by 5 % in good health (ml-engineering); 5 % is SuperBench's line."""
OF_OWN: Final = (0.90, 0.80)
"""Of what the same program measured on a healthy one; libraries and rooms differ."""
OF_SEEN: Final = (0.75, 0.60)
"""Of the best anybody saw, which was the best of many shapes."""
OF_PEAK: Final = (0.55, 0.40)
"""Of a data sheet's peak: what no healthy GPU of the last five generations falls below."""
OF_MEMORY: Final = (0.80, 0.65)
OF_LINK: Final = (0.65, 0.40)
_OVER: Final = 1.05
_KINDS: Final = ("bfloat16", "float16", "tf32", "float32")


@dataclass(frozen=True, slots=True)
class Node:
    """What one node reported: the program's fields, checked as they are read."""

    name: str
    reason: str
    gpus: tuple[Mapping[str, Any], ...]
    peers: tuple[Mapping[str, Any], ...]
    xids: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class _Card:
    """One GPU of one node, with its siblings' medians."""

    about: str
    gpu: Mapping[str, Any]
    model: GpuModel | None
    usual: Mapping[str, float]


def read_gpus(lines: Sequence[str]) -> tuple[Node, ...]:
    """Read what the program printed on each node.

    Raises:
        CorralError: PARSE_FAILED, it ended without a result, or reported something else.
    """
    listed = results_of(lines, "gpus")
    if not listed:
        raise CorralError(
            Code.PARSE_FAILED,
            "the measurement of the GPUs ended without a result",
            tail="\n".join(lines[-20:]),
            hint="corral logs JOB shows what it printed; its nodes need python3 with PyTorch",
        )
    try:
        return tuple(sorted((_node(report) for report in listed), key=lambda node: node.name))
    except (KeyError, TypeError, ValueError) as error:
        raise CorralError(
            Code.PARSE_FAILED, f"a node's report about its GPUs cannot be read: {error!r}"
        ) from error


def _node(report: Mapping[str, Any]) -> Node:
    for gpu in report["gpus"]:
        for name in rates(gpu):
            float(rates(gpu)[name])
    xids = report.get("xids", {"found": []})
    return Node(
        str(report["node"]),
        str(report["reason"]),
        tuple(report["gpus"]),
        tuple(report["peers"]),
        tuple(xids["found"]),
    )


def rates(gpu: Mapping[str, Any]) -> dict[str, float]:
    """All rates of one GPU: TFLOP/s by type, GB/s of memory and of the link to the host."""
    values = {name: float(product["tflops"]) for name, product in gpu["matrix"].items()}
    values["memory"] = float(gpu["memory"]["gb_s"])
    for key in ("to_gb_s", "from_gb_s"):
        if gpu["host"][key] is not None:
            values[key] = float(gpu["host"][key])
    return values


def judge_gpus(nodes: Sequence[Node], declared: int = 0) -> tuple[Remark, ...]:
    """What is wrong with the GPUs, or that they are healthy.

    Args:
        nodes: as read.
        declared: GPUs that each node should have; 0: as many as it has.
    """
    remarks = [remark for node in nodes for remark in _counted(node, declared)]
    cards = _cards(nodes)
    rules: tuple[Callable[[_Card], Iterator[Remark]], ...] = (
        _wrong,
        _errors,
        _slowed,
        _against_model,
        _against_siblings,
        _link,
    )
    remarks += [remark for card in cards for rule in rules for remark in rule(card)]
    remarks += [remark for node in nodes for remark in _peers(node)]
    remarks += [remark for node in nodes for remark in _xids(node)]
    return graver_first([*remarks, *(r for c in cards for r in _summary(c, remarks))])


def peer_matrix(node: Node) -> Matrix | None:
    """GB/s from each GPU of a node to each other; None where there is one."""
    if not node.peers:
        return None
    names = tuple(str(gpu["index"]) for gpu in node.gpus)
    rate = {(str(p["from"]), str(p["to"])): float(p["gb_s"]) for p in node.peers}
    cells = tuple(tuple(rate.get((a, b)) for b in names) for a in names)
    return Matrix(f"copies from GPU to GPU on {node.name}", names, names, cells, "GB/s")


def _cards(nodes: Sequence[Node]) -> list[_Card]:
    by_name: dict[str, list[dict[str, float]]] = {}
    for node in nodes:
        for gpu in node.gpus:
            by_name.setdefault(str(gpu["name"]), []).append(rates(gpu))
    cards: list[_Card] = []
    for node in nodes:
        for gpu in node.gpus:
            name = str(gpu["name"])
            all_of = by_name[name]
            usual = {
                key: statistics.median(peer[key] for peer in all_of if key in peer)
                for key in rates(gpu)
                if len(all_of) > 1
            }
            cards.append(_Card(f"{node.name} GPU {gpu['index']}", gpu, model_of(name), usual))
    return cards


def _counted(node: Node, declared: int) -> Iterator[Remark]:
    if node.reason:
        yield Remark(Outcome.FAIL, node.name, f"{node.name}: {node.reason}", "F76")
    elif len(node.gpus) < declared:
        text = f"{node.name} has {len(node.gpus)} GPUs that can be used, {declared} are declared"
        yield Remark(Outcome.FAIL, node.name, text, "F77")


def _wrong(card: _Card) -> Iterator[Remark]:
    for kind, product in card.gpu["matrix"].items():
        if product["wrong"]:
            yield Remark(
                Outcome.FAIL,
                card.about,
                f"{card.about}: the same {kind} product differed in {product['wrong']} "
                "places: it computes wrongly",
                "F78",
            )


def _errors(card: _Card) -> Iterator[Remark]:
    state = card.gpu["after"] or card.gpu["before"]
    counted = {
        EccFault.UNCORRECTED: _figure(state, "ecc_uncorrected"),
        EccFault.CORRECTED: _figure(state, "ecc_corrected"),
    }
    for fault in ecc_faults(*counted.values()):
        yield Remark(Outcome.FAIL, card.about, f"{card.about}: {fault} ({counted[fault]:g})", "F78")
    rows: Mapping[str, Any] = card.gpu["remapped"] or {}
    for fault in remap_faults(rows):
        outcome = Outcome.FAIL if fault.takes_out else Outcome.WARN
        yield Remark(outcome, card.about, f"{card.about}: {fault}", "F78")


def _figure(state: Mapping[str, Any], name: str) -> float | None:
    """A number; None where the driver reports none."""
    value = state.get(name)
    return value if isinstance(value, int | float) else None


def _slowed(card: _Card) -> Iterator[Remark]:
    reasons = card.gpu["load"]["reasons"]
    for row in gpu_states().slowed:
        if isinstance(reasons, int) and reasons & row.bit:
            load = card.gpu["load"]
            at = f"{load['sm_mhz']} MHz, {load['celsius']} C, {load['watts']} W"
            yield Remark(row.outcome, card.about, f"{card.about}: {row.text}: {at}")
    state = card.gpu["before"]
    limit, default = state.get("watts_limit"), state.get("watts_default")
    if limit and default and limit < default * 0.98:
        text = f"{card.about}: its power limit is {limit:g} W, the model's {default:g} W"
        yield Remark(Outcome.WARN, card.about, text)


def _against_model(card: _Card) -> Iterator[Remark]:
    if card.model is None:
        return
    for what in (*_KINDS, "memory"):
        rate = rates(card.gpu).get(what)
        peak = card.model.peak(what)
        if rate is None or not peak:
            continue
        unit = "GB/s" if what == "memory" else "TFLOP/s"
        yield from _rated(card, what, rate, unit, _reference(card.model, what, peak))
        if rate > peak * _OVER:
            text = f"{card.about}: {what} {rate:.4g} {unit} is more than a {card.model.title}"
            yield Remark(Outcome.WARN, card.about, f"{text} can do: it is another model")


def _reference(model: GpuModel, what: str, peak: float) -> tuple[float, tuple[float, float], str]:
    if what in model.own:
        return model.own[what], OF_OWN, f"measured on a healthy {model.title}"
    if what in model.seen:
        return model.seen[what], OF_SEEN, f"{model.title}, {model.seen_source}"
    rule = OF_MEMORY if what == "memory" else OF_PEAK
    return peak, rule, f"peak of {model.title}"


def _rated(
    card: _Card,
    what: str,
    rate: float,
    unit: str,
    against: tuple[float, tuple[float, float], str],
) -> Iterator[Remark]:
    reference, (warn, fail), words = against
    share = rate / reference
    if share < warn:
        yield Remark(
            Outcome.FAIL if share < fail else Outcome.WARN,
            card.about,
            f"{card.about}: {what} {rate:.4g} {unit}, {share:.0%} of {reference:g} ({words})",
        )


def _against_siblings(card: _Card) -> Iterator[Remark]:
    for key, usual in card.usual.items():
        rate = rates(card.gpu)[key]
        unit = "GB/s" if key == "memory" or key.endswith("gb_s") else "TFLOP/s"
        # The link to the host depends on which socket's memory it was: coarser.
        rule = OF_LINK if key.endswith("gb_s") else SIBLINGS
        yield from _rated(card, _NAMES.get(key, key), rate, unit, (usual, rule, "its siblings"))


_NAMES: Final = {"to_gb_s": "host to device", "from_gb_s": "device to host"}


def _link(card: _Card) -> Iterator[Remark]:
    state = card.gpu["before"]
    load = card.gpu["load"]
    width, most = load.get("pcie_width"), state.get("pcie_width_max")
    # At rest a link goes down to save power; under load it shows what it is.
    gen, newest = load.get("pcie_gen"), state.get("pcie_gen_max")
    faults = link_faults(width, most, gen, newest)
    if LinkFault.LANES in faults:
        text = f"{card.about}: its PCIe link has {width:g} of {most} lanes"
        yield Remark(Outcome.WARN, card.about, f"{text}: seat, riser or slot")
    if LinkFault.GENERATION in faults:
        text = f"{card.about}: its PCIe link runs at generation {gen:g} of {newest}"
        yield Remark(Outcome.WARN, card.about, f"{text}: riser, cable or BIOS")
    expected = gpu_states().lanes.get(int(gen or 0), 0.0) * (width or 0)
    for key in ("to_gb_s", "from_gb_s"):
        rate = rates(card.gpu).get(key)
        if expected and rate:
            words = f"PCIe generation {gen:g} x{width:g}"
            yield from _rated(card, _NAMES[key], rate, "GB/s", (expected, OF_LINK, words))


def _peers(node: Node) -> Iterator[Remark]:
    kinds = {str(gpu["name"]) for gpu in node.gpus}
    known = [float(p["gb_s"]) for p in node.peers]
    usual = statistics.median(known) if known else 0.0
    for peer in node.peers:
        about = f"{node.name} GPU {peer['from']} to {peer['to']}"
        if peer["wrong"]:
            text = f"{about}: {peer['wrong']} bytes of a copy arrived wrong"
            yield Remark(Outcome.FAIL, about, text, "F36")
        rate = float(peer["gb_s"])
        if len(known) > 2 and len(kinds) == 1 and rate < usual * 0.5:  # noqa: PLR2004
            text = f"{about}: {rate:.4g} GB/s, others {usual:.4g}: NVLink or switch"
            yield Remark(Outcome.WARN, about, text, "F79")


def _xids(node: Node) -> Iterator[Remark]:
    counted: dict[tuple[str, int], list[str]] = {}
    for event in node.xids:
        key = str(event["bus"]), int(event["xid"])
        counted.setdefault(key, []).append(str(event["text"]))
    for (bus, number), messages in counted.items():
        xid = xids_by_number().get(number)
        # The driver prints what it asks for each time: the last message of 154 counts.
        judged = messages[-1:] if xid and xid.do == "derived" else messages
        grave = xid is not None and any(xid.takes_out(message) for message in judged)
        yield Remark(
            Outcome.FAIL if grave else Outcome.WARN,
            node.name,
            f"{node.name} {bus}: Xid {number}, {len(messages)} times since the machine started",
            xid.failure if xid else "",
        )


def _summary(card: _Card, remarks: Sequence[Remark]) -> Iterator[Remark]:
    measured = rates(card.gpu)
    words = ", ".join(f"{kind} {measured[kind]:.4g}" for kind in _KINDS if kind in measured)
    text = f"{card.about} {card.gpu['name']}: {words} TFLOP/s, memory {measured['memory']:.4g} GB/s"
    bad = any(r.about == card.about and r.outcome in (Outcome.FAIL, Outcome.WARN) for r in remarks)
    known = card.model is not None or bool(card.usual)
    yield Remark(Outcome.PASS if known and not bad else Outcome.UNKNOWN, card.about, text)
