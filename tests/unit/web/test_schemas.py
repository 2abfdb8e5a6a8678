"""The server's answers have the types of ``web.schemas``, from which the page's types are made."""

from __future__ import annotations

import asyncio
import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from corral.doctor.logs.diagnosis import explain
from corral.hosts.quote import sh
from corral.plan.model import MachineChange, NodeChange, Plan, Stage
from corral.slurm.records import Job
from corral.spec.impacts import Impact
from corral.state.base import Change
from corral.web import schemas
from corral.web.routes.owner import plan_dict
from corral.web.slurm.snapshot import JOB_COLUMNS, NODE_COLUMNS, job_fields
from tests.unit.web.fake import FakeRest, Page

REPO = Path(__file__).parents[3]
FAKE_PLAN = Plan(
    "lab", "a", "b",
    machines=(MachineChange("gpu3", "create", "8 H200"),),
    stages=(Stage("slurm", "Slurm", (NodeChange(
        ("node1",), Change("file:/a", "write", "", "x", sh("true"), Impact.RESTART)),)),),
    deferred=((("gpu3",), ("file:/a",)),),
)  # fmt: skip


def held(shape: Any, data: object) -> None:
    """Fails where data has a field too many, too few, or of another type."""
    TypeAdapter(shape).validate_json(json.dumps(data), strict=True, extra="forbid")


def test_types_of_the_page_are_up_to_date() -> None:
    made = runpy.run_path(str(REPO / ".ci/page_types.py"))["text"]()
    kept = REPO / "src/corral/web/static/js/api.d.ts"
    assert kept.read_text() == made, f"python .ci/page_types.py > {kept.relative_to(REPO)}"


def test_columns_are_the_fields_of_a_row() -> None:
    assert set(NODE_COLUMNS) == set(schemas.NodeRow.__annotations__)
    assert set(JOB_COLUMNS) == set(schemas.JobRow.__annotations__)


ASKED = [
    ("me", schemas.Me),
    ("cluster", schemas.Head),
    ("nodes", schemas.Nodes),
    ("figures", schemas.AllFigures),
    ("figures/history?span=week", schemas.ClusterCurves),
    ("places", schemas.Places),
    ("jobs", schemas.Jobs),
    ("past?days=7", schemas.Past),
    ("timeline?span=day", schemas.Timeline),
    ("jobs/1", schemas.JobDetail),
    ("jobs/form", schemas.JobForm),
    ("jobs/choices", schemas.JobChoices),
    ("jobs/28/use", schemas.JobUse),
]


@pytest.mark.parametrize(("path", "shape"), ASKED, ids=[path for path, _ in ASKED])
def test_answers_have_their_types(path: str, shape: Any) -> None:
    async def asked() -> Any:
        async with Page(FakeRest()) as page:
            await page.login()
            return (await page.get(path)).raise_for_status().json()

    held(shape, asyncio.run(asked()))


def test_rows_have_their_types() -> None:
    async def asked(path: str) -> list[dict[str, Any]]:
        async with Page(FakeRest()) as page:
            await page.login()
            table = (await page.get(path)).raise_for_status().json()
            return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]

    for path, shape in (("nodes", schemas.NodeRow), ("jobs", schemas.JobRow)):
        rows = asyncio.run(asked(path))
        assert rows
        for row in rows:
            held(shape, row)


def test_a_plan_has_its_type() -> None:
    held(schemas.ShownPlan, plan_dict(FAKE_PLAN))


def test_a_finding_has_its_type() -> None:
    (finding,) = explain("slurmctld: fatal: CLUSTER NAME MISMATCH.").findings
    held(schemas.Diagnosis, finding.as_dict())


def test_a_field_too_many_or_too_few_is_seen() -> None:
    data = {"racks": {"a": "b"}}
    held(schemas.Places, data)
    for wrong in ({}, {**data, "more": 1}, {"racks": {"a": 1}}):
        with pytest.raises(ValueError, match="validation error"):
            held(schemas.Places, wrong)


def test_a_job_has_each_field_of_its_record() -> None:
    record = set(job_fields(Job(1, "1", "n", "u", "RUNNING")))
    assert record <= set(schemas.JobDetail.__annotations__) | set(schemas.JobRow.__annotations__)
