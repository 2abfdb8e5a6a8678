"""A cluster file in DeepOps' words, and back: inventory and group variables. Pure."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from corral.errors import Code, CorralError
from corral.spec.hostlist import expand
from corral.spec.models import ClusterSpec
from corral.spec.nodes import controller_of, fold, nodes_of, partitions_of

INVENTORY: Final = "inventory"
VARIABLES: Final = "group_vars/slurm-cluster.yml"
HEADER: Final = "# Written by Corral from the cluster file {name}.\n"

# Which services of DeepOps run where, beside the groups that hold hosts (config.example/inventory).
_CHILDREN: Final = (
    ("slurm-cache", ("slurm-master",)),
    ("slurm-nfs-client", ("slurm-node",)),
    ("slurm-metric", ("slurm-master",)),
    ("slurm-cluster", ("slurm-master", "slurm-node", "slurm-cache", "slurm-nfs", "slurm-metric",
                       "slurm-login")),
)  # fmt: skip

_HOST: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[\d+:\d+\][A-Za-z0-9._-]*)?")


def deepops_files(spec: ClusterSpec) -> dict[str, str]:
    """Inventory and variables that DeepOps' playbook slurm-cluster.yml reads.

    Raises:
        CorralError: SPEC_INVALID, a machine has no address of its own.
    """
    nodes = nodes_of(spec)
    for node in nodes:
        if node.group.provider != "ssh":
            raise CorralError(
                Code.SPEC_INVALID,
                f"DeepOps sets up machines that are there, and {node.name} is of provider "
                f"{node.group.provider}",
                hint="export a cluster whose groups are of provider ssh",
            )
    lines = [HEADER.format(name=spec.name).strip(), "[all]"]
    for node in nodes:
        ssh = node.group.ssh
        words = [node.name, f"ansible_host={node.address}", f"ansible_user={ssh.user}"]
        if ssh.port != 22:  # noqa: PLR2004
            words.append(f"ansible_port={ssh.port}")
        if ssh.key:
            words.append(f"ansible_ssh_private_key_file={ssh.key}")
        if ssh.jump:
            words.append(f"ansible_ssh_common_args='-o ProxyJump={ssh.jump}'")
        lines.append(" ".join(words))
    jobs = {g for p in partitions_of(spec) for g in p.groups}
    login = expand(spec.access.login) if spec.access.login else [controller_of(spec)]
    for name, members in (
        ("slurm-master", [controller_of(spec)]),
        ("slurm-login", list(login)),
        ("slurm-nfs", list(dict.fromkeys(s.server for s in spec.storage if s.server))),
        ("slurm-node", [n.name for n in nodes if n.group.name in jobs]),
    ):
        lines += ["", f"[{name}]", *members]
    for name, children in _CHILDREN:
        lines += ["", f"[{name}:children]", *children]
    return {INVENTORY: "\n".join(lines) + "\n", VARIABLES: _variables(spec)}


def _variables(spec: ClusterSpec) -> str:
    served = [s for s in spec.storage if s.kind == "nfs"]
    pyxis = spec.software.containers == "pyxis"
    found: dict[str, Any] = {
        "slurm_cluster_name": spec.name,
        "slurm_restrict_node_access": spec.access.ssh == "jobs_only",
        "slurm_install_enroot": pyxis,
        "slurm_install_pyxis": pyxis,
        "slurm_cluster_install_nvidia_driver": spec.software.nvidia is not None,
        "slurm_enable_nfs_server": bool(served),
        "slurm_enable_nfs_client_nodes": bool(served),
        "nfs_server_group": "slurm-nfs",
        "nfs_client_group": "slurm-master,slurm-login,slurm-node",
        "nfs_exports": [
            {"path": s.path,
             "options": f"*(rw,sync,{'root_squash' if s.root_squash else 'no_root_squash'})"}
            for s in served
        ],
        "nfs_mounts": [
            {"mountpoint": s.mount, "server": s.server, "path": s.path, "options": "async,vers=3"}
            for s in served
        ],
    }  # fmt: skip
    if spec.slurm.version.startswith("=="):
        found["slurm_version"] = spec.slurm.version.removeprefix("==")
    if pyxis and spec.software.pyxis:
        local = spec.software.pyxis.local
        found |= {"enroot_cache_path": f"{local}/cache/user-$(id -u)",
                  "enroot_data_path": f"{local}/data/user-$(id -u)"}  # fmt: skip
    return HEADER.format(name=spec.name) + _yaml(found)


@dataclass(slots=True)
class Inventory:
    """An inventory as Ansible's INI files have it.

    Attributes:
        hosts: variables of each host, in order.
        groups: hosts of each group.
        children: groups of each group.
        variables: of groups.
    """

    hosts: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    groups: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    children: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    variables: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])

    def members(self, group: str, seen: frozenset[str] = frozenset()) -> list[str]:
        """Hosts of a group and of the groups below it."""
        found = list(self.groups.get(group, []))
        for child in self.children.get(group, []):
            if child not in seen:
                found += self.members(child, seen | {group})
        return list(dict.fromkeys(found))


def read_inventory(text: str) -> Inventory:
    """Read an inventory; lines that are none of its grammar are an error.

    Raises:
        CorralError: PARSE_FAILED, with the line.
    """
    made, section, kind = Inventory(), "ungrouped", ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.split(r"(?:^|\s)[#;]", raw, maxsplit=1)[0].strip()
        if not line:
            continue
        head = re.fullmatch(r"\[([A-Za-z0-9_.-]+)(?::(children|vars))?\]", line)
        if head:
            section, kind = head[1], head[2] or ""
        elif kind == "children":
            made.children.setdefault(section, []).append(line)
        elif kind == "vars":
            name, _, value = line.partition("=")
            made.variables.setdefault(section, {})[name.strip()] = value.strip().strip("'\"")
        else:
            _host(made, section, line, number)
    return made


def _host(made: Inventory, section: str, line: str, number: int) -> None:
    pattern, _, rest = line.partition(" ")
    if not _HOST.fullmatch(pattern):
        raise CorralError(
            Code.PARSE_FAILED,
            f"line {number} of the inventory is none of Ansible's: {line[:80]!r}",
            hint="give the folder config/ of DeepOps, with its INI inventory",
        )
    found = re.findall(r"(\w+)=('[^']*'|\"[^\"]*\"|\S+)", rest)
    for name in _spread(pattern):
        made.hosts.setdefault(name, {}).update({k: v.strip("'\"") for k, v in found})
        if section not in ("all", "ungrouped"):
            made.groups.setdefault(section, []).append(name)


def _spread(pattern: str) -> list[str]:
    """Ansible's ``gpu[01:10]``."""
    found = re.fullmatch(r"(.*)\[(\d+):(\d+)\](.*)", pattern)
    if not found:
        return [pattern]
    before, first, last, after = found.groups()
    if int(last) - int(first) > 65535:  # noqa: PLR2004
        return [pattern]
    return [f"{before}{i:0{len(first)}}{after}" for i in range(int(first), int(last) + 1)]


