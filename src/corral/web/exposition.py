"""Nodes and jobs as Prometheus' text (exposition format 0.0.4). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from corral.slurm.records import Job, Node, Partition

MIB: Final = 1 << 20
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: its name, kind, help text, and its values by labels."""

    name: str
    kind: str
    about: str
    values: Mapping[Labels, float]


def text_of(families: Iterable[Family]) -> str:
    """The text that Prometheus reads."""
    lines: list[str] = []
    for family in families:
        if not family.values:
            continue
        lines += [f"# HELP {family.name} {family.about}", f"# TYPE {family.name} {family.kind}"]
        lines += [f"{family.name}{_labels(k)} {v:.15g}" for k, v in family.values.items()]
    return "\n".join([*lines, ""])


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def untracked(nodes: Iterable[Node], jobs: Iterable[Job]) -> bool:
    """Whether Slurm does not count GPUs among a job's resources.

    No running job has one, and nodes have some in use, or the answer does not show whether.
    Without accounting it cannot (slurmctld dies of ``AccountingStorageTRES=gres/gpu``); its JSON
    has them all the same.
    """
    running = any(job.gpus for job in jobs if job.running)
    return not running and any(node.gpus_used != 0 for node in nodes)


def families(
    nodes: Iterable[Node], jobs: Iterable[Job], partitions: Iterable[Partition]
) -> list[Family]:
    """What Slurm reports about nodes, jobs and partitions."""
    nodes, jobs = list(nodes), list(jobs)
    return [*_nodes(nodes), *_jobs(jobs), *_partitions(partitions)]


def _nodes(nodes: list[Node]) -> list[Family]:
    def each(name: str, about: str, values: list[float | None]) -> Family:
        named = zip(nodes, values, strict=True)
        by_labels = {(("node", n.name),): float(v) for n, v in named if v is not None}
        return Family(f"corral_node_{name}", "gauge", about, by_labels)

    states = Counter(str(node.state).lower() for node in nodes)
    drained = [n for n in nodes if n.state.drained and n.reason]
    return [
        Family(
            "corral_nodes",
            "gauge",
            "Nodes by Slurm's state.",
            {(("state", state),): count for state, count in sorted(states.items())},
        ),
        each("usable", "1: it takes jobs.", [float(n.usable) for n in nodes]),
        each("gpus", "GPUs it has.", [n.gpus for n in nodes]),
        each("gpus_used", "GPUs given to jobs.", [n.gpus_used for n in nodes]),
        each("cpus", "CPUs it has.", [n.cpus for n in nodes]),
        each("cpus_used", "CPUs given to jobs.", [n.cpus_used for n in nodes]),
        each("memory_bytes", "Memory for jobs.", [n.memory * MIB for n in nodes]),
        each("memory_used_bytes", "Memory given to jobs.", [n.memory_used * MIB for n in nodes]),
        each("load", "Load as slurmd reports it.", [n.load for n in nodes]),
        Family(
            "corral_node_drained",
            "gauge",
            "Nodes that are drained; by: health or proof, where Corral did it.",
            {(("node", n.name), ("by", _by(n.reason))): 1 for n in drained},
        ),
    ]


def _by(reason: str) -> str:
    # What Corral drains automatically has a reason that begins so (docs/guide/health.md).
    prefix = reason.partition(".")[0]
    return prefix if prefix in ("health", "proof") else "person"


def _jobs(jobs: list[Job]) -> list[Family]:
    count: Counter[Labels] = Counter()
    gpus: Counter[Labels] = Counter()
    users: Counter[Labels] = Counter()
    unknown: Counter[Labels] = Counter()
    for job in jobs:
        labels = (("state", job.state.lower()), ("partition", job.partition))
        count[labels] += 1
        if job.running:
            gpus[("partition", job.partition),] += job.gpus or 0
            users[("user", job.user),] += job.gpus or 0
            unknown[("partition", job.partition),] += not job.gpus_exact
    return [
        Family("corral_jobs", "gauge", "Jobs that slurmctld knows.", dict(sorted(count.items()))),
        Family("corral_jobs_gpus", "gauge", "GPUs of running jobs.", dict(sorted(gpus.items()))),
        Family(
            "corral_jobs_gpus_unknown",
            "gauge",
            "Running jobs of which only the fewest GPUs are known: the sums are at least.",
            dict(sorted(unknown.items())),
        ),
        Family("corral_user_gpus", "gauge", "GPUs in use by user.", dict(sorted(users.items()))),
    ]


def _partitions(partitions: Iterable[Partition]) -> list[Family]:
    up: dict[Labels, float] = {
        (("partition", p.name),): float(p.state.upper() == "UP")
        for p in partitions
        if p.state  # v0.0.39 (23.02) reports none
    }
    return [Family("corral_partition_up", "gauge", "1: the partition takes jobs.", up)]
