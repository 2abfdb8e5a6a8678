"""Machines that the user owns are restored as they were (``state.ledger``, docs/decisions/0022)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.hosts.fleet import Fleet
from corral.hosts.framing import Reports
from corral.hosts.quote import Script, call
from corral.hosts.transport import Result, check
from corral.inspect.jobs import HOLDERS
from corral.runtime.tasks import concurrently
from corral.slurm.states.jobs import holding_states
from corral.spec.slurm.hostlist import fold
from corral.state import ledger

UNDO_S: Final = 900.0
"""Seconds a machine may take to undo all; removing packages is the longest."""

_CANCEL: Final = call("gates/slurm.sh", "jobs_cancel_all", holding_states())


@dataclass(frozen=True, slots=True)
class Return:
    """What is, or would be, undone on one machine.

    Attributes:
        node: the machine.
        lines: (word, text) as ``state.ledger`` describes them.
        error: why it could not be asked or not be done, None when all succeeded.
    """

    node: str
    lines: tuple[tuple[str, str], ...] = ()
    error: CorralError | None = None

    def of(self, *words: str) -> tuple[str, ...]:
        """The texts of some words."""
        return tuple(text for word, text in self.lines if word in words)

    @property
    def clean(self) -> bool:
        """True when nothing of Corral's is left on it."""
        return self.error is None and not self.of("left")

    def as_dict(self) -> dict[str, Any]:
        return {
            "node": self.node,
            "lines": [{"word": word, "text": text} for word, text in self.lines],
            "error": self.error.as_dict() if self.error else None,
        }


async def survey(fleet: Fleet, nodes: Sequence[str]) -> tuple[Return, ...]:
    """What releasing the machines would do; changes nothing."""
    if not nodes:
        return ()
    reports = Reports()
    answers = await fleet.all(ledger.survey(reports), nodes)
    return tuple(_read(node, answer, reports) for node, answer in answers.items())


async def running_jobs(fleet: Fleet, controller: str) -> tuple[str, ...] | None:
    """``id user nodes`` of each job that holds nodes; None when the machine does not answer."""
    try:
        answer = await fleet.run(controller, HOLDERS.shell, timeout=30)
    except CorralError:
        return None
    jobs = HOLDERS.parse(answer.stdout) if answer.ok else ()
    return tuple(f"{job.label} {job.user} {job.nodes}" for job in jobs)


async def cancel_jobs(fleet: Fleet, controller: str) -> None:
    """Cancel all jobs and wait until they are gone.

    Raises:
        CorralError: COMMAND_FAILED, some do not end within a minute.
    """
    check(await fleet.run(controller, _CANCEL, timeout=120), "cancelling all jobs")


async def restore_machines(
    fleet: Fleet, nodes: Sequence[str], emit: Emit, *, purge: bool = False
) -> tuple[Return, ...]:
    """Undo all that the ledgers of the machines know, on all of them at once.

    Safe to repeat: a machine without a ledger is done. A failure of one machine is in its
    ``Return`` and stops no other.
    """
    return tuple(await concurrently(*(_restore(fleet, node, emit, purge) for node in nodes)))


async def _restore(fleet: Fleet, node: str, emit: Emit, purge: bool) -> Return:
    lines: list[tuple[str, str]] = []
    reports = Reports()

    def heard(text: str) -> None:
        if (report := reports.read(text)) is not None:
            line = _word(report)
            lines.append(line)
            emit(Event(Kind.NOTE, "down", node, ": ".join(line)))

    async def step(script: Script, what: str) -> None:
        result = await fleet.run(node, script, timeout=UNDO_S, on_line=heard)
        check(result, what, hint="what was undone stays undone; fix it and run the command again")

    emit(Event(Kind.NODE_STARTED, "down", node))
    try:
        await step(ledger.undo(reports, purge=purge), "releasing the machine")
        if not any(word == "none" for word, _ in lines):
            await step(ledger.leftovers(reports), "listing what is left")
            if not any(word == "left" for word, _ in lines):
                await step(ledger.close(), "removing the ledger")
    except CorralError as error:
        emit(Event(Kind.NODE_FAILED, "down", node, str(error)))
        return Return(node, tuple(lines), error)
    emit(Event(Kind.NODE_DONE, "down", node))
    return Return(node, tuple(lines))


def require_all(returns: Sequence[Return]) -> None:
    """Check that all machines were released.

    Raises:
        CorralError: the code of the first failure; all machines that failed are named.
    """
    failed = [r for r in returns if not r.clean]
    if not failed:
        return
    tail = [f"{r.node}: {r.error or ', '.join(r.of('left'))}" for r in failed]
    tail += [line for r in failed if r.error for line in r.error.tail.splitlines()[-5:]]
    raise CorralError(
        failed[0].error.code if failed[0].error else Code.NOT_GOOD,
        f"not released: {fold([r.node for r in failed])}; all others are",
        tail="\n".join(tail),
        hint="fix it and run the same command again: it continues where it stopped",
    )


def _read(node: str, answer: Result | CorralError, reports: Reports) -> Return:
    if isinstance(answer, CorralError):
        return Return(node, error=answer)
    lines = tuple(map(_word, reports.all(answer.stdout)))
    try:
        check(answer, "reading the ledger")
    except CorralError as error:
        return Return(node, lines, error)
    return Return(node, lines)


def _word(report: str) -> tuple[str, str]:
    word, _, rest = report.partition(" ")
    return word, rest
