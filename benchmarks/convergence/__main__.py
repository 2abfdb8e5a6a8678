"""Convergence against ansible-core and pyinfra: the same work, the same nodes, one run.

    .venv/bin/python -m benchmarks.convergence [--nodes 8] [--rtts 0 80] [--repeat 3]

Makes NODES embedded nodes and an environment with both peers (requirements-bench.lock), and times
entire processes: fresh nodes, then nothing to do; with so many milliseconds added to each
round trip by a delaying ProxyCommand. Medians of the repeats; each result is checked on every node.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.convergence import peers, work
from benchmarks.machine import machine
from corral.testing import engine

REPO = Path(__file__).parents[2]
NAME = "bench"
Command = Callable[[Path, peers.Inventory], list[str]]


def corral(folder: Path, inventory: peers.Inventory) -> list[str]:
    """Corral's engine on the same inventory."""
    (folder / "inventory.json").write_text(json.dumps(inventory))
    module = "benchmarks.convergence.corral_engine"
    return [sys.executable, "-m", module, str(folder / "inventory.json")]


ENGINES: dict[str, Command] = {
    "corral": corral,
    "pyinfra": peers.pyinfra,
    "ansible-core": peers.ansible,
}


def timed(name: str, inventory: peers.Inventory, venv: Path, *, idle: bool) -> float:
    """Seconds from a process's start to its end.

    Raises:
        SystemExit: it failed, the nodes do not hold what they should, or Corral changed something
            where nothing was to do.
    """
    with tempfile.TemporaryDirectory(prefix="cb") as made:
        folder = Path(made)
        argv = ENGINES[name](folder, inventory)
        cwd = REPO if name == "corral" else folder
        env = {**os.environ, "PATH": f"{venv}/bin:{os.environ['PATH']}", "PYINFRA_PROGRESS": "off"}
        begin = time.perf_counter()
        done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - begin
        if done.returncode != 0:
            raise SystemExit(f"{name} failed:\n{(done.stdout + done.stderr)[-3000:]}")
        if name == "corral" and (json.loads(done.stdout)["changes"] == 0) != idle:
            raise SystemExit(f"corral made {done.stdout.strip()} where idle is {idle}")
    answers = asyncio.run(engine.on_all(NAME, inventory, work.CHECK))
    bad = [a for a in answers if a.strip() != work.CHECKED.strip()]
    if bad:
        raise SystemExit(f"{name} left a node wrong: {bad[0]!r}")
    return seconds


def peers_venv() -> Path:
    """An environment with both peers, made from the lock file once."""
    venv = Path(tempfile.gettempdir()) / "corral-bench-venv"
    if not (venv / "bin" / "pyinfra").exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        pip = [str(venv / "bin" / "pip"), "install", "-q", "--require-hashes"]
        subprocess.run([*pip, "-r", str(REPO / "requirements-bench.lock")], check=True)
    return venv


def measure(
    inventory: peers.Inventory, rtt: int, repeat: int, venv: Path, engines: list[str]
) -> dict[tuple[str, str], float]:
    """Median seconds by (engine, state of the nodes)."""
    delay = [sys.executable, str(Path(__file__).with_name("delay.py")), "%h", "%p", str(rtt)]
    proxy = shlex.join(delay).replace("'%h'", "%h").replace("'%p'", "%p") if rtt else ""
    for at in inventory.values():
        at["proxy"] = proxy
    medians: dict[tuple[str, str], float] = {}
    for name in engines:
        fresh, idle = [], []
        for _ in range(repeat):
            asyncio.run(engine.on_all(NAME, inventory, work.UNDO))
            fresh.append(timed(name, inventory, venv, idle=False))
            idle.append(timed(name, inventory, venv, idle=True))
        medians[name, "fresh"] = statistics.median(fresh)
        medians[name, "nothing to do"] = statistics.median(idle)
    return medians


def main() -> None:
    """Make nodes, measure, print, remove."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--rtts", type=int, nargs="*", default=[0, 80])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--engines", nargs="*", default=list(ENGINES), choices=list(ENGINES))
    args = parser.parse_args()
    venv = peers_venv() if set(args.engines) - {"corral"} else Path(sys.prefix)
    inventory = asyncio.run(engine.bare_nodes(NAME, args.nodes))
    what = f"{work.ACTIONS} actions on {args.nodes} embedded nodes"
    title = f"{what}, entire process, median of {args.repeat}"
    table = Table(title=f"{title}\n{machine()}")
    for name in ("round trip", "nodes are", *(f"{e} s" for e in ENGINES), "pyinfra /", "ansible /"):
        table.add_column(name, justify="right")
    try:
        for rtt in args.rtts:
            got = measure(inventory, rtt, args.repeat, venv, args.engines)
            for state in ("fresh", "nothing to do"):
                ours = got.get(("corral", state), float("nan"))
                theirs = [got.get((engine_name, state), float("nan")) for engine_name in ENGINES]
                ratios = (f"{seconds / ours:.1f}" for seconds in theirs[1:])
                table.add_row(f"+{rtt} ms", state, *(f"{t:.2f}" for t in theirs), *ratios)
    finally:
        asyncio.run(engine.remove(NAME, args.nodes))
    Console(width=120).print(table)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="corral-bench-state") as state:
        os.environ.setdefault("CORRAL_STATE_DIR", state)
        main()
