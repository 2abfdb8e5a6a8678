"""How long each verb takes on this machine, start to end; examples/laptop.yaml, renamed.

    .venv/bin/python -m benchmarks.laptop [--cold] [--repeat 3] [--turns 3]

``--cold`` also removes the node image and times ``up`` with building it. Medians of the repeats.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.machine import machine

REPO = Path(__file__).parents[1]
CORRAL = Path(sys.executable).with_name("corral")
TARGETS = {"up, image warm": 45.0, "up, cold": 180.0, "plan, nothing to do": 1.0, "run": 3.0}


def corral(folder: Path, *args: str) -> float:
    """Seconds of one command.

    Raises:
        SystemExit: it failed.
    """
    begin = time.perf_counter()
    done = subprocess.run([CORRAL, *args], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"corral {' '.join(args)} failed:\n{(done.stdout + done.stderr)[-3000:]}")
    return time.perf_counter() - begin


def first_line(folder: Path, file: str) -> float:
    """Seconds from the start of ``corral run`` to the first rank's first line on its stdout."""
    argv = [CORRAL, "run", "hello.sh", "-c", file, "--nodes", "3", "--gpus-per-node", "1"]
    begin = time.perf_counter()
    with subprocess.Popen(
        argv, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as job:
        for line in job.stdout or ():
            if "hello from" in line:
                seconds = time.perf_counter() - begin
                break
        else:
            raise SystemExit("corral run printed no line of a rank")
        for _ in job.stdout or ():
            pass
    return seconds


def life(folder: Path, file: str, turns: int) -> dict[str, float]:
    """One complete life of the cluster; each figure in seconds."""
    corral(folder, "down", file, "--yes")
    seconds = {"up, image warm": corral(folder, "up", file, "--yes")}
    seconds["plan, nothing to do"] = min(corral(folder, "plan", file) for _ in range(turns))
    seconds["run"] = min(first_line(folder, file) for _ in range(max(1, turns - 1)))
    seconds["prove"] = corral(folder, "prove", file)
    seconds["down"] = corral(folder, "down", file, "--yes")
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--turns", type=int, default=3, help="plans and runs, of which the best")
    args = parser.parse_args()
    where = machine()
    runs: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory(prefix="corral-bench") as made:
        folder = Path(made)
        text = (REPO / "examples" / "laptop.yaml").read_text()
        (folder / "bench.yaml").write_text(
            text.replace("name: laptop", f"name: bench-laptop-{os.getpid()}")
        )
        (folder / "hello.sh").write_text('#!/bin/sh\necho "hello from $(uname -n)"\n')
        (folder / "hello.sh").chmod(0o755)
        corral(folder, "image", "build")
        runs += [life(folder, "bench.yaml", args.turns) for _ in range(args.repeat)]
        cold: list[float] = []
        if args.cold:
            corral(folder, "image", "rm", "--yes")
            left = subprocess.run(
                [CORRAL, "image", "list", "--json"], capture_output=True, check=True
            )
            if json.loads(left.stdout)["images"]:
                raise SystemExit("a cluster still uses a node image: --cold would not build one")
            cold = [corral(folder, "up", "bench.yaml", "--yes")]
            corral(folder, "down", "bench.yaml", "--yes")
    table = Table(title=f"examples/laptop.yaml, 3 nodes, seconds from start to end\n{where}")
    for column in ("what", "median", "best", "worst", "aim"):
        table.add_column(column, justify="left" if column == "what" else "right")
    figures = {key: [run[key] for run in runs] for key in runs[0]} | (
        {"up, cold": cold} if cold else {}
    )
    for key, values in figures.items():
        aim = TARGETS.get(key)
        shown = (statistics.median(values), min(values), max(values))
        table.add_row(key, *(f"{v:.2f}" for v in shown), f"<= {aim:g}" if aim else "")
    Console(width=110).print(table)
    print(
        "run: from the start of `corral run` to the first rank's first line; up: with all checks."
    )


if __name__ == "__main__":
    os.environ.setdefault("CORRAL_STATE_DIR", tempfile.mkdtemp(prefix="corral-bench-state"))
    main()
