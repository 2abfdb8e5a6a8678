"""Use cases of jobs: run, submit, explain, list, logs, cancel, a shell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from corral.api.operations.nodes import ssh_argv
from corral.api.workload.queue import (
    ArrayOutcome,
    JobOutcome,
    JobRef,
    OnLine,
    OnLive,
    with_use,
)
from corral.apply.connection import Connection
from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind, ignore
from corral.hosts.quote import Script, sh
from corral.jobs import arrays, control, explanation
from corral.jobs import submit as submission
from corral.jobs.batch.fabric import Setting, sourced
from corral.jobs.directives import asked_of
from corral.jobs.handle import JobHandle
from corral.jobs.jobfile import read_job_file
from corral.jobs.limits import against_spec, apart, partition_of, pods_apart, refuse
from corral.jobs.model import JobSpec, parse_job
from corral.jobs.submit import ExpectedStart
from corral.providers.lookup import runs_here
from corral.spec.client import ClientSpec, by_rest
from corral.spec.models import ClusterSpec, NodeGroup

USE_S: Final = 30
"""Seconds that a job runs at least for its use to be asked at its end: Slurm samples memory as
often, and accounting knows an end some seconds later, for which ``hostname`` should not wait."""
SCRIPT_HEAD: Final = 1 << 20
"""Bytes of a script that are searched for its options."""


def job_spec(fields: Mapping[str, Any]) -> JobSpec:
    """A JobSpec from loose fields, as a command line has them.

    Raises:
        CorralError: USAGE, with every fault in one message.
    """
    return parse_job(fields)


def groups_of(spec: ClusterSpec, partition: str) -> list[NodeGroup]:
    """The groups whose nodes a job gets; of the default partition for "".

    Raises:
        CorralError: USAGE, no such partition, with the names there are.
    """
    probe = job_spec({"script": "x", "partition": partition or None})
    declared = partition_of(probe, spec)
    return [g for g in spec.groups if declared is None or g.name in declared.groups]


def group_environment(spec: ClusterSpec, group: str) -> str:
    """Shell that batch scripts of plain sbatch source on a group's nodes.

    Args:
        spec: the cluster.
        group: the name of one of its groups.

    Raises:
        CorralError: NOT_FOUND, the group does not exist.
    """
    for each in spec.groups:
        if each.name == group:
            return str(sourced(spec, each))
    names = ", ".join(each.name for each in spec.groups)
    raise CorralError(Code.NOT_FOUND, f"there is no group {group}", hint=f"write one of: {names}")


def job_fields(path: Path) -> dict[str, Any]:
    """The fields of a job file, for ``job_spec``; paths in it are relative to its folder.

    Raises:
        CorralError: NOT_FOUND; SPEC_INVALID, with each fault at its line and column.
    """
    return read_job_file(path)


def script_fields(fields: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Fields of a job with what its script's ``#SBATCH`` lines ask for; and remarks on them.

    The fields given win, as sbatch's own options do.

    Args:
        fields: of ``JobSpec``; a script that is not a file of this machine is not read, a command
            has none.

    Raises:
        CorralError: SPEC_INVALID, with each line that cannot be carried over.
    """
    name = str(fields.get("script", ""))
    if not name:
        return dict(fields), ()
    try:
        with Path(name).open("rb") as stream:
            text = stream.read(SCRIPT_HEAD).decode("utf-8", "replace")
    except OSError as error:
        if name.endswith(".py") or isinstance(error, IsADirectoryError):
            return dict(fields), ()
        return dict(fields), (f"{name} is not on this machine: its #SBATCH lines are not read",)
    asked = asked_of(text, name, fields)
    merged = {**asked.fields, **fields}
    merged |= {name: asked.fields[name] for name in ("sbatch",) if name in asked.fields}
    if "env" in asked.fields or "env" in fields:
        merged["env"] = {**asked.fields.get("env", {}), **fields.get("env", {})}
    return merged, asked.notes


def job_script(
    spec: ClusterSpec, job: JobSpec, *, user_known: bool = False, script_known: bool = False
) -> str:
    """The batch script that would be submitted, as far as the cluster file alone determines it.

    Args:
        spec: the cluster.
        job: the job.
        user_known: the cluster knows the job's user, whom the file need not name.
        script_known: its script and the lock of its environment need not be files of this machine.

    Raises:
        CorralError: USAGE or NOT_FOUND, the job cannot run as asked.
    """
    return str(submission.dry_run(job, spec, user_known=user_known, script_known=script_known))


async def explain_job(spec: ClusterSpec, job: JobSpec) -> tuple[Setting, ...]:
    """The environment each rank would get on the nodes as they are, and where each value is from.

    Raises:
        CorralError: USAGE, the job cannot run as asked; NOT_FOUND, the cluster is not up, or the
            script does not exist.
    """
    await asyncio.to_thread(submission.refuse_files, job, spec)
    async with await Connection.open(spec, root=False) as session:
        session.require_running()
        return await explanation.explain(
            session.fleet, session.controller, spec, job, session.addresses()
        )


async def expected_start(
    spec: ClusterSpec, job: JobSpec, *, user_known: bool = False
) -> ExpectedStart:
    """When and where Slurm would start a job as the cluster is now; nothing is submitted.

    Args:
        spec: the cluster.
        job: the job.
        user_known: the cluster knows the job's user, whom the file need not name.

    Raises:
        CorralError: USAGE or NOT_FOUND, it cannot run as asked; SLURM_REFUSED.
    """
    await _refuse_apart(spec, job, user_known=user_known)
    async with await Connection.open(spec, root=False) as session:
        session.require_running()
        return await submission.expected_start(
            session.fleet, session.controller, spec, job, user_known=user_known
        )


