"""The modules of a blueprint and of its image, one function for each part. Pure.

What differs between machines with GPUs is in ``machines.yaml``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from corral.durations import max_time
from corral.providers.gcp.blueprint import networks
from corral.providers.gcp.blueprint.entry import module
from corral.providers.gcp.blueprint.releases import known_releases, script
from corral.providers.gcp.figures import figures
from corral.providers.gcp.machines import GpuMachine, gpu_machines
from corral.providers.gcp.section import Exascaler, Gcp, GcpStorage
from corral.slurm.conf.fields import keys_of_fields, pairs_of_fields
from corral.spec.models import NodeGroup, Partition

LOCAL_SSD: Final = "/mnt/localssd"
LATER: Final = "0.0.0.0"  # noqa: S104  # no address: stands for one that is not known yet
"""The file system's address before the base was made: gcluster must be able to write, and remove,
a deployment that was never made. No phase that mounts it is deployed with it."""

BASE_VARS: Final = (
    "project_id", "region", "zone", "network_name_system", "subnetwork_name_system",
)  # fmt: skip


_BUCKET_OPTIONS: Final = "defaults,rw,_netdev,implicit_dirs,allow_other,file_mode=777,dir_mode=777"
_EXISTING: Final = {
    "lustre": ("managed_lustre", "defaults,_netdev"),
    "exascaler": ("lustre", "defaults,_netdev"),
    "filestore": ("nfs", "defaults,hard"),
}
"""Type and options of a mount, as the module pre-existing-network-storage names them."""
_EXA_NAME: Final = "exacloud"
_LONG_PROLOG: Final = (
    "modules/embedded/community/modules/scheduler/schedmd-slurm-gcp-v6-controller/etc/"
    "long-prolog-slurm.conf.tpl"
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


def made_by_base(storage: Sequence[GcpStorage]) -> dict[str, GcpStorage]:
    """File systems that the base blueprint of v1.39.0 makes, by module id."""
    return {
        name: file_system
        for name, file_system in ids(storage).items()
        if file_system.kind != "bucket" and file_system.existing is None
    }


def base_storage(storage: Sequence[GcpStorage]) -> list[dict[str, Any]]:
    """File systems of the base blueprint (v1.39.0)."""
    modules: list[dict[str, Any]] = []
    made = made_by_base(storage)
    if any(file_system.kind == "filestore" for file_system in made.values()):
        modules.append(_peering("community/modules/network/private-service-access"))
    for name, file_system in made.items():
        if file_system.kind == "exascaler":
            modules.append(_exascaler(name, file_system))
        elif file_system.kind == "filestore":
            modules.append(_filestore(name, file_system))
    return modules


def cluster_storage(gcp: Gcp, storage: Sequence[GcpStorage]) -> list[dict[str, Any]]:
    """File systems of the blueprint that makes the nodes: made there, or by the base before."""
    old = gcp.toolkit == "v1.39.0"
    modules: list[dict[str, Any]] = []
    new = [file_system for file_system in storage if file_system.existing is None]
    if not old and any(file_system.kind in ("lustre", "filestore") for file_system in new):
        modules.append(_peering("modules/network/private-service-access"))
    for name, file_system in ids(storage).items():
        if file_system.existing is not None:
            modules.append(_existing(name, file_system, file_system.existing))
        elif file_system.kind == "bucket":
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


def cpu_nodeset(gcp: Gcp, group: NodeGroup, count: int) -> list[dict[str, Any]]:
    """Nodes without GPUs, all of which are there all the time, as those with GPUs are."""
    settings: dict[str, Any] = {
        "name": group.name,
        "node_count_static": count,
        "node_count_dynamic_max": 0,
        "machine_type": group.machine,
        "enable_public_ips": False,
        "enable_placement": False,
        "startup_script": f"$({group.name}_startup.startup_script)",
    }
    conf = dict(pairs_of_fields("NodeName", group, keys_of_fields()))
    if conf:
        settings["node_conf"] = conf
    # Both threads of a core are CPUs: the module's default is one.
    if gcp.toolkit == "v1.39.0":
        settings["enable_smt"] = True
    else:
        settings["advanced_machine_features"] = {"threads_per_core": None}
    return [
        module(
            f"{group.name}_startup",
            "modules/scripts/startup-script",
            runners=[shell("enroot-default.sh")],
        ),
        module(
            f"{group.name}_nodeset",
            "community/modules/compute/schedmd-slurm-gcp-v6-nodeset",
            use=("sysnet",),
            **settings,
        ),
    ]


def nodeset(gcp: Gcp, group: NodeGroup, count: int) -> list[dict[str, Any]]:
    """The nodes of a group with GPUs, and what they run at each boot."""
    kind = gpu_machines()[group.machine or ""]
    old, flex = gcp.toolkit == "v1.39.0", gcp.provisioning == "flex-start"
    cached = [file_system.mount for file_system in gcp.file_systems() if file_system.cache]
    startup: dict[str, Any] = {
        "local_ssd_filesystem": {"mountpoint": LOCAL_SSD, "permissions": "1777"},
        "runners": [
            *(shell(program, **kind.program_values) for program in kind.node_programs),
            shell("node-gpu-services.sh"),
            *((shell("node-ops-agent.sh"),) if gcp.ops_agent else ()),
            *(_preemption() if gcp.provisioning == "spot" else ()),
            *(
                shell("node-bucket-cache.sh", at=f"bucket-cache-{i}.sh", MOUNT=mount, NUMBER=str(i))
                for i, mount in enumerate(cached)
            ),
        ],
    }
    if not old:
        root = f'{{"data-root": "{LOCAL_SSD}/docker"}}'
        startup["docker"] = {"enabled": True, "world_writable": True, "daemon_config": root}
    settings: dict[str, Any] = {
        "name": group.name,
        "node_count_static": count,
        "node_count_dynamic_max": 0,
        "disk_type": kind.disk,
        "machine_type": group.machine,
        "enable_public_ips": False,
        "node_conf": {
            **kind.node_conf,
            **dict(pairs_of_fields("NodeName", group, keys_of_fields())),
        },
        "on_host_maintenance": "TERMINATE",
        "bandwidth_tier": "gvnic_enabled",
        "reservation_name": gcp.reservation or "",
        "enable_spot_vm": gcp.provisioning == "spot",
        # Flex-start has compact placement for later machines only (slurm-dws-flex.md of the
        # toolkit), whose example asks for none.
        "enable_placement": kind.placement and not flex,
        **({"accelerator_topology": kind.accelerator_topology} if kind.domain else {}),
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
            use=("sysnet", *networks.used(kind)),
            **settings,
            **networks.interfaces(kind),
        ),
    ]


def _preemption() -> tuple[dict[str, Any], ...]:
    """What has jobs save when a spot machine is taken back."""
    notice = figures().notice
    values = {"URL": notice.url, "HEADER": notice.header, "TAKEN": notice.taken}
    return (
        data("/usr/local/lib/corral/preemption.sh", script("preemption.sh")),
        shell("node-preemption.sh", **values, SECONDS=str(notice.seconds)),
    )


def partition(declared: Partition, kind: GpuMachine | None) -> dict[str, Any]:
    """A partition; with GPUs complete nodes only, as jobs cannot share the NICs of a node."""
    limit = {} if declared.max_time == "infinite" else {"MaxTime": max_time(declared.max_time)}
    complete = {"OverSubscribe": "EXCLUSIVE"}
    if kind:
        complete |= {"ResumeTimeout": kind.resume_s, "SuspendTimeout": kind.suspend_s}
    conf = {
        **(complete if kind else {}),
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


def _staged(gcp: Gcp, kind: GpuMachine, gpu_partitions: Sequence[str]) -> list[dict[str, Any]]:
    """Runners that put prolog and epilog of partitions with GPUs in place."""
    prologs = known_releases().prologs
    scripts = " ".join(
        f"{name}:{each.source}:{prologs.digests[each.source]}:{','.join(each.when)}"
        for name, each in kind.prologs.items()
    )
    runners = [
        shell(
            "controller-prologs.sh",
            at=f"prologs-{name}.sh",
            PARTITION=name,
            COMMIT=prologs.commit,
            SCRIPTS=scripts,
        )
        for name in gpu_partitions
    ]
    if gcp.gpu_check and gcp.toolkit != "v1.39.0":  # whose slurm-gcp has no gpu-test
        runners += [
            shell("controller-gpu-check.sh", at=f"gpu-check-{name}.sh", PARTITION=name)
            for name in gpu_partitions
        ]
    return runners


def controller(
    gcp: Gcp,
    kind: GpuMachine,
    partitions: Sequence[Partition],
    storage: Sequence[GcpStorage],
    gpu_partitions: Sequence[str],
) -> list[dict[str, Any]]:
    """Login node and controller, which stages the prologs of partitions with GPUs."""
    old = gcp.toolkit == "v1.39.0"
    long = {"slurm_conf_tpl": ("" if old else "../_") + _LONG_PROLOG} if kind.long_prolog else {}
    return [
        module(
            "controller_startup",
            "modules/scripts/startup-script",
            runners=[*_staged(gcp, kind, gpu_partitions), shell("enroot-default.sh")],
        ),
        module(
            "slurm_login",
            "community/modules/scheduler/schedmd-slurm-gcp-v6-login",
            use=("sysnet",),
            name_prefix="login",
            disk_type=kind.servers.disk,
            machine_type=kind.servers.login,
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
            machine_type=kind.servers.controller,
            **_particular(kind),
            enable_cleanup_compute=True,
            enable_external_prolog_epilog=True,
            **long,
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


def _particular(kind: GpuMachine) -> dict[str, Any]:
    """Settings of the controller that some machines need."""
    particular: dict[str, Any] = {}
    if kind.servers.controller_disk:
        particular["disk_type"] = kind.servers.controller_disk
    if not kind.servers.state_disk:
        particular["controller_state_disk"] = None
    if kind.cloud_parameters:
        particular["cloud_parameters"] = dict(kind.cloud_parameters)
    return particular


def _peering(source: str) -> dict[str, Any]:
    return module("private_service_access", source, use=("sysnet",))


def _lustre(name: str, file_system: GcpStorage) -> dict[str, Any]:
    return module(
        name,
        "modules/file-system/managed-lustre",
        use=("sysnet", "private_service_access"),
        size_gib=file_system.size_gib or figures().lustre.usual_gib,
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
        filestore_tier=figures().filestore.tier,
        size_gb=file_system.size_gib or figures().filestore.least_gib,
        local_mount=file_system.mount,
        outputs=("network_storage",),
    )


def _exascaler(name: str, file_system: GcpStorage) -> dict[str, Any]:
    servers = file_system.exascaler or Exascaler()
    return module(
        name,
        "community/modules/file-system/DDN-EXAScaler",
        use=("sysnet",),
        fsname=_EXA_NAME,
        local_mount=file_system.mount,
        instance_image={"project": "ddn-public", "family": servers.image},
        **({} if file_system.exascaler is None else _exascaler_servers(servers)),
        outputs=("network_storage",),
    )


def _exascaler_servers(servers: Exascaler) -> dict[str, Any]:
    """Machines and disks; the module takes each as one complete object."""
    mgs, mds, oss = servers.mgs, servers.mds, servers.oss
    return {
        "mgs": _server(mgs.machine, 1),
        "mgt": _target(mgs.disk_type, mgs.disk_gb, 1),
        "mds": _server(mds.machine, 1),
        "mdt": _target(mds.disk_type, mds.disk_gb, mds.disks),
        "oss": _server(oss.machine, oss.count),
        "ost": _target(oss.disk_type, oss.disk_gb, oss.disks),
    }


def _server(machine: str, count: int) -> dict[str, Any]:
    # Other values than machine and number are the defaults of the module's variables.tf.
    return {
        "node_type": machine,
        "node_cpu": "Intel Cascade Lake",
        "nic_type": "GVNIC",
        "public_ip": True,
        "node_count": count,
    }


def _target(kind: str, size_gb: int, count: int) -> dict[str, Any]:
    return {
        "disk_bus": "NVME" if kind == "scratch" else "SCSI",
        "disk_type": kind,
        "disk_size": size_gb,
        "disk_count": count,
        "disk_raid": False,
    }


def _existing(name: str, file_system: GcpStorage, source: str) -> dict[str, Any]:
    """What was there before the cluster and stays when it goes."""
    if file_system.kind == "bucket":
        where = {"remote_mount": source, "fs_type": "gcsfuse", "mount_options": _BUCKET_OPTIONS}
    else:
        server, _, remote = source.partition(":")
        kind, options = _EXISTING[file_system.kind]
        where = {
            "server_ip": server,
            "remote_mount": remote,
            "fs_type": kind,
            "mount_options": options,
        }
    return module(
        name,
        "modules/file-system/pre-existing-network-storage",
        local_mount=file_system.mount,
        **where,
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
    """``$(`` begins an expression of the toolkit's, unless a backslash comes before it.

    It halves backslashes before that one (``tokenizeBpLine`` of its pkg/config).
    """
    return re.sub(r"(\\*)\$\(", r"\1\1\\$(", text)


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


def image_script(gcp: Gcp, kind: GpuMachine, users_script: str) -> list[dict[str, Any]]:
    """What the image's machine runs before it is frozen."""
    old = gcp.toolkit == "v1.39.0"
    settings: dict[str, Any] = {
        "install_ansible": True,
        # Root's known_hosts of the toolkit's image: nodes reach each other on all networks.
        "configure_ssh_host_patterns": [*kind.ssh_hosts, "$(vars.slurm_cluster_name)*"],
        "runners": _image_runners(gcp, kind, users_script),
    }
    if old:
        settings |= {"install_docker": True, "enable_docker_world_writable": True}
    else:
        settings |= {
            "enable_gpu_network_wait_online": True,
            "docker": {"enabled": True, "world_writable": True},
        }
    return [module("image_build_script", "modules/scripts/startup-script", **settings)]


def _image_runners(gcp: Gcp, kind: GpuMachine, users_script: str) -> list[dict[str, Any]]:
    old = gcp.toolkit == "v1.39.0"
    lustre = any(s.kind == "lustre" for s in gcp.storage) or not (old or gcp.storage)
    particular = ",\n".join(f'  "{name}": {str(on).lower()}' for name, on in kind.slurm_gcp.items())
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
            particular,
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
            ("stack", kind.stack),
            ("nofile", "1048576"),
            ("cpu", "unlimited"),
            ("rtprio", "unlimited"),
        )
    )
    return [
        shell("image-hold.sh"),
        data("/var/tmp/slurm_vars.json", variables),  # noqa: S108  # on the image's machine
        shell("image-slurm.sh", SLURM_GCP=known_releases().releases[gcp.toolkit].slurm_gcp),
        *((shell("image-gve.sh"),) if old else ()),
        shell("image-container-toolkit.sh" if old else "image-cuda.sh"),
        data("/etc/security/limits.d/99-corral.conf", limits),
        data("/etc/enroot/enroot.conf", enroot),
        shell("image-userns.sh"),
        *(shell(program) for program in kind.image_programs),
        *(() if gcp.ops_agent else (shell("image-no-ops-agent.sh"),)),
        *((_users_script(users_script),) if users_script else ()),
    ]


def _users_script(text: str) -> dict[str, Any]:
    """The runner of the script that the cluster file names."""
    if not text.startswith("#!"):
        text = f"#!/bin/bash\nset -e -o pipefail\n{text}"
    content = escaped(text if text.endswith("\n") else f"{text}\n")
    return {"type": "shell", "destination": "image-script.sh", "content": content}


def image(gcp: Gcp, kind: GpuMachine) -> dict[str, Any]:
    """The image itself, by Packer."""
    base = kind.images[gcp.toolkit]
    source = {"source_image_family": base.family} if base.family else {"source_image": base.image}
    packer = module(
        "slurm-image",
        "modules/packer/custom-image",
        use=("image_build_script", "sysnet"),
        machine_type=kind.servers.image,
        **({"disk_type": kind.servers.image_disk} if kind.servers.image_disk else {}),
        **source,
        source_image_project_id=[base.project],
        image_family="$(vars.final_image_family)",
        disk_size="$(vars.disk_size_gb)",
        omit_external_ip=not gcp.public_addresses,
        metadata={"user-data": _NO_UPGRADES},
    )
    return {**packer, "kind": "packer"}
