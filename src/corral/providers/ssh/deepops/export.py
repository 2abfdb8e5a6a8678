"""A cluster file in DeepOps' words, and what those cannot express. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from corral.durations import max_time
from corral.errors import Code, CorralError
from corral.providers.export_files import Export, as_yaml, unexpressed
from corral.spec.models import ClusterSpec
from corral.spec.nodes import (
    Node,
    controller_of,
    nodes_of,
    partitions_of,
)
from corral.spec.slurm.hostlist import expand
from corral.state.storage.fstab import NFS_OPTIONS

INVENTORY: Final = "inventory"
VARIABLES: Final = "group_vars/slurm-cluster.yml"
HEADER: Final = "# Written by Corral from the cluster file {name}.\n"

# Which services of DeepOps run where, next to the groups that hold hosts
# (config.example/inventory).
_CHILDREN: Final = (
    ("slurm-cache", ("slurm-master",)),
    ("slurm-metric", ("slurm-master",)),
    ("slurm-cluster", ("slurm-master", "slurm-node", "slurm-cache", "slurm-nfs", "slurm-metric",
                       "slurm-login")),
)  # fmt: skip


def export(spec: ClusterSpec, folder: str) -> Export:
    """Inventory and variables in a folder, and the command that reads them.

    Raises:
        CorralError: SPEC_INVALID, a group is not of provider ssh.
    """
    run = f"ansible-playbook -i {folder}/{INVENTORY} playbooks/slurm-cluster.yml"
    if nfs_servers(spec)[1:]:
        run += " -e nfs_server_group=slurm-nfs"  # it takes the group's first server alone
    return Export(deepops_files(spec), (run,), not_exported(spec))


def deepops_files(spec: ClusterSpec) -> dict[str, str]:
    """Inventory and variables that DeepOps' playbook slurm-cluster.yml reads.

    Raises:
        CorralError: SPEC_INVALID, a group is not of provider ssh.
    """
    nodes = nodes_of(spec)
    for node in nodes:
        if not node.group.capabilities.owned:
            raise CorralError(
                Code.SPEC_INVALID,
                f"DeepOps sets up existing machines, and {node.name} is of provider "
                f"{node.group.provider}",
                hint="export a cluster whose groups are of provider ssh",
            )
    lines = [HEADER.format(name=spec.name).strip(), "[all]", *(_line(n) for n in nodes)]
    jobs = {g for p in partitions_of(spec) for g in p.groups}
    login = expand(spec.access.login) if spec.access.login else [controller_of(spec)]
    workers = [n.name for n in nodes if n.group.name in jobs]
    servers = nfs_servers(spec)
    # The playbook takes the clients from this group, whatever nfs_client_group contains: variables
    # of a group are not known where a play chooses its hosts (DeepOps 26.07, ansible-core 2.19,
    # seen).
    clients = dict.fromkeys((controller_of(spec), *login, *workers)) if servers else ()
    for name, members in (
        ("slurm-master", [controller_of(spec)]),
        ("slurm-login", list(login)),
        ("slurm-nfs", servers),
        ("slurm-nfs-client", [name for name in clients if name not in servers]),
        ("slurm-node", workers),
    ):
        lines += ["", f"[{name}]", *members]
    for name, children in _CHILDREN:
        lines += ["", f"[{name}:children]", *children]
    comments = "".join(f"# not carried over: {line}\n" for line in not_exported(spec))
    files = {INVENTORY: "\n".join(lines) + "\n", VARIABLES: _variables(spec, comments)}
    if servers[1:]:
        head = HEADER.format(name=spec.name)
        for server in servers:
            files[f"host_vars/{server}.yml"] = head + as_yaml(
                {"nfs_exports": _exports(spec, server)}
            )
    return files


def _line(node: Node) -> str:
    """A machine in the inventory: where it is, and how to log in."""
    ssh = node.group.ssh
    words = [node.name, f"ansible_host={node.address}", f"ansible_user={ssh.user}"]
    if ssh.port != 22:  # noqa: PLR2004
        words.append(f"ansible_port={ssh.port}")
    if ssh.key:
        words.append(f"ansible_ssh_private_key_file={ssh.key}")
    if ssh.jump:
        words.append(f"ansible_ssh_common_args='-o ProxyJump={ssh.jump}'")
    # DeepOps leaves these two alone: corral init --from-deepops reads them.
    words.append(f"corral_group={node.group.name}")
    if node.group.gpu:  # several types (gpus) DeepOps finds itself
        words.append(f"corral_gpu={node.group.gpu.type}:{node.group.gpu.count}")
    return " ".join(words)


def nfs_servers(spec: ClusterSpec) -> list[str]:
    """Nodes that serve folders, in the order of the file."""
    return list(dict.fromkeys(s.server for s in spec.storage if s.kind == "nfs" and s.server))


def _exports(spec: ClusterSpec, server: str) -> list[dict[str, str]]:
    """To the cluster's own nodes alone, as Corral exports them."""
    clients = [node.address for node in nodes_of(spec) if node.name != server]
    exports: list[dict[str, str]] = []
    for share in spec.storage:
        if share.kind == "nfs" and share.server == server:
            options = f"(rw,sync,{'root_squash' if share.root_squash else 'no_root_squash'})"
            allowed = " ".join(f"{client}{options}" for client in clients)
            exports.append({"path": share.path or "", "options": allowed})
    return exports


