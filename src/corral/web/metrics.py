# Installed as: a module of Corral's own environment on the controller (/opt/corral/web)
# Started by: corral-metrics.service
# Runs as: corral-metrics
"""``python -m corral.web.metrics``: what Slurm and Corral know of the cluster, for Prometheus.

A service of the controller's with its own user, on loopback. It asks Slurm's client commands,
so that it needs neither slurmrestd nor a token; settings come as JSON on standard input.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import uvicorn
from pydantic import BaseModel, ConfigDict, Field

from corral.errors import CorralError
from corral.extras import own_version
from corral.hosts import process
from corral.runtime.tasks import concurrently
from corral.slurm import command as slurm
from corral.slurm.command import Command
from corral.slurm.policy import Share
from corral.slurm.records import Job, Node, Partition
from corral.slurm.rest.commands import too_old
from corral.web.exposition import Family, Histogram, families, text_of, untracked
from corral.web.listener.connections import Bounded, Waiting
from corral.web.scheduler_metrics import scheduler_families, share_families
from corral.web.wait_times import Waits

T = TypeVar("T")
KEEP_S: Final = 10.0
BACK_OFF: Final = 4.0
"""Pause between polls, as a multiple of the time that Slurm took, as for the page's poller."""
COMMAND_S: Final = 60.0
SHARES_S: Final = 60.0
"""How long an answer about shares serves: Slurm computes them every 5 minutes
(PriorityCalcPeriod)."""
ROUNDS: Final = Path("/var/lib/corral/proof/rounds")
OWING: Final = 32
"""Connections at once that have not sent a request yet; with more the oldest ends."""
KIND: Final = b"text/plain; version=0.0.4; charset=utf-8"


class Settings(BaseModel):
    """Contents of the exporter's configuration file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    port: int = Field(ge=1024, le=65535)


class Exporter:
    """The last text, made again when it is asked for and old; an ASGI application.

    The label ``cluster`` is of the target (``roles/services/metrics.py``), as for all exporters.
    """

    def __init__(self) -> None:
        self._text = ""
        self._refresh_at = 0.0
        self._polling = asyncio.Lock()
        self._waits = Waits()
        self._shares: tuple[Share, ...] = ()
        self._shares_expire = 0.0
        self._silent: set[str] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        served = scope["path"] == "/metrics" and scope["method"] == "GET"
        body = (await self.text()).encode() if served else b"see /metrics\n"
        kind = KIND if served else b"text/plain"
        status = 200 if served else 404
        headers = [(b"content-type", kind), (b"x-content-type-options", b"nosniff")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def text(self) -> str:
        """All metrics; those of the last poll while it is recent."""
        async with self._polling:
            if time.monotonic() >= self._refresh_at:
                begin = time.monotonic()
                self._text = await self._polled()
                took = time.monotonic() - begin
                self._refresh_at = begin + took + max(KEEP_S, took * BACK_OFF)
            return self._text

    async def _polled(self) -> str:
        begin, up, reported = time.monotonic(), True, list[Family | Histogram]()
        try:
            reported = await self._asked()
        except (CorralError, TimeoutError) as error:
            up = False
            print(f"corral: {error}", file=sys.stderr)
        took = time.monotonic() - begin
        return text_of([*own_families(up=up, took=took, rounds=_rounds()), *reported])

    async def _asked(self) -> list[Family | Histogram]:
        (nodes, partitions), text = await concurrently(_lists(), _run(slurm.COUNTED))
        jobs = await asyncio.to_thread(slurm.COUNTED.parse, text)
        self._waits.note(jobs, [partition.name for partition in partitions])
        jobs = await _with_gpus(nodes, jobs)
        return [
            *await asyncio.to_thread(families, nodes, jobs, partitions, time.time()),
            self._waits.family(),
            *await self._scheduler(),
            *share_families(await self._shared(), jobs),
        ]

    async def _scheduler(self) -> list[Family]:
        text = await self._optional(slurm.SCHEDULER)
        return scheduler_families(slurm.SCHEDULER.parse(text)) if text else []

    async def _shared(self) -> tuple[Share, ...]:
        if time.monotonic() >= self._shares_expire:
            self._shares = tuple(slurm.SHARES.parse(await self._optional(slurm.SHARES)))
            self._shares_expire = time.monotonic() + SHARES_S
        return self._shares

    async def _optional(self, command: Command[object]) -> str:
        """What a command prints; "" where it fails, such as sshare without accounting."""
        program = command.words[0]
        try:
            text = await _run(command)
        except (CorralError, TimeoutError) as error:
            if program not in self._silent:  # once, not four times a minute
                print(f"corral: {error}", file=sys.stderr)
            self._silent.add(program)
            return ""
        self._silent.discard(program)
        return text


async def _with_gpus(nodes: tuple[Node, ...], jobs: list[Job]) -> list[Job]:
    """Jobs with their GPUs, where squeue's columns do not have them."""
    if not untracked(nodes, jobs):
        return jobs
    running = await _answer(slurm.RUNNING)
    return [
        *(job for job in jobs if not job.running),
        *(job for job in running if job.running),  # 22.05 prints all of them
    ]


async def _lists() -> tuple[tuple[Node, ...], tuple[Partition, ...]]:
    try:
        return await concurrently(_answer(slurm.NODES), _answer(slurm.PARTITIONS))
    except TimeoutError as error:
        if not too_old(str(error)):
            raise
        return await concurrently(_answer(slurm.NODES_OF_22_05), _answer(slurm.PARTITIONS_OF_22_05))


async def _answer(command: Command[T]) -> T:
    return command.parse(await _run(command))


async def _run(command: Command[object]) -> str:
    env = {**os.environ, **slurm.UNIX_TIMES}
    ended = await process.run(list(command.words), timeout=COMMAND_S, env=env)
    if ended.status != 0:
        raise TimeoutError(f"{command.words[0]}: {ended.err.strip()[-300:] or ended.status}")
    return ended.out


def own_families(*, up: bool, took: float, rounds: float | None) -> list[Family]:
    """What the exporter knows itself.

    Args:
        up: whether slurmctld answered.
        took: seconds until then.
        rounds: when the last round of the scheduled proof ended, in unix seconds.
    """
    about = (("version", own_version()),)
    return [
        Family("corral_info", "gauge", "Corral on this cluster.", {about: 1}),
        Family("corral_slurm_up", "gauge", "1: slurmctld answers.", {(): float(up)}),
        Family("corral_poll_seconds", "gauge", "Time that slurmctld's answers took.", {(): took}),
        Family(
            "corral_proof_round_time_seconds",
            "gauge",
            "When the last round of the scheduled proof ended.",
            {} if rounds is None else {(): rounds},
        ),
    ]


def _rounds() -> float | None:
    try:
        return max((entry.stat().st_mtime for entry in ROUNDS.iterdir()), default=None)
    except OSError:  # no scheduled proof here, or not for this user's eyes
        return None


def main() -> None:
    """Serve on loopback."""
    settings = Settings.model_validate_json(sys.stdin.readline())
    uvicorn.Server(config(Exporter(), settings.port)).run()


def config(app: Any, port: int) -> uvicorn.Config:
    """How it is served: any user of this machine can connect, and cannot block others."""
    return uvicorn.Config(
        app,
        host="127.0.0.1",
        port=port,
        http=cast("Any", partial(Bounded, Waiting(OWING))),
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        limit_concurrency=4 * OWING,
    )


if __name__ == "__main__":
    main()
