"""One simulated cloud with Corral's own client of it, in virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from corral.events import ignore
from corral.providers.cloud.budget import spend
from corral.providers.cloud.client.accounts import calls_of
from corral.providers.cloud.client.rate_limit import Pacer
from corral.providers.cloud.launcher import Launcher, sort
from corral.providers.cloud.ledger import Ledger
from corral.providers.cloud.model import CloudApi, Label, LaunchRequest, Offer
from corral.providers.cloud.readiness import Watch
from corral.providers.cloud.termination import end_all, end_some, find
from corral.runtime.tasks import concurrently
from corral.spec.providers import PROVIDERS, RENTALS
from corral.testing.clouds import SIMS, InProcess, Sim
from corral.testing.clouds.contract import OpenApi
from corral.testing.clouds.server import PREFIXES
from corral.testing.virtual import VirtualLoop

KEY: Final = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me"
SECRET: Final = "sim-key-0123456789"  # noqa: S105
"""The API key of every simulated cloud."""


def client_of(name: str) -> Any:
    """The class of a cloud's client."""
    module = import_module(f"corral.providers.{PROVIDERS[name].folder}.client")
    return getattr(module, RENTALS[name].client)


@dataclass
class World:
    """A cloud that outlives the processes that use it, and one such process at a time.

    Attributes:
        name: the provider's word.
        folder: for the ledger and the rate limit.
        loop: whose time it is in.
        options: of the simulated cloud.
        contract: the provider's document, by which each call is checked; None for no check.
    """

    name: str
    folder: Path
    loop: VirtualLoop = field(default_factory=VirtualLoop)
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    contract: OpenApi | None = None

    def __post_init__(self) -> None:
        now = self.loop.time
        self.sim: Sim = SIMS[self.name](key=SECRET, now=now, contract=self.contract, **self.options)
        self.ledger = Ledger("lab", self.folder, now)

    def client(self) -> Any:
        """A fresh process's client."""
        gaps = import_module(calls_of(self.name)).GAPS
        pacer = Pacer(self.folder / "pace", SECRET, gaps, self.loop.time)
        prefix = PREFIXES[self.name]
        transport = InProcess(self.sim, prefix)
        return client_of(self.name)(f"http://sim{prefix}", SECRET, pacer, transport)

    async def offer(self, api: CloudApi) -> Offer:
        """The offer of the simulated cloud's own type and region."""
        kind, region = self.sim.offer
        offers = await api.offers()
        return next(o for o in offers if (o.type, o.region) == (kind, region) and o.gpus <= 1)

    async def up(self, nodes: tuple[str, ...] = ("gpu0", "gpu1"), may: Any = ignore) -> None:
        """What ``corral up`` does with rented nodes: look, take over, launch what is missing."""
        api = self.client()
        offer = await self.offer(api)
        assets = await find({self.name: api}, "lab", self.ledger)
        now = sort(assets.instances, "lab", nodes)
        await end_some({self.name: api}, self.ledger, now.surplus)
        launcher = Launcher({self.name: api}, self.ledger, "lab", launch_request, ignore, may)
        for node in nodes:
            if node not in now.nodes:
                await launcher.launch(node, [offer])

    async def all_at_once(self, nodes: list[str]) -> None:
        """Launch what is missing, all at once, until the cloud reports that each runs."""
        api = self.client()
        apis = {self.name: api}
        assets = await find(apis, "lab", self.ledger)
        missing = [n for n in nodes if n not in sort(assets.instances, "lab", nodes).nodes]
        await api.check()
        offer = await self.offer(api)
        launcher = Launcher(apis, self.ledger, "lab", launch_request, ignore, lambda _: None)
        watch = Watch(api)

        async def launch(node: str) -> None:
            identity = await launcher.launch(node, [offer])
            while True:
                seen = await watch.instance(identity)
                if seen is not None and seen.address:
                    return
                await asyncio.sleep(5)

        await concurrently(*map(launch, missing))

    async def down(self) -> tuple[str, ...]:
        """What ``corral down`` does."""
        return await end_all({self.name: self.client()}, "lab", self.ledger, ignore)

    def spent(self) -> float:
        """What was spent, by the ledger."""
        return spend(self.ledger.rentals().values(), self.loop.time()).total


def launch_request(label: Label, offer: Offer) -> LaunchRequest:
    """A launch as the provider makes it."""
    return LaunchRequest(label, offer, KEY, "#!/bin/sh\nexit 0\n", 24)
