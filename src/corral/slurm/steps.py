"""Steps of jobs: slurmstepd processes on nodes, and where batch scripts run. Pure."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from corral.durations import seconds
from corral.errors import CorralError
from corral.slurm.records import Job
from corral.slurm.states.jobs import state_word

BATCH_STEP: Final = "batch"
"""The step that runs a job's script, on its first node."""
EXTERN: Final = "extern"
"""The step that each node of a job has where PrologFlags has Contain."""

_STEP: Final = re.compile(
    r"^\s*(?P<age>\d+) slurmstepd: \[(?:[^\]]*[^0-9\]])?(?P<job>\d+)\.(?P<name>[^\]\s]*)",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Step:
    """A step that runs on a node.

    Attributes:
        job: its job's number.
        name: ``batch``, ``extern``, ``interactive`` or its number.
        age: seconds since its slurmstepd was started.
    """

    job: int
    name: str
    age: int


def readable_steps(text: str) -> tuple[Step, ...]:
    """The steps in lines of ``ps -o etimes=,args=``; other lines are left out."""
    return tuple(
        Step(int(match["job"]), match["name"], int(match["age"])) for match in _STEP.finditer(text)
    )


QUEUE_BATCH: Final = (
    *("squeue", "--noheader", "--states=RUNNING", "-O"),
    "JobID:|,State:|,BatchFlag:|,BatchHost:|,TimeUsed:|",
)
"""The command whose answer ``readable_batch`` reads; it lists jobs whose prolog runs, too."""
_FIELDS: Final = 5


def readable_batch(text: str) -> Iterator[tuple[Job, str]]:
    """Jobs with a batch script, each with the node where that runs; incomplete lines are left out.

    A job that salloc made has a BatchHost too, and no script.
    """
    for line in text.split("\n"):
        fields = line.split("|")
        if len(fields) < _FIELDS or not fields[0].isdecimal():
            continue
        number, state, flag, host, used = fields[:_FIELDS]
        if flag not in ("", "0"):
            with contextlib.suppress(CorralError):
                yield (
                    Job(
                        int(number),
                        label=number,
                        state=state_word(state),
                        elapsed=seconds(used),
                    ),
                    host,
                )
