"""Many machines at once: bounded fan-out over transports."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

from corral.errors import Code, CorralError
from corral.hosts.quote import Script
from corral.hosts.transport import Alone, OnLine, Result, Transport
from corral.runtime.tasks import concurrently

FAN_OUT = 64

Mint = Callable[[str], Awaitable[bytes]]
"""Makes a secret for one node at the moment it is asked for."""


class Fleet:
    """The machines of one cluster, by node name.

    Args:
        transports: how each node is reached.
        fan_out: how many nodes are worked on at once.
        cluster: name of the cluster that changes on the machines are made for.
        mint: makes the key with which a node joins the cluster's mesh.
    """

    def __init__(
        self,
        transports: Mapping[str, Transport],
        *,
        fan_out: int = FAN_OUT,
        cluster: str = "",
        mint: Mint | None = None,
    ) -> None:
        self.cluster = cluster
        self.mint = mint
        self._transports = dict(transports)
        self._gate = asyncio.Semaphore(fan_out)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of all nodes, in the order given."""
        return tuple(self._transports)

    async def run(
        self,
        node: str,
        script: Script,
        *,
        stdin: bytes = b"",
        timeout: float = 120.0,
        on_line: OnLine | None = None,
    ) -> Result:
        """Run a script on one node.

        Raises:
            CorralError: NOT_FOUND for an unknown node, else what the transport raises.
        """
        transport = self._transports.get(node)
        if transport is None:
            raise CorralError(
                Code.NOT_FOUND, f"no node called {node}", hint=f"nodes: {', '.join(self.nodes)}"
            )
        async with self._gate:
            return await transport.run(script, stdin=stdin, timeout=timeout, on_line=on_line)

    async def run_alone(self, node: str, script: Script, *, timeout: float = 120.0) -> Result:
        """Run a script on one node by a new connection, which logs in by key or not at all.

        Raises:
            CorralError: as ``run``; NOT_FOUND also for a node that is reached by no connections.
        """
        transport = self._transports.get(node)
        if not isinstance(transport, Alone):
            raise CorralError(Code.NOT_FOUND, "no node of that name has connections", node=node)
        async with self._gate:
            return await transport.run_alone(script, timeout=timeout)

    async def each(
        self, scripts: Mapping[str, Script], *, timeout: float = 120.0
    ) -> dict[str, Result | CorralError]:
        """Run one script per node, all at once; a node's error takes its result's place."""

        async def run_on(node: str, script: Script) -> Result | CorralError:
            try:
                return await self.run(node, script, timeout=timeout)
            except CorralError as error:
                return error

        answers = await concurrently(*(run_on(n, s) for n, s in scripts.items()))
        return dict(zip(scripts, answers, strict=True))

    async def all(
        self, script: Script, nodes: Iterable[str] | None = None, *, timeout: float = 120.0
    ) -> dict[str, Result | CorralError]:
        """Run the same script on all (or the given) nodes at once."""
        return await self.each(dict.fromkeys(nodes or self.nodes, script), timeout=timeout)

    def without(self, nodes: Collection[str]) -> Fleet:
        """The same machines but these; their connections are shared."""
        left = {name: t for name, t in self._transports.items() if name not in nodes}
        fleet = Fleet(left, cluster=self.cluster, mint=self.mint)
        fleet._gate = self._gate
        return fleet

    async def reconnect(self, node: str) -> None:
        """Give up the node's connection, which its reboot has cut; the next run opens a new one."""
        await self._transports[node].close()

    async def close(self) -> None:
        """Give up all connections."""
        await concurrently(*(t.close() for t in self._transports.values()))
