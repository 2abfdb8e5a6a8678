"""Obstacles for a cluster with an existing network and machines without GPUs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from corral.providers.gcp.blueprint.cluster import deployment_of
from corral.providers.gcp.figures import figures
from corral.providers.gcp.google import Google
from corral.providers.gcp.machines import cpus_of, gpu_machines
from corral.providers.gcp.preflight import Answers, troubles
from corral.providers.gcp.provider import GcpProvider, ask
from corral.providers.gcp.toolkit_cluster import section_of
from corral.spec.models import ClusterSpec
from tests.unit.providers.gcp.test_blueprint import CASES, debugged, mega, plain, rdma
from tests.unit.providers.gcp.test_blueprint import modules as blueprint_modules

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
        "DISKS_TOTAL_GB",
        "PREEMPTIBLE_NVIDIA_H200_GPUS",
        "PREEMPTIBLE_NVIDIA_H100_MEGA_GPUS",
    )
]


@pytest.mark.parametrize(
    ("machine", "how", "needs"),
    [
        ("a3-ultragpu-8g", {}, ["NETWORKS 3", "SUBNETWORKS 10", "N2_CPUS 40",
                                 "SSD_TOTAL_GB 650", "HDB_TOTAL_GB 400"]),
        (
            "a3-ultragpu-8g",
            {"provisioning": "spot", "reservation": None},
            ["NETWORKS 3", "SUBNETWORKS 10", "N2_CPUS 40", "SSD_TOTAL_GB 650", "HDB_TOTAL_GB 400",
             "PREEMPTIBLE_NVIDIA_H200_GPUS 16"],
        ),
        ("a4x-highgpu-4g", {}, ["NETWORKS 3", "SUBNETWORKS 6", "C4A_CPUS 36", "HDB_TOTAL_GB 1000"]),
    ],
)  # fmt: skip
def test_quotas_are_those_of_the_machine_type(
    machine: str, how: dict[str, Any], needs: list[str]
) -> None:
    answers = replace(GOOD, region={"quotas": EMPTY}, project={"quotas": EMPTY})
    texts = obstacles(rdma(machine, **how), answers)
    words = [text.replace(",", "").split() for text in texts]
    assert [f"{text[1]} {text[-3]}" for text in words] == needs


def test_every_disk_of_a_blueprint_counts_against_a_quota() -> None:
    """Disks of the servers and of machines without GPUs were not counted."""
    known = figures()
    for spec in (debugged(mega()), *map(rdma, gpu_machines())):
        types = [kind for m in blueprint_modules(deployment_of(spec)).values() if (kind := disk(m))]
        assert len(types) >= 4
        assert set(types) <= set(known.disks.quotas)
    answers = replace(GOOD, region={"quotas": EMPTY}, project=None, network=None)
    assert amounts(debugged(mega()), answers) == {
        "C2_CPUS": 20,
        "SSD_TOTAL_GB": 3 * 200 + 50 + 2 * 200,
        "N2_CPUS": 4,
        "DISKS_TOTAL_GB": 2 * 200,
    }
    old = debugged(mega(toolkit="v1.39.0", storage=()))
    assert amounts(old, answers)["SSD_TOTAL_GB"] == 3 * 200 + 2 * 200


@pytest.mark.parametrize("machine", list(gpu_machines()))
def test_what_an_interrupted_up_made_is_asked_for_no_more(machine: str) -> None:
    """Networks were subtracted from subnetworks, so the same command was refused."""
    spec = debugged(rdma(machine) if machine != "a3-megagpu-8g" else mega())
    kind = gpu_machines()[machine]
    subnetworks = [kind.network.subnetworks - kind.network.vpcs + 1] + [1] * kind.network.vpcs
    google = Project()
    google.there = [
        {"name": f"{spec.name}-{i}", "subnetworks": [f"{URL}/r/subnetworks/{j}" for j in range(n)]}
        for i, n in enumerate(subnetworks)
    ]
    there = {machine: 2, "n2-standard-2": 2, kind.servers.login: 1}
    section = section_of(spec)
    assert section is not None
    answers = asyncio.run(ask(cast("Google", google), section, spec, there))
    answers = replace(answers, region={"quotas": EMPTY}, project={"quotas": EMPTY})
    disks = {kind.servers.image_disk or "pd-balanced", kind.servers.controller_disk or "pd-ssd"}
    assert amounts(spec, answers) == {
        kind.servers.quota: cpus_of(kind.servers.image) + cpus_of(kind.servers.controller),
        figures().disks.quotas[disks.pop()]: 400 + 50 * kind.servers.state_disk,
    }


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


def disk(module: dict[str, Any]) -> str:
    """Type of the boot disk of what a module makes, "" where it makes no machine."""
    defaults = figures().disks
    default = {
        "custom-image": defaults.image,
        "schedmd-slurm-gcp-v6-controller": defaults.controller,
        "schedmd-slurm-gcp-v6-login": "named always",
        "schedmd-slurm-gcp-v6-nodeset": defaults.cpu_node,
    }.get(module["source"].rpartition("/")[2], "")
    return default and str(module["settings"].get("disk_type", default))


def amounts(spec: ClusterSpec, answers: Answers) -> dict[str, int]:
    """What is needed of each quota, where nothing is left of any."""
    words = [text.replace(",", "").split() for text in obstacles(spec, answers)]
    return {text[1]: int(text[-3]) for text in words if text[0] == "quota"}


class Project:
    """A project with an existing network whose name begins as the cluster's own."""

    def __init__(self) -> None:
        old = {"name": "mega-old", "subnetworks": THERE["subnetworks"]}
        self.there = [old, {"name": "mega-gpunet-0"}, {"name": "default"}]
        self.asked: list[str] = []

    async def networks(self, prefix: str) -> list[dict[str, Any]]:
        return [network for network in self.there if str(network["name"]).startswith(prefix)]

    async def machine_type(self, _zone: str, name: str) -> dict[str, Any]:
        self.asked.append(name)
        return {"name": name}

    def __getattr__(self, name: str) -> Any:
        async def answer(*_: object) -> Any:
            lists = ("instances", "disks", "image_disks", "images", "deployed", "stores")
            return [] if name in lists else {"name": name}

        return answer


def test_an_existing_network_is_neither_counted_nor_left() -> None:
    """It was a network of the cluster by its name, and corral down ended in an error."""
    spec = mega(network={"name": "mega-old", "subnetwork": "my-subnet"})
    google, section = Project(), section_of(spec)
    assert section is not None
    answers = asyncio.run(ask(cast("Google", google), section, spec, {}))
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


def test_a_cluster_without_gpus_is_asked_for_and_removed() -> None:
    """A rule refused it, and corral down of an existing one failed."""
    spec, google = plain(), Project()
    section = section_of(spec)
    assert section is not None
    provider = GcpProvider(spec, cast("Google", google))
    observed = asyncio.run(provider.read_machines())
    assert set(observed.machines) == {"mega-controller", "mega-debug-0", "mega-debug-1"}
    assert google.asked == ["n2-standard-2"]
    assert provider.predict("mega-debug-0").cpus == 2
    assert provider.predict("mega-controller").cpus == 8
    assert asyncio.run(provider.leftovers()) == ["network mega-old", "network mega-gpunet-0"]
    missing = replace(GOOD, machine=None, region=None, project={"quotas": []})
    assert obstacles(spec, missing) == [
        "us-central1-c does not offer n2-standard-2 to this project"
    ]
