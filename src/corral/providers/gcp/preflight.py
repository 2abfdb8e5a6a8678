"""Google's answers about a cluster before it is made: capacity, quotas, reservation. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from corral.errors import Code, CorralError
from corral.providers.cloud.response import part, records
from corral.providers.gcp.figures import figures
from corral.providers.gcp.machines import (
    cpus_of,
    gpu_machine_of,
    gpu_machines,
    gpu_type_of,
    zone_type_of,
)
from corral.providers.gcp.section import Gcp
from corral.spec.models import ClusterSpec
from corral.spec.nodes import nodes_of


@dataclass(frozen=True, slots=True)
class Answers:
    """What the API answered; None: it does not exist.

    Attributes:
        zone: ``zones.get``.
        machine: ``machineTypes.get``.
        reservation: ``reservations.get``; None also where the file names none.
        region: ``regions.get``, with quotas.
        project: ``projects.get``, with quotas.
        networks: how many of the cluster's own networks are there already.
        subnetworks: how many those have.
        machines: how many of its machines are, by type.
        network: of ``networks.list``, the existing one that the file names.
    """

    zone: Mapping[str, Any] | None
    machine: Mapping[str, Any] | None
    reservation: Mapping[str, Any] | None
    region: Mapping[str, Any] | None
    project: Mapping[str, Any] | None
    networks: int = 0
    subnetworks: int = 0
    machines: Mapping[str, int] = field(default_factory=dict[str, int])
    network: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that would stop the toolkit after some of it was made and paid."""

    text: str
    hint: str


def troubles(spec: ClusterSpec, gcp: Gcp, answers: Answers) -> tuple[Trouble, ...]:
    """The obstacles, the most fundamental first; empty: nothing that the API reports."""
    # What a run before this one made holds its share of quotas and reservation already.
    machine = gpu_type_of(spec)
    nodes = _missing(spec, answers)
    return (
        *_place(gcp, answers, zone_type_of(spec)),
        *_network(gcp, answers.network),
        *_reservation(gcp, answers.reservation, machine, nodes.count(machine)),
        *_quotas(spec, gcp, answers, nodes),
    )


def _missing(spec: ClusterSpec, answers: Answers) -> list[str]:
    """Types of the nodes that are still to be made."""
    declared = Counter(node.group.machine for node in nodes_of(spec) if node.group.machine)
    return list((declared - Counter(answers.machines)).elements())


def require_none(spec: ClusterSpec, obstacles: Sequence[Trouble]) -> None:
    """Raise all troubles as one error.

    Raises:
        CorralError: NOT_GOOD.
    """
    if not obstacles:
        return
    more = f" (and {len(obstacles) - 1} more)" if obstacles[1:] else ""
    raise CorralError(
        Code.NOT_GOOD,
        f"Google Cloud would refuse to create {spec.name}: {obstacles[0].text}{more}",
        tail="\n".join(f"{obstacle.text}: {obstacle.hint}" for obstacle in obstacles)
        if obstacles[1:]
        else "",
        hint=f"{obstacles[0].hint}; nothing was created",
    )


def _place(gcp: Gcp, answers: Answers, machine: str) -> Iterator[Trouble]:
    if answers.project is None:
        yield Trouble(f"there is no project {gcp.project}", "write the project's id, not its name")
        return
    if answers.zone is None:
        yield Trouble(f"there is no zone {gcp.zone}", "gcloud compute zones list")
        return
    if answers.zone.get("status") != "UP":
        yield Trouble(
            f"zone {gcp.zone} is {answers.zone.get('status')}", "wait, or take another zone"
        )
    if answers.machine is None:
        hint = f"gcloud compute machine-types list --filter=name={machine} shows where they are"
        yield Trouble(f"{gcp.zone} does not offer {machine} to this project", hint)


def _network(gcp: Gcp, there: Mapping[str, Any] | None) -> Iterator[Trouble]:
    network, region = gcp.network, gcp.zone.rpartition("-")[0]
    if network is None:
        return
    if there is None:
        hint = "gcloud compute networks list; or leave gcp.network out, and one is made"
        yield Trouble(f"network {network.name} does not exist", hint)
        return
    urls = [str(url).split("/")[-3:] for url in there.get("subnetworks", ())]
    if [region, "subnetworks", network.subnetwork] not in urls:
        hint = f"gcloud compute networks subnets list --network={network.name}"
        text = f"network {network.name} has no subnetwork {network.subnetwork} in {region}"
        yield Trouble(text, hint)


