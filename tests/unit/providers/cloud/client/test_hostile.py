"""Clouds that misbehave: each call ends in bounded time, with one error that names cloud and call.

Time is virtual. ``tests/clouds/test_wire.py`` has the same over real sockets.
"""

from __future__ import annotations

import asyncio
import gc
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import Any

import httpx
import pytest

from corral.providers.cloud.client import http
from corral.providers.cloud.client.http import ANSWER_AT_MOST, ATTEMPT_S, LIMITED_S, Caller, Dialect
from corral.providers.cloud.client.rate_limit import Pacer
from corral.providers.cloud.errors import CloudError, Reason
from corral.providers.cloud.model import (
    Capacity,
    Extra,
    Instance,
    Label,
    LaunchRequest,
    Offer,
    State,
)
from corral.providers.cloud.response import retry_after
from corral.providers.gcp.google import PLACE, Google
from corral.providers.lambda_cloud.client import LambdaCloud
from corral.providers.paperspace.client import Paperspace
from corral.providers.runpod.client import RunPod
from corral.testing.virtual import VirtualLoop, run

KEY = "secret-key-0123456789"
BOUND_S = LIMITED_S + 6 * ATTEMPT_S
TITLES = {"lambda": "Lambda Cloud", "runpod": "RunPod", "paperspace": "Paperspace", "gcp": "Google"}
MAKERS: dict[str, Any] = {"lambda": LambdaCloud, "runpod": RunPod, "paperspace": Paperspace}
MACHINE = Instance("x", "i1", "n", None, State.RUNNING)
LABEL = Label("lab", "gpu0", "00000a")
DESIRED = LaunchRequest(
    LABEL, Offer("x", "t", "r", "g", 1, 1, 1, 1.0, Capacity.SOME), "ssh-ed25519 AAAA"
)


@dataclass(frozen=True)
class Call:
    """One call of a client.

    Attributes:
        make: makes it.
        blind: its result is the status alone, so a good one needs no body.
        once: it must not be sent twice unless the cloud reports that it was not carried out.
    """

    make: Callable[[Any], Awaitable[Any]]
    blind: bool = False
    once: bool = False


COMMON = {
    "check": Call(lambda c: c.check()),
    "offers": Call(lambda c: c.offers()),
    "instances": Call(lambda c: c.instances()),
    "launch": Call(lambda c: c.launch(DESIRED), once=True),
    "terminate": Call(lambda c: c.terminate([MACHINE]), blind=True),
    "extras": Call(lambda c: c.extras("lab")),
    "remove": Call(lambda c: c.remove(Extra("x", "key", "e1", "n")), blind=True),
    "volumes": Call(lambda c: c.volumes()),
}
STOP = Call(lambda c: c.stop(MACHINE), blind=True)
NEW_VOLUME = Call(lambda c: c.make_volume("v", "r", 1), once=True)
CALLS: dict[str, dict[str, Call]] = {
    "lambda": {
        **COMMON,
        "make_volume": NEW_VOLUME,
        "firewall_rules": Call(lambda c: c.firewall_rules()),
        "set_firewall_rules": Call(lambda c: c.set_firewall_rules([{}]), blind=True),
    },
    "runpod": {
        **COMMON,
        "stop": STOP,
        "make_volume": NEW_VOLUME,
        "cluster_offers": Call(lambda c: c.cluster_offers()),
        "launch_cluster": Call(lambda c: c.launch_cluster(DESIRED, 2), once=True),
        "ssh_keys": Call(lambda c: c.ssh_keys()),
        "set_ssh_keys": Call(lambda c: c.set_ssh_keys(["k"]), blind=True),
    },
    "paperspace": {**COMMON, "stop": STOP},
    "gcp": {
        "zone": Call(lambda c: c.zone("z")),
        "machine_type": Call(lambda c: c.machine_type("z", "m")),
        "reservation": Call(lambda c: c.reservation("z", "r")),
        "region": Call(lambda c: c.region("r")),
        "project": Call(lambda c: c.project()),
        "instances": Call(lambda c: c.instances("z", "lab")),
        "disks": Call(lambda c: c.disks("z", "lab")),
        "images": Call(lambda c: c.images("f")),
        "networks": Call(lambda c: c.networks("p")),
    },
}
EVERY = [(cloud, name) for cloud, calls in CALLS.items() for name in calls]


