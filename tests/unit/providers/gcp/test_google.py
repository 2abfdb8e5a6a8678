"""Corral's questions and the simulated answers, against Google's own discovery document."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from corral.errors import CorralError
from corral.providers.cloud.client.http import Caller, Dialect
from corral.providers.cloud.client.rate_limit import Pacer
from corral.providers.gcp.google import ENDPOINT, PLACE, Google, url_of
from corral.providers.gcp.image import Image, made_at
from tests.embedded.mega import google as simulated
from tests.embedded.mega import world as worlds

DOCUMENT = json.loads(
    (Path(__file__).parents[3] / "recorded/openapi/google-compute.json").read_text()
)
# Google's quota pages have it and the document's list has not: the list is not complete.
UNLISTED = {"PREEMPTIBLE_NVIDIA_H100_MEGA_GPUS"}
ZONE = "projects/my-project/zones/us-central1-c"
WORLD = worlds.empty(
    instances={
        "mega-controller": {"role": "controller", "cluster": "mega", "public": "192.0.2.7"},
        "mega-a3mega-0": {"role": "compute", "cluster": "mega"},
    },
    networks={f"mega-gpunet-{i}": "mega/cluster" for i in range(8)},
    images={
        "slurm-mega-1": {
            "family": "slurm-mega",
            "labels": {"ghpc_deployment": "mega", "corral_image": "0a1b"},
            "disk": f"{ZONE}/disks/packer-0a1b2c",
            "finished": 0,
        }
    },
    disks={"mega-controller-save": "mega", "packer-0a1b2c": "", "packer-by-hand": ""},
    created={
        "images/slurm-mega-1": "2026-11-22T03:57:33.123-08:00",
        f"{ZONE}/disks/packer-0a1b2c": "2026-11-22T03:27:33.123-08:00",
    },
)


def wrong(schema: str, value: Any, at: str) -> list[str]:
    """What the document does not know of an object."""
    known = DOCUMENT["schemas"].get(schema)
    if known is None:
        return [f"{at}: the digest has no {schema}"]
    problems: list[str] = []
    for name, item in value.items():
        where = f"{at}.{name}"
        if name not in known:
            problems.append(f"{where}: not in {schema}")
            continue
        problems += _typed(known[name], item, where)
    return problems


def _typed(kind: dict[str, Any], value: Any, at: str) -> list[str]:
    if "$ref" in kind:
        return wrong(kind["$ref"], value, at)
    if kind["type"] == "array":
        return [t for i, v in enumerate(value) for t in _typed(kind["items"], v, f"{at}[{i}]")]
    fits = {"string": str, "integer": int, "number": float, "boolean": bool, "object": dict}
    if not isinstance(value, fits[kind["type"]]):
        return [f"{at}: {value!r} is no {kind['type']}"]
    if "enum" in kind and value not in kind["enum"] and value not in UNLISTED:
        return [f"{at}: {value!r} is none of the document's words"]
    return []


class Asked:
    """Answers from the world, and keeps what each question looks like to the document."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.methods: set[str] = set()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/compute/v1")
        query = dict(request.url.params)
        method = self._method(request, path, query)
        body = simulated.answer(WORLD, path, query)
        self.problems += wrong(method["response"], body, method["response"])
        return httpx.Response(200, json=simulated.paged(body, query.get("pageToken", "")))

    def _method(self, request: httpx.Request, path: str, query: dict[str, str]) -> dict[str, Any]:
        for name, method in DOCUMENT["methods"].items():
            pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(f"/{method['path']}"))
            if request.method == method["method"] and re.fullmatch(pattern, path):
                self.methods.add(name)
                self.problems += [f"{name}: no {q}" for q in query if q not in method["query"]]
                return method
        raise AssertionError(f"the document has no {request.method} {path}")


def test_questions_and_answers_are_the_documents(tmp_path: Path) -> None:
    asked = Asked()

    async def ask() -> list[dict[str, Any]]:
        caller = Caller(
            Dialect(PLACE, (), lambda _: ("", "")),
            "https://x/compute/v1",
            "token-12",
            Pacer(tmp_path, "a", {}),
            httpx.MockTransport(asked),
        )
        google = Google("my-project", caller)
        assert await google.zone("us-central1-c")
        assert await google.machine_type("us-central1-c", "a3-megagpu-8g")
        assert await google.reservation(
            "us-central1-c", "projects/my-project/reservations/my-reservation"
        )
        assert await google.region("us-central1")
        assert await google.project()
        assert len(await google.instances("us-central1-c", "mega")) == 2
        assert len(await google.disks("us-central1-c", "mega")) == 1
        made = datetime(2026, 11, 22, 11, 57, 33, 123000, UTC).timestamp()
        disk = f"{ZONE}/disks/packer-0a1b2c"
        image = Image("slurm-mega-1", made, "READY", "0a1b", "mega", disk, deprecated=False)
        assert await google.images("slurm-mega") == [image]
        (image_disk,) = await google.image_disks("us-central1-c")
        assert (image_disk["name"], made_at(image_disk)) == ("packer-0a1b2c", made - 1800)
        networks = await google.networks("mega-")
        await google.close()
        return networks

    assert len(asyncio.run(ask())) == 8  # in pages of three
    assert not asked.problems
    assert asked.methods == set(DOCUMENT["methods"])


def test_a_token_never_goes_in_the_clear() -> None:
    assert url_of({ENDPOINT: "http://127.0.0.1:1/compute/v1/"}) == "http://127.0.0.1:1/compute/v1"
    with pytest.raises(CorralError, match="in the clear"):
        url_of({ENDPOINT: "http://compute.example/compute/v1"})
