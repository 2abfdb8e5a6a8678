"""Rented nodes as a provider: all clouds of a cluster file together.

What exists is found by label at every check; the ledger only adds what no label shows, and what it
cost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.hosts.sshkeys import make_key
from corral.hosts.target import SshTarget
from corral.inspect.facts import Facts, Traits
from corral.providers.base import (
    Action,
    Machine,
    MachineAction,
    Memory,
    Observed,
    raise_failed,
)
from corral.providers.cloud import cluster_groups, offer_order
from corral.providers.cloud.budget import Spend, amount, require_within, spend
from corral.providers.cloud.client.accounts import close_all, open_accounts, providers_named
from corral.providers.cloud.errors import all_failed
from corral.providers.cloud.launcher import Launcher, Sorted
from corral.providers.cloud.ledger import Ledger
from corral.providers.cloud.model import (
    CloudApi,
    ClusterApi,
    Instance,
    Label,
    LaunchRequest,
    Offer,
    State,
)
from corral.providers.cloud.offer_order import candidates, sources
from corral.providers.cloud.readiness import (
    KNOWN_HOSTS,
    PATIENCE_S,
    Watch,
    boot_script,
    forget,
    until_reachable,
)
from corral.providers.cloud.rehearsal import rehearsal_of
from corral.providers.cloud.termination import end_all, end_some, find
from corral.spec.models import ClusterSpec
from corral.spec.nodes import Node, declared_of, nodes_of, together_of
from corral.spec.providers import RENTALS
from corral.spec.sections.cloud import hours
from corral.state_dir import cluster_dir

KEY: Final = "id_ed25519"
DEFAULT_DEAD_MAN: Final = "24h"


class CloudProvider:
    """The nodes of groups with a provider that rents.

    Args:
        spec: the cluster file.
        apis: clouds by name; None: those of this machine's user.
        ledger: the cluster's ledger; None: the one of this machine.
    """

    name: ClassVar[str] = "cloud"
    owned: ClassVar[bool] = False

    def __init__(
        self,
        spec: ClusterSpec,
        apis: Mapping[str, CloudApi] | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.cluster = spec.name
        self._spec = spec
        self._nodes = {n.name: n for n in nodes_of(spec) if n.group.capabilities.rents}
        self._given = apis
        self.ledger = ledger or Ledger(spec.name)
        self._memory = Memory()
        self._sorted = Sorted({}, ())
        self._groups = together_of(spec)
        self._states: dict[str, cluster_groups.GroupState] = {}
        self._offers: dict[str, tuple[Offer, ...]] = {}
        self._unasked: tuple[str, ...] = ()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The declared rented nodes."""
        return tuple(self._nodes.values())

    def apis(self) -> dict[str, CloudApi]:
        """Fresh connections to all clouds the file names: each run has its own event loop."""
        if self._given:
            return dict(self._given)
        return open_accounts(providers_named(self._spec), rehearsal_of(self.cluster))

    async def read_machines(self) -> Observed:
        """Find the cluster's instances, and offers for nodes that have none.

        What is missing and not available (a type or region that is not on sale, the budget) is the
        observation's ``refusal``: what runs can be used, and ended, all the same (decision 0040).

        Raises:
            CorralError: a key is missing or not taken, a cloud does not answer.
        """
        apis = self.apis()
        refusal: CorralError | None = None
        try:
            assets = await find(apis, self.cluster, self.ledger)
            declared = [n.name for n in declared_of(self._spec)]
            self._sorted, self._states = cluster_groups.sort(
                assets, self.cluster, declared, self._groups
            )
            missing = [n for n in self.nodes if n.name not in self._sorted.nodes]
            try:
                await self._choose(apis, missing)
            except CorralError as error:
                refusal = error
        finally:
            await close_all(apis, given=bool(self._given))
        machines = {n.name: self._machine(n) for n in self.nodes}
        strays = tuple(i.id for i in self._sorted.surplus)
        self._memory.observed = Observed(machines, strays, refusal=refusal)
        return self._memory.observed

    async def _choose(self, apis: Mapping[str, CloudApi], missing: Sequence[Node]) -> None:
        if not missing:
            return
        on_sale: dict[str, tuple[Offer, ...]] = {}
        as_one: dict[str, tuple[Offer, ...]] = {}
        failed: dict[str, CorralError] = {}
        for name, api in apis.items():
            try:
                await api.check()
                on_sale[name] = as_one[name] = await api.offers()
                if self._groups and isinstance(api, ClusterApi):
                    as_one[name] = await api.cluster_offers()
            except CorralError as error:
                failed[name] = error
        self._unasked = tuple(failed)
        for node in missing:
            cloud = node.group.cloud
            if cloud is not None:
                named = {s.provider for s in sources(node.group.provider, cloud)}
                if named <= set(failed):
                    raise all_failed({n: e for n, e in failed.items() if n in named})
                sale = as_one if cloud.cluster else on_sale
                self._offers[node.name] = candidates(
                    node.group.name, node.group.provider, cloud, sale
                )
        self.require_budget(missing)

    def require_budget(self, missing: Sequence[Node]) -> None:
        """Check that all missing nodes may be launched at their first offers.

        Raises:
            CorralError: NOT_GOOD.
        """
        added = [self._offers[n.name][0].price for n in missing if n.name in self._offers]
        what = f"{len(added)} more machines" if len(added) > 1 else "one more machine"
        require_within(self._spec.budget, self.spend(), added, what)

    def spend(self) -> Spend:
        """What the cluster costs now and has cost, by the ledger."""
        return spend(self.ledger.rentals().values(), self.ledger.now())

    def _machine(self, node: Node) -> Machine:
        instance = self._sorted.nodes.get(node.name)
        if instance is None:
            return Machine(node.name, exists=False, running=False, address="")
        runs = instance.state is State.RUNNING and bool(instance.address)
        until = instance.created + PATIENCE_S if instance.created else 0.0
        return Machine(
            node.name, exists=True, running=runs, address=instance.address, boots_until=until
        )

    def plan(self, observed: Observed) -> tuple[MachineAction, ...]:
        """Launch what is missing, await what boots, replace what broke, end the surplus. Pure."""
        actions = [
            MachineAction(i.label.node if i.label else i.id, Action.REMOVE, _line(i, "is too many"))
            for i in self._sorted.surplus
        ]
        for name, state in self._states.items():
            actions += state.plan(name, self.ledger.now(), observed.machines, self._line_of)
        for node in self.nodes:
            instance = self._sorted.nodes.get(node.name)
            if node.group.name in self._groups:
                continue
            if instance is None:
                actions.append(MachineAction(node.name, Action.CREATE, self._price_line(node)))
            elif instance.state in (State.BROKEN, State.STOPPED):
                text = _line(instance, f"is {instance.detail}: ended, and another one launched")
                actions.append(MachineAction(node.name, Action.RECREATE, text))
            elif not observed.machines[node.name].running:
                actions.append(MachineAction(node.name, Action.START, _line(instance, "boots")))
        return tuple(actions)

    def _line_of(self, node: str) -> str:
        return self._price_line(self._nodes[node])

    def _price_line(self, node: Node) -> str:
        offers = self._offers.get(node.name, ())
        if not offers:
            return "rented machine"
        first = offers[0]
        price = "price unknown" if first.price is None else f"{first.price:.2f} $/h"
        where = f" in {first.region}" if first.region else ""
        rest = f", else {len(offers) - 1} other offers" if len(offers) > 1 else ""
        named = sources(node.group.provider, node.group.cloud) if node.group.cloud else ()
        away = [s.provider for s in named if s.provider in self._unasked]
        unasked = f" ({', '.join(away)} could not be asked)" if away else ""
        return f"{first.provider} {first.type}{where}, {price}{rest}{unasked}; {self._sum_line()}"

    def _sum_line(self) -> str:
        now = self.spend()
        missing = [n for n in self.nodes if n.name not in self._sorted.nodes]
        firsts = [self._offers[n.name][0] for n in missing if n.name in self._offers]
        rate = amount(
            now.per_hour + sum(offer.price or 0.0 for offer in firsts),
            exact=not now.unpriced and all(offer.price is not None for offer in firsts),
        )
        budget = self._spec.budget
        most = f" of {budget.per_hour:.2f}" if budget and budget.per_hour else ""
        some = now.total >= 0.005 or now.unpriced_ever  # noqa: PLR2004
        spent = f", {now.spent()} $ spent so far" if some else ""
        return f"cluster then {rate}{most} $/h{spent}"

    async def prepare(self, emit: Emit) -> None:
        """Nothing to prepare."""

    async def apply(self, actions: Sequence[MachineAction], emit: Emit) -> None:
        """Launch, all at once as far as the clouds' limits allow, until sshd answers on each.

        Raises:
            CorralError: PROVIDER_FAILED, NOT_GOOD (budget); NodesFailedError for several nodes.
                What was launched stays, and the same again goes on from there.
        """
        if not actions:
            return
        refusal = self._memory.observed.refusal
        if refusal is not None and any(a.action is Action.CREATE for a in actions):
            raise refusal
        apis = self.apis()
        try:
            await self._end_first(apis, actions)
            launcher = self._launcher(apis, emit)
            watches = {name: Watch(api) for name, api in apis.items()}
            live = [a for a in actions if a.action is not Action.REMOVE]
            single, batches = cluster_groups.parted(live, self._groups)
            ends = await asyncio.gather(
                *(self._bring_up(apis, watches, launcher, a, emit) for a in single),
                *(self._bring_up_group(apis, watches, launcher, g, emit) for g in batches),
                return_exceptions=True,
            )
        finally:
            await close_all(apis, given=bool(self._given))
        raise_failed(ends)

    async def _end_first(
        self, apis: Mapping[str, CloudApi], actions: Sequence[MachineAction]
    ) -> None:
        again = {a.node for a in actions if a.action is Action.RECREATE}
        gone = [i for n, i in self._sorted.nodes.items() if n in again]
        if any(a.action is Action.REMOVE for a in actions):
            gone += self._sorted.surplus
        await end_some(apis, self.ledger, gone)
        for extra in (e for state in self._states.values() for e in state.spare):
            await apis[extra.provider].remove(extra)
        for instance in gone:
            if instance.label:
                forget(self.cluster, instance.label.node)

    def _launcher(self, apis: Mapping[str, CloudApi], emit: Emit) -> Launcher:
        public = make_key(cluster_dir(self.cluster) / KEY, f"corral-{self.cluster}")

        def make(label: Label, offer: Offer) -> LaunchRequest:
            first = self._groups.get(label.node, (label.node,))[0]
            group = self._nodes[first].group
            cloud = group.cloud
            budget = self._spec.budget
            return LaunchRequest(
                label,
                offer,
                public,
                str(boot_script(public, RENTALS[offer.provider].user)),
                hours(budget.dead_man if budget else DEFAULT_DEAD_MAN),
                (cloud.image or "") if cloud and offer.provider == group.provider else "",
                cloud.disk_gib if cloud else 100,
                cloud.volumes if cloud and offer.provider == group.provider else (),
                self.ledger.now(),
            )

        def may(offer: Offer) -> None:
            what = f"{offer.provider} {offer.type}"
            require_within(self._spec.budget, self.spend(), [offer.price], what)

        return Launcher(apis, self.ledger, self.cluster, make, emit, may)

    async def _bring_up(
        self,
        apis: Mapping[str, CloudApi],
        watches: Mapping[str, Watch],
        launcher: Launcher,
        action: MachineAction,
        emit: Emit,
    ) -> None:
        node, began = action.node, time.monotonic()
        emit(Event(Kind.NODE_STARTED, "machines", node, action.summary))
        try:
            instance = self._sorted.nodes.get(node)
            if action.action is Action.START and instance is not None:
                provider, identity = instance.provider, instance.id
            else:
                offers = self._offers.get(node) or await self._late_offers(apis, node)
                identity = await launcher.launch(node, offers)
                provider = self._where(identity)
            await until_reachable(watches[provider], node, identity)
        except CorralError as error:
            emit(Event(Kind.NODE_FAILED, "machines", node, error.message))
            raise
        took = time.monotonic() - began
        emit(Event(Kind.NODE_DONE, "machines", node, f"{provider} {identity}: sshd answers", took))

    async def _bring_up_group(
        self,
        apis: Mapping[str, CloudApi],
        watches: Mapping[str, Watch],
        launcher: Launcher,
        actions: Sequence[MachineAction],
        emit: Emit,
    ) -> None:
        first = self._nodes[actions[0].node]
        state, launch = self._states[first.group.name], actions[0].action is not Action.START
        with cluster_groups.reported(actions, emit):
            offers = self._offers.get(first.name, ())
            if launch and not offers:
                offers = await self._late_offers(apis, first.name)
            watch, name = watches[first.group.provider], first.group.name
            await cluster_groups.bring_up(watch, launcher, name, state, offers, launch=launch)

    async def _late_offers(self, apis: Mapping[str, CloudApi], node: str) -> tuple[Offer, ...]:
        await self._choose(apis, [self._nodes[node]])
        return self._offers[node]

    def _where(self, identity: str) -> str:
        return next(r.provider for r in self.ledger.rentals().values() if r.id == identity)

    def address(self, node: str) -> str:
        """The address the instance has; "" while there is none."""
        self._memory.machine(node)
        instance = self._sorted.nodes.get(node)
        return instance.address if instance else ""

    def ssh_target(self, node: str) -> SshTarget:
        """The account of the cloud's image, by the cluster's key.

        The host key is pinned at first sight, as no cloud reports it.
        """
        instance = self._sorted.nodes.get(node)
        if instance is None or not instance.address:
            raise CorralError(
                Code.NOT_FOUND, "it is not rented now", node=node, hint="corral up FILE"
            )
        folder = cluster_dir(self.cluster, create=False)
        return SshTarget(
            instance.address,
            port=instance.port,
            user=instance.user,
            key=folder / KEY,
            known_hosts=folder / KNOWN_HOSTS,
            pin_new=True,
        )

    def predict(self, node: str) -> Facts:
        """What the first offer reports about it."""
        return offer_order.facts(node, self._offers.get(node, ()), self.address(node))

    def traits(self, node: str) -> Traits:
        """In a rehearsal the machine is a container: its GPU files and clock are not its own."""
        if rehearsal_of(self.cluster) is None:
            return Traits()
        gpus = self._nodes[node].group.gpu_count
        shared = tuple(s.mount for s in self._spec.storage if s.kind == "provider")
        return offer_order.rehearsed(gpus, len(declared_of(self._spec)), shared)

    async def destroy(self, emit: Emit) -> tuple[str, ...]:
        """End all and prove by listing that nothing is left; safe to repeat.

        Raises:
            CorralError: PROVIDER_FAILED, something is left.
        """
        apis = self.apis()
        try:
            return await end_all(apis, self.cluster, self.ledger, emit)
        finally:
            await close_all(apis, given=bool(self._given))

    async def leftovers(self) -> list[str]:
        """What a list of each cloud shows of the cluster."""
        apis = self.apis()
        try:
            return (await find(apis, self.cluster, self.ledger)).lines()
        finally:
            await close_all(apis, given=bool(self._given))

    async def release(self, nodes: Sequence[str]) -> None:
        """End the machines of these nodes, those that there are."""
        apis = self.apis()
        try:
            assets = await find(apis, self.cluster, self.ledger)
            seen, _ = cluster_groups.sort(assets, self.cluster, nodes, self._groups)
            mine = [i for n, i in seen.nodes.items() if n in nodes]
            await end_some(apis, self.ledger, mine)
        finally:
            await close_all(apis, given=bool(self._given))
        for node in nodes:
            forget(self.cluster, node)


def _line(instance: Instance, what: str) -> str:
    return f"{instance.provider} {instance.type} {instance.id} {what}"
