"""Ending all that was rented for a cluster, and proving by listing that nothing is left.

Instances are found twice: by the label in their names, and by the ids in the ledger (members of
machines rented as one do not always show a label, F56).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.providers.cloud.errors import CloudError, Reason, all_failed
from corral.providers.cloud.ledger import Ledger
from corral.providers.cloud.model import CloudApi, Extra, Instance

ROUNDS: Final = 40
ROUND_S: Final = 5.0
PROOFS: Final = 3
"""Lists in a row that must show nothing: one may be stale."""

PROOF_S: Final = 2.0
SETTLED_S: Final = 60.0
"""After this time an announced launch that no list shows has come to nothing."""


@dataclass(frozen=True, slots=True)
class Assets:
    """What a cluster has at the clouds.

    Attributes:
        instances: those that may cost money.
        extras: ssh keys, startup scripts, machines rented as one.
    """

    instances: tuple[Instance, ...]
    extras: tuple[Extra, ...]

    def lines(self) -> list[str]:
        """One line each, for people."""
        return [
            *(
                f"{i.provider} instance {i.name or i.id} ({i.id}, {i.detail})"
                for i in self.instances
            ),
            *map(str, self.extras),
        ]

    def as_dict(self) -> dict[str, Any]:
        return {
            "instances": [
                {
                    "provider": i.provider,
                    "id": i.id,
                    "name": i.name,
                    "node": i.label.node if i.label else "",
                    "state": i.state.value,
                    "type": i.type,
                    "region": i.region,
                    "price": i.price,
                }
                for i in self.instances
            ],
            "extras": [str(extra) for extra in self.extras],
        }


async def find(
    apis: Mapping[str, CloudApi], cluster: str, ledger: Ledger, *, noting: bool = True
) -> Assets:
    """All that belongs to a cluster, by label and by ledger.

    Args:
        apis: clouds to ask.
        cluster: its name.
        ledger: its ledger; ids that no list shows any more are noted as ended.
        noting: write what was seen to the ledger.

    Raises:
        CorralError: clouds cannot be asked, each named; what the others list is noted.
    """
    assets, failed = await find_some(apis, cluster, ledger, noting=noting)
    if failed:
        raise all_failed(failed)
    return assets


async def find_some(
    apis: Mapping[str, CloudApi], cluster: str, ledger: Ledger, *, noting: bool = True
) -> tuple[Assets, dict[str, CorralError]]:
    """As ``find``, of the clouds that answer; and by cloud, why one could not be asked."""
    instances: list[Instance] = []
    extras: list[Extra] = []
    failed: dict[str, CorralError] = {}
    for name, api in apis.items():
        try:
            listed, others = await api.instances(), await api.extras(cluster)
        except CorralError as error:
            failed[name] = error
            continue
        mine = _of_cluster(listed, others, cluster, ledger, name)
        instances += mine
        extras += others
        if noting:
            _note(ledger, name, mine)
    return Assets(tuple(instances), tuple(extras)), failed


def _of_cluster(
    listed: Sequence[Instance], extras: Sequence[Extra], cluster: str, ledger: Ledger, name: str
) -> list[Instance]:
    """Instances that carry the cluster's label, are in its ledger, or are members of its groups."""
    known = {r.id for r in ledger.rentals().values() if r.provider == name and r.id}
    groups = {i.group for i in listed if i.group and i.label and i.label.cluster == cluster}
    groups |= {e.id for e in extras if e.kind == "cluster"}
    return [
        i
        for i in listed
        if i.state.exists
        and ((i.label and i.label.cluster == cluster) or i.id in known or i.group in groups - {""})
    ]


def _note(ledger: Ledger, provider: str, mine: Sequence[Instance]) -> None:
    for instance in mine:
        ledger.adopt(instance)
    alive = {instance.id for instance in mine}
    for rental in ledger.rentals().values():
        if rental.provider == provider and rental.open and rental.id and rental.id not in alive:
            ledger.ended(rental.nonce)


