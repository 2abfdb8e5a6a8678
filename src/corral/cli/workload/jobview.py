"""How jobs look: their end, their parts, their list."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from rich.console import RenderableType
from rich.text import Text

from corral.api import Part
from corral.api.workload.queue import ArrayOutcome, JobInfo, JobOutcome
from corral.cli.terminal.text import clean, duration, elapsed, one_line, right, table

if TYPE_CHECKING:
    from corral.api.workload.batch import Setting

TAIL: Final = 12
CR: Final = "\r"
HEAD: Final = (
    *("job", "name", "user", "state"),
    *right("nodes", "GPUs", "time", "limit"),
    "where or why",
)


def end_line(outcome: JobOutcome, *, tail: bool = False) -> list[Text]:
    """How a job stands, in one line; the rank that failed first below it.

    Args:
        outcome: the job.
        tail: show the last lines of that rank too.
    """
    words = outcome.state.value.lower().replace("_", " ")
    style = "green" if outcome.good else "bold red" if outcome.state.ended else "yellow"
    head = Text.assemble((f"job {outcome.ref}: ", "bold"), (words, style))
    if outcome.state.ended and outcome.exit_code is not None and not outcome.good:
        head.append(f", {outcome.exit_code.words}")
    if outcome.nodes:
        head.append(f", on {outcome.nodes}")
    if outcome.nodes and outcome.seconds is not None:
        head.append(f", {elapsed(outcome.seconds)}")
    if outcome.reason and not outcome.good:
        head.append(f" ({one_line(outcome.reason)})")
    shown = [head]
    if outcome.use is not None:
        shown.append(Text(f"  used {outcome.use.words}"))
    if outcome.failed is not None:
        failed = outcome.failed
        sentence = f"rank {failed.rank} on {failed.node} failed first: {failed.how}"
        shown.append(Text(f"  {one_line(sentence)}", "red"))
        if tail:
            last = failed.tail.splitlines()[-TAIL:]
            shown += [Text(f"  | {clean(line.rpartition(CR)[2])}") for line in last]
    return shown


def parts_view(outcome: ArrayOutcome) -> RenderableType:
    """The parts of an array, with their points and last lines."""
    names = list(dict.fromkeys(name for part in outcome.parts for name in part.point or ()))
    if not names and any(part.point is None for part in outcome.parts):
        names = ["point"]
    rows = [
        (
            str(part.number),
            *(part.point.get(name, "") if part.point is not None else "unknown" for name in names),
            _part_state(part),
            _ran(part),
            part.nodes or "-",
            part.last.rpartition(CR)[2],
        )
        for part in outcome.parts
    ]
    head = (*right("part"), *names, "state", *right("time"), "where", "last line")
    return table(head, rows)


def _ran(outcome: JobOutcome | Part) -> str:
    known = outcome.nodes and outcome.seconds is not None
    return elapsed(outcome.seconds or 0) if known else "-"


def _part_state(part: Part) -> Text:
    if part.state is None:
        return Text("unknown", "dim")
    words = part.state.value.lower().replace("_", " ")
    if part.state.ended and not part.good and part.exit_code is not None:
        words = f"{words}, {part.exit_code.words}"
    style = "green" if part.good else "red" if part.state.ended else "yellow"
    return Text(words, style)


def settings_view(settings: Sequence[Setting]) -> RenderableType:
    """The environment of ranks, and where it is from."""
    rows = [(s.name, s.value, s.nodes, s.reason) for s in settings]
    return table(("variable", "value", "on", "from"), rows)


def jobs_view(jobs: tuple[JobInfo, ...]) -> RenderableType:
    """The list of jobs."""
    rows = [
        (
            job.label,
            job.name,
            job.user,
            job.state.lower().replace("_", " "),
            str(job.node_count),
            "-" if job.gpu_count is None else str(job.gpu_count),
            "-" if job.waiting or job.elapsed is None else elapsed(job.elapsed),
            duration(job.limit) if job.limit else "-",
            _waits(job) if job.waiting else job.nodes,
        )
        for job in jobs
    ]
    return table(HEAD, rows)


def job_dict(job: JobInfo) -> dict[str, Any]:
    """A listed job as JSON-ready fields, of the names that they have had from the first release."""
    return {
        "id": job.label,
        "raw_id": job.id,
        "state": job.state,
        "name": job.name,
        "partition": job.partition,
        "user": job.user,
        "account": job.account,
        "nodes": job.node_count,
        "cpus": job.cpus,
        "node_list": job.nodes,
        "tres": job.tres or job.gres,
        "elapsed": job.elapsed,
        "submitted": job.submit_at,
        "started": job.start_at,
        "ended": job.end_at,
        "limit": job.limit,
        "reason": job.reason,
        "exit_code": None if job.exit_code is None else str(job.exit_code),
        "gpus": job.gpus,
        "gpus_exact": job.gpus is not None and job.gpus_exact,
    }


def _waits(job: JobInfo) -> str:
    """Slurm's word for it, and when the job should start where Slurm knows that."""
    if job.start_at is None:
        return job.reason
    return f"{job.reason}; expected {datetime.fromtimestamp(job.start_at).astimezone():%a %H:%M}"
