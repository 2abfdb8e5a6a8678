"""``python -m corral.testing.clouds FOLDER``: the simulated clouds of one rehearsed cluster.

Reads ``FOLDER/simulated.json`` (cluster, nodes, mounts, key), writes the port into it, and runs
until that file is gone: `corral down` removes the cluster's folder.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from corral.testing.clouds import BOOT_S, SIMS
from corral.testing.clouds.containers import Containers, gateway
from corral.testing.clouds.orders import carry_out
from corral.testing.clouds.server import CloudServer
from corral.testing.clouds.world import Sim

POLL_S = 1.0


def main(folder: Path) -> None:
    """Serve until the file is gone."""
    file = folder / "simulated.json"
    rehearsal: dict[str, Any] = json.loads(file.read_text())
    sims: dict[str, Sim] = {}
    for name, make in SIMS.items():
        behind = Containers(
            name, rehearsal["cluster"], int(rehearsal["nodes"]), tuple(rehearsal["mounts"])
        )
        sims[name] = make(key=rehearsal["key"], machines=behind, boot_s=BOOT_S, end_s=2.0)
        sims[name].adopt(behind.known())
    server = CloudServer(sims, (rehearsal.get("host", "127.0.0.1"), int(rehearsal.get("port", 0))))
    fresh = file.with_suffix(".new")
    urls = {name: server.url(name) for name in sims}
    fresh.touch(mode=0o600)
    fresh.write_text(json.dumps({**rehearsal, "pid": os.getpid(), "urls": urls}))
    fresh.replace(file)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    inner: CloudServer | None = None
    while file.exists():
        carry_out(sims, folder)
        inner = inner or _inner(file, sims, server.server_address[1])
        time.sleep(POLL_S)
    server.shutdown()


def _inner(file: Path, sims: dict[str, Sim], port: int) -> CloudServer | None:
    """The same clouds for the guard on the controller, which is inside the cluster's network."""
    try:
        rehearsal: dict[str, Any] = json.loads(file.read_text())
        host = asyncio.run(gateway(rehearsal["cluster"])) if rehearsal.get("guard") else ""
        if not host:
            return None
        server = CloudServer(sims, (host, port))
    except (OSError, ValueError):
        return None  # the folder goes, or the network has no interface yet
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


if __name__ == "__main__":
    main(Path(sys.argv[1]))
