"""How long filters over 50,000 jobs and a plan of 10,000 nodes keep other viewers waiting.

    .venv/bin/python -m benchmarks.page_loop [--jobs 50000] [--nodes 10000]

Filters: the page's own server over a player of slurmrestd; a second viewer asks it for something
cheap all the time. Plans: in an event loop, and in a thread with its own loop as the page runs
use cases; a task that wakes every 5 ms measures the longest time in which it did not.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from benchmarks.plan_scale import measure
from benchmarks.web import player, session_headers, token
from corral.testing.page import page

WAKE_S = 0.005
QUERY = {"q": "train state=pending,running,completed,failed user!=user3", "by": "priority"}


async def watched(
    work: Callable[[], Awaitable[Any]], other: Callable[[], Awaitable[Any]]
) -> tuple[float, float]:
    """Seconds that it took, and the longest time that something else took meanwhile."""
    worst, begun = 0.0, time.perf_counter()
    doing = asyncio.ensure_future(work())
    while not doing.done():
        at = time.perf_counter()
        await asyncio.sleep(WAKE_S)
        await other()
        worst = max(worst, time.perf_counter() - at - WAKE_S)
    await doing
    return time.perf_counter() - begun, worst


def show(what: str, name: str, took: float, worst: float) -> None:
    block = f"longest block {worst * 1000:7.0f} ms"
    print(f"{what:36} {name:12} {took:7.2f} s, {block}", flush=True)


async def filters(jobs: int) -> None:
    """The first page of a filter over all jobs, while another viewer asks who it is."""
    with player(10, jobs) as slurm, page(slurm) as (_, url):
        async with httpx.AsyncClient(base_url=url, timeout=120) as http:
            reply = await http.post("/api/login", json={"token": token()})
            http.headers.update(session_headers(reply))
            (await http.get("/api/cluster")).raise_for_status()  # has read all jobs

            async def filtered() -> None:
                reply = await http.get("/api/jobs", params=QUERY)
                if not reply.raise_for_status().json()["total"]:
                    raise SystemExit("the filter chose no job")

            async def asked() -> None:
                (await http.get("/api/me")).raise_for_status()

            show(f"filter of {jobs:,} jobs", "the page", *await watched(filtered, asked))


async def plans(nodes: int) -> None:
    """A plan in the loop itself, and in a thread with its own."""
    for state in ("fresh", "done"):

        async def work(state: str = state) -> None:
            await asyncio.sleep(0.05)
            measure(nodes, state)

        async def threaded(work: Callable[[], Any] = work) -> None:
            await asyncio.to_thread(lambda: asyncio.run(work()))

        for name, variant in (("in the loop", work), ("own loop", threaded)):
            figures = await watched(variant, lambda: asyncio.sleep(0))
            show(f"plan of {nodes:,} nodes, {state}", name, *figures)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--nodes", type=int, default=10_000)
    args = parser.parse_args()
    await filters(args.jobs)
    await plans(args.nodes)


if __name__ == "__main__":
    asyncio.run(main())
