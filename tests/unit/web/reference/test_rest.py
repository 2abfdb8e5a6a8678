"""The page of the REST API is the server's description, and its examples are accepted."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from corral.jobs.model import JobSpec
from corral.web.app import ROUTES
from corral.web.openapi import BODIES
from corral.web.reference.rest import description, operations, page
from corral.web.users.scopes import NEEDED

FILE = Path(__file__).parents[4] / "docs/reference/rest.md"


def test_the_page_is_current() -> None:
    assert FILE.read_text() == page(), (
        "python -m corral.web.reference.rest > docs/reference/rest.md"
    )


def test_every_operation_is_on_it_once() -> None:
    written = page()
    for method, path, _ in operations(description()):
        assert written.count(f"\n### {method} {path}\n") == 1


def test_what_a_token_may_send_has_an_example() -> None:
    sending = {
        f"{method} {path}"
        for method, path, operation in operations(description())
        if "requestBody" in operation
    }
    assert sending & NEEDED.keys() == BODIES.keys()


@pytest.mark.parametrize("operation", BODIES)
def test_examples_are_accepted(operation: str) -> None:
    method, path = operation.split()
    (route,) = (
        route
        for part in ROUTES
        for route in part.router.routes
        if isinstance(route, APIRoute) and route.path == path and method in (route.methods or ())
    )
    (body,) = route.dependant.body_params
    shape: Any = body.field_info.annotation
    TypeAdapter(shape).validate_python(dict(BODIES[operation]))


def test_the_forms_of_jobs_are_accepted() -> None:
    for operation in (f"POST /api/jobs/{name}" for name in ("preview", "expected", "spec")):
        JobSpec.model_validate(BODIES[operation])


def test_examples_are_shell() -> None:
    blocks = page().split("```sh\n")[1:]
    assert len(blocks) > len(BODIES)
    text = "".join(block.partition("```")[0] for block in blocks)
    subprocess.run(["/bin/sh", "-n"], input=text, text=True, check=True)
