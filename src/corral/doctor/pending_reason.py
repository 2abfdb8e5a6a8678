"""Why one job is pending, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from corral.slurm.records import Job, Node, Partition
from corral.slurm.states.reasons import Wait
from corral.slurm.tres import counts
from corral.spec.slurm.hostlist import fold


@dataclass(frozen=True, slots=True)
class Room:
    """What one node has, and what of it is free."""

    node: str
    usable: bool
    cpus: int
    cpus_free: int
    memory_mib: int
    memory_free_mib: int
    gpus: int
    gpus_free: int | None  # None: not in slurmctld's answer


@dataclass(frozen=True, slots=True)
class WhyPending:
    """Why a job is pending.

    Attributes:
        job: its number.
        state: Slurm's state.
        reason: Slurm's word, "" for none.
        words: what that word means.
        missing: what it lacks, one sentence each.
        starts: when Slurm expects to start it, epoch seconds; None when it does not know.
        ahead: jobs with a higher priority that wait in the same partition.
        advice: what to do.
        stuck: True when it does not start unless somebody does something.
    """

    job: str
    state: str
    reason: str
    words: str
    missing: tuple[str, ...]
    starts: int | None
    ahead: int
    advice: str
    stuck: bool = False

    def as_dict(self) -> dict[str, object]:
        return {
            "job": self.job,
            "state": self.state,
            "reason": self.reason,
            "words": self.words,
            "missing": list(self.missing),
            "starts": self.starts,
            "ahead": self.ahead,
            "advice": self.advice,
            "stuck": self.stuck,
        }


def why_pending(
    job: Job,
    asked: str,
    partition: Partition,
    nodes: Mapping[str, Node],
    ahead: int = 0,
) -> WhyPending:
    """What a pending job needs.

    Args:
        job: as squeue shows it.
        asked: its resources as ``cpu=2,mem=4G,node=1,gres/gpu=2``.
        partition: its partition.
        nodes: the cluster's nodes.
        ahead: jobs before it in its partition.
    """
    if not job.waiting:
        words = f"it is not pending: it {'has ended' if job.ended else 'is running'}"
        return WhyPending(job.label, job.state, "", words, (), None, 0, "")
    own = [node for node in nodes.values() if partition.name in node.partitions]
    lacks = [*_limits(job, partition)]
    if not _elsewhere(job) or not _fits(job, asked, own):
        lacks += [*_capacity(job, asked, own), *_out(own)]
    missing = tuple(dict.fromkeys(lacks))
    return WhyPending(
        job.label,
        job.state,
        job.reason,
        job.why or "Slurm has not considered it yet",
        missing,
        job.start_at,
        ahead,
        *_advice(job, own, asked),
    )


def _limits(job: Job, partition: Partition) -> Iterator[str]:
    name, most, longest = partition.name, partition.max_nodes, partition.max_time
    if partition.state not in ("", "UP"):
        yield f"partition {name} is {partition.state.lower()}"
    if most is not None and job.node_count > most:
        yield f"it asks for {job.node_count} nodes; partition {name} allows {most}"
    if longest is not None and (job.limit is None or job.limit > longest):
        asks = "no time limit" if job.limit is None else f"{job.limit // 60} minutes"
        yield f"it asks for {asks}; partition {name} allows {longest // 60}"


def room(info: Node) -> Room:
    """What a node has free, from its CfgTRES and AllocTRES."""
    has, used = counts(info.tres), counts(info.tres_used)
    # Without accounting GPUs are not among them.
    has.setdefault("gres/gpu", info.gpus)
    if info.gpus_used is not None:
        used.setdefault("gres/gpu", info.gpus_used)
    usable = info.state.usable
    free = {k: max(has.get(k, 0) - used.get(k, 0), 0) if usable else 0 for k in has}
    unknown = usable and info.gpus_used is None
    return Room(
        info.name,
        usable,
        *(has.get("cpu", 0), free.get("cpu", 0)),
        *(has.get("mem", 0), free.get("mem", 0)),
        *(has.get("gres/gpu", 0), None if unknown else free.get("gres/gpu", 0)),
    )


_KINDS: Final = (
    ("cpu", "CPUs", "", "cpus"),
    ("mem", "memory", " MiB", "memory_mib"),
    ("gres/gpu", "GPUs", "", "gpus"),
)


def _fits(job: Job, asked: str, own: Sequence[Node]) -> bool:
    """True when its nodes are large and many enough, were all of them free."""
    wants, count = counts(asked), max(job.node_count, 1)
    large = [
        r
        for r in map(room, own)
        if all(getattr(r, field) >= -(-wants.get(key, 0) // count) for key, _, _, field in _KINDS)
    ]
    return len(large) >= count


def _capacity(job: Job, asked: str, own: Sequence[Node]) -> Iterator[str]:
    rooms = [room(info) for info in own]
    wants = counts(asked)
    count = max(job.node_count, 1)
    usable = [r for r in rooms if r.usable]
    if count > len(usable):
        yield (
            f"it asks for {count} nodes; its partition has {len(rooms)}, of which {len(usable)} "
            "take jobs"
        )
    for key, name, unit, field in _KINDS:
        if not wants.get(key):
            continue
        each = -(-wants[key] // count)
        there = f"on each of {count} nodes" if count > 1 else "on a node"
        has = [getattr(r, field) for r in rooms]
        free = [getattr(r, _FREE[field]) for r in rooms]
        if sum(h >= each for h in has) < count:
            yield (
                f"it asks for {each}{unit} {name} {there}; "
                f"{sum(h >= each for h in has)} have that many at all"
            )
        elif sum(f is None or f >= each for f in free) < count:
            yield (
                f"{name}: it asks for {each}{unit} {there}; free now: "
                + ", ".join(
                    f"{r.node} {'?' if f is None else f}{unit}"
                    for r, f in zip(rooms, free, strict=True)
                )
            )


_FREE: Final[Mapping[str, str]] = MappingProxyType(
    {"cpus": "cpus_free", "memory_mib": "memory_free_mib", "gpus": "gpus_free"}
)


def _out(own: Sequence[Node]) -> Iterator[str]:
    """Nodes of its partition that take no jobs, by reason."""
    by_reason: dict[str, list[str]] = {}
    for info in own:
        if not info.state.usable:
            by_reason.setdefault(info.why_out or str(info.state), []).append(info.name)
    for reason, names in by_reason.items():
        verb = "takes" if len(names) == 1 else "take"
        yield f"{fold(names)} {verb} no jobs: {reason}"


def _elsewhere(job: Job) -> bool:
    """True when it is pending for another reason than resources: what nodes lack does not delay it.

    Of ``(BeginTime)`` no node that is drained is the cause.
    """
    return job.wait in (Wait.HELD, Wait.ELSEWHERE)


def _advice(job: Job, own: Sequence[Node], asked: str) -> tuple[str, bool]:
    if job.held:
        return f"scontrol release {job.label}", True
    # Without accounting any pending job has it, before Slurm 24.11: it starts anyway.
    unaccounted = job.reason == "InvalidAccount" and not job.account
    never = job.wait is Wait.NEVER and not unaccounted
    if never or not _fits(job, asked, own):
        return f"it never starts like this: corral cancel {job.id}; ask for what there is", True
    out = [info.name for info in own if not info.state.usable]
    if out and not _elsewhere(job):
        return f"corral doctor --why-drained {out[0]}", False
    return "nothing: it starts when what it waits for is there", False


QUEUE_COLUMNS: Final = ("%A", "%Q")


def queue_ahead(job: int, pending: Iterable[Job]) -> int:
    """Pending jobs, with ``QUEUE_COLUMNS``, that have a higher priority than this one."""
    known = [(each.id, each.priority or 0) for each in pending]
    own = max((priority for number, priority in known if number == job), default=0)
    return sum(priority > own for number, priority in known if number != job)
