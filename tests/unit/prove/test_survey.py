"""Which of a node's partitions a proof's jobs go to."""

from __future__ import annotations

import pytest

from corral.prove.survey import usable_partitions
from corral.spec.models import ClusterSpec, Partition
from tests.unit.roles.test_cluster import laptop


def spec(**fields: object) -> ClusterSpec:
    first = Partition.model_validate({"name": "a", "groups": ("cpu",), **fields})
    return laptop(partitions=(first, Partition(name="b", groups=("cpu",))))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ("a", "b", "corral-proof")),
        ({"state": "down"}, ("b", "corral-proof")),
        ({"state": "inactive"}, ("b", "corral-proof")),
        ({"max_nodes": 1}, ("b", "corral-proof", "a")),
        ({"max_cpus_per_node": 1}, ("b", "corral-proof", "a")),
    ],
)
def test_jobs_go_where_they_start(fields: dict[str, object], expected: tuple[str, ...]) -> None:
    assert usable_partitions(spec(**fields), ("a", "b", "corral-proof")) == expected
