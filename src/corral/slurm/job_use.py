"""What a job used: out of accounting when it has ended, by sstat while it runs. Pure.

slurmstepd samples a step's tasks (JobAcctGatherFrequency, 30 s unless set) and reports at its end;
a job's processor time is that of all its steps, its memory that of its largest step: the peaks of
its tasks added up. Accounting has neither while a step goes on, and none at all with
``JobAcctGatherType=jobacct_gather/none``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from corral.durations import exact_seconds, seconds
from corral.slurm.records import Job
from corral.slurm.rest.json_values import Record, integer, record, records, text
from corral.slurm.tres import entries, mib

_COLUMNS: Final = ("JobIDRaw", "TotalCPU", "TRESUsageInTot")
_SHOW: Final = ("sacct", "--noheader", "--parsable2", f"--format={','.join(_COLUMNS)}")
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


@dataclass(frozen=True, slots=True)
class Shares:
    """What an ended job used of what it was given: 1 is all of it, more than that is possible.

    None where nothing was measured or given.

    Attributes:
        cpu: processor time, of all its processors for as long as it ran.
        memory: of its largest step.
        gpu: how busy its GPUs were; at most 1.
    """

    cpu: float | None = None
    memory: float | None = None
    gpu: float | None = None


def shares(job: Job, length: float, use: JobUse | None, busy_gpu_s: float | None) -> Shares:
    """What a job used of what it was given.

    Args:
        job: as accounting has it.
        length: seconds that it ran.
        use: its processors and memory; None where accounting has no samples.
        busy_gpu_s: seconds that its GPUs were busy, of all together; None: not measured.
    """
    exact = job.gpus is not None and job.gpus_exact
    gpu = _share(busy_gpu_s, (job.gpus or 0) * length) if exact else None
    return Shares(
        _share(use.cpu_s if use else None, job.cpus * length),
        _share(use.memory if use else None, float(job.memory)),
        None if gpu is None else min(1.0, gpu),  # the last sample may reach past the end
    )


def _share(used: float | None, asked: float) -> float | None:
    return None if used is None or not asked else used / asked


def show_use(job: int | str) -> tuple[str, ...]:
    """The command whose answer ``parse_use`` reads; ``12_3`` is a part of an array."""
    return (*_SHOW, f"--jobs={job}")


def show_uses(start: str, user: str, states: Iterable[str]) -> tuple[str, ...]:
    """The command whose answer ``parse_uses`` reads, for jobs of a user.

    Args:
        start: when they ended at the earliest, as sacct(1) reads it: ``now-3600seconds``.
        user: whose.
        states: in which they ended.
    """
    period = (f"--starttime={start}", "--endtime=now", f"--state={','.join(states)}")
    return (*_SHOW, *period, f"--user={user}")


def parse_use(answer: str, job_id: int) -> JobUse:
    """Read sacct's lines of a job and its steps; what is not such a line is left out."""
    return parse_uses(answer).get(job_id, JobUse())


def parse_uses(answer: str) -> dict[int, JobUse]:
    """Read sacct's lines of several jobs, by the job's number."""
    every, steps = dict[int, float](), dict[int, list[tuple[float, float]]]()
    for line in answer.splitlines():
        fields = line.split("|")
        number, _, step = fields[0].partition(".")
        if len(fields) != len(_COLUMNS) or not (number.isascii() and number.isdigit()):
            continue
        time, memory = exact_seconds(fields[1]), _memory(fields[2])
        if step:
            steps.setdefault(int(number), []).append((time, memory))
        else:
            every[int(number)] = time
    return {job: _use(every.get(job, 0.0), steps.get(job, [])) for job in {**every, **steps}}


def use_of(raw: Record) -> JobUse:
    """Read a job of slurmdbd's as slurmrestd reports it (v0.0.40 on).

    The steps' ``requested`` resources are what they used: the data parser's name for
    TRESUsageIn (24.11, src/plugins/data_parser, STEP_TRES_REQ_TOT).
    """
    steps = [
        (_spent(step), _counted(records(_total(step).get("total"))) / _MIB)
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
    memory = max((memory for _, memory in steps), default=0.0)
    return JobUse(cpu or None, memory or None)


def _memory(tres: str) -> float:
    return _mib(entries(tres).get("mem", ""))


def _mib(used: str) -> float:
    return mib(used, bare="") or 0.0


_STEP_COLUMNS: Final = ("JobID", "NTasks", "AveCPU", "MaxRSS", "TRESUsageInTot")


@dataclass(frozen=True, slots=True)
class StepUse:
    """What a step uses.

    Attributes:
        tasks: how many it has, 0 where that is unknown.
        cpu_s: seconds of processors of a task, on average; None where there are none.
        largest: MiB of its largest task.
        memory: MiB of all of them.
        gpus_busy: per cent; "" where Slurm does not see GPUs.
        gpu_memory: MiB on GPUs.
    """

    tasks: int
    cpu_s: int | None
    largest: float
    memory: float
    gpus_busy: str
    gpu_memory: float


def show_step_use(job: str) -> tuple[str, ...]:
    """The command whose lines ``readable_step_use`` reads; it asks slurmd and not slurmctld."""
    form = f"--format={','.join(_STEP_COLUMNS)}"
    return ("sstat", "--noheader", "--parsable2", "--allsteps", form, f"--jobs={job}")


def readable_step_use(line: str) -> StepUse | None:
    """A step of ranks; None for any other line.

    The batch step and the external step (``12.batch``, ``12.extern``) run no ranks.
    """
    fields = line.split("|")
    if len(fields) != len(_STEP_COLUMNS) or not fields[0].rpartition(".")[2].isdecimal():
        return None
    tasks, cpu, largest, tres = fields[1:]
    used = entries(tres)
    return StepUse(
        int(tasks) if tasks.isdecimal() else 0,
        seconds(cpu.partition(".")[0]) if cpu else None,
        _mib(largest),
        _mib(used.get("mem", "")),
        used.get("gres/gpuutil", ""),
        _mib(used.get("gres/gpumem", "")),
    )
