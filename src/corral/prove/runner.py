"""Runs checks: in parallel where they do not disturb each other, and always to the end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Final

from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.hosts.quote import call
from corral.prove.check import Check, Cores
from corral.prove.context import ProveContext, left_out, skipped
from corral.prove.model import CheckResult, Judgement, Proof, Verdict
from corral.runtime.tasks import concurrently

REACHED: Final = "smoke.reached"
"""Nodes that cannot be read are its failure; checks of those nodes are skipped."""
FEWEST: Final = 2  # cores per node when unknown


async def prove(ctx: ProveContext, checks: Sequence[Check], emit: Emit, *, at: float) -> Proof:
    """Run the checks and give the proof.

    A check waits for those it needs and is skipped when one of them failed. Checks whose jobs fit
    next to each other on a node run at the same time. Nothing is left behind, whatever happens.

    Args:
        ctx: the cluster.
        checks: what to prove.
        emit: receives an event when each check begins and ends.
        at: unix seconds to file the proof under.

    Raises:
        CorralError: USAGE, checks need each other in a circle.
    """
    _ordered(checks)
    run = _Run(ctx, checks, emit)
    try:
        results = await concurrently(*(run.run_check(check) for check in checks))
    finally:
        await ctx.close()
        await clean(ctx)
    return Proof(ctx.spec.name, at, tuple(results))


class _Run:
    """One run: the results so far, as futures that later checks wait for."""

    def __init__(self, ctx: ProveContext, checks: Sequence[Check], emit: Emit) -> None:
        loop = asyncio.get_running_loop()
        self._ctx = ctx
        self._emit = emit
        self._total = len(checks)
        self._done = {check.id: loop.create_future() for check in checks}
        known = [facts.sockets * facts.cores_per_socket for facts in ctx.facts.values() if facts]
        self._cores = Cores(min(known, default=FEWEST))

    async def run_check(self, check: Check) -> CheckResult:
        """Wait for what the check needs, run it, and report."""
        hindered = await self._hindered(check)
        if hindered:
            result = check.result(hindered)
        else:
            taken = await self._cores.take(check.cores)
            self._emit(Event(Kind.CHECK_STARTED, check.id, message=check.title, total=self._total))
            try:
                result = await check.run(self._ctx)
            finally:
                await self._cores.give(taken)
        self._emit(
            Event(
                Kind.CHECK_DONE,
                check.id,
                message=f"{result.verdict.value}: {result.summary}",
                seconds=result.seconds,
                total=self._total,
            )
        )
        self._done[check.id].set_result(result)
        return result

    async def _hindered(self, check: Check) -> Judgement | None:
        """Why the check is not made: it does not apply here, or what it needs is not given."""
        reason = check.applies(self._ctx)
        if reason:
            return skipped(reason)
        for need in (*((REACHED,) if check.id != REACHED else ()), *check.needs):
            if need not in self._done:
                continue  # not among the chosen checks
            result = await self._done[need]
            if need == REACHED and self._readable(check):
                continue
            if result.verdict is Verdict.FAIL:
                cause = f": {result.summary}" if need == REACHED else ""
                return left_out(f"needs {need}, which failed{cause}")
            if result.verdict is Verdict.SKIP:
                text = f"needs {need}, which was skipped"
                return Judgement(Verdict.SKIP, text, uncovered=result.uncovered)
        return None

    def _readable(self, check: Check) -> bool:
        """Whether all nodes that the check asks can be read."""
        unread = self._ctx.unread
        return self._ctx.controller not in unread if check.lead else not unread


def _ordered(checks: Sequence[Check]) -> None:
    try:
        TopologicalSorter({check.id: check.needs for check in checks}).prepare()
    except CycleError as error:
        raise CorralError(Code.USAGE, f"checks need each other: {error.args[1]}") from error


async def clean(ctx: ProveContext) -> None:
    """Cancel what a broken-off check left in the queue and remove its folders."""
    users = filter(None, dict.fromkeys((ctx.user, ctx.person)))
    script = call("prove/jobs.sh", "jobs_clean", ctx.job_name, *users)
    try:
        await ctx.control(script, timeout=40.0)
    except CorralError:
        return  # the controller is gone; the checks' own results show it
