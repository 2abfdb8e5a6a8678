"""Rules about partitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from corral.slurm.adopt.rule import E, Problem, Rule, W
from corral.slurm.adopt.rules.nodes import about
from corral.slurm.adopt.source import Kind
from corral.slurm.adopt.view import Existing, Row, expanded
from corral.slurm.conf.parse import switch
from corral.spec.findings import Level, shown
from corral.spec.slurm.hostlist import fold_in_order

_MANUAL: Final = "slurm.conf(5)"
_SHORT: Final = 40
_NO_QOS: Final = frozenset({"", "n/a", "none"})


def partitions(existing: Existing) -> Iterator[Problem]:
    """Partitions with nodes that are not there."""
    known = set(existing.node_names)
    # Nodes that register dynamically (slurmd -Z) are declared nowhere.
    dynamic = not known and (
        existing.slurm.get("MaxNodeCount") or not existing.slurm.get("ClusterName")
    )
    if existing.slurm.lost or dynamic or any(row.broken for row in existing.nodes):
        return
    allowed = known | {s.value for s in existing.slurm.begin("NodeSet")}
    for row in existing.partitions:
        setting = row.get("Nodes")
        if not setting:
            continue
        names = [name for name in expanded(setting.value) if name.upper() != "ALL"]
        strange = next((name for name in names if name not in allowed), None)
        if strange:
            yield Problem(
                setting.spot,
                f"partition {shown(row.first.value)} names {shown(strange)}, which is neither a "
                "node nor a NodeSet: slurmctld refuses to start",
                (
                    f"write Nodes={_folded(known)}, or declare the node"
                    if known
                    else "declare the nodes: NodeName lines as slurmd -C prints them"
                ),
                where=_partition(row),
            )


def twice(existing: Existing) -> Iterator[Problem]:
    """One name on two lines."""
    seen: dict[str, Row] = {}
    for row in existing.partitions:
        for name in row.names or (row.first.value,):
            first = seen.setdefault(name, row)
            if first is not row:
                yield Problem(
                    row.first.spot,
                    f"partition {shown(name)} is declared above too: slurmctld refuses to start",
                    "write one line with all its nodes",
                    where=_partition(row),
                )
                break


def qos(existing: Existing) -> Iterator[Problem]:
    """A QOS of a partition, without the database that has its limits.

    Seen: slurmctld 24.11 starts, 26.05 ends with ``Partition NAME has an invalid qos``.
    """
    kind = existing.slurm.text("AccountingStorageType", "none").rpartition("/")[2].lower()
    if kind == "slurmdbd" or existing.slurm.lost:
        return
    for row in existing.partitions:
        setting = row.get("QOS")
        if setting and setting.value.lower() not in _NO_QOS:
            yield Problem(
                setting.spot,
                f"partition {shown(row.first.value)} has QOS={shown(setting.value)}, which "
                "slurmdbd would know, and AccountingStorageType is not slurmdbd: it limits "
                "nothing, and slurmctld 26.05 refuses to start",
                "run slurmdbd and write AccountingStorageType=accounting_storage/slurmdbd, or "
                "leave QOS out",
                where=_partition(row),
            )


def defaults(existing: Existing) -> Iterator[Problem]:
    """No partition, no default, two defaults."""
    rows = existing.partitions
    chosen = [r for r in rows if switch(r.text("Default"))]
    for row in chosen[:-1]:
        yield Problem(
            row.settings["default"].spot,
            f"partition {shown(row.first.value)} and {shown(chosen[-1].first.value)} are both "
            "the default: the last one is",
            "write Default=YES once",
            where=_partition(row),
        )
    if rows and not chosen:
        yield Problem(
            rows[0].first.spot,
            "no partition is the default: each job must name one",
            "write Default=YES on one of them",
            level=Level.INFO,
            where=_partition(rows[0]),
        )
    if existing.node_names and not rows and existing.slurm.get("ClusterName"):
        yield Problem(
            existing.nodes[-1].first.spot,
            "no partition: no job can be submitted",
            "write PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
        )


def _partition(row: Row) -> str:
    return f"PartitionName={row.first.value}"


def _folded(known: set[str]) -> str:
    text = fold_in_order(sorted(known))
    return text if len(text) <= _SHORT else "ALL"


def unused(existing: Existing) -> Iterator[Problem]:
    """Nodes in no partition."""
    rows = existing.partitions
    words = {name for row in rows for name in expanded(row.text("Nodes"))}
    if not rows or "ALL" in {w.upper() for w in words} or existing.slurm.lost:
        return
    sets = existing.node_sets
    words |= {name for word in words for name in sets.get(word, ())}
    for row in existing.nodes:
        idle = [name for name in row.names if name not in words]
        if idle:
            yield Problem(
                row.first.spot,
                f"{shown(fold_in_order(idle))} is in no partition: no job ever runs there",
                "name it in a partition's Nodes",
                where=about(row),
            )


RULES: Final = (
    Rule("partition-nodes", E, Kind.SLURM, "A partition with nodes that nobody declared.",
         "declared nodes", partitions, "", _MANUAL),
    Rule("partition-twice", E, Kind.SLURM, "A partition on two lines.", "one line", twice, "",
         "Slurm's slurmctld/read_config.c"),
    Rule("partition-qos", W, Kind.SLURM, "QOS of a partition without slurmdbd.",
         "slurmdbd, or nothing", qos, "F38", "Slurm's slurmctld/read_config.c"),
    Rule("partition-default", W, Kind.SLURM, "No partition, no default one, or two.",
         "Default=YES once", defaults, "", _MANUAL),
    Rule("node-unused", W, Kind.SLURM, "A node in no partition.", "Nodes= of a partition", unused,
         "", _MANUAL),
)  # fmt: skip
