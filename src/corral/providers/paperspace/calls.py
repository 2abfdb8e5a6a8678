"""Paperspace's calls that list and end machines. Pure; copied to controllers (``cloud.calls``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeVar

from corral.providers.cloud.calls import MISSING, Call, Rented, Steps, nothing, pages
from corral.providers.cloud.model import Instance, State, label_of
from corral.providers.cloud.response import amount, distinct, identity, moment, records

NAME: Final = "paperspace"
GAPS: Final = MappingProxyType({"calls": 0.5, "launch": 1.0})
"""Its limits are not documented; others back off from 10 s after a 429."""

USER: Final = "paperspace"
PAGE: Final = "100"

STATES: Final[Mapping[str, State]] = MappingProxyType(
    {
        "provisioning": State.STARTING,
        "starting": State.STARTING,
        "restarting": State.STARTING,
        "serviceready": State.STARTING,
        "upgrading": State.STARTING,
        "ready": State.RUNNING,
        "stopping": State.STOPPED,
        "off": State.STOPPED,
    }
)

T = TypeVar("T")


def instances() -> Steps[tuple[Instance, ...]]:
    """All machines of the team."""
    return distinct((yield from listed("/machines", _instance)))


def terminate(machines: Sequence[Rented]) -> Steps[None]:
    """Delete them; a stopped one would go on to cost its disk and address."""
    for machine in machines:
        yield delete(f"/machines/{machine.id}")


def delete(path: str) -> Call:
    """Delete what may be gone already."""
    return Call("DELETE", path, nothing, tolerated=(MISSING,))


def listed(path: str, read: Callable[[Mapping[str, Any]], T]) -> Steps[list[T]]:
    """All pages of a list."""

    def page(data: Any) -> tuple[list[T], dict[str, str]]:
        return [read(item) for item in records(data["items"])], _cursor(data)

    return pages(path, page, {"limit": PAGE})


def _cursor(data: Mapping[str, Any]) -> dict[str, str]:
    """What leads to the next page; the document has a cursor wherever there is more."""
    more, cursor = data["hasMore"], data.get("nextPage")
    if more is False:
        return {}
    if more is not True or not isinstance(cursor, str) or not cursor:
        raise ValueError(f"hasMore is {more!r}, and nextPage {str(cursor)[:60]!r}")
    return {"after": cursor}


def _instance(data: Mapping[str, Any]) -> Instance:
    name, state = str(data["name"]), str(data["state"])
    created = data.get("dtCreated")
    return Instance(
        NAME,
        identity(data["id"]),
        name,
        label_of(name),
        State.GONE if data.get("dtDeleted") else STATES.get(state, State.BROKEN),
        str(data.get("publicIp") or ""),
        str(data.get("privateIp") or ""),
        user=USER,
        type=str(data["machineType"]),
        region=str(data["region"]),
        price=amount(data["usageRate"]),
        created=moment(created) if created else None,
        detail=state,
    )
