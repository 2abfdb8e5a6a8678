"""Runs a Plan: stages in order, all nodes of a stage at once, gates between stages, journal."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Mapping, Sequence

from corral.apply.left_out import LeftOut, note_left_out
from corral.apply.observation import raise_all
from corral.apply.roll import Rolling
from corral.apply.script import Progress, gate_script, stage_script
from corral.apply.wheelhouse import cached, fetch_wheels
from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.hosts.fleet import Fleet
from corral.hosts.quote import sh
from corral.hosts.transport import check
from corral.plan.model import Plan, Stage
from corral.providers.cloud.client.accounts import key_bytes
from corral.runtime.tasks import concurrently
from corral.spec.slurm.hostlist import fold
from corral.state.base import (
    HERE,
    NOTHING,
    Change,
    Gate,
    Roll,
    SecretRef,
)
from corral.state.network.mesh import MINT
from corral.state.secrets import KEYS

STAGE_TIMEOUT = 1800.0
"""Seconds a node may take for its share of one stage; installing packages is the longest."""


def require_fresh(plan: Plan, spec_digest: str, observed_digest: str) -> None:
    """Refuse a plan whose file or machines have moved since it was made.

    Raises:
        CorralError: STALE_PLAN.
    """
    if plan.spec_digest != spec_digest:
        what = "the cluster file has changed since this plan was made"
    elif plan.observed != observed_digest:
        what = "the machines have changed since this plan was made"
    else:
        return
    raise CorralError(Code.STALE_PLAN, what, hint="re-create it with: corral plan FILE")


def require_allowed(plan: Plan) -> None:
    """Refuse a plan with a change that Corral will not make, before any other is made.

    Raises:
        CorralError: NOT_GOOD, with all such changes and their nodes.
    """
    refused = [entry for stage in plan.stages for entry in stage.changes if entry.change.refuses]
    if not refused:
        return
    first = refused[0]
    refusals = [f"{fold(list(entry.nodes))}: {entry.change.refuses}" for entry in refused]
    raise CorralError(
        Code.NOT_GOOD,
        f"{refusals[0]}" + (f" (and {len(refusals) - 1} more)" if refusals[1:] else ""),
        node=first.nodes[0] if len(first.nodes) == 1 and not refusals[1:] else "",
        command=first.change.resource,
        tail="\n".join(refusals),
        hint="nothing was changed; fix this on the machines or in the file, then run it again",
    )


async def run_stages(
    plan: Plan, fleet: Fleet, emit: Emit, leave_out: LeftOut | None = None
) -> bool:
    """Do all stages of a plan.

    Args:
        plan: the plan.
        fleet: its machines.
        emit: receives the events.
        leave_out: takes nodes where a change failed and without which the others can go on. Of a
            rolling stage it takes none: what fails on the first node would take one after the
            other out of service.

    Returns:
        False where nodes are left out now: the stages after that are not done, and are to be
        planned again without these nodes.

    Raises:
        CorralError, NodesFailedError: COMMAND_FAILED, GATE_FAILED or what a transport raises. What
            was done stays done and is journalled; planning again and applying goes on from there.
    """
    require_allowed(plan)
    await fetch_wheels(plan, emit)
    for stage in plan.stages:
        try:
            await _run_stage(stage, fleet, emit)
        except CorralError as error:
            if leave_out is None or stage.roll is not None or not leave_out.takes(error):
                raise
            leave_out.owed.add(stage.name)
            note_left_out(error, emit)
            return False
        if leave_out is not None:
            leave_out.owed.discard(stage.name)
    return True


async def _run_stage(stage: Stage, fleet: Fleet, emit: Emit) -> None:
    begin = time.monotonic()
    by_node = stage.by_node()
    emit(Event(Kind.STAGE_STARTED, stage.name, message=stage.title, total=len(by_node)))
    try:
        if stage.roll is None:
            await _all_nodes(stage, by_node, fleet, emit)
        else:
            await _in_turn(stage, stage.roll, fleet, emit)
    except CorralError as error:
        emit(Event(Kind.STAGE_FAILED, stage.name, error.node, str(error), time.monotonic() - begin))
        raise
    emit(Event(Kind.STAGE_DONE, stage.name, seconds=time.monotonic() - begin, total=len(by_node)))


async def _all_nodes(
    stage: Stage, by_node: Mapping[str, Sequence[Change]], fleet: Fleet, emit: Emit
) -> None:
    answers = await asyncio.gather(
        *(_run_node(stage, node, changes, fleet, emit) for node, changes in by_node.items()),
        return_exceptions=True,
    )
    raise_all(_errors(answers), f"stage {stage.name}")
    await concurrently(*(_wait(gate, fleet, emit) for gate in stage.gates))


async def _in_turn(stage: Stage, roll: Roll, fleet: Fleet, emit: Emit) -> None:
    async def work(node: str, changes: Sequence[Change]) -> None:
        await _run_node(stage, node, changes, fleet, emit)

    async def gate(gate: Gate) -> None:
        await _wait(gate, fleet, emit)

    await Rolling(stage, roll, fleet, emit, work=work, gate=gate).run()


def _errors(answers: Sequence[BaseException | None]) -> list[CorralError]:
    failed: list[CorralError] = []
    for answer in answers:
        if isinstance(answer, CorralError):
            failed.append(answer)
        elif answer is not None:
            raise answer
    return failed


async def _run_node(
    stage: Stage, node: str, changes: Sequence[Change], fleet: Fleet, emit: Emit
) -> None:
    begin = time.monotonic()
    emit(Event(Kind.NODE_STARTED, stage.name, node, total=len(changes)))
    progress = Progress(stage.name, node, changes, emit)
    try:
        result = await fleet.run(
            node,
            stage_script(changes, fleet.cluster, progress.reports),
            stdin=await _secrets(changes, fleet),
            timeout=STAGE_TIMEOUT,
            on_line=progress.line,
        )
        progress.require_all(result)
    except CorralError as error:
        emit(Event(Kind.NODE_FAILED, stage.name, node, str(error), time.monotonic() - begin))
        raise
    emit(Event(Kind.NODE_DONE, stage.name, node, seconds=time.monotonic() - begin))


async def _secrets(changes: Sequence[Change], fleet: Fleet) -> bytes:
    """The secrets the changes ask for, framed for the script's stdin; they go nowhere else."""
    parts: list[bytes] = []
    for ref in (ref for change in changes for ref in change.secrets):
        if ref.node == MINT and fleet.mint is not None:
            data = await fleet.mint(ref.path)
        elif ref.node == KEYS:
            data = key_bytes(fleet.cluster, ref.path)
        else:
            data = await (_own_file(ref) if ref.node == HERE else _secret(ref, fleet))
        parts.append(b"%d\n%b" % (len(data), data))
    return b"".join(parts)


