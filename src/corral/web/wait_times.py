"""How long jobs waited until they started, as a histogram of Prometheus. Pure but for its memory.

Slurm counts no waiting times: each job is noted once, at the first poll that finds it running or
ended. slurmctld keeps an ended job for MinJobAge (300 s), which is longer than the exporter pauses,
so short jobs are counted too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from corral.slurm.records import Job
from corral.web.exposition import Histogram, Labels, partition_label

BOUNDS: Final = (10, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 86400, 3 * 86400, 7 * 86400)
"""Upper bounds of the buckets in seconds."""


class Waits:
    """Waiting times of all jobs that started since this exporter did.

    Jobs that ran before its first poll are not counted: the counters would jump at each restart.
    """

    def __init__(self) -> None:
        self._known: frozenset[tuple[int, int]] | None = None
        self._buckets: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def note(self, jobs: Iterable[Job], partitions: Iterable[str] = ()) -> None:
        """Count what started since the last call.

        Args:
            jobs: all that slurmctld knows now.
            partitions: all that there are: Prometheus takes no rate of a counter that begins at 1.
        """
        for name in partitions:
            self._row((("partition", name),))
        started = {
            (job.id, job.start_at): job
            for job in jobs
            if job.id and job.start_at and job.eligible_at and job.began
        }
        before = self._known
        self._known = frozenset(started)
        if before is None:
            return
        for key in started.keys() - before:
            self._count(started[key])

    def _count(self, job: Job) -> None:
        waited = max(0, (job.start_at or 0) - (job.eligible_at or 0))
        labels = (("partition", partition_label(job.partition)),)
        self._row(labels)[bisect_left(BOUNDS, waited)] += 1
        self._sums[labels] += waited

    def _row(self, labels: Labels) -> list[int]:
        self._sums.setdefault(labels, 0.0)
        return self._buckets.setdefault(labels, [0] * (len(BOUNDS) + 1))

    def family(self) -> Histogram:
        """The counters."""
        return Histogram(
            "corral_job_wait_seconds",
            "Time from eligible to start of jobs that started since this exporter did.",
            BOUNDS,
            self._buckets,
            self._sums,
        )
