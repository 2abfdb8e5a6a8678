"""Whatever one cloud answers, the guard's round goes on at the others, and reports it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from corral.agents import rental_guard as program
from corral.providers.cloud.client.accounts import calls_of
from corral.providers.cloud.errors import Reason
from corral.spec.providers import CLOUDS
from tests.unit.providers.cloud.client.test_hostile import CALLS as CLIENT
from tests.unit.providers.cloud.client.test_hostile import (
    PAPERSPACE_MACHINE,
    PERMANENT,
    STRANGE,
    TRANSIENT,
    World,
)
from tests.unit.roles.services.test_rental_guard import LABEL, RESPONSES

NOW = 1.8e9
MACHINE = {"id": "m", "name": LABEL, "dtCreated": "2026-11-23T08:00:00Z", **PAPERSPACE_MACHINE}
LISTS: dict[str, dict[str, Any]] = {
    **RESPONSES,
    "paperspace": {"GET /machines?limit=100": {"items": [MACHINE], "hasMore": False}},
}
LAMBDA = "GET /api/v1/instances"
GOOD = ("good1", "good2")
BAD = "bad"
HUGE = 10**400
"""More than a float holds: an integer of JSON may have any number of digits."""
VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, HUGE, -HUGE, 10**20),
    *("", "x", "9" * 400, "\ud800\n\u2028"),
    *("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"),
    *([], {}, [[]], [{}], {"a": HUGE}),
)
"""What may replace any value of an answer."""


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where each value of an answer is."""
    if above:
        yield above
    if isinstance(value, dict | list):
        for name in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[name], (*above, name))


def changed(answer: Any, place: tuple[Any, ...], value: Any) -> Any:
    """The answer with another value there."""
    other = copy.deepcopy(answer)
    *above, last = place
    at = other
    for name in above:
        at = at[name]
    at[last] = value
    return other


def machines(*names: str) -> dict[str, Any]:
    """Lambda's list of machines of the cluster."""
    (first, *_) = LISTS["lambda"][LAMBDA]["data"]
    return {"data": [{**first, "id": name} for name in names]}


class Clouds:
    """A cloud that answers as it wants, between two of Lambda's kind that do their work.

    Args:
        kind: the cloud whose client asks the hostile one.
        answer: gives its answer to a request, as "GET /path"; its first argument is this object.
    """

    def __init__(self, kind: str, answer: Callable[[Clouds, str], Any]) -> None:
        self.kind, self.answer = kind, answer
        self.clock = NOW
        self.ended: list[str] = []

    def call(self, cloud: str, method: str, path: str, _: Any) -> Any:
        if cloud == BAD:
            return self.answer(self, f"{method} {path}")
        if method != "GET":
            self.ended.append(cloud)
            return None
        return machines(*(() if cloud in self.ended else (f"i-{cloud}",)))

    def round(self, state: dict[str, Any] | None = None, total: float | None = 0) -> program.Round:
        """One round; where there is a budget, it is spent and the grace is over."""
        names = [GOOD[0], BAD, GOOD[1]]
        kinds = {GOOD[0]: "lambda", BAD: self.kind, GOOD[1]: "lambda"}
        conf = {
            "cluster": "lab",
            "nodes": [],
            "elastic": [],
            "groups": {"pods": ["pod0", "pod1"]},
            "total": total,
            "grace": 0,
            "clouds": dict.fromkeys(names, ""),
            "clients": {name: calls_of(kind) for name, kind in kinds.items()},
        }
        kept = {} if state is None else state
        turn = program.Round(
            conf, kept, self.call, lambda _: "", now=lambda: self.clock, wait=lambda _: None
        )
        turn.run()
        json.dumps(kept)
        "\n".join(turn.messages).encode()
        return turn


CASES = [
    (cloud, request, place)
    for cloud, answers in LISTS.items()
    for request, answer in answers.items()
    for place in places(answer)
]


@pytest.mark.parametrize(("cloud", "listed", "place"), CASES)
def test_no_value_of_an_answer_ends_the_round(
    cloud: str, listed: str, place: tuple[Any, ...]
) -> None:
    """An integer of 400 digits as one price turned all ends off, of idle machines too."""
    for value in VALUES:
        lists = LISTS[cloud] | {listed: changed(LISTS[cloud][listed], place, value)}
        clouds = Clouds(cloud, lambda _, request, lists=lists: lists.get(request))
        clouds.round()
        assert {*clouds.ended} == {*GOOD}, value


@pytest.mark.parametrize(("cloud", "listed", "place"), CASES)
def test_the_client_has_a_list_or_an_error_of_its_own(
    cloud: str, listed: str, place: tuple[Any, ...], tmp_path: Path
) -> None:
    for value in VALUES:
        lists = LISTS[cloud] | {listed: changed(LISTS[cloud][listed], place, value)}

        def answer(request: httpx.Request, lists: dict[str, Any] = lists) -> httpx.Response:
            path = request.url.raw_path.decode().removeprefix("/v1")
            return httpx.Response(200, content=json.dumps(lists[f"GET {path}"]))

        world = World(cloud, tmp_path, answer)
        world.error(CLIENT[cloud]["instances"])
        assert world.sent


