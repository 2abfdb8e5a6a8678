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
from corral.prove.measure.measurement import Remark, graver_first, results_of, unreadable

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
        return asdict(self)


def read_shares(lines: Sequence[str]) -> tuple[Share, ...]:
    """Read what the program printed.

    Raises:
        CorralError: PARSE_FAILED, it ended without a result, or a line is spoiled.
    """
    try:
        shares = tuple(_share(entry) for entry in results_of(lines, "storage"))
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(repr(error)) from error
    if not shares:
        raise CorralError(
            Code.PARSE_FAILED,
            "the measurement of the folders ended without a result",
            tail="\n".join(lines[-20:]),
            hint="corral logs JOB shows what it printed; its nodes need python3",
        )
    return shares


def _share(entry: Mapping[str, Any]) -> Share:
    return Share(
        str(entry["mount"]),
        str(entry["node"]),
        str(entry["read"]["node"]),
        int(entry["together"]),
        int(entry["bytes"]),
        {
            "write": float(entry["write"]["mb_s"]),
            "read": float(entry["read"]["mb_s"]),
            **{what: float(entry["names"][f"{what}_s"]) for what in _RATES[2:]},
        },
        float(entry["read"]["cached"]),
        int(entry["read"]["wrong"]),
    )


def totals(shares: Sequence[Share], mount: str) -> dict[str, float]:
    """Rates of all nodes together, where more than one worked at the same time."""
    all_of = [share for share in shares if share.mount == mount and share.together > 1]
    return {rate: sum(share.rates[rate] for share in all_of) for rate in _RATES if all_of}


def alone(shares: Sequence[Share], mount: str) -> list[Share]:
    """What each node did alone."""
    return [share for share in shares if share.mount == mount and share.together == 1]


def judge_shares(
    shares: Sequence[Share], usual: Mapping[str, Mapping[str, float]] | None = None
) -> tuple[Remark, ...]:
    """What is wrong with the folders, or that they are healthy.

    Args:
        shares: as read.
        usual: folder to its rates (the median over nodes) in earlier measurements.
    """
    remarks = [remark for mount in _mounts(shares) for remark in _wrong(shares, mount)]
    remarks += [remark for mount in _mounts(shares) for remark in _odd(shares, mount)]
    remarks += [r for m in _mounts(shares) for r in _slower(shares, m, (usual or {}).get(m, {}))]
    remarks += [_words(shares, m, remarks) for m in _mounts(shares)]
    return graver_first(remarks)


def medians(shares: Sequence[Share], mount: str) -> dict[str, float]:
    """The usual rate of one node alone."""
    mine = alone(shares, mount)
    return {r: statistics.median(share.rates[r] for share in mine) for r in _RATES if mine}


def _mounts(shares: Sequence[Share]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(share.mount for share in shares))


def _wrong(shares: Sequence[Share], mount: str) -> Iterator[Remark]:
    for share in shares:
        if share.mount == mount and share.wrong:
            yield Remark(
                Outcome.FAIL,
                mount,
                f"{mount}: {share.reader} reads something else than {share.node} wrote, in "
                f"{share.wrong} pieces of 4 MiB",
            )


def _odd(shares: Sequence[Share], mount: str) -> Iterator[Remark]:
    mine = alone(shares, mount)
    if len(mine) < 3:  # noqa: PLR2004 - with two it is unknown which is the outlier
        return
    for rate, (warn, fail) in (("write", SIBLINGS), ("read", SIBLINGS), ("create", NAMES)):
        usual = statistics.median(share.rates[rate] for share in mine)
        for share in mine:
            ratio = share.rates[rate] / usual if usual else 1.0
            if ratio < warn:
                who = share.reader if rate == "read" else share.node
                unit = _UNITS.get(rate, "/s")
                yield Remark(
                    Outcome.FAIL if ratio < fail else Outcome.WARN,
                    who,
                    f"{who}: {rate} in {mount} {share.rates[rate]:.4g} {unit}, other nodes "
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


def _words(shares: Sequence[Share], mount: str, remarks: Sequence[Remark]) -> Remark:
    single, many = medians(shares, mount), totals(shares, mount)
    size = next(s.size for s in shares if s.mount == mount) >> 20
    words = f"{mount}: a node writes {single['write']:.4g} MB/s and reads {single['read']:.4g}"
    words += f", makes {single['create']:.4g} files a second"
    if many:
        words += f"; all at once write {many['write']:.4g} MB/s and read {many['read']:.4g}"
    known = [s.cached for s in shares if s.mount == mount]
    if max(known) > _CACHED:
        words += f"; {max(known):.0%} of a file was in memory before it was read: reads look faster"
    elif min(known) < 0:
        words += "; whether memory helped reading is unknown here"
    bad = any(r.about == mount or mount in r.text for r in remarks)
    outcome = Outcome.UNKNOWN if bad else Outcome.PASS
    return Remark(outcome, mount, f"{words} (files of {size} MiB)")
