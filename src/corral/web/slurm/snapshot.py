"""The last known state of the cluster, and what changed since the one before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeVar

from corral.prove.measure.gpu import board_watts
from corral.slurm.records import Job, Node, Partition
from corral.slurm.states.nodes import NodeBase, NodeState
from corral.slurm.tres import gres_of
from corral.spec.slurm.node_features import island_of
from corral.web.slurm.search import SHOWN, is_users

K = TypeVar("K")
V = TypeVar("V")
MAX_CHANGED_JOBS: Final = 200
"""Changed jobs that one event carries; with more, a viewer asks for its page."""
MAX_CHANGED_NODES: Final = 1000
"""Changed nodes that one event carries; with more, a viewer asks for all, packed once for all."""
NODE_COLUMNS: Final = (
    "name", "state", "usable", "resumable", "reason", "reason_user", "reason_at", "cpus",
    "cpus_used", "load", "memory", "memory_used", "memory_free", "gpus", "gpus_used", "gres",
    "partitions", "features", "island", "address", "version", "boot_at", "watts",
    "watts_most", "kind",
)  # fmt: skip
JOB_COLUMNS: Final = (
    "id", "label", "name", "user", "state", "reason", "why", "account", "partition", "qos",
    "priority", "nodes", "node_count", "cpus", "gpus", "memory", "submit_at", "start_at", "end_at",
    "limit", "exit_status", "exit_signal", "exit", "held", "gpus_exact",
    "waiting", "running", "ended", "failed", "cancelled", "kind",
)  # fmt: skip

NOT_SHOWN: Final = frozenset({"elapsed", "gres", "gres_detail", "tres"})
"""Fields of a job's record that commands list and the page does not have."""

_BASES: Final = {NodeBase.IDLE: "good", NodeBase.ALLOCATED: "busy", NodeBase.MIXED: "mix"}
"""The class of a usable node: these are the nodes that the page's tile counts as taking jobs."""
NODE_KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "good": "idle",
        "mix": "mixed",
        "busy": "allocated",
        "warn": "drained or in maintenance",
        "bad": "down or failing",
        "off": "other",
    }
)
"""What the page calls each class of nodes (``node_kind``), in the order of its legend."""
JOB_KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "busy": "running or completing",
        "good": "completed",
        "bad": "failed or stopped by Slurm",
        "off": "cancelled",
        "mix": "suspended",
        "warn": "pending",
    }
)
"""What the page calls each class of jobs (``job_kind``), in the order of its legend."""


def node_row(node: Node) -> list[Any]:
    """A node as one row of ``NODE_COLUMNS``: names once and not 10,000 times."""
    own = {
        **_of_state(node.state),
        "reason_user": node.reason_by,
        "features": node.active_features,
        "island": _island_of(node.active_features),
        "watts_most": _most_watts(node.gres),
    }
    return [own[name] if name in own else getattr(node, name) for name in NODE_COLUMNS]


@lru_cache(maxsize=1024)  # of 10,000 nodes there are few states
def _of_state(state: NodeState) -> Mapping[str, Any]:
    """The columns that follow from a node's state."""
    return {
        "state": str(state),
        "usable": state.usable,
        "resumable": state.resumable,
        "kind": node_kind(state),
    }


_island_of: Final = lru_cache(maxsize=1024)(island_of)


@lru_cache(maxsize=1024)
def _most_watts(gres: str) -> int:
    """What all GPUs of a node draw at most; of one GPU where Slurm lists none."""
    gpus = ((kind, count) for name, kind, count in gres_of(gres) if name == "gpu")
    return sum(count * board_watts(kind) for kind, count in gpus) or board_watts("")


def job_rows(jobs: Iterable[Job]) -> dict[str, Any]:
    """Jobs as an answer's columns and rows."""
    return {"columns": JOB_COLUMNS, "rows": [job_row(job) for job in jobs]}


def job_row(job: Job) -> list[Any]:
    """A job as one row of ``JOB_COLUMNS``."""
    code = job.exit_code
    own = {"kind": job_kind(job), "exit": code.words if code else ""}
    return [own[name] if name in own else getattr(job, name) for name in JOB_COLUMNS]


def job_fields(job: Job) -> dict[str, Any]:
    """All of a job's record that its page has, and what follows from its state."""
    record = {name: value for name, value in asdict(job).items() if name not in NOT_SHOWN}
    return record | dict(zip(JOB_COLUMNS, job_row(job), strict=True))


def node_kind(state: NodeState) -> str:
    """The class of a node's state, by which the page counts and colours."""
    if state.broken:
        return "bad"
    if state.drained or state.serviced:
        return "warn"
    return _BASES[state.base] if state.usable else "off"


