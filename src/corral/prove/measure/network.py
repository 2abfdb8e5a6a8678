"""Is the network between the nodes what it should be?

Reads what ``agents/benchmarks/network.py`` prints. Pure.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from corral.errors import Code, CorralError
from corral.prove.fabric.declared import efficiency
from corral.prove.fabric.pairs import Pair, slow
from corral.prove.fabric.verdict import SEVERAL, Outcome
from corral.prove.figures import Matrix
from corral.prove.measure.remark import Remark, graver_first, told, unreadable
from corral.spec.hostlist import fold

_CARRIED: Final = 0.9
"""Of the payload must show in the interface's own counter; headers only add to it."""
_LOSSY: Final = 0.01
"""Of the segments sent twice: TCP's rate falls with the root of it."""
_SEGMENT: Final = 1448
_FAR: Final = 3.0
_FAR_US: Final = 100.0
"""A round trip stands out when it is so many times the usual one and so much longer."""
_ROUNDED: Final = 0.99


@dataclass(frozen=True, slots=True)
class Due:
    """What the network should be.

    Attributes:
        interface: the declared one, "" for the one that leads to the first node.
        gbps: declared line rate, 0 when it is not declared.
        fabric: ethernet, infiniband or roce.
        mtu: declared MTU in bytes, 0 when it is not declared.
        usual: Gb/s of earlier measurements of this cluster, 0 when there are too few.
    """

    interface: str = ""
    gbps: float = 0.0
    fabric: str = "ethernet"
    mtu: int = 0
    usual: float = 0.0

    @property
    def rate(self) -> float:
        """Gb/s that TCP should reach, 0 when nothing is known."""
        # TCP's own share, whatever the fabric: over InfiniBand this measures IP over it.
        return self.gbps * efficiency("ethernet", self.gbps) if self.gbps else self.usual

    @property
    def source(self) -> str:
        """Where ``rate`` is from."""
        return f"of {self.gbps:g} Gb/s declared" if self.gbps else "usual here"


@dataclass(frozen=True, slots=True)
class Member:
    """One node's data interface: MTU in bytes, negotiated speed in Mb/s (0: not reported)."""

    node: str
    interface: str
    address: str
    mtu: int
    speed: int
    physical: bool


@dataclass(frozen=True, slots=True)
class Flow:
    """What went from one node to another.

    Attributes:
        source: the sender.
        target: the receiver.
        gbps: as the receiver counted it.
        size: bytes of payload.
        tx: bytes by interface of the sender meanwhile.
        rx: bytes by interface of the receiver meanwhile.
        retransmits: segments sent again.
        rtt_us: median round trip of one byte.
        path_mtu: largest packet with the do-not-fragment bit that arrived; 0: none did.
        alone: measured alone, after it was slow in parallel with others.
    """

    source: str
    target: str
    gbps: float
    size: int
    tx: Mapping[str, int]
    rx: Mapping[str, int]
    retransmits: int
    rtt_us: float
    path_mtu: int
    alone: bool = False

    @property
    def way(self) -> str:
        """Both nodes in words."""
        return f"{self.source} to {self.target}"


@dataclass(frozen=True, slots=True)
class Links:
    """All that was measured."""

    members: tuple[Member, ...]
    flows: tuple[Flow, ...]

    def as_dict(self) -> dict[str, object]:
        """JSON-ready fields."""
        return {
            "members": [asdict(one) for one in self.members],
            "flows": [asdict(one) for one in self.flows],
        }

    @property
    def best(self) -> dict[tuple[str, str], float]:
        """Gb/s from one node to another, the better of in parallel and alone."""
        found: dict[tuple[str, str], float] = {}
        for flow in self.flows:
            key = flow.source, flow.target
            found[key] = max(found.get(key, 0.0), flow.gbps)
        return found


def read_links(lines: Sequence[str]) -> Links:
    """Read what the program printed.

    Raises:
        CorralError: PARSE_FAILED, it ended without a result, or a line is spoiled.
    """
    listed = told(lines, "members")
    if not listed:
        raise CorralError(
            Code.PARSE_FAILED,
            "the measurement of the network ended without a result",
            tail="\n".join(lines[-20:]),
            hint="corral logs JOB shows what it printed; its nodes need python3",
        )
    try:
        members = tuple(_member(one) for one in listed[-1]["members"])
        return Links(members, tuple(_flow(one) for one in told(lines, "flow")))
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(str(error)) from error


def _member(one: Mapping[str, Any]) -> Member:
    return Member(
        str(one["node"]),
        str(one["interface"]),
        str(one["address"]),
        int(one["mtu"]),
        int(one["speed"]),
        bool(one["physical"]),
    )


