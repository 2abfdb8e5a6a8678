"""Contract objects: each kind of deviation from the document is reported."""

from __future__ import annotations

from typing import Any

import pytest

from corral.testing.clouds import Answer, Request
from corral.testing.clouds.contract import OpenApi
from corral.testing.clouds.runpod import RunPodSim
from tests.clouds.common import CONTRACTS, OPENAPI

LAMBDA, RUNPOD, PAPERSPACE = (CONTRACTS[n] for n in ("lambda", "runpod", "paperspace"))
POD: dict[str, Any] = {"name": "n", "image": "i", "gpu": {"id": "x", "count": 1}}


@pytest.mark.parametrize(
    ("request_", "word"),
    [
        (Request("GET", "/api/v1/nothing"), "has no GET"),
        (Request("POST", "/api/v1/instance-operations/launch", body={}), "region_name"),
        (Request("POST", "/api/v1/instance-operations/launch"), "body is missing"),
        (Request("GET", "/api/v1/regions", {"limit": "1"}), "no query parameter"),
        (Request("GET", "/api/v1/regions", body={"a": 1}), "takes no body"),
    ],
)
def test_requests(request_: Request, word: str) -> None:
    assert any(word in text for text in LAMBDA.request(request_))


MACHINE = {"name": "n", "machineType": "C5", "templateId": "t", "region": "ny2", "diskSize": 50}


@pytest.mark.parametrize(
    "request_",
    [
        Request("PATCH", "/machines/ps1/stop", body={}),
        Request("POST", "/machines", body={**MACHINE, "colour": "red"}),
    ],
    ids=["a body where there is none", "a field that is not there"],
)
def test_no_call_is_exempt(request_: Request) -> None:
    assert PAPERSPACE.request(request_)


def test_no_answer_is_exempt() -> None:
    """Statuses that the document does not list, and fields that it does not have."""
    ask = Request("GET", "/api/v1/instances")
    limited: dict[str, Any] = {"error": {"code": "global/too-many-requests", "message": "m"}}
    assert LAMBDA.answer(ask, Answer(429, limited)) == []
    assert LAMBDA.answer(ask, Answer(429, {"detail": "slow down"}))
    assert LAMBDA.answer(ask, Answer(302, limited))
    assert OpenApi.load(OPENAPI / "lambda.json").answer(ask, Answer(429, limited))
    machines = Request("GET", "/machines")
    page: dict[str, Any] = {"hasMore": False, "items": [], "nextPage": None}
    assert PAPERSPACE.answer(machines, Answer(200, page)) == []
    assert PAPERSPACE.answer(machines, Answer(200, {**page, "total": 0}))
    assert PAPERSPACE.answer(machines, Answer(502, {"code": "BAD", "message": "m", "more": 1}))


def test_unknown_fields_and_values() -> None:
    def problems(body: dict[str, Any], **query: str) -> list[str]:
        return RUNPOD.request(Request("POST", "/v2/pods", query, body=body))

    assert problems(POD) == []
    assert problems({**POD, "entrypoint": ["x"]})  # newer clients send it; this document has it not
    assert problems({**POD, "disk": 0})
    assert problems({k: v for k, v in POD.items() if k != "image"})
    wrong = Request("GET", "/v2/catalog/gpus", {"product": "BOAT"})
    assert any("BOAT" in text for text in RUNPOD.request(wrong))


def test_availability_needs_its_product() -> None:
    """A rule of the document's prose, which no schema holds."""
    sim = RunPodSim()
    who = {"authorization": f"Bearer {sim.key}"}
    ask = Request("GET", "/v2/catalog/gpus", {"include": "AVAILABILITY"}, who)
    assert sim.handle(ask).status == 400


@pytest.mark.parametrize(
    ("answer", "good"),
    [
        (Answer(200, {"data": []}), True),
        (Answer(200, {"data": [{"id": "x"}]}), False),
        (Answer(200, []), False),
        (Answer(418, {}), False),
        (Answer(401, {"error": {"code": "made/up", "message": "m", "suggestion": "s"}}), False),
    ],
)
def test_answers(answer: Answer, good: bool) -> None:
    assert (LAMBDA.answer(Request("GET", "/api/v1/instances"), answer) == []) is good
