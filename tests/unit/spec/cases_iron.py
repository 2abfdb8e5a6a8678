"""What the rules of Google Cloud, containers and switches fire on."""

from __future__ import annotations

from typing import Any, Final

from .cases import GONE, LAB

SUM: Final = "0" * 64
MEGA: Final[dict[str, Any]] = {
    "corral": "v1",
    "name": "mega",
    "groups": [
        {
            "name": "controller",
            "provider": "gcp",
            "nodes": "mega-controller",
            "ssh": {"user": "ops"},
        },
        {
            "name": "a3mega",
            "provider": "gcp",
            "machine": "a3-megagpu-8g",
            "nodes": "mega-a3mega-[0-1]",
            "gpu": {"type": "h100", "count": 8},
        },
    ],
    "controller": "mega-controller",
    "partitions": [{"name": "a3mega", "groups": ["a3mega"], "default": True}],
    "gcp": {
        "project": "my-project",
        "zone": "us-central1-c",
        "state_bucket": "my-state",
        "reservation": "mine",
        "storage": [{"mount": "/home", "kind": "lustre", "size_gib": 36000}],
    },
}
ULTRA: Final[dict[str, Any]] = {
    **MEGA,
    "groups": [
        MEGA["groups"][0],
        {**MEGA["groups"][1], "machine": "a3-ultragpu-8g", "gpu": {"type": "h200", "count": 8}},
    ],
}
A4X: Final[dict[str, Any]] = {
    **MEGA,
    "groups": [
        MEGA["groups"][0],
        {**MEGA["groups"][1], "machine": "a4x-highgpu-4g", "gpu": {"type": "gb200", "count": 4}},
    ],
}
DEBUG: Final = {
    "name": "debug", "provider": "gcp", "machine": "n2-standard-2", "nodes": "mega-debug-[0-1]",
}  # fmt: skip
NETWORK: Final = {
    **MEGA, "gcp": {**MEGA["gcp"], "network": {"name": "my-network", "subnetwork": "my-subnet"}},
}  # fmt: skip
EXASCALER: Final = {
    **MEGA,
    "gcp": {**MEGA["gcp"], "toolkit": "v1.39.0", "storage": [{"mount": "/d", "kind": "exascaler"}]},
}
PYXIS: Final = {
    "enroot": [{"file": "/srv/enroot_4.1.2-1_amd64.deb", "sha256": SUM}],
    "source": {"file": "/srv/pyxis.tar.gz", "sha256": SUM},
}
NODES: Final = "node[0-2],cpu0"


def switches(*given: dict[str, Any]) -> dict[str, Any]:
    return {"network.topology": {"switches": list(given)}}


def racks(*lines: dict[str, Any]) -> dict[str, Any]:
    """Racks of a cluster; a line is of rack a, with all of LAB's nodes, where it is not given."""
    return {"racks": [{"name": "a", "nodes": NODES, **line} for line in lines]}


RACKED: Final[list[tuple[dict[str, Any], ...]]] = [
    ({},),
    ({"order": "down", "unit": 42},),
    ({"height": 10, "units": 48, "gap": 1},),
    ({"nodes": "node[0-2]", "height": 2, "across": 3}, {"nodes": "cpu0", "unit": 3, "row": "x"}),
    ({"nodes": "node[0-1]", "units": 20}, {"nodes": "cpu0", "unit": 20}),
    ({"nodes": "node[0-1]"}, {"name": "b", "nodes": "node2,cpu0"}),
]


