"""Rents what pending jobs need, ends what is idle, stops at the budget. One turn at a time.

All state is Slurm's and the clouds', but the time at which the end of a spent budget began
(``budget_end.py``): a driver that is killed at any point and started again, here or on another
machine, continues.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from corral.agents import program
from corral.apply.session import Session
from corral.durations import interval_seconds
from corral.elastic.budget_end import Ending, EndingFile
from corral.elastic.marks import decide, nodes_of_jobs, states, together
from corral.elastic.rental import proven
from corral.errors import CorralError
from corral.events import Emit, Event, Kind
from corral.hosts.quote import Script, sh
from corral.hosts.transport import check
from corral.inspect.jobs import PLACED
from corral.inspect.question import Question, T, answer_to
from corral.inspect.slurm import NODES
from corral.providers.cloud.budget import reserved
from corral.providers.cloud.elastic import rented_nodes
from corral.providers.cloud.provider import CloudProvider
from corral.runtime.tasks import concurrently
from corral.slurm.states.nodes import POWERING_UP
from corral.spec.models import ClusterSpec
from corral.spec.nodes import declared_of, with_present
from corral.spec.slurm.hostlist import expand, fold

HOLD_S: Final = 120.0
"""A node that was not available stays down this long, before it is asked for again."""

LOST_TURNS: Final = 3
"""Lists that must not show a machine before its node counts as lost: one may be stale."""

SetUp = Callable[[ClusterSpec], Awaitable[None]]


def wind_down(nodes: str, left: int) -> Script:
    """Drain nodes and end what runs there within ``left`` seconds; prints how many jobs run."""
    return sh(
        'sh -c {program} wind-down end {nodes} "$(($(date +%s) + {left}))"',
        program=program("wind-down.sh"),
        nodes=nodes,
        left=left,
    )


@dataclass(slots=True)
class Driver:
    """Drives one cluster.

    Args:
        spec: the cluster.
        set_up: sets up all machines that are there (``api.up`` without the proof).
        emit: receives the events.
    """

    spec: ClusterSpec
    set_up: SetUp
    emit: Emit
    joined: set[str] = field(default_factory=set[str])
    failed: dict[str, float] = field(default_factory=dict[str, float])
    missed: dict[str, int] = field(default_factory=dict[str, int])
    ending: Ending | None = None
    now: Callable[[], float] = time.time

    async def turn(self) -> bool:
        """Poll once and do what is marked; True when anything was done.

        Raises:
            CorralError: the controller or a cloud does not answer.
        """
        rented = await rented_nodes(self.spec)
        async with await Session.open(with_present(self.spec, ())) as session:
            session.require_running()
            seen = states(await self._asked(session, NODES))
            groups = {
                g.name: (tuple(expand(g.nodes)), g.elastic.min)
                for g in self.spec.groups
                if g.elastic
            }
            if await self._spent(session, rented):
                return False
            self.joined &= {n for n, words in seen.items() if POWERING_UP in words}
            marks = decide(seen, rented, self.joined, groups)
            await self._lost(session, marks.lost)
            await self._taken(session, marks.taken, rented)
            if marks.go:
                await self._go(marks.go)
            await self._give_up(session, marks.failed, rented)
            if marks.back:
                await self._mark(session, marks.back, "RESUME")
            if marks.wake:
                await self._mark(session, marks.wake, "POWER_UP")
            if marks.come:
                await self._come(session, marks.come, rented)
        done = (marks.come, marks.go, marks.wake, marks.back, marks.taken, self.missed)
        return any(map(bool, done))

    async def _asked(self, session: Session, question: Question[T]) -> T:
        return await answer_to(
            session.fleet, session.controller, question, "asking slurmctld", timeout=60
        )

    async def _done(self, session: Session, script: Script) -> str:
        answer = await session.fleet.run(session.controller, script, timeout=60)
        return check(answer, "asking slurmctld").stdout

    async def _mark(
        self, session: Session, nodes: Sequence[str], state: str, why: str = ""
    ) -> None:
        reason = sh(" reason={why}", why=why) if why else sh("")
        script = sh(
            "timeout 20 scontrol update nodename={nodes} state={state}{reason}",
            nodes=fold(list(nodes)),
            state=state,
            reason=reason,
        )
        await self._done(session, script)

    async def _go(self, nodes: Sequence[str]) -> None:
        self._note(f"{fold(list(nodes))}: idle, ended")
        await self._end(nodes)

    async def _end(self, nodes: Sequence[str]) -> None:
        await CloudProvider(with_present(self.spec, nodes)).release(nodes)

    async def _give_up(self, session: Session, nodes: Sequence[str], rented: Sequence[str]) -> None:
        """End what failed; power it down later, so that Slurm does not ask again at once."""
        now = time.monotonic()
        for node in nodes:
            self.failed.setdefault(node, now)
        costing = [n for n in nodes if n in rented]
        if costing:
            self._note(f"{fold(costing)}: given up, ended")
            await self._end(costing)
        over = [n for n in nodes if now - self.failed[n] > HOLD_S]
        if over:
            await self._mark(session, over, "POWER_DOWN_FORCE")
            for node in over:
                del self.failed[node]

    async def _come(self, session: Session, nodes: Sequence[str], rented: Sequence[str]) -> None:
        """Rent, check and set up nodes: for each job all that it waits for, or none."""
        waiting = nodes_of_jobs(await self._asked(session, PLACED))
        groups = together(nodes, waiting.values())
        self._note(f"{fold(list(nodes))}: needed by a pending job")
        spec = with_present(self.spec, {*rented, *nodes})
        results = await concurrently(*(self._group(session, spec, group) for group in groups))
        came = {node: address for addresses in results for node, address in addresses.items()}
        if not came:
            return
        # One call for all: a thousand of them took minutes (24.11.5).
        script = sh(
            "timeout 50 scontrol update nodename={n} nodeaddr={a} nodehostname={n}",
            n=",".join(came),
            a=",".join(came.values()),
        )
        await self._done(session, script)
        await self.set_up(with_present(self.spec, {*rented, *came}))
        self.joined |= set(came)
        self._note(f"{fold(list(came))}: set up")

    async def _group(
        self, session: Session, spec: ClusterSpec, nodes: Sequence[str]
    ) -> dict[str, str]:
        """The addresses of what one pending job needs; nothing rented when one fails."""
        try:
            return await proven(spec, nodes, self.emit, self._note)
        except CorralError as error:
            self._note(f"{fold(list(nodes))}: {error}")
            await self._end(nodes)
            await self._mark(session, nodes, "DOWN", f"corral: {error.message}"[:120])
            return {}

    async def _lost(self, session: Session, nodes: Sequence[str]) -> None:
        """Machines that the cloud took back: their jobs are requeued now, not after a time-out."""
        self.missed = {n: self.missed.get(n, 0) + 1 for n in nodes}
        gone = [n for n, turns in self.missed.items() if turns >= LOST_TURNS]
        if gone:
            self._note(f"{fold(gone)}: the cloud has taken its machine back; its jobs are requeued")
            await self._mark(session, gone, "DOWN", "corral: the cloud took the machine back")
            await self._mark(session, gone, "POWER_DOWN_FORCE")
            for node in gone:
                del self.missed[node]

    async def _taken(self, session: Session, nodes: Sequence[str], rented: Sequence[str]) -> None:
        """Machines whose end the cloud announced: their jobs have left, and others come."""
        if not nodes:
            return
        self._note(f"{fold(list(nodes))}: the cloud takes its machine back; its jobs start again")
        if costing := [n for n in nodes if n in rented]:
            await self._end(costing)
        await self._mark(session, nodes, "POWER_DOWN_FORCE")

    async def _spent(self, session: Session, rented: Sequence[str]) -> bool:
        """End all that is rented before budget.total is spent; True from then on.

        What ended costs nothing any more, and nothing else may begin in its place: the rate is
        the highest since the end began.
        """
        budget, file = self.spec.budget, EndingFile(self.spec.name)
        if budget is None or budget.total is None:
            return False
        now = CloudProvider(self.spec).spend()
        before = self.ending or file.read(budget.total)
        rate = max(now.per_hour, before.rate if before else 0.0)
        if now.total + reserved(budget, rate) < budget.total:
            self.ending = None
            file.remove()
            return False
        nodes = [
            n.name
            for n in declared_of(self.spec)
            if n.group.capabilities.rents and (n.group.elastic is None or n.name in rented)
        ]
        running = bool(now.per_hour or now.unpriced) and bool(nodes)
        clock = self.now()
        since = min((before and before.since) or clock, clock)
        self.ending = Ending(budget.total, rate, since if running else None)
        if self.ending != before:
            file.write(self.ending)
        if not running:
            return True
        if not before or before.since is None:
            text = f"{now.spent()} $ of {budget.total:.2f} $ are spent"
            self._note(f"{text}: {fold(nodes)} ends in {budget.grace}, sooner without jobs")
        left = int(since + interval_seconds(budget.grace) - clock)
        if left <= 0 or not await self._still_runs(session, nodes, left):
            self._note(f"{fold(nodes)}: the budget is spent, ended")
            await self._end(nodes)
        return True

    async def _still_runs(self, session: Session, nodes: Sequence[str], left: int) -> bool:
        """Whether jobs still run there, or may: Slurm does not answer."""
        try:
            printed = await self._done(session, wind_down(fold(list(nodes)), left))
        except CorralError as error:
            self._note(f"Slurm was not asked: {error.message}")
            return True
        return printed.split()[-2:] != ["running", "0"]

    def _note(self, text: str) -> None:
        self.emit(Event(Kind.NOTE, "elastic", message=text))
