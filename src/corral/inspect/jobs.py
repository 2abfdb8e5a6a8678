"""Questions about jobs: the queue, accounting, steps on nodes, arrays, scripts, what they use."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from corral.agents import program
from corral.errors import BAD_JSON, Code, CorralError
from corral.hosts.quote import call, defined, join, sh
from corral.inspect.question import Question, T, text
from corral.slurm import command
from corral.slurm.job_use import (
    JobUse,
    StepUse,
    parse_uses,
    readable_step_use,
    show_step_use,
    show_use,
)
from corral.slurm.records import Job, JobRun
from corral.slurm.states.jobs import going_on_states, holding_states
from corral.slurm.steps import QUEUE_BATCH, Step, readable_batch, readable_steps
from corral.slurm.text import (
    FREE_TEXT,
    PLAIN,
    SHOW_JOB,
    TIME_FORMAT,
    parse_history,
    parse_job,
    parse_queue,
    queue_format,
    readable_history,
    readable_queue,
    readable_runs,
    show_history,
    show_queue,
    show_runs,
)
from corral.slurm.text import (
    QUEUE as ALL_COLUMNS,
)
from corral.slurm.tres import Gpus
from corral.spec.slurm.hostlist import expand

_USER_PROGRAM: Final = "jobs/user.sh"
LAST: Final = "@last"
"""The last line of an answer that is complete; without it the answer is unknown, not empty."""


def _require_mark(columns: Sequence[str], mark: str) -> None:
    """Fail where a user's text could be taken for the line of another job.

    Raises:
        CorralError: USAGE.
    """
    free = FREE_TEXT.intersection(columns if mark == PLAIN else columns[:-1])
    if free:
        raise CorralError(
            Code.USAGE,
            f"a user writes {', '.join(sorted(free))}, with line ends",
            hint="ask for it last, with a mark of token_hex(), or leave it out",
        )


@dataclass(frozen=True, slots=True)
class QueueColumns:
    """Columns of squeue.

    Attributes:
        names: as ``--format`` has them: ``%i``, ``%T``. One of ``FREE_TEXT`` only as the last.
        mark: separates fields; for ``FREE_TEXT`` letters and digits nobody can know beforehand.
    """

    names: tuple[str, ...]
    mark: str = PLAIN

    def __post_init__(self) -> None:
        _require_mark(self.names, self.mark)

    @property
    def format(self) -> str:
        """The value of ``--format``."""
        return queue_format(self.names, self.mark)

    def read(self, answer: str) -> tuple[Job, ...]:
        """The jobs of squeue's answer; what is not a complete line is left out."""
        return tuple(readable_queue(answer, self.names, self.mark))


@dataclass(frozen=True, slots=True)
class HistoryColumns:
    """Columns of sacct.

    Attributes:
        names: as ``--format`` has them: ``JobIDRaw``, ``State``.
    """

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        _require_mark(self.names, PLAIN)

    @property
    def format(self) -> str:
        """The value of ``--format``."""
        return ",".join(self.names)

    def read(self, answer: str) -> tuple[Job, ...]:
        """The jobs of sacct's answer with ``--parsable2``; what cannot be read is left out."""
        return tuple(readable_history(answer, columns=self.names)[0])


def _complete(answer: str) -> str | None:
    """An answer without its last line; None where that is not ``LAST``."""
    lines = [line for line in answer.split("\n") if line.strip()]
    return "\n".join(lines[:-1]) if lines[-1:] == [LAST] else None


@dataclass(frozen=True, slots=True)
class NodeSteps:
    """Steps on a node.

    Attributes:
        steps: those that were listed.
        complete: there are no others.
    """

    steps: tuple[Step, ...]
    complete: bool


def steps_on_node(answer: str) -> NodeSteps:
    """Read the answer to ``STEPS``."""
    return NodeSteps(readable_steps(answer), _complete(answer) is not None)


