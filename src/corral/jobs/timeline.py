"""The traces of all ranks as one Chrome trace, which ui.perfetto.dev opens. Pure.

Each rank's times are moved to one clock. PyTorch writes times as microseconds after
``baseTimeNanoseconds``, by the node's own clock. Where those clocks disagree, collectives show it:
one that all ranks take part in ends on no rank before it has begun on every rank, which bounds how
far one clock is from another. Clocks within the bounds stay as they are, others are moved to the
middle of the bounds.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from corral.jobs.trace import BAD, Event, broken, events_of, is_communication, load_trace

# Broadcasts, gathers and sends end on some ranks before others begin.
_TOGETHER: Final = re.compile(r"all_?(reduce|gather|to_?all)|reduce_?scatter|barrier", re.I)
_PROCESSES: Final = 1000
"""More processes and devices than one rank's trace has."""

Interval = tuple[str, float, float]


@dataclass(frozen=True, slots=True)
class Clock:
    """How one rank's times are moved.

    Attributes:
        shift: microseconds added to each of its times.
        by: "clock" for the nodes' own clocks, "collectives" where those disagreed by ``moved``.
        moved: microseconds of ``shift`` that collectives made necessary.
    """

    shift: float
    by: str
    moved: float


def timeline(files: Mapping[int, bytes], title: str) -> bytes:
    """One gzipped Chrome trace of all ranks.

    Args:
        files: each rank's trace, gzipped or not.
        title: what was run.

    Raises:
        CorralError: PARSE_FAILED, a file is not a trace.
    """
    parts: list[str] = []
    clocks: dict[int, Clock] = {}
    first: tuple[int, Sequence[Interval]] | None = None
    for rank, data in sorted(files.items()):
        # One rank at a time in memory: a trace of some steps has a million events.
        trace = load_trace(data, rank)
        try:
            base = int(trace.get("baseTimeNanoseconds", 0))
            together = _collectives(trace)
            first = first or (base, together)
            clocks[rank] = clock = clock_of((base - first[0]) / 1000, first[1], together)
            moved = _moved(trace["traceEvents"], rank, clock.shift)
            parts += [json.dumps(event, allow_nan=False) for event in moved]
        except BAD as error:
            raise broken(rank, str(error) or type(error).__name__) from error
    about = {
        "title": title,
        "clocks": {str(rank): {"by": c.by, "moved_us": c.moved} for rank, c in clocks.items()},
    }
    head = f'{{"displayTimeUnit":"ms","otherData":{json.dumps(about)},"traceEvents":[\n'
    return gzip.compress((head + ",\n".join(parts) + "\n]}\n").encode(), 6, mtime=0)


def clock_of(offset: float, first: Sequence[Interval], other: Sequence[Interval]) -> Clock:
    """How to move a rank's times to the clock of the first rank.

    Args:
        offset: microseconds from the base of the first rank's times to that of this rank's.
        first: name, begin and end of the first rank's collectives in order.
        other: those of this rank.
    """
    if not first or [name for name, *_ in first] != [name for name, *_ in other]:
        return Clock(offset, "clock", 0.0)
    pairs = list(zip(first, other, strict=True))
    low = max(begin - (end + offset) for (_, begin, _), (_, _, end) in pairs)
    high = min(end - (begin + offset) for (_, _, end), (_, begin, _) in pairs)
    if low > high or low <= 0 <= high:
        return Clock(offset, "clock", 0.0)
    moved = (low + high) / 2
    return Clock(offset + moved, "collectives", round(moved, 3))


def _collectives(trace: Mapping[str, Any]) -> Sequence[Interval]:
    """The collectives of a trace; none where subsets of the ranks have their own."""
    groups = trace.get("distributedInfo", {}).get("pg_count", 1)
    if groups != 1:
        return ()
    events = events_of(trace)
    gpu = any(event.on_gpu for event in events)
    together: list[Event] = [
        event
        for event in events
        if is_communication(event, gpu=gpu) and _TOGETHER.search(event.name)
    ]
    return [(e.name, e.begin, e.end) for e in sorted(together, key=lambda e: e.begin)]


def _moved(
    events: Sequence[dict[str, Any]], rank: int, shift: float
) -> Sequence[Mapping[str, Any]]:
    """A rank's events on the common clock, with processes and links that no other rank has."""
    processes: dict[object, int] = {}
    links: dict[object, int] = {}
    names: dict[object, str] = {}
    shifted: list[Mapping[str, Any]] = []
    for event in events:
        moved = dict(event)
        pid = event.get("pid", "")
        moved["pid"] = processes.setdefault(pid, rank * _PROCESSES + len(processes) + 1)
        if event.get("ph") == "M" and str(event.get("name")).startswith("process_"):
            if event["name"] == "process_name":
                names[pid] = str(event.get("args", {}).get("name", ""))
            continue
        if isinstance(event.get("ts"), int | float):
            moved["ts"] = event["ts"] + shift
        for key in ("id", "bind_id"):
            if key in event:
                moved[key] = links.setdefault(event[key], (rank << 32) + len(links) + 1)
        shifted.append(moved)
    for pid, new in processes.items():
        name = f"rank {rank}: {names.get(pid, '')} {pid}".replace("  ", " ")
        shifted.append({"ph": "M", "pid": new, "name": "process_name", "args": {"name": name}})
        shifted.append(
            {"ph": "M", "pid": new, "name": "process_sort_index", "args": {"sort_index": new}}
        )
    return shifted
