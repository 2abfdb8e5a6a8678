"""Each field of the cluster file, and a change of it that a live cluster is put through. Data.

What the change may do follows from the impact that the field declares, so the table cannot drift
from docs/reference/cluster-file.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Final

from corral.spec.values import SSH_KEY

Data = dict[str, Any]
Edit = Callable[[Data], None]


def put(*path: str | int, value: Any) -> Edit:
    """Set one value, making the mappings on the way."""

    def edit(data: Data) -> None:
        at: Any = data
        for key, following in pairwise(path):
            if isinstance(key, str) and not at.get(key):
                at[key] = [{}] if isinstance(following, int) else {}
            at = at[key]
        at[path[-1]] = value

    return edit


def together(*edits: Edit) -> Edit:
    """Several edits as one."""

    def edit(data: Data) -> None:
        for change in edits:
            change(data)

    return edit


def add(key: str, value: Data) -> Edit:
    """One more entry of a list."""

    def edit(data: Data) -> None:
        data[key] = [*data.get(key, ()), value]

    return edit


def two_types(**fields: Any) -> Edit:
    """The first group's two GPUs as two types; the second has the fields."""

    def edit(data: Data) -> None:
        del data["groups"][0]["gpu"]
        gpus = [{"type": "big", "count": 1}, {"type": "small", "count": 1, **fields}]
        data["groups"][0]["gpus"] = gpus

    return edit


SHORT: Final = {"name": "short", "groups": ["cpu"], "max_time": "1:00:00"}
PEOPLE: Final = [{"name": "corral", "uid": 2000}]


def person(**fields: Any) -> Edit:
    """One more user; the one who owns the jobs stays."""
    return put("users", value=[*PEOPLE, {"name": "ada", "uid": 2001, **fields}])


# The first account, QOS or limit has Slurm enforce them: that is a restart. From then on, none.
BASE: Final = {"accounts": [{"name": "base"}], "qos": [{"name": "base"}]}
SWITCHES: Final = {
    "switches": [{"name": "s1", "nodes": "node[0-1]"}, {"name": "s2", "nodes": "node2"}]
}
LEVELS: Final = {"switches": [*SWITCHES["switches"], {"name": "top", "switches": ["s1", "s2"]}]}

RACK: Final = {"name": "a1", "nodes": "node[0-1]", "unit": 9}
RACK_FIELDS: Final[Mapping[str, Any]] = {
    **{"name": "a2", "nodes": "node1", "unit": 3, "height": 2, "gap": 1, "across": 2},
    **{"order": "down", "units": 48, "row": "east"},
}
RESERVED: Final = {"name": "upkeep", "start": "2099-01-31T08:00", "duration": "4"}
RESERVATION: Final[Mapping[str, Any]] = {
    "name": "other",
    "start": "2099-02-01T08:00",
    "duration": "2:30",
    "groups": ["cpu"],
    "nodes": "node2",
    "users": ["corral"],
    "accounts": ["corral"],
    "flags": [],
}

LIMITS: Final = ("gpus", "cpus", "memory_gib", "nodes", "jobs", "submitted")

