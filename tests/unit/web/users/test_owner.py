"""What needs Corral itself is for who started it, and machines change by the terminal's code."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from corral.api.page.token_store import Scope, Wish
from corral.errors import Code, CorralError
from corral.events import Event, Kind
from corral.plan.model import MachineChange, Plan
from corral.slurm.records import Job
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec
from corral.spec.nodes import nodes_of
from corral.web.routes import owner
from corral.web.slurm.slurmrest import Login
from corral.web.users.sessions import login_of
from tests.unit.web.fake import FakeRest, Page

EXAMPLES = Path(__file__).parents[4] / "examples"


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def spec() -> dict[str, Any]:
    return load_or_raise(EXAMPLES / "laptop.yaml").model_dump(mode="json")


def test_token_never_makes_an_owner() -> None:
    async def work() -> None:
        async with Page(FakeRest(), spec=spec()) as page:
            await page.login("kim", "Administrator")
            for path in ("file", "proof", "history", "work"):
                assert (await page.get(f"corral/{path}")).status_code == 403
            assert (await page.post("corral/lint", {"text": "x"})).status_code == 403

    run(work())


def planning(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Plans of one new machine; what is applied of them."""
    applied: list[Plan] = []

    async def plan(declared: object, emit: object) -> Plan:
        return Plan("laptop", "a", "b", machines=(MachineChange("node0", "create", "x"),))

    async def apply(declared: object, agreed: Plan, emit: object) -> None:
        applied.append(agreed)

    monkeypatch.setattr(owner.api, "plan", plan, raising=False)
    monkeypatch.setattr(owner.api, "apply", apply, raising=False)
    return applied


def test_apply_needs_the_code_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    applied = planning(monkeypatch)

    async def work() -> None:
        rest = FakeRest()
        async with Page(rest, spec=spec(), audit=tmp_path / "audit.log") as page:
            code = page.app.state.corral.sessions.code(login_of(rest.login("kim")))
            page.csrf = (await page.post("login/code", {"code": code})).json()["csrf"]
            none = await page.post("corral/apply", {"plan": "1", "code": "123456"})
            assert none.status_code == 409
            text = (EXAMPLES / "laptop.yaml").read_text()
            bad = await page.post("corral/plan", {"text": text.replace("laptop", "other")})
            assert bad.status_code == 400
            lint = await page.post("corral/lint", {"text": text.replace("count: 2", "count: x")})
            assert [f["line"] for f in lint.json()["findings"]]
            assert (await page.post("corral/plan", {"text": text})).status_code == 200
            background = page.app.state.corral.background
            await background._task
            assert "script" not in json.dumps(background.as_dict()["result"])
            shown = capsys.readouterr().err
            terminal = shown.rpartition("type there: ")[2][:6]
            plan_id = background.as_dict()["result"]["id"]
            assert f"to apply plan {plan_id} of the page" in shown
            body = {"plan": plan_id, "code": terminal}
            for _ in range(2):
                wrong = await page.post("corral/apply", {**body, "code": "00000x"})
                assert wrong.status_code == 403
            assert (await page.post("corral/apply", {"code": terminal})).status_code == 422
            other = await page.post("corral/apply", {**body, "plan": "0" * 8})
            assert other.status_code == 409
            assert not applied
            assert (await page.post("corral/apply", body)).status_code == 200
            await background._task
            assert len(applied) == 1
            again = await page.post("corral/apply", body)
            assert again.status_code == 409
            await page.post("corral/plan", {"text": text})
            await background._task
            plan_id = background.as_dict()["result"]["id"]
            for _ in range(5):
                await page.post("corral/apply", {"plan": plan_id, "code": "00000x"})
            terminal = capsys.readouterr().err.rpartition("type there: ")[2][:6]
            body = {"plan": plan_id, "code": terminal}
            assert (await page.post("corral/apply", body)).status_code == 409
            assert len(applied) == 1

    run(work())
    noted = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    outcomes = [(entry["audit"], entry["outcome"]) for entry in noted if entry["user"] == "kim"]
    assert outcomes == [
        ("login", "ok"),
        ("plan", "ok"),
        ("apply", "forbidden"),
        ("apply", "forbidden"),
        ("apply", "ok"),
        ("plan", "ok"),
        *[("apply", "forbidden")] * 5,
    ]


