"""Every error that the providers document becomes one sentence with a hint."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.agents import rental_guard
from corral.providers.cloud import calls, response
from corral.providers.cloud.calls import BUSY, BY_STATUS, MISSING
from corral.providers.cloud.errors import Reason, judge, rows_of
from corral.spec.providers import CLOUDS, PROVIDERS
from corral.testing.clouds import SIMS

OPENAPI = Path(__file__).parents[3] / "recorded" / "openapi"
ROWS = {name: rows_of(PROVIDERS[name].folder) for name in CLOUDS}
MEANT = {
    "global/account-inactive": Reason.MONEY,
    "global/duplicate": Reason.BUSY,
    "global/forbidden": Reason.FORBIDDEN,
    "global/invalid-address": Reason.MONEY,
    "global/invalid-api-key": Reason.KEY,
    "global/invalid-parameters": Reason.REQUEST,
    "global/not-found": Reason.MISSING,
    "global/object-does-not-exist": Reason.MISSING,
    "global/quota-exceeded": Reason.QUOTA,
    "instance-operations/launch/file-system-in-wrong-region": Reason.REQUEST,
    "instance-operations/launch/insufficient-capacity": Reason.CAPACITY,
}


def document(name: str) -> dict[str, Any]:
    return json.loads((OPENAPI / SIMS[name].document).read_text())


def statuses(name: str) -> set[int]:
    """All refusals that the document knows."""
    every = (
        int(status)
        for methods in document(name)["paths"].values()
        for method in methods.values()
        if isinstance(method, dict)
        for status in method.get("responses", {})
        if status.isdecimal()
    )
    return {status for status in every if status >= 400}


def codes(schema: Any) -> Iterator[str]:
    """The values of every property ``code`` in the schemas of Lambda's errors."""
    if isinstance(schema, dict):
        code = schema.get("code")
        if isinstance(code, dict):
            yield from (*code.get("enum", ()), *([code["const"]] if "const" in code else ()))
        for value in schema.values():
            yield from codes(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from codes(value)


def judged(name: str, status: int, code: str = "", text: str = "") -> Any:
    return judge(
        ROWS[name], provider="The cloud", variable="THE_KEY", status=status, code=code, text=text
    )


@pytest.mark.parametrize("name", [name for name in CLOUDS if statuses(name)])
def test_every_documented_status(name: str) -> None:
    documented = statuses(name)
    assert documented
    for status in documented:
        error = judged(name, status)
        assert not error.unsure and "failed (HTTP" not in error.message, status
        assert error.hint and "{" not in error.hint, status


def test_every_code_of_lambda() -> None:
    known = set(codes(document("lambda")["components"]["schemas"]))
    assert known == set(MEANT)
    generic = {"global/forbidden": 403, "global/not-found": 404}
    for code in known:
        error = judged("lambda", generic.get(code, 400), code)
        assert error.reason is MEANT[code], code
        assert error.hint


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("text", ["rate limit exceeded", "Too Many Requests"])
def test_too_many_calls_is_no_quota(name: str, text: str) -> None:
    assert judged(name, 429, "", text).reason is Reason.LIMIT


@pytest.mark.parametrize("name", ROWS)
def test_a_failure_of_the_cloud_is_unsure(name: str) -> None:
    for status in (500, 502, 503, 504):
        assert judged(name, status).unsure


def test_the_guard_takes_a_status_for_what_the_client_does() -> None:
    """By what both tolerate: the guard reads no ``errors.yaml``."""
    rows = {row.status: row.reason for row in rows_of("cloud") if not row.code}
    assert {status: rows[status].value for status in BY_STATUS} == BY_STATUS
    tolerable = {MISSING, BUSY}
    assert {s for s, reason in rows.items() if reason.value in tolerable} == set(BY_STATUS)
    assert calls.__name__ == rental_guard.CALLS and response.__name__ == rental_guard.ANSWERS
