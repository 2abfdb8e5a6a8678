"""Each rule fires on what it is for, at its place and level, and on nothing else."""

from __future__ import annotations

import re
from typing import Any

import pytest

from corral.spec import rules, values
from corral.spec.findings import Level

from .cases import GONE, LAB, LAPTOP, changed, findings_of, load_dict
from .cases_cloud import CLOUD
from .cases_iron import DEBUG, IRON, MEGA, RACKED, racks
from .cases_page import PAGE
from .cases_slurm import QUIET_SLURM, SLURM

Case = tuple[str, dict[str, Any], dict[str, Any], str]
VENDOR = {"source": "vendor", "vendor_repo": "/srv/cuda-keyring.deb"}
BACKUP = "slurm.backup_controller"
EMBEDDED = {"name": "e", "provider": "embedded", "nodes": "e0"}
PLAIN = {"slurm.accounting": False, "slurm.rest": False}
GPU_LIMIT = {"users.0.limits": {"gpus": 1}}
KEY = values.SSH_KEY.example
AGE = values.AGE_RECIPIENT.example
GROUP = {"name": "vision", "account": "vision"}


def people(**fields: Any) -> dict[str, Any]:
    """A cluster with a directory; GONE leaves a field out."""
    directory = {
        "uris": ["ldaps://ldap.example.org"],
        "base": "dc=example,dc=org",
        "bind_dn": "cn=reader,dc=example,dc=org",
        "password_file": "~/ldap",
        "groups": [GROUP],
        **fields,
    }
    kept = {name: value for name, value in directory.items() if value is not GONE}
    return {"accounts": [{"name": "vision"}], "directory": kept}


CROWD = {"qos": [{"name": "crowd", "limits": {"submitted": 9}}]}
BASIC = {**LAB["partitions"][0], "qos": "crowd"}
BELOW = [{"name": "lab"}, {"name": "vision", "parent": "lab"}, {"name": "other"}]


def NVIDIA(**fields: str) -> dict[str, Any]:  # noqa: N802  # reads as the other constants do
    """A cluster with this driver."""
    return {"software": {"nvidia": fields}}


