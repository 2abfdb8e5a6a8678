"""Are the shared folders as fast as they should be?

Reads what ``agents/benchmarks/storage.py`` prints. Pure.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from corral.errors import Code, CorralError
from corral.prove.fabric.verdict import Outcome
from corral.prove.measure.remark import Remark, graver_first, told, unreadable

SIBLINGS: Final = (0.40, 0.20)
NAMES: Final = (0.15, 0.0)
"""Of the other nodes' median: for data, and for making files; looking at and removing them is often
answered by a cache. Disks and servers are shared with others: no sharper line holds."""
USUAL: Final = 0.60
"""Of the median of earlier measurements."""
_CACHED: Final = 0.05
_RATES: Final = ("write", "read", "create", "stat", "remove")
_UNITS: Final = {"write": "MB/s", "read": "MB/s"}


@dataclass(frozen=True, slots=True)
class Share:
    """What one node did in one folder.

    Attributes:
        mount: the folder.
        node: who wrote and made the names.
        reader: who read the file.
        together: nodes that worked at the same time.
        size: bytes of the file.
        rates: MB/s of write (with fsync) and read; create, stat and remove per second.
        cached: share of the file in the reader's memory before it read; below 0: not known.
        wrong: pieces of 4 MiB that did not hold what was written.
    """

    mount: str
    node: str
    reader: str
    together: int
    size: int
    rates: Mapping[str, float]
    cached: float
    wrong: int

    def as_dict(self) -> dict[str, object]:
        """JSON-ready fields."""
        return asdict(self)


def read_shares(lines: Sequence[str]) -> tuple[Share, ...]:
    """Read what the program printed.

    Raises:
        CorralError: PARSE_FAILED, it ended without a result, or a line is spoiled.
    """
    try:
        found = tuple(_share(one) for one in told(lines, "storage"))
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(repr(error)) from error
    if not found:
        raise CorralError(
            Code.PARSE_FAILED,
            "the measurement of the folders ended without a result",
            tail="\n".join(lines[-20:]),
            hint="corral logs JOB shows what it printed; its nodes need python3",
        )
    return found


def _share(one: Mapping[str, Any]) -> Share:
    return Share(
        str(one["mount"]),
        str(one["node"]),
        str(one["read"]["node"]),
        int(one["together"]),
        int(one["bytes"]),
        {
            "write": float(one["write"]["mb_s"]),
            "read": float(one["read"]["mb_s"]),
            **{what: float(one["names"][f"{what}_s"]) for what in _RATES[2:]},
        },
        float(one["read"]["cached"]),
        int(one["read"]["wrong"]),
    )


def totals(shares: Sequence[Share], mount: str) -> dict[str, float]:
    """Rates of all nodes together, where more than one worked at the same time."""
    all_of = [one for one in shares if one.mount == mount and one.together > 1]
    return {rate: sum(one.rates[rate] for one in all_of) for rate in _RATES if all_of}


def alone(shares: Sequence[Share], mount: str) -> list[Share]:
    """What each node did alone."""
    return [one for one in shares if one.mount == mount and one.together == 1]


def judge_shares(
    shares: Sequence[Share], usual: Mapping[str, Mapping[str, float]] | None = None
) -> tuple[Remark, ...]:
    """What is wrong with the folders, or that they are healthy.

    Args:
        shares: as read.
        usual: folder to its rates (the median over nodes) in earlier measurements.
    """
    found = [remark for mount in _mounts(shares) for remark in _wrong(shares, mount)]
    found += [remark for mount in _mounts(shares) for remark in _odd(shares, mount)]
    found += [r for m in _mounts(shares) for r in _slower(shares, m, (usual or {}).get(m, {}))]
    found += [_words(shares, m, found) for m in _mounts(shares)]
    return graver_first(found)


def medians(shares: Sequence[Share], mount: str) -> dict[str, float]:
    """The usual rate of one node alone."""
    mine = alone(shares, mount)
    return {r: statistics.median(one.rates[r] for one in mine) for r in _RATES if mine}


def _mounts(shares: Sequence[Share]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.mount for one in shares))


def _wrong(shares: Sequence[Share], mount: str) -> Iterator[Remark]:
    for one in shares:
        if one.mount == mount and one.wrong:
            yield Remark(
                Outcome.FAIL,
                mount,
                f"{mount}: {one.reader} reads something else than {one.node} wrote, in "
                f"{one.wrong} pieces of 4 MiB",
            )


def _odd(shares: Sequence[Share], mount: str) -> Iterator[Remark]:
    mine = alone(shares, mount)
    if len(mine) < 3:  # noqa: PLR2004 - of two nobody knows which is odd
        return
    for rate, (warn, fail) in (("write", SIBLINGS), ("read", SIBLINGS), ("create", NAMES)):
        usual = statistics.median(one.rates[rate] for one in mine)
        for one in mine:
            share = one.rates[rate] / usual if usual else 1.0
            if share < warn:
                who = one.reader if rate == "read" else one.node
                unit = _UNITS.get(rate, "/s")
                yield Remark(
                    Outcome.FAIL if share < fail else Outcome.WARN,
                    who,
                    f"{who}: {rate} in {mount} {one.rates[rate]:.4g} {unit}, other nodes "
                    f"{usual:.4g}: its network, its mount options, or its own disk",
                )


def _slower(shares: Sequence[Share], mount: str, usual: Mapping[str, float]) -> Iterator[Remark]:
    now = medians(shares, mount)
    for rate, before in usual.items():
        if rate in now and now[rate] < before * USUAL:
            unit = _UNITS.get(rate, "/s")
            yield Remark(
                Outcome.WARN,
                mount,
                f"{mount}: {rate} {now[rate]:.4g} {unit}, earlier here {before:.4g}",
            )


def _words(shares: Sequence[Share], mount: str, found: Sequence[Remark]) -> Remark:
    one, many = medians(shares, mount), totals(shares, mount)
    size = next(s.size for s in shares if s.mount == mount) >> 20
    words = f"{mount}: a node writes {one['write']:.4g} MB/s and reads {one['read']:.4g}"
    words += f", makes {one['create']:.4g} files a second"
    if many:
        words += f"; all at once write {many['write']:.4g} MB/s and read {many['read']:.4g}"
    known = [s.cached for s in shares if s.mount == mount]
    if max(known) > _CACHED:
        words += f"; {max(known):.0%} of a file was in memory before it was read: reads look faster"
    elif min(known) < 0:
        words += "; whether memory helped reading is unknown here"
    bad = any(r.about == mount or mount in r.text for r in found)
    outcome = Outcome.UNKNOWN if bad else Outcome.PASS
    return Remark(outcome, mount, f"{words} (files of {size} MiB)")
