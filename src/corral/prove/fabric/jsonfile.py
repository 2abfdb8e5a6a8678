"""Reads what nccl-tests wrote with ``-J FILE`` (2.17.7 and later).

The file holds the environment of the run, which may hold secrets: it is never kept nor shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from corral.errors import Code, CorralError
from corral.prove.fabric.checking import settled
from corral.prove.fabric.infer import named
from corral.prove.fabric.model import Rank, Row, Table, Timing

# 2.17.7 to 2.17.9 misspelled both (util.cu).
_AVERAGES: Final = ("average_bus_bandwidth", "average_bus_bandwidith")
_BANDWIDTHS: Final = ("bandwidth", "bandwidith")
_NAMED: Final = re.compile(r"nan|-?inf", re.IGNORECASE)


def read_json(text: str) -> tuple[Table, ...]:
    """The table of one such file.

    Raises:
        CorralError: PARSE_FAILED: no JSON, cut, not of nccl-tests, or it contradicts itself.
    """
    try:
        found: Any = json.loads(text)
    except ValueError as error:
        raise _broken(f"this is no whole JSON file: {error}") from error
    if not isinstance(found, dict):
        raise _broken("this JSON is no object")
    fields = cast("dict[str, Any]", found)
    try:
        return (_table(fields),)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise _broken(f"it lacks what nccl-tests -J writes: {error!r}") from error


def _table(fields: Mapping[str, Any]) -> Table:
    config = cast("Mapping[str, Any]", fields["config"])
    rows = tuple(_row(r) for r in cast("list[Mapping[str, Any]]", fields["results"]))
    average = next((fields[k] for k in _AVERAGES if k in fields), None)
    bounds = fields.get("out_of_bounds")
    arguments = cast("list[str]", fields.get("args") or [""])
    collective = named(arguments[0])
    members = tuple(
        Rank(int(d["rank"]), str(d["hostname"]), str(d["device_info"]))
        for d in cast("list[Mapping[str, Any]]", config.get("devices") or ())
    )
    return settled(
        Table(
            rows=rows,
            collective=collective,
            certain=collective is not None,
            ranks=len(members),
            members=members,
            out_of_bounds=None if bounds is None else int(bounds["count"]),
            average=None
            if average is None
            else next(_number(average[k]) for k in _BANDWIDTHS if k in average),
            complete=average is not None and bounds is not None,
        ),
        largest=int(config.get("maximum_bytes", 0)),
        cpu=any("cpu_time" in (r.get("out_of_place") or {}) for r in fields["results"]),
    )


def _row(fields: Mapping[str, Any]) -> Row:
    return Row(
        0,
        int(fields["size"]),
        int(fields["count"]),
        str(fields["type"]),
        str(fields["redop"]),
        int(fields["root"]),
        _timing(fields.get("out_of_place")),
        _timing(fields.get("in_place")),
    )


def _timing(fields: Mapping[str, Any] | None) -> Timing | None:
    if fields is None:
        return None
    wrong = fields["nwrong"]
    return Timing(
        _number(fields["time"] if "time" in fields else fields["cpu_time"]),
        _number(fields["alg_bw"]),
        _number(fields["bus_bw"]),
        wrong=None if wrong is None else _number(wrong),
    )


def _number(value: Any) -> float:
    """A JSON number, or the word that nccl-tests writes for one that is none.

    Raises:
        ValueError: anything else: text, true, an object.
    """
    if isinstance(value, str) and _NAMED.fullmatch(value):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is no number")
    return float(value)


def _broken(what: str) -> CorralError:
    return CorralError(
        Code.PARSE_FAILED,
        what,
        hint="give the file that nccl-tests wrote with -J, from a run that ended",
    )
