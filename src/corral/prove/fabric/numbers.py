"""Numbers as a benchmark printed them: value and how far its last digit can be off."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?", re.IGNORECASE)
# A locale's comma. Three digits after it could as well be thousands: then it is not guessed.
_COMMA: Final = re.compile(r"[+-]?\d+,\d{1,2}")
_NONE: Final = frozenset({"nan", "-nan", "inf", "-inf"})


@dataclass(frozen=True, slots=True)
class Printed:
    """A number and half a unit of its last printed digit."""

    value: float
    half: float


def printed(text: str) -> Printed:
    """Read one number.

    Raises:
        ValueError: it is not a number, or is ambiguous.
    """
    if text.lower() in _NONE:
        return Printed(float(text), 0.0)
    plain = text.replace(",", ".") if _COMMA.fullmatch(text) else text
    if not _NUMBER.fullmatch(plain):
        raise ValueError(f"{text!r} is not a number")
    mantissa, _, exponent = plain.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return Printed(float(plain), 0.5 * math.pow(10, int(exponent or 0) - decimals))
