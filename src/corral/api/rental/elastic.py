"""Use case: drive a cluster's elastic nodes."""

from __future__ import annotations

import asyncio
from typing import Final

from corral.api.lifecycle.deployment import up
from corral.elastic.driver import Driver
from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind, ignore
from corral.spec.models import ClusterSpec
from corral.spec.nodes import elastic_of
from corral.spec.sections.cloud import ELASTIC_RETRY_S

TURN_S: Final = 5.0


async def drive(spec: ClusterSpec, emit: Emit = ignore, *, once: bool = False) -> None:
    """Rent what pending jobs need and end what is idle, until the process is ended.

    Args:
        spec: the cluster.
        emit: receives the events.
        once: stop when a poll shows nothing to do.

    Raises:
        CorralError: USAGE, the cluster has no elastic group; with ``once`` also what a turn raises.
    """
    if not elastic_of(spec):
        raise CorralError(
            Code.USAGE,
            f"cluster {spec.name} has no elastic group",
            hint="add elastic: {idle: 10m, cpus: 26, memory_gib: 200} to a rented group",
        )

    async def set_up(desired: ClusterSpec) -> None:
        await up(desired, emit)

    driver = Driver(spec, set_up, emit)
    while True:
        try:
            busy = await driver.turn()
        except CorralError as error:
            if once or error.code in (Code.USAGE, Code.SPEC_INVALID, Code.MISSING_TOOL):
                raise
            emit(Event(Kind.NOTE, "elastic", message=f"{error}; {error.hint}"))
            await asyncio.sleep(ELASTIC_RETRY_S)
            continue
        if once and not busy:
            return
        await asyncio.sleep(TURN_S)
