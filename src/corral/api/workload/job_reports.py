"""What Corral's own programs report in the log of a job, and nothing else that is printed there."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from corral.hosts.framing import Reports
from corral.jobs.follow import RankLine
from corral.jobs.model import JobSpec
from corral.prove.measure.measurement import MARK

VARIABLE: Final = "CORRAL_REPORT"
"""What a program of ``agents/benchmarks`` begins its reports with; without it, ``MARK``."""


class JobReports:
    """Gives a job a random word to begin its reports with, and reads them by it."""

    def __init__(self) -> None:
        self._word: Final = f"{Reports().word} "

    def job(self, job: JobSpec) -> JobSpec:
        """The job, with the word in its environment."""
        return job.model_copy(update={"env": {**job.env, VARIABLE: self._word}})

    def line(self, line: RankLine) -> RankLine:
        """A line of its log as readers expect it: a report begins with ``MARK``, nothing else."""
        before, reported, report = line.text.partition(self._word)
        before = before.replace(MARK, "corral-")
        return replace(line, text=f"{before}{MARK}{report}" if reported else before)
