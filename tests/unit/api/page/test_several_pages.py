"""Pages of several clusters at once: each with the others, and one that is down."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import urllib.request
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from corral.api.page import several_pages
from corral.api.page.page_server import Page
from corral.api.page.several_pages import PageOf, serve_pages
from corral.errors import Code, CorralError
from corral.hosts.ports import HeldPort
from corral.hosts.process import Child
from corral.passwords import SUDO, Person, accompanied, person
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec

pytestmark = pytest.mark.enable_socket
LAPTOP = Path(__file__).parents[4] / "examples" / "laptop.yaml"


def named(name: str) -> PageOf:
    return PageOf(load_or_raise(LAPTOP).model_copy(update={"name": name}))


def test_each_page_names_the_others_and_one_that_is_down_holds_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served: dict[str, Mapping[str, str]] = {}
    opened: list[str] = []
    ended: list[tuple[str, str]] = []
    ports: dict[str, int] = {}
    refused: list[bool] = []
    others_up, down, east_ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def up(name: str, page: Page) -> None:
        opened.append(name)
        if len(opened) == 2:
            others_up.set()

    def gone(name: str, why: str) -> None:
        ended.append((name, why))
        (east_ended if name == "east" else down).set()

    @asynccontextmanager
    async def serve(spec: ClusterSpec, **more: Any) -> AsyncGenerator[Any]:
        served[spec.name], ports[spec.name] = more["clusters"], more["port"].number
        if spec.name == "down":
            await others_up.wait()  # it takes longer than the others
            raise CorralError(Code.UNREACHABLE, "no route to host")

        async def until() -> str:
            await down.wait()
            refused.append(_taken(ports["down"]))  # nobody gets the place of who is down
            if spec.name == "west":
                await east_ended.wait()
                refused.append(_taken(ports["east"]))  # nor of who has ended
            return "the tunnel broke"

        yield Page(f"http://127.0.0.1:{more['port'].number}/", "kim", "code"), until

    monkeypatch.setattr(several_pages, "serve_page", serve)
    work = serve_pages(
        [named("east"), named("west"), named("down")],
        opened=up,
        ended=gone,
    )
    asyncio.run(work)
    assert set(opened) == {"east", "west"}
    assert ended[0] == ("down", "no route to host")
    assert {name for name, why in ended[1:] if why == "the tunnel broke"} == {"east", "west"}
    for name, others in served.items():
        there = {other: f"http://127.0.0.1:{port}" for other, port in ports.items()}
        assert others == {other: url for other, url in there.items() if other != name}
    assert refused == [True, True, True]
    assert not _taken(ports["down"])


def test_a_pages_server_listens_on_the_port_that_is_held_for_it() -> None:
    async def work(held: HeldPort) -> None:
        argv = [sys.executable, "-m", "corral.web"]
        settings = {"cluster": "east", "rest": "http://127.0.0.1:1", "listening": held.handle}
        async with await Child.start(argv, handles=(held.handle,)) as server:
            await server.write(json.dumps(settings).encode() + b"\n")
            assert json.loads(await server.line(120))["port"] == held.number
            url = f"http://127.0.0.1:{held.number}/"
            page = await asyncio.to_thread(urllib.request.urlopen, url)
            assert b"Corral" in page.read()
        held.refuse()
        with pytest.raises(OSError):
            socket.create_server(("127.0.0.1", held.number))

    with HeldPort() as held:
        asyncio.run(work(held))
    with HeldPort(held.number):
        pass  # it is free for the next start, though connections have just ended


def _taken(port: int) -> bool:
    with socket.socket() as other:
        try:
            other.bind(("127.0.0.1", port))
        except OSError:
            return True
        return False


def test_one_clusters_password_is_for_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second cluster's machines may be hostile: they ask for sudo's password too."""
    asked: list[str] = []
    known: dict[str, str | None] = {}
    asking: list[int] = []
    east_known = asyncio.Event()

    async def ask(words: str) -> str:
        asking.append(1)
        assert sum(asking) == 1  # one question at a time on one terminal
        await asyncio.sleep(0)
        asking.append(-1)
        asked.append(words)
        return f"secret of {words}"

    @asynccontextmanager
    async def serve(spec: ClusterSpec, **more: Any) -> AsyncGenerator[Any]:
        if spec.name == "east":
            await person().password(SUDO, "sudo password")
        else:
            await east_known.wait()
        known[spec.name] = person().known(SUDO)
        east_known.set()
        if spec.name == "third":
            await person().password(SUDO, "sudo password")

        async def until() -> str:
            return "ended"

        yield Page("http://127.0.0.1:1/", "kim", "code"), until

    monkeypatch.setattr(several_pages, "serve_page", serve)
    with accompanied(Person(ask)):
        pages = [named("east"), named("west"), named("third")]
        asyncio.run(serve_pages(pages, opened=lambda *_: None, ended=lambda *_: None))
    assert known == {"east": "secret of east: sudo password", "west": None, "third": None}
    assert asked == ["east: sudo password", "third: sudo password"]


def test_where_no_page_comes_up_the_first_error_is_the_commands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @asynccontextmanager
    async def serve(spec: ClusterSpec, **more: Any) -> AsyncGenerator[Any]:
        raise CorralError(Code.NOT_FOUND, f"{spec.name} is not up")
        yield

    monkeypatch.setattr(several_pages, "serve_page", serve)
    pages = [named("east"), named("west")]
    with pytest.raises(CorralError, match="east is not up"):
        asyncio.run(serve_pages(pages, opened=lambda *_: None, ended=lambda *_: None))


def test_a_cluster_twice_and_a_taken_port_are_refused() -> None:
    nothing: Any = lambda *_: None  # noqa: E731  # two callbacks that are never called
    with pytest.raises(CorralError, match="east is named twice"):
        asyncio.run(serve_pages([named("east"), named("east")], opened=nothing, ended=nothing))
    with HeldPort() as held, pytest.raises(CorralError, match=f"port {held.number} is taken"):
        pages = [named("east"), named("west")]
        asyncio.run(serve_pages(pages, opened=nothing, ended=nothing, port=held.number))


def test_a_port_for_each_cluster() -> None:
    nothing: Any = lambda *_: None  # noqa: E731  # two callbacks that are never called
    pages = [named("east"), named("west")]
    with pytest.raises(CorralError, match="the last port is 65535") as refused:
        asyncio.run(serve_pages(pages, opened=nothing, ended=nothing, port=65535))
    assert refused.value.code is Code.USAGE
    assert "65534" in refused.value.hint
