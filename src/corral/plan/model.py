"""A Plan is data: what will be done, where, in which order, and from which observation it was made.

It is JSON-ready (``as_dict``/``from_dict``), folds equal changes over nodes, and carries the digest
of what was observed; apply refuses it when that has moved. It never holds a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from corral.errors import Code, CorralError
from corral.hosts.quote import reread
from corral.spec.impacts import Impact
from corral.state.base import Change, Gate, Roll, SecretRef

FORMAT = 2
"""Grows when the plan's JSON changes shape."""

OWED = "owed"
"""Action of a machine that left while it did not answer: what Corral put there is still on it."""


@dataclass(frozen=True, slots=True)
class NodeChange:
    """An entry of a stage; nodes whose changes are equal share it."""

    nodes: tuple[str, ...]
    change: Change


@dataclass(frozen=True, slots=True)
class Stage:
    """Changes that may run at once on all their nodes (in order on each), closed by gates.

    With ``roll`` a few nodes at a time, each drained, changed, checked by its gates and resumed.
    """

    name: str
    title: str
    changes: tuple[NodeChange, ...]
    gates: tuple[Gate, ...] = ()
    roll: Roll | None = None

    def by_node(self) -> dict[str, list[Change]]:
        """The changes of each node, in order."""
        changes: dict[str, list[Change]] = {}
        for entry in self.changes:
            for node in entry.nodes:
                changes.setdefault(node, []).append(entry.change)
        return changes


@dataclass(frozen=True, slots=True)
class MachineChange:
    """A machine that a provider will create, start or remove before anything runs on it."""

    node: str
    action: str
    summary: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Ordered stages that lead from what was observed to what is declared.

    Attributes:
        cluster: name of the cluster.
        spec_digest: sha256 of the cluster file's meaning.
        observed: sha256 of all that was probed; apply compares it again before it begins.
        machines: what the provider does first.
        stages: the changes. Empty for machines that do not exist yet: what they hold cannot be
            known before, so ``deferred`` names what they will get and a second plan is made.
        deferred: (nodes, resource ids) of machines that do not exist yet.
        leaving: machines that the file names no longer: removed or released after the stages;
            or ``OWED``, when one does not answer: nothing can be done about it now.
        unreachable: nodes that do not answer, and why: they are left as they are
            (``--keep-going``).
    """

    cluster: str
    spec_digest: str
    observed: str
    machines: tuple[MachineChange, ...] = ()
    stages: tuple[Stage, ...] = ()
    deferred: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()
    leaving: tuple[MachineChange, ...] = ()
    unreachable: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def empty(self) -> bool:
        """True when there is nothing to do on the nodes that answer."""
        return not self.machines and not self.stages and all(m.action == OWED for m in self.leaving)

    @property
    def impact(self) -> Impact:
        """The worst impact of all changes."""
        return max((c.change.impact for s in self.stages for c in s.changes), default=Impact.NONE)

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON-ready data; ``from_dict`` reads it."""
        data = asdict(self)
        data["format"] = FORMAT
        for stage in data["stages"]:
            for entry in stage["changes"]:
                entry["change"]["impact"] = Impact(entry["change"]["impact"]).word
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """Read what ``as_dict`` wrote.

        Raises:
            CorralError: PARSE_FAILED, the data is not a plan of this format.
        """
        if data.get("format") != FORMAT:
            raise CorralError(
                Code.PARSE_FAILED,
                f"not a plan of format {FORMAT}",
                hint="write it again with: corral plan FILE --out PLAN",
            )
        try:
            return cls(
                cluster=data["cluster"],
                spec_digest=data["spec_digest"],
                observed=data["observed"],
                machines=tuple(MachineChange(**m) for m in data["machines"]),
                stages=tuple(_stage(s) for s in data["stages"]),
                deferred=tuple((tuple(n), tuple(r)) for n, r in data["deferred"]),
                leaving=tuple(MachineChange(**m) for m in data["leaving"]),
                unreachable=dict(data.get("unreachable", {})),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CorralError(
                Code.PARSE_FAILED, f"the plan is damaged: {error!r}", hint="re-create it"
            ) from error


def _stage(data: Mapping[str, Any]) -> Stage:
    return Stage(
        data["name"],
        data["title"],
        tuple(NodeChange(tuple(c["nodes"]), _change(c["change"])) for c in data["changes"]),
        tuple(_gate(g) for g in data["gates"]),
        Roll(**data["roll"]) if data["roll"] else None,
    )


def _change(data: Mapping[str, Any]) -> Change:
    return Change(
        resource=data["resource"],
        summary=data["summary"],
        before=data["before"],
        after=data["after"],
        script=reread(data["script"]),
        impact=Impact[data["impact"].upper()],
        secrets=tuple(SecretRef(**s) for s in data["secrets"]),
        keeps=tuple(data["keeps"]),
        refuses=data["refuses"],
    )


def _gate(data: Mapping[str, Any]) -> Gate:
    return Gate(
        name=data["name"],
        node=data["node"],
        script=reread(data["script"]),
        timeout=data["timeout"],
        hint=data["hint"],
        diagnose=reread(data["diagnose"]),
        alone=data["alone"],
    )