async def submit(
    spec: ClusterSpec,
    job: JobSpec,
    emit: Emit = ignore,
    *,
    files: Mapping[str, bytes] = submission.NOTHING_MORE,
    user_known: bool = False,
) -> JobHandle:
    """Submit a job and return at once.

    Args:
        spec: the cluster.
        job: the job.
        emit: receives what is uploaded and which environment is made.
        files: more files of the job's folder, by their path in it.
        user_known: the cluster knows the job's user, whom the file need not name.

    Raises:
        CorralError: USAGE or NOT_FOUND, it cannot run as asked; SLURM_REFUSED.
    """
    if by_rest(spec):
        from corral.api.workload.rest import rest_client, rest_submit  # noqa: PLC0415  # HTTP

        return await rest_submit(spec, rest_client(spec), job)
    await _refuse_apart(spec, job, user_known=user_known)
    async with await Connection.open(spec, root=False) as session:
        session.require_running()
        return await submission.submit(
            session.fleet,
            session.controller,
            spec,
            job,
            emit,
            files=files,
            user_known=user_known,
        )


async def _refuse_apart(spec: ClusterSpec, job: JobSpec, *, user_known: bool = False) -> None:
    """Refuse a job over single pods, with what the alternative costs.

    Raises:
        CorralError: USAGE.
    """
    group = apart(job, spec)
    if group is None:
        return
    # Prices need the clouds' clients, which no other job does.
    from corral.api.rental.clouds import price_together  # noqa: PLC0415

    plain = pods_apart(job, group)
    price = await price_together(spec, group, job.nodes)
    priced = replace(plain, instead=f"{plain.instead} ({price})" if price else plain.instead)
    refusals = against_spec(job, spec, user_known=user_known)
    refuse([priced if each == plain else each for each in refusals])


async def run(
    spec: ClusterSpec,
    job: JobSpec,
    emit: Emit = ignore,
    *,
    on_line: OnLine = lambda _: None,
    on_submit: Callable[[JobHandle], None] = lambda _: None,
    on_live: OnLive = lambda _: None,
) -> JobOutcome | ArrayOutcome:
    """Submit a job and follow it to its end. Cancelling this coroutine leaves the job alone.

    Args:
        spec: the cluster.
        job: the job.
        emit: receives each change of the job's state.
        on_line: called with each line that a rank prints, as it comes; not for an array.
        on_submit: called once Slurm has the job.
        on_live: called with progress bars and with what the job uses.

    Returns:
        how it ended; of a job that ran for ``USE_S`` with what it used of what it was given.

    Raises:
        CorralError: as ``submit``; UNREACHABLE, the controller stays away.
    """
    if by_rest(spec):
        from corral.api.workload.rest import rest_client, rest_run  # noqa: PLC0415  # HTTP

        return await rest_run(spec, rest_client(spec), job, emit, on_submit)
    await _refuse_apart(spec, job)
    async with await Connection.open(spec, root=False) as session:
        session.require_running()
        fleet = session.fleet
        handle = await submission.submit(fleet, session.controller, spec, job, emit)
        on_submit(handle)
        if handle.array:
            return await arrays.follow_array(fleet, handle, emit)
        outcome = await control.follow(fleet, handle, on_line=on_line, emit=emit, on_live=on_live)
        if (outcome.seconds or 0) < USE_S:
            return outcome
        try:
            return await with_use(session, handle, outcome)
        except CorralError as error:  # the job's own end is what counts
            emit(Event(Kind.NOTE, handle.ref, message=f"use not known: {error.message}"))
            return outcome


async def shell_argv(
    spec: ClusterSpec, fields: Mapping[str, Any], *, gpu: bool = False
) -> list[str]:
    """The command line of a shell with the resources that a job of these fields would get.

    Args:
        spec: the cluster.
        fields: of ``JobSpec``; without a command it is a login shell. There is no script.
        gpu: take one GPU where no number is given and the partition has some.

    Raises:
        CorralError: USAGE, it cannot be run; NOT_FOUND, the cluster is not up.
    """
    job = parse_job(fields if fields.get("command") else {**fields, "script": "shell"})
    async with await Connection.open(spec, root=False) as session:
        session.require_running()
        script = await explanation.shell(session.fleet, session.controller, spec, job, gpu=gpu)
        controller = session.controller
    return await _on_terminal(spec, controller, script)


async def attach_argv(
    spec: ClusterSpec, job_id: JobRef, *, user: str = "", node: str = ""
) -> list[str]:
    """The command line of a shell inside a running job.

    Args:
        spec: the cluster.
        job_id: the job, or a part of an array.
        user: whose it must be; left out: the cluster's first user.
        node: one of its nodes; left out: its first.

    Raises:
        CorralError: NOT_FOUND, no such job, or it does not run on that node; NOT_GOOD, it is not
            running; USAGE, it is another user's, or an array.
    """
    async with await Connection.open(spec, root=False) as session:
        session.require_running()
        script = await explanation.attach(
            session.fleet, session.controller, spec, str(job_id), user=user, node=node
        )
        controller = session.controller
    return await _on_terminal(spec, controller, script)


async def _on_terminal(spec: ClusterSpec, controller: str, script: Script) -> list[str]:
    """The ssh command that runs a script on the controller, in this terminal.

    As root, or as a profile's user.
    """
    if runs_here(spec):
        return await ssh_argv(spec, controller, [str(script)])
    argv = await ssh_argv(spec, controller)
    plain = isinstance(spec, ClientSpec) or argv[argv.index("-l") + 1] == "root"
    command = script if plain else sh("exec sudo -- sh -c {script}", script=str(script))
    return [argv[0], "-t", *argv[1:], str(command)]
