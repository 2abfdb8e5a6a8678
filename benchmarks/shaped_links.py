"""Training over links of 1, 2.5 and 10 Gb/s: predicted by the cost model, and measured.

    .venv/bin/python -m benchmarks.shaped_links NAME [--rates none,10,2.5,1] [--keep FOLDER]

NAME is a standing cluster of examples/laptop.yaml (three embedded nodes). Each node's own end of
its link is shaped by tbf. Three nodes are predicted from two on the same link, and each slower link
from each faster one. --keep keeps what the jobs printed, and --read takes it instead of a job.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.machine import machine
from corral import api
from corral.api import (
    EXACT,
    Scaling,
    Training,
    from_other_link,
    guesses,
    read_scaling,
)

BURSTS = {"10": "1024kb", "2.5": "256kb", "1": "128kb"}
"""A bucket holds what passes in a timer's tick: smaller ones do not reach the rate."""
WAYS_TRIED = ("ddp", "accumulate", "local_sgd")
NODES = ("node0", "node1", "node2")


def inside(name: str, node: str, *words: str) -> None:
    """Run a command in a node's network namespace."""
    container = f"corral-{name}-{node}"
    subprocess.run(["podman", "exec", container, *words], check=True, capture_output=True)


@contextmanager
def shaped(name: str, rate: str) -> Iterator[None]:
    """All nodes send at no more than so many Gb/s; none: as fast as they can."""
    if rate == "none":
        yield
        return
    tbf = ["tbf", "rate", f"{float(rate) * 1000:.0f}mbit", "burst", BURSTS[rate], "latency", "20ms"]
    try:
        for node in NODES:
            inside(name, node, "tc", "qdisc", "replace", "dev", "eth0", "root", *tbf)
        yield
    finally:
        for node in NODES:
            inside(name, node, "tc", "qdisc", "del", "dev", "eth0", "root")


def measured(name: str, rate: str, batches: int) -> list[str]:
    """What the measuring job printed on such links."""
    lines: list[str] = []
    training = Training(batch=1, length=32, batches=batches, ways=WAYS_TRIED, seconds=0)
    with shaped(name, rate):
        asyncio.run(api.bench_scaling(api.spec_of(name), training, on_line=lines.append))
    return lines


def rows(seen: dict[str, Scaling]) -> Iterator[tuple[str, str, str, float, float]]:
    """Link, what was predicted, from what, predicted and measured seconds."""
    for rate, scaling in seen.items():
        for guess in guesses(scaling):
            what = f"{guess.method}, {guess.ranks} nodes"
            yield rate, what, "the same link", guess.predicted, guess.measured
    for faster, base in seen.items():
        for rate, scaling in seen.items():
            now = 0.0 if faster == "none" else float(faster)
            if rate == "none" or (now and float(rate) >= now):
                continue
            for run, predicted in from_other_link(scaling, base, float(rate), now):
                yield rate, f"{run.method}, {run.ranks} nodes", faster, predicted, run.seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--rates", default="none,10,2.5,1")
    parser.add_argument("--batches", type=int, default=32)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--read", type=Path)
    args = parser.parse_args()
    console, where = Console(), machine()
    seen: dict[str, Scaling] = {}
    for rate in args.rates.split(","):
        if args.read:
            lines = (args.read / f"{rate}.txt").read_text().splitlines()
        else:
            lines = measured(args.name, rate, args.batches)
        if args.keep:
            args.keep.mkdir(parents=True, exist_ok=True)
            (args.keep / f"{rate}.txt").write_text("\n".join(lines) + "\n")
        seen[rate] = read_scaling(lines)
    table = Table("link, Gb/s", "what", "predicted from", "predicted, ms", "measured, ms", "error")
    errors: dict[str, list[float]] = {}
    for rate, what, source, predicted, taken in rows(seen):
        error = predicted / taken - 1
        errors.setdefault(source, []).append(abs(error))
        table.add_row(
            rate, what, source, f"{predicted * 1e3:.1f}", f"{taken * 1e3:.1f}", f"{error:+.0%}"
        )
    console.print(where)
    console.print(table)
    for source, deviations in errors.items():
        good = sum(e <= EXACT for e in deviations)
        refused = "; corral bench scaling gives no figures from such a link" * (source == "none")
        console.print(
            f"from {source}: {good} of {len(deviations)} within {EXACT:.0%}, "
            f"worst {max(deviations):.0%}{refused}"
        )


if __name__ == "__main__":
    main()
