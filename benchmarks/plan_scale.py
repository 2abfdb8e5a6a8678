"""Plan for 100, 1,000 and 10,000 nodes from recorded facts: seconds and peak memory.

Each size runs in a separate process, so that peak memory is that size's. ``fresh`` plans bare
machines; ``done`` plans machines that hold everything already (the daily case).

    .venv/bin/python -m benchmarks.plan_scale
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys

from rich.console import Console
from rich.table import Table

from benchmarks.machine import machine
from corral.testing.machines import planned

SIZES = (100, 1_000, 10_000)


def measure(count: int, state: str) -> dict[str, float]:
    """Seconds for the entire plan (roles, Slurm's files, comparison), peak memory in MiB."""
    plan, seconds = planned(count, complete=state == "done")
    if plan.empty != (state == "done"):
        raise SystemExit(f"{count} nodes {state}: the plan is wrong")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "seconds": seconds,
        "peak_mib": peak,
        "changes": sum(len(s.changes) for s in plan.stages),
    }


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(measure(int(sys.argv[1]), sys.argv[2])))
        return
    table = Table(title=f"corral plan from recorded facts\n{machine()}")
    for name in (
        "nodes",
        "machines hold",
        "seconds",
        "µs per node",
        "peak MiB",
        "changes (folded)",
    ):
        table.add_column(name, justify="right")
    for state in ("fresh", "done"):
        for count in SIZES:
            argv = [sys.executable, "-m", "benchmarks.plan_scale", str(count), state]
            out = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
            got = json.loads(out)
            table.add_row(
                f"{count:,}",
                "nothing" if state == "fresh" else "all",
                f"{got['seconds']:.2f}",
                f"{got['seconds'] / count * 1e6:.0f}",
                f"{got['peak_mib']:.0f}",
                str(got["changes"]),
            )
    Console().print(table)


if __name__ == "__main__":
    main()
