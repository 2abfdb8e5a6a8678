"""How jobs look: their lines, their end, their list."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from corral.api.batch import JobInfo, JobOutcome, RankLine
from corral.cli.text import clean, duration, one_line, table
from corral.cli.ui import Ui

HEAD = ("job", "name", "user", "state", "nodes", "time", "limit", "where or why")


class Lines:
    """Prints what ranks say, as it comes.

    Args:
        ui: where to.
        several: name the rank before each line.
    """

    def __init__(self, ui: Ui, *, several: bool) -> None:
        self._ui = ui
        self._several = several

    def __call__(self, line: RankLine) -> None:
        """Print one line: a pipe gets it as it is, a terminal cleaned."""
        if self._ui.as_json:
            self._ui.json(
                {"event": "line", "rank": line.rank, "text": line.text, "echo": line.echo}
            )
            return
        console = self._ui.out
        text = Text()
        if self._several or line.rank is None:
            text.append(f"{'batch' if line.rank is None else line.rank}: ", "cyan")
        style = "dim" if line.echo else ""
        text.append(clean(line.text) if console.is_terminal else line.text, style)
        console.print(text, soft_wrap=True)


def end_line(outcome: JobOutcome) -> list[Text]:
    """How a job stands, in one line; the rank that failed first below it."""
    words = outcome.state.value.lower().replace("_", " ")
    style = "green" if outcome.good else "bold red" if outcome.state.ended else "yellow"
    head = Text.assemble((f"job {outcome.id}: ", "bold"), (words, style))
    if outcome.state.ended and outcome.exit_code is not None and not outcome.good:
        head.append(f", {outcome.exit_code.words}")
    if outcome.nodes:
        head.append(f", on {outcome.nodes}")
    if outcome.seconds:
        head.append(f", {duration(outcome.seconds)}")
    if outcome.reason and not outcome.good:
        head.append(f" ({one_line(outcome.reason)})")
    shown = [head]
    if outcome.failed is not None:
        failed = outcome.failed
        said = f"rank {failed.rank} on {failed.node} failed first: {failed.how}"
        shown.append(Text(f"  {one_line(said)}", "red"))
    return shown


def jobs_view(jobs: tuple[JobInfo, ...]) -> RenderableType:
    """The list of jobs."""
    rows = [
        (
            job.id,
            job.name,
            job.user,
            job.state.value.lower().replace("_", " "),
            str(job.nodes),
            duration(job.elapsed) if job.elapsed else "-",
            duration(job.limit) if job.limit else "-",
            job.reason if job.state.waiting else job.node_list,
        )
        for job in jobs
    ]
    return table(HEAD, rows, right="nodes time limit")


def job_dict(job: JobInfo) -> dict[str, Any]:
    """A listed job as JSON-ready fields."""
    return {
        **asdict(job),
        "state": job.state.value,
        "exit_code": None if job.exit_code is None else str(job.exit_code),
    }
