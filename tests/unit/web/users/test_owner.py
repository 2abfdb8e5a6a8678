"""What needs Corral itself is for who started it, and machines change by the terminal's code."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from corral.plan.model import MachineChange, Plan
from corral.spec.load import load_or_raise
from corral.web.routes import owner
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


def test_apply_needs_the_code_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    applied: list[Plan] = []

    async def plan(declared: object, emit: object) -> Plan:
        return Plan("laptop", "a", "b", machines=(MachineChange("node0", "create", "x"),))

    async def apply(declared: object, agreed: Plan, emit: object) -> None:
        applied.append(agreed)

    monkeypatch.setattr(owner.api, "plan", plan, raising=False)
    monkeypatch.setattr(owner.api, "apply", apply, raising=False)

    async def work() -> None:
        rest = FakeRest()
        async with Page(rest, spec=spec(), audit=tmp_path / "audit.log") as page:
            code = page.app.state.corral.sessions.code(login_of(rest.login("kim")))
            page.csrf = (await page.post("login/code", {"code": code})).json()["csrf"]
            assert (await page.post("corral/apply", {"code": "123456"})).status_code == 409
            text = (EXAMPLES / "laptop.yaml").read_text()
            bad = await page.post("corral/plan", {"text": text.replace("laptop", "other")})
            assert bad.status_code == 400
            lint = await page.post("corral/lint", {"text": text.replace("count: 2", "count: x")})
            assert [f["line"] for f in lint.json()["findings"]]
            assert (await page.post("corral/plan", {"text": text})).status_code == 200
            background = page.app.state.corral.background
            await background._task
            assert "script" not in json.dumps(background.as_dict()["result"])
            terminal = capsys.readouterr().err.rpartition("type there: ")[2][:6]
            for _ in range(2):
                wrong = await page.post("corral/apply", {"code": "00000x"})
                assert wrong.status_code == 403
            assert not applied
            assert (await page.post("corral/apply", {"code": terminal})).status_code == 200
            await background._task
            assert len(applied) == 1
            again = await page.post("corral/apply", {"code": terminal})
            assert again.status_code == 409
            await page.post("corral/plan", {"text": text})
            await background._task
            for _ in range(5):
                await page.post("corral/apply", {"code": "00000x"})
            terminal = capsys.readouterr().err.rpartition("type there: ")[2][:6]
            assert (await page.post("corral/apply", {"code": terminal})).status_code == 409
            assert len(applied) == 1

    run(work())
    noted = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    outcomes = [(entry["audit"], entry["outcome"]) for entry in noted if entry["user"] == "kim"]
    assert outcomes == [
        ("login", "ok"), ("plan", "ok"), ("apply", "forbidden"), ("apply", "forbidden"),
        ("apply", "ok"), ("plan", "ok"), *[("apply", "forbidden")] * 5,
    ]  # fmt: skip
