"""Parts of a cloud's response, read strictly. Pure; without httpx, which a base install lacks.

Copied to controllers, whose Python may be 3.10 (``cloud.calls``).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Final, cast

from corral.providers.cloud.model import Instance

_UTC: Final = timezone.utc  # datetime.UTC came with Python 3.11
_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:-]{0,199}")


def strict_json(text: str | bytes) -> Any:
    """JSON as RFC 8259 has it: neither NaN nor infinite numbers, which Python's reader takes.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number


def records(value: Any) -> list[dict[str, Any]]:
    """A JSON list of objects.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, list):
        raise TypeError("not a list")
    items = cast("list[Any]", value)
    if not all(isinstance(item, dict) for item in items):
        raise TypeError("not a list of objects")
    return cast("list[dict[str, Any]]", items)


def record(value: Any) -> dict[str, Any]:
    """A JSON object.

    Raises:
        TypeError: it is something else.
    """
    return records([value])[0]


def part(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An object inside of an object; empty where it is null or absent."""
    value = data.get(name)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def identity(value: Any) -> str:
    """An id, which becomes a part of a call's path.

    Raises:
        ValueError: it is not an id, or would lead to another path.
    """
    if isinstance(value, str) and _ID.fullmatch(value) and ".." not in value:
        return value
    raise ValueError(f"{str(value)[:60]!r} is not an id")


def amount(value: Any) -> float:
    """A price or a size.

    Raises:
        ValueError: it is not a number, or less than nothing.
    """
    try:
        number = float(value)
    except OverflowError as error:  # an integer of JSON may have any number of digits
        raise ValueError("an amount of more than 308 digits") from error
    if isinstance(value, bool) or not math.isfinite(number) or number < 0:
        raise ValueError(f"{value!r} is not an amount")
    return number


def moment(value: Any) -> float:
    """Unix seconds of an ISO 8601 time; one without a zone is UTC.

    Raises:
        ValueError: it is not a time.
    """
    # Python 3.10 reads no Z, and fractions of three or six digits only.
    text = re.sub(r"Z$", "+00:00", str(value))
    text = re.sub(r"\.(\d{1,6})\d*", lambda match: f".{match[1]:0<6}", text, count=1)
    read = datetime.fromisoformat(text)
    return (read if read.tzinfo else read.replace(tzinfo=_UTC)).timestamp()


def distinct(instances: Iterable[Instance]) -> tuple[Instance, ...]:
    """Instances by id: a list of pages may show one twice while it changes; the later one counts.

    Raises:
        ValueError: two names under one id: which node it is cannot be known.
    """
    by_id: dict[str, Instance] = {}
    for instance in instances:
        if instance.id in by_id and by_id[instance.id].name != instance.name:
            raise ValueError(f"two instances with the id {instance.id}")
        by_id[instance.id] = instance
    return tuple(by_id.values())


def retry_after(value: str, date: str = "") -> float:
    """Seconds of a ``Retry-After`` header: a number or a date (RFC 9110, 10.2.3); 0 for none.

    Args:
        value: the header.
        date: the response's ``Date``: a date is compared with the cloud's own clock, not this one.
    """
    if re.fullmatch(r"\d{1,9}(\.\d*)?", value.strip()):
        return float(value)
    try:
        then, now = parsedate_to_datetime(value), parsedate_to_datetime(date)
        return max(0.0, (then - now).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return 0.0
