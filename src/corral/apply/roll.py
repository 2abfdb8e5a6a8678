"""A rolling stage: a few nodes at a time, each drained, changed, rebooted, checked and resumed.

What Corral drained it resumes, and nothing else: its drains carry the roll's tag in their reason.
If Corral is killed meanwhile, the node stays drained; the next plan either continues with it or has
the change ``resume`` (state.slurm.members.Resumed), so no node stays drained unreported.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from corral.apply.observation import raise_all
from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.hosts.fleet import Fleet
from corral.hosts.quote import Script, call, sh
from corral.hosts.transport import Result, check
from corral.inspect.jobs import blocking_jobs
from corral.inspect.slurm import KNOWN_NODES, UP, nodes_named
from corral.plan.model import Stage
from corral.slurm.records import Node
from corral.spec.impacts import Impact
from corral.spec.slurm.hostlist import fold
from corral.state.base import Change, Gate, Roll

POLL_S: Final = 20
"""Seconds that one script on the controller waits for a node to be idle; then it lists the jobs."""
BACK_S: Final = 120
"""Seconds a node may take to be registered again once its machine is back."""
RESUMED_S: Final = 60
"""Seconds more that it may take to be in service once it is resumed."""
RETRY_S: Final = 1.0
FINAL: Final = frozenset({Code.HOST_KEY_CHANGED, Code.NOT_FOUND})

REBOOTS: Final = "reboots"
BACK: Final = "is back, with another boot id"
LATER: Final = "stays drained: slurmctld does not list it; the next corral up resumes it"
BOOT_ID: Final = call("node-update.sh", "boot_mark")
BOOTED: Final = sh("systemctl is-system-running --wait >/dev/null 2>&1; :")
STEPS: Final = call("slurm-steps.sh", "no_steps")

Work = Callable[[str, Sequence[Change]], Awaitable[None]]
Check = Callable[[Gate], Awaitable[None]]


class Rolling:
    """One rolling stage in progress.

    Args:
        stage: the stage; its ``roll`` defines how.
        roll: the same.
        fleet: the machines.
        emit: receives an event for each step.
        work: does a node's changes.
        gate: waits for a gate.
    """

    def __init__(
        self, stage: Stage, roll: Roll, fleet: Fleet, emit: Emit, *, work: Work, gate: Check
    ) -> None:
        self._stage = stage
        self._roll = roll
        self._fleet = fleet
        self._emit = emit
        self._work = work
        self._gate = gate
        self._changes = stage.by_node()

    async def run(self) -> None:
        """Nodes without Slurm at once, then the others in turn; stops at the first that fails.

        Raises:
            CorralError, NodesFailedError: of a node; the others have not begun or are done.
        """
        known = await self._known(tuple(self._changes))
        bare = [n for n in self._changes if n not in known]
        if bare:
            await self._together(bare, known)
        inside = sorted((n for n in self._changes if n in known), key=self._last)
        size = max(1, self._roll.at_once)
        for first in range(0, len(inside), size):
            await self._together(inside[first : first + size], known)

    def _last(self, node: str) -> bool:
        return node == self._roll.controller

    async def _together(self, nodes: Sequence[str], known: dict[str, Node]) -> None:
        answers = await asyncio.gather(
            *(self._turn(n, known.get(n)) for n in nodes), return_exceptions=True
        )
        failed = [a for a in answers if isinstance(a, CorralError)]
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, CorralError):
                raise answer
        raise_all(failed, f"stage {self._stage.name}")

    async def _turn(self, node: str, known: Node | None) -> None:
        mine = known is not None and (not known.state.drained or self._ours(known))
        if mine:
            await self._drain(node)
        if known is not None:
            await self._idle(node, resume=mine)
        try:
            await self._change(node)
        except CorralError as error:
            if mine:
                error.hint = f"{error.hint}; {node} stays drained until it is good".lstrip("; ")
            raise
        if mine and known is not None:
            await self._resume(node, was_up=known.state.registered)
        elif known is not None:
            self._note(node, f"stays drained, as it was before: {known.reason}")

    async def _change(self, node: str) -> None:
        """The node's changes, its way through a reboot, and its gates."""
        changes = self._changes[node]
        before = check(await self._ask(node, BOOT_ID), "reading the boot id").stdout.strip()
        await self._work(node, changes)
        if any(c.impact is Impact.REBOOT for c in changes):
            await self.is_back(node, before)
        for gate in self._stage.gates:
            if gate.node == node:
                await self._gate(gate)

    async def _drain(self, node: str) -> None:
        reason = f"{self._roll.tag}{self._roll.reason}"
        script = sh(
            "timeout 30 scontrol update {node} State=DRAIN {reason}",
            node=f"NodeName={node}",
            reason=f"Reason={reason}",
        )
        check(await self._control(script), f"draining {node}")
        self._note(node, "drained: takes no new jobs")

    async def _idle(self, node: str, *, resume: bool) -> None:
        """Wait until no job is on the node."""
        begin = time.monotonic()
        blocking = blocking_jobs(node, POLL_S)
        noted = ""
        while True:
            answer = await self._control(blocking.shell)
            if answer.ok:
                return
            jobs = blocking.parse(answer.stdout)
            waiting = ", ".join(jobs[:6]).strip(", ") or "slurmctld's answer"
            if waiting != noted:
                noted = waiting
                self._note(node, f"waits for {waiting}")
            if time.monotonic() - begin > self._roll.patience:
                break
        if resume:
            await self._resume(node, was_up=False)
        raise CorralError(
            Code.TIMED_OUT,
            f"still waits after {self._roll.patience:.0f} s for {noted}",
            node=node,
            hint="nothing was changed on it and it takes jobs as before; run the same command "
            "again later, cancel the jobs, or raise software.drain_minutes",
        )

    async def is_back(self, node: str, before: str) -> None:
        """Wait until the machine has booted: it answers, and with another boot id."""
        begin = time.monotonic()
        self._note(node, REBOOTS)
        last = "it has not gone down"
        while time.monotonic() - begin < self._roll.boot:
            try:
                answer = await self._fleet.run(node, BOOT_ID, timeout=15)
                if answer.ok and answer.stdout.strip() != before:
                    await self._fleet.run(node, BOOTED, timeout=180)
                    self._note(node, BACK, time.monotonic() - begin)
                    return
            except CorralError as error:
                if error.code in FINAL:
                    raise
                last = error.message
                await self._fleet.reconnect(node)
            await asyncio.sleep(RETRY_S)
        raise CorralError(
            Code.TIMED_OUT,
            f"did not come back within {self._roll.boot:.0f} s of its reboot",
            node=node,
            tail=last,
            hint="look at its console; when it is up again, run the same command once more",
        )

    async def _resume(self, node: str, *, was_up: bool) -> None:
        """Take back the drain, when it is ours; wait until the node takes jobs."""
        seen = await self._until(node, BACK_S if was_up else 0, self._settled)
        if seen is not None and not self._ours(seen):
            self._note(node, as_it_is(seen))
            return
        if seen is not None:
            name = f"NodeName={node}"
            script = sh("timeout 30 scontrol update {name} State=RESUME", name=name)
            check(await self._control(script), f"resuming {node}")
        if was_up:
            seen = await self._until(node, RESUMED_S, is_back)
            if seen is None or not is_back(seen):
                raise _stays_out(node, seen)
        self._note(node, f"resumed: {as_it_is(seen)}" if seen else LATER)

    async def _until(self, node: str, seconds: float, good: Callable[[Node], bool]) -> Node | None:
        """What slurmctld last reports of a node: it is good, or time is over."""
        named = nodes_named(node)
        end = time.monotonic() + seconds
        while True:
            answer = await self._control(named.shell)
            seen = named.parse(answer.stdout).get(node)
            if (seen is not None and good(seen)) or time.monotonic() >= end:
                return seen
            await asyncio.sleep(RETRY_S)

    def _ours(self, node: Node) -> bool:
        """Whether it is drained by this roll, or by one that was killed."""
        return node.state.drained and node.reason.startswith(self._roll.tag)

    def _settled(self, node: Node) -> bool:
        """It can be resumed, or the drain is not ours to take back."""
        return node.state.registered or not self._ours(node)

    async def controller_answers(self) -> bool:
        """Whether slurmctld answers, within ``BACK_S``."""
        end = time.monotonic() + BACK_S
        while True:
            answered = (await self._control(UP.shell)).ok
            if answered or time.monotonic() >= end:
                return answered
            await asyncio.sleep(RETRY_S)

    async def registered(self, node: str) -> Node | None:
        """The node, once its slurmd is registered; else as it is when ``BACK_S`` are over."""
        return await self._until(node, BACK_S, lambda seen: seen.state.registered)

    async def _known(self, nodes: tuple[str, ...]) -> dict[str, Node]:
        """What Slurm reports about these nodes; nothing of nodes it does not know.

        Raises:
            CorralError: NOT_GOOD, slurmctld does not answer and jobs run on some of them; its
                answer could not be read: no node may be taken for one without Slurm then.
        """
        answer = check(await self._control(KNOWN_NODES.shell), "reading node states")
        known = KNOWN_NODES.parse(answer.stdout)
        if known.nodes is not None:
            return {node.name: node for node in known.nodes if node.name in nodes}
        if known.silent:
            steps = await self._fleet.all(STEPS, nodes, timeout=30)
            busy = [n for n, a in steps.items() if isinstance(a, Result) and not a.ok]
            if busy:
                raise CorralError(
                    Code.NOT_GOOD,
                    f"slurmctld does not answer, and jobs run on {fold(busy)}",
                    node=self._roll.controller,
                    hint="they cannot be drained without it; read journalctl -u slurmctld",
                )
        return {}

    async def _control(self, script: Script, timeout: float = 60.0) -> Result:
        return await self._ask(self._roll.controller, script, timeout)

    async def _ask(self, node: str, script: Script, timeout: float = 60.0) -> Result:
        return await self._fleet.run(node, script, timeout=timeout)

    def _note(self, node: str, message: str, seconds: float | None = None) -> None:
        self._emit(Event(Kind.NOTE, self._stage.name, node, message, seconds))


def is_back(node: Node) -> bool:
    """What a roll waits for: a node in a maintenance reservation is back and takes no jobs yet."""
    return node.state.registered and node.state.in_service


def as_it_is(node: Node) -> str:
    """What is left of a node whose drain is not this roll's."""
    if node.state.drained:
        return f"stays drained: {node.reason}"
    return "takes jobs again" if node.state.usable else f"is not drained, and is {node.state}"


def _stays_out(node: str, seen: Node | None) -> CorralError:
    state = "not listed by slurmctld" if seen is None else str(seen.state)
    return CorralError(
        Code.NOT_GOOD,
        f"it was resumed and is {state} after {RESUMED_S} s",
        node=node,
        hint="read journalctl -u slurmd there, and -u slurmctld on the controller",
    )