def job_kind(job: Job) -> str:
    """The class of a job's state, by which the page colours."""
    if job.waiting:
        return "warn"
    if job.going:
        return "mix" if job.paused else "busy"
    if job.cancelled:
        return "off"
    return "good" if job.completed else "bad"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What Slurm last reported.

    Attributes:
        rev: grows with each change; nodes_rev and jobs_rev with each of theirs.
        seen_at: unix seconds of the last answer; 0: none came yet.
        jobs_at: since when nothing of a job is older than that (``job_reader``); their states are
            of ``seen_at``.
        complete: jobs and partitions were seen too; a big cluster's nodes come first.
        trouble: why newer answers do not come, "" while they do.
        unread: what of the last answer could not be read and is left out, "" for nothing.
        release: Slurm's version.
        busy_at: when each node was last in use: a node whose time alone moved is the same object.
    """

    rev: int = 0
    nodes_rev: int = 0
    jobs_rev: int = 0
    seen_at: float = 0.0
    jobs_at: float = 0.0
    trouble: str = ""
    unread: str = ""
    release: str = ""
    nodes: Mapping[str, Node] = field(default_factory=lambda: MappingProxyType({}))
    jobs: Mapping[int, Job] = field(default_factory=lambda: MappingProxyType({}))
    partitions: tuple[Partition, ...] = ()
    complete: bool = False
    busy_at: Mapping[str, int | None] = field(default_factory=lambda: MappingProxyType({}))
    _counts: dict[str, Any] = field(
        default_factory=dict[str, Any], init=False, repr=False, compare=False
    )

    def head(self) -> dict[str, Any]:
        """What every event holds: revisions, age, counts."""
        return {
            "rev": self.rev,
            "nodes_rev": self.nodes_rev,
            "jobs_rev": self.jobs_rev,
            "seen_at": self.seen_at,
            "jobs_at": self.jobs_at,
            "trouble": self.trouble,
            "unread": self.unread,
            "release": self.release,
            "complete": self.complete,
            "counts": self.counts(),
        }

    def counts(self) -> dict[str, Any]:
        """The figures at the top of the page: counted once, however many look."""
        if not self._counts:
            self._counts.update(_counted(self))
        return self._counts

    def with_nodes(self, listed: Iterable[Node]) -> Snapshot:
        """The same with other nodes; no other revision where they are the same."""
        listed = tuple(listed)
        now = replace(self, busy_at={node.name: node.busy_at for node in listed})
        nodes = _kept(self.nodes, ((node.name, node) for node in listed))
        if nodes is self.nodes:
            return now
        return replace(now, rev=self.rev + 1, nodes_rev=self.nodes_rev + 1, nodes=nodes)

    def with_nodes_of(self, other: Snapshot) -> Snapshot:
        """The same with the nodes of another one, and their revision."""
        now = replace(self, busy_at=other.busy_at)
        if other.nodes is self.nodes and other.nodes_rev == self.nodes_rev:
            return now
        return replace(now, rev=self.rev + 1, nodes_rev=other.nodes_rev, nodes=other.nodes)

    def with_jobs(self, listed: Iterable[Job]) -> Snapshot:
        """The same with other jobs; itself where they are the same."""
        jobs = _kept(self.jobs, ((job.id, job) for job in listed))
        if jobs is self.jobs:
            return self
        return replace(self, rev=self.rev + 1, jobs_rev=self.jobs_rev + 1, jobs=jobs)

    def with_partitions(self, listed: tuple[Partition, ...]) -> Snapshot:
        """The same with other partitions."""
        if listed == self.partitions:
            return self
        return replace(self, rev=self.rev + 1, partitions=listed)


def _kept(before: Mapping[K, V], listed: Iterable[tuple[K, V]]) -> Mapping[K, V]:
    """``listed``, with the old object for each that is as before; ``before`` where all are.

    So what is the same is the same object, and a poll compares each once, not once per use.
    """
    now, same = dict[K, V](), True
    for key, value in listed:
        old = before.get(key)
        if old is not None and (old is value or old == value):
            now[key] = old
        else:
            now[key], same = value, False
    return before if same and len(now) == len(before) else now


def _counted(now: Snapshot) -> dict[str, Any]:
    nodes = now.nodes.values()
    states = Counter((job.state, is_users(job)) for job in now.jobs.values())
    # Which tab has a job depends on its state alone: 50,000 jobs have a dozen.
    of_users = {state: count for (state, users), count in states.items() if users}
    samples = {job.state: job for job in now.jobs.values() if is_users(job)}
    return {
        "nodes": len(now.nodes),
        "usable": sum(bool(_of_state(node.state)["usable"]) for node in nodes),
        "gpus": sum(node.gpus for node in nodes),
        "gpus_used": sum(node.gpus_used or 0 for node in nodes),
        "gpus_used_exact": all(node.gpus_used is not None for node in nodes),
        "cpus": sum(node.cpus for node in nodes),
        "cpus_used": sum(node.cpus_used for node in nodes),
        "jobs": dict(Counter(job.state for job in now.jobs.values())),
        "shown": {
            tab: sum(count for state, count in of_users.items() if SHOWN[tab](samples[state]))
            for tab in ("all", "running", "waiting")
        },
        "partitions": [asdict(partition) for partition in now.partitions],
    }


def delta(before: Snapshot, now: Snapshot) -> dict[str, Any]:
    """What makes ``now`` of a viewer's ``before``; rows only when they are few."""
    event = now.head()
    if before.nodes_rev != now.nodes_rev:
        new = [n for name, n in now.nodes.items() if before.nodes.get(name) is not n]
        gone = [name for name in before.nodes if name not in now.nodes]
        if len(new) + len(gone) <= MAX_CHANGED_NODES:
            event["nodes"] = [node_row(n) for n in new]
            event["nodes_gone"] = gone
    if before.jobs_rev != now.jobs_rev:
        changed = [job for number, job in now.jobs.items() if before.jobs.get(number) is not job]
        ended = [number for number in before.jobs if number not in now.jobs]
        if len(changed) + len(ended) <= MAX_CHANGED_JOBS:
            event["jobs"] = [job_row(job) for job in changed]
            event["jobs_gone"] = ended
    return event