async def end_all(
    apis: Mapping[str, CloudApi],
    cluster: str,
    ledger: Ledger,
    emit: Emit,
    silent: Mapping[str, CorralError] = MappingProxyType({}),
) -> tuple[str, ...]:
    """End all instances of a cluster, remove what else was made, and prove that nothing is left.

    Safe to repeat; another process may do the same. A cloud that takes no key, or does not answer,
    keeps nothing at the others running.

    Args:
        apis: clouds to ask.
        cluster: its name.
        ledger: its ledger.
        emit: receives an event for each instance that is ended.
        silent: clouds that may have something of it and cannot be asked.

    Returns:
        what was ended and removed.

    Raises:
        CorralError: PROVIDER_FAILED, something is left; its lines are in the tail. Clouds could
            not be asked, each named: what was ended at the others comes before the tail.
    """
    ends = await asyncio.gather(
        *(_end_at({name: api}, cluster, ledger, emit) for name, api in apis.items()),
        return_exceptions=True,
    )
    gone = tuple(line for end in ends if not isinstance(end, BaseException) for line in end)
    failed = dict(silent)
    for name, end in zip(apis, ends, strict=True):
        if isinstance(end, CorralError):
            failed[name] = end
        elif isinstance(end, BaseException):
            raise end
    if failed:
        error = all_failed(failed)
        error.tail = "\n".join([*(f"ended all the same: {g}" for g in gone), error.tail]).strip()
        raise error
    return gone


async def _end_at(
    apis: Mapping[str, CloudApi], cluster: str, ledger: Ledger, emit: Emit
) -> tuple[str, ...]:
    """``end_all`` at one cloud."""
    gone: dict[str, None] = {}
    clean = 0
    assets = Assets((), ())
    troubles: list[CorralError] = []
    for _ in range(ROUNDS):
        assets = await find(apis, cluster, ledger)
        if not assets.instances and not assets.extras:
            # A launch that was announced moments ago may still turn up.
            clean += not _young(ledger, tuple(apis))
            if clean >= (PROOFS if gone else 1):
                _close(ledger, tuple(apis))
                return tuple(gone)
            await asyncio.sleep(PROOF_S)
            continue
        clean = 0
        troubles = await _end(apis, assets, emit)
        gone |= dict.fromkeys(assets.lines())
        await asyncio.sleep(ROUND_S)
    raise CorralError(
        Code.PROVIDER_FAILED,
        f"{len(assets.lines())} things of cluster {cluster} are left, and may cost money",
        tail="\n".join([*assets.lines(), *(str(t) for t in troubles)]),
        hint=f"run corral reap {cluster} again; if they remain, end them on the provider's page",
    )


async def _end(apis: Mapping[str, CloudApi], assets: Assets, emit: Emit) -> list[CorralError]:
    troubles: list[CorralError] = []
    for name, api in apis.items():
        mine = [i for i in assets.instances if i.provider == name]
        if mine:
            names = ", ".join(i.name or i.id for i in mine)
            emit(Event(Kind.NOTE, "machines", message=f"ending at {name}: {names}"))
        try:
            await api.terminate(mine)
            for extra in assets.extras:
                # A key in use by an instance that still ends is tried again in the next round.
                if extra.provider == name:
                    await api.remove(extra)
        except CloudError as error:
            if error.reason in (Reason.KEY, Reason.FORBIDDEN):
                raise
            troubles.append(error)
    return troubles


def _young(ledger: Ledger, providers: Sequence[str]) -> bool:
    since = ledger.now() - SETTLED_S
    return any(
        r.open and not r.id and r.intent > since and r.provider in providers
        for r in ledger.rentals().values()
    )


def _close(ledger: Ledger, providers: Sequence[str]) -> None:
    """Launches that were announced, and of which nothing came, are closed: no list shows them."""
    for rental in ledger.rentals().values():
        if rental.open and rental.provider in providers:
            if rental.id:
                ledger.ended(rental.nonce)
            else:
                ledger.refused(rental.nonce, "never seen")


async def end_some(
    apis: Mapping[str, CloudApi], ledger: Ledger, instances: Sequence[Instance]
) -> None:
    """End single instances and note their end once the cloud has taken the call."""
    for name in dict.fromkeys(i.provider for i in instances):
        mine = [i for i in instances if i.provider == name]
        await apis[name].terminate(mine)
        left = {i.id for i in await apis[name].instances() if i.state.exists}
        for instance in mine:
            if instance.label and instance.id not in left:
                ledger.ended(instance.label.nonce)
