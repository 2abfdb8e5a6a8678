"""What nodes that come for jobs would be and cost: reported, and refused, before a job needs it."""

from __future__ import annotations

from collections.abc import Mapping

from corral.providers.cloud.accounts import close_all, open_accounts, providers_named
from corral.providers.cloud.budget import Spend, require_within
from corral.providers.cloud.model import CloudApi, Offer
from corral.providers.cloud.offers import candidates
from corral.providers.cloud.simulated import rehearsal_of
from corral.spec.hostlist import expand
from corral.spec.models import ClusterSpec, NodeGroup


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
