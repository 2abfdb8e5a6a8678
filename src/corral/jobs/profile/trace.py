"""A rank's Chrome trace, as PyTorch's profiler writes it, summarised.

Pure. On a GPU the times are those of its kernels: communication is NCCL's, copies count as compute.
Without a GPU they are those of PyTorch's operators, and communication is gloo's. Where two things
run at once the time counts once: intervals are merged before they are added up.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from corral.errors import BAD_JSON, Code, CorralError

MARK: Final = "corral step"
MOST_BYTES: Final = 1 << 30
"""A trace may have that many bytes unpacked."""

TOP: Final = 8
_GPU: Final = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_TALK: Final = ("gloo:", "nccl:", "mpi:", "ucc:", "xccl:")
_NO_WORK: Final = ("autograd::", "torch::autograd::", "c10d::", "record_param_comms", *_TALK)
# What JSON of another shape, and broken gzip, fall over.
BAD: Final = (*BAD_JSON, OSError, EOFError, zlib.error)

Spans = tuple[tuple[float, float], ...]
"""Begin and end in microseconds: sorted, apart from each other."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel or operator: its own time (without what it called) and how often it ran."""

    name: str
    microseconds: float
    calls: int


@dataclass(frozen=True, slots=True)
class RankTrace:
    """What one rank did in the recorded steps.

    Attributes:
        rank: its number.
        gpu: the times are a GPU's.
        steps: optimizer steps recorded; 0 for a recording without markers.
        begin: of the recording, in the trace's microseconds.
        end: of the recording.
        marks: where each step ended, and the first one began.
        compute: when it computed.
        communication: when it communicated.
        top: what took the most time.
    """

    rank: int
    gpu: bool
    steps: int
    begin: float
    end: float
    marks: tuple[float, ...]
    compute: Spans
    communication: Spans
    top: tuple[Kernel, ...]

    @property
    def wall(self) -> float:
        """Microseconds recorded."""
        return self.end - self.begin

    @property
    def overlap(self) -> float:
        """Microseconds in which it computed and communicated at once."""
        return length(self.compute) + length(self.communication) - length(self._busy)

    @property
    def idle(self) -> float:
        """Microseconds in which it did neither."""
        return self.wall - length(self._busy)

    @property
    def _busy(self) -> Spans:
        return merged((*self.compute, *self.communication))

    def as_dict(self) -> dict[str, Any]:
        """Times are milliseconds of the entire recording."""
        return {
            "rank": self.rank,
            "device": "gpu" if self.gpu else "cpu",
            "steps": self.steps,
            "wall_ms": _ms(self.wall),
            "compute_ms": _ms(length(self.compute)),
            "communication_ms": _ms(length(self.communication)),
            "overlap_ms": _ms(self.overlap),
            "idle_ms": _ms(self.idle),
            "top": [
                {"name": k.name, "ms": _ms(k.microseconds), "calls": k.calls} for k in self.top
            ],
        }


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that took time: an operator, a kernel, a copy. Times in microseconds."""

    name: str
    kind: str
    thread: str
    begin: float
    end: float

    @property
    def on_gpu(self) -> bool:
        return self.kind in _GPU


def load_trace(data: bytes, rank: int) -> dict[str, Any]:
    """One rank's trace as JSON, gzipped or not.

    Raises:
        CorralError: PARSE_FAILED, it is not such a trace.
    """
    try:
        trace: Any = json.loads(_unpacked(data))
        events_of(trace)
    except BAD as error:
        raise broken(rank, str(error) or type(error).__name__) from error
    return trace


def events_of(trace: Mapping[str, Any]) -> list[Event]:
    """What took time in it."""
    return [e for e in map(_event, trace["traceEvents"]) if e is not None]


def read_trace(data: bytes, rank: int) -> RankTrace:
    """Read one rank's trace, gzipped or not.

    Raises:
        CorralError: PARSE_FAILED, it is not such a trace, or it holds nothing.
    """
    events = events_of(load_trace(data, rank))
    if not events:
        raise broken(rank, "it holds no events")
    marks = sorted(e.begin for e in events if e.name.startswith(MARK))
    gpu = any(e.on_gpu for e in events)
    work = [e for e in events if _is_work(e, gpu=gpu)]
    talk = [e for e in events if is_communication(e, gpu=gpu)]
    begin, end = _window(marks, [*work, *talk] or events)
    if gpu and len(marks) > 1:
        # Kernels of the last step may still run when Python has gone on.
        end = max(end, max((e.end for e in (*work, *talk)), default=end))
    return RankTrace(
        rank,
        gpu,
        max(0, len(marks) - 1),
        begin,
        end,
        tuple(marks),
        clipped(merged((e.begin, e.end) for e in work), begin, end),
        clipped(merged((e.begin, e.end) for e in talk), begin, end),
        _top([*work, *(talk if gpu else ())], begin, end),
    )


def merged(spans: Iterable[tuple[float, float]]) -> Spans:
    """The same time, each moment once."""
    union: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if union and begin <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((begin, end))
    return tuple(union)


def clipped(spans: Spans, begin: float, end: float) -> Spans:
    """The parts of the spans from ``begin`` to ``end``."""
    inside = ((max(a, begin), min(b, end)) for a, b in spans)
    return tuple((a, b) for a, b in inside if b > a)


def length(spans: Spans) -> float:
    """Microseconds in all."""
    return math.fsum(end - begin for begin, end in spans)


def _unpacked(data: bytes) -> bytes:
    if not data.startswith(b"\x1f\x8b"):
        return data
    reader = zlib.decompressobj(16 + zlib.MAX_WBITS)
    text = reader.decompress(data, MOST_BYTES)
    if reader.unconsumed_tail:
        raise ValueError(f"it has more than {MOST_BYTES >> 20} MiB unpacked: record fewer steps")
    if not reader.eof:
        raise gzip.BadGzipFile("it ends too early")
    return text


def _event(raw: dict[str, Any]) -> Event | None:
    if raw.get("ph") != "X" or "dur" not in raw:
        return None
    begin, span = float(raw["ts"]), float(raw["dur"])
    if not math.isfinite(begin) or not math.isfinite(span) or span < 0:
        raise ValueError(f"an event at {begin} that takes {span}")
    thread = f"{raw.get('pid')}/{raw.get('tid')}"
    return Event(str(raw["name"]), str(raw.get("cat", "")).lower(), thread, begin, begin + span)


def _is_work(event: Event, *, gpu: bool) -> bool:
    if gpu:
        return event.kind in _GPU and not event.name.startswith("nccl")
    return event.kind == "cpu_op" and not event.name.startswith(_NO_WORK)


def is_communication(event: Event, *, gpu: bool) -> bool:
    """It is NCCL's on a GPU, or gloo's or MPI's without one."""
    if gpu:
        return event.kind == "kernel" and event.name.startswith("nccl")
    return event.kind in ("cpu_op", "user_annotation") and event.name.startswith(_TALK)


