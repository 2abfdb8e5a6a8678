"""What a job printed last, as one text, out of the lines of ``api.job_log``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from corral import api
from corral.errors import Code, CorralError
from corral.slurm.records import Job

LAST = api.LogQuestion(do="last")


def printed(record: Job) -> Job:
    """The job, where it has a file.

    Raises:
        CorralError: NOT_FOUND, it has none, or is an array.
    """
    if not record.stdout:
        raise CorralError(
            Code.NOT_FOUND,
            f"job {record.id} writes no file",
            hint="a job of srun prints to its terminal",
        )
    if "%a" in record.stdout:
        raise CorralError(
            Code.NOT_FOUND,
            "each task of an array has its own output",
            hint=f"none of {record.label} has started; a task that has is in the list of jobs",
        )
    return record


def text_of(lines: Iterable[str]) -> tuple[str, str]:
    """The end of each file, one after the other; why there is none, "" where there is."""
    data, trouble = dict[str, bytes](), ""
    for line in lines:
        event = api.log_event(line)
        if event and event.piece:
            data[event.name] = data.get(event.name, b"") + event.piece.data
        elif event and event.kind == "X":
            trouble = trouble or event.why
    return "\n".join(part.decode("utf-8", "replace") for part in data.values()), trouble


def explained(record: Job, report: dict[str, Any], no_output: str) -> dict[str, Any]:
    """Why a job ended so, as the page and messages about jobs have it.

    Args:
        record: the job.
        report: what the doctor reports of its end (``WorkerProcesses.end``).
        no_output: why its output could not be read.
    """
    return {
        "findings": report["findings"],
        "lines": report["unknown"] or report["notable"],
        "no_output": no_output,
        "about": record.ended_about,
    }
