"""Nodes and jobs as Prometheus' text (exposition format 0.0.4). Pure.

Every label has a bound (docs/guide/metrics.md): nodes and partitions are Slurm's, states and
reasons are its words, and of what users name (users, accounts) the ``MOST`` largest have separate
series.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from corral.slurm.records import Job, Node, Partition
from corral.slurm.states.nodes import POWERED_OFF

MIB: Final = 1 << 20
MOST: Final = 1000
"""Values of one label that have separate series; the others are one series together."""
OTHERS: Final = "(others)"
"""That one. No user, account, partition or state has brackets."""
SEVERAL: Final = "(several)"
"""The partition of a pending job that names several: their lists have no bound."""
Labels = tuple[tuple[str, str], ...]
_REASON: Final = re.compile(r"[A-Za-z]\w{0,63}")
_CHECK: Final = re.compile(r"(health|proof)\.(\w{1,32})")


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: its name, kind, help text, and its values by labels."""

    name: str
    kind: str
    about: str
    values: Mapping[Labels, float]

    def lines(self) -> Iterable[str]:
        """Its samples."""
        for labels, value in self.values.items():
            yield f"{self.name}{_labels(labels)} {_value(value)}"


@dataclass(frozen=True, slots=True)
class Histogram:
    """A histogram: how many fell into each bucket, and their sum, by labels.

    Attributes:
        bounds: upper bounds of the buckets; one more bucket is what exceeds the last.
        values: counts of each bucket alone, by labels.
    """

    name: str
    about: str
    bounds: Sequence[float]
    values: Mapping[Labels, Sequence[int]]
    sums: Mapping[Labels, float]
    kind: str = "histogram"

    def lines(self) -> Iterable[str]:
        """Its samples: Prometheus counts what is not above a bound."""
        for labels, counts in self.values.items():
            total = 0
            for bound, count in zip((*self.bounds, math.inf), counts, strict=True):
                total += count
                le = (*labels, ("le", _value(bound)))
                yield f"{self.name}_bucket{_labels(le)} {total}"
            yield f"{self.name}_sum{_labels(labels)} {_value(self.sums[labels])}"
            yield f"{self.name}_count{_labels(labels)} {total}"


def text_of(families: Iterable[Family | Histogram]) -> str:
    """The text that Prometheus reads."""
    lines: list[str] = []
    for family in families:
        if not family.values:
            continue
        lines += [f"# HELP {family.name} {family.about}", f"# TYPE {family.name} {family.kind}"]
        lines += family.lines()
    return "\n".join([*lines, ""])


def _value(value: float) -> str:
    return "+Inf" if value == math.inf else f"{value:.15g}"


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
    nodes: Iterable[Node],
    jobs: Iterable[Job],
    partitions: Iterable[Partition],
    now: float = 0.0,
) -> list[Family]:
    """What Slurm reports about nodes, jobs and partitions.

    Args:
        nodes: all that slurmctld knows.
        jobs: all that it knows.
        partitions: all that there are.
        now: unix seconds of that.
    """
    nodes, jobs = list(nodes), list(jobs)
    return [
        *_nodes(nodes),
        *_jobs(jobs),
        *_accounts(jobs),
        *_pending(jobs, now),
        *_partitions(partitions),
    ]


def capped(count: Counter[str], most: int = MOST) -> dict[str, float]:
    """Counts by name, those of the largest; all others are one sum."""
    if len(count) <= most:
        return dict(sorted(count.items()))
    large = count.most_common(most)
    return {**dict(sorted(large)), OTHERS: count.total() - sum(number for _, number in large)}


def partition_label(partitions: str) -> str:
    """A job's partition; a pending job may name several."""
    return SEVERAL if "," in partitions else partitions


def _by_label(name: str, count: Counter[str]) -> dict[Labels, float]:
    return {((name, value),): number for value, number in capped(count).items()}


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
            _by_label("state", states),
        ),
        each("usable", "1: it takes jobs.", [float(n.usable) for n in nodes]),
        each("gpus", "GPUs it has.", [n.gpus for n in nodes]),
        each("gpus_used", "GPUs given to jobs.", [n.gpus_used for n in nodes]),
        each("cpus", "CPUs it has.", [n.cpus for n in nodes]),
        each("cpus_used", "CPUs given to jobs.", [n.cpus_used for n in nodes]),
        each("memory_bytes", "Memory for jobs.", [n.memory * MIB for n in nodes]),
        each("memory_used_bytes", "Memory given to jobs.", [n.memory_used * MIB for n in nodes]),
        each("load", "Load as slurmd reports it.", [n.load for n in nodes]),
        each("watts", "Power as Slurm's energy plugin reports it.", [n.watts for n in nodes]),
        Family(
            "corral_node_drained",
            "gauge",
            "Nodes that are drained; by: health or proof, and which check, where Corral did it.",
            {(("node", n.name), *_by(n.reason)): 1 for n in drained},
        ),
        Family(
            "corral_node_powered_down",
            "gauge",
            "Nodes that Slurm has switched off until a job needs them.",
            {(("node", n.name),): 1 for n in nodes if POWERED_OFF & n.state.flags},
        ),
    ]


