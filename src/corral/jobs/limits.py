"""What a job cannot have: by the cluster file, and by one query of the cluster. Pure.

Slurm itself accepts a job over its partition's time limit and leaves it pending forever
(``PartitionTimeLimit``), and one for too many nodes it refuses without reporting the number.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Final

from corral import durations
from corral.errors import Code, CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.framing import Inquiry
from corral.hosts.quote import NOTHING, Script, sh
from corral.hosts.transport import check
from corral.inspect.question import Answer, Answers, inquiry
from corral.inspect.slurm import (
    ARRAY_SIZE,
    ENFORCED,
    NODES,
    PYXIS,
    QOS,
    associations_of,
    strictly,
)
from corral.inspect.storage import USER_THERE, UnreadPath, unread_paths, user_and_storage
from corral.jobs.follow import as_user
from corral.jobs.model import JobSpec, seconds_of
from corral.jobs.upload.archive import ask_script, names_asked
from corral.jobs.upload.manifest import Manifest
from corral.jobs.upload.user_folder import JOBS, user_folder
from corral.slurm.records import Association, Node
from corral.slurm.tres import mib, of_type
from corral.spec.models import ClusterSpec, NodeGroup, Partition
from corral.spec.nodes import partitions_of, users_of
from corral.spec.sections.tailnet import mesh_of
from corral.spec.slurm.hostlist import expand, fold

_SHOWN: Final = 5
_LONGEST_GRACE: Final = 65535  # sbatch --signal holds the time in 16 bits
UNPACKING_MIB: Final = 1024
"""Least memory of a job in a container: enroot unpacks the image inside of the job, and unsquashfs
keeps up to 512 MiB for any (4.6, with enroot 4.1.2: of 1.3 GB 400M was killed, 600M enough)."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason why a job cannot run as asked, and what to write instead.

    Attributes:
        field: of the job, that it is about; "" for none alone.
    """

    reason: str
    instead: str
    field: str = ""


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
            fields={r.field: f"{r.reason}: {r.instead}" for r in refusals if r.field},
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


def partition_name(job: JobSpec, spec: ClusterSpec) -> str:
    """The name of the job's partition; of the first one where it names none that is there."""
    partition = partition_of(job, spec)
    return partition.name if partition else partitions_of(spec)[0].name


def preemption_note(job: JobSpec, spec: ClusterSpec) -> str:
    """What becomes of the job when others preempt it; "" where none may, or it then starts again.

    Slurm requeues a preempted job only where the job itself may be requeued (slurm.conf(5),
    PreemptMode); Corral's may be with ``requeue`` alone. Slurm preempts by partition or by QOS.
    """
    partition = partition_of(job, spec)
    if partition is not None and partition.preempt_mode != "off":
        where, again = f"partition {partition.name}", partition.preempt_mode == "requeue"
    else:
        name = job.qos or _default_qos(job, spec)
        if not any(name in qos.preempts for qos in spec.qos):
            return ""
        where, again = f"QOS {name}", True
    if not again:
        return f"jobs of {where} may be preempted, which ends them: submit this one again then"
    if job.requeue:
        return ""
    return f"jobs of {where} may be preempted: this one then ends; --requeue starts it again"


def _default_qos(job: JobSpec, spec: ClusterSpec) -> str:
    """The QOS of a job that names none, as far as the file has it: a profile does not know it."""
    user = next((u for u in users_of(spec) if u.name == user_of(job, spec)), None)
    if user is not None and user.qos and job.account in (None, user.account):
        return user.qos
    name = job.account or (user.account if user is not None else None)
    account = next((a for a in spec.accounts if a.name == name), None)
    return account.qos[0] if account is not None and account.qos else ""


def gpus_left_out(job: JobSpec, spec: ClusterSpec, *, unasked: bool = False) -> JobSpec:
    """The job; with no number of GPUs a sweep, or any if ``unasked``, gets one where it can."""
    given = "gpus_per_node" in job.model_fields_set or job.shares_gpu
    if given or not (job.sweep or unasked):
        return job
    partition = partition_of(job, spec)
    groups = [g for g in spec.groups if partition is not None and g.name in partition.groups]
    some = any(_gpus(group, job.gpu_type) for group in groups)
    return job.model_copy(update={"gpus_per_node": 1}) if some else job


