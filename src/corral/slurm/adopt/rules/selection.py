"""Rules about what is handed out: the selection plugin, memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from corral.slurm.adopt.rule import Problem, Rule, W
from corral.slurm.adopt.rules.cluster import there
from corral.slurm.adopt.source import Kind, Spot
from corral.slurm.adopt.view import Existing
from corral.slurm.version import has
from corral.spec.findings import Level, shown
from corral.spec.slurm.releases import Feature, since

_MANUAL: Final = "slurm.conf(5)"
_DEF_MEM: Final = ("DefMemPerCPU", "DefMemPerNode", "DefMemPerGPU")


def select(existing: Existing) -> Iterator[Problem]:
    """A selection plugin that is gone, or that cannot hand out GPUs and memory."""
    kind, how = existing.slurm.get("SelectType"), existing.slurm.get("SelectTypeParameters")
    gone = existing.version is None or has(existing.version, Feature.NO_CONS_RES)
    if kind and kind.value in ("select/cons_res", "cons_res") and gone:
        yield Problem(
            kind.spot,
            f"select/cons_res is gone since {since(Feature.NO_CONS_RES)}",
            "write SelectType=select/cons_tres; the same parameters hold",
            (kind.becomes("select/cons_tres"),),
            level=Level.ERROR if existing.version else Level.WARNING,
            where="SelectType",
        )
    linear = kind and kind.value.endswith("linear")
    if linear and existing.gpus:
        yield Problem(
            kind.spot if kind else existing.slurm.spot,
            "select/linear gives complete nodes: two jobs cannot share a node's GPUs",
            "write SelectType=select/cons_tres and SelectTypeParameters=CR_Core_Memory",
            where="SelectType",
        )
    if how and not linear and "memory" not in how.value.lower():
        # No edit: without DefMemPer* and RealMemory one job would then hold a node's memory.
        yield Problem(
            how.spot,
            f"memory is not a resource with {shown(how.value)}: ConstrainRAMSpace limits nothing: "
            "jobs that together need more than there is are started",
            "write SelectTypeParameters=CR_Core_Memory together with DefMemPerCPU=MIB and "
            "RealMemory of every node",
            where="SelectTypeParameters",
        )


def _memory_from(existing: Existing) -> Spot | None:
    """The line by which memory is a resource, None where it is not.

    Without SelectTypeParameters, cons_tres takes CR_Core_Memory in later releases; in still later
    ones it is the default SelectType.
    """
    kind, how = existing.slurm.get("SelectType"), existing.slurm.get("SelectTypeParameters")
    if kind and kind.value.endswith("linear"):
        return None
    if how and how.value.lower() != "none":
        return how.spot if "memory" in how.value.lower() else None
    feature = Feature.DEFAULT_CORE_MEMORY if kind else Feature.DEFAULT_CONS_TRES
    if not there(existing) or (existing.version and not has(existing.version, feature)):
        return None
    return kind.spot if kind else existing.slurm.spot


def memory_default(existing: Existing) -> Iterator[Problem]:
    """Memory is handed out, and a job that asks for none gets all of a node's."""
    spot = _memory_from(existing)
    if spot is None or existing.slurm.lost:
        return
    if any(_limits(existing.slurm.text(key)) for key in _DEF_MEM):
        return
    without = [
        row.first.value
        for row in existing.partitions
        if not any(_limits(row.text(key)) for key in _DEF_MEM)
        and row.text("OverSubscribe", row.text("Shared")).lower() != "exclusive"
    ]
    if existing.partitions and not without:
        return
    named = f" in {', '.join(without[:3])}" if without and len(without) < 4 else ""  # noqa: PLR2004
    yield Problem(
        spot,
        f"memory is handed out, and no DefMemPerCPU, DefMemPerNode or DefMemPerGPU is set{named}: "
        "a job without --mem holds all memory of its nodes, and no other job starts there",
        "write DefMemPerCPU=MIB: the RealMemory of the smallest node divided by its CPUs",
        where="DefMemPerCPU",
    )


def _limits(value: str) -> bool:
    return value.upper() not in ("", "0", "UNLIMITED", "INFINITE")


RULES: Final = (
    Rule("select-type", W, Kind.SLURM,
         "A SelectType that is gone or wastes GPUs, parameters without memory.",
         "select/cons_tres with CR_Core_Memory and DefMemPerCPU", select, "",
         "cgroup.conf(5), cons_tres.html"),
    Rule("memory-default-missing", W, Kind.SLURM,
         "Memory is a resource, by default too, and no DefMemPer* is set: one job holds it all.",
         "DefMemPerCPU=MIB", memory_default, "", "cons_tres.html, " + _MANUAL),
)  # fmt: skip
