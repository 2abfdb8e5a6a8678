"""A simulated Lambda Cloud, API 1.10.0."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final

from corral.testing.clouds.wire import Answer, Request
from corral.testing.clouds.world import Machine, Refused, Sim

LAUNCH = "/api/v1/instance-operations/launch"
REGIONS = MappingProxyType(
    {
        "us-west-1": "California, USA",
        "us-east-1": "Virginia, USA",
        "us-south-1": "Texas, USA",
        "europe-central-1": "Germany",
    }
)
TYPES = MappingProxyType(
    {
        # name: GPU, GPUs, vCPUs, GiB, storage GiB, cents an hour
        "gpu_1x_a10": ("A10 (24 GB PCIe)", 1, 30, 200, 1400, 75),
        "gpu_1x_h100_pcie": ("H100 (80 GB PCIe)", 1, 26, 200, 1024, 249),
        "gpu_1x_gh200": ("GH200 (96 GB)", 1, 64, 432, 4096, 149),
        "gpu_8x_h100_sxm5": ("H100 (80 GB SXM5)", 8, 208, 1800, 22000, 2392),
        "cpu_4x_general": ("N/A", 0, 4, 16, 512, 10),
    }
)
# Lambda's document lists neither 429 nor 5xx. Its text has the form of every refusal ("Error
# responses": an object error with code, message and, "when present", suggestion).
_TEXT = {"type": "string"}
_FAILURE = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {"code": _TEXT, "message": _TEXT, "suggestion": _TEXT},
            "required": ["code", "message"],
            "additionalProperties": False,
        }
    },
    "required": ["error"],
    "additionalProperties": False,
}
_HOSTNAME = re.compile(r"[a-z0-9][0-9a-z-]{0,62}")


class LambdaSim(Sim):
    """One account of a Lambda Cloud that is not there; arguments as ``Sim``."""

    name: ClassVar[str] = "lambda"
    gaps: ClassVar[Mapping[str, float]] = MappingProxyType({"calls": 1.0, "launch": 12.0})
    document: ClassVar[str] = "lambda.json"
    failure: ClassVar[Mapping[str, Any] | None] = _FAILURE
    offer: ClassVar[tuple[str, str]] = ("gpu_1x_a10", "us-west-1")
    stops: ClassVar[bool] = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.ssh_keys: dict[str, dict[str, str]] = {}
        self.rules: list[dict[str, Any]] = [
            {
                "protocol": "tcp",
                "port_range": [22, 22],
                "source_network": "0.0.0.0/0",
                "description": "ssh, somebody else's",
            },
        ]
        self.file_systems: list[dict[str, Any]] = []
        self._routes: tuple[tuple[str, Callable[[Request, str], Any]], ...] = (
            ("GET /api/v1/instance-types", lambda r, i: self._types()),
            ("GET /api/v1/regions", lambda r, i: [_region(n) for n in REGIONS]),
            ("GET /api/v1/instances", lambda r, i: [self._shown(m) for m in self.listed()]),
            ("GET /api/v1/instances/([^/]+)", lambda r, i: self._shown(self._machine(i))),
            (f"POST {LAUNCH}", lambda r, i: self._launch(r.body)),
            ("POST /api/v1/instance-operations/terminate", lambda r, i: self._terminate(r.body)),
            ("GET /api/v1/ssh-keys", lambda r, i: list(self.ssh_keys.values())),
            ("POST /api/v1/ssh-keys", lambda r, i: self._add_key(r.body)),
            ("DELETE /api/v1/ssh-keys/([^/]+)", lambda r, i: self._drop_key(i)),
            ("GET /api/v1/file-systems", lambda r, i: self.file_systems),
            ("POST /api/v1/filesystems", lambda r, i: self._add_system(r.body)),
            ("GET /api/v1/firewall-rules", lambda r, i: self.rules),
            ("PUT /api/v1/firewall-rules", lambda r, i: self._set_rules(r.body)),
        )

    def limit_of(self, request: Request) -> Sequence[str]:
        """One call a second, one launch in 12."""
        return ("calls", "launch") if request.path == LAUNCH else ("calls",)

    def refusal(self, status: int, code: str, message: str) -> Answer:
        """The error envelope."""
        error = {"code": code, "message": message, "suggestion": "See the documentation."}
        return Answer(status, {"error": error})

    def route(self, request: Request) -> Answer:
        """Carry out a request."""
        for pattern, act in self._routes:
            match = re.fullmatch(pattern, request.operation)
            if match:
                return Answer(200, {"data": act(request, match[1] if match.groups() else "")})
        raise Refused(404, "global/not-found", "no such route")

    def _types(self) -> dict[str, Any]:
        return {
            name: {
                "instance_type": _type(name),
                "regions_with_capacity_available": [
                    _region(r) for r in REGIONS if self.has_capacity(name, r)
                ],
            }
            for name in TYPES
        }

    def _launch(self, body: Mapping[str, Any]) -> dict[str, Any]:
        kind, region = body.get("instance_type_name", ""), body.get("region_name", "")
        keys = body.get("ssh_key_names", [])
        known = {k["name"]: k["public_key"] for k in self.ssh_keys.values()}
        if kind not in TYPES or region not in REGIONS or len(keys) != 1:
            raise Refused(400, "global/invalid-parameters", f"{kind} {region} {keys}")
        if keys[0] not in known:
            raise Refused(400, "global/object-does-not-exist", f"no ssh key {keys[0]}")
        if len(body.get("name", "")) > 64 or not _HOSTNAME.fullmatch(body.get("hostname", "a")):  # noqa: PLR2004
            raise Refused(400, "global/invalid-parameters", "name or hostname")
        if self.over_quota():
            raise Refused(400, "global/quota-exceeded", "Quota exceeded.")
        if not self.has_capacity(kind, region):
            code = "instance-operations/launch/insufficient-capacity"
            raise Refused(400, code, "Not enough capacity to fulfill launch request.")
        made = self.rent(
            Machine(
                self.identity("0920582c7ff041399e34823a"),
                body.get("name", ""),
                kind,
                region,
                TYPES[kind][5] / 100,
                self.now(),
                TYPES[kind][1],
                body.get("user_data", ""),
                (known[keys[0]],),
                more={
                    "hostname": body.get("hostname", ""),
                    "tags": body.get("tags", []),
                    "keys": list(keys),
                    "systems": list(body.get("file_system_names", [])),
                },
            )
        )
        return {"instance_ids": [made.id]}

    def _terminate(self, body: Mapping[str, Any]) -> dict[str, Any]:
        machines = [self._machine(i) for i in body["instance_ids"]]
        for machine in machines:
            self.terminate(machine)
        return {"terminated_instances": [self._shown(machine) for machine in machines]}

    def _machine(self, identity: str) -> Machine:
        for machine in self.listed():
            if machine.id == identity:
                return machine
        message = "Specified instance does not exist."
        raise Refused(404, "global/object-does-not-exist", message)

    def _add_key(self, body: Mapping[str, Any]) -> dict[str, str]:
        name = body["name"]
        if any(k["name"] == name for k in self.ssh_keys.values()):
            raise Refused(400, "global/invalid-parameters", "an ssh key of that name exists")
        key = {"id": self.identity("key"), "name": name, "public_key": body["public_key"]}
        self.ssh_keys[key["id"]] = key
        return key

    def _drop_key(self, identity: str) -> dict[str, Any]:
        if self.ssh_keys.pop(identity, None) is None:
            raise Refused(404, "global/not-found", "no such ssh key")
        return {}

    def _add_system(self, body: Mapping[str, Any]) -> dict[str, Any]:
        name, region = body["name"], body["region"]
        if region not in REGIONS or not re.fullmatch(r"[a-zA-Z]+[0-9a-zA-Z-]*", name):
            raise Refused(400, "global/invalid-parameters", f"{name} {region}")
        if any(s["name"] == name for s in self.file_systems):
            raise Refused(400, "global/duplicate", "a filesystem of that name exists")
        made = {
            "id": self.identity("fs"),
            "name": name,
            "mount_point": f"/lambda/nfs/{name}",
            "created": "2026-11-01T00:00:00+00:00",
            "created_by": {"id": "u1", "email": "me@example.org", "status": "active"},
            "is_in_use": False,
            "region": _region(region),
            "bytes_used": 0,
        }
        self.file_systems.append(made)
        return made

    def _set_rules(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        self.rules = list(body["data"])
        return self.rules

    def _shown(self, machine: Machine) -> dict[str, Any]:
        status = self._status(machine)
        why = {
            "available": status == "active",
            **(
                {}
                if status == "active"
                else {"reason_code": "vm-has-not-launched", "reason_description": "it boots"}
            ),
        }
        end = {"available": status not in ("terminating", "terminated")}
        shown: dict[str, Any] = {
            "id": machine.id,
            "name": machine.name,
            "status": status,
            "ssh_key_names": machine.more["keys"],
            "file_system_names": machine.more["systems"],
            "region": _region(machine.region),
            "instance_type": _type(machine.type),
            "hostname": machine.more["hostname"],
            "tags": machine.more["tags"],
            "actions": {
                **dict.fromkeys(("migrate", "rebuild", "restart", "cold_reboot"), why),
                "terminate": end,
            },
        }
        # The address may be absent until late.
        if machine.address:
            shown |= {"ip": machine.address, "private_ip": machine.address}
        return shown

    def _status(self, machine: Machine) -> str:
        if machine.ended is not None:
            return "terminating" if self.now() < machine.ended + self.end_s / 2 else "terminated"
        if machine.broken and self.now() >= machine.created + self.boot_s:
            return "unhealthy"
        return "active" if self.booted(machine) else "booting"


def _region(name: str) -> dict[str, str]:
    return {"name": name, "description": REGIONS[name]}


def _type(name: str) -> dict[str, Any]:
    gpu, gpus, vcpus, memory, storage, cents = TYPES[name]
    return {
        "name": name,
        "description": f"{gpus}x {gpu}",
        "gpu_description": gpu,
        "price_cents_per_hour": cents,
        "specs": {"vcpus": vcpus, "memory_gib": memory, "storage_gib": storage, "gpus": gpus},
    }


SIM: Final = LambdaSim
