"""Use case: open the pages of several clusters here, each of which shows the others.

Each keeps its own server, code and sessions. Their ports are chosen and held before the first one
starts and until the last one has ended, so that each server may name the others, and no other
program takes the place of a cluster whose page does not come up or has ended: the other pages send
it the words of a search.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from corral.api.page.page_server import Page, serve_page
from corral.errors import Code, CorralError
from corral.hosts.ports import HeldPort
from corral.passwords import Person, accompanied, person
from corral.runtime.tasks import concurrently
from corral.spec.models import ClusterSpec

_LAST_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class PageOf:
    """A cluster whose page is to be opened.

    Attributes:
        spec: the cluster.
        source: path of the cluster file, for the editor; "" for none.
    """

    spec: ClusterSpec
    source: str = ""


async def serve_pages(
    clusters: Sequence[PageOf],
    *,
    opened: Callable[[str, Page], None],
    ended: Callable[[str, str], None],
    user: str = "",
    port: int = 0,
    hours: float = 8.0,
) -> None:
    """Serve the pages of several clusters until the last one has ended.

    All are opened at the same time: one that is down delays no other.

    Args:
        clusters: which, each once.
        opened: receives each cluster's name and page once it is served.
        ended: receives the name of one whose page ended or did not come up, and why.
        user: the Slurm user to be, on each; "" for each cluster's first one.
        port: where the first one listens, the next at the next port; 0 takes free ports.
        hours: how long the user's tokens are good.

    Raises:
        CorralError: USAGE, a cluster is there twice, a port is taken or above 65535; of the first
            cluster, where no page came up at all.
    """
    _distinct(clusters)
    _in_range(port, len(clusters))
    turn = asyncio.Lock()
    failures = list[CorralError]()
    with ExitStack() as stack:
        ports = {
            each.spec.name: stack.enter_context(HeldPort(port + number if port else 0))
            for number, each in enumerate(clusters)
        }

        async def served(each: PageOf) -> None:
            name = each.spec.name
            others = {n: f"http://127.0.0.1:{p.number}" for n, p in ports.items() if n != name}
            try:
                with accompanied(_apart(person(), name, turn)):
                    async with serve_page(
                        each.spec,
                        user=user,
                        source=each.source,
                        port=ports[name],
                        hours=hours,
                        clusters=others,
                    ) as (page, until):
                        opened(name, page)
                        ended(name, await until())
            except CorralError as error:
                failures.append(error)
                ended(name, error.message)
            finally:
                ports[name].refuse()

        await concurrently(*(served(each) for each in clusters))
    if len(failures) == len(clusters):
        raise failures[0]


def _distinct(clusters: Sequence[PageOf]) -> None:
    seen = set[str]()
    for name in (each.spec.name for each in clusters):
        if name in seen:
            hint = "name each once: corral ui east.yaml west.yaml; do two files declare this name?"
            raise CorralError(Code.USAGE, f"cluster {name} is named twice", hint=hint)
        seen.add(name)


def _in_range(first: int, count: int) -> None:
    if first + count - 1 > _LAST_PORT:
        message = f"{count} clusters take the ports from {first} on; the last port is 65535"
        hint = f"name {_LAST_PORT - count + 1} or less with --port"
        raise CorralError(Code.USAGE, message, hint=hint)


def _apart(who: Person, cluster: str, turn: asyncio.Lock) -> Person:
    """The same person for one cluster: its password is for no other one, and asked for in turn."""

    async def ask(words: str) -> str | None:
        async with turn:
            return await who.ask(f"{cluster}: {words}")

    return Person(ask, who.show, who.environ, who.only, who.hint)
