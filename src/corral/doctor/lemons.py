"""Nodes that were taken out of service by several causes within a month. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from corral.doctor.drain_reason import health_kind, read_reason
from corral.doctor.model import Diagnosis
from corral.doctor.probes import Scene, finding
from corral.inspect.slurm import OUTAGES
from corral.slurm.records import Outage
from corral.state.base import ROLL_TAG, UPDATE_TAG
from corral.state.slurm.members import REASON as LEAVES
from corral.state.slurm.members import REPLACED

CAUSES: Final = 3
"""So many different ones make a node a lemon."""
DAYS: Final = 30
"""Within so many days."""
_PLANNED_BY_CORRAL: Final = (ROLL_TAG, UPDATE_TAG, LEAVES, REPLACED)
_PLANNED: Final = re.compile(r"planned\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a node was out of service.

    Attributes:
        id: of the failure (F10) or of the health check (health.gpus); else the text itself.
        title: in words.
    """

    id: str
    title: str


def cause_of(outage: Outage) -> Cause | None:
    """The cause that a reason names; None where there is none, or it was planned.

    Planned is what Corral drained for its own changes, and what begins with ``planned``. Of what a
    person wrote each different text is a cause, numbers aside.
    """
    reason = outage.reason
    if not reason or reason.startswith(_PLANNED_BY_CORRAL) or _PLANNED.match(reason):
        return None
    kind = health_kind(reason)
    if kind is not None:
        return Cause(kind.id, kind.title)
    known = read_reason(reason, outage.node)
    if known:
        return Cause(known[0].failure.id, known[0].failure.title)
    return Cause(" ".join(re.sub(r"\d+", "", reason).casefold().split()), reason)


def causes_of(outages: Iterable[Outage], nodes: int) -> Mapping[str, dict[str, Cause]]:
    """The causes of each node by their id, in the order in which they came.

    One that at least half of the nodes had, and more than one node, is not a fault of a machine;
    those from before a node's machine was replaced are not its machine's.

    Args:
        outages: in order of their start.
        nodes: how many nodes the cluster has.
    """
    causes: dict[str, dict[str, Cause]] = {}
    for outage in outages:
        cause = cause_of(outage)
        if outage.reason.startswith(REPLACED):
            causes.pop(outage.node, None)
        elif cause is not None:
            causes.setdefault(outage.node, {}).setdefault(cause.id, cause)
    had = Counter(id_ for each in causes.values() for id_ in each)
    shared = {id_ for id_, count in had.items() if count > 1 and 2 * count >= nodes}
    return {
        node: {id_: cause for id_, cause in each.items() if id_ not in shared}
        for node, each in causes.items()
    }


def lemons(scene: Scene) -> Iterator[Diagnosis]:
    """F2241: a node that several causes took out of service within a month."""
    lead = scene.machines.get(scene.controller)
    outages = lead.get(OUTAGES) if lead is not None and lead.error is None else None
    for node, causes in causes_of(outages or (), len(scene.machines)).items():
        if len(causes) >= CAUSES and node in scene.machines:
            titles = "; ".join(cause.title for cause in causes.values())
            yield finding("F2241", node, f"{len(causes)} causes in {DAYS} days: {titles}")
