"""What a job would get, before there is one; and a shell with the same resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from corral.errors import Code, CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.framing import Inquiry
from corral.hosts.quote import Script, join, sh
from corral.jobs import containers
from corral.jobs.containers import mounts_of
from corral.jobs.fabric import (
    Setting,
    declared,
    explain_script,
    parse_settings,
    rdma_of,
    settings,
)
from corral.jobs.follow import as_user
from corral.jobs.limits import (
    against_nodes,
    against_spec,
    cpus_per_rank,
    gpus_left_out,
    look,
    memory_share,
    nodes_for,
    partition_of,
    refuse,
    user_of,
)
from corral.jobs.model import JobSpec
from corral.jobs.script import Place
from corral.slurm.duration import clock
from corral.slurm.records import Node
from corral.spec.models import ClusterSpec
from corral.spec.nodes import partitions_of

# An image may have another shell than the user's.
_INSIDE: Final = "sh -c 'command -v bash >/dev/null && exec bash; exec sh'"


def shell_script(job: JobSpec, place: Place) -> Script:
    """``srun --pty`` for a login shell on the first node of what the job asks for.

    The shell has the entire allocation: srun in it starts ranks on all its nodes.
    """
    gpu = f"gpu:{job.gpu_type}" if job.gpu_type else "gpu"
    words: list[object] = [
        f"--job-name={job.name or 'shell'}",
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
    words += job.sbatch
    exports = [sh("export {name}={value}", name=k, value=v) for k, v in sorted(job.env.items())]
    # salloc holds the entire allocation; srun alone would take as many shells as tasks. Its own
    # LaunchParameters=use_interactive_step is not set everywhere.
    inner = sh(
        "cd\n{env}\nexec salloc --quiet {words} "
        "srun --pty --nodes=1 --ntasks=1 --cpus-per-task={cpus} --overlap --mem-per-cpu=0 "
        "{container}{shell}",
        env=join(exports),
        words=words,
        cpus=place.cpus_per_rank * job.ranks_on_node,
        container=join([containers.words(job, place.mounts), sh(" ")], ""),
        shell=sh(_INSIDE) if job.container else sh('"${{SHELL:-/bin/bash}}" -l'),
    )
    return inner


MOST_NODES = 64
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
    rows = as_user(user_of(job, spec), explain_script(first, job.env, setup))
    asked = Inquiry({"rows": sh("( {rows} )", rows=rows)})
    answers = await fleet.all(asked.script, names, timeout=60) if names else {}
    texts: dict[str, str] = {}
    for node, answer in answers.items():
        if not isinstance(answer, CorralError):
            section = asked.read(answer.stdout).get("rows")
            texts |= {node: section.text} if section and section.status == 0 else {}
    if not texts:
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
    )
    known = {setting.name for setting in rendezvous}
    return (*rendezvous, *(s for s in parse_settings(texts) if s.name not in known))


async def shell(fleet: Fleet, controller: str, spec: ClusterSpec, job: JobSpec) -> Script:
    """What gives the job's user a shell with the job's share of the cluster, run as root.

    Raises:
        CorralError: USAGE, it cannot be run.
    """
    nodes = await _fitting(fleet, controller, spec, job)
    place = Place(
        folder="",
        program="",
        partition=_partition(job, spec),
        cpus_per_rank=cpus_per_rank(job, nodes),
        mem=memory_share(job, nodes),
        mounts=mounts_of(job, [s.mount for s in spec.storage]),
    )
    return as_user(user_of(job, spec), shell_script(job, place))


async def _fitting(
    fleet: Fleet, controller: str, spec: ClusterSpec, job: JobSpec
) -> tuple[Node, ...]:
    refuse(against_spec(job, spec))
    bare = job.model_copy(update={"data": (), "workdir": None})
    seen = await look(
        fleet,
        controller,
        bare,
        user=user_of(job, spec),
        mount=spec.storage[0].mount,
        parcel=None,
        script=False,
    )
    nodes = nodes_for(job, _partition(job, spec), seen.nodes)
    refuse(against_nodes(job, _partition(job, spec), nodes))
    return nodes


def _partition(job: JobSpec, spec: ClusterSpec) -> str:
    partition = partition_of(job, spec)
    return partition.name if partition else partitions_of(spec)[0].name
