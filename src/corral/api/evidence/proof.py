"""Use case: does the cluster really work? Answered with evidence."""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from corral.api.evidence.past_proofs import keep_proof
from corral.apply.connection import Connection
from corral.apply.journal import Journal
from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind, ignore
from corral.hosts.fleet import Fleet
from corral.hosts.quote import Script
from corral.hosts.transport import Result
from corral.inspect.facts import Facts, facts_inquiry, facts_of
from corral.inspect.slurm import accounts_of
from corral.jobs.batch import fabric
from corral.prove.catalog import CHECKS, GROUPS
from corral.prove.check import Check
from corral.prove.context import ProveContext
from corral.prove.model import Proof
from corral.prove.runner import REACHED
from corral.prove.runner import prove as run_checks
from corral.roles.machine.mesh import on_control
from corral.roles.machine.people import PROOF, own_proof_user
from corral.spec.models import ClusterSpec
from corral.spec.nodes import controllers_of, nodes_of, partitions_of, users_of
from corral.spec.slurm.hostlist import fold
from corral.state_dir import cluster_dir


async def prove(
    spec: ClusterSpec,
    emit: Emit = ignore,
    only: Sequence[str] = (),
    *,
    without: Collection[str] = (),
) -> Proof:
    """Run the checks of a cluster that is up; the proof is kept in the cluster's history.

    Args:
        spec: the cluster.
        emit: receives an event when each check begins and ends.
        only: groups or ids of checks; empty for all.
        without: nodes that are not checked; not the controller.

    Raises:
        CorralError: NOT_FOUND, the cluster is not up; USAGE, ``only`` names no check, ``without``
            no node that can be left out.
    """
    checks = _chosen(only)
    left_out = _left_out(spec, without)
    async with await Connection.open(spec) as session:
        session.require_running()
        begin = time.monotonic()
        emit(Event(Kind.PHASE_STARTED, "prove", total=len(checks)))
        context = ProveContext(
            spec=spec,
            fleet=session.fleet.without(left_out),
            controller=session.controller,
            user=await job_user(session),
            person=users_of(spec)[0].name,
            facts=await _facts(spec, session.fleet.without(left_out), left_out),
            without=left_out,
            rank_setup=partial(rank_setup, spec),
        )
        proof = await run_checks(context, checks, emit, at=time.time())
        proof = replace(proof, only=tuple(only), without=tuple(sorted(left_out)))
        emit(Event(Kind.PHASE_DONE, "prove", seconds=time.monotonic() - begin))
    journal = Journal(cluster_dir(spec.name) / "journal.jsonl", secrets.token_hex(4))
    journal.write("proof", {"proof": proof.as_dict()})
    keep_proof(proof, partial=bool(only or without))
    return proof


def rank_setup(spec: ClusterSpec, partition: str, nodes: int) -> Script:
    """The environment of a rank of ``corral run`` in a partition, on as many nodes."""
    named = next((each for each in partitions_of(spec) if each.name == partition), None)
    interface, kind = fabric.declared(spec, named)
    return fabric.settings(
        interface=interface,
        fabric=kind,
        threads=1,
        rdma=fabric.rdma_of(spec),
        several=nodes > 1,
    )


async def job_user(session: Connection) -> str:
    """The proof's own user where users have limits and it was made, else the first user."""
    first = users_of(session.spec)[0].name
    if not own_proof_user(session.spec):
        return first
    question = accounts_of(PROOF)
    try:
        made = await session.fleet.run(session.controller, question.shell, timeout=60)
    except CorralError:
        return first
    accounts = {each.account for each in question.parse(made.stdout)}
    return PROOF if made.ok and PROOF in accounts else first


def _chosen(only: Sequence[str]) -> tuple[Check, ...]:
    unknown = [word for word in only if all(word not in (c.id, c.group) for c in CHECKS)]
    if unknown:
        raise CorralError(
            Code.USAGE,
            f"no check or group of checks is called {', '.join(unknown)}",
            hint=f"groups: {', '.join(GROUPS)}; checks: {', '.join(c.id for c in CHECKS)}",
        )
    # Nodes that cannot be read explain all that others find.
    return tuple(c for c in CHECKS if not only or {c.id, c.group} & {*only, REACHED})


def _left_out(spec: ClusterSpec, without: Collection[str]) -> frozenset[str]:
    nodes = {node.name for node in nodes_of(spec)}
    unknown = sorted(set(without) - nodes)
    if unknown:
        raise CorralError(
            Code.USAGE, f"no node called {fold(unknown)}", hint=f"nodes: {fold(sorted(nodes))}"
        )
    controllers = sorted(set(without) & set(controllers_of(spec)))
    if controllers:
        raise CorralError(
            Code.USAGE,
            f"{fold(controllers)} runs slurmctld: no check works without it",
            hint="leave out other nodes",
        )
    return frozenset(without)


async def _facts(
    spec: ClusterSpec, fleet: Fleet, without: Collection[str]
) -> dict[str, Facts | None]:
    """Facts of each node, None of one that does not answer: its checks will report why."""
    asked = facts_inquiry()
    answers = await fleet.all(asked.script, timeout=60)
    facts: dict[str, Facts | None] = {}
    for node in (each for each in nodes_of(spec) if each.name not in without):
        answer = answers.get(node.name)
        if isinstance(answer, Result) and answer.ok:
            facts[node.name] = on_control(spec, facts_of(node.name, asked, answer.stdout))
        else:
            facts[node.name] = None
    return facts