class Drip(httpx.AsyncByteStream):
    """A byte every 5 seconds, for ever."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(5)


class Cut(httpx.AsyncByteStream):
    """A connection that breaks in the middle of the body."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b'{"data": ['
        raise httpx.RemoteProtocolError("peer closed connection without sending complete body")


def reply(status: int, text: str | bytes = b"", **headers: str) -> Callable[[], httpx.Response]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    kind = {} if "content-type" in named else {"content-type": "application/json"}
    return lambda: httpx.Response(status, content=text, headers={**kind, **named})


def stream(body: httpx.AsyncByteStream) -> Callable[[], httpx.Response]:
    return lambda: httpx.Response(200, stream=body, headers={"content-type": "application/json"})


def fail(error: Exception) -> Callable[[], httpx.Response]:
    def answer() -> httpx.Response:
        raise error

    return answer


def deep() -> httpx.Response:
    """Nests deeper than a parser goes.

    Garbage of other tests is collected first: a finalizer that warns at that depth cannot be
    reported, and pytest counts that as this test's error.
    """
    gc.collect()
    return reply(200, "[" * 100_000)()


def untrusted() -> httpx.ConnectError:
    error = httpx.ConnectError("certificate verify failed")
    error.__cause__ = ssl.SSLCertVerificationError("self-signed certificate")
    return error


HTML = "<html>please log in</html>"
LATER = formatdate(4_000_000_000, usegmt=True)
# What is answered to every call; and whether a good status may satisfy a call without a result.
PERMANENT = {
    **{f"{s} away": reply(s, location="https://evil.example/x") for s in (301, 302, 303, 307, 308)},
    "304": reply(304),
    "300 without a place": reply(300),
    **{str(s): reply(s, HTML) for s in (400, 401, 402, 403, 405, 406, 410, 411, 413, 418, 451)},
    "501": reply(501),
    "206": reply(206, '{"data": []}'),
    "299": reply(299, '{"data": []}'),
    "untrusted certificate": fail(untrusted()),
    "429, an hour": reply(429, retry_after="3600"),
    "429, in the year 2096": reply(429, retry_after=LATER),
}
TRANSIENT = {
    **{str(s): reply(s, HTML) for s in (408, 425, 429, 500, 502, 503, 504, 520, 599)},
    **{
        f"429, {after}": reply(429, retry_after=after)
        for after in ("0", "-5", "nan", "inf", "soon", "7", "9" * 30, "Thu, 01 Jan 1970 00:00 GMT")
    },
    "503, 20": reply(503, retry_after="20"),
    "a byte every 5 s": stream(Drip()),
    "cut": stream(Cut()),
    "half": reply(200, '{"data": ['),
    "refused": fail(httpx.ConnectError("connection refused")),
    "no route": fail(httpx.ConnectTimeout("")),
    "reset": fail(httpx.ReadError("reset")),
    "silent": fail(httpx.ReadTimeout("")),
    "not HTTP": fail(httpx.RemoteProtocolError("illegal status line")),
    "endless": reply(200, b" " * (ANSWER_AT_MOST + 1)),
    "NaN": reply(200, '{"data": NaN}'),
    "1e999": reply(200, '{"data": 1e999}'),
    "deep": deep,
    "bytes": reply(200, b"\xff\xfe\xfd"),
}
STRANGE = {
    "a login page": reply(200, HTML, content_type="text/html"),
    "empty": reply(200),
    "204": reply(204),
    **{
        text: reply(200, text)
        for text in (
            "null",
            "[]",
            "{}",
            "17",
            '"text"',
            '{"data": null}',
            '{"data": [[]]}',
            '{"data": 5, "pods": 5, "gpus": {}, "keys": "k", "items": 7, "clusters": [1]}',
            '{"data": [{"id": null}], "pods": [{"id": 3}], "items": [{}], "hasMore": false}',
        )
    },
}