def test_a_program_plans_and_takes_no_place_of_a_persons_plan(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    applied = planning(monkeypatch)

    async def work() -> None:
        rest = FakeRest()
        async with Page(rest, spec=spec(), tokens=tmp_path / "tokens.json") as page:
            state = page.app.state.corral
            login = rest.login("kim")
            page.csrf = (
                await page.post("login/code", {"code": state.sessions.code(login_of(login))})
            ).json()["csrf"]
            text = {"text": (EXAMPLES / "laptop.yaml").read_text()}
            await page.post("corral/plan", text)
            await state.background._task
            read = state.background.as_dict()["result"]["id"]
            code = capsys.readouterr().err.rpartition("type there: ")[2][:6]
            wish = Wish("x", "kim", login, tuple(Scope), time.time() + 600, owner=True)
            secret, _ = state.bearers.make(wish)
            bearer = {"authorization": f"Bearer {secret}"}
            planned = await page.http.post("/api/corral/plan", json=text, headers=bearer)
            assert planned.status_code == 200
            await state.background._task
            assert state.background.as_dict()["result"]["id"] == ""
            assert "type there" not in capsys.readouterr().err
            body = {"plan": read, "code": code}
            refused = await page.http.post("/api/corral/apply", json=body, headers=bearer)
            assert refused.status_code == 403
            assert "no API token may do this" in refused.text
            assert (await page.post("corral/apply", body)).status_code == 200
            await state.background._task
            assert len(applied) == 1

    run(work())


@pytest.mark.parametrize("saved", [True, False])
@pytest.mark.parametrize("outcome", ["done", "broken off", "refused"])
def test_what_reaches_machines_works_with_the_file_that_was_applied(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    outcome: str,
    *,
    saved: bool,
) -> None:
    """Logs of a job on a new node were read on the controller, until corral ui began again."""
    planning(monkeypatch)
    file = tmp_path / "laptop.yaml"
    text = (EXAMPLES / "laptop.yaml").read_text()
    file.write_text(text)
    logs: list[int] = []

    async def applying(declared: ClusterSpec, agreed: Plan, emit: Any) -> None:
        if outcome == "refused":
            raise CorralError(Code.STALE_PLAN, "the cluster is another one by now")
        emit(Event(Kind.CHANGE_DONE, "slurm", node="node3"))
        if outcome == "broken off":
            raise CorralError(Code.UNREACHABLE, "node3 is gone")

    async def asked_for(declared: ClusterSpec, *_: Any, **more: Any) -> Any:
        logs.append(machines(declared))
        return {}

    monkeypatch.setattr(owner.api, "apply", applying, raising=False)
    for use_case in ("job_log", "node_figures", "slurm_command"):
        monkeypatch.setattr(owner.api, use_case, asked_for, raising=False)

    async def work() -> list[int]:
        rest = FakeRest()
        async with Page(rest, spec=spec(), source=str(file)) as page:
            state = page.app.state.corral
            code = state.sessions.code(login_of(rest.login("kim")))
            page.csrf = (await page.post("login/code", {"code": code})).json()["csrf"]
            larger = {"text": text.replace("node[0-2]", "node[0-3]")}
            if saved:
                larger["digest"] = owner.api.FileText(file, text).digest
            assert (await page.post("corral/plan", larger)).status_code == 200
            await state.background._task
            plan_id = state.background.as_dict()["result"]["id"]
            terminal = capsys.readouterr().err.rpartition("type there: ")[2][:6]
            await page.post("corral/apply", {"plan": plan_id, "code": terminal})
            await state.background._task
            login = login_of(rest.login("kim"))
            await state.own.log(login, Job(id=1), None, print)
            await state.figures.readings("node3")
            with suppress(CorralError, AttributeError):
                await state.past._spare.version(login)
                await state.past._spare.check(Login("kim", ""))
            assert len(logs) == 3
            return logs

    before = machines(load_or_raise(EXAMPLES / "laptop.yaml"))
    expected = before if outcome == "refused" else before + 1
    assert run(work()) == [expected] * 3


def machines(declared: ClusterSpec) -> int:
    return len(nodes_of(declared))
