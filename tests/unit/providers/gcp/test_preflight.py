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
from tests.unit.providers.gcp.test_blueprint import CASES, debugged, mega, rdma

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


EMPTY = [
    {"metric": metric, "limit": 0, "usage": 0}
    for metric in (
        "NETWORKS",
        "SUBNETWORKS",
        "N2_CPUS",
        "C2_CPUS",
        "C4A_CPUS",
        "HDB_TOTAL_GB",
        "SSD_TOTAL_GB",
        "PREEMPTIBLE_NVIDIA_H200_GPUS",
        "PREEMPTIBLE_NVIDIA_H100_MEGA_GPUS",
    )
]


@pytest.mark.parametrize(
    ("machine", "how", "needs"),
    [
        ("a3-ultragpu-8g", {}, ["NETWORKS 3", "SUBNETWORKS 10", "N2_CPUS 40", "HDB_TOTAL_GB 400"]),
        (
            "a3-ultragpu-8g",
            {"provisioning": "spot", "reservation": None},
            ["NETWORKS 3", "SUBNETWORKS 10", "N2_CPUS 40", "HDB_TOTAL_GB 400",
             "PREEMPTIBLE_NVIDIA_H200_GPUS 16"],
        ),
        ("a4x-highgpu-4g", {}, ["NETWORKS 3", "SUBNETWORKS 6", "C4A_CPUS 36", "HDB_TOTAL_GB 400"]),
    ],
)  # fmt: skip
def test_quotas_are_those_of_the_machine_type(
    machine: str, how: dict[str, Any], needs: list[str]
) -> None:
    answers = replace(GOOD, region={"quotas": EMPTY}, project={"quotas": EMPTY})
    texts = obstacles(rdma(machine, **how), answers)
    words = [text.replace(",", "").split() for text in texts]
    assert [f"{text[1]} {text[-3]}" for text in words] == needs


def test_a_reservation_of_another_type_is_refused() -> None:
    properties = {"instanceProperties": {"machineType": "a3-megagpu-8g"}, "count": "2"}
    reservation = {"status": "READY", "specificReservation": properties}
    answers = replace(GOOD, reservation=reservation, region={"quotas": []})
    assert obstacles(rdma("a4-highgpu-8g"), answers) == [
        "reservation my-reservation holds a3-megagpu-8g"
    ]


@pytest.mark.parametrize(
    ("machine", "node", "facts"),
    [
        ("a3-ultragpu-8g", "ultra-a3ultra-0", (224, 2, 56, 2, 2952 * 1024)),
        ("a4-highgpu-8g", "ultra-controller", (16, 1, 8, 2, 64 * 1024)),
        ("a4x-highgpu-4g", "ultra-a3ultra-0", (140, 2, 70, 1, 884 * 1024)),
        ("a4x-highgpu-4g", "ultra-controller", (16, 1, 16, 1, 32 * 1024)),
    ],
)
def test_facts_of_a_machine_type(machine: str, node: str, facts: tuple[int, ...]) -> None:
    known = GcpProvider(rdma(machine), cast("Google", Project())).predict(node)
    assert facts == (
        known.cpus,
        known.sockets,
        known.cores_per_socket,
        known.threads_per_core,
        known.memory_mib,
    )


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