EDITS: Final[Mapping[str, Edit]] = {
    "slurm.version": put("slurm", "version", value=">=23.02"),
    "slurm.scrontab": put("slurm", "scrontab", value=True),
    "slurm.rest": put("slurm", "rest", value=False),
    "slurm.accounting": put("slurm", "accounting", value=False),
    "groups.name": together(
        put("groups", 0, "name", value="other"), put("partitions", 0, "groups", value=["other"])
    ),
    "groups.features": put("groups", 0, "features", value=["fast"]),
    "groups.price_per_hour": put("groups", 0, "price_per_hour", value=12.5),
    "groups.nccl": put("groups", 0, "nccl", value=["NCCL_DEBUG=WARN"]),
    "groups.gpu.type": put("groups", 0, "gpu", "type", value="place"),
    "groups.gpu.shards": put("groups", 0, "gpu", "shards", value=8),
    "groups.gpus.type": two_types(),
    "groups.gpus.shards": two_types(shards=4),
    "partitions.groups": add("partitions", SHORT),
    "partitions.default": together(
        put("partitions", 0, "default", value=False),
        add("partitions", {**SHORT, "default": True}),
    ),
    "partitions.max_time": put("partitions", 0, "max_time", value="2-00:00:00"),
    "partitions.state": put("partitions", 0, "state", value="drain"),
    "partitions.default_time": put("partitions", 0, "default_time", value="8:00:00"),
    "partitions.min_nodes": put("partitions", 0, "min_nodes", value=2),
    "partitions.max_nodes": put("partitions", 0, "max_nodes", value=2),
    "partitions.max_cpus_per_node": put("partitions", 0, "max_cpus_per_node", value=1),
    "partitions.max_memory_gib": put("partitions", 0, "max_memory_gib", value=1),
    "partitions.priority_tier": put("partitions", 0, "priority_tier", value=2),
    "partitions.priority_job_factor": put("partitions", 0, "priority_job_factor", value=5),
    "partitions.preempt_mode": put("partitions", 0, "preempt_mode", value="requeue"),
    "partitions.grace_time": put("partitions", 0, "grace_time", value="30s"),
    "partitions.oversubscribe": put("partitions", 0, "oversubscribe", value="exclusive"),
    "partitions.allow_accounts": put("partitions", 0, "allow_accounts", value=["corral"]),
    "partitions.deny_accounts": put("partitions", 0, "deny_accounts", value=["base"]),
    "partitions.allow_qos": put("partitions", 0, "allow_qos", value=["normal"]),
    "partitions.deny_qos": put("partitions", 0, "deny_qos", value=["base"]),
    "partitions.allow_groups": put("partitions", 0, "allow_groups", value=["corral"]),
    "partitions.qos": put("partitions", 0, "qos", value="base"),
    "partitions.hidden": put("partitions", 0, "hidden", value=True),
    "licenses.name": put("licenses", value=[{"name": "matlab", "count": 2}]),
    "licenses.count": put("licenses", value=[{"name": "matlab", "count": 3}]),
    **{
        f"reservations.{name}": put("reservations", value=[{**RESERVED, name: value}])
        for name, value in RESERVATION.items()
    },
    **{
        f"racks.{name}": put("racks", value=[{**RACK, name: value}])
        for name, value in RACK_FIELDS.items()
    },
    "network.data.interface": put("network", "data", "interface", value="eth0"),
    "network.data.fabric": put("network", "data", "fabric", value="roce"),
    "network.data.gbps": put("network", "data", "gbps", value=10.0),
    "users.name": person(),
    "users.home": person(home="/home/people-ada"),
    "users.shell": person(**{"shell": "/bin/sh"}),
    "users.admin": person(admin=True),
    "users.fair_share": person(fair_share=5),
    "users.account": together(person(account="lab"), add("accounts", {"name": "lab"})),
    "users.qos": together(person(qos="night"), add("qos", {"name": "night"})),
    **{f"users.limits.{name}": person(limits={name: 1}) for name in LIMITS},
    "accounts.name": add("accounts", {"name": "lab"}),
    "accounts.parent": together(
        add("accounts", {"name": "lab"}), add("accounts", {"name": "sub", "parent": "lab"})
    ),
    "accounts.fair_share": add("accounts", {"name": "lab", "fair_share": 7}),
    **{
        f"accounts.limits.{name}": add("accounts", {"name": "lab", "limits": {name: 1}})
        for name in LIMITS
    },
    "accounts.qos": together(
        add("qos", {"name": "night"}), add("accounts", {"name": "lab", "qos": ["night"]})
    ),
    "qos.name": add("qos", {"name": "night"}),
    "qos.priority": add("qos", {"name": "night", "priority": 9}),
    "qos.max_time": add("qos", {"name": "night", "max_time": "1:00:00"}),
    **{f"qos.limits.{name}": add("qos", {"name": "night", "limits": {name: 1}}) for name in LIMITS},
    **{
        f"qos.per_user.{name}": add("qos", {"name": "night", "per_user": {name: 1}})
        for name in LIMITS
    },
    "users.keys": person(keys=[SSH_KEY.example]),
    "access.ssh": put("access", "ssh", value="jobs_only"),
    "access.between_nodes": put("access", "between_nodes", value=True),
    "access.login": put("access", value={"ssh": "jobs_only", "login": "node[0,2]"}),
    "network.firewall": put("network", "firewall", value="leave"),
    "qos.preempts": add("qos", {"name": "night", "preempts": ["base"]}),
    "network.topology.plugin": put("network", "topology", value={"plugin": "block", **SWITCHES}),
    "network.topology.switches.name": put("network", "topology", value=SWITCHES),
    "network.topology.switches.nodes": put("network", "topology", value=SWITCHES),
    "network.topology.switches.switches": put("network", "topology", value=LEVELS),
    "network.data.mtu": put("network", "data", "mtu", value=1500),
    "network.data.nics": put("network", "data", "nics", value=2),
    "health.every": put("health", "every", value="17h"),
    "health.drain": put("health", "drain", value=False),
    "health.at_most": put("health", "at_most", value=20),
    "health.skip": put("health", "skip", value=["health.disk"]),
    "slurm.prolog.minutes": put("slurm", "prolog", "minutes", value=3),
    "slurm.prolog.leftovers": put("slurm", "prolog", "leftovers", value=True),
    "slurm.prolog.gpus": put("slurm", "prolog", "gpus", value=True),
    "slurm.prolog.clocks": put("slurm", "prolog", "clocks", value="highest"),
    "slurm.prolog.drop_caches": put("slurm", "prolog", "drop_caches", value=True),
    "software.hold": put("software", "hold", value=False),
    "software.at_once": put("software", "at_once", value=2),
    "software.drain_minutes": put("software", "drain_minutes", value=5),
}