def _by(reason: str) -> Labels:
    # What Corral drains automatically has a reason that begins so (docs/guide/health.md).
    match = _CHECK.match(reason)
    by, check = match.groups() if match else ("person", "")
    return (("by", by), ("check", check))


def _jobs(jobs: list[Job]) -> list[Family]:
    count: Counter[Labels] = Counter()
    gpus: Counter[str] = Counter()
    users: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    for job in jobs:
        partition = partition_label(job.partition)
        count[("state", job.state.lower()), ("partition", partition)] += 1
        if job.running:
            gpus[partition] += job.gpus or 0
            users[job.user] += job.gpus or 0
            unknown[partition] += not job.gpus_exact
    about = (
        "Jobs that slurmctld knows; tasks of an array that have not begun are one.",
        "Running jobs of which only the fewest GPUs are known: the sums are at least.",
    )
    return [
        Family("corral_jobs", "gauge", about[0], dict(sorted(count.items()))),
        Family("corral_jobs_gpus", "gauge", "GPUs of running jobs.", _by_label("partition", gpus)),
        Family("corral_jobs_gpus_unknown", "gauge", about[1], _by_label("partition", unknown)),
        Family("corral_user_gpus", "gauge", "GPUs in use by user.", _by_label("user", users)),
        Family(
            "corral_job_info",
            "gauge",
            "1 for each running job: whose it is.",
            {_whose(job): 1 for job in jobs if job.running and job.id},
        ),
    ]


def _whose(job: Job) -> Labels:
    names = (("user", job.user), ("account", job.account), ("partition", job.partition))
    return (("jobid", str(job.id)), *names)


def _accounts(jobs: list[Job]) -> list[Family]:
    """Jobs and GPUs by account, those of jobs without one (no accounting) left out."""
    running, pending, gpus = Counter[str](), Counter[str](), Counter[str]()
    for job in jobs:
        if not job.account:
            continue
        pending[job.account] += job.waiting
        if job.running:
            running[job.account] += 1
            gpus[job.account] += job.gpus or 0
    return [
        Family(
            "corral_account_jobs_running",
            "gauge",
            "Running jobs by account.",
            _by_label("account", running),
        ),
        Family(
            "corral_account_jobs_pending",
            "gauge",
            "Pending jobs by account.",
            _by_label("account", pending),
        ),
        Family(
            "corral_account_gpus", "gauge", "GPUs in use by account.", _by_label("account", gpus)
        ),
    ]


def _pending(jobs: list[Job], now: float) -> list[Family]:
    reasons: Counter[str] = Counter()
    longest: dict[Labels, float] = {}
    for job in jobs:
        if not job.waiting:
            continue
        reasons[reason_label(job.reason)] += 1
        if job.eligible_at and job.eligible_at <= now:
            labels = (("partition", partition_label(job.partition)),)
            longest[labels] = max(longest.get(labels, 0.0), now - job.eligible_at)
    return [
        Family(
            "corral_jobs_pending",
            "gauge",
            "Pending jobs by Slurm's reason.",
            _by_label("reason", reasons),
        ),
        Family(
            "corral_jobs_pending_longest_seconds",
            "gauge",
            "The longest time that a job has been eligible and pending.",
            longest,
        ),
    ]


def reason_label(reason: str) -> str:
    """Slurm's word; what follows it names nodes or dates."""
    match = _REASON.match(reason.strip("() ").replace(" ", "_"))
    return match[0] if match and match[0] != "None" else "None"


def _partitions(partitions: Iterable[Partition]) -> list[Family]:
    up: dict[Labels, float] = {
        (("partition", p.name),): float(p.state.upper() == "UP")
        for p in partitions
        if p.state  # v0.0.39 (23.02) reports none
    }
    return [Family("corral_partition_up", "gauge", "1: the partition takes jobs.", up)]
