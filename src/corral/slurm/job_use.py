"""What an ended job used, out of accounting: processor time and memory. Pure.

slurmstepd samples a step's tasks (JobAcctGatherFrequency, 30 s unless set) and reports at its end;
a job's processor time is that of all its steps, its memory that of its largest step: the peaks of
its tasks added up. Accounting has neither while a step goes on, and none at all with
``JobAcctGatherType=jobacct_gather/none``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from corral.errors import CorralError
from corral.slurm.duration import seconds
from corral.slurm.rest.json_values import Record, integer, record, records, text

_COLUMNS: Final = ("JobIDRaw", "TotalCPU", "TRESUsageInTot")
_MEMORY: Final = re.compile(r"(?:^|,)mem=(\d+(?:\.\d+)?)([KMGTP]?)")
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class JobUse:
    """What a job used.

    Attributes:
        cpu_s: seconds of processors, of all its steps; None where nothing was measured.
        memory: MiB, of its largest step; None where nothing was measured.
    """

    cpu_s: float | None = None
    memory: float | None = None


def show_use(job_id: int) -> tuple[str, ...]:
    """The command whose answer ``parse_use`` reads."""
    return (
        "sacct",
        "--noheader",
        "--parsable2",
        f"--format={','.join(_COLUMNS)}",
        f"--jobs={job_id}",
    )


def parse_use(answer: str, job_id: int) -> JobUse:
    """Read sacct's lines of a job and its steps; what is not such a line is left out."""
    every, steps = 0.0, list[tuple[float, float]]()
    for line in answer.splitlines():
        fields = line.split("|")
        if len(fields) != len(_COLUMNS):
            continue
        number, _, step = fields[0].partition(".")
        if number != str(job_id):
            continue
        time, memory = _time(fields[1]), _bytes(fields[2])
        if step:
            steps.append((time, memory))
        else:
            every = time
    return _use(every, steps)


def use_of(raw: Record) -> JobUse:
    """Read a job of slurmdbd's as slurmrestd reports it (v0.0.40 on).

    The steps' ``requested`` resources are what they used: the data parser's name for
    TRESUsageIn (24.11, src/plugins/data_parser, STEP_TRES_REQ_TOT).
    """
    steps = [
        (_spent(step), float(_counted(records(_total(step).get("total")))))
        for step in records(raw.get("steps"))
    ]
    return _use(_spent(raw), steps)


def _total(step: Record) -> Record:
    return record(record(step.get("tres")).get("requested"))


def _spent(raw: Record) -> float:
    total = record(record(raw.get("time")).get("total"))
    return integer(total.get("seconds")) + integer(total.get("microseconds")) / 1e6


def _counted(listed: Iterable[Record]) -> int:
    return sum(integer(o.get("count")) for o in listed if text(o.get("type")) == "mem")


def _use(every: float, steps: list[tuple[float, float]]) -> JobUse:
    cpu = max(every, sum(time for time, _ in steps))
    memory = max((memory for _, memory in steps), default=0.0) / _MIB
    return JobUse(cpu or None, memory or None)


def _time(value: str) -> float:
    clock, _, fraction = value.partition(".")
    try:
        length = seconds(clock) if clock else 0
    except CorralError:
        return 0.0
    return float(length or 0) + (float(f"0.{fraction}") if fraction.isdecimal() else 0.0)


def _bytes(tres: str) -> float:
    match = _MEMORY.search(tres)
    return float(match[1]) * _UNITS[match[2]] if match else 0.0
