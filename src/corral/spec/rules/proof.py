"""Rules about the scheduled proof."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from corral.durations import interval_seconds
from corral.spec.findings import Level
from corral.spec.view import Problem, Rule, View

SHORTEST: Final = 600
PARTITION: Final = "corral-proof"


def interval(view: View) -> Iterator[Problem]:
    """Too often."""
    every = view.spec.proof.every
    if 0 < interval_seconds(every) < SHORTEST:
        message = f"a proof every {every} would keep nodes busy"
        yield Problem(("proof", "every"), message, "write 1d, or at least 10m")


def preempting(view: View) -> Iterator[Problem]:
    """QOS that preempt: Slurm has one kind of preemption for the entire cluster."""
    if not interval_seconds(view.spec.proof.every):
        return
    if any(qos.preempts for qos in view.spec.qos):
        message = (
            "a scheduled proof gives way by partition, and QOS of this file preempt by QOS: Slurm "
            "has one kind of preemption for the entire cluster"
        )
        hint = "leave preempts out, or run corral prove by hand and leave proof.every out"
        yield Problem(("proof", "every"), message, hint)


def name(view: View) -> Iterator[Problem]:
    """A partition of the name that the proof's own one has."""
    if not interval_seconds(view.spec.proof.every):
        return
    for index, partition in enumerate(view.spec.partitions):
        if partition.name == PARTITION:
            message = f"{PARTITION} is the partition of the scheduled proof"
            yield Problem(("partitions", index, "name"), message, "give yours another name")


RULES: Final = (
    Rule("proof-interval", Level.ERROR, "A scheduled proof too often.", ("proof.every",), interval),
    Rule("proof-preempts", Level.ERROR, "A scheduled proof together with QOS that preempt.",
         ("proof.every", "qos.preempts"), preempting),
    Rule("proof-partition", Level.ERROR, "A partition with the name of the proof's own one.",
         ("proof.every", "partitions.name"), name),
)  # fmt: skip
