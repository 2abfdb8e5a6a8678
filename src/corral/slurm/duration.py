"""Slurm's times: reading and writing ``1-02:03:04``. Pure: lengths of time only, no clock."""

from __future__ import annotations

import re
from typing import Final

from corral.errors import Code, CorralError

_DAYS: Final = re.compile(r"(?P<d>\d+)-(?P<h>\d+)(?::(?P<m>\d+))?(?::(?P<s>\d+))?(?:\.\d+)?")
_CLOCK: Final = re.compile(r"(?:(?P<h>\d+):)?(?P<m>\d+):(?P<s>\d+)(?:\.\d+)?")
_SPEC: Final = re.compile(
    r"(?:(?P<d>\d{1,3})-)?(?P<h>\d{1,3})(?::(?P<m>[0-5]\d))?(?::(?P<s>[0-5]\d))?"
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
    if text.isascii() and text.isdigit():
        return int(text) * 60
    match = _DAYS.fullmatch(text) or _CLOCK.fullmatch(text)
    if not match:
        raise CorralError(
            Code.PARSE_FAILED,
            f"{text[:40]!r} is not a time in Slurm's grammar",
            hint="write minutes, hours:minutes:seconds or days-hours:minutes:seconds",
        )
    return _total({name: int(value or 0) for name, value in match.groupdict().items()})


def _total(parts: dict[str, int]) -> int:
    hours = parts.get("d", 0) * 24 + parts.get("h", 0)
    return (hours * 60 + parts.get("m", 0)) * 60 + parts.get("s", 0)


def clock(total: int) -> str:
    """Seconds as Slurm writes them: ``02:03:04``, with days ``1-02:03:04``."""
    days, rest = divmod(total, 86400)
    text = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{text}" if days else text


def max_time(limit: str) -> str:
    """A time limit of the cluster file as Slurm's MaxTime.

    The cluster file counts in hours (``[days-]hours[:minutes[:seconds]]``); Slurm reads a bare
    number as minutes and ``a:b`` as minutes and seconds, so every limit is written in full.

    Raises:
        CorralError: the limit has another form.
    """
    if limit == "infinite":
        return "INFINITE"
    match = _SPEC.fullmatch(limit)
    if not match:
        raise CorralError(
            Code.SPEC_INVALID,
            f"{limit[:40]!r} is not a time limit",
            hint="write infinite or [days-]hours[:minutes[:seconds]], such as 8 or 2-00:00",
        )
    return clock(_total({name: int(value or 0) for name, value in match.groupdict().items()}))
