"""Obstacles for a cluster with an existing network and machines without GPUs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from corral.providers.gcp.google import Google
from corral.providers.gcp.preflight import Answers, troubles
from corral.providers.gcp.provider import GcpProvider, ask
from corral.providers.gcp.toolkit_cluster import section_of
from corral.spec.models import ClusterSpec
from tests.unit.providers.gcp.test_blueprint import CASES, debugged, mega

URL = "https://www.googleapis.com/compute/v1/projects/p/regions"
THERE = {"name": "my-network", "subnetworks": [f"{URL}/us-central1/subnetworks/my-subnet"]}
GOOD = Answers(
    zone={"name": "us-central1-c", "status": "UP"},
    machine={"name": "a3-megagpu-8g"},
    reservation={"status": "READY"},
    region={"quotas": [{"metric": "N2_CPUS", "limit": 4, "usage": 0}]},
    project={"quotas": [{"metric": "NETWORKS", "limit": 8, "usage": 0}]},
    network=THERE,
)


def existing() -> ClusterSpec:
    return debugged(mega(**CASES["existing"]))


def obstacles(spec: ClusterSpec, answers: Answers) -> list[str]:
    section = section_of(spec)
    assert section is not None
    return [trouble.text for trouble in troubles(spec, section, answers)]


def test_an_existing_network_is_one_less_to_make() -> None:
    assert obstacles(existing(), GOOD) == []
    assert obstacles(mega(), GOOD) == ["quota NETWORKS of the project: 8 of 8 left, 9 are needed"]


@pytest.mark.parametrize(
    ("network", "text"),
    [
        (None, "network my-network does not exist"),
        (
            {**THERE, "subnetworks": [f"{URL}/us-east4/subnetworks/my-subnet"]},
            "network my-network has no subnetwork my-subnet in us-central1",
        ),
        ({"name": "my-network"}, "network my-network has no subnetwork my-subnet in us-central1"),
    ],
)
def test_an_existing_network_has_its_subnetwork(network: dict[str, Any] | None, text: str) -> None:
    assert obstacles(existing(), replace(GOOD, network=network)) == [text]


def test_machines_without_gpus_need_no_reservation_but_their_quota() -> None:
    region = {"quotas": [{"metric": "N2_CPUS", "limit": 3, "usage": 0}]}
    specific = {"count": "2", "inUseCount": "0"}
    reservation = {"status": "READY", "specificReservation": specific}
    answers = replace(GOOD, region=region, reservation=reservation)
    assert obstacles(existing(), answers) == [
        "quota N2_CPUS of us-central1: 3 of 3 left, 4 are needed"
    ]


class Project:
    """A project with an existing network whose name begins as the cluster's own."""

    def __init__(self) -> None:
        old = {"name": "mega-old", "subnetworks": THERE["subnetworks"]}
        self.there = [old, {"name": "mega-gpunet-0"}, {"name": "default"}]

    async def networks(self, prefix: str) -> list[dict[str, Any]]:
        return [network for network in self.there if str(network["name"]).startswith(prefix)]

    def __getattr__(self, name: str) -> Any:
        async def answer(*_: object) -> Any:
            return [] if name in ("instances", "disks", "images") else {"name": name}

        return answer


def test_an_existing_network_is_neither_counted_nor_left() -> None:
    """It was a network of the cluster by its name, and corral down ended in an error."""
    spec = mega(network={"name": "mega-old", "subnetwork": "my-subnet"})
    google, section = Project(), section_of(spec)
    assert section is not None
    answers = asyncio.run(ask(cast("Google", google), section, spec, 0))
    assert answers.networks == 1
    assert answers.network == google.there[0]
    provider = GcpProvider(spec, cast("Google", google))
    assert asyncio.run(provider.leftovers()) == ["network mega-gpunet-0"]


@pytest.mark.parametrize(
    ("machine", "cpus", "cores", "gib"), [("n2-standard-2", 2, 1, 8), ("n2-standard-16", 16, 8, 64)]
)
def test_facts_of_machines_without_gpus(machine: str, cpus: int, cores: int, gib: int) -> None:
    data = debugged(mega()).model_dump()
    data["groups"][2]["machine"] = machine
    provider = GcpProvider(ClusterSpec.model_validate(data), cast("Google", Project()))
    facts = provider.predict("mega-debug-1")
    assert (facts.cpus, facts.cores_per_socket, facts.memory_mib) == (cpus, cores, gib * 1024)
    assert provider.predict("mega-a3mega-0").cpus == 208
    assert provider.predict("mega-controller").cpus == 8
