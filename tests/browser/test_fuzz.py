"""schemathesis against the page's own OpenAPI, on the real cluster: no input makes it fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import httpx
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode, checks

from tests.browser import desk
from tests.browser.conftest import OTHER, Served

# Streams go on for ever; logging out would end the fuzz; logging in is limited to 10 a minute, and
# so is making a token, which takes the same credentials.
LEFT_OUT = r"/(events|log|logout|login|handover|ticket|tokens)$|/login/code$"
CONFORMANCE = [
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.status_code_conformance,
]


def test_answers_are_as_described() -> None:
    """Of a page without a cluster: what each operation returns has the type that it declares."""
    rest, seen = desk.DeskRest(), Counter[int]()
    rest.add(1)
    rest.add(31, array=30, task=1)
    rest.nodes(3)
    with desk.served(rest) as page, ThreadPoolExecutor(1) as pool:
        pool.submit(fuzz, page.url.rstrip("/"), rest.login("kim"), seen).result()
    assert seen[200] > seen[500] == 0, seen
    assert seen[0] < seen[403], seen


def test_no_input_makes_the_server_fail(served: Served, people: Callable[[str], str]) -> None:
    seen: Counter[int] = Counter()
    with ThreadPoolExecutor(1) as pool:  # Playwright's loop runs in this thread
        pool.submit(fuzz, served.url.rstrip("/"), people(OTHER), seen).result()
    assert seen[200]
    assert seen[422]
    assert not seen[500], seen


def fuzz(url: str, token: str, seen: Counter[int]) -> None:
    with httpx.Client(base_url=url, timeout=120) as http:
        reply = http.post("/api/login", json={"token": token})
        reply.raise_for_status()
        cookie = "; ".join(f"{item.name}={item.value}" for item in http.cookies.jar)
        headers = {"Cookie": cookie, "X-CSRF-Token": reply.json()["csrf"]}
        described = http.get("/api/openapi.json", headers=headers).json(object_hook=_readable)
        schema = schemathesis.openapi.from_dict(described)
    results: list[Any] = list(schema.exclude(path_regex=LEFT_OUT).get_all_operations())
    operations = [result.ok() for result in results]
    assert len(operations) > 15
    for operation in operations:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            _each(operation.as_strategy(generation_mode=mode), url, headers, seen)


def _readable(part: dict[str, Any]) -> dict[str, Any]:
    """Without ``prefixItems``: what schemathesis 4.32 makes of them is a schema of no draft."""
    return {name: value for name, value in part.items() if name != "prefixItems"}


def _each(cases: Any, url: str, headers: dict[str, str], seen: Counter[int]) -> None:
    @settings(
        max_examples=8, deadline=None, database=None, suppress_health_check=list[Any](HealthCheck)
    )
    @given(cases)
    def call(case: schemathesis.Case) -> None:
        try:
            answer = case.call(base_url=url, headers=headers, timeout=120)
        except requests.RequestException:  # refused, and closed, before its long body was read
            seen[0] += 1
            return
        seen[answer.status_code] += 1
        assert answer.status_code != 500, (case.method, case.path, answer.text[:300])
        case.validate_response(answer, checks=CONFORMANCE)

    # What takes no input cannot be given a wrong one.
    with suppress(Unsatisfiable):
        call()
