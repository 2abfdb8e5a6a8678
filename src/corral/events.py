"""Event records: what Corral reports while it works. The CLI draws them, the journal keeps them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What an event reports."""

    PHASE_STARTED = "phase-started"  # phase = machines, probe, apply, prove, ...
    PHASE_DONE = "phase-done"
    STAGE_STARTED = "stage-started"  # one stage of a plan
    STAGE_DONE = "stage-done"
    STAGE_FAILED = "stage-failed"
    NODE_STARTED = "node-started"  # one node's share of a stage
    NODE_DONE = "node-done"
    NODE_FAILED = "node-failed"
    CHANGE_STARTED = "change-started"  # one change on one node
    CHANGE_DONE = "change-done"
    CHECK_STARTED = "check-started"  # one check of a proof
    CHECK_DONE = "check-done"
    JOB = "job"  # a job changed state
    NOTE = "note"  # a plain line worth showing


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened.

    Attributes:
        kind: what it reports.
        subject: phase, stage, change or check id.
        node: node name, "" when not about one node.
        message: short text for people.
        seconds: how long it took, None when it just began.
        total: how many units of work the subject has, 0 when not known (nodes of a stage, checks).
    """

    kind: Kind
    subject: str
    node: str = ""
    message: str = ""
    seconds: float | None = None
    total: int = 0

    def as_dict(self) -> dict[str, object]:
        """For the journal and ``--json``: fields that have a value."""
        return {k: v for k, v in asdict(self).items() if v not in ("", None, 0) or k == "kind"}


Emit = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Drop the event: the Emit for callers that do not want to follow."""
