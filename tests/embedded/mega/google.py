"""A simulated Compute API: the GETs that Corral makes, answered from the world's file."""

from __future__ import annotations

import http.server
import json
import re
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.embedded.mega import world as worlds

TOKEN = "ya29.simulated-token"
BASE = "https://www.googleapis.com/compute/v1/projects/my-project"


class RefusedError(Exception):
    """An error as Google writes it."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"code": status, "message": message, "errors": [
            {"message": message, "domain": "global", "reason": reason}]}}  # fmt: skip


def missing(what: str) -> RefusedError:
    return RefusedError(404, "notFound", f"The resource 'projects/my-project/{what}' was not found")


def answer(world: dict[str, Any], path: str, query: dict[str, str]) -> dict[str, Any]:
    """The body of a GET below /compute/v1."""
    parts = re.fullmatch(r"/projects/([^/]+)(/.*)?", path)
    if not parts or parts[1] != world["project"]:
        raise missing("")
    rest = parts[2] or ""
    filter = query.get("filter", "")
    for pattern, make in ROUTES:
        match = re.fullmatch(pattern, rest)
        if match:
            return make(world, filter, *match.groups())
    raise missing(rest)


def quotas(limits: dict[str, float], used: dict[str, float]) -> list[dict[str, Any]]:
    return [
        {"metric": m, "limit": float(v), "usage": float(used.get(m, 0))} for m, v in limits.items()
    ]


def project(world: dict[str, Any], filter: str) -> dict[str, Any]:
    used: dict[str, float] = {
        "NETWORKS": len(world["networks"]),
        "SUBNETWORKS": len(world["networks"]),
    }
    return {
        "kind": "compute#project",
        "id": "1234567890123456789",
        "name": world["project"],
        "quotas": quotas(world["quotas"], used),
    }


def region(world: dict[str, Any], filter: str, name: str) -> dict[str, Any]:
    return {
        "kind": "compute#region",
        "name": name,
        "status": "UP",
        "quotas": quotas(world["region_quotas"], {}),
    }


def zone(world: dict[str, Any], filter: str, name: str) -> dict[str, Any]:
    if name not in world["zones"]:
        raise missing(f"zones/{name}")
    return {"kind": "compute#zone", "name": name, "status": "UP"}


def machine_type(world: dict[str, Any], filter: str, zone: str, name: str) -> dict[str, Any]:
    if name not in world["zones"].get(zone, ()):
        raise missing(f"zones/{zone}/machineTypes/{name}")
    return {
        "kind": "compute#machineType",
        "name": name,
        "zone": zone,
        "guestCpus": 208,
        "memoryMb": 1916928,
    }


def reservation(world: dict[str, Any], filter: str, zone: str, name: str) -> dict[str, Any]:
    record = world["reservations"].get(name)
    if record is None:
        raise missing(f"zones/{zone}/reservations/{name}")
    # int64 is a text in the JSON of Google's APIs.
    return {
        "kind": "compute#reservation",
        "name": name,
        "status": record["status"],
        "specificReservation": {
            "count": str(record["count"]),
            "inUseCount": str(record["used"]),
            "instanceProperties": {"machineType": record["machine"]},
        },
    }


def instances(world: dict[str, Any], filter: str, zone: str) -> dict[str, Any]:
    label, _, value = filter.removeprefix("labels.").partition("=")
    items = [instance(n, i, zone) for n, i in sorted(world["instances"].items())]
    return {
        "kind": "compute#instanceList",
        "items": [item for item in items if item["labels"].get(label) == value],
    }


def one_instance(world: dict[str, Any], filter: str, zone: str, name: str) -> dict[str, Any]:
    if name not in world["instances"]:
        raise missing(f"zones/{zone}/instances/{name}")
    made = world["created"][f"projects/my-project/zones/{zone}/instances/{name}"]
    return instance(name, world["instances"][name], zone) | {"creationTimestamp": made}


def one_network(world: dict[str, Any], filter: str, name: str) -> dict[str, Any]:
    if name not in world["networks"]:
        raise missing(f"global/networks/{name}")
    made = world["created"][f"projects/my-project/global/networks/{name}"]
    return {"kind": "compute#network", "name": name, "creationTimestamp": made}


def store(world: dict[str, Any], kind: str, path: str) -> dict[str, Any]:
    """A GET of the API of Lustre, Filestore or Storage."""
    field, made = ("items", "timeCreated") if kind == "storage" else ("instances", "createTime")
    stored = {
        id: {
            "name": id,
            made: world["created"][id],
            "labels": {"ghpc_deployment": key.partition("/")[0]},
        }
        for id, key in world["storage"].items()
    }
    if path.strip("/") in stored:
        return stored[path.strip("/")]
    if path not in ("/b", "/projects/my-project/locations/us-central1-c/instances"):
        raise missing(path)
    mine = {"storage": "b/"}.get(kind, "projects/my-project/locations/")
    return {field: [s for id, s in stored.items() if id.startswith(mine)]}


def instance(name: str, record: dict[str, Any], zone: str) -> dict[str, Any]:
    machine = worlds.MACHINE if record["role"] == "compute" else "c2-standard-8"
    nic: dict[str, Any] = {"name": "nic0", "networkIP": record.get("address", "172.16.0.9")}
    if record.get("public"):
        nic["accessConfigs"] = [{"type": "ONE_TO_ONE_NAT", "natIP": record["public"]}]
    return {
        "kind": "compute#instance",
        "name": name,
        "status": record.get("status", "RUNNING"),
        "machineType": f"{BASE}/zones/{zone}/machineTypes/{machine}",
        "labels": labels_of(record),
        "networkInterfaces": [nic],
    }


def labels_of(record: dict[str, Any]) -> dict[str, str]:
    if record["role"] == "packer":
        return {"ghpc_role": "packer", "ghpc_deployment": record["deployment"]}
    labels = {"slurm_cluster_name": record["cluster"], "slurm_instance_role": record["role"]}
    # The toolkit labels what Terraform makes; slurm-gcp's own nodes are not of interest here.
    return labels | ({"ghpc_deployment": record["deployment"]} if "deployment" in record else {})


def disks(world: dict[str, Any], filter: str, zone: str) -> dict[str, Any]:
    items = [disk(world, zone, name, cluster) for name, cluster in world["disks"].items()]
    field, _, value = filter.partition("=")
    if field == "labels.slurm_cluster_name":
        items = [item for item in items if item["labels"].get("slurm_cluster_name") == value]
    elif named := re.fullmatch("name eq '([^']*)'", filter):
        items = [item for item in items if re.fullmatch(named[1], item["name"])]
    return {"kind": "compute#diskList", "items": items}


def disk(world: dict[str, Any], zone: str, name: str, cluster: str) -> dict[str, Any]:
    made = world["created"].get(f"projects/my-project/zones/{zone}/disks/{name}")
    return {
        "kind": "compute#disk",
        "name": name,
        "labels": {"slurm_cluster_name": cluster} if cluster else {},
        **({"creationTimestamp": made} if made else {}),
        "users": [f"{BASE}/zones/{zone}/instances/{name}"] if name in world["instances"] else [],
    }


def images(world: dict[str, Any], filter: str) -> dict[str, Any]:
    family = filter.removeprefix("family=")
    return {
        "kind": "compute#imageList",
        "items": [
            {
                "kind": "compute#image",
                "name": name,
                "family": family,
                "status": "READY" if image["finished"] <= time.time() else "PENDING",
                "labels": image["labels"],
                "sourceDisk": f"https://www.googleapis.com/compute/v1/{image['disk']}",
                "creationTimestamp": world["created"][f"images/{name}"],
            }
            for name, image in world["images"].items()
            if image["family"] == family
        ],
    }


def networks(world: dict[str, Any], filter: str) -> dict[str, Any]:
    """In pages of three: nine networks need the token of the next page."""
    names = ["default", *world["networks"]]
    return {
        "kind": "compute#networkList",
        "items": [{"kind": "compute#network", "name": n} for n in names],
    }


ROUTES: list[tuple[str, Any]] = [
    (r"", project),
    (r"/regions/([^/]+)", region),
    (r"/zones/([^/]+)", zone),
    (r"/zones/([^/]+)/machineTypes/([^/]+)", machine_type),
    (r"/zones/([^/]+)/reservations/([^/]+)", reservation),
    (r"/zones/([^/]+)/instances", instances),
    (r"/zones/([^/]+)/instances/([^/]+)", one_instance),
    (r"/zones/([^/]+)/disks", disks),
    (r"/global/images", images),
    (r"/global/networks", networks),
    (r"/global/networks/([^/]+)", one_network),
]


def paged(body: dict[str, Any], token: str) -> dict[str, Any]:
    """Three items at a time."""
    if "items" not in body:
        return body
    begin = int(token or 0)
    rest = body["items"][begin + 3 :]
    more = {"nextPageToken": str(begin + 3)} if rest else {}
    items = body["items"][begin : begin + 3]
    return (
        {k: v for k, v in body.items() if k != "items"} | ({"items": items} if items else {}) | more
    )


class Server(http.server.ThreadingHTTPServer):
    """Listens on a free port of loopback."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.methods: set[str] = set()
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return self.url_of("compute")

    def url_of(self, kind: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{kind}/v1"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers, and refuses whoever has no token."""

    server: Server

    def serve(self) -> None:
        self.server.methods.add(self.command)
        parts = urlsplit(self.path)
        query = {k: v[0] for k, v in parse_qs(parts.query).items()}
        try:
            if self.headers.get("authorization") != f"Bearer {TOKEN}":
                raise RefusedError(
                    401, "authError", "Request had invalid authentication credentials."
                )
            worlds.step(f"{self.command} {parts.path}", self.server.folder)
            _, kind, path = re.split(r"^/(\w+)/v1", parts.path)
            world = worlds.read(self.server.folder)
            body = answer(world, path, query) if kind == "compute" else store(world, kind, path)
            status, body = 200, paged(body, query.get("pageToken", ""))
        except RefusedError as error:
            status, body = error.status, error.body
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json; charset=UTF-8")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = serve  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """http.server prints a line per request to standard error."""
