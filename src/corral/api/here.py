"""How a use case reaches a cluster: by ssh, or as a process on its controller."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from corral.apply.session import Session
from corral.hosts.fleet import Fleet
from corral.hosts.local import Local
from corral.spec.models import ClusterSpec
from corral.spec.nodes import controller_of


@asynccontextmanager
async def reached(spec: ClusterSpec, *, here: bool) -> AsyncGenerator[tuple[Fleet, str]]:
    """The machines, and the controller's name.

    Args:
        spec: the cluster.
        here: this process runs on the controller, as the user in whose name things are done; no
            other machine is reached then.

    Raises:
        CorralError: NOT_FOUND, the cluster is not up; UNREACHABLE.
    """
    if here:
        name = controller_of(spec)
        yield Fleet({name: Local(name)}), name
        return
    async with await Session.open(spec) as session:
        session.require_running()
        yield session.fleet, session.controller
