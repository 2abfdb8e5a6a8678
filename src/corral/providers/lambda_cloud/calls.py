"""Calls that list and end Lambda's machines. Pure; copied to controllers (``cloud.calls``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from corral.providers.cloud.calls import MISSING, Call, Rented, Steps, carried_out
from corral.providers.cloud.model import Instance, State, label_of
from corral.providers.cloud.response import amount, distinct, identity, records

NAME: Final = "lambda"
GAPS: Final = MappingProxyType({"calls": 1.0, "launch": 12.0})
"""Seconds between calls that the document gives: one a second, one launch in 12 seconds."""

USER: Final = "ubuntu"
LAUNCHED: Final = "corral-launched"
"""Tag with the time of the launch, Unix seconds: no answer of Lambda contains it."""

STATES: Final[Mapping[str, State]] = MappingProxyType(
    {
        "booting": State.STARTING,
        "active": State.RUNNING,
        "unhealthy": State.BROKEN,
        "terminating": State.ENDING,
        "terminated": State.GONE,
        "preempted": State.GONE,
    }
)


def instances() -> Steps[tuple[Instance, ...]]:
    """All instances of the account."""
    return (
        yield Call(
            "GET",
            "/api/v1/instances",
            lambda data: distinct(map(_instance, records(data["data"]))),
        )
    )


def terminate(machines: Sequence[Rented]) -> Steps[None]:
    """End all in one call; where one is gone already, one by one."""
    if not machines:
        return
    if (yield _end(machines)) is None and len(machines) > 1:
        for machine in machines:
            yield _end([machine])


def _end(machines: Sequence[Rented]) -> Call:
    return Call(
        "POST",
        "/api/v1/instance-operations/terminate",
        carried_out,
        {"instance_ids": [machine.id for machine in machines]},
        again=True,
        tolerated=(MISSING,),
    )


def _launched(data: Mapping[str, Any]) -> float | None:
    for tag in records(data.get("tags") or []):
        if tag.get("key") == LAUNCHED and str(tag.get("value", "")).isdecimal():
            return float(tag["value"])
    return None


def _instance(data: Mapping[str, Any]) -> Instance:
    name = str(data.get("name", ""))
    status = str(data["status"])
    return Instance(
        NAME,
        identity(data["id"]),
        name,
        label_of(name),
        STATES.get(status, State.BROKEN),
        str(data.get("ip") or ""),
        str(data.get("private_ip") or ""),
        user=USER,
        type=str(data["instance_type"]["name"]),
        region=str(data["region"]["name"]),
        price=amount(data["instance_type"]["price_cents_per_hour"]) / 100,
        created=_launched(data),
        detail=status,
    )
