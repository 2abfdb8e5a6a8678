"""Which node is on which switch: what ``ibnetdiscover`` prints, and Slurm's topology of it. Pure.

Slurm's tree wants each node on one leaf switch (topology.conf(5)). On rail-optimised fabrics each
of a node's adapters is on another leaf, so nodes that share all their leaves count as one; and
what connects through the same higher switches is one branch, however many spines there are.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from corral.errors import Code, CorralError
from corral.slurm.conf.conf_file import ConfFile, ConfLine
from corral.spec.slurm.hostlist import fold_in_order
from corral.tables import read_table

_HEAD: Final = re.compile(r'^(Switch|Ca|Rt)\s+\d+\s+"([^"]+)"\s*#\s*"([^"]*)"')
_LINK: Final = re.compile(
    r'^\[(\d+)\](?:\([0-9a-fA-F]+\))?\s+"([^"]+)"\[(\d+)\](?:\([0-9a-fA-F]+\))?.*?(?:(\d+x\w+))?\s*$'
)


@dataclass(frozen=True, slots=True)
class Link:
    """One port of a switch or adapter, and what is at its other end.

    Attributes:
        port: its number.
        peer: id of the other end.
        gbps: rate in Gb/s, 0 where it was not printed.
        far: port number at the other end.
    """

    port: int
    peer: str
    gbps: float
    far: int = 0


@dataclass(frozen=True, slots=True)
class Device:
    """A switch or an adapter.

    Attributes:
        id: as the tool names it, such as S-0c42a1...
        name: its description: ``MF0;leaf01:MQM8700/U1``, ``dgx01 mlx5_0``.
        links: its ports that are connected.
    """

    id: str
    name: str
    links: tuple[Link, ...]


@dataclass(frozen=True)
class Fabric:
    """What one subnet manager sees.

    Attributes:
        switches: by id.
        adapters: by id.
    """

    switches: Mapping[str, Device]
    adapters: Mapping[str, Device]

    @property
    def nodes(self) -> dict[str, list[Device]]:
        """Adapters by the host that they report."""
        by_host: dict[str, list[Device]] = defaultdict(list)
        for adapter in self.adapters.values():
            words = adapter.name.split()
            if words and words[0] != "Mellanox" and "aggregation" not in adapter.name.lower():
                by_host[words[0].partition(".")[0].lower()].append(adapter)
        return dict(by_host)


@dataclass(frozen=True, slots=True)
class Switch:
    """One line of a tree: a leaf with nodes, or a branch with switches."""

    name: str
    nodes: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()


@dataclass(slots=True)
class _Reading:
    kind: str = ""
    id: str = ""
    name: str = ""
    links: list[Link] = field(default_factory=list[Link])


def parse(text: str) -> Fabric:
    """Read what ``ibnetdiscover`` printed.

    Raises:
        CorralError: PARSE_FAILED, it contains no switch.
    """
    switches: dict[str, Device] = {}
    adapters: dict[str, Device] = {}
    now = _Reading()
    for line in [*text.splitlines(), 'Ca 1 "end" # "end"']:
        head = _HEAD.match(line)
        if head:
            if now.id:
                made = Device(now.id, now.name, tuple(now.links))
                (switches if now.kind == "Switch" else adapters)[now.id] = made
            now = _Reading(head[1], head[2], head[3])
        elif now.id and (link := _LINK.match(line)):
            now.links.append(Link(int(link[1]), link[2], _gbps(line), int(link[3])))
    if not switches:
        raise CorralError(
            Code.PARSE_FAILED,
            "no switch is in this text",
            tail=text[:400],
            hint="give the output of: ibnetdiscover (as root, on a node of the fabric)",
        )
    return Fabric(switches, adapters)


def tree(fabric: Fabric, nodes: Sequence[str]) -> tuple[Switch, ...]:
    """The tree over these nodes, leaves first, one root.

    Args:
        fabric: as read.
        nodes: the cluster's nodes; others of the fabric are left out.

    Raises:
        CorralError: NOT_GOOD, a node is not on the fabric.
    """
    level = _levels(fabric)
    leaves = _merged(_leaves(fabric, nodes))
    switches = [
        Switch(f"leaf{i + 1}", tuple(sorted(leaves[key], key=nodes.index)))
        for i, key in enumerate(sorted(leaves, key=lambda k: nodes.index(leaves[k][0])))
    ]
    of = {n: s for s in switches for n in s.nodes}
    parts = {s.name: _switches_of(fabric, s.nodes) for s in switches}
    top = list(dict.fromkeys(of[n] for n in nodes))
    for height in range(2, max(level.values(), default=1) + 1):
        if len(top) == 1:
            break
        groups = _joined(fabric, top, parts, {s for s, at in level.items() if at <= height})
        above: list[Switch] = []
        for group in groups:
            if len(group) == 1:
                above.append(group[0])
                continue
            branch = Switch(
                f"spine{height - 1}-{len(above) + 1}", switches=tuple(s.name for s in group)
            )
            parts[branch.name] = set().union(*(parts[s.name] for s in group))
            switches.append(branch)
            above.append(branch)
        top = above
    if len(top) > 1:
        # Parts that nothing connects: a tree has one root, and Slurm would put no job over both.
        switches.append(Switch("apart", switches=tuple(s.name for s in top)))
    return tuple(switches)


def blocks(switches: Iterable[Switch]) -> tuple[Switch, ...]:
    """The leaves of a tree as blocks: nodes that a job of that size should have together."""
    return tuple(s for s in switches if s.nodes)


def tree_file(switches: Iterable[Switch]) -> ConfFile:
    """topology.conf for topology/tree."""
    lines: list[ConfLine] = []
    for s in switches:
        below = ("Nodes", fold_in_order(s.nodes)) if s.nodes else ("Switches", ",".join(s.switches))
        lines.append(ConfLine((("SwitchName", s.name), below)))
    return ConfFile("topology.conf", tuple(lines))


def block_file(switches: Sequence[Switch], sizes: Sequence[int] = ()) -> ConfFile:
    """topology.conf for topology/block (Slurm 23.11 and later).

    Args:
        switches: the blocks.
        sizes: BlockSizes; left out: the smallest block, which every block can give.
    """
    least = min((len(b.nodes) for b in switches), default=1)
    lines = [ConfLine((("BlockName", b.name), ("Nodes", fold_in_order(b.nodes)))) for b in switches]
    lines.append(ConfLine((("BlockSizes", ",".join(map(str, sizes or (least,)))),)))
    return ConfFile("topology.conf", tuple(lines))


def complaints(fabric: Fabric, nodes: Sequence[str]) -> tuple[str, ...]:
    """What is odd about these nodes' links, and cables between switches; one sentence each."""
    known = fabric.nodes
    messages = [f"{n} is not on the fabric" for n in nodes if n not in known]
    here = {n: known[n] for n in nodes if n in known}
    counts = defaultdict[int, list[str]](list)
    for node, adapters in here.items():
        counts[sum(len(a.links) for a in adapters)].append(node)
    usual = max(counts, key=lambda c: len(counts[c]), default=0)
    for count, who in sorted(counts.items()):
        if count != usual:
            messages.append(
                f"{fold_in_order(who)}: {count} links to the fabric, others have {usual}"
            )
    links = (link for adapters in here.values() for a in adapters for link in a.links)
    rates = [link.gbps for link in links if link.gbps]
    best = max(rates, default=0)
    for node, adapters in here.items():
        for adapter in adapters:
            slow = [link.gbps for link in adapter.links if 0 < link.gbps < best]
            messages += [
                f"{node}: {adapter.name} runs at {g:g} Gb/s, others at {best:g}" for g in slow
            ]
    return (*messages, *_slow_cables(fabric))


