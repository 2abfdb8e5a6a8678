"""Use case: end what was rented and is not needed, for one cluster or for all unknown ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corral.errors import Code, CorralError
from corral.events import Emit, ignore
from corral.providers.cloud.budget import amount
from corral.providers.cloud.client.accounts import close_all, open_account
from corral.providers.cloud.errors import all_failed
from corral.providers.cloud.ledger import Ledger
from corral.providers.cloud.model import CloudApi
from corral.providers.cloud.rehearsal import rehearsal_of
from corral.providers.cloud.termination import Assets, end_all, find_some
from corral.spec.providers import CLOUDS
from corral.state_dir import cluster_names


@dataclass(frozen=True, slots=True)
class Reapable:
    """What clouds list of a cluster.

    Attributes:
        cluster: the name in the instances' names.
        known: a folder of this machine knows the cluster.
        assets: instances, and what else was made.
    """

    cluster: str
    known: bool
    assets: Assets

    @property
    def per_hour(self) -> float:
        """Dollars an hour, as far as prices are known."""
        return sum(instance.price or 0.0 for instance in self.assets.instances)

    @property
    def unpriced(self) -> int:
        """Instances whose price is unknown."""
        return sum(instance.price is None for instance in self.assets.instances)

    def rate(self) -> str:
        """Dollars an hour in words."""
        return amount(self.per_hour, exact=not self.unpriced)

    def as_dict(self) -> dict[str, Any]:
        """The cluster, its price an hour, and what clouds list of it."""
        return {
            "cluster": self.cluster,
            "known": self.known,
            "per_hour": self.per_hour,
            "unpriced": self.unpriced,
            **self.assets.as_dict(),
        }


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found, and which clouds could not be asked (with why).

    Attributes:
        clusters: what the clouds list.
        silent: clouds without a key here, and those that did not answer or take it.
        owing: of those without a key, the ones where a ledger of this machine has open rentals.
    """

    clusters: tuple[Reapable, ...]
    silent: dict[str, CorralError]
    owing: tuple[str, ...] = ()

    @property
    def unsure(self) -> tuple[str, ...]:
        """Clouds where something may run, and which could not be asked."""
        return _unsure(self.silent, self.owing)


async def survey(names: Iterable[str] = ()) -> Survey:
    """Look for instances of clusters, without changing anything.

    Args:
        names: clusters; none: every cluster that the accounts show.

    Raises:
        CorralError: no cloud can be asked at all; each is named.
    """
    named = tuple(names)
    rehearsed = [name for name in named if rehearsal_of(name)]
    real = [name for name in named if name not in rehearsed]
    silent: dict[str, CorralError] = {}
    clusters: list[Reapable] = []
    for name in rehearsed:
        apis: dict[str, CloudApi] = {c: open_account(c, rehearsal_of(name)) for c in CLOUDS}
        cluster, failed = await _of(apis, name)
        clusters.append(cluster)
        silent |= {f"simulated {cloud}": error for cloud, error in failed.items()}
        await close_all(apis)
    if real or not named:
        more, failed = await _surveyed(real)
        clusters += more
        silent |= failed
    return Survey(tuple(clusters), silent, _owing(silent, named or tuple(cluster_names())))


async def _surveyed(names: list[str]) -> tuple[list[Reapable], dict[str, CorralError]]:
    """Clusters at the real clouds that answer, all that they show where none is named.

    Raises:
        CorralError: none answers.
    """
    apis, silent = _open()
    opened, shown = dict(apis), set(names)
    try:
        for cloud, api in opened.items():
            try:
                listed = await api.instances()
            except CorralError as error:
                silent[cloud] = error
                del apis[cloud]
                continue
            if not names:
                shown |= {i.label.cluster for i in listed if i.label and i.state.exists}
        clusters: list[Reapable] = []
        for name in sorted(shown) if apis else ():
            cluster, failed = await _of(apis, name)
            clusters.append(cluster)
            silent |= failed
    finally:
        await close_all(opened)
    if set(silent) == set(CLOUDS):
        raise all_failed(silent)
    return clusters, silent


async def reap(name: str, emit: Emit = ignore) -> tuple[str, ...]:
    """End all of a cluster at all clouds of which there is a key, and prove that nothing is left.

    Returns:
        what was ended.

    Raises:
        CorralError: PROVIDER_FAILED, something is left; clouds cannot be asked, each named, though
            there is a key or the ledger has open rentals there: the others are asked all the same.
    """
    rehearsal = rehearsal_of(name)
    apis: dict[str, CloudApi]
    silent: dict[str, CorralError] = {}
    if rehearsal:
        apis = {cloud: open_account(cloud, rehearsal) for cloud in CLOUDS}
    else:
        apis, silent = _open()
        if not apis:
            raise all_failed(silent)
    unsure = _unsure(silent, _owing(silent, (name,)))
    try:
        return await end_all(apis, name, Ledger(name), emit, {n: silent[n] for n in unsure})
    finally:
        await close_all(apis)


def _open() -> tuple[dict[str, CloudApi], dict[str, CorralError]]:
    apis: dict[str, CloudApi] = {}
    silent: dict[str, CorralError] = {}
    for name in CLOUDS:
        try:
            apis[name] = open_account(name)
        except CorralError as error:
            silent[name] = error
    return apis, silent


def _unsure(silent: Mapping[str, CorralError], owing: Sequence[str]) -> tuple[str, ...]:
    return tuple(n for n, e in silent.items() if e.code is not Code.NOT_FOUND or n in owing)


def _owing(silent: Iterable[str], clusters: Sequence[str]) -> tuple[str, ...]:
    """Of the clouds, those where a ledger of these clusters has open rentals."""
    rentals = [r for name in clusters for r in Ledger(name).rentals().values() if r.open]
    return tuple(cloud for cloud in silent if any(r.provider == cloud for r in rentals))


async def _of(apis: Mapping[str, CloudApi], name: str) -> tuple[Reapable, dict[str, CorralError]]:
    rented, failed = await find_some(apis, name, Ledger(name), noting=False)
    return Reapable(name, name in cluster_names(), rented), failed
