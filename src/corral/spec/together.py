"""Groups whose machines come as one of the provider's own clusters."""

from __future__ import annotations

from corral.spec.models import ClusterSpec
from corral.spec.nodes import declared_of


def together_of(spec: ClusterSpec) -> dict[str, tuple[str, ...]]:
    """Such groups of a cluster file, with their nodes in the order of ranks."""
    groups: dict[str, list[str]] = {}
    for node in declared_of(spec):
        if node.group.cloud is not None and node.group.cloud.cluster:
            groups.setdefault(node.group.name, []).append(node.name)
    return {name: tuple(nodes) for name, nodes in groups.items()}
