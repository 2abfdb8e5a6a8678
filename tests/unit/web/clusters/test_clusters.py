"""Two pages over two fake Slurms: what one lends to the other, and what it never does."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Coroutine
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import httpx
import pytest

from corral.slurm.records import Job, Node
from corral.slurm.states.nodes import NodeState
from corral.web.clusters import routes, search
from corral.web.clusters.others import OtherClusters, origin_of
from corral.web.slurm import choices
from corral.web.slurm.snapshot import Snapshot
from corral.web.users.sessions import login_of
from tests.unit.web.fake import FakeRest, Page

EAST, WEST = "http://127.0.0.1:8001", "http://127.0.0.1:8002"


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def directives(reply: httpx.Response) -> dict[str, str]:
    policy = reply.headers["content-security-policy"]
    return dict(re.match(r"(\S+) (.*)", part.strip()).groups() for part in policy.split(";"))  # type: ignore[union-attr]


def test_a_page_frames_the_named_readers_alone() -> None:
    async def work() -> None:
        async with Page(FakeRest(), clusters={"west": f"{WEST}/"}) as east:
            page = await east.http.get("/")
            alone = directives(page)
            both = "http://127.0.0.1:8002 http://localhost:8002"
            assert alone["frame-src"] == f"'self' {both}"
            assert alone["connect-src"] == alone["script-src"] == "'self'"
            assert alone["frame-ancestors"] == "'none'"
            assert page.headers["x-frame-options"] == "DENY"
            reader = await east.http.get("/reader.html")
            lent = directives(reader)
            assert lent["frame-ancestors"] == both
            assert lent["default-src"] == "'none'"
            assert "x-frame-options" not in reader.headers
            assert f'data-origins="{both}"' in reader.text
            # Nothing else may be framed, whoever asks.
            for path in ("/api/me", "/app.css", "/js/reader.js", "/reader.html/", "//reader.html"):
                reply = await east.http.get(path)
                assert reply.headers["x-frame-options"] == "DENY", path
                assert directives(reply)["frame-ancestors"] == "'none'", path

    run(work())


def test_a_page_of_one_cluster_lends_nothing() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            reply = await page.http.get("/reader.html")
            assert reply.status_code == 404
            assert reply.headers["x-frame-options"] == "DENY"
            assert directives(reply)["frame-src"] == "'self'"
            assert (await page.login()).json()["clusters"] == []

    run(work())


def test_each_page_has_its_own_login_and_figures() -> None:
    """As two servers: neither has the other's address of Slurm, its token or its session."""

    async def work() -> None:
        slurms = FakeRest(), FakeRest()
        async with (
            Page(slurms[0], cluster="east", clusters={"west": WEST}) as east,
            Page(slurms[1], cluster="west", clusters={"east": EAST}) as west,
        ):
            for path in ("summary", "search?q=kim"):
                assert (await east.get(path)).status_code == 401
            assert (await east.login("kim")).json()["clusters"] == [{"name": "west", "url": WEST}]
            assert (await east.get("summary")).json()["cluster"] == "east"
            west.http.cookies, west.csrf = east.http.cookies, east.csrf
            assert (await west.get("summary")).status_code == 401  # the other's session opens none
            await west.login("root2")
            seen = (await west.get("summary")).json()
            assert (seen["cluster"], seen["user"]) == ("west", "root2")
            assert seen["nodes"] == len(slurms[1].bodies["nodes"]["body"]["nodes"])
            assert seen["mine_running"] == seen["mine_waiting"] == 0
            slurms[1].down = True  # its daemon goes: the figures stay, with the reason
            await west.app.state.corral.pollers.of("root2").poll()
            gone = (await west.get("summary")).json()
            assert gone["trouble"]
            assert gone["nodes"] == seen["nodes"]
            assert not (await east.get("summary")).json()["trouble"]
            assert not slurms[0].sent

    run(work())


def test_unknown_is_null_and_not_zero() -> None:
    now = Snapshot(trouble="slurmctld does not answer")
    figures = search.summary(now, search.tally(now), "kim")
    assert figures.pop("trouble")
    assert figures.pop("seen_at") == 0.0
    assert set(figures.values()) == {None}


