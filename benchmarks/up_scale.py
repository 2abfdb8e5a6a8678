"""``corral up`` for 16 to 1,000 machines that this process emulates: what this side spends on each.

    .venv/bin/python -m benchmarks.up_scale [NODES ...]

Needs neither root nor podman. The machines answer over links of 1 ms with 0.1 % loss; 5 % of them
do not answer and on 1 % the last change of each stage fails. ``up --keep-going`` goes on without
them; a second ``up``, with all of them healthy, does the rest. Each size has its own process.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.machine import machine
from corral import api
from corral.testing.emulated import EmulatedCluster, Link

SIZES = (16, 64, 256, 1_000)
RECORDED = Path(__file__).parents[1] / "tests/recorded/facts/debian-13-container/node.txt"
SILENT, BROKEN = 0.05, 0.01


def measure(count: int, *, give_up: float = 10.0) -> dict[str, dict[str, float]]:
    """Seconds, CPU, traffic of each step for one size, and the peak of memory."""
    cluster = EmulatedCluster(count, recorded(), Link(give_up=give_up))
    names = list(cluster.machines)[1:]
    silent = names[:: max(1, round(1 / SILENT))]
    broken = [name for name in names if name not in silent][:: max(1, round(1 / BROKEN))]
    for name in silent:
        cluster.machines[name].silent = True
    for name in broken:
        cluster.machines[name].broken = True
    left_out = api.LeftOut(cluster.spec)
    steps: dict[str, dict[str, float]] = {}

    def step(name: str, work: Callable[[], Awaitable[object]]) -> None:
        steps[name] = _measured(cluster, work)

    with cluster.in_place_of_ssh():
        step("up --keep-going", lambda: api.up(cluster.spec, left_out=left_out))
        if sorted(left_out.reasons) != sorted([*silent, *broken]):
            raise SystemExit(f"{count} nodes: left out are {list(left_out.reasons)}")
        for each in cluster.machines.values():
            each.silent = each.broken = False
        step("up, with all nodes", lambda: api.up(cluster.spec))
        step("plan, nothing to do", lambda: api.plan(cluster.spec))
    if not asyncio.run(_empty(cluster)):
        raise SystemExit(f"{count} nodes: the second up left something to do")
    return steps


def recorded() -> dict[str, str]:
    """A node's answers to the questions for facts, by question."""
    parts = re.split(r"(?m)^@@ (\w+)\n", RECORDED.read_text())
    return {n: text.strip("\n") for n, text in zip(parts[1::2], parts[2::2], strict=True)}


async def _empty(cluster: EmulatedCluster) -> bool:
    with cluster.in_place_of_ssh():
        return (await api.plan(cluster.spec)).empty


def _measured(cluster: EmulatedCluster, work: Callable[[], Awaitable[object]]) -> dict[str, float]:
    before = vars(cluster.traffic).copy()
    begin, cpu = time.perf_counter(), time.process_time()
    asyncio.run(_awaited(work))
    spent = {"s": time.perf_counter() - begin, "cpu": time.process_time() - cpu}
    traffic = {name: value - before[name] for name, value in vars(cluster.traffic).items()}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**spent, **traffic, "peak_mib": peak}


async def _awaited(work: Callable[[], Awaitable[object]]) -> None:
    await work()


def main() -> None:
    if os.environ.get("CORRAL_STATE_DIR") and len(sys.argv) == 3 and sys.argv[2] == "--one":
        print(json.dumps(measure(int(sys.argv[1]))))
        return
    table = Table(title=f"corral up of emulated machines\n{machine()}")
    for name in ("nodes", "what", "s", "CPU ms / node", "scripts / node"):
        table.add_column(name, justify="right")
    for name in ("kB sent / node", "kB received / node", "peak MiB"):
        table.add_column(name, justify="right")
    for count in [int(word) for word in sys.argv[1:]] or SIZES:
        for what, row in _steps_of(count).items():
            table.add_row(
                f"{count:,}",
                what,
                f"{row['s']:.1f}",
                f"{row['cpu'] / count * 1e3:.1f}",
                f"{row['scripts'] / count:.1f}",
                f"{row['sent'] / count / 1e3:.1f}",
                f"{row['received'] / count / 1e3:.1f}",
                f"{row['peak_mib']:.0f}",
            )
    Console().print(table)


def _steps_of(count: int) -> dict[str, dict[str, float]]:
    argv = [sys.executable, "-m", "benchmarks.up_scale", str(count), "--one"]
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "CORRAL_STATE_DIR": folder}
        out = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, env=env).stdout
    steps: dict[str, dict[str, float]] = json.loads(out)
    return steps


if __name__ == "__main__":
    main()
