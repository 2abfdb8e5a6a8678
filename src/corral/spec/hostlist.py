"""Slurm's hostlist grammar, read in the order written and never beyond a limit.

ClusterShell's NodeSet is a set: it sorts, so that ``b,a`` with addresses ``10.0.0.2,10.0.0.1``
would pair b with the wrong address; it drops names written twice, so that they cannot be reported;
and it expands before one can ask how many (``node[0-99999999]`` takes all memory; 1.10.1). So
reading is done here, in the same grammar and with the same errors; the tests compare it with
NodeSet.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Final

from ClusterShell.NodeSet import (  # pyright: ignore[reportMissingTypeStubs]
    NodeSetParseError,
)

NODES_AT_MOST: Final = 65536
_RANGE: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


@dataclass(frozen=True, slots=True)
class _Range:
    low: int
    high: int
    width: int

    @property
    def size(self) -> int:
        return self.high - self.low + 1

    def numbers(self) -> list[str]:
        return [str(n).zfill(self.width) for n in range(self.low, self.high + 1)]


_Part = str | tuple[_Range, ...]


def expand(hostlist: str, *, loose: bool = False) -> list[str]:
    """Names of a hostlist in the order written; ``node[0-2]`` gives three, ``b,a`` gives b first.

    Args:
        hostlist: the text.
        loose: read what Slurm reads in files that others wrote, too: nothing between two commas, a
            range such as ``[00-100]``, brackets next to each other (src/common/hostlist.c).

    Raises:
        ClusterShell.NodeSet.NodeSetParseError: the grammar is broken (``part`` holds the faulty
            part), or there are more than 65,536 names.
    """
    terms = [_parts(term, loose=loose) for term in _terms(hostlist, loose=loose)]
    if sum(_size(term) for term in terms) > NODES_AT_MOST:
        raise _fault(hostlist, f"more than {NODES_AT_MOST} names")
    return [name for term in terms for name in _names(term)]


def count(hostlist: str) -> int:
    """How many names a hostlist has, without making them.

    Raises:
        ClusterShell.NodeSet.NodeSetParseError: the grammar is broken.
    """
    return sum(_size(_parts(term)) for term in _terms(hostlist))


def _fault(part: str, why: str) -> NodeSetParseError:
    return NodeSetParseError(part, why)


def _terms(hostlist: str, *, loose: bool = False) -> list[str]:
    """Split at the commas outside brackets."""
    terms = re.findall(r"(?:\[[^\]]*\]?|[^,\[])+|(?<=,)(?=,|$)|^(?=,|$)", hostlist)
    if loose:
        return [term for term in terms if term]
    if "" in terms or not terms:
        raise _fault(hostlist, "a name is missing before or after a comma")
    return terms


def _parts(term: str, *, loose: bool = False) -> tuple[_Part, ...]:
    """One term as plain texts and bracketed ranges, in turn."""
    found: list[_Part] = []
    for piece in re.findall(r"\[[^\]]*\]?|[^\[]+", term):
        if not piece.startswith("["):
            if "]" in piece:
                raise _fault(piece, "a ] without its [")
            found.append(piece)
            continue
        if not piece.endswith("]"):
            raise _fault(piece, "a [ without its ]")
        before = found[-1] if found else ""
        if not loose and (not isinstance(before, str) or (len(found) > 1 and before.isdigit())):
            raise _fault(piece, "two brackets with no letter or sign between them")
        found.append(tuple(_range(t, piece, loose=loose) for t in piece[1:-1].split(",")))
    return tuple(found)


def _range(text: str, piece: str, *, loose: bool) -> _Range:
    match = _RANGE.fullmatch(text)
    if match is None:
        raise _fault(piece, f'"{text}" is neither a number nor a range such as 0-2')
    low, high = match[1], match[2] or match[1]
    width = len(low) if low.startswith("0") else 0
    unlike = (width > 1 or (high.startswith("0") and high != "0")) and len(low) != len(high)
    if unlike and not loose:
        raise _fault(piece, f'the numbers of "{text}" have unlike lengths; write leading zeros')
    if int(high) < int(low):
        raise _fault(piece, f'the range "{text}" runs backwards')
    return _Range(int(low), int(high), width)


def _size(parts: tuple[_Part, ...]) -> int:
    size = 1
    for part in parts:
        if not isinstance(part, str):
            size *= sum(numbers.size for numbers in part)
    return size


def _names(parts: tuple[_Part, ...]) -> list[str]:
    choices = [
        [part] if isinstance(part, str) else [n for numbers in part for n in numbers.numbers()]
        for part in parts
    ]
    return ["".join(name) for name in itertools.product(*choices)]