def against_spec(job: JobSpec, spec: ClusterSpec, *, user_known: bool = False) -> list[Refusal]:
    """What the cluster file alone rules out.

    Args:
        job: the job.
        spec: the cluster.
        user_known: the cluster knows the job's user, whom the file need not name: a directory may.
    """
    refusals: list[Refusal] = []
    users = [user.name for user in users_of(spec)]
    if not user_known and user_of(job, spec) not in users:
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
        return [*refusals, Refusal(f"no partition called {job.partition}", hint, "partition")]
    named = _named(job, partition, spec)
    refusals += [*_closed(partition, spec), *_time(job, partition), *_size(job, partition)]
    refusals += _licenses(job, spec)
    if alone := apart(job, spec):
        refusals.append(pods_apart(job, alone))
    return [*refusals, *(named or _machines(job, partition, spec))]


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
    longest = durations.seconds(durations.max_time(partition.max_time))
    if job.requeue and seconds_of(job.grace) > _LONGEST_GRACE:
        reason = f"a grace of {job.grace} is longer than Slurm takes"
        yield Refusal(reason, "--grace 18h at most", "grace")
    if job.requeue and job.seconds is not None and job.seconds <= seconds_of(job.grace):
        yield Refusal(
            f"{job.time} is no longer than the {job.grace} that ranks get to save and leave",
            "a longer --time, or a shorter --grace",
            "time",
        )
    if longest is not None and (job.seconds or 0) > longest:
        yield Refusal(
            f"{job.time} is longer than partition {partition.name} allows",
            f"--time {durations.clock(longest)} is the longest",
            "time",
        )


def _closed(partition: Partition, spec: ClusterSpec) -> Iterable[Refusal]:
    if partition.state in ("drain", "inactive"):
        others = [p.name for p in partitions_of(spec) if p.state == "up"]
        hint = f"partitions that do: {', '.join(others)}" if others else "wait until one is up"
        yield Refusal(
            f"partition {partition.name} takes no jobs: its state is {partition.state}",
            hint,
            "partition",
        )


def _licenses(job: JobSpec, spec: ClusterSpec) -> Iterable[Refusal]:
    """Licences that the file does not declare, or fewer of them; those of a server have an @."""
    declared = {each.name: each.count for each in spec.licenses}
    for each in (job.licenses or "").split(",") if declared else ():
        name, _, number = each.partition(":")
        if not name or "@" in name:
            continue
        if name not in declared:
            hint = _one_of("licence", name, [*declared])
            yield Refusal(f"no licence called {name}", hint, "licenses")
        elif int(number or 1) > declared[name]:
            yield Refusal(
                f"{number} licences of {name} asked for, the cluster has {declared[name]}",
                f"--licenses {name}:{declared[name]} works",
                "licenses",
            )


def _size(job: JobSpec, partition: Partition) -> Iterable[Refusal]:
    """More or fewer nodes than the partition takes."""
    if partition.max_nodes is not None and job.nodes > partition.max_nodes:
        yield Refusal(
            f"{job.nodes} nodes asked for, a job in partition {partition.name} has "
            f"{partition.max_nodes} at most",
            f"--nodes {partition.max_nodes}, or another partition",
            "nodes",
        )
    if partition.min_nodes is not None and job.nodes < partition.min_nodes:
        yield Refusal(
            f"{job.nodes} nodes asked for, a job in partition {partition.name} has "
            f"{partition.min_nodes} at least",
            f"--nodes {partition.min_nodes}, or another partition",
            "nodes",
        )


def _machines(job: JobSpec, partition: Partition, spec: ClusterSpec) -> Iterable[Refusal]:
    groups = [group for group in spec.groups if group.name in partition.groups]
    fitting = [group for group in groups if _gpus(group, job.gpu_type) >= job.gpus_per_node]
    if not fitting:
        kind = f" of type {job.gpu_type}" if job.gpu_type else ""
        yield Refusal(
            f"no node of partition {partition.name} has {job.gpus_per_node} GPUs{kind}",
            _other_gpus(job, groups, partition),
            "gpus_per_node",
        )
        return
    excluded = _hosts(job.exclude)
    count = sum(name not in excluded for group in fitting for name in expand(group.nodes))
    if job.nodes > count:
        such = f" with {job.gpus_per_node} GPUs" if job.gpus_per_node else ""
        left = " without those excluded" if excluded else ""
        yield Refusal(
            f"{job.nodes} nodes{such} asked for, partition {partition.name} has {count}{left}",
            f"--nodes {count} works" if count else "exclude fewer nodes",
            "nodes" if count else "exclude",
        )


