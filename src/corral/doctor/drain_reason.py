"""Why one node takes no jobs, in words; health checks' and proofs' reasons understood. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from corral.doctor.catalog import catalog
from corral.doctor.logs.diagnosis import read
from corral.doctor.model import Diagnosis, FixBy, Report, Source
from corral.errors import Code, CorralError
from corral.roles.slurm.health import HealthCheck, health_checks
from corral.slurm.records import Node
from corral.slurm.states.nodes import node_bases
from corral.spec.slurm.hostlist import fold
from corral.state.base import ROLL_TAG, UPDATE_TAG
from corral.state.slurm.members import REASON as LEAVES

_REASON: Final = re.compile(r"(health\.[a-z]+): (.*)", re.DOTALL)
BACK: Final = "the node's health check undrains it automatically once all its checks pass"


def health_kind(reason: str) -> HealthCheck | None:
    """The check that a reason begins with; None for any other reason."""
    match = _REASON.match(reason)
    return health_checks().get(match[1]) if match else None


def health_words(reason: str) -> tuple[str, str]:
    """What such a reason means, and what to do; two empty texts for any other reason."""
    kind = health_kind(reason)
    if kind is None:
        return "", ""
    return (
        f"{kind.title} ({kind.id}: looks at {kind.reads}; fails on {kind.fails})",
        f"{kind.fix}; {BACK} (at once: run corral-health on the node)",
    )


def read_reason(reason: str, node: str) -> tuple[Diagnosis, ...]:
    """The failures that a node's reason names: of the health check's own, the one it means."""
    kind = health_kind(reason)
    if kind is None:
        return read(reason, Source.REASON, node)
    findings = read(reason, Source.KERNEL, node) if kind.id == "health.xid" else ()
    return findings or (Diagnosis(catalog()[kind.failure], (node,), (reason,)),)


_RESUMABLE: Final = frozenset({"F07", "F09", "F10", "F39", "F83"})
"""Reasons that Slurm gives a node and of which the doctor can see that the cause is gone."""
_SLURM_ITSELF: Final = frozenset({"slurm", "root"})


@dataclass(frozen=True, slots=True)
class WhyDrained:
    """Why a node takes no jobs.

    Attributes:
        node: its name.
        usable: True when it does take jobs.
        state: Slurm's state.
        words: what that state means, one sentence each.
        reason: Slurm's reason, "" for none.
        by: who set it, "" when unknown.
        at: when, as Slurm writes it.
        meaning: what the reason means.
        advice: what to do.
        findings: what the doctor sees on that node.
    """

    node: str
    usable: bool
    state: str
    words: tuple[str, ...]
    reason: str
    by: str
    at: str
    meaning: str
    advice: str
    findings: tuple[Diagnosis, ...] = ()

    def as_dict(self) -> dict[str, object]:
        return {
            "node": self.node,
            "usable": self.usable,
            "state": self.state,
            "words": list(self.words),
            "reason": self.reason,
            "by": self.by,
            "at": self.at,
            "meaning": self.meaning,
            "advice": self.advice,
            "findings": [f.as_dict() for f in self.findings],
        }


def why_drained(info: Node, report: Report) -> WhyDrained:
    """What Slurm's state and reason of a node mean, with what the doctor sees there."""
    own = of_nodes(report, {info.name}).findings
    meaning, advice = _meaning(info, own)
    return WhyDrained(
        info.name,
        info.state.usable and not own,
        str(info.state),
        tuple(_state(info)),
        info.reason,
        info.reason_by if info.reason else "",
        str(info.reason_at or "") if info.reason else "",
        meaning,
        advice,
        own,
    )


def of_nodes(report: Report, names: set[str]) -> Report:
    """What concerns these nodes: findings of theirs, and those of the entire cluster."""
    return Report(
        tuple(f for f in report.findings if not f.nodes or names & set(f.nodes)),
        out_of_service=tuple(out for out in report.out_of_service if out.node in names),
    )


def resumable(info: Node, causes: Sequence[Diagnosis]) -> bool:
    """True when a node is out for a reason that Slurm wrote, and its cause is gone.

    What a person wrote, what Corral's own roll or the health check wrote, is never resumed.

    Args:
        info: the node as slurmctld knows it.
        causes: what the rules see on the machines, without the node's own reason and state.
    """
    state = info.state
    if state.usable or not info.reason or state.misconfigured or state.silent:
        return False
    if health_kind(info.reason):
        return False
    findings = read(info.reason, Source.REASON, info.name)
    ill = any(not c.nodes or info.name in c.nodes for c in causes)
    return (
        not ill
        and info.reason_by in _SLURM_ITSELF
        and bool(findings)
        and all(d.failure.id in _RESUMABLE for d in findings)
    )


def _state(info: Node) -> Iterator[str]:
    yield node_bases()[info.state.base]
    yield from info.state.words


_OWN: Final = (
    (
        ROLL_TAG,
        "Corral drained it for a change that it was about to make, and resumes it itself",
        "let that corral up end; where it was killed, run corral up FILE again",
    ),
    (
        UPDATE_TAG,
        "Corral drained it to update its system, and resumes it once it has passed its proof",
        "let that end; where it stopped or was killed: corral nodes update {node}",
    ),
    (
        LEAVES,
        "the cluster file does not have it any more: it leaves once its jobs have ended",
        "corral up FILE continues it",
    ),
)
"""Reasons of Corral's own, by how they begin: what they mean and what to do."""


def _meaning(info: Node, own: Sequence[Diagnosis]) -> tuple[str, str]:
    reason = info.reason
    if not reason:
        return _without_reason(info, own)
    for begin, meaning, advice in _OWN:
        if reason.startswith(begin):
            return meaning, advice.format(node=info.name)
    meaning, advice = health_words(reason)
    if meaning:
        return meaning, advice
    findings = read(reason, Source.REASON, info.name)
    if findings:
        failure = findings[0].failure
        return f"{failure.title}: {failure.cause}", failure.fix
    who = info.reason_by or "somebody"
    return (
        f"that is not a message of Slurm's or Corral's: {who} wrote it",
        f"ask {who}; when it is over: corral resume {info.name}",
    )


def _without_reason(info: Node, own: Sequence[Diagnosis]) -> tuple[str, str]:
    if own:
        return "Slurm gives no reason; the findings show what is wrong", "begin with the first"
    if info.state.usable:
        return "nothing keeps it from taking jobs", ""
    if info.state.drained:
        return (
            "it was drained and no reason was given",
            f"slurmctld.log shows who did it; when it is over: corral resume {info.name}",
        )
    if info.state.unknown_flags:
        flags = ", ".join(info.state.unknown_flags)
        return f"whether it takes jobs is unknown: Corral does not know {flags}", "update Corral"
    return "Slurm gives no reason", "corral up FILE; slurmctld.log and slurmd.log of that time"


def node_of(nodes: Mapping[str, Node], name: str) -> Node:
    """A node as Slurm knows it.

    Raises:
        CorralError: NOT_FOUND, Slurm does not know it or does not answer.
    """
    if name in nodes:
        return nodes[name]
    known = (
        f"it knows {fold(list(nodes))}" if nodes else "slurmctld does not answer: run corral doctor"
    )
    raise CorralError(Code.NOT_FOUND, f"Slurm does not know {name}", name, hint=known)


def fixed_by_plan(report: Report) -> bool:
    """True when the plan of the cluster file can put some of it right."""
    return any(f.failure.fix_by is FixBy.APPLY for f in report.findings)
