"""What a profiled job recorded: fetched from shared storage and read."""

from __future__ import annotations

import base64
import binascii
import csv
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from corral.errors import Code, CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.quote import sh
from corral.hosts.transport import check
from corral.jobs.follow_script import as_user
from corral.jobs.model import JobHandle
from corral.jobs.profiler import FOLDER
from corral.jobs.timeline import timeline
from corral.jobs.trace import RankTrace, read_trace

MOST_BYTES: Final = 44_000_000
"""A file of that size at most is fetched: it travels as base64, held completely in memory."""

_LONGEST: Final = 100_000
"""Characters of a line of a table: names of kernels are C++, a csv field is 131,072 at most."""

KERNELS: Final = "Instances"
CALLS: Final = "Num Calls"
_TRACE: Final = ".json.gz"
# A job's user may put a link to /dev/zero or a FIFO in its place.
_READ: Final = (
    '[ -f {path} ] && [ ! -L {path} ] || {{ echo "no plain file" >&2; exit 1; }}; '
    "timeout 300 head -c {most} {path} | base64 -w0"
)
_LIST: Final = "cd {folder} 2>/dev/null || exit 0; stat -c '%s %n' rank-* 2>/dev/null || :"


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
    """

    job: str
    folder: str
    traces: tuple[RankTrace, ...]
    kernels: Mapping[int, tuple[Row, ...]]
    files: Mapping[str, bytes]
    too_large: Mapping[str, int]
    calls: Mapping[int, tuple[Row, ...]] = field(default_factory=dict[int, tuple[Row, ...]])

    def timeline(self) -> bytes:
        """The traces of all ranks in one file for ui.perfetto.dev; empty without traces."""
        traces = {rank_of(n): data for n, data in self.files.items() if n.endswith(_TRACE)}
        return timeline(traces, f"job {self.job}") if traces else b""

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready summary."""
        return {
            "job": self.job,
            "folder": self.folder,
            "ranks": [trace.as_dict() for trace in self.traces],
            "kernels": _rows(self.kernels),
            "calls": _rows(self.calls),
            "too_large": dict(self.too_large),
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
    listed = await fleet.run(job.controller, as_user(job.user, sh(_LIST, folder=folder)))
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
    """The rank of a recording's name."""
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
    script = as_user(job.user, sh(_READ, path=path, most=MOST_BYTES))
    result = check(await fleet.run(job.controller, script, timeout=600), f"reading {path}")
    try:
        return base64.b64decode(result.stdout.strip(), validate=True)
    except (binascii.Error, ValueError) as error:
        raise CorralError(
            Code.PARSE_FAILED, f"{path} arrived incomplete", node=job.controller
        ) from error