async def _secret(ref: SecretRef, fleet: Fleet) -> bytes:
    # base64, because a transport gives text; decoded here so that the node gets the bytes.
    script = sh("base64 -w0 < {path}", path=ref.path)
    result = check(await fleet.run(ref.node, script), f"reading {ref.name}")
    return base64.b64decode(result.stdout.strip(), validate=True)


async def _own_file(ref: SecretRef) -> bytes:
    try:
        return await asyncio.to_thread(cached(ref.path).read_bytes)
    except OSError as error:
        raise CorralError(
            Code.NOT_FOUND,
            f"{ref.path} cannot be read: {error.strerror}",
            hint="re-create the plan with: corral plan FILE",
        ) from error


async def _wait(gate: Gate, fleet: Fleet, emit: Emit) -> None:
    begin = time.monotonic()
    run = fleet.run_alone if gate.alone else fleet.run
    result = await run(gate.node, gate_script(gate), timeout=gate.timeout + 30)
    if result.ok:
        emit(Event(Kind.NOTE, "gate", gate.node, gate.name, round(time.monotonic() - begin, 3)))
        return
    tail = result.tail
    if gate.diagnose != NOTHING:
        diagnosis = await fleet.run(gate.node, gate.diagnose, timeout=30)
        tail = f"{tail}\n{diagnosis.stdout.strip()}"[-4000:]
    raise CorralError(
        Code.GATE_FAILED,
        f"did not come true within {gate.timeout:.0f} s: {gate.name}",
        node=gate.node,
        command=str(gate.script),
        status=result.status,
        tail=tail.strip(),
        hint=gate.hint,
    )