def _slow_cables(fabric: Fabric) -> list[str]:
    """Cables between switches that came up slower than most of their switch's: a bad plug."""
    messages: dict[frozenset[tuple[str, int]], str] = {}
    for id, switch in fabric.switches.items():
        cables = [link for link in switch.links if link.peer in fabric.switches and link.gbps]
        rates = Counter(cable.gbps for cable in cables)
        usual = max(rates, key=lambda rate: (rates[rate], rate), default=0)
        for cable in cables:
            key = frozenset({(id, cable.port), (cable.peer, cable.far)})
            if cable.gbps < usual and key not in messages:
                far = _called(fabric.switches[cable.peer])
                first, last = sorted(((_called(switch), cable.port), (far, cable.far)))
                messages[key] = (
                    f"the cable from {first[0]} port {first[1]} to {last[0]} port {last[1]} runs "
                    f"at {cable.gbps:g} Gb/s, others at {usual:g}"
                )
    return list(messages.values())


def _called(switch: Device) -> str:
    """Its own name where it has one (``MF0;leaf01:MQM8700/U1``), else its id."""
    return switch.name.partition(";")[2].partition(":")[0] or switch.id


@cache
def link_speeds() -> Mapping[str, float]:
    """Gb/s of one lane by its name: the table ``link_speeds.yaml``."""
    return read_table("corral.slurm", "link_speeds.yaml", dict[str, float])