def apart(job: JobSpec, spec: ClusterSpec) -> NodeGroup | None:
    """The group of single pods for which no other nodes are left: each runs jobs of one node.

    None where the job fits on one island of the mesh, as far as the cluster file shows.
    """
    partition = partition_of(job, spec)
    mesh = mesh_of(spec)
    if partition is None or mesh is None or job.nodes == 1:
        return None
    groups = [g for g in spec.groups if g.name in partition.groups]
    fitting = [g for g in groups if _gpus(g, job.gpu_type) >= job.gpus_per_node]
    alone = [g for g in fitting if _pods(g) and not (g.cloud and g.cloud.cluster)]
    island_of = {name: each.name for each in mesh.islands for name in each.groups}
    sizes: dict[str, int] = {}
    for group in fitting:
        if group in alone:
            continue
        joined = mesh.jobs == "across-islands" and not _pods(group)
        name = "" if joined else island_of.get(group.name, group.name)
        sizes[name] = sizes.get(name, 0) + len(expand(group.nodes))
    return alone[0] if alone and job.nodes > max(sizes.values(), default=0) else None


def _pods(group: NodeGroup) -> bool:
    return bool(group.capabilities.rental and group.capabilities.rental.pods)


def pods_apart(job: JobSpec, group: NodeGroup) -> Refusal:
    """Why a job of several nodes cannot run on single pods, and what can."""
    return Refusal(
        f"{job.nodes} nodes asked for, and each pod of group {group.name} runs jobs of one node: a "
        "pod has neither TUN nor UDP, and NCCL and gloo do not speak the tailnet's SOCKS",
        f"--nodes 1 works, with all GPUs of a pod; or declare cloud: {{cluster: true}} for "
        f"{group.name}: its pods then have a network of their cloud",
    )


def _hosts(hostlist: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(expand(hostlist))) if hostlist else ()


def _named(job: JobSpec, partition: Partition, spec: ClusterSpec) -> list[Refusal]:
    """What the names in ``nodelist`` and ``exclude`` rule out."""
    required, excluded = _hosts(job.nodelist), _hosts(job.exclude)
    if not required and not excluded:
        return []
    group_of = {name: group for group in spec.groups for name in expand(group.nodes)}
    if unknown := [name for name in (*required, *excluded) if name not in group_of]:
        everything = ", ".join(group.nodes for group in spec.groups)
        close = difflib.get_close_matches(unknown[0], group_of, 1)
        hint = f"did you mean {close[0]}?" if close else f"nodes are: {everything}"
        return [Refusal(f"no node called {unknown[0]}", hint)]
    refusals: list[Refusal] = []
    if both := [name for name in required if name in excluded]:
        refusals.append(
            Refusal(
                f"{fold(both)} is required and excluded", "name it in one of --nodelist, --exclude"
            )
        )
    if away := [name for name in required if group_of[name].name not in partition.groups]:
        refusals.append(
            Refusal(
                f"{fold(away)} is not in partition {partition.name}",
                f"its nodes are: {_nodes_of(partition, spec)}",
            )
        )
    elif short := [n for n in required if _gpus(group_of[n], job.gpu_type) < job.gpus_per_node]:
        kind = f" of type {job.gpu_type}" if job.gpu_type else ""
        has = _gpus(group_of[short[0]], job.gpu_type)
        refusals.append(
            Refusal(
                f"{fold(short)} has no {job.gpus_per_node} GPUs{kind}",
                f"--gpus-per-node {has} works" if has else "leave out --gpus-per-node",
            )
        )
    if len(required) > job.nodes:
        refusals.append(
            Refusal(
                f"{len(required)} nodes required by name, {job.nodes} asked for",
                f"--nodes {len(required)} works",
            )
        )
    return refusals


def _nodes_of(partition: Partition, spec: ClusterSpec) -> str:
    return ", ".join(group.nodes for group in spec.groups if group.name in partition.groups)


