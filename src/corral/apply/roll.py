"""A rolling stage: a few nodes at a time, each drained, changed, rebooted, checked and resumed.

What Corral drained it resumes, and nothing else: its drains carry ``ROLL_TAG`` in their reason.
When it is killed on the way, such a node stays drained; the next plan either goes on with it or has
the change ``resume`` (state.resumed), so nothing is left half-done in silence.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from corral.apply.observe import raise_all
from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.hosts.fleet import Fleet
from corral.hosts.quote import Script, sh
from corral.hosts.transport import Result, check
from corral.plan.model import Stage
from corral.spec.hostlist import fold
from corral.state.base import ROLL_TAG, Change, Gate, Impact, Roll

POLL_S: Final = 20
"""Seconds that one script on the controller waits for a node to be idle; then it lists the jobs."""
BACK_S: Final = 120
"""Seconds a node may take to be registered again once its machine is back."""
RETRY_S: Final = 1.0
FINAL: Final = frozenset({Code.HOST_KEY_CHANGED, Code.NOT_FOUND})

REBOOTS: Final = "reboots"
BACK: Final = "is back, with another boot id"
BOOT_ID: Final = sh("cat /proc/sys/kernel/random/boot_id")
BOOTED: Final = sh("systemctl is-system-running --wait >/dev/null 2>&1; :")
STEPS: Final = sh("! ps -e -o ruid=,comm= | grep -q '^ *0 slurmstepd'")
"""No step runs there: root's alone count, as any user may call a process slurmstepd."""

Work = Callable[[str, Sequence[Change]], Awaitable[None]]
Check = Callable[[Gate], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Known:
    """What Slurm reports about a node: its state's long word with flags, and its reason."""

    state: str
    reason: str

    @property
    def drained(self) -> bool:
        """True when it takes no new jobs."""
        return "drain" in self.state or self.state.startswith("drng")

    @property
    def ours(self) -> bool:
        """True when a rolling stage drained it."""
        return self.drained and self.reason.startswith(ROLL_TAG)

    @property
    def answers(self) -> bool:
        """True when its slurmd is registered and answers."""
        return not self.state.startswith(("down", "unk", "inval")) and "*" not in self.state


class Rolling:
    """One rolling stage on its way.

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

    async def _together(self, nodes: Sequence[str], known: dict[str, Known]) -> None:
        answers = await asyncio.gather(
            *(self._turn(n, known.get(n)) for n in nodes), return_exceptions=True
        )
        failed = [a for a in answers if isinstance(a, CorralError)]
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, CorralError):
                raise answer
        raise_all(failed, f"stage {self._stage.name}")

    async def _turn(self, node: str, known: Known | None) -> None:
        mine = known is not None and (not known.drained or known.ours)
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
            await self._resume(node, was_up=known.answers)
        elif known is not None:
            self._note(node, f"stays drained, as it was before: {known.reason}")

    async def _change(self, node: str) -> None:
        """The node's changes, its way through a reboot, and its gates."""
        changes = self._changes[node]
        before = check(await self._ask(node, BOOT_ID), "reading the boot id").stdout.strip()
        await self._work(node, changes)
        if any(c.impact is Impact.REBOOT for c in changes):
            await self._back(node, before)
        for gate in self._stage.gates:
            if gate.node == node:
                await self._gate(gate)

    async def _drain(self, node: str) -> None:
        reason = f"{ROLL_TAG}{self._roll.reason}"
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
        noted = ""
        while True:
            answer = await self._control(_jobs_script(node))
            if answer.ok:
                return
            waiting = ", ".join(answer.stdout.split("\n")[:6]).strip(", ") or "slurmctld's answer"
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

    async def _back(self, node: str, before: str) -> None:
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
        script = _resume_script(node, wait=BACK_S if was_up else 0)
        answer = await self._control(script, timeout=BACK_S + 90.0)
        check(answer, f"resuming {node}")
        self._note(node, "resumed: takes jobs again")

    async def _known(self, nodes: tuple[str, ...]) -> dict[str, Known]:
        """What Slurm reports about these nodes; nothing of nodes it does not know.

        Raises:
            CorralError: NOT_GOOD, slurmctld does not answer and jobs run on some of them.
        """
        answer = check(await self._control(_states_script(nodes)), "reading node states")
        first, *lines = answer.stdout.splitlines() or [""]
        if first == "slurmctld":
            rows = (line.split("|", 2) for line in lines if line.count("|") > 1)
            return {n: Known(state, reason) for n, state, reason in rows if n in nodes}
        if first == "silent":
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


def _states_script(nodes: tuple[str, ...]) -> Script:
    """``slurmctld`` and a line ``name|state|reason`` per node; or ``none``, or ``silent``."""
    return sh(
        "if ! command -v scontrol >/dev/null || ! [ -e /etc/slurm/slurm.conf ]; then echo none; "
        "elif ! timeout 10 scontrol ping | grep -q ' is UP'; then echo silent; else "
        "echo slurmctld; timeout 30 sinfo -h -N -n {nodes} -o '%N|%T|%E' | sort -u; fi",
        nodes=fold(nodes),
    )


def _jobs_script(node: str) -> Script:
    """Succeeds once no job is on the node; else, after a while, reports which ones are."""
    return sh(
        "end=$(( $(date +%s) + {limit} )); while :; do "
        "if j=$(timeout 10 squeue -h -w {node} -t R,S,CG,CF -o 'job %i (%u, %j, %M so far)'); then "
        '[ -n "$j" ] || exit 0; else j=; fi; '
        '[ $(date +%s) -lt $end ] || {{ printf "%s\\n" "$j"; exit 3; }}; sleep 1; done',
        limit=POLL_S,
        node=node,
    )


def _resume_script(node: str, wait: int) -> Script:
    """Resume the node when its reason is ours, once it is registered; then check that it is."""
    return sh(
        "end=$(( $(date +%s) + {wait} )); while :; do "
        "s=$(timeout 10 sinfo -h -N -n {node} -o '%T|%E' | sort -u | head -n 1); "
        'case "$s" in *"|"{tag}*) '
        'case "$s" in *"*"*"|"*|down*|unk*|inval*|"") ;; *) break;; esac;; '
        '"") ;; *) exit 0;; esac; '
        "[ $(date +%s) -lt $end ] || break; sleep 1; done; "
        'case "$s" in *"|"{tag}*) '
        "timeout 30 scontrol update {name} State=RESUME || exit 1;; esac; "
        "[ {wait} -gt 0 ] || exit 0; while :; do "
        "s=$(timeout 10 sinfo -h -N -n {node} -o '%T' | sort -u | head -n 1); "
        'case "$s" in *"*"*|*drain*|drng*|down*|unk*|inval*|"") ;; *) exit 0;; esac; '
        '[ $(date +%s) -lt $(( end + 60 )) ] || {{ echo "state $s" >&2; exit 1; }}; sleep 1; done',
        wait=wait,
        node=node,
        tag=ROLL_TAG,
        name=f"NodeName={node}",
    )