class World:
    """A client of a cloud, and what was sent."""

    def __init__(self, cloud: str, folder: Path, answer: Callable[..., Any]) -> None:
        self.loop = VirtualLoop()
        self.sent: list[httpx.Request] = []

        def handle(request: httpx.Request) -> httpx.Response:
            self.sent.append(request)
            return answer(request)

        pacer = Pacer(folder, "a", {}, self.loop.time)
        network = httpx.MockTransport(handle)
        url = "https://cloud.example/v1"
        if cloud == "gcp":
            words = Dialect(PLACE, (), lambda d: ("", str(d["error"]["message"])))
            self.client: Any = Google("p", Caller(words, url, KEY, pacer, network))
        else:
            self.client = MAKERS[cloud](url, KEY, pacer, network)

    def error(self, call: Call) -> CloudError | None:
        async def made() -> None:
            try:
                await call.make(self.client)
            finally:
                # httpx's own generators of the body close in their own tasks.
                for _ in range(9):
                    await asyncio.sleep(0)

        try:
            run(self.loop, made())
        except CloudError as error:
            return error
        return None


def judged(cloud: str, call: Call, world: World) -> CloudError:
    """The error of a call, after what holds for all of them."""
    began = world.loop.time()
    error = world.error(call)
    assert error is not None, "taken for a result"
    assert world.loop.time() - began <= BOUND_S
    assert TITLES[cloud] in error.message
    assert error.command.split()[0] in ("GET", "POST", "PUT", "PATCH", "DELETE")
    assert error.command.split()[1] in world.sent[-1].url.path
    assert error.hint
    assert KEY not in json.dumps(error.as_dict())
    assert {request.url.host for request in world.sent} == {"cloud.example"}
    return error


@pytest.mark.parametrize("answer", PERMANENT)
@pytest.mark.parametrize(("cloud", "name"), EVERY)
def test_what_will_not_change_is_not_repeated(
    cloud: str, name: str, answer: str, tmp_path: Path
) -> None:
    world = World(cloud, tmp_path, lambda _: PERMANENT[answer]())
    error = judged(cloud, CALLS[cloud][name], world)
    assert len(world.sent) == 1
    assert error.reason is not Reason.MISSING
    if "away" in answer:
        assert "evil.example" in error.message and not error.unsure


@pytest.mark.parametrize("answer", TRANSIENT)
@pytest.mark.parametrize(("cloud", "name"), EVERY)
def test_what_may_pass_is_repeated_where_that_is_safe(
    cloud: str, name: str, answer: str, tmp_path: Path
) -> None:
    world = World(cloud, tmp_path, lambda _: TRANSIENT[answer]())
    call = CALLS[cloud][name]
    error = judged(cloud, call, world)
    assert error.transient
    times: dict[str, int] = {}
    for request in world.sent:
        times[request.method] = times.get(request.method, 0) + 1
    # Before a launch lists are asked, which fail first; what is sent once is a POST.
    if error.unsure:
        assert times.get("POST", 0) <= 1 or not call.once
    assert times[world.sent[-1].method] > 1 or call.once


@pytest.mark.parametrize("answer", STRANGE)
@pytest.mark.parametrize(("cloud", "name"), EVERY)
def test_what_no_document_has_is_never_an_empty_list(
    cloud: str, name: str, answer: str, tmp_path: Path
) -> None:
    call = CALLS[cloud][name]
    world = World(cloud, tmp_path, lambda _: STRANGE[answer]())
    if call.blind and "page" not in answer:
        # Where the document has no body the status shows it; the call's result is listed.
        assert getattr(world.error(call), "reason", Reason.STRANGE) is Reason.STRANGE
        return
    if call in LISTS and answer.startswith("{") and '"items"' not in answer:
        assert world.error(call) is None  # Google's lists may have no items: so it is documented
        return
    error = judged(cloud, call, world)
    assert len(world.sent) == 1 and error.reason is Reason.STRANGE


