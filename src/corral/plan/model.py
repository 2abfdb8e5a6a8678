"""A Plan is data: what will be done, where, in which order, and from which observation it was made.

It is JSON-ready (``as_dict``/``from_dict``), folds equal changes over nodes, and carries the digest
of what was observed; apply refuses it when that has moved. It never holds a secret.
"""

from __future__ import annotations

from dataclasses import dataclass

from corral.state.base import Change, Gate, Impact


@dataclass(frozen=True, slots=True)
class NodeChange:
    """One change on one or many nodes, written in Slurm's hostlist grammar."""

    nodes: tuple[str, ...]
    change: Change


@dataclass(frozen=True, slots=True)
class Stage:
    """Changes that may run at once on all their nodes (in order on each), closed by gates."""

    name: str
    title: str
    changes: tuple[NodeChange, ...]
    gates: tuple[Gate, ...] = ()


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
    """

    cluster: str
    spec_digest: str
    observed: str
    machines: tuple[MachineChange, ...] = ()
    stages: tuple[Stage, ...] = ()
    deferred: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()

    @property
    def empty(self) -> bool:
        """True when there is nothing to do."""
        return not self.machines and not self.stages

    @property
    def impact(self) -> Impact:
        """The worst impact of all changes."""
        return max((c.change.impact for s in self.stages for c in s.changes), default=Impact.NONE)