def node(name: str, state: str = "IDLE", **more: Any) -> Node:
    return Node(name=name, state=NodeState.parse(state), cpus=8, gres="gpu:h200:8", **more)


def job(number: int, user: str = "kim", state: str = "RUNNING", name: str = "train") -> Job:
    return Job(id=number, name=name, user=user, state=state, partition="main")


def snapshot(nodes: list[Node], jobs: list[Job]) -> Snapshot:
    return replace(
        Snapshot(seen_at=1.0, complete=True),
        nodes=MappingProxyType({each.name: each for each in nodes}),
        jobs=MappingProxyType({each.id: each for each in jobs}),
    )


def test_the_summary_counts_for_one_viewer() -> None:
    nodes = [node("a", gres_used="gpu:h200:3"), node("b", "IDLE+DRAIN"), node("c", "DOWN")]
    jobs = [job(1), job(2, state="PENDING"), job(3, "eve"), job(4, state="COMPLETED")]
    now = snapshot([*nodes[:1], *(replace(n, gres_used="gpu:h200:0") for n in nodes[1:])], jobs)
    counted = search.tally(now)
    figures = search.summary(now, counted, "kim")
    assert (figures["nodes"], figures["usable"]) == (3, 1)
    assert (figures["down"], figures["drained"]) == (1, 1)
    assert (figures["gpus"], figures["gpus_free"]) == (24, 5)
    assert (figures["running"], figures["waiting"]) == (2, 1)
    assert (figures["mine_running"], figures["mine_waiting"]) == (1, 1)
    others = search.summary(now, counted, "eve")
    assert (others["mine_running"], others["mine_waiting"]) == (1, 0)
    assert search.summary(now, counted, "nobody")["mine_running"] == 0


@pytest.mark.parametrize("private", [False, True])
def test_a_summary_is_counted_once_until_something_changes(
    monkeypatch: pytest.MonkeyPatch, *, private: bool
) -> None:
    """50,000 jobs take 0.1 s, on the loop that serves all; with PrivateData each sees its own."""
    walks: list[threading.Thread] = []

    def free_on(nodes: Any) -> Any:
        walks.append(threading.current_thread())
        return choices.free_on(nodes)

    async def work() -> None:
        slurm = FakeRest()
        monkeypatch.setattr(search, "free_on", free_on)
        async with Page(slurm, private=private, poll_s=0.001) as page:  # no shared answer lasts
            pollers = page.app.state.corral.pollers
            # Somewhere else too: whose logins have all ended is forgotten.
            page.app.state.corral.sessions.open(login_of(slurm.login("kim")))
            await page.login("kim")
            seen = (await page.get("summary")).json()
            assert seen["running"] + seen["waiting"] > 0
            await pollers.of("kim").poll()  # nothing is new
            assert (await page.get("summary")).json()["running"] == seen["running"]
            assert len(walks) == 1
            await page.login("eve")
            await page.get("summary")
            assert len(walks) == (2 if private else 1)
            slurm.bodies["jobs"]["body"]["jobs"] = []
            slurm.touch("jobs")
            await pollers.of("eve").poll()
            assert (await page.get("summary")).json()["running"] == 0
            await page.login("kim")
            again = (await page.get("summary")).json()
            assert again["running"] == (seen["running"] if private else 0)
            assert len(walks) == (3 if private else 2)
            assert threading.main_thread() not in walks

    run(work())