def test_two_names_under_one_id_are_an_answer_that_no_document_has(tmp_path: Path) -> None:
    """What puts several pages together raises outside of the reading of one."""
    two = {"items": [MACHINE, {**MACHINE, "name": "other"}], "hasMore": False}
    world = World("paperspace", tmp_path, lambda _: httpx.Response(200, json=two))
    error = world.error(CLIENT["paperspace"]["instances"])
    assert error is not None and error.reason is Reason.STRANGE
    assert error.command == "GET /machines" and "two instances with the id m" in error.tail


RAISED: tuple[Exception, ...] = (
    *(OverflowError("x"), RecursionError("x"), MemoryError(), ZeroDivisionError("x")),
    *(SyntaxError("x"), AssertionError("x"), RuntimeError("x"), KeyError("x"), Exception("a\nb")),
    *(FileNotFoundError("x"), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x")),
    program.Refused(500),
)


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(("words", "at"), [("was not listed", "list"), ("not be ended", "end")])
@pytest.mark.parametrize("cloud", CLOUDS)
def test_no_exception_ends_the_round(cloud: str, words: str, at: str, error: Exception) -> None:
    def answer(_: Clouds, request: str) -> Any:
        if request.startswith("GET") is (at == "list"):
            raise error
        return LISTS[cloud].get(request)

    clouds = Clouds(cloud, answer)
    turn = clouds.round()
    assert {*clouds.ended} == {*GOOD} and turn.failed
    failures = [text for text in turn.messages if words in text]
    assert failures and all(f": {type(error).__name__}: " in text for text in failures)
    assert "\n" not in "".join(turn.messages)


@pytest.mark.parametrize("name", [*PERMANENT, *TRANSIENT, *STRANGE])
@pytest.mark.parametrize("cloud", CLOUDS)
def test_answers_that_the_client_is_tried_with(cloud: str, name: str) -> None:
    """One after the other, as the client's test has them; without those that are a stream."""

    def answer(_: Clouds, __: str) -> Any:
        try:
            response = {**PERMANENT, **TRANSIENT, **STRANGE}[name]()
            content = response.content
        except (httpx.HTTPError, httpx.ResponseNotRead) as error:
            raise OSError(str(error)) from error
        if response.status_code != httpx.codes.OK:
            raise program.Refused(response.status_code)
        return program.content(content)

    clouds = Clouds(cloud, answer)
    turn = clouds.round()
    assert {*clouds.ended} == {*GOOD} and turn.failed
    assert any("bad was not listed: GET /" in text for text in turn.messages)


def test_a_key_that_is_missing_is_that_clouds_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No round was made at all. And an error of urllib's had the key in it."""
    (tmp_path / "two.key").write_text("first\nsecond\n")
    (tmp_path / "good.key").write_text(" key \n")
    clouds = ("one", "two")
    clients = dict.fromkeys(clouds, calls_of("lambda"))
    conf = {"cluster": "lab", "nodes": [], "elastic": [], "clients": clients}
    conf["clouds"] = dict.fromkeys(clouds, "")
    (tmp_path / "guard.json").write_text(json.dumps(conf))
    monkeypatch.setattr(program, "KEYS", tmp_path)
    monkeypatch.setattr(program, "CONF", tmp_path / "guard.json")
    monkeypatch.setattr(program, "STATE", tmp_path / "state.json")
    assert program.key_of("good") == "key"
    assert program.main() == 1
    first, second = json.loads((tmp_path / "state.json").read_text())["messages"]
    assert first.startswith(f"one was not listed: {LAMBDA}: FileNotFoundError: ")
    assert second == f"two was not listed: {LAMBDA}: ValueError: two.key is empty, or not one line"


def hanging(count: int) -> Clouds:
    """Clouds of which one has so many machines, and takes 90 s for each of its answers."""

    def answer(clouds: Clouds, request: str) -> Any:
        clouds.clock += 90
        clouds.ended.append(BAD)
        if request.startswith("GET"):
            return machines(*(f"b{number}" for number in range(count)))
        raise OSError("no answer")

    return Clouds("lambda", answer)


def test_the_machines_of_a_slow_cloud_are_ended_last() -> None:
    """With 20 machines at a cloud that hangs, the service was ended before another cloud's turn."""
    clouds = hanging(20)
    clouds.round()
    assert clouds.ended[:4] == [BAD, *GOOD, BAD]


def test_idle_machines_of_a_slow_cloud_wait_for_the_next_round() -> None:
    clouds = hanging(20)
    names = {**{f"b{number}": BAD for number in range(20)}, **{f"i-{name}": name for name in GOOD}}
    seen = {"node": "x", "price": 1, "since": 0.0, "until": 0.0, "down": 0, "ended": False}
    turn = clouds.round({"seen": {i: {**seen, "cloud": name} for i, name in names.items()}}, None)
    assert clouds.ended == [BAD, *GOOD, BAD, BAD]  # its list, and two machines
    assert sum("stays until the next round: bad is slow" in text for text in turn.messages) == 18


def test_pages_that_take_too_long_are_an_error() -> None:
    def answer(clouds: Clouds, request: str) -> Any:
        clouds.clock += 50
        return {"items": [], "hasMore": True, "nextPage": str(clouds.clock)}

    clouds = Clouds("paperspace", answer)
    turn = clouds.round()
    assert {*clouds.ended} == {*GOOD}
    assert "bad was not listed: GET /machines: TimeoutError: not complete" in turn.messages[0]
