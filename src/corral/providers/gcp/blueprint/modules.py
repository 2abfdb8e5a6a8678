"""The modules of an A3 Mega blueprint and of its image, one function for each part. Pure.

Figures are those of the toolkit's own example of the same release: a system network and eight GPU
networks, all with an MTU of 8244; nodes with 2 x 52 cores; long waits for prologs that pull images.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from corral.durations import max_time
from corral.providers.gcp.blueprint.releases import PROLOGS, PROLOGS_COMMIT, SLURM_GCP, script
from corral.providers.gcp.section import MACHINE, Gcp, GcpStorage
from corral.slurm.conf.fields import keys_of_fields, pairs_of_fields
from corral.spec.models import NodeGroup, Partition

MTU: Final = 8244
SYSTEM_RANGE: Final = "172.16.0.0/16"
GPU_RANGE: Final = "10.0.0.0/9"
LOCAL_SSD: Final = "/mnt/localssd"
LATER: Final = "0.0.0.0"  # noqa: S104  # no address: stands for one that is not known yet
"""The file system's address before the base was made: gcluster must be able to write, and remove,
a deployment that was never made. No phase that mounts it is deployed with it."""

BASE_VARS: Final = (
    "project_id", "region", "zone", "network_name_system", "subnetwork_name_system",
)  # fmt: skip


_BUCKET_OPTIONS: Final = "defaults,rw,_netdev,implicit_dirs,allow_other,file_mode=777,dir_mode=777"
_DISK: Final = "pd-balanced"
_EXA_NAME: Final = "exacloud"
_LONG_PROLOG: Final = (
    "modules/embedded/community/modules/scheduler/schedmd-slurm-gcp-v6-controller/etc/"
    "long-prolog-slurm.conf.tpl"
)


def module(
    id: str, source: str, *, use: Sequence[str] = (), outputs: Sequence[str] = (), **settings: Any
) -> dict[str, Any]:
    """One module as a blueprint writes it."""
    entry: dict[str, Any] = {"id": id, "source": source}
    if use:
        entry["use"] = list(use)
    if settings:
        entry["settings"] = settings
    if outputs:
        entry["outputs"] = list(outputs)
    return entry


def system_network() -> dict[str, Any]:
    """The network of everything but GPU traffic."""
    subnet = {
        "subnet_name": "$(vars.subnetwork_name_system)",
        "subnet_region": "$(vars.region)",
        "new_bits": 4,
        "subnet_private_access": True,
        "description": "control network of the cluster",
    }
    return module(
        "sysnet",
        "modules/network/vpc",
        network_name="$(vars.network_name_system)",
        network_address_range=SYSTEM_RANGE,
        mtu=MTU,
        subnetworks=[subnet],
        outputs=("network_name", "subnetwork_name"),
    )


def known_network() -> dict[str, Any]:
    """The same network, in a later blueprint than the one that made it."""
    return module(
        "sysnet",
        "modules/network/pre-existing-vpc",
        network_name="$(vars.network_name_system)",
        subnetwork_name="$(vars.subnetwork_name_system)",
    )


def gpu_networks() -> dict[str, Any]:
    """Eight networks, one for each NIC that carries GPU traffic."""
    return module(
        "gpunets",
        "modules/network/multivpc",
        network_name_prefix="$(vars.deployment_name)-gpunet",
        global_ip_address_range=GPU_RANGE,
        network_count=8,
        subnetwork_cidr_suffix=20,
        mtu=MTU,
    )


def ids(storage: Sequence[GcpStorage]) -> dict[str, GcpStorage]:
    """A module's id for each file system, from its mount: ``homefs``."""
    by_id: dict[str, GcpStorage] = {}
    for file_system in storage:
        word = re.sub("[^a-z0-9]", "", file_system.mount.rpartition("/")[2].lower()) or "root"
        name = f"{word}fs"
        while name in by_id:
            name += "x"
        by_id[name] = file_system
    return by_id


def base_storage(storage: Sequence[GcpStorage]) -> list[dict[str, Any]]:
    """File systems of the base blueprint (v1.39.0)."""
    modules: list[dict[str, Any]] = []
    if any(file_system.kind == "filestore" for file_system in storage):
        modules.append(_peering("community/modules/network/private-service-access"))
    for name, file_system in ids(storage).items():
        if file_system.kind == "exascaler":
            modules.append(_exascaler(name, file_system))
        elif file_system.kind == "filestore":
            modules.append(_filestore(name, file_system))
    return modules


