"""PrivateData of slurm.conf and of slurmdbd.conf: nobody sees what another's token may see."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from corral.errors import Code, CorralError
from corral.slurm import command
from corral.web import app as web_app
from corral.web.routes import view
from corral.web.users.private_data import CHECKED_S, FIRST_S, RETRY_S, PrivateData
from tests.unit.web.fake import FakeRest, Page

CONFIG = "Configuration data as of 2026-11-30T12:00:00\nPrivateData = {}\nPluginDir = /x\n"
DATABASE = (
    "Configuration data as of 2026-11-30T12:00:00\nPrivateData            = {}\n\n"
    "SlurmDBD configuration:\nParameters             = (null)\nPrivateData            = {}\n"
)


class Slurm:
    """Client commands of a Slurm whose PrivateData may change, or that does not answer."""

    def __init__(self, slurmctld: str = "none", slurmdbd: str = "none") -> None:
        self.slurmctld, self.slurmdbd = slurmctld, slurmdbd
        self.silent = False
        self.calls = 0

    async def __call__(self, words: tuple[str, ...]) -> str:
        self.calls += 1
        if self.silent:
            raise CorralError(Code.UNREACHABLE, "slurmctld does not answer")
        if words[0] == "scontrol":
            return CONFIG.format(self.slurmctld)
        return DATABASE.format(self.slurmctld, self.slurmdbd)


class Rest(FakeRest):
    """Shows users who are not operators only their own jobs and associations, as Slurm does."""

    def __call__(self, request: httpx.Request) -> httpx.Response:
        reply = super().__call__(request)
        user = request.headers.get("x-slurm-user-name", "")
        for key, field in (("jobs", "user_name"), ("associations", "user")):
            if request.url.path.strip("/").endswith(f"/{key}") and reply.status_code == 200:
                body = json.loads(reply.text)
                if self.roles[user] == "None":
                    body[key] = [each for each in body[key] if each.get(field) == user]
                return httpx.Response(200, text=json.dumps(body))
        return reply


def page(monkeypatch: pytest.MonkeyPatch, slurm: Slurm | None, **settings: Any) -> Page:
    monkeypatch.setattr(web_app, "_slurm_commands", lambda *_: slurm)
    return Page(Rest(), **{"private": None, **settings})


async def jobs_seen(page: Page) -> int:
    return (await page.get("jobs")).json()["total"]


@pytest.mark.parametrize("slurm", [None, Slurm("jobs,nodes"), Slurm("usage")])
def test_an_administrators_session_shows_nothing_to_others(
    monkeypatch: pytest.MonkeyPatch, slurm: Slurm | None
) -> None:
    """Whose session lasts longest polls: its view is everybody's only where nothing is hidden."""

    async def work() -> tuple[int, int]:
        async with page(monkeypatch, slurm) as browser:
            await browser.login("boss", "Administrator")
            all_of_them = await jobs_seen(browser)
            await browser.login("eve")
            return all_of_them, await jobs_seen(browser)

    all_of_them, own = asyncio.run(work())
    assert all_of_them > 0
    assert own == 0


