"""How long filters over 50,000 jobs and a plan of 10,000 nodes block the page's event loop.

    python -m benchmarks.page_loop [--jobs 50000] [--nodes 10000]

Each piece of work runs as the page runs it and, for comparison, in the loop itself. A task that
wakes every 5 ms measures the longest time in which it did not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.plan_scale import measure
from benchmarks.web import RECORDED
from corral.web.page_work import first_page, in_own_loop, many_jobs

WAKE_S = 0.005


async def watched(work: Callable[[], Awaitable[Any]]) -> tuple[float, float]:
    """Seconds that it took, and the longest time in which the loop did nothing else."""
    worst, begun = 0.0, time.perf_counter()
    doing = asyncio.ensure_future(work())
    while not doing.done():
        at = time.perf_counter()
        await asyncio.sleep(WAKE_S)
        worst = max(worst, time.perf_counter() - at - WAKE_S)
    await doing
    return time.perf_counter() - begun, worst


async def shown(what: str, work: Callable[[], Any]) -> None:
    async def inside() -> None:
        await asyncio.sleep(0.05)
        work()

    async def threaded() -> None:
        await asyncio.to_thread(work)

    async def by_page_work() -> None:
        await in_own_loop(work)

    for name, variant in (
        ("in the loop", inside),
        ("thread", threaded),
        ("page_work", by_page_work),
    ):
        took, worst = await watched(variant)
        block = f"longest block {worst * 1000:7.0f} ms"
        print(f"{what:36} {name:12} {took:7.2f} s, {block}", flush=True)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--nodes", type=int, default=10_000)
    args = parser.parse_args()
    body = json.loads((RECORDED / "jobs.json").read_text())["body"]
    jobs = many_jobs(body, 42, args.jobs)

    def filtered() -> None:
        query = "train state=pending,running,completed,failed user!=user3"
        first_page(jobs, query, "priority")

    await shown(f"filter of {args.jobs:,} jobs", filtered)
    for state in ("fresh", "done"):
        what = f"plan of {args.nodes:,} nodes, {state}"
        await shown(what, lambda state=state: measure(args.nodes, state))


if __name__ == "__main__":
    asyncio.run(main())