def _flow(one: Mapping[str, Any]) -> Flow:
    return Flow(
        str(one["from"]),
        str(one["to"]),
        float(one["gbps"]),
        int(one["bytes"]),
        {str(k): int(v) for k, v in one["tx"].items()},
        {str(k): int(v) for k, v in one["rx"].items()},
        int(one["retransmits"]),
        float(one["rtt_us"]),
        int(one["path_mtu"]),
        bool(one["alone"]),
    )


def matrix_of(seen: Links, due: Due) -> Matrix:
    """Gb/s from each node to each other, for a report."""
    names = tuple(one.node for one in seen.members)
    best = seen.best
    warn, fail = (due.rate * share or None for share in SEVERAL)
    cells = tuple(tuple(best.get((a, b)) for b in names) for a in names)
    return Matrix("TCP from node to node", names, names, cells, "Gb/s", warn=warn, fail=fail)


def judge_links(seen: Links, due: Due) -> tuple[Remark, ...]:
    """What is wrong with the network, or that it is healthy."""
    rules: tuple[Callable[[Links, Due], Iterator[Remark]], ...] = (
        _missing,
        _negotiated,
        _mtus,
        _paths,
        _interfaces,
        _slow,
        _shared,
        _lossy,
        _far,
    )
    found = [remark for rule in rules for remark in rule(seen, due)]
    return graver_first([*found, *_well(seen, due, found)])


def _missing(seen: Links, due: Due) -> Iterator[Remark]:
    for one in seen.members:
        if not one.address:
            name = one.interface or due.interface
            what = f"{name} has no IPv4 address" if one.mtu else f"there is no interface {name}"
            yield Remark(Outcome.FAIL, one.node, f"{one.node}: {what}", "F26")


def _negotiated(seen: Links, due: Due) -> Iterator[Remark]:
    for one in seen.members:
        if one.physical and 0 < one.speed < due.gbps * 1000 * _ROUNDED:
            yield Remark(
                Outcome.FAIL,
                one.node,
                f"{one.node}: {one.interface} runs at {one.speed / 1000:g} Gb/s and "
                f"{due.gbps:g} are declared: cable, port or autonegotiation",
            )


def _mtus(seen: Links, due: Due) -> Iterator[Remark]:
    known = [one for one in seen.members if one.address]
    if due.mtu:
        for one in known:
            if one.mtu != due.mtu:
                yield Remark(
                    Outcome.FAIL,
                    one.node,
                    f"{one.node}: {one.interface} has MTU {one.mtu}, declared is {due.mtu}",
                    "F28",
                )
    elif len({one.mtu for one in known}) > 1:
        by = {m: fold([o.node for o in known if o.mtu == m]) for m in {o.mtu for o in known}}
        words = ", ".join(f"{mtu} on {by[mtu]}" for mtu in sorted(by))
        yield Remark(Outcome.WARN, fold([o.node for o in known]), f"MTUs differ: {words}", "F28")


def _paths(seen: Links, due: Due) -> Iterator[Remark]:
    del due
    mtu = {one.node: one.mtu for one in seen.members}
    cut = {(f.source, f.target): f for f in seen.flows if f.path_mtu < mtu.get(f.source, 0)}
    left = dict(cut)
    for node in mtu:
        mine = {way: flow for way, flow in cut.items() if node in way}
        if len(mine) > 2 and len(mine) == sum(node in way for way in seen.best):  # noqa: PLR2004
            left = {way: flow for way, flow in left.items() if way not in mine}
            yield _lost(node, f"between {node} and every other node", tuple(mine.values()), mtu)
    for flow in left.values():
        yield _lost(flow.way, f"from {flow.way}", (flow,), mtu)


def _lost(about: str, where: str, flows: tuple[Flow, ...], mtu: Mapping[str, int]) -> Remark:
    passing = min(flow.path_mtu for flow in flows)
    if not passing:
        return Remark(Outcome.WARN, about, f"no UDP packet arrives {where}: MTU not known", "F18")
    return Remark(
        Outcome.FAIL,
        about,
        f"packets of more than {passing} bytes are lost {where}, and the interfaces take "
        f"{max(mtu[flow.source] for flow in flows)}",
        "F28",
    )


def _interfaces(seen: Links, due: Due) -> Iterator[Remark]:
    of = {one.node: one.interface for one in seen.members}
    wrong: dict[tuple[str, str, str], set[str]] = {}
    for flow in seen.flows:
        for verb, node, peer, carried in (
            ("sends to", flow.source, flow.target, flow.tx),
            ("receives from", flow.target, flow.source, flow.rx),
        ):
            if carried.get(of[node], 0) < flow.size * _CARRIED:
                used = max(carried, key=carried.__getitem__, default="no interface")
                wrong.setdefault((node, verb, used), set()).add(peer)
    kind = "declared" if due.interface else "data"
    for (node, verb, used), peers in wrong.items():
        yield Remark(
            Outcome.FAIL,
            node,
            f"{node} {verb} {fold(sorted(peers))} over {used} and not over the {kind} interface "
            f"{of[node]}: two interfaces in one subnet, or a route that leads elsewhere",
            "F37",
        )


