"""Use case: reach the pages of the cluster's tracking server from this machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from corral.api.page.page_server import tunnel_to, until_up
from corral.apply.connection import Connection
from corral.errors import Code, CorralError
from corral.hosts.ports import free_port
from corral.hosts.process import Child
from corral.roles.services.mlflow import PORT
from corral.spec.models import ClusterSpec
from corral.spec.nodes import controller_of

UP_S: Final = 30.0
ANSWER_S: Final = 5.0
HERE: Final = "127.0.0.1"

Ended = Callable[[], Coroutine[Any, Any, str]]


@asynccontextmanager
async def tracking_page(spec: ClusterSpec, *, port: int = 0) -> AsyncGenerator[tuple[str, Ended]]:
    """A tunnel to MLflow's pages on the controller while the context is open.

    The server listens on the controller's address in the cluster's network only, and so the tunnel
    ends there and not on its loopback.

    Args:
        spec: the cluster.
        port: where to listen on this machine's loopback; 0 takes a free port.

    Yields:
        the address here, and a coroutine function that returns, with ssh's last words, when the
        tunnel has ended.

    Raises:
        CorralError: NOT_FOUND, the cluster has no tracking server, or is not up; UNREACHABLE.
    """
    if not spec.services.mlflow:
        raise CorralError(
            Code.NOT_FOUND,
            f"cluster {spec.name} does not run a tracking server",
            hint=f"its runs are at {spec.services.mlflow_uri}"
            if spec.services.mlflow_uri
            else "services: {mlflow: true} in the cluster file, then corral apply, brings one",
        )
    async with await Connection.open(spec, root=False) as session:
        session.require_running()
        name = controller_of(spec)
        # A profile's address may be another one than that of the cluster's network.
        address = session.addresses()[name] if session.administers else name
    here = port or free_port()
    argv = await tunnel_to(spec, (f"{HERE}:{here}", f"{address}:{PORT}"))
    async with await Child.start(argv, quiet=True) as tunnel:
        await until_up(tunnel, name)
        await _until(tunnel, here)
        yield f"http://{HERE}:{here}", lambda: _ended(tunnel)


async def _until(tunnel: Child, port: int) -> None:
    """Wait until the server answers through the tunnel, and not only until ssh listens."""
    end = asyncio.get_running_loop().time() + UP_S
    while True:
        if not tunnel.running:
            raise CorralError(
                Code.UNREACHABLE,
                "no tunnel to the tracking server",
                tail=await tunnel.stderr_tail(),
                hint="is the port free here? does corral ssh reach the controller?",
            )
        reply = b""
        with suppress(OSError, TimeoutError):
            reply = await _health(port)
        if reply.startswith(b"HTTP/") and b" 200 " in reply:
            return
        if asyncio.get_running_loop().time() > end:
            raise CorralError(
                Code.UNREACHABLE,
                "the tracking server does not answer",
                hint="corral ssh to the controller: journalctl -u corral-mlflow",
            )
        await asyncio.sleep(0.1)


async def _health(port: int) -> bytes:
    """How the server's answer begins.

    Raises:
        OSError: nothing listens.
        TimeoutError: no answer came.
    """
    reader, writer = await asyncio.open_connection(HERE, port)
    try:
        writer.write(b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n")
        return await asyncio.wait_for(reader.read(64), ANSWER_S)
    finally:
        writer.close()


async def _ended(tunnel: Child) -> str:
    await tunnel.wait()
    return await tunnel.stderr_tail() or "the tunnel to the controller ended"
