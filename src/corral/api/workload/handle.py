"""A submitted job in Python: wait for it, read it, end it."""

from __future__ import annotations

import asyncio

from corral.api.sync import sync
from corral.api.workload import batch, queue
from corral.errors import Code, CorralError
from corral.events import Emit, ignore
from corral.slurm.states.jobs import JobState
from corral.spec.models import ClusterSpec


class Job:
    """A submitted job; it keeps running whether or not anybody waits.

    Args:
        spec: the cluster.
        handle: the job.
        emit: receives the events while a method runs.
    """

    def __init__(self, spec: ClusterSpec, handle: batch.JobHandle, emit: Emit = ignore) -> None:
        self.spec = spec
        self.handle = handle
        self._emit = emit

    def __repr__(self) -> str:
        return f"<corral.Job {self.handle.ref} {self.handle.name}>"

    @property
    def id(self) -> int:
        """Slurm's number for it."""
        return self.handle.id

    @property
    def folder(self) -> str:
        """Its folder on the cluster's shared storage."""
        return self.handle.folder

    @property
    def state(self) -> str:
        """Slurm's word for its state, queried now: PENDING, RUNNING, COMPLETED, ...

        An array is PENDING until a part runs, RUNNING until all have ended, then COMPLETED, or
        FAILED when a part did not succeed.
        """
        outcome = sync(queue.job_state(self.spec, self.handle.ref))
        if isinstance(outcome, queue.JobOutcome):
            return outcome.state.value
        states = {part.state for part in outcome.parts if part.state is not None}
        if outcome.ended:
            return (JobState.COMPLETED if outcome.good else JobState.FAILED).value
        waiting = all(state.waiting for state in states)
        return (JobState.PENDING if waiting else JobState.RUNNING).value

    def wait(
        self, timeout: float | None = None, *, on_line: queue.OnLine = lambda _: None
    ) -> queue.JobOutcome | queue.ArrayOutcome:
        """Wait for its end, however it ends.

        Args:
            timeout: seconds; None for as long as it takes.
            on_line: called with each line that a rank prints.

        Raises:
            CorralError: TIMED_OUT, it has not ended in time, and keeps running.
        """
        return sync(self._wait(timeout, on_line))

    def result(
        self, timeout: float | None = None, *, on_line: queue.OnLine = lambda _: None
    ) -> queue.JobOutcome | queue.ArrayOutcome:
        """Wait for its end, which must be a good one.

        Raises:
            CorralError: NOT_GOOD, it failed: with the last lines of the rank that failed first;
                TIMED_OUT as ``wait``.
        """
        outcome = self.wait(timeout, on_line=on_line)
        if not outcome.good:
            raise ended_badly(outcome)
        return outcome

    def logs(self) -> tuple[queue.RankLine, ...]:
        """What it printed so far; nothing for an array, whose parts print: ``part``."""
        lines: list[queue.RankLine] = []
        sync(queue.logs(self.spec, self.handle.ref, self._emit, on_line=lines.append))
        return tuple(lines)

    def part(self, number: int) -> Job:
        """One part of an array.

        Raises:
            CorralError: NOT_FOUND, it has no such part.
        """
        return Job(self.spec, self.handle.part(number), self._emit)

    def cancel(self) -> None:
        """End it; one that has ended stays as it is.

        Raises:
            CorralError: SLURM_REFUSED, NOT_FOUND.
        """
        outcome = sync(queue.cancel(self.spec, (self.handle.ref,)))[self.handle.ref]
        if isinstance(outcome, CorralError):
            raise outcome

    async def _wait(
        self, timeout: float | None, on_line: queue.OnLine
    ) -> queue.JobOutcome | queue.ArrayOutcome:
        try:
            async with asyncio.timeout(timeout):
                return await queue.logs(
                    self.spec, self.handle.ref, self._emit, on_line=on_line, follow=True
                )
        except TimeoutError as error:
            raise CorralError(
                Code.TIMED_OUT,
                f"job {self.handle.ref} has not ended within {timeout:g} s",
                hint="it keeps running; wait again, or cancel it",
            ) from error


def ended_badly(outcome: queue.JobOutcome | queue.ArrayOutcome) -> CorralError:
    """The error of a job that has ended and did not succeed."""
    if isinstance(outcome, queue.ArrayOutcome):
        failed = [part for part in outcome.parts if not part.good]
        return CorralError(
            Code.NOT_GOOD,
            f"{len(failed)} of {len(outcome.parts)} parts of job {outcome.id} did not succeed",
            tail="\n".join(f"{outcome.id}_{p.number}: {p.state} {p.last}" for p in failed[:20]),
            hint=f"corral logs {outcome.id}_{failed[0].number} shows the first of them",
        )
    first = outcome.failed
    return CorralError(
        Code.NOT_GOOD,
        f"job {outcome.ref} ended as {outcome.state.value}"
        + (f": rank {first.rank} failed first: {first.how}" if first else ""),
        node=first.node if first else "",
        status=outcome.exit_code.status if outcome.exit_code else None,
        tail=first.tail if first else "",
        hint=f"corral logs {outcome.ref} has all of it",
    )