def _other_gpus(job: JobSpec, groups: Sequence[NodeGroup], partition: Partition) -> str:
    best = max((_gpus(group, job.gpu_type) for group in groups), default=0)
    if not best:
        kinds = sorted({gpu.type for group in groups for gpu in group.gpu_kinds})
        if kinds:
            return _one_of("GPU type", job.gpu_type or "", kinds)
        return f"leave out --gpus-per-node: partition {partition.name} has no GPUs"
    nodes = -(-job.nodes * job.gpus_per_node // best)
    having = sum(len(expand(g.nodes)) for g in groups if _gpus(g, job.gpu_type) >= best)
    if nodes <= having:
        return f"--nodes {nodes} --gpus-per-node {best} works, with {nodes * best} GPUs in all"
    return f"--nodes {having} --gpus-per-node {best} is the most there is"


def _gpus(group: NodeGroup, kind: str | None) -> int:
    return sum(gpu.count for gpu in group.gpu_kinds if kind is None or gpu.type == kind)


def _one_of(what: str, asked: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(asked, names, 1)
    return f"did you mean {close[0]}?" if close else f"{_plural(what)} are: {', '.join(names)}"


def _plural(what: str) -> str:
    return what if what == "QOS" else f"{what}s"


def nodes_for(job: JobSpec, partition: str, nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Nodes that the job may get, as Slurm knows them: of the partition, with the GPUs it asks for.

    Those that it excludes are not among them; where it names all of its nodes, no others are.
    """
    required, excluded = set(_hosts(job.nodelist)), set(_hosts(job.exclude))
    return tuple(
        node
        for node in nodes
        if partition in node.partitions
        and of_type(node.gres, job.gpu_type) >= job.gpus_per_node
        and node.name not in excluded
        and (len(required) < job.nodes or node.name in required)
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
    unpacked. An exclusive job gets all (--mem=0): nobody else can use it. "" when nothing is known
    of the nodes.
    """
    if job.mem is not None or job.exclusive:
        return job.mem or "0"
    if not nodes:
        return ""
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
    memory = int(mib(job.mem or "") or 0)
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
                "cpus_per_rank" if per_rank else "ranks_per_node",
            )
        )
    if most_memory and memory > most_memory[-1]:
        refusals.append(
            Refusal(
                f"{job.mem} of memory on each node asked for, nodes of partition {partition} have "
                f"{most_memory[-1]} MiB",
                f"--mem {most_memory[-1]}M works",
                "mem",
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
                "nodes",
            )
        )
    return refusals


_APPLY: Final = "corral apply corrects it"

_CONTENTS: Final = Answer("contents", str.splitlines)


@dataclass(frozen=True, slots=True)
class Rights:
    """What accounting allows a user; without accounting all are empty.

    Attributes:
        enforced: AccountingStorageEnforce.
        associations: the user's accounts, each with its QOS.
        qos: names of all QOS.
    """

    enforced: frozenset[str] = frozenset()
    associations: tuple[Association, ...] = ()
    qos: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SubmitAnswers:
    """What the cluster answered.

    Attributes:
        nodes: Slurm's nodes.
        lacking: contents that the user's store lacks, as ``upload.archive`` reads them.
        array_size: Slurm's MaxArraySize, None when it was not asked for.
    """

    nodes: tuple[Node, ...]
    lacking: tuple[str, ...] = ()
    array_size: int | None = None


async def ask(
    fleet: Fleet,
    controller: str,
    job: JobSpec,
    *,
    user: str,
    mount: str,
    manifest: Manifest | None,
    script: bool = True,
) -> SubmitAnswers:
    """Ask for user, storage, paths the job names, the store's contents and the nodes.

    Args:
        fleet: the cluster's machines.
        controller: where it is asked.
        job: the job.
        user: whose it is.
        mount: the shared storage.
        manifest: what is uploaded; None when the script is on shared storage.
        script: look for the script there.

    Raises:
        CorralError: USAGE, something the job names is not there; COMMAND_FAILED, Slurm is silent.
    """
    needed = _needed(job, mount, sent=manifest is not None or not script)
    asked = _questions(job, user, mount, needed, store=manifest is not None)
    stdin = names_asked(manifest) if manifest is not None else b""
    result = check(
        await fleet.run(controller, asked.script, stdin=stdin, timeout=120), "asking the controller"
    )
    sections = asked.read(result.stdout)
    texts = sections.require(asked.names, controller, "asking the controller")
    refuse(
        [
            *_missing(user_and_storage(user, mount).read(texts), user, controller, mount),
            *([without_pyxis(job)] if PYXIS.read(texts) else []),
            *_unread(unread_paths(tuple(needed)).read(texts), user, needed),
            *against_rights(job, user, _rights(user, texts)),
        ]
    )
    what = "asking which contents of the project are there"
    contents = sections.succeeded(_CONTENTS.name, controller, what, stderr=result.stderr)
    shown = sections.succeeded(
        NODES.name,
        controller,
        "asking Slurm for its nodes",
        hint="is slurmctld up? see corral status",
    )
    size = ARRAY_SIZE.read(texts)
    return SubmitAnswers(strictly(NODES).parse(shown), tuple(_CONTENTS.parse(contents)), size)


def _questions(
    job: JobSpec, user: str, mount: str, needed: Mapping[str, str], *, store: bool
) -> Inquiry:
    """What the controller is asked before a job is submitted."""
    charged = bool(job.account or job.qos)
    contents = ask_script(user_folder(mount, JOBS, user)) if store else NOTHING
    questions = (
        user_and_storage(user, mount),
        unread_paths(tuple(needed)).run_by(partial(_there, user)),
        _CONTENTS.by(_there(user, contents)),
        ARRAY_SIZE.only(when=bool(job.tasks)),
        PYXIS.only(when=bool(job.container)),
        ENFORCED.only(when=charged),
        associations_of(user).only(when=charged),
        QOS.only(when=charged),
        NODES,
    )
    return inquiry(questions, before=USER_THERE)


def _rights(user: str, answers: Answers) -> Rights:
    return Rights(
        ENFORCED.read(answers),
        associations_of(user).read(answers),
        tuple(QOS.read(answers)),
    )


def against_rights(job: JobSpec, user: str, rights: Rights) -> list[Refusal]:
    """Account and QOS that Slurm would refuse; none where it has no accounting.

    Args:
        job: the job.
        user: whose it is.
        rights: what accounting allows the user.
    """
    enforced, every = rights.enforced, rights.qos
    refusals: list[Refusal] = []
    accounts = list(dict.fromkeys(each.account for each in rights.associations))
    charged = (job.account or "").lower()
    if charged and accounts and "associations" in enforced and charged not in accounts:
        hint = _one_of(f"{user}'s account", charged, accounts)
        return [Refusal(f"{user} has no account {job.account}", hint, "account")]
    allowed = [
        name
        for each in rights.associations
        if not charged or each.account == charged
        for name in each.qos
    ]
    for name in (job.qos or "").lower().split(",") if every and job.qos else ():
        if name not in every:
            refusals.append(Refusal(f"no QOS called {name}", _one_of("QOS", name, every), "qos"))
        elif "qos" in enforced and allowed and name not in allowed:
            hint = f"{user} may ask for {', '.join(sorted(set(allowed)))}"
            refusals.append(Refusal(f"{user} may not ask for QOS {name}", hint, "qos"))
    return refusals


def _there(user: str, script: Script) -> Script:
    """The script as the user, where user and storage are there. Framed by root, from outside."""
    return (
        sh('[ -z "$there" ] || ( {script} )', script=as_user(user, script)) if script else NOTHING
    )


def _needed(job: JobSpec, mount: str, *, sent: bool) -> dict[str, str]:
    """Paths that must be there, and what each is to the job."""
    paths = {path: "data" for path in job.data}
    if job.workdir:
        paths[job.workdir] = "folder to run in"
    if not sent:
        paths[job.script] = "script"
    # Elsewhere it may be a folder of each node's own, which the controller need not have.
    if job.container and PurePosixPath(job.container).is_relative_to(mount):
        paths[job.container] = "image"
    if job.python and PurePosixPath(job.python).is_relative_to(mount):
        paths[job.python] = "Python"
    for source in (each.partition(":")[0] for each in job.mounts):
        if PurePosixPath(source).is_relative_to(mount):
            paths[source] = "folder to mount"
    return paths


def _missing(word: str, user: str, controller: str, mount: str) -> list[Refusal]:
    reasons = {
        "no-user": Refusal(f"user {user} does not exist on {controller}", _APPLY),
        "no-storage": Refusal(f"shared storage {mount} is not mounted on {controller}", _APPLY),
    }
    return [reasons[word]] if word in reasons else []


def _unread(paths: Iterable[UnreadPath], user: str, needed: Mapping[str, str]) -> Iterator[Refusal]:
    for each in paths:
        path, above, names = each.path, each.above, [*each.names]
        what = needed.get(path, "path")
        if above == path or path.removeprefix(f"{above.rstrip('/')}/") in names:
            yield Refusal(f"{what} {path} cannot be read by {user}", "chmod or chown it")
        else:
            reason = f"no {what} {path} that {user} can read on the cluster"
            yield Refusal(reason, nearest(path, above, names))
