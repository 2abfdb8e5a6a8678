"""``python -m corral.web.metrics``: what Slurm and Corral know of the cluster, for Prometheus.

A service of the controller's with its own user, on loopback. It asks Slurm's client commands,
so that it needs neither slurmrestd nor a token; settings come as JSON on standard input.
"""

from __future__ import annotations

import asyncio
import sys
import time
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, Final, cast

import uvicorn
from pydantic import BaseModel, ConfigDict, Field

from corral.errors import CorralError
from corral.hosts import process
from corral.slurm.records import Node, Partition
from corral.slurm.rest import read
from corral.slurm.rest.commands import (
    COMMANDS,
    OLDER,
    body_of,
    too_old,
    version_of,
)
from corral.slurm.rest.json_values import records
from corral.slurm.text import QUEUE_COUNTED, SHOW_PARTITIONS, parse_counted, readable_partitions
from corral.web.exposition import (
    Family,
    families,
    text_of,
    untracked,
)
from corral.web.listener.connections import Bounded, Waiting

KEEP_S: Final = 10.0
BACK_OFF: Final = 4.0
"""It rests so many times as long as Slurm took, as the page's poller does."""
COMMAND_S: Final = 60.0
RUNNING: Final = ("squeue", "--all", "--states=running", "--json")
ROUNDS: Final = Path("/var/lib/corral/proof/rounds")
OWING: Final = 32
"""Connections at once that have not sent a request yet; with more the oldest ends."""
KIND: Final = b"text/plain; version=0.0.4; charset=utf-8"


class Settings(BaseModel):
    """Contents of the exporter's configuration file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cluster: str
    port: int = Field(ge=1024, le=65535)


class Exporter:
    """The last text, made again when it is asked for and old; an ASGI application.

    Args:
        cluster: its name.
    """

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._text = ""
        self._due = 0.0
        self._looking = asyncio.Lock()

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
        async with self._looking:
            if time.monotonic() >= self._due:
                begin = time.monotonic()
                self._text = await self._looked()
                took = time.monotonic() - begin
                self._due = begin + took + max(KEEP_S, took * BACK_OFF)
            return self._text

    async def _looked(self) -> str:
        begin, up, reported = time.monotonic(), 1.0, list[Family]()
        try:
            reported = await _asked()
        except (CorralError, TimeoutError) as error:
            up = 0.0
            print(f"corral: {error}", file=sys.stderr)
        took = time.monotonic() - begin
        about = (("cluster", self._cluster), ("version", metadata.version("corral")))
        return text_of(
            [
                Family("corral_info", "gauge", "Corral on this cluster.", {about: 1}),
                Family("corral_slurm_up", "gauge", "1: slurmctld answers.", {(): up}),
                Family("corral_look_seconds", "gauge", "Time its answers took.", {(): took}),
                Family(
                    "corral_proof_round_time_seconds",
                    "gauge",
                    "When the last round of the scheduled proof ended.",
                    _rounds(),
                ),
                *reported,
            ]
        )


async def _asked() -> list[Family]:
    (nodes, partitions), jobs = await asyncio.gather(_lists(), _run(QUEUE_COUNTED))
    counted = parse_counted(jobs)
    if untracked(nodes, counted):
        body = body_of(await _run(RUNNING))
        running = read.jobs_of(body, version_of(body))
        counted = [job for job in counted if not job.running]
        counted += [job for job in running if job.running]  # 22.05 prints all of them
    return families(nodes, counted, partitions)


async def _lists() -> tuple[tuple[Node, ...], tuple[Partition, ...]]:
    try:
        nodes, partitions = await asyncio.gather(
            _run(COMMANDS["nodes"]), _run(COMMANDS["partitions"])
        )
    except TimeoutError as error:
        if not too_old(str(error)):
            raise
        older, listed = await asyncio.gather(_run(OLDER["nodes"]), _run(SHOW_PARTITIONS))
        return _nodes(older), readable_partitions(listed)
    return _nodes(nodes), _partitions(partitions)


async def _run(command: tuple[str, ...]) -> str:
    ended = await process.run(list(command), timeout=COMMAND_S)
    if ended.status != 0:
        raise TimeoutError(f"{command[0]}: {ended.err.strip()[-300:] or ended.status}")
    return ended.out


def _nodes(output: str) -> tuple[Node, ...]:
    body = body_of(output)
    return read.nodes_of(body, version_of(body))


def _partitions(output: str) -> tuple[Partition, ...]:
    body = body_of(output)
    return tuple(
        read.partition(fields, version_of(body)) for fields in records(body.get("partitions"))
    )


def _rounds() -> dict[tuple[tuple[str, str], ...], float]:
    try:
        times = [entry.stat().st_mtime for entry in ROUNDS.iterdir()]
    except OSError:  # no scheduled proof here, or not for this user's eyes
        return {}
    return {(): max(times)} if times else {}


def main() -> None:
    """Serve on loopback."""
    settings = Settings.model_validate_json(sys.stdin.readline())
    uvicorn.Server(config(Exporter(settings.cluster), settings.port)).run()


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
