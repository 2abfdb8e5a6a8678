"""Intervals of the cluster file: ``5m``, ``1d``, ``off``. Pure."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

UNITS: Final = MappingProxyType({"s": 1, "m": 60, "h": 3600, "d": 86400})


def seconds_of(interval: str) -> int:
    """Seconds of an interval, 0 for ``off``."""
    return 0 if interval == "off" else int(interval[:-1]) * UNITS[interval[-1]]
