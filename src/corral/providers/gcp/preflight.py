"""Google's answers about a cluster before it is made: capacity, quotas, reservation. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from corral.errors import Code, CorralError
from corral.providers.cloud.response import part, records
from corral.providers.gcp.figures import figures
from corral.providers.gcp.section import MACHINE, Gcp
from corral.spec.models import ClusterSpec
from corral.spec.nodes import nodes_of

PREEMPTIBLE: Final = "PREEMPTIBLE_NVIDIA_H100_MEGA_GPUS"
"""Quota of spot and flex-start machines; a reservation's GPUs counted when it was made."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What the API answered; None: there is no such thing.

    Attributes:
        zone: ``zones.get``.
        machine: ``machineTypes.get``.
        reservation: ``reservations.get``; None also where the file names none.
        region: ``regions.get``, with quotas.
        project: ``projects.get``, with quotas.
        networks: how many of the cluster's own networks are there already.
        machines: how many of its A3 Mega machines are.
        network: of ``networks.list``, the existing one that the file names.
    """

    zone: Mapping[str, Any] | None
    machine: Mapping[str, Any] | None
    reservation: Mapping[str, Any] | None
    region: Mapping[str, Any] | None
    project: Mapping[str, Any] | None
    networks: int = 0
    machines: int = 0
    network: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that would stop the toolkit after some of it was made and paid."""

    text: str
    hint: str


def troubles(spec: ClusterSpec, gcp: Gcp, answers: Answers) -> tuple[Trouble, ...]:
    """The obstacles, the most fundamental first; empty: nothing that the API reports."""
    # What a run before this one made holds its share of quotas and reservation already.
    kinds = [node.group.machine for node in nodes_of(spec)]
    nodes = kinds.count(MACHINE) - answers.machines
    machines = figures().machines
    n2_cpus = sum(machines[kind].cpus for kind in kinds if kind and kind != MACHINE)
    return (
        *_place(gcp, answers),
        *_network(gcp, answers.network),
        *_reservation(gcp, answers.reservation, nodes),
        *_quotas(gcp, answers, nodes, n2_cpus),
    )


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


def _place(gcp: Gcp, answers: Answers) -> Iterator[Trouble]:
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
        hint = f"gcloud compute machine-types list --filter=name={MACHINE} shows where they are"
        yield Trouble(f"{gcp.zone} does not offer {MACHINE} to this project", hint)


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


def _reservation(gcp: Gcp, reservation: Mapping[str, Any] | None, nodes: int) -> Iterator[Trouble]:
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
    if machine and machine != MACHINE:
        yield Trouble(f"reservation {name} holds {machine}", f"one of {MACHINE} is needed")
        return
    left = _number(specific.get("count")) - _number(specific.get("inUseCount"))
    if specific and left < nodes:
        hint = f"declare {int(left)} nodes, or have it extended" if left else "have it extended"
        yield Trouble(f"reservation {name} has {int(left)} machines left, {nodes} are needed", hint)


def _quotas(gcp: Gcp, answers: Answers, nodes: int, n2_cpus: int) -> Iterator[Trouble]:
    region = gcp.zone.rpartition("-")[0]
    known, machine = figures(), figures().machines[MACHINE]
    # One more for everything else, unless the file names it.
    networks = machine.networks + (gcp.network is None) - answers.networks
    needs: list[tuple[str, float, Mapping[str, Any] | None, str]] = [
        ("NETWORKS", networks, answers.project, "the project"),
        ("SUBNETWORKS", networks, answers.project, "the project"),
        ("C2_CPUS", known.setup_cpus(), answers.region, region),
        ("SSD_TOTAL_GB", known.boot_disk_gb * nodes, answers.region, region),
    ]
    if n2_cpus:
        needs.append(("N2_CPUS", n2_cpus, answers.region, region))
    if gcp.provisioning != "reservation":
        needs.append((PREEMPTIBLE, machine.gpus * nodes, answers.region, region))
    for metric, amount, holder, where in needs:
        quota = _quota(holder, metric)
        if quota is None:
            continue
        left = _number(quota.get("limit")) - _number(quota.get("usage"))
        if left < amount:
            hint = "ask for more on the project's quota page (IAM & Admin, Quotas)"
            limit = f"{int(left)} of {int(_number(quota.get('limit')))} left"
            yield Trouble(f"quota {metric} of {where}: {limit}, {int(amount)} are needed", hint)


def _quota(holder: Mapping[str, Any] | None, metric: str) -> Mapping[str, Any] | None:
    quotas = records((holder or {}).get("quotas", []))
    return next((q for q in quotas if q.get("metric") == metric), None)


def _number(value: object) -> float:
    """A number, also where the API writes an int64 as text; 0 where it is missing."""
    try:
        return float(value) if isinstance(value, (int, float, str)) else 0.0
    except ValueError:
        return 0.0
