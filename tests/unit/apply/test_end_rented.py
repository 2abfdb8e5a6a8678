"""What costs money by the hour ends, and nothing else."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from corral.apply.session import Session
from corral.events import ignore
from corral.spec.models import ClusterSpec, NodeGroup
from corral.spec.nodes import Node, nodes_of
from corral.spec.sections.cloud import Cloud


class Place:
    """A provider of some nodes, a class that no code compares with."""

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self.nodes = nodes

    async def destroy(self, _: object) -> tuple[str, ...]:
        return tuple(node.name for node in self.nodes)


def test_only_providers_that_rent_are_asked_to_end_machines() -> None:
    spec = ClusterSpec(
        corral="v1",
        name="lab",
        groups=(
            NodeGroup(name="home", provider="ssh", nodes="desk", addresses="10.0.0.10"),
            NodeGroup(name="gpu", provider="lambda", nodes="gpu0", cloud=Cloud(type="gpu_1x")),
            NodeGroup(name="pod", provider="runpod", nodes="pod0", cloud=Cloud(type="H100")),
        ),
    )
    rents = [node.group.capabilities.rents for node in nodes_of(spec)]
    assert rents == [False, True, True]
    owned, *rented = nodes_of(spec)
    places = cast("Any", (Place((owned,)), Place(tuple(rented))))
    assert asyncio.run(Session(spec, places).end_rented(ignore)) == ("gpu0", "pod0")