def _slow(seen: Links, due: Due) -> Iterator[Remark]:
    warn, fail = SEVERAL
    if not due.rate:
        return
    rates = {way: min(rate, due.rate) for way, rate in seen.best.items()}
    bad = {way: rate for way, rate in rates.items() if rate < due.rate * warn}
    named = slow(_pairs(rates))
    for node in named.nodes:
        mine = [rate for way, rate in bad.items() if node in way]
        yield Remark(
            Outcome.FAIL,
            node,
            f"{node} is slow with every other node: {min(mine):.3g} to {max(mine):.3g} Gb/s, "
            f"{due.rate:.3g} are due ({due.source}): its card, cable, port or settings",
        )
    for (source, target), rate in bad.items():
        if source in named.nodes or target in named.nodes:
            continue
        yield Remark(
            Outcome.FAIL if rate < due.rate * fail else Outcome.WARN,
            f"{source} to {target}",
            f"{source} to {target}: {rate:.3g} Gb/s, {rate / due.rate:.0%} of {due.rate:.3g} "
            f"({due.source}): the path between them",
        )


def _pairs(rates: Mapping[tuple[str, str], float]) -> list[Pair]:
    found: dict[tuple[str, str], float] = {}
    for (source, target), rate in rates.items():
        one, other = sorted((source, target))
        found[one, other] = min(found.get((one, other), rate), rate)
    return [Pair(one, other, rate) for (one, other), rate in found.items()]


def _shared(seen: Links, due: Due) -> Iterator[Remark]:
    warn, fail = SEVERAL
    if not due.rate or len(seen.members) < 4:  # noqa: PLR2004 - below, one pair runs at a time
        return
    together = {(f.source, f.target): f.gbps for f in seen.flows if not f.alone}
    ways = [
        way
        for way, rate in seen.best.items()
        if together.get(way, rate) < due.rate * fail and rate >= due.rate * warn
    ]
    if ways:
        yield Remark(
            Outcome.WARN,
            fold(sorted({node for way in ways for node in way})),
            f"{len(ways)} links are slow only while others are busy: the switch or trunk between "
            "them carries less than all of them together",
        )


def _lossy(seen: Links, due: Due) -> Iterator[Remark]:
    del due
    shares = {(f.source, f.target): f.retransmits * _SEGMENT / max(f.size, 1) for f in seen.flows}
    bad = {way: share for way, share in shares.items() if share > _LOSSY}
    left = set(bad)
    for node in (one.node for one in seen.members):
        for end, words in (
            (1, f"from every other node to {node}"),
            (0, f"from {node} to every other node"),
        ):
            ways = [way for way in seen.best if way[end] == node]
            if len(ways) > 1 and all(way in bad for way in ways):
                left -= set(ways)
                most = max(bad[way] for way in ways)
                yield Remark(
                    Outcome.WARN,
                    node,
                    f"{words} up to {most:.1%} of the segments were sent twice: packets are lost "
                    "at its card, cable or port",
                )
    for source, target in sorted(left):
        share, way = bad[source, target], f"{source} to {target}"
        lost = f"{way}: {share:.1%} of the segments were sent twice: packets are lost"
        yield Remark(Outcome.WARN, way, lost)


def _far(seen: Links, due: Due) -> Iterator[Remark]:
    del due
    trips = {(f.source, f.target): f.rtt_us for f in seen.flows}
    if len(trips) < 3:  # noqa: PLR2004 - nothing to compare with
        return
    usual = statistics.median(trips.values())
    for (source, target), trip in trips.items():
        if trip > usual * _FAR and trip > usual + _FAR_US:
            yield Remark(
                Outcome.WARN,
                f"{source} to {target}",
                f"{source} to {target}: a round trip takes {trip:.0f} us, others {usual:.0f} us",
            )


def _well(seen: Links, due: Due, found: Sequence[Remark]) -> Iterator[Remark]:
    rates = list(seen.best.values())
    if not rates:
        return
    words = (
        f"{len(rates)} links carry {min(rates):.3g} to {max(rates):.3g} Gb/s, round trips of "
        f"{statistics.median(f.rtt_us for f in seen.flows):.0f} us, MTU "
        f"{min(f.path_mtu for f in seen.flows)}"
    )
    about = fold([one.node for one in seen.members])
    if not due.rate:
        yield Remark(
            Outcome.UNKNOWN, about, f"{words}; declare network.data.gbps to have the rate judged"
        )
    elif not any(one.outcome in (Outcome.FAIL, Outcome.WARN) for one in found):
        yield Remark(Outcome.PASS, about, f"{words}; due are {due.rate:.3g} ({due.source})")
    else:
        yield Remark(Outcome.UNKNOWN, about, words)