STEPS: Final = Question(
    "steps",
    sh(
        "{functions}\nroot_steps etimes=,args= && echo {last}",
        functions=defined("slurm-steps.sh", "root_steps"),
        last=LAST,
    ),
    steps_on_node,
)
_HELD: Final = QueueColumns(("%A", "%T", "%M", "%N"))


def complete_jobs(answer: str) -> tuple[Job, ...] | None:
    """Jobs that hold nodes; None where the answer is incomplete or a line cannot be read."""
    complete = _complete(answer)
    try:
        return None if complete is None else parse_queue(complete, columns=_HELD.names)
    except CorralError:
        return None


JOBS: Final = Question(
    "jobs",
    sh(
        "timeout 15 squeue -h -t {states} -o {format} 2>/dev/null && echo {last}",
        states=holding_states(),
        format=_HELD.format,
        last=LAST,
    ),
    complete_jobs,
)
"""Jobs that hold nodes, for who compares them with what runs there."""
_HOLDERS: Final = QueueColumns(("%i", "%u", "%N"))
HOLDERS: Final = Question(
    "holders",
    sh(
        "timeout 10 squeue -h -t {states} -o {format}",
        states=holding_states(),
        format=_HOLDERS.format,
    ),
    _HOLDERS.read,
)
"""Jobs that hold nodes, and whose they are."""
_PLACED: Final = QueueColumns(("%A", "%N"))
PLACED: Final = Question(
    "placed",
    sh("timeout 20 squeue -h -t CF,R -o {format}", format=_PLACED.format),
    _PLACED.read,
)
"""The nodes of jobs that run, or for which nodes are powered up."""


def blocking_jobs(node: str, patience: int) -> Question[list[str]]:
    """Waits until no job is on a node, and succeeds; else fails with those that are, in words.

    Args:
        node: its name.
        patience: seconds to wait.
    """
    shell = call("gates/slurm.sh", "node_free", node, patience, holding_states())
    return Question("blocking-jobs", shell, str.splitlines)


def batch_hosts(answer: str) -> tuple[tuple[Job, str], ...]:
    """Jobs with a batch script, each with the node where that runs."""
    return tuple(readable_batch(answer))


BATCH: Final = Question(
    "batch",
    sh("timeout 15 {command} 2>/dev/null", command=[*QUEUE_BATCH]),
    batch_hosts,
)
QUEUE: Final = Question(
    "queue", sh("timeout 15 squeue --noheader --format=%T 2>/dev/null"), str.split
)
OWN_QUEUE: Final = Question(
    "own-queue",
    sh('timeout 15 squeue --noheader --user="$(id -un)" --format=%T 2>/dev/null'),
    str.split,
)


TIME_SETTING: Final = "=".join(TIME_FORMAT)
"""Environment in which Slurm's commands print unix seconds."""
UNIX_TIMES: Final = sh("export {time}", time=TIME_SETTING)
"""Runs before ``job_queue`` and ``job_history``: Slurm's commands then print unix seconds."""


def in_unix_times(question: Question[T]) -> Question[T]:
    """The question after ``UNIX_TIMES``."""
    return question.run_by(lambda shell: join([UNIX_TIMES, shell]))


def job_queue(mark: str, *options: str) -> Question[tuple[Job, ...]]:
    """Jobs that slurmctld knows; reading them raises CorralError for a line of another kind.

    Args:
        mark: separates fields; letters and digits nobody can know beforehand. For one job, whose
            first line is its own, ``PLAIN`` will do.
        options: of squeue.
    """
    shell = sh("{words}", words=[*show_queue(mark), *options])
    return Question("job-queue", shell, lambda answer: parse_queue(answer, mark))


def job_history(mark: str, *options: str) -> Question[tuple[Job, ...]]:
    """Jobs that accounting knows, as ``job_queue``; none where it does not answer.

    Args:
        mark: as of ``job_queue``.
        options: of sacct.
    """
    shell = sh("{words} 2>/dev/null", words=[*show_history(mark), *options])
    return Question("job-history", shell, lambda answer: parse_history(answer, mark))