def _gbps(line: str) -> float:
    rate = re.search(r"\b(\d+)x([A-Z]{3}(?:10)?)\s*$", line)
    return int(rate[1]) * link_speeds().get(rate[2], 0) if rate else 0


def _leaves(fabric: Fabric, nodes: Sequence[str]) -> dict[frozenset[str], list[str]]:
    """Nodes by the switches that their adapters are connected to."""
    known = fabric.nodes
    leaves: dict[frozenset[str], list[str]] = defaultdict(list)
    for node in nodes:
        adapters = known.get(node)
        if adapters is None:
            raise CorralError(
                Code.NOT_GOOD,
                "it is not on the fabric",
                node=node,
                hint="its adapters' description should begin with its host name "
                "(/sys/class/infiniband/*/node_desc; rdma-ndd sets it)",
            )
        leaves[
            frozenset(x.peer for a in adapters for x in a.links if x.peer in fabric.switches)
        ].append(node)
    return leaves


def _merged(leaves: dict[frozenset[str], list[str]]) -> dict[frozenset[str], list[str]]:
    """Nodes that miss some of a unit's switches belong to that unit: an adapter of theirs is out.

    Else a node with one of eight links down would be a separate leaf, and jobs kept away from it.
    """
    merged: dict[frozenset[str], list[str]] = {}
    for key in sorted(leaves, key=len, reverse=True):
        units = [k for k in merged if key and key < k]
        unit = max(units, key=lambda k: len(leaves[k]), default=key)
        merged.setdefault(unit, []).extend(leaves[key])
    return merged


def _switches_of(fabric: Fabric, nodes: Iterable[str]) -> set[str]:
    return {switch for leaves in _leaves(fabric, tuple(nodes)) for switch in leaves}


def _levels(fabric: Fabric) -> dict[str, int]:
    """How far each switch is from an adapter: 1 for those with adapters on them."""
    level: dict[str, int] = {}
    edge = {
        s for s, d in fabric.switches.items() if any(x.peer in fabric.adapters for x in d.links)
    }
    # A spine may have a management adapter (SHARP's aggregation node): no leaf for that.
    hosts = {a.id for adapters in fabric.nodes.values() for a in adapters}
    edge = {s for s in edge if any(x.peer in hosts for x in fabric.switches[s].links)}
    at = 1
    while edge:
        level.update(dict.fromkeys(edge, at))
        near = {x.peer for s in edge for x in fabric.switches[s].links}
        edge = {s for s in near if s in fabric.switches and s not in level}
        at += 1
    return level


def _joined(
    fabric: Fabric, tops: Sequence[Switch], parts: Mapping[str, set[str]], allowed: set[str]
) -> list[list[Switch]]:
    """Groups of branches that reach each other over the allowed switches."""
    root: dict[str, str] = {}

    def find(name: str) -> str:
        while root.setdefault(name, name) != name:
            root[name] = root[root[name]]
            name = root[name]
        return name

    for switch in allowed:
        for link in fabric.switches[switch].links:
            if link.peer in allowed:
                root[find(switch)] = find(link.peer)
    for members in parts.values():
        first, *rest = sorted(members) or [""]
        for other in rest:
            root[find(other)] = find(first)
    groups: dict[str, list[Switch]] = defaultdict(list)
    for top in tops:
        groups[find(min(parts[top.name], default=""))].append(top)
    return list(groups.values())
