"""What a job would get, before there is one; a shell with the same resources, or in a job."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Final

from corral.durations import clock
from corral.errors import Code, CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.quote import NOTHING, Script, call, join, sh
from corral.hosts.transport import check
from corral.inspect.jobs import in_unix_times, job_queue
from corral.inspect.question import Answer, inquiry
from corral.jobs.batch import containers, options
from corral.jobs.batch.containers import mounts_of
from corral.jobs.batch.fabric import (
    Setting,
    SettingRow,
    declared,
    explain_script,
    exports,
    merged_settings,
    rdma_of,
    setting_rows,
    settings,
)
from corral.jobs.batch.script import Place
from corral.jobs.follow import as_user, as_user_by_stdin
from corral.jobs.limits import (
    against_nodes,
    against_spec,
    ask,
    cpus_per_rank,
    gpus_left_out,
    memory_share,
    nodes_for,
    partition_name,
    partition_of,
    refuse,
    user_of,
)
from corral.jobs.model import JobSpec
from corral.slurm.records import Job, Node
from corral.spec.models import ClusterSpec
from corral.spec.nodes import users_of
from corral.spec.slurm.hostlist import expand

_REF: Final = re.compile(r"[0-9]{1,10}(_[0-9]{1,7})?")
_PROGRAM: Final = "jobs/user.sh"
_VARIABLES: Final = re.compile(r"/tmp/corral-variables\.[A-Za-z0-9]{10}")  # noqa: S108  # mktemp's
# An image may have another shell than the user's.
_INSIDE: Final = "sh -c 'command -v bash >/dev/null && exec bash; exec sh'"


def shell_script(job: JobSpec, place: Place, variables: str = "") -> Script:
    """``srun --pty`` for a login shell, or the job's command, on the first node of its allocation.

    The shell has the entire allocation: srun in it starts ranks on all its nodes.

    Args:
        job: the job. Its environment is not in the script, which is an argument of ssh and sudo.
        place: where it runs.
        variables: the folder with its environment on the controller; "" for none.
    """
    gpu = f"gpu:{job.gpu_type}" if job.gpu_type else "gpu"
    words: list[object] = [
        f"--job-name={job.title if job.command else job.name or 'shell'}",
        f"--partition={place.partition}",
        f"--nodes={job.nodes}",
        f"--ntasks-per-node={job.ranks_on_node}",
        f"--cpus-per-task={place.cpus_per_rank}",
    ]
    if job.gpus_per_node:
        words.append(f"--gres={gpu}:{job.gpus_per_node}")
    if place.mem:
        words.append(f"--mem={place.mem}")
    if job.seconds:
        words.append(f"--time={clock(job.seconds)}")
    words += options.words(job)
    # salloc holds the entire allocation; srun alone would take as many shells as tasks. Its own
    # LaunchParameters=use_interactive_step is not set everywhere.
    inner = sh(
        "cd\n{env}exec salloc --quiet {words} "
        "srun --pty --nodes=1 --ntasks=1 --cpus-per-task={cpus} --overlap --mem-per-cpu=0 "
        "{container}{shell}",
        env=_taken(variables),
        words=words,
        cpus=place.cpus_per_rank * job.ranks_on_node,
        container=join([containers.words(job, place.mounts), sh(" ")], ""),
        shell=_shell(job),
    )
    return inner


def _taken(variables: str) -> Script:
    if not variables:
        return NOTHING
    return sh("{take}\n", take=call(_PROGRAM, "variables_take", variables))


async def _put_variables(fleet: Fleet, controller: str, user: str, env: Mapping[str, str]) -> str:
    """Send an environment to the controller, by standard input: it often holds tokens.

    A terminal's own standard input is the person's, and all else that ssh and sudo are given is in
    argument lists, which every user of a machine reads, and in sudo's log.

    Returns:
        the folder with its file, both the user's alone; "" for an empty environment.

    Raises:
        CorralError: COMMAND_FAILED, it could not be written there; UNREACHABLE.
    """
    if not env:
        return ""
    put = as_user(user, call(_PROGRAM, "variables_put"))
    text = f"{exports(env)}\n".encode()
    result = await fleet.run(controller, put, stdin=text, timeout=60)
    hint = "run it without --env and set the variables in the terminal"
    check(result, "sending the variables of --env to the controller", hint=hint)
    path = result.stdout.removesuffix("\n")
    if not _VARIABLES.fullmatch(path):
        raise CorralError(
            Code.PARSE_FAILED, "the answer has no folder", node=controller, tail=result.tail
        )
    return path


def _shell(job: JobSpec) -> Script:
    if job.command:
        return sh("{words}", words=list(job.command))
    return sh(_INSIDE) if job.container else sh('"${{SHELL:-/bin/bash}}" -l')


MOST_NODES = 64
_ROWS: Final = Answer("rows", setting_rows)
"""Nodes that are asked: on a large cluster those the job would fill first."""


async def explain(
    fleet: Fleet, controller: str, spec: ClusterSpec, job: JobSpec, addresses: Mapping[str, str]
) -> tuple[Setting, ...]:
    """The environment of the job's ranks on each node that fits, and where each value is from.

    The nodes themselves are asked, by the very text that the job's ranks run.

    Args:
        fleet: the cluster's machines.
        controller: the node that runs slurmctld.
        spec: the cluster.
        job: the job; its script is not looked at.
        addresses: of the nodes, on the control network.

    Raises:
        CorralError: USAGE, the job cannot run as asked; COMMAND_FAILED, no node answered.
    """
    job = gpus_left_out(job, spec)
    nodes = await _fitting(fleet, controller, spec, job)
    interface, fabric = declared(spec, partition_of(job, spec))
    setup = settings(
        interface=interface,
        fabric=fabric,
        rdma=rdma_of(spec),
        threads=cpus_per_rank(job, nodes),
        several=job.nodes > 1,
        report=True,
    )
    names = [node.name for node in nodes if node.name in fleet.nodes][:MOST_NODES]
    first = addresses.get(names[0], names[0]) if names else ""
    rows = as_user_by_stdin(user_of(job, spec), explain_script(first, job.env, setup))
    asked = inquiry([_ROWS.by(sh("( {rows} )", rows=rows))])
    answers = await fleet.all(asked.script, names, timeout=60) if names else {}
    rows_of: dict[str, tuple[SettingRow, ...]] = {}
    for node, answer in answers.items():
        if not isinstance(answer, CorralError):
            sections = asked.read(answer.stdout)
            if _ROWS.name in sections and sections[_ROWS.name].status == 0:
                rows_of[node] = _ROWS.read(sections.texts())
    if not rows_of:
        raise CorralError(
            Code.COMMAND_FAILED, "no node reported what a rank would get", hint="corral status"
        )
    rendezvous = (
        Setting("MASTER_ADDR", first, "Slurm's address of the allocation's first node", names[0]),
        Setting(
            "MASTER_PORT", "20000 to 29999", "by the job's number, free on that node", names[0]
        ),
        *(
            Setting(name, value, "yours, by --env or the job file", "all")
            for name, value in sorted(job.env.items())
        ),
        *(
            Setting(f"--{name}", value or "yes", "asked of Slurm for the job", "all")
            for name, value in options.pairs(job)
        ),
    )
    known = {setting.name for setting in rendezvous}
    return (*rendezvous, *(s for s in merged_settings(rows_of) if s.name not in known))


NOT_OF_A_SHELL: Final = frozenset(
    {"args", "launcher", "workdir", "requeue", "grace", "checkpoints", "data", "array", "sweep"}
    | {"at_once", "folder", "in_place", "environment", "python", "profile"}
)
"""Fields of ``JobSpec`` that need a batch script: a shell would drop them silently."""


async def shell(
    fleet: Fleet, controller: str, spec: ClusterSpec, job: JobSpec, *, gpu: bool = False
) -> Script:
    """What gives the job's user a shell with the job's share of the cluster, run as root.

    Args:
        fleet: the cluster's machines.
        controller: the node that runs slurmctld.
        spec: the cluster.
        job: the job; its script is not looked at.
        gpu: take one GPU where no number is given and the partition has some.

    Raises:
        CorralError: USAGE, it cannot be run; COMMAND_FAILED, its environment could not be sent.
    """
    if unused := sorted(job.model_fields_set & NOT_OF_A_SHELL):
        raise CorralError(
            Code.USAGE,
            f"a shell cannot have {', '.join(unused)}: a job with a script or a command can",
            hint="leave them out, or run a script or a command: corral run train.py",
        )
    job = gpus_left_out(job, spec, unasked=gpu)
    nodes = await _fitting(fleet, controller, spec, job)
    place = Place(
        folder="",
        program="",
        partition=partition_name(job, spec),
        cpus_per_rank=cpus_per_rank(job, nodes),
        mem=memory_share(job, nodes),
        mounts=mounts_of(job, [s.mount for s in spec.storage]),
    )
    user = user_of(job, spec)
    variables = await _put_variables(fleet, controller, user, job.env)
    return as_user(user, shell_script(job, place, variables))


async def attach(
    fleet: Fleet, controller: str, spec: ClusterSpec, ref: str, *, user: str = "", node: str = ""
) -> Script:
    """What gives a job's user a shell inside of it, next to its ranks; run as root.

    Raises:
        CorralError: as ``running_on``.
    """
    user = user or users_of(spec)[0].name
    job, name = await running_on(fleet, controller, ref, user=user, node=node, verb="attach")
    # --overlap and no separate memory: the ranks keep all that they have.
    inner = sh(
        "cd\nexec srun --jobid={id} --overlap --pty --nodes=1 --ntasks=1 --mem-per-cpu=0 "
        '--nodelist={node} "${{SHELL:-/bin/bash}}" -l',
        id=job.id,
        node=name,
    )
    return as_user(user, inner)


async def running_on(
    fleet: Fleet, controller: str, ref: str, *, user: str, node: str, verb: str
) -> tuple[Job, str]:
    """A running job of a user, and a node of it.

    Args:
        fleet: the cluster's machines.
        controller: the node that runs slurmctld.
        ref: the job, or a part of an array.
        user: whose it must be.
        node: one of its nodes; "" for its first.
        verb: the command, as hints repeat it.

    Raises:
        CorralError: USAGE, no job has such a number, or it is an array, or another user's;
            NOT_FOUND, no such job, or not on that node; NOT_GOOD, it is not running.
    """
    if not _REF.fullmatch(ref):
        raise CorralError(
            Code.USAGE, f"{ref!r} is not a job number", hint="12, or 12_3 for a part of an array"
        )
    question = in_unix_times(job_queue(f"m{secrets.token_hex(8)}", "--states=all", f"--jobs={ref}"))
    result = await fleet.run(controller, question.shell, timeout=60)
    if "Invalid job id" in result.stderr:  # slurmctld knows it no more
        raise CorralError(
            Code.NOT_FOUND,
            f"no job {ref} is running",
            hint="corral jobs lists those that are; corral jobs --all those that ended",
        )
    check(result, "asking Slurm for the job", hint="is slurmctld up? see corral status")
    job = _running(question.parse(result.stdout), ref, user, verb)
    names = expand(job.nodes)
    if node and node not in names:
        raise CorralError(
            Code.NOT_FOUND, f"job {ref} does not run on {node}", hint=f"it runs on {job.nodes}"
        )
    return job, node or names[0]


def _running(jobs: Sequence[Job], ref: str, user: str, verb: str) -> Job:
    """The one job that is running.

    Raises:
        CorralError: none of them is running, there are several, or it is another user's.
    """
    if not jobs:
        raise CorralError(Code.NOT_FOUND, f"no job {ref}", hint="corral jobs lists all")
    job = jobs[0]
    if job.user != user:
        raise CorralError(
            Code.USAGE,
            f"job {ref} is {job.user}'s, not {user}'s",
            hint=f"corral {verb} --user {job.user} {ref}, if you may act for {job.user}",
        )
    if len(jobs) > 1 or (job.label != ref and "_" in job.label):
        part = next((each.label for each in jobs if each.running), f"{ref}_0")
        raise CorralError(
            Code.USAGE, f"job {ref} is an array", hint=f"name one part: corral {verb} {part}"
        )
    if not job.running:
        why = f" ({job.reason})" if job.reason else ""
        later = "it has ended" if job.ended else f"corral logs {ref} --follow shows when it starts"
        raise CorralError(
            Code.NOT_GOOD, f"job {ref} is not running but {job.state}{why}", hint=later
        )
    return job


async def _fitting(
    fleet: Fleet, controller: str, spec: ClusterSpec, job: JobSpec
) -> tuple[Node, ...]:
    refuse(against_spec(job, spec))
    bare = job.model_copy(update={"data": (), "workdir": None})
    seen = await ask(
        fleet,
        controller,
        bare,
        user=user_of(job, spec),
        mount=spec.storage[0].mount,
        manifest=None,
        script=False,
    )
    nodes = nodes_for(job, partition_name(job, spec), seen.nodes)
    refuse(against_nodes(job, partition_name(job, spec), nodes))
    return nodes