@pytest.mark.parametrize("words", ["none", "cloud", "(null)"])
def test_one_poller_serves_all_where_nothing_is_hidden(
    monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    async def work() -> tuple[int, int]:
        async with page(monkeypatch, Slurm(words)) as browser:
            await browser.login("boss", "Administrator")
            first = await jobs_seen(browser)
            await browser.login("eve")
            return first, await jobs_seen(browser)

    first, second = asyncio.run(work())
    assert first == second > 0


def test_it_is_noticed_when_slurm_begins_to_hide(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> tuple[int, int]:
        slurm = Slurm()
        async with page(monkeypatch, slurm) as browser:
            private = browser.app.state.corral.private_data
            await browser.login("boss", "Administrator")
            assert await jobs_seen(browser) > 0
            await browser.login("eve")
            shared = await jobs_seen(browser)
            slurm.slurmctld = "jobs"
            private.changed()
            await browser.get("me")
            await private._asking
            return shared, await jobs_seen(browser)

    shared, own = asyncio.run(work())
    assert shared > 0
    assert own == 0


def test_a_live_view_ends_when_slurm_begins_to_hide(monkeypatch: pytest.MonkeyPatch) -> None:
    # The view of before is not the viewer's any more; a new one begins on the viewer's own poller.
    monkeypatch.setattr("corral.web.routes.view.KEEP_S", 0.05)
    opened = asyncio.Event()

    async def changed() -> str:
        slurm = Slurm()
        async with page(monkeypatch, slurm) as browser:
            state = browser.app.state.corral
            await browser.login("boss", "Administrator")
            await browser.get("cluster")
            viewing = asyncio.create_task(browser.get("events"))
            poller = state.pollers.of("boss")
            while not poller._viewers:  # noqa: ASYNC110  # the request begins on its own
                await asyncio.sleep(0.01)
            opened.set()
            slurm.slurmctld = "jobs"
            state.private_data.changed()
            async with asyncio.timeout(20):
                return (await viewing).text

    text = asyncio.run(changed())
    assert opened.is_set()
    assert "event: logout" not in text, "the session goes on; the page connects again"


def test_accounts_are_each_viewers_own_where_slurmdbd_hides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """slurmdbd.conf has its own PrivateData, which scontrol does not print."""

    async def work(slurm: Slurm) -> tuple[list[str], list[str], list[str]]:
        async with page(monkeypatch, slurm) as browser:
            await browser.login("boss", "Administrator")
            everybody = await users(browser)
            await browser.login("eve")
            own = await users(browser)
            matches = (await browser.get("search?q=a")).json()["users"]
            return everybody, own, [user["name"] for user in matches]

    async def users(browser: Page) -> list[str]:
        listed = (await browser.get("policy/accounts")).json()["accounts"]
        return sorted({entry["user"] for entry in listed} - {""})

    everybody, own, names = asyncio.run(work(Slurm("none", "users")))
    assert everybody
    assert own == []
    assert not {*everybody} & {*names}, "nor by a search"
    everybody, own, _ = asyncio.run(work(Slurm("users", "none")))
    assert own == everybody, "slurmdbd hides nothing: one answer serves all"


def test_unknown_is_hidden_and_an_answer_lasts_while_slurm_is_silent() -> None:
    async def work() -> None:
        now = 100.0
        slurm = Slurm()
        slurm.silent = True
        private = PrivateData(slurm, clock=lambda: now)
        assert private.hidden and private.accounting_hidden
        await private.checked()
        assert private.hidden and private.accounting_hidden
        slurm.silent = False
        await private.checked()
        assert slurm.calls == 2, "a silent Slurm is not asked at each request"
        now += RETRY_S
        await private.checked()
        assert private._asking is not None
        await private._asking
        assert not private.hidden and not private.accounting_hidden
        slurm.silent = True
        now += CHECKED_S
        await private.checked()
        await private.close()
        assert not private.hidden, "a daemon that is down has read no other configuration"

    asyncio.run(work())


@pytest.mark.parametrize(
    ("reader", "output", "hides"),
    [
        (command.PRIVATE, CONFIG.format("none"), frozenset()),
        (command.PRIVATE, CONFIG.format("cloud"), frozenset()),
        (command.PRIVATE, CONFIG.format("cloud,jobs"), {"jobs"}),
        (command.PRIVATE, "slurm_load_ctl_conf error: Unable to contact", None),
        (command.PRIVATE_ACCOUNTING, DATABASE.format("jobs", "none"), frozenset()),
        (
            command.PRIVATE_ACCOUNTING,
            DATABASE.format("none", "accounts,users"),
            {"accounts", "users"},
        ),
        (command.PRIVATE_ACCOUNTING, CONFIG.format("none"), None),
    ],
)
def test_what_slurm_prints(reader: Any, output: str, hides: frozenset[str] | None) -> None:
    assert reader.parse(output) == hides


def test_figures_of_hidden_nodes_are_hidden_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Metrics:
        async def nodes(self) -> dict[str, dict[str, float]]:
            return {"n1": {"watts": 300.0}, "hidden9": {"watts": 10_000.0}}

        async def close(self) -> None: ...

    async def work() -> Any:
        async with page(monkeypatch, Slurm("nodes")) as browser:
            browser.app.state.corral.figures = Metrics()
            await browser.login("eve")
            known = [row[0] for row in (await browser.get("nodes")).json()["rows"]]
            assert "hidden9" not in known
            return (await browser.get("figures")).json()["nodes"]

    assert "hidden9" not in asyncio.run(work())


def test_pollers_of_users_who_are_gone_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each holds all jobs and nodes: 300 people of a day would be 300 copies."""

    async def work() -> tuple[list[int], dict[str, Any]]:
        counts = []
        async with page(monkeypatch, Slurm("jobs")) as browser:
            pollers = browser.app.state.corral.pollers
            for number in range(6):
                await browser.login(f"user{number}")  # the login before it ends
                await jobs_seen(browser)
                counts.append(len(pollers._pollers))
            return counts, dict(pollers._pollers)

    counts, left = asyncio.run(work())
    assert max(counts) <= 2
    assert "user5" in left


def test_who_comes_back_gets_no_answer_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are kept by revision, and a new poller counts its own."""

    async def work() -> tuple[int, int]:
        async with page(monkeypatch, Slurm("jobs")) as browser:
            await browser.login("kim")
            before = await jobs_seen(browser)
            await browser.login("eve")
            await jobs_seen(browser)
            jobs = browser.rest.bodies["jobs"]["body"]["jobs"]
            jobs.remove(next(job for job in jobs if job["user_name"] == "kim"))
            browser.rest.touch("jobs")
            await browser.login("kim")
            return before, await jobs_seen(browser)

    before, after = asyncio.run(work())
    assert after == before - 1 > 0


def test_answers_that_are_kept_have_a_limit_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "MOST_BYTES", 10_000)
    packed = view.Packed()
    request: Any = SimpleNamespace(headers={})

    async def work() -> None:
        for number in range(20):
            await packed.reply(request, f"accounts:user{number}", 1, lambda: {"x": "y" * 3000})

    asyncio.run(work())
    assert sum(len(plain) + len(small) for _, plain, small in packed.made.values()) <= 10_000
    assert "accounts:user19" in packed.made


def test_a_slurm_that_hangs_delays_the_first_requests_alone() -> None:
    now = 100.0

    async def hang(_: tuple[str, ...]) -> str:
        await asyncio.Event().wait()
        return ""

    async def work() -> None:
        nonlocal now
        private = PrivateData(hang, clock=lambda: now)
        first = asyncio.create_task(private.checked())
        await asyncio.sleep(0)
        assert not first.done()
        now += FIRST_S
        await asyncio.wait_for(private.checked(), 0.5)  # it is asked, and this one waits no more
        assert private.hidden
        first.cancel()
        await private.close()

    asyncio.run(work())
