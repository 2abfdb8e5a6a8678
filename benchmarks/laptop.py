"""How long each verb takes on this machine, start to end; examples/laptop.yaml, renamed.

    .venv/bin/python -m benchmarks.laptop [--cold] [--repeat 5] [--turns 5]

``--cold`` also removes the node image and times ``up`` with building it. Medians of the repeats;
with the limit of each: what the machine takes for the least of it, measured in the same run.
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
START, SRUN = "start of Corral (`corral lint`)", "bare `srun -N3` on the controller"
UP = "up, image there, all checks"
AIMS = {
    UP: 7.0,
    "plan, nothing to do": 0.35,
    "status": 0.4,
    "jobs": 0.4,
    "doctor": 1.5,
    "run, to the first line of a rank": 0.6,
    "run, from the job's end to its own": 0.2,
    "up, cold": 70.0,
}
LIMITS = {
    "plan, nothing to do": START,
    "status": START,
    "jobs": START,
    "doctor": START,
    "run, to the first line of a rank": SRUN,
}
"""What the least of a row is: the row of this table that measures it."""
SCRIPT = """#!/bin/sh
echo "hello from $(uname -n)"
sleep 0.5
echo "ended $(date +%s.%N)"
"""


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


def timed_run(folder: Path, file: str) -> tuple[float, float]:
    """Seconds to the first rank's first line, and from the last rank's end to the command's."""
    argv = [CORRAL, "run", "hello.sh", "-c", file, "--nodes", "3", "--gpus-per-node", "1"]
    begin = time.perf_counter()
    first, ends = 0.0, list[float]()
    with subprocess.Popen(
        argv,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as job:
        for line in job.stdout or ():
            if "hello from" in line:
                first = first or time.perf_counter() - begin
            if "ended " in line:
                ends.append(float(line.rpartition(" ")[2]))
    if len(ends) != 3:
        raise SystemExit(f"corral run printed the end of {len(ends)} ranks")
    return first, time.time() - max(ends)  # the nodes have this machine's clock


def bare_srun(folder: Path, file: str) -> float:
    """Seconds of srun on the controller, timed there."""
    command = "s=$(date +%s.%N); srun -N3 true; e=$(date +%s.%N); echo $s $e"
    argv = [CORRAL, "ssh", "node0", "-c", file, "--", command]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True)
    begin, end = done.stdout.split()[-2:]
    return float(end) - float(begin)


def verbs(folder: Path, file: str) -> dict[str, float]:
    """One turn of the verbs, with their limits."""
    first, end = timed_run(folder, file)
    return {
        START: corral(folder, "lint", file),
        "plan, nothing to do": corral(folder, "plan", file),
        "status": corral(folder, "status", "-c", file),
        "jobs": corral(folder, "jobs", "-c", file),
        "doctor": corral(folder, "doctor", "-c", file),
        SRUN: bare_srun(folder, file),
        "run, to the first line of a rank": first,
        "run, from the job's end to its own": end,
    }


def life(folder: Path, file: str, turns: int) -> dict[str, list[float]]:
    """One complete life of the cluster; the seconds of each row."""
    corral(folder, "down", file, "--yes")
    seconds = {UP: [corral(folder, "up", file, "--yes")]}
    for turn in [verbs(folder, file) for _ in range(turns)]:
        for row, value in turn.items():
            seconds.setdefault(row, []).append(value)
    seconds["prove"] = [corral(folder, "prove", file)]
    seconds["down"] = [corral(folder, "down", file, "--yes")]
    return seconds


def shown(figures: dict[str, list[float]], where: str) -> Table:
    """The table: medians, their aims, and how many times its limit each is."""
    table = Table(title=f"examples/laptop.yaml, 3 nodes, seconds from start to end\n{where}")
    for column in ("what", "median", "best", "worst", "aim", "/ limit", "limit"):
        table.add_column(column, justify="left" if column in {"what", "limit"} else "right")
    for row, values in figures.items():
        aim, limit = AIMS.get(row), LIMITS.get(row, "")
        median = statistics.median(values)
        ratio = f"{median / statistics.median(figures[limit]):.1f}" if limit else ""
        cells = (f"{value:.2f}" for value in (median, min(values), max(values)))
        table.add_row(row, *cells, f"{aim:g}" if aim else "", ratio, limit)
    return table


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--turns", type=int, default=5, help="of each verb in each life")
    args = parser.parse_args()
    where = machine()
    figures: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="corral-bench") as made:
        folder = Path(made)
        text = (REPO / "examples" / "laptop.yaml").read_text()
        (folder / "bench.yaml").write_text(
            text.replace("name: laptop", f"name: bench-laptop-{os.getpid()}")
        )
        (folder / "hello.sh").write_text(SCRIPT)
        (folder / "hello.sh").chmod(0o755)
        corral(folder, "image", "build")
        for seconds in [life(folder, "bench.yaml", args.turns) for _ in range(args.repeat)]:
            for row, values in seconds.items():
                figures[row] = figures.get(row, []) + values
        if args.cold:
            corral(folder, "image", "rm", "--yes")
            left = subprocess.run(
                [CORRAL, "image", "list", "--json"], capture_output=True, check=True
            )
            if json.loads(left.stdout)["images"]:
                raise SystemExit("a cluster still uses a node image: --cold would not build one")
            figures["up, cold"] = [corral(folder, "up", "bench.yaml", "--yes")]
            corral(folder, "down", "bench.yaml", "--yes")
    Console(width=140).print(shown(figures, where))


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed Corral has its bytecode
    os.environ.setdefault("CORRAL_STATE_DIR", tempfile.mkdtemp(prefix="corral-bench-state"))
    main()
