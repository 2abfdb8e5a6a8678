"""From bare machines (user-mode-linux) to a proven cluster over SSH, and what this side spends.

    .venv/bin/python -m benchmarks.bare_metal [--machines 3] [--suite trixie] [--file FILE]

Needs root and user-mode-linux, as tests/machines does. They share this machine's CPUs, and a fork
costs them about 9 ms: figures compare within one run, and are upper bounds for real machines.
``--file`` measures the plan of a cluster of so many machines that is up already.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.machine import machine
from corral import api
from corral.events import Event, Kind

IDLE = "plan, nothing to do"


@dataclass
class Used:
    """What one command took: seconds, CPU seconds with its ssh, MiB, seconds of apt by node."""

    wall: float
    cpu: float
    peak: float
    apt: dict[str, float]


def work(verb: str, file: str) -> dict[str, object]:
    """One verb in this process; what it took."""
    spec = api.load(file)
    apt: dict[str, float] = {}

    def emit(event: Event) -> None:
        index = event.kind is Kind.NOTE and event.subject == "packages"
        installed = event.kind is Kind.CHANGE_DONE and event.subject.startswith("packages:")
        if index or installed:
            apt[event.node] = apt.get(event.node, 0.0) + (event.seconds or 0.0)

    begin = time.perf_counter()
    if verb == "plan":
        empty = asyncio.run(api.plan(spec, emit)).empty
        good = empty
    elif verb == "up":
        good = asyncio.run(api.up(spec, emit))
    else:
        good = asyncio.run(api.prove(spec, emit=emit)).good
    wall = time.perf_counter() - begin
    sides = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "good": good,
        "wall": wall,
        "cpu": sum(side.ru_utime + side.ru_stime for side in sides),
        "peak": sides[0].ru_maxrss / 1024,
        "apt": apt,
    }


def used(verb: str, file: str) -> Used:
    """The verb in a separate process.

    Raises:
        SystemExit: it failed, the plan was not empty, or the proof was not good.
    """
    argv = [sys.executable, "-m", "benchmarks.bare_metal", "--work", verb, file]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{verb} failed:\n{(done.stdout + done.stderr)[-3000:]}")
    figures = json.loads(done.stdout.splitlines()[-1])
    if not figures.pop("good"):
        raise SystemExit(f"{verb} failed: {done.stdout[-3000:]}")
    return Used(**figures)


def lab(*argv: str) -> str:
    """A verb of the program that makes bare machines; what it printed.

    Raises:
        SystemExit: it failed.
    """
    program = [sys.executable, "-m", "tests.machines.lab", *argv]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{argv[0]} failed:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def cluster_file(name: str, shown: str) -> str:
    """A cluster on the machines that the program shows."""
    addresses = re.findall(r"^\d+  (\S+)  pid \d+$", shown, re.MULTILINE)
    login = re.search(r"^key (?P<key>\S+)  user (?P<user>\S+)", shown, re.MULTILINE)
    if login is None or not addresses:
        raise SystemExit(f"no machines in: {shown}")
    return f"""\
corral: v1
name: {name}
groups:
  - name: rtx
    provider: ssh
    nodes: node[0-{len(addresses) - 1}]
    addresses: "{",".join(addresses)}"
    ssh: {{user: {login["user"]}, key: {login["key"]}}}
controller: node0
partitions:
  - {{name: main, groups: [rtx], default: true, max_time: infinite}}
users:
  - {{name: alice, uid: 2001}}
  - {{name: bob, uid: 2002}}
"""


def from_bare(count: int, suite: str) -> tuple[dict[str, Used], str]:
    """Make machines, measure, remove them; what each verb took, and a title."""
    name = f"bench-{os.getpid()}"
    begin = time.perf_counter()
    try:
        shown = lab("up", name, "-n", str(count), "--suite", suite)
        booted = time.perf_counter() - begin
        file = str(Path(os.environ["CORRAL_STATE_DIR"]) / "lab.yaml")
        Path(file).write_text(cluster_file(name, shown))
        took = {"up, from bare": used("up", file), "prove": used("prove", file)}
        took[IDLE] = used("plan", file)
    finally:
        lab("down", name)
    title = f"{count} bare machines ({suite}, user-mode-linux, started in {booted:.0f} s)"
    return took, title


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", type=int, default=3)
    parser.add_argument("--suite", default="trixie")
    parser.add_argument("--file", default="")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        print(json.dumps(work(*args.work)))
        return
    where = machine()
    count = args.machines
    if args.file:
        took, title = {IDLE: used("plan", args.file)}, f"{count} machines that are up"
    else:
        took, title = from_bare(count, args.suite)
    table = Table(title=f"{title}\n{where}, after {os.getloadavg()[0]:.1f}")
    for column in ("what", "s", "of it apt, slowest node", "CPU s / node here", "peak MiB here"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for what, usage in took.items():
        apt = max(usage.apt.values(), default=0.0)
        share = f"{apt:.0f} s ({100 * apt / usage.wall:.0f} %)" if apt else ""
        cpu = f"{usage.cpu / count:.2f}"
        table.add_row(what, f"{usage.wall:.1f}", share, cpu, f"{usage.peak:.0f}")
    Console(width=110).print(table)


if __name__ == "__main__":
    if "CORRAL_STATE_DIR" in os.environ:
        main()
    else:
        with tempfile.TemporaryDirectory(prefix="corral-bench-state") as state:
            os.environ["CORRAL_STATE_DIR"] = state
            main()
