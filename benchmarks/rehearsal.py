"""From the launch call to a node that takes jobs, on simulated clouds: Corral's own share of it.

    .venv/bin/python -m benchmarks.rehearsal [--repeat 3]

examples/cloud-mesh.yaml: a desk, a node rented from Lambda and one from Paperspace, each a
container that boots with the user_data it was given. The simulated clouds call a machine running
2 s after the call at the earliest; that is not Corral's time, and figures are given without it too.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import statistics
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.machine import machine
from corral import api
from corral.events import Event, Kind
from corral.testing.clouds import BOOT_S

EXAMPLE = Path(__file__).parents[1] / "examples" / "cloud-mesh.yaml"
RENTED = {"gpu0": "h100", "small0": "small"}


def life(name: str, folder: Path) -> dict[str, float]:
    """Seconds of one life of the cluster: up from nothing, a job on each rented node, down."""
    file = folder / "mesh.yaml"
    text = EXAMPLE.read_text()
    file.write_text(re.sub(r"(?m)^name: .*$", f"name: {name}", text))
    spec = api.rehearsal(api.load(file))[0]
    took: dict[str, float] = {}
    called: list[float] = []

    def emit(event: Event) -> None:
        if event.kind is Kind.NODE_STARTED and event.subject == "machines" and event.node in RENTED:
            called.append(time.perf_counter())
        if event.kind is Kind.PHASE_DONE and event.seconds is not None:
            took[event.subject] = took.get(event.subject, 0.0) + event.seconds

    try:
        asyncio.run(api.up(spec, emit))
        for node, partition in RENTED.items():
            words = ("timeout", "60", "srun", "-p", partition, "hostname")
            (done,) = asyncio.run(api.execute(spec, words, "desk", timeout=90))
            if done.stdout.strip() != node:
                raise SystemExit(f"{node} ran no job: {done.stderr or done.error}")
        took["launch call to a job on each"] = time.perf_counter() - min(called)
        took["the same, without the boot"] = took["launch call to a job on each"] - BOOT_S
    finally:
        begin = time.perf_counter()
        asyncio.run(api.down(spec, force=True))
        took["down"] = time.perf_counter() - begin
    return took


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    where = machine()
    with tempfile.TemporaryDirectory(prefix="corral-bench") as folder:
        os.environ.setdefault("CORRAL_STATE_DIR", f"{folder}/state")
        names = [f"bench-{os.getpid()}-{turn}" for turn in range(args.repeat)]
        runs = [life(name, Path(folder)) for name in names]
    table = Table(title=f"examples/cloud-mesh.yaml on simulated clouds, seconds\n{where}")
    for column in ("what", "median", "best", "worst"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for key in runs[0]:
        values = [run[key] for run in runs]
        shown = (statistics.median(values), min(values), max(values))
        table.add_row(key, *(f"{v:.1f}" for v in shown))
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
