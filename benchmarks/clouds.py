"""What Corral's own share of renting is: calls and time from the first call to the last machine.

    .venv/bin/python -m benchmarks.clouds             # prints a table, and JSON with --json

The clouds are simulated, with each provider's rate limit and no added delay; waiting passes
in virtual time (``virtual s``), so that two hundred machines at Lambda take the hours they would
take, and ``real s`` is what Corral's own code needs for it.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.machine import machine
from corral.testing.clouds import SIMS
from corral.testing.rentals import World
from corral.testing.virtual import run

SIZES = (1, 10, 50, 200)


def measure(name: str, nodes: int, folder: Path) -> dict[str, object]:
    world = World(name, folder, options={"boot_s": 0.0})
    names = [f"n{i}" for i in range(nodes)]
    begin, real = world.loop.time(), time.perf_counter()
    run(world.loop, world.all_at_once(names))
    up = world.loop.time() - begin
    calls = len(world.sim.calls)
    kinds = Counter(
        c.operation.split("/")[-1] if c.operation[0] == "P" else "GET" for c in world.sim.calls
    )
    limited = sum(c.status == 429 for c in world.sim.calls)
    begin_down = world.loop.time()
    run(world.loop, world.down())
    down = world.loop.time() - begin_down
    return {
        "provider": name,
        "nodes": nodes,
        "virtual_up_s": round(up, 1),
        "virtual_down_s": round(down, 1),
        "real_s": round(time.perf_counter() - real, 2),
        "calls_up": calls,
        "calls_per_node": round(calls / nodes, 2),
        "refused_429": limited,
        "left": len(world.sim.alive()),
        "by_kind": dict(kinds),
    }


def main() -> None:
    rows: list[dict[str, object]] = []
    for name in SIMS:
        for nodes in SIZES:
            with tempfile.TemporaryDirectory() as folder:
                rows.append(measure(name, nodes, Path(folder)))
    if "--json" in sys.argv:
        print(json.dumps(rows, indent=1))
        return
    print(machine())
    head = [k for k in rows[0] if k != "by_kind"]
    print(" ".join(f"{k:>14}" for k in head))
    for row in rows:
        print(" ".join(f"{row[k]!s:>14}" for k in head))


if __name__ == "__main__":
    main()