def cluster_storage(gcp: Gcp, storage: Sequence[GcpStorage]) -> list[dict[str, Any]]:
    """File systems of the blueprint that makes the nodes: made there, or by the base before."""
    old = gcp.toolkit == "v1.39.0"
    modules: list[dict[str, Any]] = []
    if not old and any(file_system.kind in ("lustre", "filestore") for file_system in storage):
        modules.append(_peering("modules/network/private-service-access"))
    for name, file_system in ids(storage).items():
        if file_system.kind == "bucket":
            modules.append(_bucket(name, file_system, old=old))
        elif old:
            modules.append(_made_before(name, file_system))
        else:
            modules.append(
                _lustre(name, file_system)
                if file_system.kind == "lustre"
                else _filestore(name, file_system)
            )
    return modules


def nodeset(gcp: Gcp, group: NodeGroup, count: int) -> list[dict[str, Any]]:
    """The A3 Mega nodes of a group, and what they run at their first boot."""
    old, flex = gcp.toolkit == "v1.39.0", gcp.provisioning == "flex-start"
    startup: dict[str, Any] = {
        "local_ssd_filesystem": {"mountpoint": LOCAL_SSD, "permissions": "1777"},
        "runners": [shell("node-aperture.sh"), shell("node-gpu-services.sh")],
    }
    if not old:
        root = f'{{"data-root": "{LOCAL_SSD}/docker"}}'
        startup["docker"] = {"enabled": True, "world_writable": True, "daemon_config": root}
    settings: dict[str, Any] = {
        "name": group.name,
        "node_count_static": count,
        "node_count_dynamic_max": 0,
        "disk_type": "pd-ssd",
        "machine_type": MACHINE,
        "enable_public_ips": False,
        "node_conf": {
            "CoresPerSocket": 52,
            "ThreadsPerCore": 2,
            **dict(pairs_of_fields("NodeName", group, keys_of_fields())),
        },
        "on_host_maintenance": "TERMINATE",
        "bandwidth_tier": "gvnic_enabled",
        "reservation_name": gcp.reservation or "",
        "enable_spot_vm": gcp.provisioning == "spot",
        # Flex-start has compact placement for later machines only: slurm-dws-flex.md of the
        # toolkit.
        "enable_placement": not flex,
        "startup_script": f"$({group.name}_startup.startup_script)",
    }
    if old:
        settings["enable_smt"] = True
    else:
        settings["advanced_machine_features"] = {"threads_per_core": None}
        settings["dws_flex"] = {"enabled": flex}
    return [
        module(f"{group.name}_startup", "modules/scripts/startup-script", **startup),
        module(
            f"{group.name}_nodeset",
            "community/modules/compute/schedmd-slurm-gcp-v6-nodeset",
            use=("sysnet", "gpunets"),
            **settings,
        ),
    ]


def partition(declared: Partition) -> dict[str, Any]:
    """A partition; complete nodes only, since the eight NICs of a node cannot be shared by jobs."""
    limit = {} if declared.max_time == "infinite" else {"MaxTime": max_time(declared.max_time)}
    conf = {
        **{"OverSubscribe": "EXCLUSIVE", "ResumeTimeout": 900, "SuspendTimeout": 600},
        **limit,
        **dict(pairs_of_fields("PartitionName", declared, keys_of_fields())),
    }
    return module(
        f"{declared.name}_partition",
        "community/modules/compute/schedmd-slurm-gcp-v6-partition",
        use=[f"{name}_nodeset" for name in declared.groups],
        partition_name=declared.name,
        exclusive=False,
        is_default=declared.default,
        partition_conf=conf,
    )


