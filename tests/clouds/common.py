"""One simulated cloud with Corral's own client of it, in virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corral.events import ignore
from corral.providers.cloud.budget import spend
from corral.providers.cloud.launcher import Launcher, sort
from corral.providers.cloud.ledger import Ledger
from corral.providers.cloud.model import CloudApi, Label, LaunchRequest, Offer
from corral.providers.cloud.rate_limit import Pacer
from corral.providers.cloud.readiness import Watch
from corral.providers.cloud.termination import end_all, end_some, find
from corral.providers.lambda_cloud.calls import GAPS as LAMBDA_GAPS
from corral.providers.lambda_cloud.client import LambdaCloud
from corral.providers.paperspace.calls import GAPS as PAPERSPACE_GAPS
from corral.providers.paperspace.client import Paperspace
from corral.providers.runpod.calls import GAPS as RUNPOD_GAPS
from corral.providers.runpod.client import RunPod
from corral.testing.clouds import SIMS, InProcess, Sim
from corral.testing.clouds.contract import OpenApi
from tests.clouds.virtual import VirtualLoop

OPENAPI = Path(__file__).parents[1] / "recorded" / "openapi"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me"
SECRET = "sim-key-0123456789"
DOCUMENTS = {"lambda": "lambda", "runpod": "runpod-v2", "paperspace": "paperspace"}
WAYS = {
    "lambda": (LambdaCloud, LAMBDA_GAPS, "http://sim", ""),
    "runpod": (RunPod, RUNPOD_GAPS, "http://sim", ""),
    "paperspace": (Paperspace, PAPERSPACE_GAPS, "http://sim/v1", "/v1"),
}
TAKEN = {
    "lambda": ("gpu_1x_a10", "us-west-1"),
    "runpod": ("NVIDIA GeForce RTX 4090", "US-KS-2"),
    "paperspace": ("A4000", "ny2"),
}
# Lambda's document lists neither 429 nor 5xx. Its text has the form of every refusal ("Error
# responses": an object error with code, message and, "when present", suggestion).
_TEXT = {"type": "string"}
_ERROR = {
    "type": "object",
    "properties": {"code": _TEXT, "message": _TEXT, "suggestion": _TEXT},
    "required": ["code", "message"],
    "additionalProperties": False,
}
FAILURES = {
    "lambda": {
        "type": "object",
        "properties": {"error": _ERROR},
        "required": ["error"],
        "additionalProperties": False,
    }
}
CONTRACTS = {
    name: OpenApi.load(OPENAPI / f"{file}.json", FAILURES.get(name))
    for name, file in DOCUMENTS.items()
}


@dataclass
class World:
    """A cloud that outlives the processes that use it, and one such process at a time."""

    name: str
    folder: Path
    loop: VirtualLoop = field(default_factory=VirtualLoop)
    options: dict[str, Any] = field(default_factory=dict)
    checked: bool = True

    def __post_init__(self) -> None:
        contract = CONTRACTS[self.name] if self.checked else None
        now = self.loop.time
        self.sim: Sim = SIMS[self.name](key=SECRET, now=now, contract=contract, **self.options)
        self.ledger = Ledger("lab", self.folder, now)

    def client(self) -> Any:
        """A fresh process's client."""
        make, gaps, url, prefix = WAYS[self.name]
        pacer = Pacer(self.folder / "pace", SECRET, gaps, self.loop.time)
        return make(url, SECRET, pacer, InProcess(self.sim, prefix))

    async def offer(self, api: CloudApi) -> Offer:
        """The offer that tests take."""
        kind, region = TAKEN[self.name]
        offers = await api.offers()
        return next(o for o in offers if (o.type, o.region) == (kind, region) and o.gpus <= 1)

    async def up(
        self, nodes: tuple[str, ...] = ("gpu0", "gpu1"), may: Any = lambda _: None
    ) -> None:
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

        await asyncio.gather(*map(launch, missing))

    async def down(self) -> tuple[str, ...]:
        """What ``corral down`` does."""
        return await end_all({self.name: self.client()}, "lab", self.ledger, ignore)

    def spent(self) -> float:
        """What was spent, by the ledger."""
        return spend(self.ledger.rentals().values(), self.loop.time()).total


def launch_request(label: Label, offer: Offer) -> LaunchRequest:
    """A launch as the provider makes it."""
    return LaunchRequest(label, offer, KEY, "#!/bin/sh\nexit 0\n", 24)
