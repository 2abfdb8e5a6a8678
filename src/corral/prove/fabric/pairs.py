"""Which node or link is slow, from what each two nodes reach alone. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from corral.prove.fabric.verdict import SEVERAL


@dataclass(frozen=True, slots=True)
class Pair:
    """Two nodes, in the order of their names, and the bus bandwidth between them in GB/s."""

    one: str
    other: str
    busbw: float

    def __contains__(self, node: object) -> bool:
        """True for each of the two."""
        return node in (self.one, self.other)


@dataclass(frozen=True, slots=True)
class Slow:
    """What is slow.

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
            f"{pair.one} and {pair.other} reach {pair.busbw:.3g} GB/s, other pairs "
            f"{self.usual:.3g} GB/s: look at the path between them"
            for pair in self.links
        ]
        return tuple(sentences)


_SLOW: Final = SEVERAL[1]


def slow(pairs: Sequence[Pair]) -> Slow:
    """Find what stands out against the upper quartile of all pairs.

    The upper quartile and not the median: one slow node of three spoils two of the three pairs.
    """
    if len(pairs) < 3:  # noqa: PLR2004 - two nodes are one pair: nothing to compare with
        return Slow((), (), pairs[0].busbw if pairs else 0.0)
    usual = sorted((p.busbw for p in pairs), reverse=True)[len(pairs) // 4]
    bad = [p for p in pairs if p.busbw < usual * _SLOW]
    names = sorted({name for p in pairs for name in (p.one, p.other)})
    nodes = tuple(n for n in names if all(p in bad for p in pairs if n in p))
    links = tuple(p for p in bad if not any(n in p for n in nodes))
    return Slow(nodes, links, usual)
