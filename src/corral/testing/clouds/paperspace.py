"""A simulated Paperspace, API v1."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, ClassVar, Final

from corral.testing.clouds.wire import Answer, Request
from corral.testing.clouds.world import Machine, Refused, Sim

REGIONS = ("ny2", "ca1", "ams1")
TYPES = MappingProxyType(
    {
        # type: dollars an hour, vCPUs, bytes of memory, GPU, GPUs, GiB of one
        "A4000": (0.76, 8, 45 << 30, "A4000", 1, 16),
        "A100-80G": (3.18, 12, 90 << 30, "A100-80G", 1, 80),
        "H100": (5.95, 20, 250 << 30, "H100", 1, 80),
        "C5": (0.08, 4, 8 << 30, "", 0, 0),
    }
)
TEMPLATE = "tkni3aa4"
DISKS = (50, 100, 250, 500, 1000, 2000)
PAGE_AT_MOST = 120


class PaperspaceSim(Sim):
    """One team of a Paperspace that is not there; arguments as ``Sim``."""

    name: ClassVar[str] = "paperspace"
    gaps: ClassVar[Mapping[str, float]] = MappingProxyType({"calls": 0.4})
    document: ClassVar[str] = "paperspace.json"
    offer: ClassVar[tuple[str, str]] = ("A4000", "ny2")

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.scripts: dict[str, dict[str, Any]] = {}
        self.texts: dict[str, str] = {}
        self.payable = True
        self._routes: tuple[tuple[str, Callable[[Request, str], Any]], ...] = (
            ("GET /billing/account-standing", lambda r, i: self._account()),
            ("GET /os-templates", lambda r, i: self._page(r, [self._template()])),
            ("GET /startup-scripts", lambda r, i: self._page(r, list(self.scripts.values()))),
            ("POST /startup-scripts", lambda r, i: self._add_script(r.body)),
            ("DELETE /startup-scripts/([^/]+)", lambda r, i: self._drop_script(i)),
            ("GET /machines", lambda r, i: self._machines(r)),
            ("POST /machines", lambda r, i: self._create(r.body)),
            ("GET /machines/([^/]+)", lambda r, i: self._shown(self._machine(i))),
            ("DELETE /machines/([^/]+)", lambda r, i: self._delete(i)),
            ("PATCH /machines/([^/]+)/stop", lambda r, i: self._stop(i)),
            ("GET /shared-drives", lambda r, i: self._page(r, [])),
        )

    def limit_of(self, request: Request) -> Sequence[str]:
        """All calls together."""
        return ("calls",)

    def refusal(self, status: int, code: str, message: str) -> Answer:
        """Code and message."""
        return Answer(status, {"code": code, "message": message})

    def route(self, request: Request) -> Answer:
        """Carry out a request; 200 also when something was made."""
        for pattern, act in self._routes:
            match = re.fullmatch(pattern, request.operation)
            if match:
                return Answer(200, act(request, match[1] if match.groups() else ""))
        raise Refused(404, "NOT_FOUND", "no such route")

    def _page(self, request: Request, items: list[dict[str, Any]]) -> dict[str, Any]:
        begin = int(request.query.get("after", "0"))
        size = min(int(float(request.query.get("limit", "20"))), PAGE_AT_MOST)
        more = begin + size < len(items)
        page = items[begin : begin + size]
        return {"hasMore": more, "items": page, "nextPage": str(begin + size) if more else None}

    def _account(self) -> dict[str, Any]:
        return {
            "hasPaymentMethod": self.payable,
            "isAdminLocked": False,
            "isInGoodStanding": self.payable,
            "messages": [] if self.payable else ["no valid payment method"],
        }

    def _template(self) -> dict[str, Any]:
        return {
            "agentType": "LinuxHeadless",
            "availableMachineTypes": [
                {
                    "isAvailable": any(self.has_capacity(t, r) for r in REGIONS),
                    "machineTypeLabel": t,
                }
                for t in TYPES
            ],
            "defaultSizeGb": 50,
            "dtCreated": None,
            "id": TEMPLATE,
            "name": "Ubuntu 22.04",
            "operatingSystemLabel": "Ubuntu 22.04",
        }

    def _add_script(self, body: Mapping[str, Any]) -> dict[str, Any]:
        identity = self.identity("sc")
        self.texts[identity] = body["script"]
        self.scripts[identity] = {
            "assignedMachineIds": [],
            "description": None,
            "dtCreated": _time(self.now()),
            "dtDeleted": None,
            "id": identity,
            "isEnabled": True,
            "isRunOnce": body.get("isRunOnce", False),
            "name": body["name"],
        }
        return self.scripts[identity]

    def _drop_script(self, identity: str) -> dict[str, Any]:
        if identity not in self.scripts:
            raise Refused(404, "NOT_FOUND", "startup script not found")
        return self.scripts.pop(identity)

    def _create(self, body: Mapping[str, Any]) -> dict[str, Any]:
        kind, region = body["machineType"], body["region"]
        if kind not in TYPES or region not in REGIONS or body["templateId"] != TEMPLATE:
            raise Refused(400, "BAD_REQUEST", f"unknown machineType, region or templateId: {kind}")
        if body["diskSize"] not in DISKS:
            raise Refused(400, "BAD_REQUEST", f"diskSize must be one of {DISKS}")
        script = body.get("startupScriptId", "")
        if script and script not in self.scripts:
            raise Refused(404, "NOT_FOUND", "startup script not found")
        if not self.payable:
            raise Refused(402, "PAYMENT_REQUIRED", "no valid payment method")
        if self.over_quota():
            raise Refused(400, "QUOTA_EXCEEDED", "your team has reached its machine quota")
        if not self.has_capacity(kind, region):
            raise Refused(400, "OUT_OF_CAPACITY", f"{kind} is out of capacity in {region}")
        made = self.rent(
            Machine(
                self.identity("ps"),
                body["name"],
                kind,
                region,
                TYPES[kind][0],
                self.now(),
                TYPES[kind][4],
                self.texts.get(script, ""),
                more={"body": dict(body)},
            )
        )
        return {"data": self._shown(made), "event": self._event(made, "create", "new")}

    def _machine(self, identity: str) -> Machine:
        for machine in self.listed():
            if machine.id == identity and machine.ended is None:
                return machine
        raise Refused(404, "NOT_FOUND", "machine not found")

    def _machines(self, request: Request) -> dict[str, Any]:
        return self._page(request, [self._shown(m) for m in self.listed() if m.ended is None])

    def _delete(self, identity: str) -> dict[str, Any]:
        machine = self._machine(identity)
        self.terminate(machine)
        return {"data": self._shown(machine), "event": self._event(machine, "deactivate", "new")}

    def _stop(self, identity: str) -> dict[str, Any]:
        machine = self._machine(identity)
        if not self.booted(machine):
            raise Refused(409, "CONFLICT", "This machine is currently starting.")
        machine.stopped = self.now()
        return {"data": self._shown(machine), "event": self._event(machine, "stop", "new")}

    def _event(self, machine: Machine, name: str, state: str) -> dict[str, Any]:
        return {
            "dtCreated": _time(self.now()),
            "dtFinished": None,
            "dtStarted": None,
            "error": None,
            "id": self.identity("ev"),
            "machineId": machine.id,
            "name": name,
            "state": state,
        }

    def _state(self, machine: Machine) -> str:
        if machine.stopped is not None:
            return "off"
        if self.booted(machine):
            return "ready"
        return "starting" if self.now() > machine.created + self.boot_s / 2 else "provisioning"

    def _shown(self, machine: Machine) -> dict[str, Any]:
        body = machine.more["body"]
        price, cpus, memory, gpu, gpus, gib = TYPES[machine.type]
        state = self._state(machine)
        cards = [{"count": gpus, "memory": gib, "name": gpu}] if gpu else None
        return {
            "accelerators": cards,
            "agentType": "LinuxHeadless",
            "autoShutdownEnabled": body.get("autoShutdownEnabled", False),
            "autoShutdownForce": body.get("autoShutdownForce"),
            "autoShutdownTimeout": body.get("autoShutdownTimeout"),
            "autoSnapshotEnabled": False,
            "autoSnapshotFrequency": None,
            "autoSnapshotSaveCount": None,
            "cpus": cpus,
            "dtCreated": _time(machine.created),
            "dtDeleted": _time(machine.ended) if machine.ended else None,
            "dtModified": None,
            "id": machine.id,
            "machineType": machine.type,
            "name": machine.name,
            "networkId": None,
            "os": "Ubuntu 22.04",
            "privateIp": machine.address or None,
            "publicIp": machine.address or None,
            "publicIpType": body.get("publicIpType", "none"),
            "ram": memory,
            "region": machine.region,
            "reservation": None,
            "restorePointEnabled": False,
            "restorePointFrequency": None,
            "restorePointSnapshotId": None,
            "state": state,
            "storageRate": 0.01,
            "storageTotal": body["diskSize"] << 30,
            "storageUsed": 0,
            "updatesPending": False,
            "usageRate": price,
        }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


SIM: Final = PaperspaceSim