def job_request(job: int | str) -> Question[Job | None]:
    """One job as slurmctld has it."""
    return Question("asked", sh("{show} {job} | head -n 1", show=[*SHOW_JOB], job=job), parse_job)


@dataclass(frozen=True, slots=True)
class AboutJob:
    """The questions about one job for who follows it.

    Attributes:
        queue: its line in the queue.
        request: slurmctld's record.
        history: accounting's.
        use: what each of its steps uses, to be read line by line.
    """

    queue: Question[tuple[Job, ...]]
    request: Question[Job | None]
    history: Question[tuple[Job, ...]]
    use: Question[StepUse | None]


def about_job(job: str, mark: str) -> AboutJob:
    """All that Slurm reports of a job.

    Args:
        job: 12, or 12_3 for a part of an array.
        mark: as of ``job_queue``.
    """
    option = f"--jobs={job}"
    use = sh("{words} 2>/dev/null", words=[*show_step_use(job)])
    return AboutJob(
        job_queue(mark, "--states=all", option),
        job_request(job),
        job_history(mark, option),
        Question("use", use, readable_step_use),
    )


def queued_job(job: int | str) -> Question[tuple[Job, ...]]:
    """One job of the queue; its first line is its own. Fails where slurmctld has none."""
    return in_unix_times(replace(job_queue(PLAIN, f"--jobs={job}"), name="queued-job"))


def queue_places(*columns: str) -> tuple[int, ...]:
    """At which fields of ``job_queue``'s lines columns are, from 1; and how many there are."""
    return (*(ALL_COLUMNS.index(column) + 1 for column in columns), len(ALL_COLUMNS))


def gpus_of_jobs(*, tracked: bool) -> Question[dict[int, Gpus]]:
    """GPUs of the jobs that slurmctld knows, by Slurm's number.

    Args:
        tracked: Slurm counts GPUs among the resources of jobs, as it does with accounting.
    """
    asked = command.GPUS_OF_JOBS[tracked]
    return Question("jobs-gpus", sh("{words}", words=[*asked.words]), asked.parse)


_TASKS: Final = QueueColumns(("%i", "%T", "%r", "%S"))


def _tasks(answer: str) -> tuple[Job, ...]:
    rows = (line.removeprefix("q ") for line in answer.split("\n") if line.startswith("q "))
    return _TASKS.read("\n".join(rows))


def array_tasks(job: int) -> Question[tuple[Job, ...]]:
    """The tasks of an array; those that have not begun share one record."""
    return Question("tasks", call(_USER_PROGRAM, "array_queue", job, _TASKS.format), _tasks)


def array_changes(job: int, pause: int) -> Question[tuple[Job, ...]]:
    """The same at each change until all have ended, in lines to be read one by one.

    A line ``.`` ends the tasks of one moment.

    Args:
        job: the array.
        pause: seconds between two polls.
    """
    going = f"[|]({'|'.join(going_on_states())})[|]|error"
    shell = call(_USER_PROGRAM, "array_watch", job, _TASKS.format, going, pause)
    return Question("task-changes", shell, _tasks)


def pending_in(partition: str, columns: Sequence[str]) -> Question[tuple[Job, ...]]:
    """Pending jobs of a partition, each task of an array for itself."""
    shown = QueueColumns(tuple(columns))
    shell = sh(
        "squeue -h --array --all --states=PENDING --partition={partition} -o {format}",
        partition=partition,
        format=shown.format,
    )
    return Question("queue-ahead", shell, shown.read)


def running_on(nodes: str, columns: Sequence[str], mark: str) -> Question[tuple[Job, ...]]:
    """Jobs that run on nodes, a hostlist; the mark as of ``job_queue``."""
    shown = QueueColumns(tuple(columns), mark)
    shell = sh("squeue -h -t R -w {nodes} -o {format}", nodes=nodes, format=shown.format)
    return Question("others", shell, shown.read)


def held_by(node: str) -> Question[tuple[Job, ...]]:
    """Jobs that hold a node: their number, user and state."""
    shown = QueueColumns(("%A", "%i", "%u", "%T"))
    shell = sh(
        "squeue -h -t {states} -w {node} -o {format}",
        states=holding_states(),
        node=node,
        format=shown.format,
    )
    return Question("held-by", shell, shown.read)