def controller(
    gcp: Gcp, partitions: Sequence[Partition], storage: Sequence[GcpStorage]
) -> list[dict[str, Any]]:
    """Login node and controller, which stages the prologs of TCPXO."""
    old = gcp.toolkit == "v1.39.0"
    runners = [
        shell(
            "controller-tcpxo.sh",
            at=f"tcpxo-{declared.name}.sh",
            PARTITION=declared.name,
            COMMIT=PROLOGS_COMMIT,
            **PROLOGS,
        )
        for declared in partitions
    ]
    return [
        module(
            "controller_startup",
            "modules/scripts/startup-script",
            runners=[*runners, shell("enroot-default.sh")],
        ),
        module(
            "slurm_login",
            "community/modules/scheduler/schedmd-slurm-gcp-v6-login",
            use=("sysnet",),
            name_prefix="login",
            disk_type=_DISK,
            machine_type="c2-standard-4",
            enable_login_public_ips=gcp.public_addresses,
        ),
        module(
            "slurm_controller",
            "community/modules/scheduler/schedmd-slurm-gcp-v6-controller",
            use=(
                "sysnet",
                *(f"{p.name}_partition" for p in partitions),
                "slurm_login",
                *ids(storage),
            ),
            enable_controller_public_ips=gcp.public_addresses,
            machine_type="c2-standard-8",
            enable_cleanup_compute=True,
            enable_external_prolog_epilog=True,
            slurm_conf_tpl=("" if old else "../_") + _LONG_PROLOG,
            controller_startup_script="$(controller_startup.startup_script)",
            login_startup_script=escaped(script("enroot-default.sh")),
            prolog_scripts=[
                {
                    "filename": "set_hostname_for_enroot.sh",
                    "content": escaped(script("set-hostname.sh")),
                }
            ],
        ),
    ]


def _peering(source: str) -> dict[str, Any]:
    return module("private_service_access", source, use=("sysnet",))


def _lustre(name: str, file_system: GcpStorage) -> dict[str, Any]:
    return module(
        name,
        "modules/file-system/managed-lustre",
        use=("sysnet", "private_service_access"),
        size_gib=file_system.size_gib or 36000,
        per_unit_storage_throughput=file_system.mbps_per_tib,
        name=f"$(vars.deployment_name)-{name}",
        local_mount=file_system.mount,
        remote_mount="lustrefs",
        outputs=("network_storage",),
    )


def _filestore(name: str, file_system: GcpStorage) -> dict[str, Any]:
    return module(
        name,
        "modules/file-system/filestore",
        use=("sysnet", "private_service_access"),
        filestore_tier="HIGH_SCALE_SSD",
        size_gb=file_system.size_gib or 10240,
        local_mount=file_system.mount,
        outputs=("network_storage",),
    )


def _exascaler(name: str, file_system: GcpStorage) -> dict[str, Any]:
    return module(
        name,
        "community/modules/file-system/DDN-EXAScaler",
        use=("sysnet",),
        fsname=_EXA_NAME,
        local_mount=file_system.mount,
        # The only image that the module's Terraform of this release starts (seed 003).
        instance_image={
            "project": "ddn-public",
            "family": "exascaler-cloud-6-3-rocky-linux-8-optimized-gcp",
        },
        outputs=("network_storage",),
    )


def _made_before(name: str, file_system: GcpStorage) -> dict[str, Any]:
    lustre = file_system.kind == "exascaler"
    return module(
        name,
        "modules/file-system/pre-existing-network-storage",
        server_ip=f"$(vars.server_ip_{name})",
        remote_mount=f"/{_EXA_NAME}" if lustre else "/nfsshare",
        local_mount=file_system.mount,
        fs_type="lustre" if lustre else "nfs",
        mount_options="defaults,_netdev" if lustre else "defaults,hard",
    )


def _bucket(name: str, file_system: GcpStorage, *, old: bool) -> dict[str, Any]:
    return module(
        name,
        ("community/" if old else "") + "modules/file-system/cloud-storage-bucket",
        local_mount=file_system.mount,
        mount_options=_BUCKET_OPTIONS,
        random_suffix=True,
    )


def shell(name: str, *, at: str = "", **values: str) -> dict[str, Any]:
    """A runner: one of Corral's scripts, with its ``@NAME@`` filled in."""
    return {"type": "shell", "destination": at or name, "content": escaped(script(name, **values))}


def data(destination: str, content: str) -> dict[str, Any]:
    """A runner: a file with this text."""
    return {"type": "data", "destination": destination, "content": escaped(content)}


def escaped(text: str) -> str:
    """``$(`` begins an expression of the toolkit's, unless a backslash comes before it."""
    return text.replace("$(", "\\$(")


BASE_IMAGES: Final = {
    "v1.95.0": ("ubuntu-os-accelerator-images",
                "ubuntu-accelerator-2404-amd64-with-nvidia-580-v20260522"),
    "v1.39.0": ("ubuntu-os-cloud", "ubuntu-2204-lts"),
}  # fmt: skip
"""Project and image; for v1.39.0 the image's family: EXAScaler's client takes Ubuntu, not the
Debian of that release's example (seed 003)."""

