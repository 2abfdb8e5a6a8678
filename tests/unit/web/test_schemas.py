"""The server's answers have the types of ``web.schemas``, from which the page's types are made."""

from __future__ import annotations

import asyncio
import json
import runpy
from pathlib import Path
from typing import Any, get_type_hints

import httpx
import pytest

from corral.doctor.logs.diagnosis import explain
from corral.hosts.quote import sh
from corral.jobs.profile.recordings import Recordings, Row
from corral.jobs.profile.trace import RankTrace
from corral.plan.model import MachineChange, NodeChange, Plan, Stage
from corral.slurm.records import Job, Node
from corral.slurm.states.nodes import NodeState
from corral.spec.impacts import Impact
from corral.state.base import Change
from corral.web import schemas
from corral.web.app import create_app
from corral.web.openapi import STREAM
from corral.web.reference.rest import description, operations
from corral.web.routes.owner import plan_dict
from corral.web.settings import BY_COMMANDS, Settings
from corral.web.slurm.slurmrest import dumps
from corral.web.slurm.snapshot import JOB_COLUMNS, NODE_COLUMNS, Snapshot, delta, job_fields
from tests.unit.web.fake import FakeRest, Page
from tests.unit.web.shapes import compare, held, routes

REPO = Path(__file__).parents[3]
FAKE_PLAN = Plan(
    "lab", "a", "b",
    machines=(MachineChange("gpu3", "create", "8 H200"),),
    stages=(Stage("slurm", "Slurm", (NodeChange(
        ("node1",), Change("file:/a", "write", "", "x", sh("true"), Impact.RESTART)),)),),
    deferred=((("gpu3",), ("file:/a",)),),
)  # fmt: skip


def test_types_of_the_page_are_up_to_date() -> None:
    made = runpy.run_path(str(REPO / ".ci/page_types.py"))["text"]()
    kept = REPO / "src/corral/web/static/js/api.d.ts"
    assert kept.read_text() == made, f"python .ci/page_types.py > {kept.relative_to(REPO)}"


def test_columns_are_the_fields_of_a_row() -> None:
    assert set(NODE_COLUMNS) == set(schemas.NodeRow.__annotations__)
    assert set(JOB_COLUMNS) == set(schemas.JobRow.__annotations__)


def test_each_operation_declares_what_it_answers() -> None:
    """What it returns as a type, of JSON and of each event; and what comes where it fails."""
    described, refused = description(), {"$ref": "#/components/schemas/Refused"}
    assert len(list(operations(described))) > 60
    for method, path, operation in operations(described):
        answers = operation["responses"]
        assert set(answers) == {"200", "4XX", "5XX"}, (method, path)
        for status in ("4XX", "5XX"):
            assert answers[status]["content"] == {"application/json": {"schema": refused}}
        ((kind, about),) = answers["200"]["content"].items()
        if kind == STREAM:
            assert _typed(about["itemSchema"]["properties"]["data"]["contentSchema"]), path
        elif kind == "application/json":
            assert _typed(about["schema"]), (method, path)
        else:
            assert about["schema"]["type"] == "string", (method, path)


def test_the_description_is_made_once() -> None:
    app = create_app(Settings(cluster="lab", rest=BY_COMMANDS))
    assert app.openapi() is app.openapi()


def _typed(schema: dict[str, Any]) -> bool:
    return all("$ref" in option for option in schema.get("anyOf", [schema]))


# Long tables are made and packed once for all viewers, and not read again to be validated.
PACKED = {"/api/nodes", "/api/jobs", "/api/timeline", "/api/policy/accounts"}


def test_long_tables_are_not_validated_again() -> None:
    made = {
        route.path
        for route in routes()
        if route.response_model is not None
        and "Response" in str(get_type_hints(route.endpoint)["return"])
    }
    assert made >= PACKED


OWNERS = ("/api/corral/", "/api/policy/declared")
"""Who logged in by a token has none of these; the tests of their routes compare their types."""


def _without_parameters() -> list[str]:
    return [
        path.removeprefix("/api/")
        for method, path, operation in operations(description())
        if method == "GET"
        and not any(each["required"] for each in operation.get("parameters", []))
        and "application/json" in operation["responses"]["200"]["content"]
        and not path.startswith(OWNERS)
    ]


@pytest.mark.parametrize("path", [*_without_parameters(), "jobs/1", "jobs/28/use", "nodes/node0"])
def test_answers_have_their_types(path: str) -> None:
    async def asked() -> None:
        async with Page(FakeRest()) as page:  # which compares each answer with its type
            await page.login()
            (await page.get(path)).raise_for_status()

    asyncio.run(asked())


def test_an_answer_of_another_type_is_seen() -> None:
    asked = httpx.Request("GET", "http://127.0.0.1/api/places")
    rest = {"elevations": []}
    for body in ({}, {**rest, "racks": {"a": 1}}, {**rest, "racks": {}, "more": 1}):
        with pytest.raises(ValueError, match="validation error"):
            asyncio.run(compare(httpx.Response(200, json=body, request=asked)))
    with pytest.raises(ValueError, match="validation error"):
        asyncio.run(compare(httpx.Response(404, json={"detail": "gone"}, request=asked)))


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


def test_events_have_their_types() -> None:
    node, job = (
        Node(name="a", state=NodeState.parse("IDLE"), cpus=4),
        Job(1, "1", "n", "u", "RUNNING"),
    )
    empty = Snapshot()
    for now in (empty.with_nodes([node]), empty.with_jobs([job]), empty):
        held(schemas.LiveState, json.loads(dumps(delta(empty, now))))
        held(schemas.LiveState, json.loads(dumps({"again": True, **now.head()})))


def test_a_plan_has_its_type() -> None:
    held(schemas.ShownPlan, plan_dict(FAKE_PLAN))


def test_a_finding_has_its_type() -> None:
    (finding,) = explain("slurmctld: fatal: CLUSTER NAME MISMATCH.").findings
    held(schemas.Diagnosis, finding.as_dict())


@pytest.mark.parametrize("rows", [{}, {0: (Row(12.5, 1.5, 3, "gemm"),)}])
def test_a_profile_has_its_type(rows: dict[int, tuple[Row, ...]]) -> None:
    """The answer was a status of 500: lists were declared where there are rows by rank."""
    trace = RankTrace(0, False, 2, 0.0, 9.0, (), ((1.0, 2.0),), (), ())
    sizes = {"rank-1.nsys-rep": 1 << 30}
    recorded = Recordings("12", "/shared/x", (trace,), rows, {}, sizes, rows)
    held(schemas.Profile, recorded.as_dict())


def test_a_field_too_many_or_too_few_is_seen() -> None:
    data = {"racks": {"a": "b"}, "elevations": []}
    held(schemas.Places, data)
    for wrong in ({}, {**data, "more": 1}, {**data, "racks": {"a": 1}}):
        with pytest.raises(ValueError, match="validation error"):
            held(schemas.Places, wrong)


def test_a_job_has_each_field_of_its_record() -> None:
    record = set(job_fields(Job(1, "1", "n", "u", "RUNNING")))
    assert record <= set(schemas.JobDetail.__annotations__) | set(schemas.JobRow.__annotations__)
