"""What a separate process does with a cloud over HTTP; it is killed from outside."""

from __future__ import annotations

import asyncio
from pathlib import Path

from corral.errors import CorralError
from corral.events import ignore
from corral.providers.cloud import launcher, termination
from corral.providers.cloud.client.rate_limit import Pacer
from corral.providers.cloud.launcher import Launcher, sort
from corral.providers.cloud.ledger import Ledger
from corral.providers.cloud.termination import end_all, end_some, find
from corral.testing.clouds import SIMS
from corral.testing.rentals import SECRET, client_of, launch_request

NODES = ("gpu0", "gpu1")


def work(name: str, url: str, folder: Path, verb: str) -> None:
    """``up`` or ``down`` of a cluster of two nodes, without the waiting; status 1 when it fails."""
    for module, word in ((launcher, "POLL_S"), (termination, "ROUND_S"), (termination, "PROOF_S")):
        setattr(module, word, 0.05)
    termination.SETTLED_S = 0.2  # type: ignore[misc]
    try:
        asyncio.run({"up": up, "down": down}[verb](name, url, folder))
    except CorralError as error:
        raise SystemExit(f"{error} {error.tail}") from error


async def up(name: str, url: str, folder: Path) -> None:
    """As ``World.up``."""
    api = client_of(name)(url, SECRET, Pacer(folder / "pace", SECRET, {}))
    ledger = Ledger("lab", folder)
    kind, region = SIMS[name].offer
    offer = next(
        o for o in await api.offers() if (o.type, o.region) == (kind, region) and o.gpus <= 1
    )
    assets = await find({name: api}, "lab", ledger)
    now = sort(assets.instances, "lab", NODES)
    await end_some({name: api}, ledger, now.surplus)
    launcher = Launcher({name: api}, ledger, "lab", launch_request, ignore, lambda _: None)
    for node in NODES:
        if node not in now.nodes:
            await launcher.launch(node, [offer])


async def down(name: str, url: str, folder: Path) -> None:
    """As ``World.down``."""
    api = client_of(name)(url, SECRET, Pacer(folder / "pace", SECRET, {}))
    await end_all({name: api}, "lab", Ledger("lab", folder), ignore)