def test_a_search_finds_jobs_nodes_and_users() -> None:
    nodes = [node("gpu-1", reason="fan broken"), node("gpu-2", partitions=("main",))]
    jobs = [job(1), job(2, "eve", "PENDING", "kimono"), job(3, "eve", name="other")]
    now = snapshot(nodes, jobs)

    def names(query: str, users: frozenset[str] | None = frozenset({"kimberly"})) -> Any:
        result = search.results(now, query, users)
        assert result["users_known"] is (users is not None)
        return (
            [each["id"] for each in result["jobs"]],
            [each["name"] for each in result["nodes"]],
            [each["name"] for each in result["users"]],
        )

    assert names("KIM") == ([1, 2], [], ["kim", "kimberly"])
    assert names("kim", None) == ([1, 2], [], ["kim"])
    assert names("gpu fan") == ([], ["gpu-1"], [])
    assert names("main")[1] == ["gpu-2"]
    assert names("user=eve") == ([3, 2], [], [])
    assert names("  ") == ([], [], [])
    user = search.results(now, "eve", None)["users"][0]
    assert user == {"name": "eve", "running": 1, "waiting": 1}


def test_a_search_lists_few_and_counts_all() -> None:
    now = snapshot([node(f"n{at}") for at in range(30)], [job(at) for at in range(50)])
    result = search.results(now, "n", None)
    assert (len(result["nodes"]), result["nodes_total"]) == (search.MOST, 30)
    assert (len(result["jobs"]), result["jobs_total"]) == (search.MOST, 50)


def test_a_slow_accounting_does_not_hold_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login()
            assert (await page.get("search?q=kim")).json()["users_known"] is True
            forever = asyncio.Event()

            async def waits(*_: object) -> Any:
                await forever.wait()

            monkeypatch.setattr(routes, "asked", waits)
            monkeypatch.setattr(routes, "PATIENCE_S", 0.0)
            reply = (await page.get("search?q=kim")).json()
            assert reply["users_known"] is False
            for task in list(routes._open):
                task.cancel()

    run(work())


def test_a_wrong_search_is_refused() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login()
            assert (await page.get("search?q=nobody%3Dx")).status_code == 400
            assert (await page.get(f"search?q={'x' * 400}")).status_code == 400

    run(work())


def test_hidden_jobs_are_not_found_by_others() -> None:
    """With PrivateData each viewer has a poller and answers of the viewer's own."""

    async def work() -> None:
        slurm = FakeRest()
        async with Page(slurm, private=True) as page:
            await page.login("kim")
            first = await page.get("search?q=a")
            body = slurm.bodies["jobs"]["body"]
            body["jobs"] = []
            slurm.touch("jobs")
            await page.login("eve")
            second = await page.get("search?q=a")
            assert first.json()["jobs_total"] > 0
            assert second.json()["jobs_total"] == 0

    run(work())


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("https://West.example.org/", "https://west.example.org"),
        ("https://west.example.org:443", "https://west.example.org"),
        ("http://127.0.0.1:8765/", "http://127.0.0.1:8765"),
        ("http://[::1]:8765", "http://[::1]:8765"),
    ],
)
def test_origins_are_as_browsers_write_them(address: str, origin: str) -> None:
    assert origin_of(address) == origin


@pytest.mark.parametrize(
    ("address", "origins"),
    [
        ("http://127.0.0.1:8765", "http://127.0.0.1:8765 http://localhost:8765"),
        ("https://localhost", "https://127.0.0.1 https://localhost"),
        ("http://127.0.0.1:80/", "http://127.0.0.1 http://localhost"),
        ("https://localhost:8443", "https://127.0.0.1:8443 https://localhost:8443"),
    ],
)
def test_both_names_of_the_loopback_are_as_browsers_write_them(address: str, origins: str) -> None:
    """The reader compares them with the origin of a message, which has no usual port."""
    assert " ".join(OtherClusters({"west": address}).origins) == origins


@pytest.mark.parametrize("address", ["", "west", "ftp://x", "javascript:1", "http://x:70000"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError):
        OtherClusters({"west": address})


def test_an_address_adds_no_directive() -> None:
    """The cluster file's pattern refuses these; a policy is not broken by them either."""
    for hostile in ("https://x;script-src *", "https://x y", 'https://x"><script>'):
        try:
            others = OtherClusters({"west": hostile})
        except ValueError:
            continue
        assert b"script-src *" not in others.page_policy(), hostile
        assert "<script>" not in others.reader(), hostile
    assert json.dumps(OtherClusters({}).listed()) == "[]"
