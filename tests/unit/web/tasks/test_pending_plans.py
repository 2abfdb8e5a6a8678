"""A plan is applied in the session that asked for it, with its own code; guesses are few."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.errors import Code, CorralError
from corral.plan.model import MachineChange, Plan
from corral.spec.load import load_or_raise
from corral.web.slurm.slurmrest import Login
from corral.web.tasks.pending_plans import CONFIRM_S, TRIES, TRIES_AN_HOUR, PendingPlans
from corral.web.users.sessions import Session

SPEC = load_or_raise(Path(__file__).parents[4] / "examples" / "laptop.yaml")
PLAN = Plan("laptop", "a", "b", machines=(MachineChange("node0", "create", "x"),))


def session() -> Session:
    return Session(Login("kim", "t"), "None", owner=True, ends=1e12, used=0.0)


def refused(plans: PendingPlans, owner: Session, identity: str, code: str) -> Code:
    with pytest.raises(CorralError) as caught:
        plans.confirm(owner, identity, code)
    return caught.value.code


def test_only_the_session_that_asked_applies() -> None:
    plans, mine, stolen = PendingPlans(), session(), session()
    identity, code = plans.keep(mine, SPEC, PLAN)
    other, others = plans.keep(stolen, SPEC, PLAN)
    assert refused(plans, stolen, identity, code) is Code.STALE_PLAN
    assert refused(plans, mine, other, others) is Code.STALE_PLAN
    assert plans.confirm(mine, identity, f" {code} ").plan is PLAN


def test_a_code_is_for_one_plan() -> None:
    plans, mine = PendingPlans(), session()
    first, code = plans.keep(mine, SPEC, PLAN)
    second, _ = plans.keep(mine, SPEC, PLAN)
    assert refused(plans, mine, first, code) is Code.STALE_PLAN
    plans.forget(mine)
    assert refused(plans, mine, second, code) is Code.STALE_PLAN


def test_a_code_is_good_for_minutes() -> None:
    now = 1000.0
    plans, mine = PendingPlans(lambda: now), session()
    identity, code = plans.keep(mine, SPEC, PLAN)
    now += CONFIRM_S + 1
    assert refused(plans, mine, identity, code) is Code.STALE_PLAN


def test_new_plans_bring_no_more_tries() -> None:
    plans, sessions = PendingPlans(), [session(), session()]
    codes: list[Code] = []
    for number in range(10):
        owner = sessions[number % 2]
        identity, _ = plans.keep(owner, SPEC, PLAN)
        codes += [refused(plans, owner, identity, "wrong") for _ in range(TRIES)]
    assert codes == [Code.FORBIDDEN] * TRIES_AN_HOUR + [Code.TOO_MANY] * (50 - TRIES_AN_HOUR)
    identity, code = plans.keep(sessions[0], SPEC, PLAN)
    with pytest.raises(CorralError) as caught:
        plans.confirm(sessions[0], identity, code)
    assert caught.value.code is Code.TOO_MANY
    assert "or start corral ui again" in caught.value.hint


def test_right_codes_do_not_count() -> None:
    plans, mine = PendingPlans(), session()
    for _ in range(TRIES_AN_HOUR + 1):
        assert plans.confirm(mine, *plans.keep(mine, SPEC, PLAN))
        plans.clear()
