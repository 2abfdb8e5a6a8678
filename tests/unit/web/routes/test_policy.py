"""Accounts and their kind changed on the page: an edit of the file, saved with its plan."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from corral.errors import Code, CorralError
from corral.plan.model import Plan
from corral.slurm.policy import known_limits
from corral.web import schemas
from corral.web.routes import owner
from corral.web.users.sessions import login_of
from tests.unit.web.fake import FakeRest, Page
from tests.unit.web.test_schemas import held
from tests.unit.web.users.test_owner import EXAMPLES, planning, spec


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "laptop.yaml"
    path.write_text(
        f"{(EXAMPLES / 'laptop.yaml').read_text()}users:\n  - {{name: kim, uid: 2001}}\n"
    )
    return path


async def opened(page: Page, rest: FakeRest) -> dict[str, Any]:
    """What the file declares, for the page's owner."""
    code = page.app.state.corral.sessions.code(login_of(rest.login("kim")))
    page.csrf = (await page.post("login/code", {"code": code})).json()["csrf"]
    reply = (await page.get("policy/declared")).json()
    held(schemas.Declared, reply)
    return reply


LIMIT = {"section": "users", "name": "kim", "fields": {"limits.gpus": "4"}}


def test_a_limit_is_changed_saved_and_refused_when_old(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    applied = planning(monkeypatch)
    now = file.read_text
    before = now()

    async def work() -> None:
        rest = FakeRest()
        async with Page(rest, spec=spec(), source=str(file)) as page:
            declared = await opened(page, rest)
            assert declared["entries"]["users"] == {"kim": {"uid": "2001"}}
            assert declared["held"] is False
            digest = {"digest": declared["digest"]}
            wrong = {**LIMIT, **digest, "fields": {"limits.gpus": "x"}}
            reply = (await page.post("policy/edit", wrong)).json()
            assert [f["rule"] for f in reply["findings"]] == ["wrong-type"]
            edited = (await page.post("policy/edit", {**LIMIT, **digest})).json()
            held(schemas.EditedFile, edited)
            assert "+  - {name: kim, uid: 2001, limits: {gpus: 4}}" in edited["diff"]
            assert now() == before, "an edit saves nothing"
            background = page.app.state.corral.background
            for busy in (True, False):
                sent = {"text": edited["text"], **digest}
                assert (await page.post("corral/plan", sent)).status_code == 200
                await background._task
                code = capsys.readouterr().err.rpartition("type there: ")[2][:6]
                body = {"plan": background.as_dict()["result"]["id"], "code": code}
                if busy:
                    with monkeypatch.context() as patched:
                        patched.setattr(owner.api, "apply", refused, raising=False)
                        await page.post("corral/apply", body)
                        await background._task
                    assert background.as_dict()["error"]["code"] == "busy"
                    assert now() == before, "nothing is applied, nothing is saved"
                    continue
                assert (await page.post("corral/apply", body)).status_code == 200
                await background._task
            assert len(applied) == 1
            assert now() == edited["text"]
            for path, old in (("policy/edit", {**LIMIT, **digest}), ("corral/plan", sent)):
                reply = await page.post(path, old)
                assert reply.status_code == 409
                assert "changed by somebody else" in reply.json()["error"]["message"]

    run(work())


async def refused(*_: object) -> None:
    raise CorralError(Code.BUSY, "another corral works on this cluster")


def test_a_change_that_the_cluster_has_already_is_saved_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    planning(monkeypatch)
    now = file.read_text

    async def nothing(declared: object, emit: object) -> Plan:
        return Plan("laptop", "a", "b")

    monkeypatch.setattr(owner.api, "plan", nothing, raising=False)

    async def work() -> None:
        rest = FakeRest()
        async with Page(rest, spec=spec(), source=str(file)) as page:
            declared = await opened(page, rest)
            digest = {"digest": declared["digest"]}
            edited = (await page.post("policy/edit", {**LIMIT, **digest})).json()
            await page.post("corral/plan", {"text": edited["text"], **digest})
            background = page.app.state.corral.background
            await background._task
            code = capsys.readouterr().err.rpartition("type there: ")[2][:6]
            body = {"plan": background.as_dict()["result"]["id"], "code": code}
            assert (await page.post("corral/apply", body)).status_code == 200
            await background._task
            assert "gpus: 4" in now()

    run(work())


def test_without_the_file_or_for_others_nothing_is_changed(file: Path) -> None:
    write = file.write_text

    async def work() -> None:
        rest = FakeRest()
        async with Page(rest, spec=spec()) as page:
            assert "corral ui FILE" in (await opened(page, rest))["why"]
        async with Page(rest, spec=spec(), source=str(file)) as page:
            await page.login("kim", "Administrator")
            assert (await page.get("policy/declared")).status_code == 403
            reply = await page.post("policy/edit", {**LIMIT, "digest": "x"})
            assert reply.status_code == 403
        write("name: [")
        async with Page(rest, spec=spec(), source=str(file)) as page:
            assert "has errors" in (await opened(page, rest))["why"]

    run(work())


def test_each_limit_has_a_sentence_for_all_who_look() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            assert (await page.get("policy/limits")).status_code == 401
            await page.login()
            limits = (await page.get("policy/limits")).json()["limits"]
            assert [limit["name"] for limit in limits] == list(known_limits())
            assert all(len(limit["means"].split()) > 5 for limit in limits)
            assert not any(limit["means"].endswith(".") for limit in limits)

    run(work())