def running_jobs(user: str) -> Question[tuple[Job, ...]]:
    """The nodes on which jobs of a user run."""
    shown = QueueColumns(("%N",))
    shell = sh("timeout 20 squeue -h -t R -u {user} -o {format}", user=user, format=shown.format)
    return Question("running-jobs", shell, shown.read)


def past_jobs(mark: str, days: int) -> Question[tuple[list[Job], int]]:
    """All jobs of accounting since so many days, and how many records cannot be read.

    Args:
        mark: as of ``job_queue``.
        days: how far back.
    """
    shell = sh(
        "timeout 40 {sacct} --allusers --starttime=now-{days}days --endtime=now",
        sacct=[*show_history(mark, duplicates=False)],
        days=days,
    )
    return Question("past-jobs", shell, lambda answer: readable_history(answer, mark))


LONGEST_SCRIPT: Final = 1 << 20
"""Bytes of a batch script that are read: as much as the page submits."""


def job_script(job: int, longest: int) -> Question[str]:
    """A job's batch script, from slurmctld, else from accounting; "" where neither has it.

    Its command fails where one of them that may have it does not answer.
    """
    return Question("script", call(_USER_PROGRAM, "job_script", job, longest), text)


def submit_line(job: int) -> Question[str]:
    """The command that submitted a job, as accounting keeps it."""
    shell = sh(
        "timeout 20 sacct --noheader --parsable2 --allocations --jobs={job} --format=SubmitLine"
        " 2>/dev/null | head -n 1 | head -c 65536",
        job=job,
    )
    return Question("line", shell, text)


