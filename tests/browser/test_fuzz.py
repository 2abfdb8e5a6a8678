"""schemathesis against the page's own OpenAPI, on the real cluster: no input makes it fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode, checks

from corral import api
from corral.api.operations.health import ClusterHealth
from corral.doctor.model import Report
from corral.prove.checks.health import HealthLine
from corral.prove.model import Proof
from corral.spec.load import load_or_raise
from tests.browser import desk
from tests.browser.conftest import OTHER, Served
from tests.unit.web.test_schemas import FAKE_PLAN

EXAMPLE = Path(__file__).parents[2] / "examples/laptop.yaml"

# Streams go on for ever; logging out would end the fuzz; logging in is limited to 10 a minute, and
# so is making a token, which takes the same credentials.
LEFT_OUT = r"/(events|log|logout|login|handover|ticket|tokens)$|/login/code$"
CONFORMANCE = [
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.status_code_conformance,
]


@pytest.mark.slow
def test_answers_are_as_described() -> None:
    """Of a page without a cluster: what each operation returns has the type that it declares."""
    rest, seen = desk.DeskRest(), Counter[int]()
    rest.add(1)
    rest.add(31, array=30, task=1)
    rest.nodes(3)
    with desk.served(rest) as page, ThreadPoolExecutor(1) as pool:
        pool.submit(fuzz, page.url.rstrip("/"), seen, token=rest.login("kim")).result()
    assert seen[200] > seen[500] == 0, seen
    assert seen[0] < seen[403], seen


OF_THE_OWNER = (
    r"/corral/(?!apply)|/policy/(declared|edit)$|/health$|/jobs/(form|choices|directives)$"
)
"""What a plain user is refused, or gets without a cluster file; applying is not among it."""


def test_answers_for_the_owner_are_as_described(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Plan, doctor, proof and health are played: everything else is the server's own.

    A plain user is refused all of these, so that none of their answers had been compared.
    """
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path / "state"))
    file = tmp_path / "laptop.yaml"
    file.write_text(EXAMPLE.read_text())
    proof = Proof("laptop", 1.0, ())

    async def played(answer: Any, *_: Any) -> Any:
        return answer

    health = HealthLine("gpu000", "health.xid", "fail", "Xid 79")
    answers = {
        "doctor": Report(),
        "prove": proof,
        "plan": FAKE_PLAN,
        "node_health": ClusterHealth(("gpu000",), (health,), ()),
    }
    for name, answer in answers.items():
        monkeypatch.setattr(api, name, partial(played, answer), raising=False)
    rest, seen = desk.DeskRest(), Counter[str]()
    rest.nodes(3)
    settings = {"spec": load_or_raise(file).model_dump(mode="json"), "source": str(file)}
    with desk.served(rest, **settings) as page, ThreadPoolExecutor(1) as pool:
        url, code = page.url.rstrip("/"), page.code("kim")
        pool.submit(fuzz, url, seen, code=code, only=OF_THE_OWNER).result()
    answered = {key for key in seen if key.endswith(" 200")}
    assert len(answered) >= 15, sorted(seen)
    assert not [key for key in seen if key.endswith((" 403", " 500"))], sorted(seen)
    assert file.read_text() == EXAMPLE.read_text(), "nothing was changed"


def test_no_input_makes_the_server_fail(served: Served, people: Callable[[str], str]) -> None:
    seen: Counter[int] = Counter()
    with ThreadPoolExecutor(1) as pool:  # Playwright's loop runs in this thread
        pool.submit(fuzz, served.url.rstrip("/"), seen, token=people(OTHER)).result()
    assert seen[200]
    assert seen[422]
    assert not seen[500], seen


def fuzz(url: str, seen: Counter[Any], only: str = "", **login: str) -> None:
    """Call each operation, with inputs that fit and that do not.

    Args:
        url: the page's.
        seen: counts answers by their status; with ``only`` by operation and status.
        only: paths that are called; "" for all.
        login: ``token``, or the one-time ``code`` of who runs the page.
    """
    with httpx.Client(base_url=url, timeout=120) as http:
        reply = http.post(f"/api/login{'/code' if 'code' in login else ''}", json=login)
        reply.raise_for_status()
        cookie = "; ".join(f"{item.name}={item.value}" for item in http.cookies.jar)
        headers = {"Cookie": cookie, "X-CSRF-Token": reply.json()["csrf"]}
        described = http.get("/api/openapi.json", headers=headers).json(object_hook=_readable)
        schema = schemathesis.openapi.from_dict(described)
    chosen = schema.exclude(path_regex=LEFT_OUT)
    chosen = chosen.include(path_regex=only) if only else chosen
    results: list[Any] = list(chosen.get_all_operations())
    operations = [result.ok() for result in results]
    assert len(operations) > 15
    for operation in operations:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            named = f"{operation.method.upper()} {operation.path}" if only else ""
            _each(operation.as_strategy(generation_mode=mode), url, headers, seen, named)


def _readable(part: dict[str, Any]) -> dict[str, Any]:
    """Without ``prefixItems``: what schemathesis 4.32 makes of them is a schema of no draft."""
    return {name: value for name, value in part.items() if name != "prefixItems"}


def _each(cases: Any, url: str, headers: dict[str, str], seen: Counter[Any], named: str) -> None:
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
        seen[f"{named} {answer.status_code}" if named else answer.status_code] += 1
        assert answer.status_code != 500, (case.method, case.path, answer.text[:300])
        case.validate_response(answer, checks=CONFORMANCE)

    # What takes no input cannot be given a wrong one.
    with suppress(Unsatisfiable):
        call()