def _window(marks: Sequence[float], events: Sequence[Event]) -> tuple[float, float]:
    if len(marks) > 1:
        return marks[0], marks[-1]
    return min(e.begin for e in events), max(e.end for e in events)


def _top(events: Iterable[Event], begin: float, end: float) -> tuple[Kernel, ...]:
    totals: dict[str, tuple[float, int]] = {}
    inside = [e for e in events if begin <= e.begin <= end]
    for name, spent in _own_times(inside):
        time, calls = totals.get(name, (0.0, 0))
        totals[name] = (time + spent, calls + 1)
    order = sorted(totals.items(), key=lambda item: (-item[1][0], item[0]))
    return tuple(Kernel(name, time, calls) for name, (time, calls) in order[:TOP])


def _own_times(events: Sequence[Event]) -> Iterator[tuple[str, float]]:
    """Each event with its time less that of the events it called, on its thread."""
    open_: dict[str, list[tuple[Event, list[float]]]] = {}
    for event in sorted(events, key=lambda e: (e.begin, -e.end)):
        stack = open_.setdefault(event.thread, [])
        while stack and stack[-1][0].end <= event.begin:
            yield _closed(stack.pop())
        if stack:
            stack[-1][1].append(event.end - event.begin)
        stack.append((event, []))
    for stack in open_.values():
        yield from map(_closed, stack)


def _closed(entry: tuple[Event, list[float]]) -> tuple[str, float]:
    event, inner = entry
    return event.name, max(0.0, event.end - event.begin - math.fsum(inner))


def _ms(microseconds: float) -> float:
    return round(microseconds / 1000, 3)


def broken(rank: int, why: str) -> CorralError:
    """The error of a trace that cannot be read."""
    return CorralError(
        Code.PARSE_FAILED,
        f"the trace of rank {rank} cannot be read: {why}",
        hint="a rank that was killed leaves none: see corral logs",
    )
