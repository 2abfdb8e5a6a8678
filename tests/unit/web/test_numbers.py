"""Numbers in paths, queries and bodies: only digits are a number, or another job would be meant."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from corral.web.routes import bulk, jobs, scripts
from tests.unit.web.fake import FakeRest, Page

LAX = ("2_9", "+17", " 17", "17 ", "017", "17.0", "1e1", "0x11", "\u0661\u0667", "\uff11", "-1", "")
SENT = {"do": "cancel"}
Parameter = tuple[str, str, str, str]


def numbers(schema: dict[str, Any]) -> Iterator[Parameter]:
    """Method, path, name and place of each whole number of the API's paths and queries."""
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            for parameter in operation.get("parameters", ()):
                kinds = [parameter["schema"], *parameter["schema"].get("anyOf", ())]
                if any(kind.get("type") in {"integer", "number"} for kind in kinds):
                    yield method, path, parameter["name"], parameter["in"]


def filled(operation: dict[str, Any], path: str) -> tuple[str, dict[str, str]]:
    """A path and a query in which each number is 1, and all that must be given is."""
    query: dict[str, str] = {}
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", "1")
        elif parameter["in"] == "query" and parameter.get("required"):
            query[parameter["name"]] = "1" if "integer" in str(parameter["schema"]) else "all"
    return path, query


def test_no_number_of_the_api_is_read_from_other_text() -> None:
    """``POST /api/jobs/2_9`` cancelled job 29."""

    async def work() -> None:
        rest = FakeRest()
        async with Page(rest) as page:
            await page.login("lee", "Administrator")
            schema = page.app.openapi()
            listed = list(numbers(schema))
            places = {(name, place) for _, _, name, place in listed}
            assert {("job_id", "path"), ("offset", "query"), ("start", "query")} <= places
            for parameter in listed:
                for text in LAX:
                    status = await answered(page, schema, parameter, text)
                    assert 400 <= status < 500, (*parameter, text, status)
        assert rest.sent == []

    asyncio.run(work())


async def answered(page: Page, schema: dict[str, Any], parameter: Parameter, text: str) -> int:
    """The status of a request with this text for one of its numbers."""
    method, path, name, place = parameter
    before, after = path, ""
    if place == "path":
        before, _, after = path.partition(f"{{{name}}}")
    operation = schema["paths"][path][method]
    address, query = filled(operation, before)
    if place == "path":
        address += text + filled(operation, after)[0]
    else:
        query[name] = text
    if method == "get":
        return (await page.get(address.removeprefix("/api/"), params=query)).status_code
    return (await page.post(address.removeprefix("/api/"), SENT)).status_code


def test_a_tasks_label_is_refused_with_a_sentence() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login()
            reply = await page.get("jobs/1_5")
            assert reply.status_code == 422
            message = reply.json()["error"]["message"]
            assert message.startswith("job_id: 1_5 is a task of array 1, and has its own number")

    asyncio.run(work())


@pytest.mark.parametrize("value", ["5_1", "17", "+17", 17.0, True, "017"])
@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (bulk.Chosen, lambda value: {"ids": [value]}),
        (jobs.Action, lambda value: {"do": "limit", "minutes": value}),
        *(
            (scripts.Script, lambda v, n=name: {"script": "#!/bin/sh\n", "workdir": "/", n: v})
            for name in ("nodes", "gpus_per_node", "minutes")
        ),
    ],
)
def test_a_number_of_a_body_is_a_number(model: type[BaseModel], fields: Any, value: object) -> None:
    model.model_validate(fields(7))
    with pytest.raises(ValidationError):
        model.model_validate(fields(value))
