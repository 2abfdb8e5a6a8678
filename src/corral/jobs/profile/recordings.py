"""What a profiled job recorded: fetched, read, and joined to one timeline of all ranks.

Each rank's times are moved to one clock. PyTorch writes times as microseconds after
``baseTimeNanoseconds``, by the node's own clock. Where those clocks disagree, collectives show it:
one that all ranks take part in ends on no rank before it has begun on every rank, which bounds how
far one clock is from another. Clocks within the bounds stay as they are, others are moved to the
middle of the bounds.
"""

from __future__ import annotations

import base64
import binascii
import csv
import gzip
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from corral.errors import Code, CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.quote import call
from corral.hosts.transport import check
from corral.jobs.follow import as_user
from corral.jobs.handle import JobHandle
from corral.jobs.profile.profiler import FOLDER, INCOMPLETE
from corral.jobs.profile.trace import (
    BAD,
    Event,
    RankTrace,
    broken,
    events_of,
    is_communication,
    load_trace,
    read_trace,
)

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


MOST_BYTES: Final = 44_000_000
"""A file of that size at most is fetched: it travels as base64, held completely in memory."""

_LONGEST: Final = 100_000
"""Characters of a line of a table: names of kernels are C++, a csv field is 131,072 at most."""

KERNELS: Final = "Instances"
CALLS: Final = "Num Calls"
_TRACE: Final = ".json.gz"
_PROGRAM: Final = "jobs/user.sh"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of what ``nsys stats`` prints: share of the time, total time, calls, and name."""

    percent: float
    milliseconds: float
    calls: int
    name: str


@dataclass(frozen=True, slots=True)
class Recordings:
    """A profiled job's recordings.

    Attributes:
        job: Slurm's number.
        folder: where they are on the cluster.
        traces: one per rank that wrote one (PyTorch's profiler).
        kernels: the GPU kernels of each rank, the longest first (Nsight Systems).
        calls: its system calls over 0.1 ms, likewise.
        files: every file by name, to be kept.
        too_large: files that were not fetched, with their size in bytes.
        incomplete: Nsight Systems could not read all of it: kernels and calls may be missing.
    """

    job: str
    folder: str
    traces: tuple[RankTrace, ...]
    kernels: Mapping[int, tuple[Row, ...]]
    files: Mapping[str, bytes]
    too_large: Mapping[str, int]
    calls: Mapping[int, tuple[Row, ...]] = field(default_factory=dict[int, tuple[Row, ...]])
    incomplete: bool = False

    def timeline(self) -> bytes:
        """The traces of all ranks in one file for ui.perfetto.dev; empty without traces."""
        traces = {rank_of(n): data for n, data in self.files.items() if n.endswith(_TRACE)}
        return timeline(traces, f"job {self.job}") if traces else b""

    def as_dict(self) -> dict[str, Any]:
        """Job, folder, ranks, and where the time of GPUs and CPUs went."""
        return {
            "job": self.job,
            "folder": self.folder,
            "ranks": [trace.as_dict() for trace in self.traces],
            "kernels": _rows(self.kernels),
            "calls": _rows(self.calls),
            "too_large": dict(self.too_large),
            "incomplete": self.incomplete,
        }


async def recordings(fleet: Fleet, job: JobHandle) -> Recordings:
    """Fetch and read what a job recorded.

    Raises:
        CorralError: NOT_FOUND, it recorded nothing; PARSE_FAILED, what it recorded is broken.
    """
    if job.array:
        raise CorralError(
            Code.USAGE,
            f"job {job.id} is an array: each part has its own recordings",
            hint=f"name a part: {job.id}_{job.array[0]}",
        )
    folder = f"{job.folder}/{FOLDER}"
    listed = await fleet.run(
        job.controller, as_user(job.user, call(_PROGRAM, "recordings_list", folder))
    )
    sizes = parse_sizes(check(listed, f"listing {folder}").stdout) if job.folder else {}
    if not sizes:
        raise CorralError(
            Code.NOT_FOUND,
            f"job {job.ref} has no recordings",
            hint="it ran without --profile, or ended before the steps that are recorded",
        )
    fitting = [name for name, size in sorted(sizes.items()) if size <= MOST_BYTES]
    files = {name: await _fetch(fleet, job, f"{folder}/{name}") for name in fitting}
    stats = {
        rank_of(name): data.decode("utf-8", "replace")
        for name, data in files.items()
        if name.endswith(".csv")
    }
    return Recordings(
        job.ref,
        folder,
        tuple(
            sorted(
                (
                    read_trace(data, rank_of(name))
                    for name, data in files.items()
                    if name.endswith(_TRACE)
                ),
                key=lambda trace: trace.rank,
            )
        ),
        {rank: rows for rank, text in stats.items() if (rows := parse_stats(text))},
        files,
        {name: size for name, size in sizes.items() if size > MOST_BYTES},
        {rank: rows for rank, text in stats.items() if (rows := parse_stats(text, CALLS))},
        any(INCOMPLETE in text.splitlines() for text in stats.values()),
    )


def _rows(by_rank: Mapping[int, tuple[Row, ...]]) -> dict[str, list[dict[str, Any]]]:
    return {
        str(rank): [
            {"percent": r.percent, "ms": r.milliseconds, "calls": r.calls, "name": r.name}
            for r in rows
        ]
        for rank, rows in by_rank.items()
    }


def parse_sizes(text: str) -> dict[str, int]:
    """Sizes of recordings by name; names that no rank gives are left out."""
    sizes: dict[str, int] = {}
    for line in text.splitlines():
        size, _, name = line.partition(" ")
        stem, _, ending = name.partition(".")
        known = ending in ("json.gz", "csv", "nsys-rep")
        if size.isdecimal() and known and stem.removeprefix("rank-").isdecimal():
            sizes[name] = int(size)
    return sizes


def rank_of(name: str) -> int:
    return int(name.removeprefix("rank-").partition(".")[0])


def parse_stats(text: str, count: str = KERNELS) -> tuple[Row, ...]:
    """One report of ``nsys stats --format csv``, the longest first.

    Args:
        text: what it printed.
        count: the column that identifies the report: ``KERNELS`` for cuda_gpu_kern_sum, ``CALLS``
            for osrt_sum.

    Its header begins with ``Time (%)`` and names the columns; other reports follow in the same
    text, each with its own header.
    """
    rows: list[Row] = []
    head: list[str] = []
    for cells in _cells(text):
        if cells and cells[0] == "Time (%)":
            head = cells
        elif not cells:
            head = []
        elif "Name" in head and len(cells) == len(head):
            row = _row(dict(zip(head, cells, strict=True)), count)
            rows += [row] if row is not None else []
    return tuple(sorted(rows, key=lambda row: -row.milliseconds))


def _cells(text: str) -> Iterator[list[str]]:
    """The lines of a table; without what the job's user wrote that is none."""
    lines = csv.reader(line for line in text.split("\n") if len(line) <= _LONGEST)
    while True:
        try:
            yield next(lines)
        except StopIteration:
            return
        except csv.Error:
            continue


def _row(cells: Mapping[str, str], count: str) -> Row | None:
    try:
        percent, spent = float(cells["Time (%)"]), float(cells["Total Time (ns)"]) / 1e6
        known = math.isfinite(percent) and math.isfinite(spent)
        return Row(percent, spent, int(cells[count]), cells["Name"]) if known else None
    except (KeyError, ValueError):
        return None


async def _fetch(fleet: Fleet, job: JobHandle, path: str) -> bytes:
    script = as_user(job.user, call(_PROGRAM, "recording_read", path, MOST_BYTES))
    result = check(await fleet.run(job.controller, script, timeout=600), f"reading {path}")
    try:
        return base64.b64decode(result.stdout.strip(), validate=True)
    except (binascii.Error, ValueError) as error:
        raise CorralError(
            Code.PARSE_FAILED, f"{path} arrived incomplete", node=job.controller
        ) from error
