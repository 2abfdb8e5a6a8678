"""Which answers of Slurm users share where it hides them from each other, and what that saves."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx
import pytest

from corral.web import state as web_state
from corral.web.slurm import poller as poller_module
from corral.web.slurm.poller import Poller
from corral.web.slurm.readers import jobs as job_reader
from corral.web.slurm.readers.jobs import JobChanges
from corral.web.slurm.slurmrest import SlurmRest
from corral.web.users import sessions as web_sessions
from corral.web.users.sessions import login_of
from tests.unit.web.fake import FakeRest, Page
from tests.unit.web.slurm.test_poller import Big
from tests.unit.web.users.test_private_data import Rest, Slurm, jobs_seen, page

NODES, JOBS = "GET /slurm/v0.0.42/nodes", "GET /slurm/v0.0.42/jobs"


def pollers_of(page: Page, *users: str, role: str = "None") -> list[Poller]:
    """Pollers of users who are logged in, with a minute in which answers are shared."""
    state = page.app.state.corral
    state.pollers._lasts = 60.0
    for user in users:
        rest: Any = page.rest
        state.sessions.open(login_of(rest.login(user, role)))
    return [state.pollers.of(user) for user in users]


USERS = ("kim", "eve", "ada", "bo", "max")


async def polled(pollers: list[Poller]) -> None:
    for poller in pollers:
        await poller.poll()


def test_operators_share_a_poller_and_users_have_their_own() -> None:
    async def work() -> None:
        async with Page(Rest(), private=["jobs"]) as page:
            pollers = page.app.state.corral.pollers
            shared = pollers.of("boss", operates=True)
            assert pollers.of("root2", operates=True) is shared
            assert pollers.of("eve") is not shared
            assert pollers.of("boss") is not shared, "an operator no more"

    asyncio.run(work())


def test_only_operators_logins_poll_for_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's login, however long it lasts, would show them that user's jobs alone."""

    async def work() -> int:
        async with page(monkeypatch, Slurm("jobs")) as browser:
            state = browser.app.state.corral
            state.sessions.open(login_of(browser.rest.login("eve", lasts=36_000)))
            await browser.login("boss", "Operator")
            assert {login.user for login in state.pollers.of("boss", operates=True)._tokens()} == {
                "boss"
            }
            return await jobs_seen(browser)

    assert asyncio.run(work()) > 0


def test_a_login_whose_role_was_not_checked_for_a_while_polls_for_no_others() -> None:
    now = time.time()
    sessions = web_sessions.Sessions(36_000, 36_000, clock=lambda: now)
    sessions.open(login_of(FakeRest().login("boss", lasts=36_000)), "operator")
    assert [login.user for login in sessions.operators()] == ["boss"]
    now += web_sessions.ROLE_S
    assert sessions.operators() == []


@pytest.mark.parametrize(
    ("private", "lists"), [(["jobs"], 1), (["jobs", "nodes"], 5), (["partitions"], 5)]
)
def test_nodes_are_asked_for_once_unless_they_are_what_is_hidden(
    private: list[str], lists: int
) -> None:
    async def work() -> None:
        rest = Rest()
        async with Page(rest, private=private) as page:
            pollers = pollers_of(page, *USERS)
            await polled(pollers)
            assert rest.asked[NODES] == lists
            assert len({len(poller.now.nodes) for poller in pollers}) == 1

    asyncio.run(work())


def test_a_new_node_state_reaches_all_users_of_one_answer() -> None:
    async def work() -> None:
        rest = Rest()
        async with Page(rest, private=["jobs"]) as page:
            pollers = pollers_of(page, *USERS)
            page.app.state.corral.pollers._nodes._lasts = 0.05
            await polled(pollers)
            rest.bodies["nodes"]["body"]["nodes"][0]["reason"] = "disk is full"
            rest.touch("nodes")
            await asyncio.sleep(0.06)
            await polled(pollers)
            for poller in pollers:
                assert "disk is full" in {node.reason for node in poller.now.nodes.values()}
            assert len({poller.now.nodes_rev for poller in pollers}) == 1
            assert all(p.now.nodes is pollers[0].now.nodes for p in pollers), "one copy"

    asyncio.run(work())


def test_while_no_job_changes_one_question_is_enough_for_all_users() -> None:
    async def work() -> None:
        rest = Rest()
        async with Page(rest, private=["jobs"]) as page:
            pollers = pollers_of(page, *USERS)
            await polled(pollers)
            first = rest.asked[JOBS]
            assert first == len(USERS), "each has its own list"
            for _ in range(4):
                await polled(pollers)
            assert rest.asked[JOBS] == first + 1

    asyncio.run(work())


def test_a_job_that_changes_is_news_for_its_user_and_nobody_else() -> None:
    async def work() -> None:
        rest = Rest()
        async with Page(rest, private=["jobs"]) as page:
            owner = rest.bodies["jobs"]["body"]["jobs"][0]["user_name"]
            pollers = pollers_of(page, owner, *USERS[1:])
            page.app.state.corral.pollers._changes_of()._lasts = 0.0
            await polled(pollers)
            raw = next(j for j in rest.bodies["jobs"]["body"]["jobs"] if j["user_name"] == owner)
            raw["name"] = "renamed"
            rest.touch("jobs")
            await polled(pollers)
            names = [{job.name for job in poller.now.jobs.values()} for poller in pollers]
            assert "renamed" in names[0]
            assert not any("renamed" in others for others in names[1:])

    asyncio.run(work())


