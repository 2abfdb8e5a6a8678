"""A Check: what it proves, how, what breaks it, and the code that measures and judges."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from corral.errors import CorralError
from corral.prove.context import ProveContext, clip
from corral.prove.model import CheckResult, Evidence, Judgement, Verdict

ALL_CORES = 1_000_000  # more cores than any node has: such a check runs alone


def always(ctx: ProveContext) -> str:
    """The check applies to every cluster."""
    del ctx
    return ""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing to prove.

    Attributes:
        id: ``group.name``.
        title: the check in words.
        group: smoke, concurrency, isolation, multinode, accounting, rest or storage.
        proves: what is true when it passes.
        how: what it does to find out.
        breaks: what makes it fail; tests/embedded breaks a real cluster that way.
        hint: likely cause (with its number in the failure catalogue) and what to do.
        measure: measures the cluster and judges.
        applies: "" or the reason why the check has nothing to prove on this cluster.
        needs: ids of checks that must not have failed.
        lead: it asks the controller alone, so other nodes that cannot be read do not matter to it.
        cores: cores of each node its jobs take while it runs; ``ALL_CORES``: it runs alone.
    """

    id: str
    title: str
    group: str
    proves: str
    how: str
    breaks: str
    hint: str
    measure: Callable[[ProveContext], Awaitable[Judgement]] = field(repr=False)
    applies: Callable[[ProveContext], str] = field(default=always, repr=False)
    needs: tuple[str, ...] = ()
    cores: int = 0
    lead: bool = False

    async def run(self, ctx: ProveContext) -> CheckResult:
        """Measure and judge; an error becomes a fail with the error as evidence."""
        began = time.monotonic()
        try:
            judged = await self.measure(ctx)
        except CorralError as error:
            judged = Judgement(Verdict.FAIL, str(error), (_evidence(error),))
        except Exception as error:  # a broken check must not end the proof
            judged = Judgement(
                Verdict.FAIL,
                f"the check itself broke: {error!r}",
                (Evidence("", f"check {self.id}", repr(error)),),
            )
        return self.result(judged, time.monotonic() - began)

    def result(self, judged: Judgement, seconds: float = 0.0) -> CheckResult:
        """File a judgement as this check's result."""
        bad = judged.verdict in {Verdict.FAIL, Verdict.WARN}
        return CheckResult(
            self.id,
            self.title,
            self.group,
            judged.verdict,
            judged.summary,
            (judged.hint or self.hint) if bad else "",
            judged.evidence,
            round(seconds, 3),
            judged.uncovered,
        )


class Cores:
    """Shares the cores of a node among checks that run jobs at the same time.

    Jobs of checks that do not fit next to each other would wait for each other in Slurm's queue,
    which costs more time than running the checks in turn.
    """

    def __init__(self, total: int) -> None:
        self._total = max(total, 1)
        self._free = self._total
        self._changed = asyncio.Condition()

    async def take(self, cores: int) -> int:
        """Wait until that many cores are free; gives what was taken, for ``give``."""
        taken = min(cores, self._total)
        async with self._changed:
            await self._changed.wait_for(lambda: self._free >= taken)
            self._free -= taken
        return taken

    async def give(self, cores: int) -> None:
        """Release cores."""
        async with self._changed:
            self._free += cores
            self._changed.notify_all()


def _evidence(error: CorralError) -> Evidence:
    figures: dict[str, str | int | float] = {"code": error.code.value}
    if error.status is not None:
        figures["status"] = error.status
    return Evidence(error.node, error.command, clip(error.tail or error.message), figures)