LISTS = [CALLS["gcp"][name] for name in ("instances", "disks", "images", "networks")]


def test_a_launch_that_did_not_leave_this_machine_is_sent_again(tmp_path: Path) -> None:
    """A launch whose outcome is unknown is not."""
    for cloud, make, sent, unsure in (
        ("runpod", fail(httpx.ConnectError("refused")), 5, False),
        ("runpod", reply(502), 1, True),
        ("runpod", fail(httpx.ReadError("reset")), 1, True),
        ("runpod", stream(Drip()), 1, True),
    ):
        world = World(cloud, tmp_path, lambda _, make=make: make())
        error = world.error(CALLS[cloud]["launch"])
        assert error is not None
        assert (len(world.sent), error.unsure) == (sent, unsure)


@pytest.mark.parametrize(
    ("header", "date", "seconds"),
    [
        ("12", "", 12.0),
        ("1.5", "", 1.5),
        ("0", "", 0.0),
        ("-3", "", 0.0),
        ("nan", "", 0.0),
        ("", "", 0.0),
        ("Wed, 21 Oct 2026 07:28:30 GMT", "Wed, 21 Oct 2026 07:28:00 GMT", 30.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:29:00 GMT", 0.0),
        ("Wed, 21 Oct 2026 07:28:00", "x", 0.0),
    ],
)
def test_retry_after(header: str, date: str, seconds: float) -> None:
    """A date is compared with the cloud's clock: this machine's may be wrong by hours."""
    assert retry_after(header, date) == seconds


def pages_of(cloud: str, *pages: tuple[list[str], object]) -> Callable[[httpx.Request], Any]:
    """Answers with one page after the other, the last one for ever."""
    left = list(pages)

    def answer(_: httpx.Request) -> httpx.Response:
        names, cursor = left.pop(0) if len(left) > 1 else left[0]
        items = [{"id": name, "name": name, **PAPERSPACE_MACHINE} for name in names]
        if callable(cursor):
            return cursor()
        if cloud == "gcp":
            token = {"nextPageToken": cursor} if cursor is not None else {}
            return httpx.Response(200, json={"items": items, **token})
        more = {"hasMore": cursor is not None, "nextPage": cursor}
        return httpx.Response(200, json={"items": items, **more})

    return answer


PAPERSPACE_MACHINE = {"state": "ready", "machineType": "C5", "region": "ny2", "usageRate": 1}
PAGED = {"paperspace": CALLS["paperspace"]["instances"], "gcp": CALLS["gcp"]["instances"]}


@pytest.mark.parametrize("cloud", PAGED)
def test_all_pages_are_read_and_an_empty_one_is_not_the_last(cloud: str, tmp_path: Path) -> None:
    answer = pages_of(cloud, (["a"], "2"), ([], "3"), (["b"], None))
    world = World(cloud, tmp_path, answer)
    names: list[str] = []

    async def ask() -> None:
        for entry in await PAGED[cloud].make(world.client):
            names.append(entry["name"] if cloud == "gcp" else entry.name)

    run(world.loop, ask())
    assert names == ["a", "b"] and len(world.sent) == 3


@pytest.mark.parametrize(
    ("pages", "words"),
    [
        ([(["a"], "2")], "leads to an earlier one"),
        ([(["a"], "2"), (["b"], "3"), (["c"], "2")], "leads to an earlier one"),
        ([(["a"], "2"), ([], "2")], "leads to an earlier one"),
        ([(["a"], "2"), ([], reply(404))], ""),
        ([(["a"], "2"), ([], reply(500))], ""),
        ([(["a"], "2"), ([], reply(200, "{}"))], None),
        ([(["a"], 7)], "does not have"),
    ],
    ids=["the same", "a circle", "empty", "404", "500", "no fields", "a number"],
)
@pytest.mark.parametrize("cloud", PAGED)
def test_a_list_that_is_not_complete_is_an_error(
    cloud: str, pages: list[Any], words: str | None, tmp_path: Path
) -> None:
    world = World(cloud, tmp_path, pages_of(cloud, *pages))
    if words is None and cloud == "gcp":
        assert world.error(PAGED[cloud]) is None  # without items and token it is the last page
        return
    error = judged(cloud, PAGED[cloud], world)
    assert (words or "") in f"{error.message}"


@pytest.mark.parametrize("cloud", PAGED)
def test_pages_without_end(cloud: str, tmp_path: Path) -> None:
    number = 0

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal number
        number += 1
        return pages_of(cloud, ([], str(number)))(request)

    world = World(cloud, tmp_path, answer)
    assert "does not end" in judged(cloud, PAGED[cloud], world).message
    assert number <= 200


@pytest.mark.parametrize("cloud", PAGED)
def test_a_list_that_takes_too_long_names_its_call(
    cloud: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "LIST_S", 3.0)
    asked: list[str] = []
    pauses = reply(429, retry_after="2")

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return pauses()

    error = judged(cloud, PAGED[cloud], World(cloud, tmp_path, answer))
    assert "not complete after 3 s" in error.message
    method, path = error.command.split(" ")
    assert method == "GET" and asked and asked[-1].endswith(path)


def test_a_google_that_could_not_ask_all_its_servers_is_not_complete(tmp_path: Path) -> None:
    warning = {"code": "UNREACHABLE", "message": "zone z"}
    answer = reply(200, json.dumps({"items": [], "warning": warning}))
    world = World("gcp", tmp_path, lambda _: answer())
    assert "UNREACHABLE" in judged("gcp", PAGED["gcp"], world).tail


def test_two_machines_with_one_id(tmp_path: Path) -> None:
    """The same one on two pages of a list that changes is one; two names are an error."""
    moved = pages_of("paperspace", (["a", "b"], "2"), (["b", "c"], None))
    world = World("paperspace", tmp_path, moved)
    names: list[str] = []

    async def ask() -> None:
        names.extend(instance.name for instance in await world.client.instances())

    run(world.loop, ask())
    assert names == ["a", "b", "c"]
    pods = [
        {
            "id": "p",
            "name": n,
            "status": "RUNNING",
            "dataCenterId": "x",
            "cost": 1,
            "createdAt": "2026-11-01T00:00:00Z",
        }
        for n in ("one", "two")
    ]
    listed = reply(200, json.dumps({"pods": pods}))
    world = World("runpod", tmp_path, lambda _: listed())
    assert (
        "two instances with the id p" in judged("runpod", CALLS["runpod"]["instances"], world).tail
    )


@pytest.mark.parametrize("bad", ["../clusters/c1", "a/b", "", None, 7, "x?y", "-p", "a" * 300])
def test_an_id_never_leads_to_another_path(bad: object, tmp_path: Path) -> None:
    pod = {"id": bad, "name": "n", "status": "RUNNING", "dataCenterId": "x", "cost": 1,
           "createdAt": "2026-11-01T00:00:00Z"}  # fmt: skip
    listed = reply(200, json.dumps({"pods": [pod]}))
    world = World("runpod", tmp_path, lambda _: listed())
    assert judged("runpod", CALLS["runpod"]["instances"], world).reason is Reason.STRANGE


def test_a_clock_far_ahead_rents_nothing_twice(tmp_path: Path) -> None:
    """A time without a zone is UTC; one that no calendar has is a response of another form."""
    for when, good in (("2096-01-01T00:00:00", True), ("2026-13-45", False), (1e30, False)):
        pod = {"id": "p", "name": "n", "status": "RUNNING", "dataCenterId": "x", "cost": 1,
               "createdAt": when}  # fmt: skip
        listed = reply(200, json.dumps({"pods": [pod]}))
        world = World("runpod", tmp_path, lambda _, listed=listed: listed())
        assert (world.error(CALLS["runpod"]["instances"]) is None) is good
