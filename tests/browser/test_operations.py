"""What its owner sees of the cluster: proof, doctor, plan, journal; the page without a cluster.

Corral's own use cases are played, Slurm's answers are recorded ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.doctor.logs.diagnosis import explain
from corral.doctor.model import OutOfService, Report
from corral.prove.launch import by_limit
from corral.prove.model import CheckResult, Evidence, Judgement, Proof, Verdict
from corral.spec.load import load_or_raise
from corral.web.routes import owner
from tests.browser.conftest import patient
from tests.browser.desk import Desk, DeskRest, pictures, served, tab, window
from tests.unit.web.test_schemas import FAKE_PLAN

__all__ = ["window"]
EXAMPLE = Path(__file__).parents[2] / "examples/laptop.yaml"
At = tuple[Any, Desk, pytest.MonkeyPatch]
LOG = "slurmctld: fatal: CLUSTER NAME MISMATCH.\n"


def result(check: str, judged: Judgement) -> CheckResult:
    """A check as it is filed."""
    shown = Evidence("node0", "srun -N2 hostname", "node0\nnode1\n", {"nodes": 2})
    evidence, hint = judged.evidence or (shown,), judged.hint
    return CheckResult(
        check, check.partition(".")[2], "smoke", judged.verdict, judged.summary, hint, evidence, 1.5
    )


def proof_of(*judged: Judgement) -> Proof:
    """A proof of a minute ago."""
    names = ("smoke.nodes", "smoke.gpus", "smoke.mpi")
    results = tuple(result(*pair) for pair in zip(names, judged, strict=False))
    return Proof("laptop", time.time() - 60, results)


@pytest.fixture
def at(
    window: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Any, Desk, pytest.MonkeyPatch]]:
    """The page of kim, who runs ``corral ui`` here."""
    rest = DeskRest()
    rest.nodes(3)
    spec = load_or_raise(EXAMPLE).model_dump(mode="json")
    with served(rest, spec=spec, source=str(EXAMPLE)) as desk, tab(window, desk) as page:
        yield page, desk, monkeypatch


def test_a_proof_that_a_limit_holds_back_names_it_with_its_hint(at: Any) -> None:
    """A user's limit of one GPU was shown as a failure of ports, and no hint at all was shown."""
    page, _, patch = at
    failed = Judgement(Verdict.FAIL, "the job did not start within 20 s", hint="open the ports")
    limited = by_limit(failed, "AssocGrpGRES", "corral-proof")
    made = proof_of(Judgement(Verdict.PASS, "3 nodes answered"), limited)

    async def prove(*_: Any) -> Proof:
        return made

    patch.setattr(owner.api, "prove", prove, raising=False)
    patch.setattr(owner.api, "last_proof", lambda _: made.as_dict(), raising=False)
    page.evaluate("location.hash = 'proof'")
    page.wait_for_selector("text=AssocGrpGRES")
    text = page.locator("main").inner_text()
    assert "a limit holds back the jobs of corral-proof" in text
    assert "Hint: sacctmgr show assoc where user=corral-proof" in text
    assert "open the ports" not in text
    pictures(page, "proof")
    page.click("text=Prove it now")
    page.wait_for_selector("text=AssocGrpGRES")


def test_nothing_is_healthy_next_to_a_failed_proof_and_a_drained_node(at: Any) -> None:
    page, _, patch = at
    report = Report((), out_of_service=(OutOfService("gpu001", "IDLE+DRAIN", "fan", "ada"),))

    async def doctor(*_: Any) -> Report:
        return report

    failed = proof_of(Judgement(Verdict.FAIL, "2 of 3 nodes"))
    patch.setattr(owner.api, "doctor", doctor, raising=False)
    patch.setattr(owner.api, "last_proof", lambda _: failed.as_dict(), raising=False)
    page.evaluate("location.hash = 'doctor'")
    page.wait_for_selector("text=gpu001")
    text = page.locator("main").inner_text()
    assert "healthy" not in text
    assert "fan" in text and "set by ada" in text
    assert "The last proof failed in 1 check: nodes." in text
    report = explain(LOG)
    page.click("text=Check again")
    page.wait_for_selector("article.finding")
    pictures(page, "doctor")


def test_plan_and_journal_as_pictures(at: Any) -> None:
    page, _, patch = at
    hour = 3600.0
    records = [
        {
            "at": time.time() - n * hour,
            "run": f"r{n // 3}",
            "by": "kim",
            "what": ("apply", "change", "prove")[n % 3],
            "text": "4 changes on 3 nodes",
            "node": "" if n % 3 else "gpu001",
        }
        for n in range(9)
    ]

    async def plan(*_: Any) -> Any:
        return FAKE_PLAN

    patch.setattr(owner.api, "history", lambda *_: records, raising=False)
    patch.setattr(owner.api, "plan", plan, raising=False)
    page.evaluate("location.hash = 'history'")
    page.wait_for_selector("main tr >> text=kim")
    pictures(page, "journal")
    page.evaluate("location.hash = 'plan'")
    page.wait_for_selector("textarea")
    page.click("button:text-is('Plan')")
    page.wait_for_selector("text=8 H200")
    pictures(page, "plan")


def test_the_login_as_pictures(window: Any) -> None:
    with served(DeskRest(), handover=["kim", "token"]) as desk:
        context = patient(window, viewport={"width": 1440, "height": 900}, locale="en-US")
        page = context.new_page()
        page.goto(desk.url)
        page.wait_for_selector("input[name=token]")
        pictures(page, "login")
        context.close()
