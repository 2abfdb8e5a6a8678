"""Many embedded nodes on one host: up, plan, prove, down; CPU and memory of this side per node.

    .venv/bin/python -m benchmarks.many_nodes [NODES]     # root and podman

Every node is a container with its own systemd, sshd and slurmd on this machine's CPUs: seconds are
upper bounds for nodes that are separate machines. What this side spends is its process and the ssh,
podman and ssh-keygen that it waited for; not the nodes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.machine import machine

FILE = """\
corral: v1
name: bench-many-{pid}
groups:
  - name: cpu
    provider: embedded
    nodes: node[0-{last}]
    memory_mib: 512
partitions: [{{name: main, groups: [cpu], default: true}}]
"""
VERBS = {
    "up, from nothing, no checks": ("up", "FILE", "--yes", "--no-prove"),
    "plan, nothing to do": ("plan", "FILE"),
    "up, nothing to do": ("up", "FILE", "--yes", "--no-prove"),
    "prove, smoke": ("prove", "FILE", "--only", "smoke"),
    "status": ("status", "-c", "FILE"),
    "doctor": ("doctor", "-c", "FILE"),
    "down": ("down", "FILE", "--yes"),
}


def used(argv: list[str]) -> dict[str, float]:
    """One command in a separate process: seconds, CPU seconds and peak MiB with its children.

    Raises:
        SystemExit: it failed.
    """
    begin = time.perf_counter()
    words = [sys.executable, "-m", "benchmarks.many_nodes", "--one", *argv]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - begin
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)} failed:\n{(done.stdout + done.stderr)[-3000:]}")
    return {"wall": wall, **json.loads(done.stdout.splitlines()[-1])}


def run_measured(argv: list[str]) -> None:
    """Run a command and print what it and what it waited for took."""
    done = subprocess.run([sys.executable, "-m", "corral", *argv], check=False)
    side = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps({"cpu": side.ru_utime + side.ru_stime, "peak": side.ru_maxrss / 1024}))
    raise SystemExit(done.returncode)


def containers(nodes: int) -> tuple[int, float]:
    """Containers of the cluster, and their memory in MiB together."""
    argv = ["podman", "stats", "--no-stream", "--format", "{{.Name}} {{.MemUsageBytes}}"]
    # By name: of all containers podman 4.3 fails when one is removed meanwhile.
    names = [f"corral-bench-many-{os.getpid()}-node{i}" for i in range(nodes)]
    own = subprocess.run([*argv, *names], capture_output=True, text=True, check=True).stdout
    units = {"B": 2**-20, "KiB": 2**-10, "MiB": 1.0, "GiB": 1024.0}
    total = 0.0
    lines = own.splitlines()
    for line in lines:
        text = line.split()[1]
        unit = next(u for u in ("KiB", "MiB", "GiB", "B") if text.endswith(u))
        total += float(text.removesuffix(unit)) * units[unit]
    return len(lines), total


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", type=int, nargs="?", default=64)
    args = parser.parse_args()
    where = machine()
    took: dict[str, dict[str, float]] = {}
    count, memory = 0, 0.0
    with tempfile.TemporaryDirectory(prefix="corral-bench") as name:
        file = Path(name) / "bench.yaml"
        file.write_text(FILE.format(pid=os.getpid(), last=args.nodes - 1))
        try:
            for what, words in VERBS.items():
                took[what] = used([str(file) if w == "FILE" else w for w in words])
                print(what, took[what], flush=True)
                if what.startswith("up, from"):
                    count, memory = containers(args.nodes)
        finally:
            if "down" not in took:
                argv = [sys.executable, "-m", "corral", "down", str(file), "--yes"]
                subprocess.run(argv, check=False)
    each = memory / max(1, count)
    title = f"{count} embedded nodes, {each:.0f} MiB each as podman counts them\n{where}"
    table = Table(title=f"{title}, after {os.getloadavg()[0]:.1f}")
    for column in ("what", "s", "CPU s here", "CPU ms / node here", "peak MiB here"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for what, figures in took.items():
        cpu = figures["cpu"]
        shown = (figures["wall"], cpu, 1000 * cpu / args.nodes, figures["peak"])
        table.add_row(what, *(f"{v:.{d}f}" for v, d in zip(shown, (1, 2, 0, 0), strict=True)))
    Console(width=110).print(table)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        run_measured(sys.argv[2:])
    main()