_EXPRESSED: Final[frozenset[str]] = frozenset(
    (
        "corral", "name", "groups[].name", "groups[].provider", "groups[].nodes",
        "groups[].addresses", "groups[].gpu.type", "groups[].gpu.count",
        "groups[].ssh.user", "groups[].ssh.port",
        "groups[].ssh.key", "groups[].ssh.jump", "controller", "network.control",
        "access.ssh", "access.login", "software.containers", "software.pyxis",
        "software.nvidia.driver", "storage[].mount", "storage[].kind", "storage[].server",
        "storage[].path", "storage[].root_squash",
    )
)  # fmt: skip
_NOTES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "": "DeepOps has no variable for it",
        "users": "declare them in DeepOps' variable users, and run its playbook users.yml",
        "partitions": "DeepOps makes one partition, batch, of all nodes",
        "slurm.settings": "write them into your own slurm.conf.j2, named in slurm_conf_template",
        "reservations": "DeepOps makes none: use scontrol",
        "storage": "DeepOps mounts by NFS alone",
        "slurm.version": "DeepOps builds one release: write ==RELEASE",
        "software": "kept in corral_software, which DeepOps leaves alone",
    }
)
_DRIVER: Final = re.compile(r"(\d{3})(-server)?(-open)?")


def not_exported(spec: ClusterSpec) -> tuple[str, ...]:
    """What the cluster file declares and DeepOps' files have no word for, with why."""
    expressed = set(_EXPRESSED)
    partitions = partitions_of(spec)
    if len(partitions) == 1 and partitions[0].name == "batch":
        expressed |= {f"partitions[].{name}" for name in ("name", "groups", "default", "max_time")}
    if spec.slurm.version.startswith("=="):
        expressed.add("slurm.version")
    if any(s.kind != "nfs" for s in spec.storage):
        expressed -= {"storage[].kind"}
    return unexpressed(spec, expressed, _NOTES)


def _variables(spec: ClusterSpec, comments: str) -> str:
    served = [s for s in spec.storage if s.kind == "nfs"]
    pyxis = spec.software.containers == "pyxis"
    settings: dict[str, Any] = {
        "slurm_cluster_name": spec.name,
        "slurm_restrict_node_access": spec.access.ssh == "jobs_only",
        "slurm_install_enroot": pyxis,
        "slurm_install_pyxis": pyxis,
        "slurm_enable_nfs_server": bool(served),
        "slurm_enable_nfs_client_nodes": bool(served),
        "nfs_mounts": [
            {"mountpoint": s.mount, "server": s.server, "path": s.path, "options": NFS_OPTIONS}
            for s in served
        ],
        **_driver(spec),
    }
    servers = nfs_servers(spec)
    if len(servers) == 1:  # of several, each has its own
        settings["nfs_exports"] = _exports(spec, servers[0])
    if spec.slurm.version.startswith("=="):
        settings["slurm_version"] = spec.slurm.version.removeprefix("==")
    limits = {max_time(p.max_time) for p in partitions_of(spec)}
    if len(limits) == 1 and "INFINITE" not in limits:
        settings["slurm_max_job_timelimit"] = limits.pop()
    if pyxis and spec.software.pyxis:
        local = spec.software.pyxis.local
        settings |= {
            "enroot_cache_path": f"{local}/cache/user-$(id -u)",
            "enroot_data_path": f"{local}/data/user-$(id -u)",
        }
    software = spec.software.model_dump(mode="json", exclude_defaults=True)
    if software:
        settings["corral_software"] = software
    return HEADER.format(name=spec.name) + comments + as_yaml(settings)


def _driver(spec: ClusterSpec) -> dict[str, Any]:
    """The driver: DeepOps takes a branch, a flavour and the kind of kernel module."""
    nvidia = spec.software.nvidia
    settings: dict[str, Any] = {
        "slurm_cluster_install_nvidia_driver": nvidia is not None and nvidia.driver != "none"
    }
    named = _DRIVER.fullmatch(nvidia.driver) if nvidia else None
    if named:
        settings |= {
            "nvidia_driver_branch": named[1],
            "nvidia_driver_ubuntu_packages_suffix": named[2] or "",
            "nvidia_driver_ubuntu_use_open_kernel_modules": bool(named[3]),
        }
    return settings
