"""Accounts, QOS, shares, reservations, licences and sdiag out of what each release answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from corral.errors import Code, CorralError
from corral.slurm.job_use import JobUse, parse_uses
from corral.slurm.policy import Limit, accounts_above, accounts_below
from corral.slurm.rest import policy
from corral.slurm.rest.past_jobs import measured_params

RECORDED = Path(__file__).parents[3] / "recorded" / "rest"
FOLDERS = sorted(path.parent for path in RECORDED.glob("*/*/associations.json"))
IDS = ["/".join(folder.parts[-2:]) for folder in FOLDERS]

# What tests/recorded/rest/record_accounts.py sets, no two limits with the same number.
OF_KIM = {
    ("GrpTRES", "cpu"): 11, ("GrpTRES", "gres/gpu"): 12, ("GrpTRESMins", "cpu"): 1300,
    ("GrpTRESRunMins", "cpu"): 1400, ("GrpJobs", ""): 15, ("GrpSubmitJobs", ""): 16,
    ("GrpWall", ""): 17 * 60, ("MaxJobs", ""): 18, ("MaxSubmitJobs", ""): 19,
    ("MaxTRESPerJob", "cpu"): 20, ("MaxTRESPerNode", "cpu"): 21,
    ("MaxTRESMinsPerJob", "cpu"): 2200, ("MaxWall", ""): 23 * 60,
}  # fmt: skip
OF_HIGH = {
    ("GrpTRES", "cpu"): 51, ("GrpTRES", "gres/gpu"): 52, ("GrpTRESMins", "cpu"): 5300,
    ("GrpTRESRunMins", "cpu"): 5400, ("GrpJobs", ""): 55, ("GrpSubmitJobs", ""): 56,
    ("GrpWall", ""): 57 * 60, ("MaxJobsPerUser", ""): 58, ("MaxJobsPerAccount", ""): 59,
    ("MaxSubmitJobsPerUser", ""): 60, ("MaxSubmitJobsPerAccount", ""): 61,
    ("MaxTRESPerUser", "cpu"): 62, ("MaxTRESPerUser", "gres/gpu"): 63,
    ("MaxTRESPerAccount", "cpu"): 64, ("MaxTRESPerJob", "cpu"): 65, ("MaxTRESPerNode", "cpu"): 66,
    ("MaxTRESMinsPerJob", "cpu"): 6700, ("MaxWall", ""): 68 * 60, ("MinTRESPerJob", "cpu"): 1,
}  # fmt: skip


def answer(folder: Path, what: str) -> tuple[Any, int]:
    body = json.loads((folder / f"{what}.json").read_text())["body"]
    return body, int(folder.name.rpartition(".")[2])


def by_name(limits: tuple[Limit, ...]) -> dict[tuple[str, str], int]:
    return {(limit.name, limit.resource): limit.value for limit in limits}


def test_each_release_is_recorded() -> None:
    assert {folder.parts[-2] for folder in FOLDERS} == {"22.05", "24.11", "26.05"}


@pytest.mark.parametrize("folder", FOLDERS, ids=IDS)
def test_every_limit_of_an_association(folder: Path) -> None:
    members = policy.members(*answer(folder, "associations"))
    kim = next(m for m in members if (m.of.account, m.of.user) == ("vision", "kim"))
    assert by_name(kim.limits) == OF_KIM
    assert (kim.of.share, set(kim.of.qos), kim.of.default_qos) == (
        "5",
        {"normal", "high"},
        "normal",
    )
    assert (kim.of.jobs, kim.of.submitted, kim.of.tres) == (15, 16, "cpu=11,gres/gpu=12")
    idle = next(m for m in members if (m.of.account, m.of.user) == ("idle", ""))
    assert (idle.of.share, idle.of.parent) == ("parent", "research")
    # Set on research: slurmdbd has it in each association below.
    assert by_name(idle.limits) == {("MaxJobs", ""): 30}
    assert accounts_above("vision", members) == ("vision", "research", "root")
    assert accounts_below("research", members) == {"research", "vision", "idle"}


@pytest.mark.parametrize("folder", FOLDERS, ids=IDS)
def test_every_limit_of_a_qos(folder: Path) -> None:
    body, version = answer(folder, "qos")
    high, low, normal = policy.qos(body, version)
    missing = () if version >= 42 else ("GrpTRESMins", "GrpSubmitJobs")
    assert by_name(high.limits) == {k: v for k, v in OF_HIGH.items() if k[0] not in missing}
    assert high.unreported == missing
    assert (high.priority, high.preempts, high.preempt_mode) == (1000, ("low",), "cancel")
    assert (high.usage_factor, high.grace, high.flags) == (2.0, 30, ("DENY_LIMIT",))
    assert (low.name, low.priority, low.preempt_mode) == ("low", 10, "")
    assert (normal.name, normal.limits) == ("normal", ())


@pytest.mark.parametrize("folder", FOLDERS, ids=IDS)
def test_shares_that_there_are(folder: Path) -> None:
    body, version = answer(folder, "shares")
    if version < 40:
        assert "Unable" in body  # the answer has status 404
        return
    by_key = {(share.account, share.user): share for share in policy.shares(body, version)}
    kim = by_key["vision", "kim"]
    assert (kim.raw, kim.part) == (5, 1.0)
    assert kim.factor is not None
    # Its jobs had 2 CPUs with usage factor 2, and one: some seconds, counted in minutes.
    assert kim.minutes is not None
    assert 0 < kim.minutes["cpu"] < 2
    assert by_key["idle", ""].raw is None
    assert by_key["vision", ""].factor is None


@pytest.mark.parametrize("folder", FOLDERS, ids=IDS)
def test_reservations_and_licences(folder: Path) -> None:
    course, upgrade = policy.reservations(*answer(folder, "reservations"))
    assert (course.accounts, course.users, course.partition) == (("research",), (), "main")
    assert (upgrade.users, upgrade.nodes, upgrade.node_count) == (("root",), "node2", 1)
    assert "MAINT" in upgrade.flags
    assert upgrade.start is not None
    assert upgrade.end == upgrade.start + 3600
    listed = {each.name: each for each in policy.licenses(*answer(folder, "licenses"))}
    matlab = listed["matlab"]
    assert (matlab.total, matlab.used, matlab.free, matlab.remote) == (10, 4, 6, False)
    assert listed["fluent"].used == 0


@pytest.mark.parametrize("folder", FOLDERS, ids=IDS)
def test_sdiag(folder: Path) -> None:
    now = policy.scheduler(*answer(folder, "diag"))
    assert now.jobs is not None
    assert (now.jobs["submitted"], now.jobs["started"], now.jobs["completed"]) == (4, 4, 2)
    assert now.main.count
    assert now.main.longest
    assert (now.agents, now.database, now.backfilled) == (0, 0, 0)
    assert now.since is not None
    assert now.backfill.last_at is None
    assert {"root", "kim", "ada"} <= {call.name for call in now.by_user}
    totals = [call.total for call in now.by_type]
    assert totals == sorted(totals, reverse=True)
    assert now.by_type[0].count


@pytest.mark.parametrize(
    "question",
    [policy.ASSOCIATIONS, policy.QOSES, policy.SHARES, policy.RESERVATIONS, policy.LICENSES],
)
def test_an_answer_without_the_list_is_no_empty_list(
    question: policy.RestQuestion[tuple[object, ...]],
) -> None:
    none: dict[str, Any] = {"associations": [{}], "qos": [3], "licenses": None, "reservations": []}
    assert question.read(none | {"shares": {"shares": []}}, 45) == ()
    wrong = dict.fromkeys(("associations", "qos", "QOS", "licenses", "reservations", "shares"), "x")
    for body in ({}, wrong, {"errors": []}):
        with pytest.raises(CorralError, match="has no list of") as caught:
            question.read(question.of_cluster(body, "lab"), 45)
        assert caught.value.code is Code.PARSE_FAILED


def test_scheduler_figures_that_are_missing_are_unknown() -> None:
    with pytest.raises(CorralError, match="has no statistics"):
        policy.scheduler({}, 45)
    now = policy.scheduler({"statistics": {"jobs_started": None}}, 45)
    assert (now.threads, now.main.mean, now.jobs, now.by_type) == (None, None, {}, ())


def test_other_clusters_of_one_slurmdbd_are_left_out() -> None:
    body = {"associations": [{"account": "a", "cluster": "x"}, {"account": "b", "cluster": "y"}]}
    only = policy.ASSOCIATIONS.of_cluster(body, "y")
    assert [member.of.account for member in policy.members(only, 45)] == ["b"]
    assert policy.ASSOCIATIONS.of_cluster(body, "") == body


def test_what_several_jobs_used() -> None:
    lines = "7|00:00:00|\n7.batch|00:01:00|mem=2048K\n7.0|00:00:30|mem=1M\n8|00:00:09|\nx|1|2\n"
    assert parse_uses(lines) == {7: JobUse(90.0, 2.0), 8: JobUse(9.0, None)}
    asked = measured_params(3600, "kim", "lab")
    assert (asked["start_time"], asked["users"], asked["cluster"]) == (
        "now-3600seconds",
        "kim",
        "lab",
    )
    assert "skip_steps" not in asked
