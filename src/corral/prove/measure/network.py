"""Is the network between the nodes what it should be?

Reads what ``agents/benchmarks/network.py`` prints. Pure.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from corral.errors import Code, CorralError
from corral.inspect.rules import mtu_problems
from corral.prove.fabric.limits import efficiency
from corral.prove.fabric.slow_parts import Pair, slow
from corral.prove.fabric.verdict import SEVERAL, Outcome
from corral.prove.figures import Matrix
from corral.prove.measure.measurement import Remark, graver_first, results_of, unreadable
from corral.spec.slurm.hostlist import fold

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
class Expected:
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
    def link(self) -> str:
        """Both nodes in words."""
        return f"{self.source} to {self.target}"


@dataclass(frozen=True, slots=True)
class Links:
    """All that was measured."""

    members: tuple[Member, ...]
    flows: tuple[Flow, ...]

    def as_dict(self) -> dict[str, object]:
        return {
            "members": [asdict(member) for member in self.members],
            "flows": [asdict(flow) for flow in self.flows],
        }

    @property
    def best(self) -> dict[tuple[str, str], float]:
        """Gb/s from one node to another, the better of in parallel and alone."""
        rates: dict[tuple[str, str], float] = {}
        for flow in self.flows:
            key = flow.source, flow.target
            rates[key] = max(rates.get(key, 0.0), flow.gbps)
        return rates


def read_links(lines: Sequence[str]) -> Links:
    """Read what the program printed.

    Raises:
        CorralError: PARSE_FAILED, it ended without a result, or a line is spoiled.
    """
    listed = results_of(lines, "members")
    if not listed:
        raise CorralError(
            Code.PARSE_FAILED,
            "the measurement of the network ended without a result",
            tail="\n".join(lines[-20:]),
            hint="corral logs JOB shows what it printed; its nodes need python3",
        )
    try:
        members = tuple(_member(entry) for entry in listed[-1]["members"])
        return Links(members, tuple(_flow(entry) for entry in results_of(lines, "flow")))
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(str(error)) from error


def _member(entry: Mapping[str, Any]) -> Member:
    return Member(
        str(entry["node"]),
        str(entry["interface"]),
        str(entry["address"]),
        int(entry["mtu"]),
        int(entry["speed"]),
        bool(entry["physical"]),
    )


def _flow(entry: Mapping[str, Any]) -> Flow:
    return Flow(
        str(entry["from"]),
        str(entry["to"]),
        float(entry["gbps"]),
        int(entry["bytes"]),
        {str(k): int(v) for k, v in entry["tx"].items()},
        {str(k): int(v) for k, v in entry["rx"].items()},
        int(entry["retransmits"]),
        float(entry["rtt_us"]),
        int(entry["path_mtu"]),
        bool(entry["alone"]),
    )


def matrix_of(seen: Links, expected: Expected) -> Matrix:
    """Gb/s from each node to each other, for a report."""
    names = tuple(member.node for member in seen.members)
    best = seen.best
    warn, fail = (expected.rate * share or None for share in SEVERAL)
    cells = tuple(tuple(best.get((a, b)) for b in names) for a in names)
    return Matrix("TCP from node to node", names, names, cells, "Gb/s", warn=warn, fail=fail)


def judge_links(seen: Links, expected: Expected) -> tuple[Remark, ...]:
    """What is wrong with the network, or that it is healthy."""
    rules: tuple[Callable[[Links, Expected], Iterator[Remark]], ...] = (
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
    remarks = [remark for rule in rules for remark in rule(seen, expected)]
    return graver_first([*remarks, *_summary(seen, expected, remarks)])


def _missing(seen: Links, expected: Expected) -> Iterator[Remark]:
    for member in seen.members:
        if not member.address:
            name = member.interface or expected.interface
            what = f"{name} has no IPv4 address" if member.mtu else f"there is no interface {name}"
            yield Remark(Outcome.FAIL, member.node, f"{member.node}: {what}", "F26")


def _negotiated(seen: Links, expected: Expected) -> Iterator[Remark]:
    for member in seen.members:
        if member.physical and 0 < member.speed < expected.gbps * 1000 * _ROUNDED:
            yield Remark(
                Outcome.FAIL,
                member.node,
                f"{member.node}: {member.interface} runs at {member.speed / 1000:g} Gb/s and "
                f"{expected.gbps:g} are declared: cable, port or autonegotiation",
            )


def _mtus(seen: Links, expected: Expected) -> Iterator[Remark]:
    known = [member for member in seen.members if member.address]
    interfaces = {member.node: member.interface for member in known}
    declared = expected.mtu or 0
    problems = mtu_problems({member.node: member.mtu for member in known}, declared)
    if declared:
        for problem in problems:
            yield Remark(
                Outcome.FAIL,
                problem.node,
                f"{problem.node}: {interfaces[problem.node]} has MTU {problem.mtu}, declared is "
                f"{problem.usual}",
                "F28",
            )
    elif problems:
        by = {m: fold([o.node for o in known if o.mtu == m]) for m in {o.mtu for o in known}}
        words = ", ".join(f"{mtu} on {by[mtu]}" for mtu in sorted(by))
        yield Remark(Outcome.WARN, fold([o.node for o in known]), f"MTUs differ: {words}", "F28")


def _paths(seen: Links, expected: Expected) -> Iterator[Remark]:
    del expected
    mtu = {member.node: member.mtu for member in seen.members}
    cut = {(f.source, f.target): f for f in seen.flows if f.path_mtu < mtu.get(f.source, 0)}
    left = dict(cut)
    for node in mtu:
        mine = {link: flow for link, flow in cut.items() if node in link}
        if len(mine) > 2 and len(mine) == sum(node in link for link in seen.best):  # noqa: PLR2004
            left = {link: flow for link, flow in left.items() if link not in mine}
            yield _lost(node, f"between {node} and every other node", tuple(mine.values()), mtu)
    for flow in left.values():
        yield _lost(flow.link, f"from {flow.link}", (flow,), mtu)


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


def _interfaces(seen: Links, expected: Expected) -> Iterator[Remark]:
    of = {member.node: member.interface for member in seen.members}
    wrong: dict[tuple[str, str, str], set[str]] = {}
    for flow in seen.flows:
        for verb, node, peer, carried in (
            ("sends to", flow.source, flow.target, flow.tx),
            ("receives from", flow.target, flow.source, flow.rx),
        ):
            if carried.get(of[node], 0) < flow.size * _CARRIED:
                used = max(carried, key=carried.__getitem__, default="no interface")
                wrong.setdefault((node, verb, used), set()).add(peer)
    kind = "declared" if expected.interface else "data"
    for (node, verb, used), peers in wrong.items():
        yield Remark(
            Outcome.FAIL,
            node,
            f"{node} {verb} {fold(sorted(peers))} over {used} and not over the {kind} interface "
            f"{of[node]}: two interfaces in one subnet, or a route that leads elsewhere",
            "F37",
        )


def _slow(seen: Links, expected: Expected) -> Iterator[Remark]:
    warn, fail = SEVERAL
    if not expected.rate:
        return
    rates = {link: min(rate, expected.rate) for link, rate in seen.best.items()}
    bad = {link: rate for link, rate in rates.items() if rate < expected.rate * warn}
    named = slow(_pairs(rates))
    for node in named.nodes:
        mine = [rate for link, rate in bad.items() if node in link]
        yield Remark(
            Outcome.FAIL,
            node,
            f"{node} is slow with every other node: {min(mine):.3g} to {max(mine):.3g} Gb/s, "
            f"{expected.rate:.3g} are expected ({expected.source}): its card, cable, port or "
            "settings",
        )
    for (source, target), rate in bad.items():
        if source in named.nodes or target in named.nodes:
            continue
        yield Remark(
            Outcome.FAIL if rate < expected.rate * fail else Outcome.WARN,
            f"{source} to {target}",
            f"{source} to {target}: {rate:.3g} Gb/s, {rate / expected.rate:.0%} of "
            f"{expected.rate:.3g} ({expected.source}): the path between them",
        )


def _pairs(rates: Mapping[tuple[str, str], float]) -> list[Pair]:
    lowest: dict[tuple[str, str], float] = {}
    for (source, target), rate in rates.items():
        first, second = sorted((source, target))
        lowest[first, second] = min(lowest.get((first, second), rate), rate)
    return [Pair(first, second, rate) for (first, second), rate in lowest.items()]


def _shared(seen: Links, expected: Expected) -> Iterator[Remark]:
    warn, fail = SEVERAL
    if not expected.rate or len(seen.members) < 4:  # noqa: PLR2004 - below, one pair runs at a time
        return
    together = {(f.source, f.target): f.gbps for f in seen.flows if not f.alone}
    links = [
        link
        for link, rate in seen.best.items()
        if together.get(link, rate) < expected.rate * fail and rate >= expected.rate * warn
    ]
    if links:
        yield Remark(
            Outcome.WARN,
            fold(sorted({node for link in links for node in link})),
            f"{len(links)} links are slow only while others are busy: the switch or trunk between "
            "them carries less than all of them together",
        )


def _lossy(seen: Links, expected: Expected) -> Iterator[Remark]:
    del expected
    shares = {(f.source, f.target): f.retransmits * _SEGMENT / max(f.size, 1) for f in seen.flows}
    bad = {link: share for link, share in shares.items() if share > _LOSSY}
    left = set(bad)
    for node in (member.node for member in seen.members):
        for end, words in (
            (1, f"from every other node to {node}"),
            (0, f"from {node} to every other node"),
        ):
            links = [link for link in seen.best if link[end] == node]
            if len(links) > 1 and all(link in bad for link in links):
                left -= set(links)
                most = max(bad[link] for link in links)
                yield Remark(
                    Outcome.WARN,
                    node,
                    f"{words} up to {most:.1%} of the segments were sent twice: packets are lost "
                    "at its card, cable or port",
                )
    for source, target in sorted(left):
        share, about = bad[source, target], f"{source} to {target}"
        lost = f"{about}: {share:.1%} of the segments were sent twice: packets are lost"
        yield Remark(Outcome.WARN, about, lost)


def _far(seen: Links, expected: Expected) -> Iterator[Remark]:
    del expected
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


def _summary(seen: Links, expected: Expected, remarks: Sequence[Remark]) -> Iterator[Remark]:
    rates = list(seen.best.values())
    if not rates:
        return
    words = (
        f"{len(rates)} links carry {min(rates):.3g} to {max(rates):.3g} Gb/s, round trips of "
        f"{statistics.median(f.rtt_us for f in seen.flows):.0f} us, MTU "
        f"{min(f.path_mtu for f in seen.flows)}"
    )
    about = fold([member.node for member in seen.members])
    if not expected.rate:
        yield Remark(
            Outcome.UNKNOWN, about, f"{words}; declare network.data.gbps to have the rate judged"
        )
    elif not any(remark.outcome in (Outcome.FAIL, Outcome.WARN) for remark in remarks):
        yield Remark(
            Outcome.PASS, about, f"{words}; expected are {expected.rate:.3g} ({expected.source})"
        )
    else:
        yield Remark(Outcome.UNKNOWN, about, words)
