"""The controller's service: what it leaves out, codes for logins, and that nobody becomes root."""

from __future__ import annotations

import asyncio
import json
import pwd
from collections.abc import Coroutine
from typing import Any

import pytest

from corral import api
from corral.errors import CorralError
from corral.spec.models import ClusterSpec
from corral.web import as_user
from corral.web.slurm.slurmrest import Login
from corral.web.users.sessions import Sessions
from tests.unit.web.fake import FakeRest, Page
from tests.unit.web.users.test_owner import spec


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def test_the_service_has_nothing_that_needs_root() -> None:
    async def work() -> None:
        rest = FakeRest()
        async with Page(rest, spec=spec(), service=True, as_user="/nowhere") as page:
            code = (await page.post("login/handover", {"token": rest.login("corral")})).json()
            me = (await page.post("login/code", {"code": code["code"]})).json()
            page.csrf = me["csrf"]
            assert me["user"] == "corral"
            assert (me["owner"], me["corral"], me["mine"]) == (False, False, True)
            for path in ("file", "proof", "history", "work", "cost", "reports"):
                assert (await page.get(f"corral/{path}")).status_code == 403
            for path in ("plan", "lint", "apply", "doctor", "prove", "doctor/plan"):
                body = {"text": "x"} if path in ("plan", "lint") else {"code": "1"}
                assert (await page.post(f"corral/{path}", body)).status_code == 403
            assert (await page.get("jobs/form")).json()["can_spec"] is True

    run(work())


def test_a_code_is_issued_for_a_good_token_alone() -> None:
    async def work() -> None:
        rest = FakeRest()
        async with Page(rest, spec=spec(), service=True) as page:
            bad = await page.post("login/handover", {"token": "aa.bb.cc"})
            assert bad.status_code == 401
            token = rest.login("kim")
            code = (await page.post("login/handover", {"token": token})).json()["code"]
            assert token not in code
            assert (await page.post("login/code", {"code": code})).status_code == 200
            assert (await page.post("login/code", {"code": code})).status_code == 401

    run(work())


def test_codes_of_several_people_live_side_by_side() -> None:
    now = [100.0]
    sessions = Sessions(3600, 600, lambda: now[0])
    first, second = sessions.code(Login("kim", "a")), sessions.code(Login("lee", "b"))
    assert sessions.redeem(first) == Login("kim", "a")
    now[0] += 121
    assert sessions.redeem(second) is None


@pytest.mark.parametrize("name", ["root", "no-such-user-here"])
def test_the_helper_becomes_neither_root_nor_nobody_known(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(as_user.os, "setresuid", lambda *_: pytest.fail("it changed its user"))
    with pytest.raises(CorralError):
        as_user.become(name)


def test_the_helper_gives_up_root_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, tuple[Any, ...]]] = []
    for call in ("initgroups", "setresgid", "setresuid", "umask", "chdir"):
        monkeypatch.setattr(as_user.os, call, lambda *a, c=call: done.append((c, a)))
    environment: dict[str, str] = {"LD_PRELOAD": "x"}
    monkeypatch.setattr(as_user.os, "environ", environment)
    person = pwd.struct_passwd(("kim", "x", 1000, 1000, "", "/home/kim", "/bin/sh"))
    monkeypatch.setattr(as_user.pwd, "getpwnam", lambda _: person)
    as_user.become("kim")
    order = [call for call, _ in done]
    assert order[:3] == ["initgroups", "setresgid", "setresuid"], "groups before the user"
    assert ("setresuid", (1000, 1000, 1000)) in done
    assert "LD_PRELOAD" not in environment


def test_a_mistake_of_the_helper_repeats_no_token(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    class Stdin:
        class buffer:  # noqa: N801
            @staticmethod
            def readline(limit: int) -> bytes:
                return json.dumps({"token": "aa.secret.cc", "do": "fly"}).encode()

    monkeypatch.setattr(as_user.sys, "stdin", Stdin)
    as_user.main()
    printed = capsysbinary.readouterr()
    assert b"the helper failed" in printed.out
    assert b"secret" not in printed.out + printed.err


@pytest.mark.parametrize(
    ("fields", "in_place"),
    [({"command": ["true"]}, False), ({"script": "/shared/a.py", "in_place": False}, True)],
)
def test_the_helper_submits_and_tests_jobs_as_who_asks(
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
    fields: dict[str, Any],
    in_place: bool,
) -> None:
    """A command by form was refused there: in_place is for a script."""
    asked: list[api.JobSpec] = []

    async def expected(_: object, job: api.JobSpec) -> api.ExpectedStart:
        asked.append(job)
        return api.ExpectedStart(7, "node1")

    monkeypatch.setattr(as_user.api, "expected_here", expected, raising=False)
    body = {"token": "t", "do": "expected", "fields": {**fields, "user": "root"}}
    request = as_user.Request.model_validate(body)
    cluster = ClusterSpec.model_validate(spec())
    asyncio.run(as_user._act(request, cluster, Login("kim", "t"), None))
    assert json.loads(capsysbinary.readouterr().out) == {"start_at": 7, "nodes": "node1"}
    assert [(job.user, job.in_place) for job in asked] == [("kim", in_place)]