# Packages that change unattended on a machine with jobs; upgrades come with a new image.
_NO_UPGRADES: Final = """\
#cloud-config
create_hostname_file: true
write_files:
- path: /etc/apt/apt.conf.d/20auto-upgrades
  permissions: '0644'
  owner: root
  content: |
    APT::Periodic::Update-Package-Lists "0";
    APT::Periodic::Unattended-Upgrade "0";
"""


def image_script(gcp: Gcp) -> list[dict[str, Any]]:
    """What the image's machine runs before it is frozen."""
    old = gcp.toolkit == "v1.39.0"
    settings: dict[str, Any] = {
        "install_ansible": True,
        # Root's known_hosts of the toolkit's image: nodes reach each other on all nine networks.
        "configure_ssh_host_patterns": [
            *(f"10.{i}.0.*" for i in range(8)),
            "$(vars.slurm_cluster_name)*",
        ],
        "runners": _image_runners(gcp),
    }
    if old:
        settings |= {"install_docker": True, "enable_docker_world_writable": True}
    else:
        settings |= {
            "enable_gpu_network_wait_online": True,
            "docker": {"enabled": True, "world_writable": True},
        }
    return [module("image_build_script", "modules/scripts/startup-script", **settings)]


def _image_runners(gcp: Gcp) -> list[dict[str, Any]]:
    old = gcp.toolkit == "v1.39.0"
    lustre = any(s.kind == "lustre" for s in gcp.storage) or not (old or gcp.storage)
    variables = "\n".join(
        [
            "{",
            '  "reboot": false,',
            f'  "install_cuda": {str(old).lower()},',
            '  "install_ompi": true,',
            # Not slurm-gcp's Lustre client: EXAScaler brings its own, for the kernel at hand.
            '  "install_lustre": false,',
            *([] if old else [f'  "install_managed_lustre": {str(lustre).lower()},']),
            '  "install_gcsfuse": true,',
            '  "monitoring_agent": "cloud-ops",',
            '  "use_open_drivers": true',
            "}",
            "",
        ]
    )
    enroot = "".join(
        f"ENROOT_{what}_PATH {path}\n"
        for what, path in (
            ("CONFIG", "${HOME}/.enroot"),
            ("RUNTIME", f"{LOCAL_SSD}/${{UID}}/enroot/runtime"),
            ("CACHE", f"{LOCAL_SSD}/${{UID}}/enroot/cache"),
            ("DATA", f"{LOCAL_SSD}/${{UID}}/enroot/data"),
            ("TEMP", f"{LOCAL_SSD}/${{UID}}/enroot"),
        )
    )
    limits = "".join(
        f"* - {what} {value}\n"
        for what, value in (
            ("memlock", "unlimited"),
            ("nproc", "unlimited"),
            ("stack", "unlimited"),
            ("nofile", "1048576"),
            ("cpu", "unlimited"),
            ("rtprio", "unlimited"),
        )
    )
    return [
        shell("image-hold.sh"),
        data("/var/tmp/slurm_vars.json", variables),  # noqa: S108  # on the image's machine
        shell("image-slurm.sh", SLURM_GCP=SLURM_GCP[gcp.toolkit]),
        *((shell("image-gve.sh"),) if old else ()),
        shell("image-container-toolkit.sh" if old else "image-cuda.sh"),
        data("/etc/security/limits.d/99-corral.conf", limits),
        data("/etc/enroot/enroot.conf", enroot),
        shell("image-userns.sh"),
        shell("image-dmabuf.sh"),
        shell("image-aperture.sh"),
    ]


def image(gcp: Gcp) -> dict[str, Any]:
    """The image itself, by Packer; not on an N-series machine, where the open driver is refused."""
    project, name = BASE_IMAGES[gcp.toolkit]
    old = gcp.toolkit == "v1.39.0"
    packer = module(
        "slurm-image",
        "modules/packer/custom-image",
        use=("image_build_script", "sysnet"),
        machine_type="c2-standard-8",
        **{"source_image_family" if old else "source_image": name},
        source_image_project_id=[project],
        image_family="$(vars.final_image_family)",
        disk_size="$(vars.disk_size_gb)",
        omit_external_ip=not gcp.public_addresses,
        metadata={"user-data": _NO_UPGRADES},
    )
    return {**packer, "kind": "packer"}
