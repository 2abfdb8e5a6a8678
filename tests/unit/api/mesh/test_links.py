"""A link of the tailnet that is measured: a server's failure is seen at once, in its own words."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from corral.api.mesh import tailnet
from corral.errors import Code, CorralError
from corral.hosts.transport import Result


def facts(node: str) -> Any:
    mesh = SimpleNamespace(address="100.64.0.1", kernel=True)
    return SimpleNamespace(node=node, mesh=mesh)


class Machines:
    """The source answers; the target's server does what it is made for.

    Attributes:
        ended: the server's run is over.
    """

    def __init__(self, server: Any) -> None:
        self._server = server
        self.ended = False

    async def run(self, node: str, script: object, *, timeout: float, on_line: Any = None) -> Any:
        if on_line is None:
            return Result("a", 1, "", "the client could not send")
        try:
            return await self._server(on_line)
        finally:
            self.ended = True


async def measured(machines: Machines) -> Any:
    link = tailnet._link(cast("Any", machines), facts("a"), facts("b"))
    return await asyncio.wait_for(link, 5)


def test_a_server_that_fails_is_not_waited_for() -> None:
    async def refused(_: object) -> Result:
        raise CorralError(Code.UNREACHABLE, "b does not answer", tail="no route to host")

    async def no_perl(_: object) -> Result:
        return Result("b", 127, "", "sh: 1: exec: perl: not found")

    async def nothing(_: object) -> Result:
        return Result("b", 0, "", "")

    for server, words in (
        (refused, "no route to host"),
        (no_perl, "perl: not found"),
        (nothing, "before it listened"),
    ):
        assert words in asyncio.run(measured(Machines(server))).problem


def test_no_server_is_left_where_the_client_fails() -> None:
    async def serves(on_line: Any) -> Result:
        on_line("port 4711")
        await asyncio.Event().wait()
        raise AssertionError

    async def work() -> None:
        machines = Machines(serves)
        assert "could not send" in (await measured(machines)).problem
        assert machines.ended

    asyncio.run(work())
