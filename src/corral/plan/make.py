"""Compares desired with observed state: a Plan. Pure: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from corral.plan.model import MachineChange, NodeChange, Plan, Stage
from corral.state.base import (
    Change,
    Context,
    DesiredStage,
    Gate,
    Resource,
    Seen,
    digest_of,
)
from corral.state.secrets import Secret

UNSEEN = Seen(0, "absent")

Observed = Mapping[str, Mapping[str, Seen]]
"""What each node's probes answered: node -> resource id -> Seen."""


def resources_of(stages: Sequence[DesiredStage]) -> dict[str, tuple[Resource, ...]]:
    """All resources of each node, in the order of the stages.

    Nodes with equal resources get the same tuple, so that what is made from it can be shared.
    """
    lists: dict[str, list[Resource]] = {}
    for stage in stages:
        for entry in stage.desired:
            for node in entry.nodes:
                lists.setdefault(node, []).extend(entry.resources)
    shared: dict[tuple[int, ...], tuple[Resource, ...]] = {}
    by_node: dict[str, tuple[Resource, ...]] = {}
    for node, resources in lists.items():
        key = tuple(map(id, resources))
        by_node[node] = shared.setdefault(key, tuple(resources))
    return by_node


def make_plan(
    *,
    cluster: str,
    spec_digest: str,
    stages: Sequence[DesiredStage],
    observed: Observed,
    machines: Sequence[MachineChange] = (),
    absent: Sequence[str] = (),
    unreachable: Mapping[str, str] = MappingProxyType({}),
    leaving: Sequence[MachineChange] = (),
    owed: Collection[str] = (),
) -> Plan:
    """Compare and order.

    Args:
        cluster: name of the cluster.
        spec_digest: digest of the cluster file's meaning.
        stages: desired state, in order.
        observed: answers of all nodes that can be reached.
        machines: what the provider does first.
        absent: nodes that cannot be reached before that; what they will get is only named
            (``Plan.deferred``), as far as ``stages`` knows it.
        unreachable: nodes that are left as they are, and why.
        leaving: machines that go after all stages.
        owed: stages that are there for their gates, also without a change.
    """
    differ = _Differ(stages, observed, frozenset(unreachable))
    made = [differ.stage(stage) for stage in stages]
    return Plan(
        cluster=cluster,
        spec_digest=spec_digest,
        observed=digest_of(observed),
        machines=tuple(machines),
        stages=() if machines else tuple(s for s in made if s.changes or s.name in owed),
        deferred=_deferred(stages, absent),
        leaving=tuple(leaving),
        unreachable=dict(unreachable),
    )


def _deferred(
    stages: Sequence[DesiredStage], absent: Sequence[str]
) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    known = resources_of(stages)
    by_ids: dict[tuple[str, ...], list[str]] = {}
    for node in absent:
        by_ids.setdefault(tuple(r.id for r in known.get(node, ())), []).append(node)
    return tuple((tuple(nodes), ids) for ids, nodes in by_ids.items())


def _secrets(stages: Sequence[DesiredStage], observed: Observed) -> dict[str, str]:
    """Digest of each secret as its source node holds it now."""
    digests: dict[str, str] = {}
    for stage in stages:
        for entry in stage.desired:
            for resource in entry.resources:
                if isinstance(resource, Secret) and resource.id not in digests:
                    seen = observed.get(resource.source, {}).get(resource.id)
                    if seen is not None and seen.text != "absent":
                        digests[resource.id] = seen.text.partition(" ")[0]
    return digests


def _gates(
    stage: DesiredStage, changes: Sequence[NodeChange], unreachable: frozenset[str]
) -> tuple[Gate, ...]:
    """All gates that can be asked; of a rolling stage those of the nodes that have a turn."""
    if stage.roll is None:
        return tuple(g for g in stage.gates if g.node not in unreachable)
    touched = {node for entry in changes for node in entry.nodes}
    return tuple(g for g in stage.gates if g.node in touched)


class _Differ:
    """Diffs each resource once for all nodes that answered alike."""

    def __init__(
        self, stages: Sequence[DesiredStage], observed: Observed, unreachable: frozenset[str]
    ) -> None:
        self._observed = observed
        self._unreachable = unreachable
        self._changed: dict[str, dict[str, Change]] = {}
        self._known: dict[tuple[object, ...], Change | None] = {}
        self._secrets = _secrets(stages, observed)

    def stage(self, stage: DesiredStage) -> Stage:
        change_of: dict[tuple[int, int, int], Change] = {}
        nodes_of: dict[tuple[int, int, int], list[str]] = {}
        for w, entry in enumerate(stage.desired):
            for node in entry.nodes:
                for r, change in self._node(node, entry.resources):
                    nodes_of.setdefault((w, r, id(change)), []).append(node)
                    change_of[w, r, id(change)] = change
        # Ordered by place in the desired state: so each node gets its changes in its own order.
        ordered = sorted(change_of, key=lambda k: k[:2])
        changes = tuple(NodeChange(tuple(nodes_of[k]), change_of[k]) for k in ordered)
        return Stage(
            stage.name, stage.title, changes, _gates(stage, changes, self._unreachable), stage.roll
        )

    def _node(self, node: str, resources: Sequence[Resource]) -> list[tuple[int, Change]]:
        answers = self._observed.get(node)
        if answers is None:
            return []
        changed = self._changed.setdefault(node, {})
        changes: list[tuple[int, Change]] = []
        for index, resource in enumerate(resources):
            change = self._diff(node, resource, answers.get(resource.id, UNSEEN), changed)
            if change is not None:
                changed[resource.id] = change
                changes.append((index, change))
        return changes

    def _diff(
        self, node: str, resource: Resource, seen: Seen, changed: dict[str, Change]
    ) -> Change | None:
        touched = tuple(id(changed[w]) for w in resource.watches if w in changed) if changed else ()
        here = isinstance(resource, Secret) and resource.source == node
        key = (id(resource), seen.status, seen.text, touched, here)
        if key not in self._known:
            context = Context(node, changed, self._secrets)
            self._known[key] = resource.diff(seen, context)
        return self._known[key]
