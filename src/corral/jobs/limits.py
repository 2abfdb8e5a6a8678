"""What a job cannot have, checked before it is submitted, with the nearest thing that works. Pure.

Slurm itself accepts a job over its partition's time limit and leaves it pending forever
(``PartitionTimeLimit``), and one for too many nodes it refuses without reporting the number.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from corral.errors import Code, CorralError
from corral.jobs.model import JobSpec, seconds_of
from corral.slurm import duration
from corral.slurm.gpus import of_type
from corral.slurm.records import Node
from corral.spec.hostlist import expand
from corral.spec.models import ClusterSpec, NodeGroup, Partition
from corral.spec.nodes import partitions_of, users_of

_SHOWN: Final = 5
_LONGEST_GRACE: Final = 65535  # sbatch --signal holds the time in 16 bits
UNPACKING_MIB: Final = 1024
"""Least memory of a job in a container: enroot unpacks the image inside of the job, and unsquashfs
keeps up to 512 MiB for any (4.6, with enroot 4.1.2: of 1.3 GB 400M was killed, 600M enough)."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason why a job cannot run as asked, and what to write instead."""

    reason: str
    instead: str


def refuse(refusals: Sequence[Refusal]) -> None:
    """Raise all refusals as one error; nothing happens when there are none.

    Raises:
        CorralError: USAGE.
    """
    if refusals:
        raise CorralError(
            Code.USAGE,
            "the job cannot run as asked: " + "; ".join(r.reason for r in refusals),
            hint="; ".join(dict.fromkeys(r.instead for r in refusals)),
        )


def user_of(job: JobSpec, spec: ClusterSpec) -> str:
    """Who the job runs as."""
    return job.user or users_of(spec)[0].name


def partition_of(job: JobSpec, spec: ClusterSpec) -> Partition | None:
    """The job's partition: the one named, else the default one; None for an unknown name."""
    every = partitions_of(spec)
    if job.partition is not None:
        return next((p for p in every if p.name == job.partition), None)
    return next((p for p in every if p.default), every[0])


def gpus_left_out(job: JobSpec, spec: ClusterSpec) -> JobSpec:
    """The job; a sweep without GPUs given gets one per point where there are any."""
    if not job.sweep or "gpus_per_node" in job.model_fields_set:
        return job
    partition = partition_of(job, spec)
    groups = [g for g in spec.groups if partition is not None and g.name in partition.groups]
    some = any(_gpus(group, job.gpu_type) for group in groups)
    return job.model_copy(update={"gpus_per_node": 1}) if some else job


def against_spec(job: JobSpec, spec: ClusterSpec) -> list[Refusal]:
    """What the cluster file alone rules out."""
    refusals: list[Refusal] = []
    users = [user.name for user in users_of(spec)]
    if user_of(job, spec) not in users:
        refusals.append(
            Refusal(f"no user called {job.user}", _one_of("user", job.user or "", users))
        )
    if not spec.storage:
        refusals.append(
            Refusal(
                "the cluster has no shared storage for the job's files",
                "declare a folder all nodes share under storage: in the cluster file, then apply",
            )
        )
    partition = partition_of(job, spec)
    if partition is None:
        names = [p.name for p in partitions_of(spec)]
        hint = _one_of("partition", job.partition or "", names)
        return [*refusals, Refusal(f"no partition called {job.partition}", hint)]
    return [*refusals, *_time(job, partition), *_machines(job, partition, spec)]


def nearest(path: str, above: str, names: Sequence[str]) -> str:
    """What to write instead of a path that is not there.

    Args:
        path: the path asked for.
        above: the nearest folder above it that is there.
        names: what that folder holds.
    """
    missing = PurePosixPath(path).relative_to(above).parts[0]
    close = difflib.get_close_matches(missing, names, 1)
    if close:
        return f"did you mean {PurePosixPath(above) / close[0]}?"
    shown = ", ".join(sorted(names)[:_SHOWN])
    return f"{above} holds {shown}" if shown else f"{above} is empty"


def against_array(job: JobSpec, most: int | None) -> list[Refusal]:
    """What Slurm's MaxArraySize rules out; ``most`` is None when it is not known."""
    if most is None or not job.tasks or max(job.tasks) < most:
        return []
    return [
        Refusal(
            f"the array's highest number is {max(job.tasks)}, Slurm's MaxArraySize is {most}",
            f"{most} points are the most of one array: split the sweep, or raise MaxArraySize",
        )
    ]


def against_image(job: JobSpec, spec: ClusterSpec) -> list[Refusal]:
    """What the cluster file rules out for a job in a container."""
    if job.container is None or spec.software.containers == "pyxis":
        return []
    return [without_pyxis(job)]


def without_pyxis(job: JobSpec) -> Refusal:
    """Why a job cannot run in a container, and what can be used instead."""
    return Refusal(
        f"image {job.container} needs Pyxis, which this cluster has not",
        "leave out --container: a uv.lock or pinned requirements.txt becomes an environment on "
        "shared storage; or declare software: {containers: pyxis} and corral apply "
        "(docs/guide/containers.md)",
    )


def _time(job: JobSpec, partition: Partition) -> Iterable[Refusal]:
    longest = duration.seconds(duration.max_time(partition.max_time))
    if job.requeue and seconds_of(job.grace) > _LONGEST_GRACE:
        yield Refusal(f"a grace of {job.grace} is longer than Slurm takes", "--grace 18h at most")
    if job.requeue and job.seconds is not None and job.seconds <= seconds_of(job.grace):
        yield Refusal(
            f"{job.time} is no longer than the {job.grace} that ranks get to save and leave",
            "a longer --time, or a shorter --grace",
        )
    if longest is not None and (job.seconds or 0) > longest:
        yield Refusal(
            f"{job.time} is longer than partition {partition.name} allows",
            f"--time {duration.clock(longest)} is the longest",
        )


