"""Why a job failed: by what it printed last, and by how Slurm reports its end. Pure."""

from __future__ import annotations

from dataclasses import replace

from corral.doctor.logs.diagnosis import explain
from corral.doctor.model import FatalLine, Report
from corral.escapes import without_controls
from corral.slurm.states.jobs import ExitCode


def end_line(state: str, reason: str, code: ExitCode | None) -> str:
    """A job's end as ``scontrol show job`` prints it: the catalogue knows these words.

    Args:
        state: Slurm's word.
        reason: Slurm's word or message, "" for none.
        code: how it ended; None where that is unknown.
    """
    ended = f" ExitCode={code}" if code else ""
    return f"JobState={state} Reason={' '.join(reason.split()) or 'None'}{ended}"


def explain_end(state: str, reason: str, code: ExitCode | None, text: str) -> Report:
    """Which failures a job's end shows, causes first; no control character is in it.

    Args:
        state: Slurm's word.
        reason: Slurm's word or message, "" for none.
        code: how it ended; None where that is unknown.
        text: what it printed last, "" where it printed nothing or cannot be read.
    """
    end = end_line(state, reason, code)
    report = explain(without_controls(f"{text.rstrip()}\n{end}"))

    def printed(lines: tuple[FatalLine, ...]) -> tuple[FatalLine, ...]:
        return tuple(line for line in lines if line.text != end)

    return replace(report, unknown=printed(report.unknown), notable=printed(report.notable))