_FIGURE: Final = re.compile(r"([a-z_]+)\{([^}]*)\} ([0-9.eE+-]+)")
_LABEL: Final = re.compile(r'([a-z_]+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Reading:
    """One value, as Prometheus' text has it: bytes, seconds, ratio, degrees, watts."""

    name: str
    labels: Mapping[str, str]
    value: float


def readings(answer: str) -> tuple[Reading, ...]:
    """The values in a text; comments and what is not a value are left out."""
    values: list[Reading] = []
    for line in answer.splitlines():
        match = _FIGURE.fullmatch(line)
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        values.append(Reading(match[1], dict(_LABEL.findall(match[2])), value))
    return tuple(values)


BUSY_STEP_S: Final = 60
LEAST_STEPS: Final = 5
"""A job that ran for fewer steps has no figure: one sample stands for a step, and a job of 15 s on
an H200 was shown with 376 % of its GPU."""
MEASURED_SHARE: Final = 0.9
"""A job with samples of less of its time has no figure: a gap in them is not idleness. Prometheus
was down, is younger than the job or has dropped its samples."""
_OF_GPUS: Final = (
    'sum_over_time((clamp_max(corral_gpu_utilization_ratio{{cluster="{cluster}",node=~"{nodes}"}}, '
    '1) * on (node, gpu) group_right () corral_gpu_job{{cluster="{cluster}",jobid=~"{jobs}"}})'
    "[{span}s:{step}s])"
)
# A GPU without a process has no corral_gpu_job; each node of a job always has its memory.
_OF_NODES: Final = (
    'count_over_time(corral_job_memory_bytes{{cluster="{cluster}",node=~"{nodes}",'
    'jobid=~"{jobs}"}}[{span}s:{step}s])'
)
BUSY: Final = " or ".join(
    f'label_replace(sum by (jobid) ({samples}) * {{step}}, "of", "{of}", "", "")'
    for of, samples in (("busy", _OF_GPUS), ("measured", _OF_NODES))
)
"""PromQL for ``busy_query``, with places for what it is asked about."""
BUSY_OF_EACH: Final = f"sum by (node, gpu) ({_OF_GPUS}) * {{step}}"
"""PromQL for the seconds that each GPU with a process of a job was busy, with the same places."""


def either(names: Iterable[str]) -> str:
    """A regular expression of Prometheus for any of these names, within a text of PromQL."""
    return "|".join(re.escape(name).replace("\\", "\\\\") for name in names)


def busy_query(jobs: Sequence[Job], cluster: str, *, span_s: int, step: int) -> str:
    """PromQL for the seconds that GPUs of jobs were busy and nodes measured, for ``busy_seconds``.

    The nodes and jobs are named, so that Prometheus reads their series alone.

    Args:
        jobs: which ones; each has nodes.
        cluster: its name, as the label ``cluster`` has it.
        span_s: seconds before the evaluation in which all of them ran.
        step: seconds for which a sample stands.
    """
    return BUSY.format(
        nodes=either(dict.fromkeys(node for job in jobs for node in expand(job.nodes))),
        jobs=either(str(job.id) for job in jobs),
        cluster=cluster,
        span=span_s,
        step=step,
    )


def busy_seconds(
    samples: Iterable[Any], jobs: Iterable[tuple[Job, float]], *, step: int
) -> dict[int, float]:
    """Seconds that GPUs of jobs were busy, by job; without those that were measured too little.

    Args:
        samples: Prometheus' answer to ``busy_query``; what is not a sample is left out.
        jobs: each with the seconds that it ran.
        step: of the query.
    """
    figures = {"busy": dict[int, float](), "measured": dict[int, float]()}
    for sample in samples:
        try:
            labels, value = sample["metric"], float(sample["value"][1])
            if math.isfinite(value):
                figures[labels["of"]][int(labels["jobid"])] = value
        except (LookupError, TypeError, ValueError):
            continue
    # A job begins and ends between two steps.
    least = {
        job.id: MEASURED_SHARE * len(expand(job.nodes)) * (length - step) for job, length in jobs
    }
    return {
        job: busy
        for job, busy in figures["busy"].items()
        if job in least and figures["measured"].get(job, 0.0) >= least[job]
    }


def gpu_seconds(job: Job, cluster: str, port: int) -> Question[float | None]:
    """Seconds that the GPUs of an ended job were busy, of all together; None: unknown.

    Asked on the controller, where Prometheus is and promtool comes with it.

    Args:
        job: as accounting has it.
        cluster: its name.
        port: of Prometheus on loopback.
    """
    length = job.elapsed or 0
    measured = bool(job.gpus and job.nodes and job.end_at) and length >= LEAST_STEPS * BUSY_STEP_S
    query = busy_query([job], cluster, span_s=length + BUSY_STEP_S, step=BUSY_STEP_S)
    shell = sh(
        "timeout 20 promtool query instant -o json --time={end} {at} {query} 2>/dev/null || :",
        end=job.end_at or 0,
        at=f"http://127.0.0.1:{port}",
        query=query,
    )

    def read(answer: str) -> float | None:
        try:
            samples = list[Any](json.loads(answer))
        except (*BAD_JSON, TypeError):
            return None
        return busy_seconds(samples, [(job, float(length))], step=BUSY_STEP_S).get(job.id)

    return Question("gpu-seconds", shell, read).only(when=measured)


def jobs_use(job: str) -> Question[dict[int, JobUse]]:
    """What an ended job used, by Slurm's number; none where accounting does not answer.

    Args:
        job: 12, or 12_3 for a part of an array.
    """
    return Question("jobs-use", sh("{words} 2>/dev/null", words=[*show_use(job)]), parse_uses)


FIGURES: Final = Question("figures", sh("sh -c {program}", program=program("figures.sh")), readings)


def runs(mark: str, start: str, end: str) -> Question[tuple[JobRun, ...]]:
    """All runs of jobs in a time, and those that were pending; any part of its lines can be read.

    Args:
        mark: as of ``job_queue``.
        start: when the time begins, as sacct(1) reads it.
        end: when it ends.
    """
    shell = sh("SLURM_TIME_FORMAT=%s {show}", show=[*show_runs(mark, start, end)])
    return Question("runs", shell, lambda answer: readable_runs(answer, mark))