def _reservation(
    gcp: Gcp, reservation: Mapping[str, Any] | None, needed: str, nodes: int
) -> Iterator[Trouble]:
    name = gcp.reservation
    if not name:
        return
    if reservation is None:
        hint = (
            "gcloud compute reservations list; one of another project is written as "
            "projects/PROJECT/reservations/NAME"
        )
        yield Trouble(f"there is no reservation {name} in {gcp.zone}", hint)
        return
    if reservation.get("status") != "READY":
        yield Trouble(
            f"reservation {name} is {reservation.get('status')}", "wait until it is READY"
        )
    specific = part(reservation, "specificReservation")
    machine = str(part(specific, "instanceProperties").get("machineType", ""))
    if machine and machine != needed:
        yield Trouble(f"reservation {name} holds {machine}", f"one of {needed} is needed")
        return
    left = _number(specific.get("count")) - _number(specific.get("inUseCount"))
    if specific and left < nodes:
        hint = f"declare {int(left)} nodes, or have it extended" if left else "have it extended"
        yield Trouble(f"reservation {name} has {int(left)} machines left, {nodes} are needed", hint)


def _quotas(
    spec: ClusterSpec, gcp: Gcp, answers: Answers, nodes: Sequence[str]
) -> Iterator[Trouble]:
    region = gcp.zone.rpartition("-")[0]
    network, own = gpu_machine_of(spec).network, gcp.network is None
    needs: list[tuple[str, int, Mapping[str, Any] | None, str]] = [
        ("NETWORKS", network.vpcs + own - answers.networks, answers.project, "the project"),
        (
            "SUBNETWORKS",
            network.subnetworks + own - answers.subnetworks,
            answers.project,
            "the project",
        ),
    ]
    amounts = _amounts(spec, gcp, answers, nodes)
    needs += [(metric, amount, answers.region, region) for metric, amount in amounts.items()]
    for metric, amount, holder, where in needs:
        quota = _quota(holder, metric)
        if quota is None or amount <= 0:
            continue
        left = _number(quota.get("limit")) - _number(quota.get("usage"))
        if left < amount:
            hint = "ask for more on the project's quota page (IAM & Admin, Quotas)"
            limit = f"{int(left)} of {int(_number(quota.get('limit')))} left"
            yield Trouble(f"quota {metric} of {where}: {limit}, {amount} are needed", hint)


def _amounts(
    spec: ClusterSpec, gcp: Gcp, answers: Answers, nodes: Sequence[str]
) -> Mapping[str, int]:
    """What servers and nodes that are still to be made take of each quota of the region."""
    known, own = figures(), gpu_machine_of(spec).servers
    disks, amounts = known.disks, Counter[str]()
    for machine, disk in (
        (own.image, own.image_disk or disks.image),
        (own.controller, own.controller_disk or disks.controller),
        (own.login, own.disk),
    ):
        # The other two are not there yet: nothing is asked once the controller is.
        if machine != own.login or not answers.machines.get(machine):
            amounts[own.quota] += cpus_of(machine)
            amounts[disks.quotas[disk]] += known.boot_disk_gb
    if own.state_disk and gcp.toolkit != "v1.39.0":
        amounts[disks.quotas[disks.state]] += disks.state_gb
    for machine in nodes:
        kind = gpu_machines().get(machine)
        disk = kind.disk if kind else disks.cpu_node
        amounts[disks.quotas[disk]] += known.boot_disk_gb
        if kind is None:
            amounts[known.cpu_quota] += known.cpu_machines[machine].cpus
        elif gcp.provisioning != "reservation":
            amounts[kind.gpu_quota] += kind.gpus
    return amounts


def _quota(holder: Mapping[str, Any] | None, metric: str) -> Mapping[str, Any] | None:
    quotas = records((holder or {}).get("quotas", []))
    return next((q for q in quotas if q.get("metric") == metric), None)


def _number(value: object) -> float:
    """A number, also where the API writes an int64 as text; 0 where it is missing."""
    try:
        return float(value) if isinstance(value, (int, float, str)) else 0.0
    except ValueError:
        return 0.0
