"""Use case: end what was rented and is not needed, for a cluster or for all that nobody knows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from corral.errors import Code, CorralError
from corral.events import Emit, ignore
from corral.hosts.state_dir import cluster_names
from corral.providers.cloud.accounts import open_account
from corral.providers.cloud.ledger import Ledger
from corral.providers.cloud.model import CloudApi, Instance
from corral.providers.cloud.reaping import Found, end_all, find
from corral.providers.cloud.simulated import rehearsal_of
from corral.spec.cloud import CLOUDS


@dataclass(frozen=True, slots=True)
class Reapable:
    """What clouds list of a cluster.

    Attributes:
        cluster: the name in the instances' names.
        known: a folder of this machine knows the cluster.
        found: instances, and what else was made.
    """

    cluster: str
    known: bool
    found: Found

    @property
    def per_hour(self) -> float:
        """Dollars an hour."""
        return sum(one.price or 0.0 for one in self.found.instances)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        return {
            "cluster": self.cluster,
            "known": self.known,
            "per_hour": self.per_hour,
            **self.found.as_dict(),
        }


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found, and which clouds could not be asked (with why).

    Attributes:
        clusters: what the clouds list.
        silent: clouds without a key here, and those that did not answer or take it.
    """

    clusters: tuple[Reapable, ...]
    silent: dict[str, CorralError]

    @property
    def unsure(self) -> tuple[str, ...]:
        """Clouds of which there is a key, and of which nobody knows what they run."""
        return tuple(n for n, e in self.silent.items() if e.code is not Code.NOT_FOUND)


async def survey(names: Iterable[str] = ()) -> Survey:
    """Look for instances of clusters, without changing anything.

    Args:
        names: clusters; none: every cluster that the accounts show.

    Raises:
        CorralError: no cloud can be asked at all.
    """
    wanted = tuple(names)
    rehearsed = [name for name in wanted if rehearsal_of(name)]
    found: list[Reapable] = []
    for name in rehearsed:
        apis: dict[str, CloudApi] = {c: open_account(c, rehearsal_of(name)) for c in CLOUDS}
        found.append(await _of(apis, name))
    apis, silent = await _answering()
    real = [name for name in wanted if name not in rehearsed]
    if not apis and (real or not wanted):
        raise next(iter(silent.values()))
    try:
        if not wanted:
            real = await _shown(apis)
        found += [await _of(apis, name, close=False) for name in real]
    finally:
        for api in apis.values():
            await api.close()
    return Survey(tuple(found), silent)


async def reap(name: str, emit: Emit = ignore) -> tuple[str, ...]:
    """End all of a cluster at all clouds of which there is a key, and prove that nothing is left.

    Returns:
        what was ended.

    Raises:
        CorralError: PROVIDER_FAILED, something is left; no cloud can be asked.
    """
    rehearsal = rehearsal_of(name)
    apis: dict[str, CloudApi]
    if rehearsal:
        apis = {cloud: open_account(cloud, rehearsal) for cloud in CLOUDS}
    else:
        apis, silent = _open()
        if not apis:
            raise next(iter(silent.values()))
    try:
        return await end_all(apis, name, Ledger(name), emit)
    finally:
        for api in apis.values():
            await api.close()


def _open() -> tuple[dict[str, CloudApi], dict[str, CorralError]]:
    apis: dict[str, CloudApi] = {}
    silent: dict[str, CorralError] = {}
    for name in CLOUDS:
        try:
            apis[name] = open_account(name)
        except CorralError as error:
            silent[name] = error
    return apis, silent


async def _answering() -> tuple[dict[str, CloudApi], dict[str, CorralError]]:
    """The clouds that list what they run: one that is silent hides nothing of the others."""
    apis, silent = _open()
    for name, api in list(apis.items()):
        try:
            await api.instances()
        except CorralError as error:
            silent[name] = error
            await apis.pop(name).close()
    return apis, silent


async def _shown(apis: dict[str, CloudApi]) -> list[str]:
    """Clusters that any instance names."""
    every: list[Instance] = []
    for api in apis.values():
        every += await api.instances()
    return sorted({one.label.cluster for one in every if one.label and one.state.exists})


async def _of(apis: dict[str, CloudApi], name: str, *, close: bool = True) -> Reapable:
    try:
        found = await find(apis, name, Ledger(name), noting=False)
    finally:
        for api in apis.values() if close else ():
            await api.close()
    return Reapable(name, name in cluster_names(), found)
