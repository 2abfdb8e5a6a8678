"""Release of the user's machines: what it would do, and doing it, controller last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from corral.apply.restoration import (
    Return,
    cancel_jobs,
    require_all,
    restore_machines,
    running_jobs,
    survey,
)
from corral.apply.session import Session
from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind, ignore
from corral.hosts.transport import check
from corral.spec.models import ClusterSpec
from corral.state.slurm.members import READ_ROSTER, Member


@dataclass(frozen=True, slots=True)
class Returning:
    """What ``down`` would do with the user's machines.

    Attributes:
        machines: each machine with what would be restored; empty when the cluster has none.
        jobs: ``id user nodes`` of the jobs that hold nodes now.
    """

    machines: tuple[Return, ...]
    jobs: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """What is undone on each machine, and the jobs that are running."""
        return {"machines": [m.as_dict() for m in self.machines], "jobs": list(self.jobs)}


async def pending_release(spec: ClusterSpec, emit: Emit = ignore) -> Returning:
    """Ask the user's machines what there is to restore; changes nothing."""
    emit(Event(Kind.PHASE_STARTED, "survey"))
    async with await Session.open(spec) as session:
        if not session.owned:
            return Returning(())
        returns = await survey(session.fleet, session.owned)
        strays = await _strays(session)
        returns += await survey(session.fleet_of(strays), tuple(strays))
        jobs = await running_jobs(session.fleet, session.controller)
    emit(Event(Kind.PHASE_DONE, "survey"))
    return Returning(returns, jobs or ())


async def release_machines(
    session: Session, emit: Emit, *, purge: bool, force: bool
) -> tuple[str, ...]:
    """Release the user's machines, those that left the file included.

    Returns:
        ``node: what`` of each thing done or kept.

    Raises:
        CorralError: NOT_GOOD, jobs run and ``force`` is False; else why a machine could not be
            released. Then the controller is left as it is, because it knows the others.
    """
    owned = session.owned
    if not owned:
        return ()
    await _no_jobs(session, force=force)
    strays = await _strays(session)
    others = [n for n in owned if n != session.controller]
    returns = await restore_machines(session.fleet, others, emit, purge=purge)
    returns += await restore_machines(session.fleet_of(strays), list(strays), emit, purge=purge)
    if not force:
        require_all(returns)
    returns += await restore_machines(session.fleet, [session.controller], emit, purge=purge)
    require_all(returns)
    words = ("did", "kept", "new", "none")
    return tuple(
        f"{r.node}: {' '.join(line)}" for r in returns for line in r.lines if line[0] in words
    )


async def _no_jobs(session: Session, *, force: bool) -> None:
    jobs = await running_jobs(session.fleet, session.controller)
    if jobs is None and not force:
        raise CorralError(
            Code.UNREACHABLE,
            "does not answer, so it is unknown whether jobs are running",
            node=session.controller,
            hint="start the machine, or release the others without it: --force",
        )
    if not jobs:
        return
    if not force:
        raise CorralError(
            Code.NOT_GOOD,
            f"{len(jobs)} jobs are running on these machines; nothing was released",
            node=session.controller,
            tail="\n".join(jobs),
            hint="wait for them, or cancel all of them: corral down --force",
        )
    await cancel_jobs(session.fleet, session.controller)


async def _strays(session: Session) -> dict[str, Member]:
    try:
        answer = check(await session.fleet.run(session.controller, READ_ROSTER), "the list")
    except CorralError:
        return {}
    return session.strays(answer.stdout)
