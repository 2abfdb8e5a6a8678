"""An array: how many of its parts are pending, running and ended, and how; its parts as a table."""

from __future__ import annotations

import json
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from corral.errors import BAD_JSON, Code, CorralError
from corral.events import Emit, Event, Kind, ignore
from corral.hosts.fleet import Fleet
from corral.hosts.quote import call, sh
from corral.hosts.transport import check
from corral.inspect.jobs import array_changes, array_tasks, in_unix_times, job_history
from corral.inspect.question import Answer, Answers, inquiry
from corral.jobs.follow import as_user
from corral.jobs.handle import JobHandle
from corral.jobs.sweep import MOST_POINTS, count_points, points
from corral.slurm.array_tasks import array_label
from corral.slurm.records import Job
from corral.slurm.states.jobs import ExitCode, JobState

FOR_EVER: Final = 365 * 86400.0
MANY: Final = 200
"""Parts from which on slurmctld is asked less often."""

_NUMBER: Final = re.compile(r"[0-9]{1,10}")
_STATUS: Final = re.compile(r"[0-9]{1,3}")

_PROGRAM: Final = "jobs/user.sh"


def _points(about: str) -> tuple[Mapping[str, str], ...] | None:
    """The points of a sweep, none of a plain array; None: unknown, its user may write the file."""
    try:
        sweep: Any = json.loads(about)["job"].get("sweep") or {}
        named = {str(k): [str(v) for v in values] for k, values in sweep.items()}
        if count_points(named) > MOST_POINTS:
            return None
    except BAD_JSON:
        return None
    return points(named) if named else ()


def _numbered(text: str) -> list[tuple[int, str]]:
    rows = [line.partition(" ") for line in text.split("\n")]
    return [(int(number), rest) for number, _, rest in rows if _NUMBER.fullmatch(number)]


def _statuses(text: str) -> dict[int, int]:
    """Exit status of each part that has ended."""
    return {number: int(rest) for number, rest in _numbered(text) if _STATUS.fullmatch(rest)}


