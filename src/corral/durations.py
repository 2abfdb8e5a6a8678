"""Lengths of time: Slurm's grammar, the cluster file's and its intervals, read and written. Pure.

Everything that reads or writes a length of time does it here; what a field takes is its pattern.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final

from corral.errors import Code, CorralError

INFINITE: Final = "infinite"
"""The cluster file's word for no limit; Slurm's is the same in capitals."""
UNITS: Final = MappingProxyType({"s": 1, "m": 60, "h": 3600, "d": 86400})
FORM: Final = "([0-9]{1,3}-)?[0-9]{1,3}(:[0-5][0-9]){0,2}"
"""The form of the cluster file's lengths: ``[days-]hours[:minutes[:seconds]]``."""
_LENGTH: Final = re.compile(
    r"(?:(?P<days>[0-9]+)-)?(?P<parts>[0-9]+(?::[0-9]+){0,2})(?:\.[0-9]+)?", re.ASCII
)
LONGEST: Final = "999-00:00:00"
"""A length of that form: the most days, without hours."""
_WORD_UNITS: Final = MappingProxyType(
    {name: UNITS[name] for name in "mhd"}
    | {name: days * UNITS["d"] for name, days in (("w", 7), ("mo", 30), ("y", 365))}
)
_WORDS: Final = re.compile(
    r"\s*(?P<count>[0-9]{1,3})\s*"
    r"(?P<unit>m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?|w(?:eeks?)?|mo(?:nths?)?|y(?:ears?)?)\s*"
)
_ENDLESS: Final = frozenset(
    {"UNLIMITED", "INFINITE", "PARTITION_LIMIT", "NOT_SET", "N/A", "INVALID", ""}
)


def seconds(text: str) -> int | None:
    """A length of time in Slurm's grammar, in seconds; None where there is no limit or no value.

    Slurm's grammar: ``minutes``, ``minutes:seconds``, ``hours:minutes:seconds``, ``days-hours``,
    ``days-hours:minutes`` and ``days-hours:minutes:seconds``; sacct adds a fraction.

    Raises:
        CorralError: it is none of these.
    """
    text = text.strip()
    if text.upper() in _ENDLESS:
        return None
    match = _LENGTH.fullmatch(text)
    if not match or ("." in text and not set(text) & set("-:")):
        raise CorralError(
            Code.PARSE_FAILED,
            f"{text[:40]!r} is not a time in Slurm's grammar",
            hint="write minutes, hours:minutes:seconds or days-hours:minutes:seconds",
        )
    parts = match["parts"].split(":")
    if match["days"] is None and len(parts) < 3:  # noqa: PLR2004
        parts = ["0", *parts]  # minutes, not hours, come first
    return _total(match["days"] or "0", parts)


def exact_seconds(text: str) -> float:
    """As ``seconds`` with sacct's fraction; 0.0 where there is no limit, no value or another form.

    sacct prints less than an hour as ``MM:SS.mmm``.
    """
    before, _, fraction = text.partition(".")
    try:
        length = seconds(before)
    except CorralError:
        return 0.0
    return float(length or 0) + (float(f"0.{fraction}") if fraction.isdecimal() else 0.0)


def span_seconds(span: str) -> int | None:
    """Seconds of the cluster file's ``[days-]hours[:minutes[:seconds]]``; None for ``infinite``.

    It counts in hours where Slurm reads a bare number as minutes, ``a:b`` as minutes and seconds.

    Raises:
        CorralError: it has another form.
    """
    if span == INFINITE:
        return None
    if not re.fullmatch(FORM, span):
        raise CorralError(
            Code.SPEC_INVALID,
            f"{span[:40]!r} is not a time limit",
            hint="write infinite or [days-]hours[:minutes[:seconds]], such as 8 or 2-00:00",
        )
    days, _, parts = span.rpartition("-")
    return _total(days or "0", parts.split(":"))


def interval_seconds(interval: str) -> int:
    """Seconds of an interval such as ``10m``, 0 for ``off``."""
    return 0 if interval == "off" else int(interval[:-1]) * UNITS[interval[-1]]


def words_seconds(text: str) -> int | None:
    """Seconds of a length with a unit as people write it (``2 days``, ``90min``, ``1w``).

    A month has 30 days, a year 365. None for anything else; in seconds nobody limits a job.
    """
    match = _WORDS.fullmatch(text.lower())
    return None if match is None else _unit(match["unit"]) * int(match["count"])


def _unit(word: str) -> int:
    return _WORD_UNITS["mo" if word.startswith("mo") else word[0]]


def _total(days: str, parts: list[str]) -> int:
    """Seconds of days and of hours, minutes, seconds; the last ones may be missing."""
    hours, minutes, rest = [*map(int, parts), 0, 0][:3]
    return ((int(days) * 24 + hours) * 60 + minutes) * 60 + rest


def clock(total: int) -> str:
    """Seconds as Slurm writes them: ``02:03:04``, with days ``1-02:03:04``."""
    days, rest = divmod(total, UNITS["d"])
    text = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{text}" if days else text


def max_time(limit: str) -> str:
    """A time limit of the cluster file as Slurm's MaxTime, written in full.

    Raises:
        CorralError: the limit has another form.
    """
    length = span_seconds(limit)
    return INFINITE.upper() if length is None else clock(length)


def is_max_time(text: str) -> bool:
    """Whether a text can be a MaxTime in slurm.conf: a length without fractions, or INFINITE."""
    if text == INFINITE.upper():
        return True
    return "." not in text and _LENGTH.fullmatch(text) is not None