def test_that_nothing_changed_holds_for_lists_that_are_as_new() -> None:
    changes = JobChanges(60.0, lambda: 2)
    assert not changes.none_since(100)
    changes.unchanged(100, at=5.0)
    assert changes.none_since(100) == changes.none_since(130) == 5.0
    assert not changes.none_since(99), "it was read before, and may be another one"
    assert not changes.none_since(0), "it was never read"
    assert JobChanges(-1.0, lambda: 2).none_since(100) == 0.0
    first, other = object(), object()
    assert changes.oldest(first, 120) == 120
    assert changes.oldest(other, 110) == changes.oldest(first, 120) == 110


def test_own_lists_of_many_users_come_one_after_the_other() -> None:
    assert JobChanges(1.0, lambda: 20).spacing == 2.0
    assert JobChanges(1.0, lambda: 1).spacing < 1.0


def test_who_changes_a_job_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        rest = Rest()
        async with Page(rest, private=["jobs"]) as page:
            pollers = pollers_of(page, *USERS)
            monkeypatch.setattr(job_reader, "LISTS_PER_S", 0.01)
            async with pollers[0].watching():
                await polled(pollers)
                asked = rest.asked[JOBS]
                rest.touch("jobs")
                await polled(pollers)
                assert rest.asked[JOBS] == asked, "so many users' lists are due later"
                pollers[0].nudge()
                await polled(pollers)
                assert rest.asked[JOBS] == asked + 1

    asyncio.run(work())


def test_what_was_shared_is_not_shown_any_more_once_slurm_hides_it() -> None:
    async def work() -> None:
        async with Page(Rest(), private=["jobs"]) as page:
            before = pollers_of(page, "kim", "eve")
            page.app.state.corral.private_data._slurmctld = frozenset({"jobs", "nodes"})
            after = pollers_of(page, "kim", "eve")
            assert not {*map(id, before)} & {*map(id, after)}
            assert after[0]._nodes is not after[1]._nodes
            assert after[0].now.nodes == {}

    asyncio.run(work())


def test_a_failure_is_asked_about_once_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """20 pollers that wait for one another's 20 s would wait for 400 s."""

    async def work() -> None:
        rest = Rest()
        async with Page(rest, private=["jobs"]) as page:
            pollers = pollers_of(page, *USERS)
            await polled(pollers)
            asked = list[str]()
            rest.down = True
            state = page.app.state.corral
            state.pollers._nodes._until = 0.0
            real = state.rest.nodes

            async def counted(*args: Any) -> Any:
                asked.append("nodes")
                return await real(*args)

            monkeypatch.setattr(state.rest, "nodes", counted)
            await polled(pollers)
            assert asked == ["nodes"]
            assert all(poller.now.trouble for poller in pollers)

    asyncio.run(work())


def test_a_live_view_of_who_operates_no_more_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """It had gone on with everybody's jobs: a stream asks for nothing else."""
    monkeypatch.setattr("corral.web.routes.view.KEEP_S", 0.05)
    monkeypatch.setattr(web_sessions, "CHECKED_S", 0.0)
    monkeypatch.setattr(web_state, "RECHECK_S", 5.0)

    async def work() -> tuple[str, int]:
        async with page(monkeypatch, Slurm("jobs")) as browser:
            await browser.login("boss", "Operator")
            assert await jobs_seen(browser) > 0
            viewing = asyncio.create_task(browser.get("events"))
            poller = browser.app.state.corral.pollers.of("boss", operates=True)
            while not poller._viewers:  # noqa: ASYNC110  # the request begins on its own
                await asyncio.sleep(0.01)
            browser.rest.roles["boss"] = "None"
            async with asyncio.timeout(20):
                return (await viewing).text, await jobs_seen(browser)

    text, own = asyncio.run(work())
    assert "event: logout" not in text, "the session goes on, with the own view"
    assert own == 0


def test_states_of_others_jobs_are_no_reason_to_read_all_own_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """slurmctld lists the states of all jobs to everybody: each poll had read the complete list."""
    monkeypatch.setattr(job_reader, "BIG", 1)

    async def work() -> None:
        rest = Big()
        every = rest.bodies["jobs"]["body"]["jobs"]
        owner = every[0]["user_name"]

        async def answer(request: httpx.Request) -> httpx.Response:
            reply = await rest.answer(request)
            if not request.url.path.endswith("/jobs") or reply.status_code != 200:
                return reply
            body = reply.json()
            body["jobs"] = body["jobs"][:1]
            return httpx.Response(200, json=body)

        login = login_of(rest.login(owner))
        slurm = SlurmRest("http://slurm", httpx.MockTransport(answer))
        poller = Poller(slurm, lambda: [login], changes=JobChanges(0.0, lambda: 1))
        for _ in range(4):
            await poller.poll()
        assert rest.lists == 1
        every[0]["job_state"] = ["FAILED"]
        await poller.poll()
        assert [job.state for job in poller.now.jobs.values()] == ["FAILED"]
        assert rest.lists == 1
        await poller.close()

    asyncio.run(work())


def test_the_operators_view_is_no_users_name() -> None:
    with pytest.raises(Exception, match="not a Slurm token"):
        login_of(FakeRest().login(poller_module.OPERATORS))
