"""What limits of user, account and QOS allow a job that is not yet submitted, or is pending. Pure.

``sbatch --test-only`` ignores them (Slurm 24.11.5), and Slurm leaves a job that alone is beyond one
pending for ever: ``AssocGrpGRES``, ``QOSMaxCpuPerUserLimit``. With ``DenyOnLimit`` it refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from corral import durations
from corral.jobs.limits import Refusal, cpus_per_rank, memory_share
from corral.jobs.model import JobSpec
from corral.slurm.array_tasks import array_tasks, without_limit
from corral.slurm.directives import nodes_of
from corral.slurm.records import Job, Node
from corral.slurm.states.reasons import by_limit
from corral.slurm.tres import Request, counts, listed, memory_option, mib, named

_COUNT: Final = re.compile(r"[0-9]{1,9}")
GPU: Final = "gres/gpu"
WALL: Final = "wall"
JOBS: Final = "jobs"
SUBMITTED: Final = "submitted"
MOST_TASKS: Final = 100_000
"""Of an array whose tasks overlap: they are made to be counted."""
_FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        GPU: "gpus_per_node",
        "cpu": "cpus_per_rank",
        "mem": "mem",
        "node": "nodes",
        WALL: "time",
        SUBMITTED: "array",
    }
)
_UNITS: Final[Mapping[str, str]] = MappingProxyType(
    {GPU: "GPU", "cpu": "CPU", "node": "node", JOBS: "running job", SUBMITTED: "job"}
)


@dataclass(frozen=True, slots=True)
class Allowance:
    """One limit that holds for a job.

    Attributes:
        of: whose it is, in words.
        name: as sacctmgr(1) writes it.
        resource: ``gres/gpu``, ``cpu``, ``mem`` in MiB, ``node``, ``wall`` in seconds; ``jobs``
            that run, ``submitted`` those and the pending ones.
        most: how much.
        used: by the jobs that count against it; None where that is unknown, or it is of each job.
    """

    of: str
    name: str
    resource: str
    most: int
    used: int | None = None


_ABOUT: Final = (
    ("Minutes", ""),
    ("GrpWall", ""),
    ("GRES", "gres/"),
    ("Cpu", "cpu"),
    ("Mem", "mem"),
    ("Node", "node"),
    ("MaxWall", WALL),
)
"""Of the words of Slurm's reasons (job_reason_string, 24.11) what each is about, the first that
fits; "" for what is used up over time."""


def amount(resource: str, count: int) -> str:
    """How much of a resource, in words."""
    if resource == WALL:
        return durations.clock(count)
    if resource == "mem":
        return f"{count} MiB of memory" if count % 1024 else f"{count // 1024} GiB of memory"
    unit = _UNITS.get(resource, resource.removeprefix("gres/"))
    return f"{count} {unit}{'' if count == 1 else 's'}"


def beyond(demand: Mapping[str, int], allowances: Iterable[Allowance]) -> list[Allowance]:
    """The limits that the job alone exceeds, of each resource the tightest."""
    tightest = dict[str, Allowance]()
    for each in allowances:
        if demand.get(each.resource, 0) > each.most:
            known = tightest.get(each.resource)
            if known is None or each.most < known.most:
                tightest[each.resource] = each
    return list(tightest.values())


def waits_for(demand: Mapping[str, int], allowances: Iterable[Allowance]) -> str:
    """What of a limit must become free before the job starts, in words; "" for nothing."""
    for each in allowances:
        needs, used = demand.get(each.resource, 0), each.used
        if used is None or each.resource == SUBMITTED or not needs:
            continue
        if needs <= each.most < used + needs:
            have = f"{used} of {amount(each.resource, each.most)} in use, {each.name}"
            verb = "is" if needs == 1 else "are"
            return f"{amount(each.resource, needs)} of {each.of} {verb} free ({have})"
    return ""


def against_allowances(demand: Mapping[str, int], allowances: Iterable[Allowance]) -> list[Refusal]:
    """The limits that the job alone exceeds, as reasons why it cannot run."""
    return [
        Refusal(
            f"{amount(each.resource, demand[each.resource])} asked for, {each.of} may have "
            f"{amount(each.resource, each.most)} ({each.name})",
            "Slurm would leave it pending: ask for less, or for a higher limit",
            _FIELDS.get(each.resource, ""),
        )
        for each in beyond(demand, allowances)
    ]


def why_never(job: Job, allowances: Sequence[Allowance]) -> str:
    """Why a pending job cannot start as long as a limit is as it is; "" where it can.

    Only limits on what Slurm's reason is about count: it may exceed others, too.
    """
    about = next((what for word, what in _ABOUT if word in job.reason), "")
    if not (job.waiting and by_limit(job.reason) and about):
        return ""
    allowances = [each for each in allowances if each.resource.startswith(about)]
    wants = {WALL: job.limit or 0, GPU: job.gpus or 0, **counts(job.tres_asked)}
    for each in beyond(wants, allowances):
        demanded = amount(each.resource, wants[each.resource])
        most = amount(each.resource, each.most)
        return (
            f"it asks for {demanded}, and {each.of} may have {most} ({each.name}): it cannot start "
            "unless it asks for less or the limit is raised"
        )
    return ""


def demand_of(job: JobSpec, nodes: Sequence[Node]) -> dict[str, int]:
    """What a job of ``corral run`` or the form asks for.

    Args:
        job: the job.
        nodes: those that it may get, as ``limits.nodes_for`` has them.
    """
    wants = {
        "node": job.nodes,
        GPU: job.gpus_per_node * job.nodes,
        "cpu": cpus_per_rank(job, nodes) * job.ranks_on_node * job.nodes,
        "mem": int(mib(memory_share(job, nodes)) or 0) * job.nodes,
        WALL: job.seconds or 0,
        JOBS: 1,
        SUBMITTED: len(job.tasks) or 1,
    }
    return _at_least(wants, _of_nodes(job.nodes, nodes)) if job.exclusive else wants


def demand_of_options(options: Mapping[str, str], nodes: Sequence[Node]) -> dict[str, int]:
    """The least that options of sbatch ask for.

    Args:
        options: by their long names; those of the command line win over those of the script.
        nodes: those of its partition.
    """
    few = nodes_of(options.get("nodes", ""))
    count = few[0] if few else 1
    tasks = _number(options, "ntasks") or _number(options, "ntasks-per-node") * count
    tasks = max(tasks, count)
    per_node = named(options["gpus-per-node"], "gres/gpu:") if "gpus-per-node" in options else None
    ask = Request(
        per_job=named(options["gpus"], "gres/gpu:") or "" if "gpus" in options else "",
        per_node=per_node or named(options.get("gres", "")) or "",
        per_task=named(options["gpus-per-task"], "gres/gpu:") or ""
        if "gpus-per-task" in options
        else "",
        nodes=count,
        tasks=tasks,
    )
    cpus = tasks * (_number(options, "cpus-per-task") or 1)
    each = memory_option(options.get("mem", "")) or 0
    listed_tasks, _ = without_limit(options.get("array", ""))
    total = array_tasks(listed_tasks).total(MOST_TASKS) if listed_tasks else 1
    wants = {
        "node": count,
        GPU: ask.gpus().count,
        "cpu": cpus,
        "mem": int(each * count or (memory_option(options.get("mem-per-cpu", "")) or 0) * cpus),
        WALL: durations.seconds(options.get("time", "")) or 0,
        JOBS: 1,
        SUBMITTED: total or 1,
    }
    if "exclusive" not in options or options["exclusive"] not in ("", "exclusive"):
        return wants
    fitting = [node for node in nodes if node.gpus >= (listed(ask.per_node) or 0)]
    return _at_least(wants, _of_nodes(count, fitting))


def _at_least(wants: dict[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return wants | {name: max(wants[name], count) for name, count in more.items()}


def _of_nodes(count: int, nodes: Sequence[Node]) -> dict[str, int]:
    """What the smallest of some nodes have: a job that has them alone has all of it."""
    parts = {GPU: [n.gpus for n in nodes], "cpu": [n.cpus for n in nodes]}
    return {name: sum(sorted(each)[:count]) for name, each in parts.items()}


def _number(options: Mapping[str, str], name: str) -> int:
    text = options.get(name, "")
    return int(text) if _COUNT.fullmatch(text) else 0