_ABOUT: Final = Answer("array-points", _points)
_LAST: Final = Answer("last", _numbered)
_ENDED: Final = Answer("ended", _statuses)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of an array.

    Attributes:
        number: SLURM_ARRAY_TASK_ID.
        state: its state; None when Slurm has forgotten it and keeps no accounting.
        exit_code: how it ended.
        seconds: how long it ran; None where accounting has no time.
        nodes: where.
        point: the sweep's values, empty for a plain array; None where they are unknown.
        last: the last line of its first rank.
    """

    number: int
    state: JobState | None = None
    exit_code: ExitCode | None = None
    seconds: int | None = None
    nodes: str = ""
    point: Mapping[str, str] | None = field(default_factory=dict[str, str])
    last: str = ""

    @property
    def good(self) -> bool:
        """It ended as it should."""
        return self.state is not None and self.state.good

    def as_dict(self) -> dict[str, Any]:
        return {
            "task": self.number,
            "state": self.state.value if self.state else None,
            "exit_status": self.exit_code.status if self.exit_code else None,
            "seconds": self.seconds,
            "nodes": self.nodes,
            "point": None if self.point is None else dict(self.point),
            "last": self.last,
        }


@dataclass(frozen=True, slots=True)
class ArrayOutcome:
    """How an array stands."""

    id: int
    parts: tuple[Part, ...]

    @property
    def good(self) -> bool:
        """All parts ended as they should."""
        return all(part.good for part in self.parts)

    @property
    def ended(self) -> bool:
        """No part is pending or running."""
        return all(part.state is None or part.state.ended for part in self.parts)

    @property
    def counts(self) -> Mapping[str, int]:
        """Parts by state, in lower-case words."""
        words = (part.state.value if part.state else "UNKNOWN" for part in self.parts)
        return Counter(word.lower().replace("_", " ") for word in words)

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "counts": dict(self.counts),
            "parts": [part.as_dict() for part in self.parts],
        }


async def follow_array(fleet: Fleet, job: JobHandle, emit: Emit = ignore) -> ArrayOutcome:
    """Report the progress of an array until all parts have ended. Cancelling this leaves it alone.

    Raises:
        CorralError: NOT_FOUND, no such job; UNREACHABLE, the controller stays away.
    """
    progress = _Progress(job, emit)
    changes = array_changes(job.id, 5 if len(job.array) > MANY else 2)
    result = await fleet.run(
        job.controller, as_user(job.user, changes.shell), timeout=FOR_EVER, on_line=progress.feed
    )
    check(result, f"watching array {job.id}", hint="corral logs shows it")
    return await array_state(fleet, job, progress.states)


async def array_state(
    fleet: Fleet, job: JobHandle, known: Mapping[int, JobState] | None = None
) -> ArrayOutcome:
    """All parts as they stand, with their points and last lines.

    Args:
        fleet: the cluster's machines.
        job: the array.
        known: states that were seen already; None: squeue is asked.

    Raises:
        CorralError: NOT_FOUND, it is not an array that Corral submitted.
    """
    if not job.array:
        raise CorralError(
            Code.NOT_FOUND, f"job {job.id} is not an array", hint="corral logs shows it"
        )
    states = dict(known if known is not None else await _queued(fleet, job))
    mark = f"m{secrets.token_hex(8)}"
    history = job_history(mark, f"--jobs={job.id}")
    questions = (
        _ABOUT.by(sh("cat {path}", path=f"{job.folder}/job.json")),
        in_unix_times(history),
        _LAST.by(call(_PROGRAM, "array_lines", job.folder)),
        _ENDED.by(call(_PROGRAM, "array_ends", job.folder)),
    )
    asked = inquiry(q.run_by(partial(as_user, job.user)) for q in questions)
    what, hint = f"asking for array {job.id}", f"is {job.folder} still there?"
    result = await fleet.run(job.controller, asked.script, timeout=300)
    sections = asked.read(check(result, what, hint=hint).stdout)
    texts = sections.require(asked.names, job.controller, what)
    sections.succeeded(_ABOUT.name, job.controller, what, hint=hint, stderr=result.stderr)
    return ArrayOutcome(job.id, _parts(job, states, texts, history.read(texts)))


async def _queued(fleet: Fleet, job: JobHandle) -> dict[int, JobState]:
    progress = _Progress(job, ignore)
    tasks = array_tasks(job.id)
    result = await fleet.run(job.controller, as_user(job.user, tasks.shell), timeout=60)
    progress.take(tasks.parse(result.stdout))
    return progress.states


class _Progress:
    """Takes squeue's lines of an array; reports what changed."""

    def __init__(self, job: JobHandle, emit: Emit) -> None:
        self.states: dict[int, JobState] = {}
        self._job = job
        self._emit = emit
        self._why = ""
        self._reported = ""

    def feed(self, line: str) -> None:
        """Take one line."""
        if line == ".":
            self._report()
            return
        self.take(array_changes(self._job.id, 0).parse(line))

    def take(self, jobs: Iterable[Job]) -> None:
        """Take records of tasks."""
        for job in jobs:
            label = array_label(job.label)
            if label is None:
                continue
            state = JobState.read(job.state)
            for number in label.tasks.numbers(MOST_POINTS):
                self.states[number] = state
            if job.waiting:
                self._why = job.why

    def _report(self) -> None:
        counts = Counter(state.value.lower().replace("_", " ") for state in self.states.values())
        words = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
        if counts.get("pending") and not counts.get("running") and self._why:
            words = f"{words}: {self._why}"
        if words != self._reported:
            self._emit(Event(Kind.JOB, str(self._job.id), message=words))
        self._reported = words


def _point_of(every: tuple[Mapping[str, str], ...] | None, number: int) -> Mapping[str, str] | None:
    """The point of a part; a sweep has one for each, so that one without is unknown."""
    if not every:
        return None if every is None else {}
    return every[number] if number < len(every) else None


def _parts(
    job: JobHandle, states: Mapping[int, JobState], answers: Answers, ended_jobs: tuple[Job, ...]
) -> tuple[Part, ...]:
    past = {
        label.task: job
        for job in ended_jobs
        if (label := array_label(job.label)) and label.task is not None
    }
    lines = dict(_LAST.read(answers))
    statuses = _ENDED.read(answers)
    every = _ABOUT.read(answers)
    parts: list[Part] = []
    for number in job.array:
        record = past.get(number)
        state = states.get(number) or (JobState.read(record.state) if record else None)
        status = statuses.get(number)
        if state is None and status is not None:
            state = JobState.FAILED if status else JobState.COMPLETED
        code = record.exit_code if record else None
        parts.append(
            Part(
                number,
                state,
                code or (None if status is None else ExitCode(status)),
                record.elapsed if record else None,
                record.nodes if record else "",
                _point_of(every, number),
                lines.get(number, ""),
            )
        )
    return tuple(parts)