_SSH: Final = "read by provider ssh only: tests/machines"
_MADE: Final = "re-creates the machines: tests/embedded/test_provider.py"
_NFS: Final = "needs a kernel with NFS: tests/machines"
_GPU: Final = "needs a GPU or its package source: golden plans"
_HOST_GPU: Final = "host needs a GPU: tests/unit/providers/containers/gpus/test_host_gpus.py"
_ALONE: Final = "has its own test"

_RENT: Final = "needs rented groups: tests/clouds"
_GCP: Final = "written into blueprints only: tests/unit/providers/gcp/test_blueprint.py"
_MESH: Final = "needs a tailnet: tests/mesh"
_PYXIS: Final = "needs Enroot and Pyxis: tests/embedded/test_containers.py"

NOT_HERE: Final[Mapping[str, str]] = {
    "corral": "has one value",
    "name": _MADE,
    "slurm.auth": f"{_ALONE}: test_impact.py, test_a_change_that_drains_waits_for_jobs",
    "slurm.backup_controller.node": f"{_ALONE}: test_backup_controller.py",
    "slurm.backup_controller.state": f"{_ALONE}: test_backup_controller.py",
    "slurm.source.debs": "needs other packages: tests/machines",
    "slurm.source.tarball": "needs a build: tests/machines",
    "slurm.source.sha256": "needs a build: tests/machines",
    "slurm.source.release": "needs a build: tests/machines",
    "groups.provider": _MADE,
    "groups.nodes": f"{_ALONE}: test_running_cluster.py",
    "groups.addresses": _SSH,
    **{f"groups.{n}.count": _MADE for n in ("gpu", "gpus")},
    **{f"groups.{n}.source": _HOST_GPU for n in ("gpu", "gpus")},
    **{f"groups.ssh.{n}": _SSH for n in ("user", "port", "key", "jump", "password_login")},
    "groups.image": _MADE,
    "groups.memory_mib": _MADE,
    "partitions.name": f"{_ALONE}: test_impact.py, test_a_partition_goes_when_it_is_empty",
    "controller": f"{_ALONE}: test_running_cluster.py",
    "network.control": "lan has no meaning between containers",
    "storage.mount": _MADE,
    **{f"storage.{name}": _NFS for name in ("kind", "server", "path", "root_squash")},
    "users.uid": f"{_ALONE}: test_impact.py, test_a_uid_is_not_taken_from_another",
    **{
        f"directory.{n}": f"{_ALONE}: test_directory.py"
        for n in (
            *("base", "bind_dn", "ca", "every", "group_members", "homes", "kind", "password_file"),
            *("shell", "tls", "uris", "groups.account", "groups.name", "groups.qos"),
        )
    },
    **{
        f"services.notify.{n}": f"{_ALONE}: test_notify.py"
        for n in (
            *("domain", "domains", "password_file", "port", "relay", "sender", "tls", "user"),
            *("webhooks.name", "webhooks.url", "webhooks.url_file"),
        )
    },
    "slurm.x11": f"{_ALONE}: test_scrontab_x11.py",
    **{f"software.nvidia.{name}": _GPU for name in ("driver", "cuda", "source", "vendor_repo")},
    "software.nvidia.vendor_sha256": _GPU,
    "software.desktop": "installs a desktop: tests/machines",
    "software.sleep": "no containers sleep: tests/machines",
    "software.reboot": "containers do not reboot: tests/machines",
    **{f"budget.{n}": _RENT for n in ("dead_man", "grace", "guard", "per_hour", "total")},
    "budget.unguarded": _RENT,
    **{
        f"groups.cloud.{n}": _RENT
        for n in ("count", "disk_gib", "image", "prefer", "price_at_most", "regions", "type")
    },
    "groups.cloud.cluster": _RENT,
    "groups.cloud.volumes": _RENT,
    **{f"groups.cloud.fallback.{n}": _RENT for n in ("count", "provider", "regions", "type")},
    **{
        f"groups.elastic.{n}": _RENT
        for n in ("boot", "cpus", "idle", "memory_gib", "min", "present", "replace")
    },
    "groups.machine": _GCP,
    **{
        f"gcp.{n}": _GCP
        for n in ("project", "provisioning", "public_addresses", "reservation", "state_bucket")
    },
    **{
        f"gcp.{n}": _GCP
        for n in ("gpu_check", "image_script", "network.name", "network.subnetwork", "ops_agent")
    },
    **{f"gcp.{n}": f"{_ALONE}: test_mega.py" for n in ("nccl_image", "nccl_tests")},
    **{f"network.data.{n}": "needs InfiniBand: unit tests" for n in ("gid_index", "pkey")},
    "network.data.stack": "with a fabric of RDMA: test_rdma.py",
    "services.metrics": f"{_ALONE}: test_services.py",
    "services.prometheus": "golden files: an address for the page",
    "services.ui": f"{_ALONE}: test_services.py",
    **{
        f"services.page.{n}": "golden files; test_services.py has the service"
        for n in ("certificate", "hsts", "key", "listen", "names", "port")
    },
    **{
        f"services.page.clusters.{n}": "the page's settings: tests/browser/test_clusters.py"
        for n in ("name", "url")
    },
    "services.page.login.groups": "the page's settings: unit tests",
    "services.page.login.passwords": f"{_ALONE}: test_page_passwords.py",
    **{
        f"services.page.login.header.{n}": "a proxy: tests/browser/test_tls.py has the service"
        for n in ("header", "proxy", "secret_file")
    },
    **{
        f"services.page.login.oidc.{n}": "a provider: tests/browser/test_oidc.py, test_page_oidc.py"
        for n in ("ca", "claim", "client", "domain", "issuer", "logout", "scopes", "secret_file")
    },
    **{
        f"gcp.storage.{n}": _GCP
        for n in ("cache", "existing", "kind", "mbps_per_tib", "mount", "size_gib")
    },
    **{
        f"gcp.storage.exascaler.{n}": _GCP
        for server in ("mds", "mgs", "oss")
        for n in (f"{server}.disk_gb", f"{server}.disk_type", f"{server}.machine")
    },
    **{
        f"gcp.storage.exascaler.{n}": _GCP for n in ("image", "mds.disks", "oss.count", "oss.disks")
    },
    **{f"gcp.{n}": _GCP for n in ("toolkit", "zone")},
    **{
        f"network.mesh.{n}": _MESH
        for n in ("islands.groups", "islands.name", "jobs", "key_minutes", "programs", "tag", "url")
    },
    **{
        f"proof.{n}": f"{_ALONE}: test_schedule.py"
        for n in ("at_most", "drain", "every", "minutes")
    },
    **{
        f"backup.{n}": f"{_ALONE}: test_backup.py"
        for n in ("artifacts", "every", "folder", "keep", "to")
    },
    "services.mlflow": f"{_ALONE}: test_mlflow.py",
    "services.mlflow_store": f"{_ALONE}: test_mlflow.py",
    "services.mlflow_uri": f"{_ALONE}: test_mlflow.py",
    "software.containers": _PYXIS,
    **{
        f"software.pyxis.{n}": _PYXIS
        for n in ("enroot.file", "enroot.sha256", "local", "mirror", "source.file", "source.sha256")
    },
}
"""Fields that this table does not put a cluster through, and where they are or why not."""
