"""The cluster's tracking server, as the browser of who runs ``corral ui`` reaches it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from corral import api
from corral.errors import CorralError
from corral.web.settings import Declared


class TrackingTunnel:
    """A tunnel to MLflow's pages, opened when a job's page first needs it and kept.

    The server listens in the cluster's network, under a name that a browser here does not know.

    Args:
        declared: the cluster file.
    """

    def __init__(self, declared: Declared) -> None:
        self._declared = declared
        self._lock = asyncio.Lock()
        self._open = AsyncExitStack()
        self._address = ""
        self._ended: asyncio.Task[str] | None = None

    async def address(self) -> str:
        """Where a browser here finds it, ``http://127.0.0.1:41234``.

        "" where it is silent, or the cluster has no tracking server.
        """
        if not self._declared.spec.services.mlflow:
            return ""
        async with self._lock:
            if self._ended is not None and not self._ended.done():
                return self._address
            await self._open.aclose()
            try:
                page = api.tracking_page(self._declared.spec)
                self._address, ended = await self._open.enter_async_context(page)
            except CorralError:
                self._ended = None
                return ""
            self._ended = asyncio.create_task(ended(), name="tracking tunnel")
            return self._address

    async def close(self) -> None:
        """End it."""
        if self._ended is not None:
            self._ended.cancel()
            await asyncio.gather(self._ended, return_exceptions=True)
        await self._open.aclose()
