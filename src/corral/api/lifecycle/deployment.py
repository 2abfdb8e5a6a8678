"""Deployment of a cluster: plan, apply, up and down.

Every function takes the cluster file's model (``load`` reads it) and an ``Emit`` that receives the
events while it works.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Callable

from corral.api.lifecycle.machine_return import release_machines
from corral.apply.journal import Journal, cluster_lock, declared_before
from corral.apply.left_out import LeftOut
from corral.apply.run import require_fresh, run_stages
from corral.apply.session import ClusterState, Session
from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind, ignore
from corral.plan.model import Plan
from corral.providers.cloud.elastic import on_call
from corral.roles.data_loss import controller_moved
from corral.roles.machine import containers, storage
from corral.roles.slurm import packages
from corral.spec.models import ClusterSpec
from corral.spec.nodes import digest
from corral.state_dir import cluster_dir

ROUNDS = 5
"""Plans of one ``up``: the machines, what they hold, and more for those that change without a plan
meanwhile (services that still start after a boot)."""

Approve = Callable[[Plan], bool]


async def plan(spec: ClusterSpec, emit: Emit = ignore, *, keep_going: bool = False) -> Plan:
    """Compare what the file declares with what the machines hold; changes nothing.

    Args:
        spec: the cluster.
        emit: receives all events.
        keep_going: plan without nodes that do not answer (``Plan.unreachable``), where no others
            depend on them and at least half of the nodes answer.

    Raises:
        CorralError: a machine or the provider could not be read; what is to be rented
            is not available.
    """
    await _on_call(spec, emit)
    async with await Session.open(spec) as session:
        session.leave_out(LeftOut(spec), keep_going=keep_going)
        return (await _looked(session, emit)).plan


async def apply(spec: ClusterSpec, approved: Plan, emit: Emit = ignore) -> None:
    """Do exactly what ``approved`` contains.

    A plan with machines to create ends after creating them: a second plan then shows what they get.
    Nodes that the plan leaves out are not asked.

    Raises:
        CorralError: STALE_PLAN when file or machines moved since the plan was made; BUSY; the
            failure of a machine, after which planning and applying again resumes.
    """
    with cluster_lock(cluster_dir(spec.name)):
        async with await Session.open(spec) as session:
            session.leave_out(LeftOut(spec, approved.unreachable), keep_going=False)
            await _apply(session, approved, emit)


async def up(
    spec: ClusterSpec,
    emit: Emit = ignore,
    approve: Approve | None = None,
    *,
    left_out: LeftOut | None = None,
) -> bool:
    """Plan and apply until nothing is left to do.

    Args:
        spec: the cluster.
        emit: receives all events.
        approve: asked with each plan that is not empty; False stops before it is applied. While a
            person thinks machines may move, so they are read again before an approved plan is
            applied. None: yes to all, at once.
        left_out: takes the nodes that do not answer or where a change fails: the others are done
            without them. None: the first such node ends it.

    Returns:
        True when the cluster is as declared, but for nodes that are left out; False when
        ``approve`` answered no.

    Raises:
        CorralError: as ``apply``; NOT_GOOD when it does not settle.
    """
    if approve is not None:
        await _on_call(spec, emit)
    with cluster_lock(cluster_dir(spec.name)):
        rounds = 0
        while rounds < ROUNDS:
            async with await Session.open(spec) as session:
                _leave_out(session, left_out)
                current = await _looked(session, emit)
                if current.plan.empty:
                    return True
                if approve is not None and not approve(current.plan):
                    return False
                # A round that leaves nodes out does not count: each has fewer nodes to leave out.
                rounds += await _round(session, current, emit, left_out, fresh=approve is None)
        async with await Session.open(spec) as session:
            _leave_out(session, left_out)
            current = await _looked(session, emit)
    if current.plan.empty:
        return True
    raise CorralError(
        Code.NOT_GOOD,
        f"after {ROUNDS} rounds the plan is still not empty",
        tail="\n".join(c.change.summary for s in current.plan.stages for c in s.changes),
        hint="something on the machines changes these back; see: corral plan FILE --diff",
    )


def _leave_out(session: Session, left_out: LeftOut | None) -> None:
    if left_out is not None:
        session.leave_out(left_out, keep_going=True)


async def _round(
    session: Session, current: ClusterState, emit: Emit, left_out: LeftOut | None, *, fresh: bool
) -> bool:
    """Apply one plan of ``up``; False where it ended early, as nodes are left out."""
    try:
        return await _apply(session, current.plan, emit, current if fresh else None, left_out)
    except CorralError as error:
        if error.code is not Code.STALE_PLAN:
            raise
        emit(Event(Kind.NOTE, "plan", message=f"{error.message}: planning again"))
        return True


async def down(
    spec: ClusterSpec, emit: Emit = ignore, *, purge: bool = False, force: bool = False
) -> tuple[str, ...]:
    """Remove everything the providers made for this cluster, and its folder here.

    Machines that the user owns are restored as they were: ``api.machine_return``.

    Args:
        spec: the cluster.
        emit: receives all events.
        purge: on machines that the user owns also remove home folders of the users that Corral
            made, and keep no dump of the accounting database.
        force: cancel jobs that run on machines that the user owns; release those that answer
            when others do not, and end what is rented all the same.

    Returns:
        what was removed; of machines released ``node: what``.

    Raises:
        CorralError: PROVIDER_FAILED, something is left; NOT_GOOD, jobs run; why a machine could
            not be released. Run it again: it resumes where it stopped. FORBIDDEN, this machine's
            user may not see the machines.
    """
    folder = cluster_dir(spec.name)
    with cluster_lock(folder):
        begin = time.monotonic()
        emit(Event(Kind.PHASE_STARTED, "down"))
        session = await Session.open(spec)
        session.require_visible()
        try:
            back = await release_machines(session, emit, purge=purge, force=force)
        except CorralError as error:
            await _costs(session, error, emit, force=force)
            raise
        gone = (*back, *await session.destroy(emit))
        shutil.rmtree(folder, ignore_errors=True)
        emit(Event(Kind.PHASE_DONE, "down", seconds=time.monotonic() - begin))
    return gone


async def _on_call(spec: ClusterSpec, emit: Emit) -> None:
    for message in await on_call(spec):
        emit(Event(Kind.NOTE, "plan", message=message))


async def _costs(session: Session, error: CorralError, emit: Emit, *, force: bool) -> None:
    """End what is rented though the user's machines were not released, or report that it costs."""
    if not any(group.capabilities.rents for group in session.spec.groups):
        return
    if not force:
        error.hint += "; rented machines go on to cost money: corral down --force ends them"
        return
    try:
        gone = await session.end_rented(emit)
    except CorralError as other:
        gone = (f"rented machines: {other}", *other.tail.splitlines())
    else:
        gone = tuple(f"ended: {line}" for line in gone)
    error.tail = "\n".join([*gone, error.tail]).strip()


