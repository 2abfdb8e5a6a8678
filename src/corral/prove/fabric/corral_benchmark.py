"""Reads what Corral's own benchmark prints (``agents/benchmarks/collectives.py``), line by line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from corral import agents
from corral.errors import BAD_JSON, Code, CorralError
from corral.prove.fabric.benchmark_log import OWN, Reading, read
from corral.prove.fabric.slow_parts import Half, Pair

PROGRAM: Final = agents.FOLDER / "benchmarks/collectives.py"
"""The benchmark; it is never imported here, as it needs PyTorch."""
MEASURES: Final = (
    *("all_reduce", "all_gather", "reduce_scatter"),
    *("all_to_all", "broadcast", "sendrecv"),
)
"""Collectives that it knows."""
TYPES: Final = ("float32", "float16", "bfloat16")
_ROW: Final = "@@corral-row "
_PAIR: Final = "@@corral-pair "
_HALF: Final = "@@corral-half "


@dataclass(frozen=True, slots=True)
class Progress:
    """One size that was measured just now: bytes, microseconds, GB/s, wrong results."""

    collective: str
    size: int
    time_us: float
    busbw: float
    wrong: int


def progress_of(line: str) -> Progress | None:
    """The row that a line holds; None for any other line."""
    if not line.startswith(_ROW):
        return None
    try:
        row: Any = json.loads(line.removeprefix(_ROW))
        places = ("out_of_place", "in_place")
        timings = [cast("Mapping[str, Any]", row[place]) for place in places if row[place]]
        best = max(timings, key=lambda timing: float(timing["bus_bw"]))
        wrong = int(sum(float(timing["nwrong"]) for timing in timings))
        return Progress(
            str(row["collective"]),
            int(row["size"]),
            float(best["time"]),
            float(best["bus_bw"]),
            wrong,
        )
    except BAD_JSON:
        return None  # progress only: the table at the end is read strictly


def read_program(lines: Sequence[str]) -> tuple[Reading, tuple[Pair, ...]]:
    """Its tables with what NCCL used, and its pairs of nodes.

    Args:
        lines: what all ranks printed.

    Raises:
        CorralError: PARSE_FAILED, there is no table, or one contradicts itself.
    """
    if not any(OWN in line for line in lines):
        raise CorralError(
            Code.PARSE_FAILED,
            "the benchmark ended without a result",
            tail="\n".join(lines[-20:]),
            hint="corral logs JOB shows what it printed",
        )
    pairs = [_pair(line) for line in lines if line.startswith(_PAIR)]
    return read("\n".join(lines)), tuple(pairs)


def read_halves(lines: Sequence[str]) -> tuple[Half, ...]:
    """All nodes and their halves, where four nodes or more took part.

    Raises:
        CorralError: PARSE_FAILED, a line is spoiled.
    """
    return tuple(Half(*_part(line, _HALF)) for line in lines if line.startswith(_HALF))


def _pair(line: str) -> Pair:
    nodes, busbw = _part(line, _PAIR)
    if len(nodes) != 2:  # noqa: PLR2004
        raise _unreadable(line)
    first, second = sorted(nodes)
    return Pair(first, second, busbw)


def _part(line: str, mark: str) -> tuple[tuple[str, ...], float]:
    try:
        fields: Any = json.loads(line.removeprefix(mark))
        return tuple(str(name) for name in fields["nodes"]), float(fields["bus_bw"])
    except BAD_JSON as error:
        raise _unreadable(line) from error


def _unreadable(line: str) -> CorralError:
    return CorralError(
        Code.PARSE_FAILED, f"this line of the benchmark cannot be read: {line[:200]!r}"
    )
