"""A simulated RunPod, REST v2: pods and Instant Clusters."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, ClassVar, Final

from corral.testing.clouds.wire import Answer, Request
from corral.testing.clouds.world import Machine, Refused, Sim

CENTERS = ("US-KS-2", "EU-RO-1")
TYPES = MappingProxyType(
    {
        # id: name, memory GiB, dollars an hour secure, community, most in one pod
        "NVIDIA GeForce RTX 4090": ("RTX 4090", 24, 0.69, 0.34, 8),
        "NVIDIA A100 80GB PCIe": ("A100 PCIe", 80, 1.64, 1.19, 8),
        "NVIDIA H100 80GB HBM3": ("H100 SXM", 80, 2.99, 2.69, 8),
    }
)
PER_MINUTE = 240
ACTIONS = MappingProxyType(
    {
        "PROVISIONING": ("stop", "terminate"),
        "STARTING": ("stop", "terminate"),
        "RUNNING": ("stop", "restart", "terminate"),
        "EXITED": ("start", "terminate"),
        "ERROR": ("start", "terminate"),
        "TERMINATED": (),
    }
)


class RunPodSim(Sim):
    """One account of a RunPod that is not there; arguments as ``Sim``."""

    name: ClassVar[str] = "runpod"
    gaps: ClassVar[Mapping[str, float]] = MappingProxyType({"calls": 60 / PER_MINUTE})
    document: ClassVar[str] = "runpod-v2.json"
    offer: ClassVar[tuple[str, str]] = ("NVIDIA GeForce RTX 4090", "US-KS-2")

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.keys: list[str] = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG somebody-else"]
        self.clusters: dict[str, dict[str, Any]] = {}
        self.network_volumes: list[dict[str, Any]] = []
        self._routes: tuple[tuple[str, Callable[[Request, str], Answer]], ...] = (
            ("GET /v2/account/ssh-keys", lambda r, i: Answer(200, {"keys": self.keys})),
            ("PUT /v2/account/ssh-keys", lambda r, i: self._set_keys(r.body)),
            ("GET /v2/catalog/gpus", lambda r, i: Answer(200, {"gpus": self._gpus(r)})),
            ("GET /v2/pods", lambda r, i: Answer(200, {"pods": self._pods(r)})),
            ("POST /v2/pods", lambda r, i: Answer(201, self._shown(self._create(r.body)))),
            ("GET /v2/pods/([^/]+)", lambda r, i: Answer(200, self._shown(self._machine(i)))),
            ("DELETE /v2/pods/([^/]+)", lambda r, i: self._delete(i)),
            ("POST /v2/pods/([^/]+)/action", lambda r, i: self._act(i, r.body["action"])),
            ("GET /v2/clusters", lambda r, i: Answer(200, {"clusters": self._clusters()})),
            ("POST /v2/clusters", lambda r, i: Answer(201, self._create_cluster(r.body))),
            ("DELETE /v2/clusters/([^/]+)", lambda r, i: self._delete_cluster(i)),
            (
                "GET /v2/network-volumes",
                lambda r, i: Answer(200, {"networkVolumes": self.network_volumes}),
            ),
            ("POST /v2/network-volumes", lambda r, i: Answer(201, self._add_volume(r.body))),
        )

    def limit_of(self, request: Request) -> Sequence[str]:
        """All calls of a minute together."""
        return ("calls",)

    def refusal(self, status: int, code: str, message: str) -> Answer:
        """A problem+json."""
        return Answer(
            status,
            {"title": code, "status": status, "detail": message},
            {"content-type": "application/problem+json"},
        )

    def route(self, request: Request) -> Answer:
        """Carry out a request; every answer carries the rate limits."""
        for pattern, act in self._routes:
            match = re.fullmatch(pattern, request.operation)
            if match:
                answer = act(request, match[1] if match.groups() else "")
                limits = {
                    "ratelimit": f'"minute";r={PER_MINUTE - 1};t=60',
                    "ratelimit-policy": f'"minute";q={PER_MINUTE};w=60',
                }
                return Answer(answer.status, answer.body, {**answer.headers, **limits})
        raise Refused(404, "Not Found", "no such route")

    def _set_keys(self, body: Mapping[str, Any]) -> Answer:
        self.keys = list(body["keys"])
        return Answer(200, {"keys": self.keys})

    def _add_volume(self, body: Mapping[str, Any]) -> dict[str, Any]:
        if body["dataCenter"] not in CENTERS:
            raise Refused(422, "Unprocessable Entity", f"dataCenter {body['dataCenter']}")
        kept = {k: body[k] for k in ("name", "size", "dataCenter", "type")}
        self.network_volumes.append({"id": self.identity("vol"), **kept})
        return self.network_volumes[-1]

    def _gpus(self, request: Request) -> list[dict[str, Any]]:
        if ("include" in request.query) != ("product" in request.query):
            raise Refused(400, "Bad Request", "include and product come together")
        return [
            {
                "id": kind,
                "name": name,
                "pool": None,
                "manufacturer": "NVIDIA",
                "memory": memory,
                "secure": True,
                "community": True,
                "price": {"secure": secure, "community": community},
                "maxCount": {"secure": most, "community": most},
                "availability": "HIGH",
                "dataCenters": [
                    {"id": c, "name": c, "availability": self._level(kind, c, request)}
                    for c in CENTERS
                ],
            }
            for kind, (name, memory, secure, community, most) in TYPES.items()
        ]

    def _level(self, kind: str, center: str, request: Request) -> str:
        least = 2 if request.query.get("product") == "CLUSTER" else 1
        return "HIGH" if self.capacity.get((kind, center), least) >= least else "NONE"

    def _create(self, body: Mapping[str, Any], group: str = "", rank: int = 0) -> Machine:
        gpu = body["gpu"]
        centers = body.get("dataCenterIds") or list(CENTERS)
        if gpu["id"] not in TYPES or set(centers) - set(CENTERS):
            raise Refused(422, "Unprocessable Entity", f"gpu.id {gpu['id']} or {centers}")
        if gpu.get("count", 1) > TYPES[gpu["id"]][4]:
            raise Refused(422, "Unprocessable Entity", "gpu.count is too large")
        if self.over_quota():
            raise Refused(403, "Forbidden", "pod limit reached")
        free = [c for c in centers if self.has_capacity(gpu["id"], c)]
        if not free:
            detail = (
                "There are no longer any instances available with the requested specifications."
            )
            raise Refused(400, "Bad Request", detail)
        count = gpu.get("count", 1)
        env = body.get("env", {})
        return self.rent(
            Machine(
                self.identity("pod"),
                body["name"],
                gpu["id"],
                free[0],
                TYPES[gpu["id"]][2] * count,
                self.now(),
                count,
                env.get("CORRAL_BOOT", ""),
                (env["PUBLIC_KEY"],) if env.get("PUBLIC_KEY") else tuple(self.keys),
                port=22001 + len(self.rented),
                more={
                    "body": dict(body),
                    "group": group,
                    "rank": rank,
                    "cluster": self.clusters.get(group, {}),
                },
            )
        )

    def _create_cluster(self, body: Mapping[str, Any]) -> dict[str, Any]:
        compute = body["compute"]
        kind, nodes = compute["gpuTypeId"], compute["podCount"]
        asked = body.get("dataCenterIds") or CENTERS
        free = [c for c in asked if self.capacity.get((kind, c), nodes) >= nodes and kind in TYPES]
        if not free:
            raise Refused(400, "Bad Request", "There is not enough capacity in any data center.")
        identity = self.identity("clu")
        pod = {
            **{k: body[k] for k in ("image", "args", "env", "ports", "disk") if k in body},
            "gpu": {"id": kind, "count": compute["gpuCountPerPod"]},
            "dataCenterIds": [free[0]],
        }
        # Its members bear names of RunPod's own: only the flag and the cluster's id show whose.
        self.clusters[identity] = {
            "id": identity,
            "name": body["name"],
            "type": body["type"],
            "compute": compute,
            "dataCenterId": free[0],
            "createdAt": _time(self.now()),
        }
        # Ranks follow no order of ids.
        for rank in reversed(range(nodes)):
            self._create({**pod, "name": f"{identity}-{rank}"}, identity, rank)
        return self._cluster(identity)

    def adopt(self, machines: Sequence[Machine]) -> None:
        """Take machines over, and with them the clusters they are members of."""
        super().adopt(machines)
        for machine in machines:
            if machine.more.get("cluster"):
                self.clusters[machine.more["group"]] = dict(machine.more["cluster"])

    def _members(self, identity: str) -> list[Machine]:
        return [m for m in self.alive() if m.more["group"] == identity]

    def _cluster(self, identity: str) -> dict[str, Any]:
        members = self._members(identity)
        by_status: dict[str, int] = {}
        for machine in members:
            by_status[self._status(machine)] = by_status.get(self._status(machine), 0) + 1
        pods = {"total": len(members), "byStatus": by_status}
        return {**self.clusters[identity], "pods": pods, "network": {"cidr": "10.65.0.0/24"}}

    def _clusters(self) -> list[dict[str, Any]]:
        return [self._cluster(identity) for identity in self.clusters]

    def _delete_cluster(self, identity: str) -> Answer:
        if self.clusters.pop(identity, None) is None:
            raise Refused(404, "Not Found", "no such cluster")
        for machine in self._members(identity):
            self.terminate(machine)
        return Answer(204)

    def _pods(self, request: Request) -> list[dict[str, Any]]:
        every = request.query.get("includeClusterPods", "false") == "true"
        return [self._shown(m) for m in self.listed() if every or not m.more["group"]]

    def _machine(self, identity: str) -> Machine:
        for machine in self.listed():
            if machine.id == identity and machine.ended is None:
                return machine
        raise Refused(404, "Not Found", "pod not found")

    def _delete(self, identity: str) -> Answer:
        machine = self._machine(identity)
        if machine.more["group"] in self.clusters:
            raise Refused(409, "Conflict", "the pod is a member of a cluster")
        self.terminate(machine)
        return Answer(204)

    def _act(self, identity: str, action: str) -> Answer:
        machine = self._machine(identity)
        if action not in ACTIONS[self._status(machine)]:
            raise Refused(409, "Conflict", f"{action} is not allowed now")
        if action == "terminate":
            return self._delete(identity)
        machine.stopped = self.now() if action == "stop" else None
        return Answer(200, self._shown(machine))

    def _status(self, machine: Machine) -> str:
        if machine.ended is not None:
            return "TERMINATED"
        if machine.stopped is not None:
            return "EXITED"
        late = self.now() >= machine.created + self.boot_s
        if machine.broken and late:
            return "ERROR"
        if self.booted(machine):
            return "RUNNING"
        return "STARTING" if self.now() > machine.created + self.boot_s / 2 else "PROVISIONING"

    def _shown(self, machine: Machine) -> dict[str, Any]:
        body, status = machine.more["body"], self._status(machine)
        command = f"ssh root@{machine.address} -p {machine.port}"
        direct = {
            "host": machine.address,
            "port": machine.port,
            "username": "root",
            "command": command,
        }
        shown: dict[str, Any] = {
            "id": machine.id,
            "name": machine.name,
            "status": status,
            "actions": list(ACTIONS[status]),
            "image": body.get("image", ""),
            "args": body.get("args", ""),
            "disk": body.get("disk", 20),
            "mounts": body.get("mounts", {}),
            "ports": body.get("ports", []),
            "env": body.get("env", {}),
            "registry": None,
            "gpu": {"id": machine.type, "count": machine.gpus},
            "cloud": "SECURE",
            "dataCenterId": machine.region,
            "cudaVersion": "12.8",
            "ssh": {"proxy": None, "direct": direct if status == "RUNNING" else None},
            "template": None,
            "cost": machine.price,
            "locked": False,
            "globalNetworking": {"enabled": False},
            "runtime": {"uptime": int(self.now() - machine.created)}
            if status == "RUNNING"
            else None,
            "createdAt": _time(machine.created),
            "startedAt": _time(machine.created) if status == "RUNNING" else None,
        }
        group = machine.more["group"]
        if group:
            rank = machine.more["rank"]
            shown["cluster"] = {"id": group, "rank": None}  # until it is assigned
            if status != "PROVISIONING":
                shown["cluster"] |= {"rank": rank, "ip": f"10.65.0.{rank + 2}"}
        return shown


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


SIM: Final = RunPodSim
