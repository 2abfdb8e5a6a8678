"""Launching without ever losing or doubling an instance.

The order is: announce in the ledger (on disk), call, note the id. A call that may have taken effect
unseen is never repeated: Corral looks for its nonce first. A crash anywhere between leaves an
announced launch and, perhaps, an instance with that nonce in its name; the next run finds it by
that name and takes it for the node's.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.providers.cloud.errors import CloudError, Reason
from corral.providers.cloud.ledger import Ledger
from corral.providers.cloud.model import (
    CloudApi,
    ClusterApi,
    Instance,
    Label,
    LaunchRequest,
    Offer,
    State,
    member_label,
)

POLLS: Final = 4
POLL_S: Final = 5.0
"""After an unsure launch the list is read this often, this far apart, before it counts as lost."""

PASS_ON: Final = frozenset((Reason.CAPACITY, Reason.QUOTA, Reason.FORBIDDEN, Reason.MISSING))
"""Refusals after which another offer is tried."""

Make = Callable[[Label, Offer], LaunchRequest]


@dataclass(slots=True)
class Launcher:
    """Launches nodes of one cluster.

    Args:
        apis: clouds by name.
        ledger: the cluster's.
        cluster: its name.
        make: completes a launch: key, boot script, disk.
        emit: receives the events.
        nonce: makes six hexadecimal digits.
        may: asked with an offer right before each launch; raises when the budget is exceeded.
    """

    apis: Mapping[str, CloudApi]
    ledger: Ledger
    cluster: str
    make: Make
    emit: Emit
    may: Callable[[Offer], None]
    nonce: Callable[[], str] = field(default=lambda: secrets.token_hex(3))

    async def launch(self, node: str, offers: Sequence[Offer]) -> str:
        """Rent a machine for a node at the first offer that is available.

        Returns:
            the instance's id.

        Raises:
            CorralError: every offer was refused, or the cloud takes nothing at all.
        """
        return await self._first(node, offers, lambda offer: self._launch_offer(node, offer))

    async def _first(
        self, node: str, offers: Sequence[Offer], take: Callable[[Offer], Awaitable[str]]
    ) -> str:
        refusals: list[CloudError] = []
        for offer in offers:
            try:
                return await take(offer)
            except CloudError as error:
                if error.reason not in PASS_ON:
                    error.node = node
                    raise
                refusals.append(error)
                text = f"{offer.provider} {offer.type} {offer.region}: {error.message}"
                self.emit(Event(Kind.NOTE, "machines", node, text))
        raise CorralError(
            Code.PROVIDER_FAILED,
            f"none of {len(offers)} offers could be launched",
            node=node,
            tail="\n".join(dict.fromkeys(e.message for e in refusals)),
            hint=refusals[-1].hint if refusals else "see: corral offers",
        )

    async def _launch_offer(self, node: str, offer: Offer) -> str:
        self.may(offer)
        label = Label(self.cluster, node, self.nonce())
        request = self.make(label, offer)
        self.ledger.intent(label, offer)
        try:
            identity = await self.apis[offer.provider].launch(request)
        except CloudError as error:
            if not error.unsure:
                self.ledger.refused(label.nonce, error.reason.value)
                raise
            identity = await self._listed(offer.provider, label)
            if not identity:
                # Its intent stays in the ledger: the next poll or reap ends it if it appears later.
                self.emit(
                    Event(Kind.NOTE, "machines", node, f"{error.message}; no instance appeared")
                )
                raise
        self.ledger.launched(label.nonce, identity)
        return identity

    async def launch_group(self, group: str, nodes: Sequence[str], offers: Sequence[Offer]) -> str:
        """Rent the machines of a group as one of the cloud's own clusters, all or none.

        Returns:
            the cluster's id.

        Raises:
            CorralError: as ``launch``.
        """
        return await self._first(
            group, offers, lambda offer: self._launch_cluster(group, nodes, offer)
        )

    async def _launch_cluster(self, group: str, nodes: Sequence[str], offer: Offer) -> str:
        api = self.apis[offer.provider]
        if not isinstance(api, ClusterApi):
            raise CorralError(Code.NOT_GOOD, f"{offer.provider} has no clusters", node=group)
        self.may(offer if offer.price is None else replace(offer, price=offer.price * len(nodes)))
        label = Label(self.cluster, group, self.nonce())
        members = [replace(member_label(label, n), node=node) for n, node in enumerate(nodes)]
        for member in members:
            self.ledger.intent(member, offer)
        try:
            return await api.launch_cluster(self.make(label, offer), len(nodes))
        except CloudError as error:
            if not error.unsure:
                for member in members:
                    self.ledger.refused(member.nonce, error.reason.value)
                raise
            for _ in range(POLLS):
                await asyncio.sleep(POLL_S)
                for extra in await api.extras(self.cluster):
                    if extra.name == label.name:
                        return extra.id
            raise

    async def _listed(self, provider: str, label: Label) -> str:
        """The id of the instance that an unsure launch made, "" when none shows up."""
        for _ in range(POLLS):
            await asyncio.sleep(POLL_S)
            for instance in await self.apis[provider].instances():
                if instance.label == label and instance.state is not State.GONE:
                    return instance.id
        return ""


@dataclass(frozen=True, slots=True)
class Sorted:
    """Instances of a cluster: one for each node, and those that are too many.

    Attributes:
        nodes: the instance of each node.
        surplus: a second one of a node, or one of a node that is declared no longer.
    """

    nodes: Mapping[str, Instance]
    surplus: tuple[Instance, ...]


def sort(instances: Sequence[Instance], cluster: str, nodes: Sequence[str]) -> Sorted:
    """Which instance is whose. Of two of one node the one that got furthest stays. Pure."""
    mine: dict[str, list[Instance]] = {}
    for instance in instances:
        if instance.label and instance.label.cluster == cluster and instance.state.exists:
            mine.setdefault(instance.label.node, []).append(instance)
    order = list(State)
    kept: dict[str, Instance] = {}
    surplus: list[Instance] = []
    for node, several in mine.items():
        several.sort(key=lambda i: (i.state is not State.RUNNING, order.index(i.state), i.id))
        if node in nodes:
            kept[node] = several.pop(0)
        surplus += several
    return Sorted(kept, tuple(surplus))
