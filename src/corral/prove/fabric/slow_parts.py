"""Which node, link or part of the nodes is slow: from all, halves, and pairs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from corral.prove.fabric.verdict import SEVERAL
from corral.spec.slurm.hostlist import fold

_SLOW: Final = SEVERAL[1]
_TOGETHER: Final = 0.6
"""Of their slower half: less, and the link between the halves is slow. Not _SLOW, since larger
rings lose some of their speed anyway."""


@dataclass(frozen=True, slots=True)
class Half:
    """A half of the nodes that ran a collective, and its bus bandwidth in GB/s."""

    nodes: tuple[str, ...]
    busbw: float

    @property
    def name(self) -> str:
        """As a hostlist."""
        return fold(self.nodes)


@dataclass(frozen=True, slots=True)
class Bisected:
    """What halving showed.

    Attributes:
        path: the parts measured in turn, each the slow half of the one before; first all nodes.
        between: the two fast halves of the last part when only together they are slow, else none.
        sentences: in words; empty when nothing stands out.
    """

    path: tuple[Half, ...] = ()
    between: tuple[Half, ...] = ()
    sentences: tuple[str, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The smallest part that is slow; empty when nothing stands out."""
        return self.path[-1].nodes if self.sentences else ()


def bisected(parts: Sequence[Half]) -> Bisected:
    """Go down from all nodes into the slower half, as long as it stands out against the other.

    Args:
        parts: all that was measured, in any order.
    """
    if not parts:
        return Bisected()
    at = max(parts, key=lambda part: len(part.nodes))
    path, sentences = [at], list[str]()
    while True:
        halves = _halves(at, parts)
        if not halves:
            return Bisected(tuple(path), (), tuple(sentences))
        slower, faster = halves
        rates = f"{slower.name} {slower.busbw:.3g} GB/s, {faster.name} {faster.busbw:.3g} GB/s"
        if slower.busbw < faster.busbw * _SLOW:
            path.append(slower)
            sentences.append(f"of {at.name} one half is slow: {rates}")
            at = slower
        elif at.busbw < slower.busbw * _TOGETHER:
            sentences.append(
                f"the halves of {at.name} are fast alone ({rates}), together {at.busbw:.3g} "
                "GB/s: look at what joins them, a switch or the trunk between two"
            )
            return Bisected(tuple(path), halves, tuple(sentences))
        else:
            return Bisected(tuple(path), (), tuple(sentences))


def _halves(parent: Half, parts: Sequence[Half]) -> tuple[Half, Half] | None:
    """The slower and the faster half."""
    middle = len(parent.nodes) // 2
    both = (parent.nodes[:middle], parent.nodes[middle:])
    measured = [part for half in both for part in parts if part.nodes == half]
    if len(measured) != len(both):
        return None
    first, second = sorted(measured, key=lambda part: part.busbw)
    return first, second


@dataclass(frozen=True, slots=True)
class Pair:
    """Two nodes, in the order of their names, and the bus bandwidth between them in GB/s."""

    first: str
    second: str
    busbw: float

    def __contains__(self, node: object) -> bool:
        """True for each of the two."""
        return node in (self.first, self.second)


@dataclass(frozen=True, slots=True)
class Slow:
    """Slow nodes and links of a fabric, and what healthy ones reach.

    Attributes:
        nodes: those that are slow with every other node: card, cable, port, or settings.
        links: pairs that are slow though both nodes are fast with others.
        usual: GB/s that healthy pairs reach here.
    """

    nodes: tuple[str, ...]
    links: tuple[Pair, ...]
    usual: float

    @property
    def sentences(self) -> tuple[str, ...]:
        """In words; empty when nothing stands out."""
        sentences = [
            f"{node} is slow with every other node, where others reach {self.usual:.3g} GB/s: "
            "look at its card, cable and port"
            for node in self.nodes
        ]
        sentences += [
            f"{pair.first} and {pair.second} reach {pair.busbw:.3g} GB/s, other pairs "
            f"{self.usual:.3g} GB/s: look at the path between them"
            for pair in self.links
        ]
        return tuple(sentences)


def slow(pairs: Sequence[Pair]) -> Slow:
    """Find what stands out against the upper quartile of all pairs.

    The upper quartile and not the median: one slow node of three spoils two of the three pairs.
    """
    if len(pairs) < 3:  # noqa: PLR2004 - two nodes are one pair: nothing to compare with
        return Slow((), (), pairs[0].busbw if pairs else 0.0)
    usual = sorted((p.busbw for p in pairs), reverse=True)[len(pairs) // 4]
    bad = [p for p in pairs if p.busbw < usual * _SLOW]
    names = sorted({name for p in pairs for name in (p.first, p.second)})
    nodes = tuple(n for n in names if all(p in bad for p in pairs if n in p))
    links = tuple(p for p in bad if not any(n in p for n in nodes))
    return Slow(nodes, links, usual)
