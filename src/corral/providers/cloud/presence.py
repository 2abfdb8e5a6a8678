"""Which elastic nodes are rented now."""

from __future__ import annotations

from corral.providers.cloud.accounts import open_accounts, providers_named
from corral.providers.cloud.ledger import Ledger
from corral.providers.cloud.model import State
from corral.providers.cloud.simulated import rehearsal_of
from corral.providers.cloud.termination import find
from corral.spec.models import ClusterSpec
from corral.spec.nodes import elastic_of, with_present


async def rented_nodes(spec: ClusterSpec, *, running: bool = False) -> tuple[str, ...]:
    """Elastic nodes that have a machine.

    Args:
        spec: the cluster.
        running: only those whose machine runs and has an address.

    Raises:
        CorralError: a cloud cannot be asked.
    """
    names = [node.name for node in elastic_of(spec)]
    if not names:
        return ()
    apis = open_accounts(providers_named(spec), rehearsal_of(spec.name))
    try:
        assets = await find(apis, spec.name, Ledger(spec.name))
    finally:
        for api in apis.values():
            await api.close()
    there = {
        instance.label.node
        for instance in assets.instances
        if instance.label
        and (not running or (instance.state is State.RUNNING and instance.address))
    }
    return tuple(name for name in names if name in there)


async def present(spec: ClusterSpec) -> ClusterSpec:
    """The cluster with those of its elastic nodes that run, unless it is known already which do.

    Raises:
        CorralError: a cloud cannot be asked.
    """
    if not elastic_of(spec) or any(g.elastic and g.elastic.present for g in spec.groups):
        return spec
    return with_present(spec, await rented_nodes(spec, running=True))