async def _looked(session: Session, emit: Emit) -> ClusterState:
    begin = time.monotonic()
    emit(Event(Kind.PHASE_STARTED, "probe", total=len(session.fleet.nodes)))
    current = await session.read_state(emit)
    emit(Event(Kind.PHASE_DONE, "probe", seconds=time.monotonic() - begin))
    jobs = "" if current.plan.empty else containers.notice(session.spec)
    before = declared_before(session.folder / "journal.jsonl")
    moved = controller_moved(before[-1], session.spec) if before else ""
    folders = storage.exposed(current.stages, current.observed)
    for message in filter(None, (moved, packages.notice(current.site), jobs, folders)):
        emit(Event(Kind.NOTE, "plan", message=message))
    return current


async def _apply(
    session: Session,
    approved: Plan,
    emit: Emit,
    current: ClusterState | None = None,
    left_out: LeftOut | None = None,
) -> bool:
    """Do the plan; ``current`` is the one it was made from, when it was made just now.

    Returns:
        False where it ended early, as nodes are left out now.
    """
    now = current or await session.read_state()
    require_fresh(approved, digest(session.spec), now.plan.observed)
    journal = Journal(cluster_dir(session.spec.name) / "journal.jsonl", secrets.token_hex(4))
    journal.write("spec", {"spec": session.spec.model_dump(mode="json")})
    journal.write("plan", {"plan": approved.as_dict()})
    noted = journal.following(emit)
    begin = time.monotonic()
    if approved.machines:
        noted(Event(Kind.PHASE_STARTED, "machines", total=len(approved.machines)))
        if approved.machines != now.plan.machines:
            raise CorralError(
                Code.STALE_PLAN,
                "the machines have changed since this plan was made",
                hint="re-create it with: corral plan FILE",
            )
        await session.make_machines(noted)
        noted(Event(Kind.PHASE_DONE, "machines", seconds=time.monotonic() - begin))
        return True
    if approved.leaving != now.plan.leaving:
        raise CorralError(
            Code.STALE_PLAN,
            "the machines that leave have changed since this plan was made",
            hint="re-create it with: corral plan FILE",
        )
    noted(Event(Kind.PHASE_STARTED, "apply", total=len(approved.stages)))
    if not await run_stages(approved, session.fleet, noted, left_out):
        return False
    await session.release(approved.leaving, noted)
    noted(Event(Kind.PHASE_DONE, "apply", seconds=time.monotonic() - begin))
    return True
