"""Slurm's hostlist grammar: read in the order written and never beyond a limit, and written. Pure.

ClusterShell's NodeSet is a set: it sorts, so that ``b,a`` with addresses ``10.0.0.2,10.0.0.1``
would pair b with the wrong address, as NodeName and NodeAddr are paired by position; it drops names
written twice, so that they cannot be reported; and it expands before one can ask how many
(``node[0-99999999]`` takes all memory; 1.10.1). Slurm's own ``hostlist_create`` keeps the order
(src/common/hostlist.c). So reading, and writing in order, is done here; the tests compare it with
NodeSet and with ``scontrol show hostnames``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ClusterShell.NodeSet import NodeSet  # pyright: ignore[reportMissingTypeStubs]

from corral.errors import Code, CorralError

NODES_AT_MOST: Final = 65536
_RANGE: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_SPAN: Final = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
_DIGITS: Final = re.compile(r"[0-9]{1,9}")
_NUMBERED: Final = re.compile(r"(.*[^0-9])([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class _Range:
    low: int
    high: int
    width: int

    @property
    def size(self) -> int:
        return self.high - self.low + 1

    def has(self, digits: str) -> bool:
        return self.low <= int(digits) <= self.high and str(int(digits)).zfill(self.width) == digits

    def numbers(self) -> list[str]:
        return [str(n).zfill(self.width) for n in range(self.low, self.high + 1)]


_Part = str | tuple[_Range, ...]


@dataclass(slots=True)
class _Run:
    """Consecutive numbers, written with ``width`` digits at least."""

    first: int
    last: int
    width: int

    def takes(self, digits: str) -> bool:
        following = f"{self.last + 1:0{self.width}}"
        # [00-100] would mean 000..100 to some readers: a padded run ends where its width does.
        return digits == following and (self.width == 1 or len(digits) == self.width)

    def __str__(self) -> str:
        low = f"{self.first:0{self.width}}"
        return low if self.first == self.last else f"{low}-{self.last:0{self.width}}"


class _FaultError(Exception):
    """What of a hostlist is wrong."""


def expand(hostlist: str, *, strict: bool = False) -> list[str]:
    """Names of a hostlist in the order written; ``node[0-2]`` gives three, ``b,a`` gives b first.

    Args:
        hostlist: the text.
        strict: refuse what Slurm reads but a person rarely means: nothing between two commas, a
            range such as ``[00-100]`` (which Slurm 20.11 to 26.05 print), brackets next to each
            other. For cluster files and command lines.

    Raises:
        CorralError: PARSE_FAILED, the grammar is broken, or there are more than 65,536 names.
    """
    terms = _read(hostlist, strict=strict)
    if sum(map(_size, terms)) > NODES_AT_MOST:
        raise _broken(hostlist, f"more than {NODES_AT_MOST} names")
    return [name for term in terms for name in _names(term)]


@dataclass(frozen=True, slots=True)
class Hosts:
    """The names of a hostlist as ranges: whether a name is one of them is asked without making all.

    Args:
        terms: as ``hosts`` reads them.
    """

    terms: tuple[tuple[_Part, ...], ...]

    def __len__(self) -> int:
        return sum(map(_size, self.terms))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and any(_has(term, name) for term in self.terms)

    def __iter__(self) -> Iterator[str]:
        return (name for term in self.terms for name in _each_name(term))

    def meets(self, others: Hosts) -> bool:
        """Whether they have a name in common; the names of the shorter list are looked up."""
        few, many = (self, others) if len(self) <= len(others) else (others, self)
        return any(name in many for name in few)


def hosts(hostlist: str, *, strict: bool = False) -> Hosts:
    """A hostlist as ranges, which take the same memory however many names they have.

    Args:
        hostlist: the text.
        strict: as of ``expand``.

    Raises:
        CorralError: PARSE_FAILED, the grammar is broken, or there are more than 65,536 names.
    """
    read = Hosts(tuple(_read(hostlist, strict=strict)))
    if sum(map(_size, read.terms)) > NODES_AT_MOST:  # more than len() can return, perhaps
        raise _broken(hostlist, f"more than {NODES_AT_MOST} names")
    return read


def split(text: str) -> list[str]:
    """Split at the commas outside brackets: ``n[0,2],a`` gives ``n[0,2]`` and ``a``."""
    return _terms(text, strict=False)


def count(hostlist: str, *, strict: bool = True) -> int:
    """How many names a hostlist has, without making them.

    Args:
        hostlist: the text.
        strict: as of ``expand``.

    Raises:
        CorralError: PARSE_FAILED, the grammar is broken.
    """
    return sum(map(_size, _read(hostlist, strict=strict)))


def fold(names: Sequence[str]) -> str:
    """Names, each once and sorted, in the shortest form: ``node[0-2]``."""
    return str(NodeSet.fromlist(list(names)))  # pyright: ignore


def fold_in_order(names: Iterable[str]) -> str:
    """Names as a hostlist that expands to the same names in the same order.

    ``["n0", "n1", "n2", "n7"]`` gives ``n[0-2,7]``. Only numbers at the end of a name are folded.
    """
    parts: list[str] = []
    prefix, runs = "", list[_Run]()
    for name in names:
        numbered = _NUMBERED.fullmatch(name)
        if not numbered:
            parts += _closed(prefix, runs)
            prefix, runs = "", []
            parts.append(name)
            continue
        head, digits = numbered.groups()
        if runs and head == prefix and runs[-1].takes(digits):
            runs[-1].last += 1
            continue
        if head != prefix:
            parts += _closed(prefix, runs)
            prefix, runs = head, []
        width = len(digits) if digits.startswith("0") else 1
        runs.append(_Run(int(digits), int(digits), width))
    parts += _closed(prefix, runs)
    return ",".join(parts)


def _closed(prefix: str, runs: list[_Run]) -> list[str]:
    if not runs:
        return []
    if len(runs) == 1 and runs[0].first == runs[0].last:
        return [f"{prefix}{runs[0]}"]
    return [f"{prefix}[{','.join(str(run) for run in runs)}]"]


def _read(hostlist: str, *, strict: bool) -> list[tuple[_Part, ...]]:
    try:
        return [_parts(term, strict=strict) for term in _terms(hostlist, strict=strict)]
    except _FaultError as fault:
        raise _broken(hostlist, str(fault)) from fault


def _in_order(hostlist: str, why: str) -> str:
    if "runs backwards" not in why:
        return ""
    turned = _SPAN.sub(lambda m: f"{m[2]}-{m[1]}" if int(m[1]) > int(m[2]) else m[0], hostlist[:60])
    return f"write {turned}"


def _broken(hostlist: str, why: str) -> CorralError:
    return CorralError(
        Code.PARSE_FAILED,
        f'the hostlist "{hostlist[:60]}" is broken: {why}',
        hint=_in_order(hostlist, why) or "write for instance node[0-2] or alpha,beta",
    )


def _fault(part: str, why: str) -> _FaultError:
    return _FaultError(f'{why}: "{part[:60]}"')


def _terms(hostlist: str, *, strict: bool) -> list[str]:
    """Split at the commas outside brackets."""
    terms = re.findall(r"(?:\[[^\]]*\]?|[^,\[])+|(?<=,)(?=,|$)|^(?=,|$)", hostlist)
    if not strict:
        return [term for term in terms if term]
    if "" in terms or not terms:
        raise _fault(hostlist, "a name is missing before or after a comma")
    return terms


def _parts(term: str, *, strict: bool) -> tuple[_Part, ...]:
    """One term as plain texts and bracketed ranges, in turn."""
    parts: list[_Part] = []
    for piece in re.findall(r"\[[^\]]*\]?|[^\[]+", term):
        if not piece.startswith("["):
            if "]" in piece:
                raise _fault(piece, "a ] without its [")
            parts.append(piece)
            continue
        if not piece.endswith("]"):
            raise _fault(piece, "a [ without its ]")
        before = parts[-1] if parts else ""
        if strict and (not isinstance(before, str) or (len(parts) > 1 and before.isdigit())):
            raise _fault(piece, "two brackets with no letter or sign between them")
        parts.append(tuple(_range(t, piece, strict=strict) for t in piece[1:-1].split(",")))
    return tuple(parts)


def _range(text: str, piece: str, *, strict: bool) -> _Range:
    match = _RANGE.fullmatch(text)
    if match is None:
        raise _fault(piece, f'"{text}" is neither a number nor a range such as 0-2')
    low, high = match[1], match[2] or match[1]
    width = len(low) if low.startswith("0") else 0
    unlike = (width > 1 or (high.startswith("0") and high != "0")) and len(low) != len(high)
    if unlike and strict:
        raise _fault(piece, f'the numbers of "{text}" have different lengths; write leading zeros')
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
    return list(_each_name(parts))


def _each_name(parts: tuple[_Part, ...]) -> Iterator[str]:
    choices = [
        [part] if isinstance(part, str) else [n for numbers in part for n in numbers.numbers()]
        for part in parts
    ]
    return ("".join(name) for name in itertools.product(*choices))


def _has(parts: tuple[_Part, ...], name: str) -> bool:
    """Whether one term gives a name: its texts and its numbers follow each other in it."""
    if not parts:
        return not name
    first, rest = parts[0], parts[1:]
    if isinstance(first, str):
        return name.startswith(first) and _has(rest, name[len(first) :])
    digits = _DIGITS.match(name)
    # Between two brackets without a text any digit may be the last of the first number.
    ends = range(digits.end() if digits else 0, 0, -1)
    return any(
        any(numbers.has(name[:end]) for numbers in first) and _has(rest, name[end:]) for end in ends
    )