ISLANDS = "network.mesh.islands"
MESHED: dict[str, Any] = {"network": {"control": "tailscale", "mesh": {"islands": []}}}
MESH: list[Case] = [
    ("mesh-unused", LAB, {"network.mesh": {}}, "network.mesh"),
    ("mesh-embedded", LAPTOP, {"network": {"control": "tailscale"}}, "network.control"),
    (
        "mesh-island-group",
        LAB,
        {**MESHED, ISLANDS: [{"name": "home", "groups": ["rtx", "cpus"]}]},
        "network.mesh.islands[0].groups[1]",
    ),
    (
        "mesh-island-twice",
        LAB,
        {**MESHED, ISLANDS: [{"name": "a", "groups": ["rtx"]}, {"name": "b", "groups": ["rtx"]}]},
        "network.mesh.islands[1].groups",
    ),
    (
        "mesh-island-twice",
        LAB,
        {**MESHED, ISLANDS: [{"name": "a", "groups": ["rtx"]}, {"name": "a", "groups": ["cpu"]}]},
        "network.mesh.islands[1].name",
    ),
    ("machine-name", LAB, {**MESHED, "groups.1.nodes": "Cpu_0"}, "groups[1].nodes"),
    ("machine-name", LAB, {**MESHED, "name": "my_lab"}, "name"),
    ("mesh-nfs", LAB, {"network.control": "tailscale"}, "storage[0].kind"),
    (
        "mesh-plain",
        LAB,
        {**MESHED, "network.mesh.url": "http://headscale.example.org"},
        "network.mesh.url",
    ),
]
FIRES: list[Case] = [
    *CLOUD,
    *IRON,
    *PAGE,
    *SLURM,
    (
        "mlflow-twice",
        LAB,
        {"services": {"mlflow": True, "mlflow_uri": values.TRACKING_URI.example}},
        "services.mlflow_uri",
    ),
    ("nodes-syntax", LAB, {"groups.0.nodes": "node[0-2"}, "groups[0].nodes"),
    ("nodes-syntax", LAB, {"groups.0.nodes": "node[2-0]"}, "groups[0].nodes"),
    ("nodes-syntax", LAB, {"groups.0.nodes": "node0,,node1"}, "groups[0].nodes"),
    ("nodes-syntax", LAB, {"groups.0.nodes": "node[0-99999999]"}, "groups[0].nodes"),
    ("addresses-syntax", LAB, {"groups.0.addresses": "10.0.0.[1-2"}, "groups[0].addresses"),
    (
        "too-many-nodes",
        LAPTOP,
        {"groups.0.nodes": "node[1-65536]", "groups.1": EMBEDDED},
        "groups",
    ),
    ("duplicate-node", LAB, {"groups.0.nodes": "node0,node[0-1]"}, "groups[0].nodes"),
    ("duplicate-node", LAB, {"groups.1.nodes": "node2"}, "groups[1].nodes"),
    ("node-name", LAB, {"groups.0.nodes": "node[0-2]..lab"}, "groups[0].nodes"),
    ("node-name", LAB, {"groups.1.nodes": "LocalHost"}, "groups[1].nodes"),
    ("duplicate-node", LAB, {"groups.1.nodes": "Node1"}, "groups[1].nodes"),
    ("node-name", LAB, {"groups.0.nodes": "node[0-2]-"}, "groups[0].nodes"),
    ("node-name", LAB, {"groups.0.nodes": f"{'n' * 63}[0-2]"}, "groups[0].nodes"),
    ("node-name", LAB, {"groups.1.nodes": "localhost"}, "groups[1].nodes"),
    ("node-name", LAB, {"groups.1.nodes": "default"}, "groups[1].nodes"),
    ("node-name", LAB, {"groups.1.nodes": "42"}, "groups[1].nodes"),
    ("node-range-without-brackets", LAB, {"groups.0.nodes": "node0-2"}, "groups[0].nodes"),
    ("node-range-without-brackets", LAB, {"groups.0.nodes": "node0-node2"}, "groups[0].nodes"),
    ("local-one", LAB, {"groups.0.provider": "local"}, "groups[0].nodes"),
    (
        "mesh-local",
        LAB,
        {"groups.0.provider": "local", "network": {"control": "tailscale"}},
        "network.control",
    ),
    ("addresses-missing", LAB, {"groups.0.addresses": GONE}, "groups[0]"),
    ("address-count", LAB, {"groups.0.addresses": "192.168.1.[10-11]"}, "groups[0].addresses"),
    (
        "address-duplicate",
        LAB,
        {"groups.0.addresses": "10.0.0.1,10.0.0.2,10.0.0.1"},
        "groups[0].addresses",
    ),
    ("address-duplicate", LAB, {"groups.1.addresses": "192.168.1.11"}, "groups[1].addresses"),
    ("address-invalid", LAB, {"groups.0.addresses": "192.168.1.[255-257]"}, "groups[0].addresses"),
    ("address-invalid", LAB, {"groups.0.addresses": "192.168.1.10-12"}, "groups[0].addresses"),
    ("address-invalid", LAB, {"groups.1.addresses": "192.168.1.010"}, "groups[1].addresses"),
    ("address-invalid", LAB, {"groups.1.addresses": "255.255.255.255"}, "groups[1].addresses"),
    ("address-invalid", LAB, {"groups.1.addresses": "224.0.0.1"}, "groups[1].addresses"),
    ("address-invalid", LAB, {"groups.1.addresses": "a..b"}, "groups[1].addresses"),
    ("address-loopback", LAB, {"groups.1.addresses": "127.0.1.1"}, "groups[1].addresses"),
    ("address-loopback", LAB, {"groups.1.addresses": "localhost"}, "groups[1].addresses"),
    ("address-unsafe", LAB, {"groups.1.addresses": "8.8.8.8"}, "groups[1].addresses"),
    ("address-unsafe", LAB, {"groups.1.addresses": "169.254.1.2"}, "groups[1].addresses"),
    ("mixed-providers", LAB, {"groups.2": EMBEDDED}, "groups[2].provider"),
    ("field-unused", LAB, {"groups.1.memory_mib": 4096}, "groups[1].memory_mib"),
    ("field-unused", LAB, {"groups.1.image": "debian:13"}, "groups[1].image"),
    (
        "field-unused",
        LAPTOP,
        {"groups.0.addresses": "10.0.0.[1-3]"},
        "groups[0].addresses",
    ),
    ("field-unused", LAPTOP, {"groups.0.ssh": {"port": 23}}, "groups[0].ssh"),
    ("embedded-many", LAPTOP, {"groups.0.nodes": "node[0-64]"}, "groups[0].nodes"),
    ("memory-small", LAPTOP, {"groups.0.memory_mib": 512}, "groups[0].memory_mib"),
    ("memory-small", LAPTOP, {"groups.0.memory_mib": 1200}, "groups[0].memory_mib"),
    ("gpu-source", LAB, {"groups.0.gpu.source": "host"}, "groups[0].gpu.source"),
    ("gpu-type-number", LAB, {"groups.0.gpu.type": "5090"}, "groups[0].gpu.type"),
    *(
        (rule, LAB, {"groups.0.gpu": gpu, "groups.0.gpus": gpus}, f"groups[0].{where}")
        for rule, gpu, gpus, where in (
            ("gpu-types", {"type": "a", "count": 1}, [{"type": "b", "count": 1}], "gpus"),
            (
                "gpu-types",
                GONE,
                [{"type": "a", "count": 1}, {"type": "A", "count": 2}],
                "gpus[1].type",
            ),
            (
                "gpu-types",
                GONE,
                [{"type": "a", "count": 1, "source": "host"}, {"type": "b", "count": 2}],
                "gpus[1].source",
            ),
            (
                "gpu-source",
                GONE,
                [{"type": "a", "count": 1}, {"type": "b", "count": 2, "source": "host"}],
                "gpus[1].source",
            ),
            (
                "gpu-type-number",
                GONE,
                [{"type": "a", "count": 1}, {"type": "4", "count": 2}],
                "gpus[1].type",
            ),
        )
    ),
    ("controller-unknown", LAB, {"controller": "node3"}, "controller"),
    *(
        ("backup-controller", LAPTOP, {"slurm": {"backup_controller": backup}}, BACKUP + ".node")
        for backup in (
            {"node": "node9", "state": "/shared/slurmctld"},
            {"node": "node0", "state": "/shared/slurmctld"},
        )
    ),
    *(
        (
            "backup-controller-state",
            file,
            {"slurm": {"backup_controller": backup}},
            BACKUP + ".state",
        )
        for file, backup in (
            (LAPTOP, {"node": "node1", "state": "/var/lib/slurmctld"}),
            (LAPTOP, {"node": "node1", "state": "/shared"}),
            (LAB, {"node": "rtx1", "state": "/shared/slurmctld"}),
        )
    ),
    ("group-duplicate", LAB, {"groups.1.name": "rtx"}, "groups[1].name"),
    ("group-without-partition", LAB, {"partitions.0.groups": ["rtx"]}, "groups[1].name"),
    ("feature-repeated", LAB, {"groups.0.features": ["a", "a"]}, "groups[0].features"),
    ("feature-repeated", LAB, {"groups.0.features": ["rtx"]}, "groups[0].features"),
    ("partition-duplicate", LAB, {"partitions.1.name": "main"}, "partitions[1].name"),
    ("partition-name-reserved", LAB, {"partitions.1.name": "default"}, "partitions[1].name"),
    (
        "partition-group-unknown",
        LAB,
        {"partitions.0.groups": ["rtx", "cpu", "rtz"]},
        "partitions[0].groups[2]",
    ),
    (
        "partition-group-repeated",
        LAB,
        {"partitions.1.groups": ["rtx", "rtx"]},
        "partitions[1].groups",
    ),
    ("partition-default-many", LAB, {"partitions.1.default": True}, "partitions[1].default"),
    ("partition-default-missing", LAB, {"partitions.0.default": False}, "partitions"),
    ("max-time-zero", LAB, {"partitions.1.max_time": "0-00:00"}, "partitions[1].max_time"),
    ("max-time-ambiguous", LAB, {"partitions.1.max_time": "12:30"}, "partitions[1].max_time"),
    ("slurm-version-unknown", LAB, {"slurm.version": ">=24.06"}, "slurm.version"),
    ("slurm-version-unknown", LAB, {"slurm.version": "19.05"}, "slurm.version"),
    ("slurm-version-new", LAB, {"slurm.version": ">=31.05"}, "slurm.version"),
    (
        "slurm-version-old",
        LAB,
        {"slurm.version": "~=21.08", "slurm.auth": "munge"},
        "slurm.version",
    ),
    ("auth-slurm-too-old", LAB, {"slurm.version": "23.11.4"}, "slurm.auth"),
    ("auth-slurm-loose", LAB, {"slurm.version": ">=22.05"}, "slurm.auth"),
    (
        "slurm-source-twice",
        LAB,
        {"slurm.source": {"debs": "/d", "tarball": "/t.tar.gz", "sha256": "0" * 64}},
        "slurm.source.tarball",
    ),
    (
        "slurm-tarball-digest",
        LAB,
        {"slurm.source": {"tarball": "https://x.example/slurm.tar.bz2"}},
        "slurm.source.tarball",
    ),
    ("slurm-tarball-digest", LAB, {"slurm.source": {"sha256": "0" * 64}}, "slurm.source.sha256"),
    (
        "slurm-tarball-name",
        LAB,
        {"slurm.source": {"tarball": "/slurm.zip", "sha256": "0" * 64}},
        "slurm.source.tarball",
    ),
    (
        "slurm-source-twice",
        LAB,
        {"slurm.source": {"debs": "/d", "release": "25.11.6"}},
        "slurm.source.release",
    ),
    ("slurm-release-known", LAB, {"slurm.source": {"release": "25.11.99"}}, "slurm.source.release"),
    (
        "slurm-release-known",
        LAB,
        {"slurm.source": {"release": "25.11.6", "sha256": "0" * 64}},
        "slurm.source.sha256",
    ),
    ("slurm-debs-file", LAB, {"slurm.source": {"debs": "/slurmd.deb"}}, "slurm.source.debs"),
    ("rest-without-accounting", LAB, {"slurm.accounting": False}, "slurm.accounting"),
    *MESH,
    ("network-lan-embedded", LAPTOP, {"network": {"control": "lan"}}, "network.control"),
    ("data-interface-local", LAB, {"network.data.interface": "lo"}, "network.data.interface"),
    ("data-interface-local", LAB, {"network.data.interface": "docker0"}, "network.data.interface"),
    (
        "data-interface-wireless",
        LAB,
        {"network.data.interface": "wlp2s0"},
        "network.data.interface",
    ),
    ("data-rate-unlikely", LAB, {"network.data.gbps": 2500}, "network.data.gbps"),
    ("storage-nfs-incomplete", LAB, {"storage.0.server": GONE}, "storage[0]"),
    ("storage-nfs-incomplete", LAB, {"storage.0.path": GONE}, "storage[0]"),
    ("storage-field-unused", LAB, {"storage.1.server": "node0"}, "storage[1].server"),
    ("storage-field-unused", LAB, {"storage.1.path": "/srv"}, "storage[1].path"),
    ("storage-server-unknown", LAB, {"storage.0.server": "nas"}, "storage[0].server"),
    ("storage-provider-unable", LAB, {"storage.1.kind": "provider"}, "storage[1].kind"),
    ("storage-keeper", LAB, {"storage.0": {"mount": "/s", "kind": "existing"}}, "storage[0].kind"),
    ("storage-mount-duplicate", LAB, {"storage.1.mount": "/shared"}, "storage[1].mount"),
    ("storage-mount-nested", LAB, {"storage.1.mount": "/shared/data"}, "storage[1].mount"),
    ("storage-loop", LAB, {"storage.0.path": "/shared/srv"}, "storage[0].path"),
    ("storage-loop", LAB, {"storage.0.mount": "/srv/corral/a"}, "storage[0].path"),
    ("storage-system-folder", LAB, {"storage.0.mount": "/usr"}, "storage[0].mount"),
    ("storage-system-folder", LAB, {"storage.0.mount": "/etc/corral"}, "storage[0].mount"),
    ("storage-system-folder", LAB, {"storage.0.mount": "/tmp"}, "storage[0].mount"),
    ("storage-system-folder", LAB, {"storage.0.path": "/root/x"}, "storage[0].path"),
    ("storage-hides-home", LAB, {"storage.0.mount": "/home"}, "storage[0].mount"),
    ("user-reserved", LAB, {"users.0.name": "root"}, "users[0].name"),
    ("user-reserved", LAB, {"users.0.name": "slurm"}, "users[0].name"),
    ("user-reserved", LAB, {"users.0.name": "systemd-oom"}, "users[0].name"),
    ("user-duplicate", LAB, {"users.1.name": "alice"}, "users[1].name"),
    ("uid-duplicate", LAB, {"users.1.uid": 2001}, "users[1].uid"),
    ("storage-field-unused", LAB, {"storage.1.root_squash": False}, "storage[1].root_squash"),
    ("account-duplicate", LAB, {"accounts": [{"name": "a"}, {"name": "a"}]}, "accounts[1].name"),
    ("account-reserved", LAB, {"accounts": [{"name": "root"}]}, "accounts[0].name"),
    (
        "account-parent-unknown",
        LAB,
        {"accounts": [{"name": "a", "parent": "b"}]},
        "accounts[0].parent",
    ),
    ("account-loop", LAB, {"accounts": [{"name": "a", "parent": "a"}]}, "accounts[0].parent"),
    (
        "account-loop",
        LAB,
        {"accounts": [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}]},
        "accounts[1].parent",
    ),
    ("user-account-unknown", LAB, {"users.0.account": "vision"}, "users[0].account"),
    ("health-interval", LAB, {"health": {"every": "10s"}}, "health.every"),
    ("health-interval", LAB, {"health": {"every": "1d"}}, "health.every"),
    ("backup-interval", LAB, {"backup": {"every": "5m", "to": [AGE]}}, "backup.every"),
    ("backup-recipients", LAB, {"backup": {"every": "1d"}}, "backup.to"),
    (
        "backup-folder",
        LAB,
        {"backup": {"every": "1d", "to": [AGE], "folder": "/srv"}},
        "backup.folder",
    ),
    *(
        (
            "backup-folder",
            LAB,
            {"backup": {"every": "1d", "to": [AGE], "folder": folder}},
            "backup.folder",
        )
        for folder in ("/var/log", "/var/lib", "/etc/ssh", "/usr/local/bin")
    ),
    (
        "backup-root-squash",
        LAB,
        {
            "backup": {"every": "1d", "to": [AGE], "folder": "/shared/archives"},
            "storage.0.server": "node1",
        },
        "backup.folder",
    ),
    ("backup-disk", LAB, {"backup": {"every": "1d", "to": [AGE]}}, "backup.folder"),
    ("proof-interval", LAB, {"proof": {"every": "5m"}}, "proof.every"),
    (
        "proof-preempts",
        LAB,
        {"proof": {"every": "1d"}, "qos": [{"name": "b"}, {"name": "a", "preempts": ["b"]}]},
        "proof.every",
    ),
    (
        "proof-partition",
        LAB,
        {"proof": {"every": "1d"}, "partitions.0.name": "corral-proof"},
        "partitions[0].name",
    ),
    ("qos-duplicate", LAB, {"qos": [{"name": "a"}, {"name": "a"}]}, "qos[1].name"),
    ("qos-unknown", LAB, {"users.0.qos": "high"}, "users[0].qos"),
    ("qos-unknown", LAB, {"qos": [{"name": "a", "preempts": ["b"]}]}, "qos[0].preempts[0]"),
    ("qos-unknown", LAB, {"accounts": [{"name": "a", "qos": ["b"]}]}, "accounts[0].qos[0]"),
    ("directory-kind", LAB, people(kind="ipa"), "directory.kind"),
    ("directory-kind", LAB, people(kind="ad"), "directory.kind"),
    ("directory-unencrypted", LAB, people(uris=["ldap://a"], tls="off"), "directory.tls"),
    (
        "directory-unencrypted",
        LAB,
        people(bind_dn=GONE, password_file=GONE, uris=["ldaps://b", "ldap://a"], tls="off"),
        "directory.tls",
    ),
    ("directory-password", LAB, people(bind_dn=GONE), "directory"),
    ("directory-password", LAB, people(password_file=GONE), "directory"),
    ("directory-group", LAB, people(groups=[GROUP, GROUP]), "directory.groups[1].name"),
    (
        "directory-group",
        LAB,
        people(groups=[{**GROUP, "account": "visoin"}]),
        "directory.groups[0].account",
    ),
    ("directory-group", LAB, people(groups=[{**GROUP, "qos": "x"}]), "directory.groups[0].qos"),
    *(
        ("directory-qos-submitted", LAB, {**people(), **CROWD, **use}, "qos[0].limits.submitted")
        for use in (
            {"accounts": [{"name": "vision", "qos": ["normal", "crowd"]}]},
            {"directory.groups.0.qos": "crowd"},
            {"qos.0.name": "normal"},
            {"partitions.0.qos": "crowd"},
            {"accounts": BELOW, "partitions.0": {**BASIC, "allow_accounts": ["lab"]}},
        )
    ),
    ("directory-without-accounting", LAB, {**people(), **PLAIN}, "directory.groups"),
    ("directory-homes", LAB, people(homes="/etc"), "directory.homes"),
    (
        "directory-homes",
        LAB,
        {**people(homes="/shared/home"), "access": {"login": "node[0-1]"}},
        "directory.homes",
    ),
    ("directory-homes-storage", LAB, people(homes="/shared"), "directory.homes"),
    (
        "directory-homes-storage",
        LAB,
        {**people(homes="/data/home"), "storage": [{"mount": "/data", "kind": "existing"}]},
        "directory.homes",
    ),
    ("limits-without-accounting", LAB, {**PLAIN, "qos": [{"name": "a"}]}, "qos"),
    ("limits-without-accounting", LAB, {**PLAIN, "users.1.limits": {"jobs": 1}}, "users[1]"),
    ("limit-without-gpu", LAB, {"groups.0.gpu": GONE, **GPU_LIMIT}, "users[0].limits.gpus"),
    ("home-system-folder", LAB, {"users.0.home": "/etc/alice"}, "users[0].home"),
    ("home-system-folder", LAB, {"users.0.home": "/tmp"}, "users[0].home"),
    ("home-duplicate", LAB, {"users.0.home": "/home/bob"}, "users[1].home"),
    ("key-shared", LAB, {"users.0.keys": [KEY], "users.1.keys": [KEY]}, "users[1].keys[0]"),
    ("access-login-unknown", LAB, {"access": {"login": "head"}}, "access.login"),
    ("driver-flavour", LAB, {**NVIDIA(driver="580")}, "software.nvidia.driver"),
    ("driver-flavour", LAB, {**NVIDIA(driver="550-open")}, "software.nvidia.driver"),
    (
        "driver-flavour",
        LAB,
        {"groups.0.gpu.type": "v100", **NVIDIA(driver="580-open")},
        "software.nvidia.driver",
    ),
    (
        "cuda-source",
        LAB,
        {**NVIDIA(cuda="13.0", source="distribution")},
        "software.nvidia.cuda",
    ),
    ("cuda-source", LAB, {**NVIDIA(cuda="distribution", **VENDOR)}, "software.nvidia.cuda"),
    (
        "cuda-driver",
        LAB,
        {**NVIDIA(driver="570-open", cuda="13.0", **VENDOR)},
        "software.nvidia.cuda",
    ),
    ("cuda-gpu", LAB, NVIDIA(driver="580-open", cuda="12.4", **VENDOR), "software.nvidia.cuda"),
    ("cuda-gpu", LAB, NVIDIA(driver="none", cuda="12.6", **VENDOR), "software.nvidia.cuda"),
    (
        "vendor-repo",
        LAB,
        {**NVIDIA(source="vendor", vendor_repo="https://a.example/k.deb")},
        "software.nvidia.vendor_repo",
    ),
    (
        "vendor-repo",
        LAB,
        {**NVIDIA(source="distribution", vendor_repo="/srv/k.deb")},
        "software.nvidia.vendor_repo",
    ),
    ("nvidia-unused", LAPTOP, {**NVIDIA()}, "software.nvidia"),
    ("nvlink-rack", LAB, {"groups.0.gpu": {"type": "gb300", "count": 25}}, "groups[0].gpu.type"),
    ("desktop-gpu", LAB, {"software": {"desktop": "gnome"}}, "software.desktop"),
    ("access-login-unknown", LAB, {"access": {"login": "node[0-"}}, "access.login"),
]
# Near misses: right things that look like the wrong ones above.
QUIET: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (LAB, {}),
    (LAB, {"groups.0.gpu": {"type": "gb300", "count": 24}}),
    (LAPTOP, {}),
    (LAB, {**NVIDIA(driver="auto", cuda="13.0")}),
    (LAB, {**NVIDIA(source="vendor")}),
    (LAB, {**NVIDIA(vendor_repo="/srv/k.deb")}),
    (LAB, {"groups.0.nodes": "rack1-n[0-2]", "controller": GONE, "storage": []}),
    (LAB, people()),
    (LAB, {**people(), **CROWD}),
    (LAB, {**people(), "qos": [{"name": "normal", "per_user": {"submitted": 9}}]}),
    (LAB, {**CROWD, "qos.0.name": "normal"}),
    *(
        (LAB, {**people(), **CROWD, "accounts": BELOW, "partitions.0.qos": "crowd", **access})
        for access in (
            {"partitions.0.allow_accounts": ["other"]},
            {"partitions.0.deny_accounts": ["vision"]},
        )
    ),
    (LAB, people(bind_dn=GONE, password_file=GONE, uris=["ldap://a:1389"])),
    (LAB, people(uris=["ldaps://a"], tls="off")),
    (LAB, people(homes="/shared/home")),
    (
        LAB,
        {
            **people(homes="/shared/home"),
            "storage.0.root_squash": False,
            "access": {"login": "node1"},
        },
    ),
    (LAB, {"groups.1.nodes": "rack1-2"}),
    (LAB, {"groups.0.addresses": "node[0-2].lab.example"}),
    (LAB, {"groups.0.addresses": "node[0-2]"}),
    (LAB, {"groups.0.gpu.type": "5090ti"}),
    (LAB, {"storage.0.mount": "/home/shared", "groups.0.ssh.user": "root"}),
    (LAB, {"storage.0.mount": "/home", "groups.0.ssh.user": "root"}),
    (LAB, {"storage.0.mount": "/var/data"}),
    (LAB, {"storage.0.mount": "/usr/local/data"}),
    (LAB, {"storage.0.path": "/shared"}),
    (LAB, {"storage.1.mount": "/shared2"}),
    (LAB, {"partitions": GONE}),
    (LAB, NVIDIA(driver="580-open", cuda="distribution")),
    (LAB, NVIDIA(driver="580-open", cuda="13.0", **VENDOR)),
    (LAB, NVIDIA(driver="570-open", cuda="12.8", **VENDOR)),
    (LAB, {"groups.0.gpu.type": "h100", **NVIDIA(driver="580", cuda="12.4", **VENDOR)}),
    (LAB, {"groups.0.gpu.type": "gtx1660", **NVIDIA(driver="580-open")}),
    (LAB, {"groups.0.gpu.type": "gtx1080", **NVIDIA(driver="580")}),
    (LAB, {"controller": "cpu0", "software": {"desktop": "gnome"}}),
    (LAB, {"controller": GONE}),
    (LAB, {"users": GONE}),
    (LAB, {"slurm": GONE}),
    (LAB, {"network.data.gbps": 400}),
    (LAB, {"users.0.account": "corral", "users.0.qos": "normal"}),
    (LAB, {"accounts": [{"name": "a"}, {"name": "b", "parent": "a"}], "users.0.account": "b"}),
    (LAB, GPU_LIMIT),
    (LAB, {"users.0.home": "/shared/alice", "access": {"ssh": "jobs_only", "login": "cpu0"}}),
    (LAB, {"partitions.1.max_time": "0:30:00"}),
    (LAPTOP, {"groups.0.nodes": "node[0-63]"}),
    *QUIET_SLURM,
    *((LAB, racks(*lines)) for lines in RACKED),
    (MEGA, {"groups.1": DEBUG, "partitions.0.groups": ["debug"]}),
    (LAPTOP, {"groups.0.memory_mib": 1200, "slurm": {"accounting": False, "rest": False}}),
]