def _machines(job: JobSpec, partition: Partition, spec: ClusterSpec) -> Iterable[Refusal]:
    groups = [group for group in spec.groups if group.name in partition.groups]
    fitting = [group for group in groups if _gpus(group, job.gpu_type) >= job.gpus_per_node]
    if not fitting:
        kind = f" of type {job.gpu_type}" if job.gpu_type else ""
        yield Refusal(
            f"no node of partition {partition.name} has {job.gpus_per_node} GPUs{kind}",
            _other_gpus(job, groups, partition),
        )
        return
    count = sum(len(expand(group.nodes)) for group in fitting)
    if job.nodes > count:
        such = f" with {job.gpus_per_node} GPUs" if job.gpus_per_node else ""
        yield Refusal(
            f"{job.nodes} nodes{such} asked for, partition {partition.name} has {count}",
            f"--nodes {count} works",
        )


def _other_gpus(job: JobSpec, groups: Sequence[NodeGroup], partition: Partition) -> str:
    best = max((_gpus(group, job.gpu_type) for group in groups), default=0)
    if not best:
        kinds = sorted({group.gpu.type for group in groups if group.gpu})
        if kinds:
            return _one_of("GPU type", job.gpu_type or "", kinds)
        return f"leave out --gpus-per-node: partition {partition.name} has no GPUs"
    nodes = -(-job.nodes * job.gpus_per_node // best)
    having = sum(len(expand(g.nodes)) for g in groups if _gpus(g, job.gpu_type) >= best)
    if nodes <= having:
        return f"--nodes {nodes} --gpus-per-node {best} works, with {nodes * best} GPUs in all"
    return f"--nodes {having} --gpus-per-node {best} is the most there is"


def _gpus(group: NodeGroup, kind: str | None) -> int:
    if group.gpu is None or (kind is not None and group.gpu.type != kind):
        return 0
    return group.gpu.count


def _one_of(what: str, asked: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(asked, names, 1)
    return f"did you mean {close[0]}?" if close else f"{what}s are: {', '.join(names)}"


def nodes_for(job: JobSpec, partition: str, nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Nodes of the partition, as Slurm knows them, that have the GPUs the job asks for."""
    return tuple(
        node
        for node in nodes
        if partition in node.partitions and of_type(node.gres, job.gpu_type) >= job.gpus_per_node
    )


def cpus_per_rank(job: JobSpec, nodes: Sequence[Node]) -> int:
    """The CPUs asked for; else a GPU's fair share of the smallest node; else one."""
    if job.cpus_per_rank is not None:
        return job.cpus_per_rank
    if not job.gpus_per_node or not nodes:
        return 1
    share = min(node.cpus // max(1, of_type(node.gres, job.gpu_type)) for node in nodes)
    return max(1, share * job.gpus_per_node // job.ranks_on_node)


def memory_share(job: JobSpec, nodes: Sequence[Node]) -> str:
    """The memory asked for; else the share that goes with the job's CPUs or GPUs of a node.

    Slurm gives a job that names no memory all of its nodes' (where no DefMemPerCPU is set), and no
    second job then fits on the node. A job in a container gets no less than its image needs to be
    unpacked. "" when nothing is known of the nodes.
    """
    if job.mem is not None or not nodes:
        return job.mem or ""
    cpus = cpus_per_rank(job, nodes) * job.ranks_on_node
    shares: list[int] = []
    for node in nodes:
        gpus = of_type(node.gres, job.gpu_type)
        part = max(cpus / max(1, node.cpus), job.gpus_per_node / gpus if gpus else 0.0)
        least = min(UNPACKING_MIB, node.memory) if job.container else 0
        shares.append(max(least, int(node.memory * min(1.0, part))))
    return f"{max(1, min(shares))}M"


def against_nodes(job: JobSpec, partition: str, nodes: Sequence[Node]) -> list[Refusal]:
    """What Slurm's own view of the fitting nodes rules out: CPUs, memory, nodes that are down."""
    cpus = cpus_per_rank(job, nodes) * job.ranks_on_node
    memory = _mib(job.mem)
    refusals: list[Refusal] = []
    most_cpus = sorted((node.cpus for node in nodes), reverse=True)[: job.nodes]
    most_memory = sorted((node.memory for node in nodes), reverse=True)[: job.nodes]
    if most_cpus and cpus > most_cpus[-1]:
        per_rank = most_cpus[-1] // job.ranks_on_node
        refusals.append(
            Refusal(
                f"{cpus} CPUs on each node asked for, nodes of partition {partition} have "
                f"{most_cpus[-1]}",
                f"--cpus-per-rank {per_rank} works"
                if per_rank
                else f"--ranks-per-node {most_cpus[-1]} works",
            )
        )
    if most_memory and memory > most_memory[-1]:
        refusals.append(
            Refusal(
                f"{job.mem} of memory on each node asked for, nodes of partition {partition} have "
                f"{most_memory[-1]} MiB",
                f"--mem {most_memory[-1]}M works",
            )
        )
    down = [node for node in nodes if node.state.broken]
    if not refusals and len(nodes) - len(down) < job.nodes:
        names = ", ".join(f"{node.name} ({node.reason or node.state})" for node in down[:5])
        refusals.append(
            Refusal(
                f"{job.nodes} nodes asked for, {len(nodes) - len(down)} of partition {partition} "
                f"are up; not up: {names or 'none known to Slurm'}",
                "corral doctor explains why a node is down; corral apply brings it back",
            )
        )
    return refusals


def _mib(mem: str | None) -> int:
    return int(mem[:-1]) << {"M": 0, "G": 10, "T": 20}[mem[-1]] if mem else 0