IRON: Final[list[tuple[str, dict[str, Any], dict[str, Any], str]]] = [
    ("gcp-groups", MEGA, {"gcp": GONE}, "groups[0].provider"),
    ("gcp-groups", LAB, {"gcp": {**MEGA["gcp"]}}, "gcp"),
    (
        "gcp-groups",
        MEGA,
        {"groups.2": {"name": "b", "provider": "ssh", "nodes": "b0", "addresses": "10.0.0.9"},
         "partitions.0.groups": ["a3mega", "b"]},
        "groups[2].provider",
    ),
    ("gcp-controller", MEGA, {"controller": GONE}, "controller"),
    ("gcp-controller", MEGA, {"groups.0.nodes": "boss"}, "groups[0].nodes"),
    ("gcp-controller", MEGA, {"partitions.0.groups": ["a3mega", "controller"]}, "partitions"),
    ("gcp-machine", MEGA, {"groups.1.gpu.count": 4}, "groups[1].gpu"),
    ("slurm-field-unused", MEGA, {"health.every": "1m"}, "health.every"),
    ("gpu-sharing", MEGA, {"groups.1.gpu.shards": 4}, "groups[1].gpu.shards"),
    ("gcp-machine", MEGA, {"groups.1.gpu": GONE}, "groups[1].gpu"),
    ("gcp-machine", MEGA, {"groups.1.machine": "n2-standard-2"}, "groups[1].gpu"),
    ("gcp-machine", MEGA, {"groups.2": DEBUG, "partitions.0.groups": ["a3mega", "debug"]},
     "partitions[0].groups"),
    ("gcp-machine", ULTRA, {"groups.1.gpu.type": "b200"}, "groups[1].gpu"),
    ("gcp-machine", ULTRA, {"groups.1.gpu.count": 16}, "groups[1].gpu"),
    ("gcp-one-type", ULTRA, {"gcp.toolkit": "v1.39.0", "gcp.storage": []}, "gcp.toolkit"),
    ("gcp-one-type", ULTRA, {"groups.2": {**MEGA["groups"][1], "name": "other",
                                          "nodes": "mega-other-[0-1]"}},
     "groups[2].machine"),
    ("gcp-for-type", A4X, {"gcp.provisioning": "spot", "gcp.reservation": GONE},
     "gcp.provisioning"),
    ("gcp-for-type", A4X, {"groups.2": DEBUG}, "groups[2].machine"),
    ("gcp-domain", A4X, {"groups.1.nodes": "mega-a3mega-[0-18]"}, "groups[1].nodes"),
    ("gcp-provisioning", ULTRA, {"gcp.reservation": GONE}, "gcp.provisioning"),
    ("gcp-login", MEGA, {"groups.0.ssh": GONE}, "groups[0].ssh"),
    ("gcp-zone", MEGA, {"gcp.zone": "us-central1-f"}, "gcp.zone"),
    ("gcp-provisioning", MEGA, {"gcp.provisioning": "flex-start"}, "gcp.reservation"),
    ("gcp-provisioning", MEGA, {"gcp.reservation": GONE}, "gcp.provisioning"),
    (
        "gcp-provisioning",
        MEGA,
        {"gcp.provisioning": "flex-start", "gcp.reservation": GONE, "gcp.toolkit": "v1.39.0",
         "gcp.storage": []},
        "gcp.provisioning",
    ),
    (
        "gcp-names",
        MEGA,
        {"name": "a-name-that-is-too-long", "controller": "a-name-that-is-too-long-controller",
         "groups.0.nodes": "a-name-that-is-too-long-controller",
         "groups.1.nodes": "a-name-that-is-too-long-a3mega-[0-1]"},
        "name",
    ),
    ("gcp-names", MEGA, {"groups.1.nodes": "node[0-1]"}, "groups[1].nodes"),
    ("gcp-names", MEGA, {"groups.1.name": "a3-mega", "partitions.0.groups": ["a3-mega"]},
     "groups[1].name"),
    ("gcp-storage", MEGA, {"gcp.storage.0.size_gib": 9000}, "gcp.storage[0].size_gib"),
    ("gcp-storage", MEGA, {"gcp.storage.0.size_gib": 36001}, "gcp.storage[0].size_gib"),
    ("gcp-storage", MEGA, {"gcp.storage.0.mbps_per_tib": 300}, "gcp.storage[0].mbps_per_tib"),
    ("gcp-storage", MEGA, {"gcp.toolkit": "v1.39.0"}, "gcp.storage[0].kind"),
    ("gcp-storage", MEGA, {"gcp.storage.0": {"mount": "/d", "kind": "exascaler"}},
     "gcp.storage[0].kind"),
    ("gcp-storage", MEGA, {"gcp.storage.0": {"mount": "/d", "kind": "filestore", "size_gib": 100}},
     "gcp.storage[0].size_gib"),
    ("gcp-storage", MEGA, {"gcp.storage.1": {"mount": "/d", "kind": "lustre"}},
     "gcp.storage[1].kind"),
    ("gcp-storage", MEGA, {"gcp.storage.0.cache": True}, "gcp.storage[0].cache"),
    ("gcp-storage", MEGA, {"gcp.storage.0.exascaler": {}}, "gcp.storage[0].exascaler"),
    ("gcp-storage", MEGA, {"gcp.storage.1": {"mount": "/gcs", "kind": "bucket", "size_gib": 9}},
     "gcp.storage[1].size_gib"),
    ("gcp-storage", EXASCALER, {"gcp.storage.0.size_gib": 9000}, "gcp.storage[0].size_gib"),
    ("gcp-storage", EXASCALER,
     {"gcp.storage.0.exascaler": {"oss": {"disk_type": "scratch", "disks": 8}}},
     "gcp.storage[0].exascaler.oss.disk_gb"),
    ("gcp-storage", MEGA, {"gcp.storage.0": {"mount": "/d", "kind": "lustre",
                                             "existing": "10.0.0.9@tcp:/lustrefs"}},
     "gcp.storage[0].existing"),
    ("gcp-storage", NETWORK, {"gcp.storage.0": {"mount": "/d", "kind": "lustre",
                                                "existing": "10.0.0.9:/lustrefs"}},
     "gcp.storage[0].existing"),
    ("gcp-storage", NETWORK, {"gcp.storage.0": {"mount": "/d", "kind": "filestore",
                                                "existing": "10.0.0.9@tcp:/lustrefs"}},
     "gcp.storage[0].existing"),
    ("gcp-storage", NETWORK, {"gcp.storage.0": {"mount": "/d", "kind": "bucket",
                                                "existing": "10.0.0.9:/share"}},
     "gcp.storage[0].existing"),
    ("gcp-storage", NETWORK, {"gcp.storage.0": {"mount": "/d", "kind": "filestore",
                                                "existing": "10.0.0.9:/s", "size_gib": 20480}},
     "gcp.storage[0].size_gib"),
    (
        "containers-source",
        LAB,
        {"software": {"containers": "pyxis", "pyxis": {**PYXIS, "mirror": "/srv/files"}}},
        "software.pyxis.mirror",
    ),
    ("containers-source", LAB, {"software": {"pyxis": PYXIS}}, "software.pyxis"),
    (
        "containers-import",
        LAB,
        {"software": {"containers": "pyxis", "pyxis": PYXIS}},
        "software.pyxis.enroot",
    ),
    (
        "containers-files",
        LAB,
        {"software": {"containers": "pyxis", "pyxis": {
            **PYXIS, "enroot": [{"file": "/srv/enroot.rpm", "sha256": SUM}]}}},
        "software.pyxis.enroot[0].file",
    ),
    (
        "containers-files",
        LAB,
        {"software": {"containers": "pyxis", "pyxis": {
            **PYXIS, "source": {"file": "/srv/pyxis.deb", "sha256": SUM}}}},
        "software.pyxis.source.file",
    ),
    ("data-rdma", LAB, {"network.data": {"fabric": "ethernet", "pkey": "0x8001"}},
     "network.data.pkey"),
    ("data-rdma", LAB, {"network.data": {"fabric": "infiniband", "gid_index": 3}},
     "network.data.gid_index"),
    ("topology-switches", LAB, switches({"name": "a", "nodes": NODES},
                                        {"name": "a", "nodes": NODES},
                                        {"name": "t", "switches": ["a"]}),
     "network.topology.switches"),
    ("topology-switches", LAB, switches({"name": "a", "nodes": NODES, "switches": ["b"]}),
     "network.topology.switches[0]"),
    ("topology-switches", LAB, switches({"name": "a", "nodes": NODES},
                                        {"name": "t", "switches": ["a", "b"]}),
     "network.topology.switches[1].switches"),
    ("topology-switches", LAB, switches({"name": "a", "nodes": "node[0-2]"},
                                        {"name": "b", "nodes": "cpu0"}),
     "network.topology.switches"),
    ("topology-nodes", LAB, switches({"name": "a", "nodes": "node[0-2]"}),
     "network.topology.switches"),
    ("topology-nodes", LAB, switches({"name": "a", "nodes": f"{NODES},elsewhere"}),
     "network.topology.switches[0].nodes"),
    ("rack-node-unknown", LAB, racks({"nodes": "node[0-3]"}), "racks[0].nodes"),
    ("rack-node-unknown", LAB, racks({"nodes": "node[0-"}), "racks[0].nodes"),
    ("rack-node-twice", LAB, racks({}, {"name": "b", "nodes": "cpu0"}), "racks[1].nodes"),
    ("rack-node-twice", LAB, racks({"nodes": "node0,node0"}), "racks[0].nodes"),
    ("rack-units", LAB, racks({"height": 11}), "racks[0].nodes"),
    ("rack-units", LAB, racks({"order": "down"}), "racks[0].nodes"),
    ("rack-units", LAB, racks({"units": 3}), "racks[0].nodes"),
    ("rack-units", LAB, racks({"gap": 13}), "racks[0].nodes"),
    ("rack-units", LAB, racks({"nodes": "node[0-2]", "height": 2}, {"nodes": "cpu0", "unit": 6}),
     "racks[1].nodes"),
    ("rack-units", LAB, racks({"nodes": "node[0-1]", "across": 2},
                              {"nodes": "cpu0", "across": 3}), "racks[1].nodes"),
    ("rack-lines-differ", LAB, racks({"nodes": "node0", "units": 48},
                                     {"nodes": "node1", "unit": 9, "units": 42}),
     "racks[1].units"),
    ("rack-lines-differ", LAB, racks({"nodes": "node0", "row": "x"},
                                     {"nodes": "node1", "unit": 9, "row": "y"}), "racks[1].row"),
]  # fmt: skip
