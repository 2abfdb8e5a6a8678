"""Elastic nodes: which are rented now, what the others would be and cost."""

from __future__ import annotations

from collections.abc import Mapping

from corral.providers.cloud.budget import Spend, require_within
from corral.providers.cloud.client.accounts import close_all, open_accounts, providers_named
from corral.providers.cloud.ledger import Ledger
from corral.providers.cloud.model import CloudApi, Offer, State
from corral.providers.cloud.offer_order import candidates
from corral.providers.cloud.rehearsal import rehearsal_of
from corral.providers.cloud.termination import find
from corral.spec.models import ClusterSpec, NodeGroup
from corral.spec.nodes import elastic_of, with_present
from corral.spec.slurm.hostlist import expand


async def on_call(spec: ClusterSpec, apis: Mapping[str, CloudApi] | None = None) -> tuple[str, ...]:
    """One line for each elastic group: where its nodes would come from, and their price.

    Args:
        spec: the cluster.
        apis: clouds by name; None: those of this machine's user.

    Raises:
        CorralError: a type or region is not on sale, the budget does not allow one node of a group,
            a cloud cannot be asked.
    """
    groups = [g for g in spec.groups if g.elastic is not None and g.cloud is not None]
    if not groups:
        return ()
    opened = apis or open_accounts(providers_named(spec), rehearsal_of(spec.name))
    try:
        on_sale = {name: await api.offers() for name, api in opened.items()}
    finally:
        await close_all(opened, given=bool(apis))
    return tuple(_line(spec, group, on_sale) for group in groups)


def _line(spec: ClusterSpec, group: NodeGroup, on_sale: Mapping[str, tuple[Offer, ...]]) -> str:
    if group.cloud is None or group.elastic is None:
        return ""
    first, *rest = candidates(group.name, group.provider, group.cloud, on_sale)
    require_within(spec.budget, Spend(0.0, 0.0), [first.price], f"a node of group {group.name}")
    nodes = len(expand(group.nodes))
    where = f" in {first.region}" if first.region else ""
    price = ", price unknown"
    if first.price is not None:
        most = f" of {spec.budget.per_hour:.2f}" if spec.budget and spec.budget.per_hour else ""
        price = f", {first.price:.2f} $/h each, all of them {first.price * nodes:.2f}{most} $/h"
    other = f", else {len(rest)} other offers" if rest else ""
    count = f"{group.elastic.min} to {nodes} nodes"
    return f"{group.name}: {count} for jobs: {first.provider} {first.type}{where}{price}{other}"


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
