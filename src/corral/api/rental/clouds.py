"""Use cases of rented machines: what is on sale, and simulated clouds for rehearsals."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from corral.errors import Code, CorralError
from corral.providers.cloud.client.accounts import open_account
from corral.providers.cloud.errors import all_failed
from corral.providers.cloud.model import Capacity, CloudApi, CloudTraits, ClusterApi, Offer, Volume
from corral.providers.cloud.rehearsal import FILE, rehearsal_of
from corral.spec.models import ClusterSpec, NodeGroup
from corral.spec.nodes import declared_of, has_guard
from corral.spec.providers import CLOUDS
from corral.state_dir import cluster_dir

START_S: Final = 60.0
POLL_S: Final = 0.1
PRICE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Sale:
    """What clouds have on sale.

    Attributes:
        offers: the cheapest first; those without a price last.
        volumes: file systems of the accounts.
        traits: by cloud, what it can and cannot do.
        silent: by cloud, why it was not asked or did not answer; one that is in ``traits``
            too lists its offers, and not its file systems.
        together: the offers are machines that come as one of a cloud's own clusters.
    """

    offers: tuple[Offer, ...]
    volumes: tuple[Volume, ...]
    traits: dict[str, CloudTraits]
    silent: dict[str, CorralError]
    together: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Offers and volumes, what each cloud can do, and clouds that did not answer."""
        return {
            "offers": [asdict(offer) for offer in self.offers],
            "volumes": [asdict(volume) for volume in self.volumes],
            "clouds": {name: asdict(cloud) for name, cloud in self.traits.items()},
            "silent": {name: error.as_dict() for name, error in self.silent.items()},
            "together": self.together,
        }


async def _on_sale(api: CloudApi, *, together: bool) -> tuple[Offer, ...]:
    if not together:
        return await api.offers()
    return await api.cluster_offers() if isinstance(api, ClusterApi) else ()


async def offers(
    providers: Iterable[str] = (),
    gpu: str = "",
    *,
    everything: bool = False,
    cluster: str = "",
    together: bool = False,
) -> Sale:
    """Ask clouds what they have on sale.

    Args:
        providers: which clouds; none: all of which there is a key.
        gpu: only GPUs whose name (or type) holds this word, whatever its case.
        everything: also what is not available now.
        cluster: ask the simulated clouds of this rehearsed cluster.
        together: machines that come as one of the cloud's own clusters (``cloud.cluster``), where
            there are such; the price is that of one machine.

    Raises:
        CorralError: none of the clouds can be asked; each is named.
    """
    named = tuple(providers)
    listed: list[Offer] = []
    volumes: list[Volume] = []
    traits: dict[str, CloudTraits] = {}
    silent: dict[str, CorralError] = {}
    rehearsal = rehearsal_of(cluster) if cluster else None
    for name in named or CLOUDS:
        try:
            api = open_account(name, rehearsal)
            try:
                on_sale = await _on_sale(api, together=together)
                listed, traits[name] = [*listed, *on_sale], api.traits
                volumes += await api.volumes()
            finally:
                await api.close()
        except CorralError as error:
            silent[name] = error
    if not traits:
        raise all_failed(silent)
    word = gpu.lower()
    kept = [
        o
        for o in listed
        if word in f"{o.gpu} {o.type}".lower() and (everything or o.capacity is not Capacity.NONE)
    ]
    kept.sort(key=lambda o: (o.price is None, o.price or 0.0, o.provider, o.type, o.region))
    return Sale(tuple(kept), tuple(volumes), traits, silent, together)


async def price_together(spec: ClusterSpec, group: NodeGroup, nodes: int) -> str:
    """What as many machines of a group cost an hour as one of their cloud's clusters, and singly.

    "" where that is not known: no key, no answer in time, no such offer.
    """
    cloud = group.cloud
    if cloud is None:
        return ""
    costs: list[float] = []
    for together in (True, False):
        try:
            async with asyncio.timeout(PRICE_S):
                rehearsed = spec.name if rehearsal_of(spec.name) else ""
                sale = await offers([group.provider], cluster=rehearsed, together=together)
        except (CorralError, TimeoutError):
            return ""
        prices = [
            offer.price
            for offer in sale.offers
            if offer.price is not None
            and offer.type == cloud.type
            and cloud.count in (None, offer.gpus)
        ]
        if not prices:
            return ""
        costs.append(min(prices) * nodes)
    return f"{nodes} of them so cost {costs[0]:.2f} $/h now, {nodes} single ones {costs[1]:.2f}"


def rented(spec: ClusterSpec) -> bool:
    """Whether any group is rented."""
    return any(group.capabilities.rents for group in spec.groups)


def simulate(spec: ClusterSpec) -> None:
    """Start the simulated clouds of a rehearsed cluster, unless they run already.

    They end automatically when the cluster's folder is removed.

    Raises:
        CorralError: TIMED_OUT, they do not start.
    """
    if not rented(spec):
        return
    file = cluster_dir(spec.name) / FILE
    known: dict[str, Any] = {}
    if file.exists():
        known = json.loads(file.read_text())
        if _alive(int(known.get("pid", 0))):
            if has_guard(spec) and not known.get("guard"):
                fresh = file.with_suffix(".new")
                fresh.touch(mode=0o600)
                fresh.write_text(json.dumps({**known, "guard": True}))
                fresh.replace(file)
            return
    settings = {
        "cluster": spec.name,
        "nodes": len(declared_of(spec)),
        "mounts": [s.mount for s in spec.storage if s.kind == "provider"],
        "guard": has_guard(spec),
        "key": known.get("key") or f"sim-{secrets.token_hex(16)}",
    }
    file.touch(mode=0o600)
    file.write_text(json.dumps(settings))
    with (file.parent / "simulated.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "corral.testing.clouds", str(file.parent)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=dict(os.environ),
        )
    end = time.monotonic() + START_S
    while rehearsal_of(spec.name) is None:
        if time.monotonic() > end or process.poll() is not None:
            file.unlink(missing_ok=True)
            raise CorralError(
                Code.TIMED_OUT,
                "the simulated clouds do not start",
                tail=(file.parent / "simulated.log").read_text()[-800:],
                hint="read the last lines above",
            )
        time.sleep(POLL_S)


def _alive(pid: int) -> bool:
    try:
        return pid > 0 and b"corral.testing.clouds" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