@pytest.mark.parametrize(("rule", "base", "changes", "where"), FIRES)
def test_a_rule_fires_where_it_should(
    rule: str, base: dict[str, Any], changes: dict[str, Any], where: str
) -> None:
    loaded = load_dict(changed(base, changes))
    hits = [f for f in loaded.findings if (f.rule, f.where) == (rule, where)]
    assert len(hits) == 1, [str(f) for f in loaded.findings]
    declared = next(r for r in rules.RULES if r.id == rule)
    assert hits[0].level is declared.level
    assert (loaded.spec is None) == any(f.level is Level.ERROR for f in loaded.findings)
    assert hits[0].line == 1
    assert hits[0].hint
    assert not hits[0].message.endswith(".")


@pytest.mark.parametrize(("base", "changes"), QUIET)
def test_right_files_are_quiet(base: dict[str, Any], changes: dict[str, Any]) -> None:
    loaded = load_dict(changed(base, changes))
    assert [str(f) for f in loaded.findings] == []
    assert loaded.spec is not None


def test_every_rule_is_reached() -> None:
    ids = [rule.id for rule in rules.RULES]
    assert len(set(ids)) == len(ids)
    assert {rule for rule, *_ in FIRES} == set(ids)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in ids)


def test_rules_that_read_a_wrong_field_are_not_asked() -> None:
    # adresses is meant to be addresses: addresses-missing would only repeat that.
    data = changed(LAB, {"groups.0.adresses": "10.0.0.[1-3]", "groups.0.addresses": GONE})
    assert findings_of(data) == {("unknown-field", "groups[0].adresses")}


def test_rules_are_checked_in_addition_to_other_errors() -> None:
    data = changed(LAB, {"nonsense": 1, "groups.0.gpu.count": "1", "controller": "node9"})
    assert findings_of(data) == {
        ("unknown-field", "nonsense"),
        ("wrong-type", "groups[0].gpu.count"),
        ("controller-unknown", "controller"),
    }


def test_what_a_rule_reads_is_a_field() -> None:
    from corral.spec import schema as fields  # noqa: PLC0415

    known = {field.path for field in fields.walk()}
    for rule in rules.RULES:
        assert {*rule.reads, *rule.across} <= known and rule.reads + rule.across, rule.id