def from_deepops(files: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """A cluster file from DeepOps' inventory and group variables.

    Args:
        files: text by path below the folder config/: inventory, group_vars/*.yml.

    Returns:
        its text, and what could not be carried over.

    Raises:
        CorralError: NOT_FOUND, there is no inventory with nodes; PARSE_FAILED.
    """
    if INVENTORY not in files:
        raise CorralError(Code.NOT_FOUND, "there is no file called inventory",
                          hint="give the folder config/ of DeepOps")  # fmt: skip
    inventory = read_inventory(files[INVENTORY])
    masters, nodes = inventory.members("slurm-master"), inventory.members("slurm-node")
    if not masters or not nodes:
        raise CorralError(Code.NOT_FOUND, "the inventory has no slurm-master and slurm-node",
                          hint="uncomment them there first")  # fmt: skip
    variables: dict[str, Any] = {}
    for name in sorted(n for n in files if n.startswith("group_vars/")):
        variables |= _read_yaml(name, files[name])
    return _Carrying(inventory, variables).text(masters[0], nodes)


class _Carrying:
    """Puts the cluster file together and notes what is left behind."""

    def __init__(self, inventory: Inventory, variables: Mapping[str, Any]) -> None:
        self.inventory, self.variables = inventory, variables
        self.left: list[str] = []

    def text(self, master: str, nodes: list[str]) -> tuple[str, tuple[str, ...]]:
        login = self.inventory.members("slurm-login")
        servers = [h for h in self.inventory.members("slurm-nfs") if h in self.inventory.hosts]
        groups: list[dict[str, Any]] = []
        taken: set[str] = set()
        for name, members in (("nodes", nodes), ("controller", [master]), ("login", login),
                              ("files", servers)):  # fmt: skip
            mine = [m for m in dict.fromkeys(members) if m not in taken]
            taken.update(mine)
            if mine:
                groups.append(self._group(name, mine))
        data: dict[str, Any] = {
            "corral": "v1",
            "name": re.sub("[^a-z0-9-]", "-", str(self.variables.get("slurm_cluster_name")
                                                 or "deepops").lower()),
            "groups": groups,
            "controller": master,
            "partitions": [{"name": "batch", "groups": ["nodes"], "default": True}],
            "network": {"control": "lan"},
        }  # fmt: skip
        if self.variables.get("slurm_version"):
            data["slurm"] = {"version": f"=={self.variables['slurm_version']}"}
        storage = self._storage(master, taken)
        if storage:
            data["storage"] = storage
        access: dict[str, str] = {}
        if self.variables.get("slurm_restrict_node_access") is True:
            access["ssh"] = "jobs_only"
        if login and login != [master]:
            access["login"] = fold(login)
        if access:
            data["access"] = access
        self._leave()
        said = "".join(f"# not carried over: {line}\n" for line in self.left)
        text = f"# From DeepOps' inventory. GPUs of the nodes: add gpu: {{type, count}}.\n{said}"
        return text + _yaml(data), tuple(self.left)

    def _group(self, name: str, members: list[str]) -> dict[str, Any]:
        shared = self.inventory.variables.get("all", {})
        one = {**shared, **self.inventory.hosts.get(members[0], {})}
        addresses = [self.inventory.hosts.get(m, {}).get("ansible_host", m) for m in members]
        found: dict[str, Any] = {"name": name, "provider": "ssh", "nodes": fold(members),
                                 "addresses": _folded(addresses)}  # fmt: skip
        ssh: dict[str, Any] = {}
        if one.get("ansible_user"):
            ssh["user"] = one["ansible_user"]
        if one.get("ansible_port", "22") != "22":
            ssh["port"] = int(one["ansible_port"])
        if one.get("ansible_ssh_private_key_file"):
            ssh["key"] = one["ansible_ssh_private_key_file"]
        jump = re.search(r"ProxyJump=(\S+)", one.get("ansible_ssh_common_args", ""))
        if jump:
            ssh["jump"] = jump[1]
        elif one.get("ansible_ssh_common_args"):
            self.left.append(f"ssh arguments of {name}: {one['ansible_ssh_common_args']}")
        return {**found, **({"ssh": ssh} if ssh else {})}

    def _storage(self, master: str, known: set[str]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        mounts: list[dict[str, Any]] = self.variables.get("nfs_mounts") or []
        for mount in mounts:
            server = str(mount.get("server", ""))
            if "slurm-master" in server:
                server = master
            if server in known:
                found.append({"mount": mount["mountpoint"], "kind": "nfs", "server": server,
                              "path": mount["path"]})  # fmt: skip
            else:
                found.append({"mount": mount["mountpoint"], "kind": "existing"})
                self.left.append(f"{mount['mountpoint']} is served by {server}, no machine of it")
        return found

    def _leave(self) -> None:
        if self.variables.get("slurm_install_pyxis") is True:
            self.left.append("Enroot and Pyxis: say where they come from in software.pyxis")
        if len(self.inventory.members("slurm-master")) > 1:
            self.left.append("a second slurm-master: Corral runs one")
        if self.inventory.members("kube_node"):
            self.left.append("Kubernetes")


def _folded(addresses: list[str]) -> str:
    """Folded where that keeps their order: they belong to the nodes in that order."""
    short = fold(addresses)
    return short if list(expand(short)) == addresses else ",".join(addresses)


def _read_yaml(name: str, text: str) -> dict[str, Any]:
    try:
        found = YAML(typ="safe").load(text)  # pyright: ignore[reportUnknownMemberType]
    except YAMLError as error:
        raise CorralError(Code.PARSE_FAILED, f"{name} is no YAML", tail=str(error)[:400],
                          hint="mend it first") from error  # fmt: skip
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _yaml(data: Mapping[str, Any]) -> str:
    yaml = YAML()
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.width = 4096
    out = io.StringIO()
    yaml.dump(dict(data), out)  # pyright: ignore[reportUnknownMemberType]
    return out.getvalue()


def names(files: Iterable[str]) -> tuple[str, ...]:
    """Which files of a folder ``from_deepops`` wants."""
    return tuple(
        f for f in files if f == INVENTORY or re.fullmatch(r"group_vars/[\w.-]+\.ya?ml", f)
    )
