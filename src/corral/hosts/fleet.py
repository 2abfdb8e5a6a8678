"""Many machines at once: bounded fan-out over transports."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from corral.errors import Code, CorralError
from corral.hosts.quote import Script
from corral.hosts.transport import OnLine, Result, Transport

FAN_OUT = 64


class Fleet:
    """The machines of one cluster, by node name.

    Args:
        transports: how each node is reached.
        fan_out: how many nodes are worked on at once.
    """

    def __init__(self, transports: Mapping[str, Transport], *, fan_out: int = FAN_OUT) -> None:
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

    async def each(
        self, scripts: Mapping[str, Script], *, timeout: float = 120.0
    ) -> dict[str, Result | CorralError]:
        """Run one script per node, all at once; a node's error stands in its place."""

        async def one(node: str, script: Script) -> Result | CorralError:
            try:
                return await self.run(node, script, timeout=timeout)
            except CorralError as error:
                return error

        answers = await asyncio.gather(*(one(n, s) for n, s in scripts.items()))
        return dict(zip(scripts, answers, strict=True))

    async def all(
        self, script: Script, nodes: Iterable[str] | None = None, *, timeout: float = 120.0
    ) -> dict[str, Result | CorralError]:
        """Run the same script on all (or the given) nodes at once."""
        return await self.each(dict.fromkeys(nodes or self.nodes, script), timeout=timeout)

    async def close(self) -> None:
        """Give up all connections."""
        await asyncio.gather(*(t.close() for t in self._transports.values()))
