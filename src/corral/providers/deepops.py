"""A cluster file in DeepOps' words, and back: inventory and group variables. Pure."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from corral.errors import Code, CorralError
from corral.providers.deepops_inventory import Inventory, read_inventory
from corral.spec.hostlist import expand
from corral.spec.models import ClusterSpec
from corral.spec.nodes import Node, controller_of, fold, nodes_of, partitions_of

INVENTORY: Final = "inventory"
VARIABLES: Final = "group_vars/slurm-cluster.yml"
HEADER: Final = "# Written by Corral from the cluster file {name}.\n"

# Which services of DeepOps run where, beside the groups that hold hosts (config.example/inventory).
_CHILDREN: Final = (
    ("slurm-cache", ("slurm-master",)),
    ("slurm-metric", ("slurm-master",)),
    ("slurm-cluster", ("slurm-master", "slurm-node", "slurm-cache", "slurm-nfs", "slurm-metric",
                       "slurm-login")),
)  # fmt: skip


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
    lines = [HEADER.format(name=spec.name).strip(), "[all]", *(_line(n) for n in nodes)]
    jobs = {g for p in partitions_of(spec) for g in p.groups}
    login = expand(spec.access.login) if spec.access.login else [controller_of(spec)]
    workers = [n.name for n in nodes if n.group.name in jobs]
    servers = nfs_servers(spec)
    # The playbook takes the clients from this group, whatever nfs_client_group says: variables of
    # a group are not known where a play chooses its hosts (DeepOps 26.07, ansible-core 2.19, seen).
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
    files = {INVENTORY: "\n".join(lines) + "\n", VARIABLES: _variables(spec)}
    if servers[1:]:
        head = HEADER.format(name=spec.name)
        for server in servers:
            files[f"host_vars/{server}.yml"] = head + _yaml({"nfs_exports": _exports(spec, server)})
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
    return " ".join(words)


def nfs_servers(spec: ClusterSpec) -> list[str]:
    """Nodes that serve folders, in the order of the file."""
    return list(dict.fromkeys(s.server for s in spec.storage if s.kind == "nfs" and s.server))


def _exports(spec: ClusterSpec, server: str) -> list[dict[str, str]]:
    return [
        {"path": s.path or "",
         "options": f"*(rw,sync,{'root_squash' if s.root_squash else 'no_root_squash'})"}
        for s in spec.storage if s.kind == "nfs" and s.server == server
    ]  # fmt: skip


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
        "nfs_mounts": [
            {"mountpoint": s.mount, "server": s.server, "path": s.path, "options": "async,vers=3"}
            for s in served
        ],
    }  # fmt: skip
    servers = nfs_servers(spec)
    if len(servers) == 1:  # of several, each has its own
        found["nfs_exports"] = _exports(spec, servers[0])
    if spec.slurm.version.startswith("=="):
        found["slurm_version"] = spec.slurm.version.removeprefix("==")
    if pyxis and spec.software.pyxis:
        local = spec.software.pyxis.local
        found |= {"enroot_cache_path": f"{local}/cache/user-$(id -u)",
                  "enroot_data_path": f"{local}/data/user-$(id -u)"}  # fmt: skip
    return HEADER.format(name=spec.name) + _yaml(found)


def from_deepops(files: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """A cluster file from DeepOps' inventory and group variables.

    Args:
        files: text by path below the folder config/: inventory, group_vars/*.yml, host_vars/*.

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
    exports: dict[str, str] = {}
    for name in sorted(n for n in files if n != INVENTORY):
        found = _read_yaml(name, files[name])
        exports |= {str(e.get("path")): str(e.get("options"))
                    for e in _entries(found, "nfs_exports")}  # fmt: skip
        if name.startswith("group_vars/"):
            variables |= found
    return _Carrying(inventory, variables, exports).text(masters[0], nodes)


class _Carrying:
    """Puts the cluster file together and notes what is left behind."""

    def __init__(
        self, inventory: Inventory, variables: Mapping[str, Any], exports: Mapping[str, str]
    ) -> None:
        self.inventory, self.variables, self.exports = inventory, variables, exports
        self._left: dict[str, None] = {}

    def text(self, master: str, nodes: list[str]) -> tuple[str, tuple[str, ...]]:
        login = self.inventory.members("slurm-login")
        # nfs-server is the name in DeepOps before 20.08.
        servers = [h for g in ("slurm-nfs", "nfs-server") for h in self.inventory.members(g)
                   if h in self.inventory.hosts]  # fmt: skip
        groups: list[dict[str, Any]] = []
        jobs: list[str] = []
        taken: set[str] = set()
        for name, members in (("nodes", nodes), ("controller", [master]), ("login", login),
                              ("files", servers)):  # fmt: skip
            mine = [m for m in dict.fromkeys(members) if m not in taken]
            taken.update(mine)
            made = self._groups(name, mine)
            groups += made
            jobs += [g["name"] for g in made if name == "nodes"]
        data: dict[str, Any] = {
            "corral": "v1",
            "name": re.sub("[^a-z0-9-]", "-", str(self.variables.get("slurm_cluster_name")
                                                 or "deepops").lower()),
            "groups": groups,
            "controller": master,
            "partitions": [{"name": "batch", "groups": jobs, "default": True}],
            "network": {"control": "lan"},
        }  # fmt: skip
        if self.variables.get("slurm_version"):
            data["slurm"] = {"version": f"=={self.variables['slurm_version']}"}
        storage = [self._mount(m, taken) for m in _entries(self.variables, "nfs_mounts")]
        if storage:
            data["storage"] = storage
        access: dict[str, str] = {}
        if self.variables.get("slurm_restrict_node_access") is True:
            access["ssh"] = "jobs_only"
        if login and login != [master]:
            access["login"] = fold(login)
        if access:
            data["access"] = access
        self._leave_rest()
        left = tuple(self._left)
        said = "".join(f"# not carried over: {line}\n" for line in left)
        text = f"# From DeepOps' inventory. GPUs of the nodes: add gpu: {{type, count}}.\n{said}"
        return text + _yaml(data), left

    def _leave(self, line: str) -> None:
        self._left[" ".join(line.split())] = None  # one line: it becomes a comment

    def _groups(self, name: str, members: list[str]) -> list[dict[str, Any]]:
        """One group for each way to log in."""
        alike: dict[tuple[tuple[str, Any], ...], list[str]] = {}
        for member in members:
            alike.setdefault(tuple(self._ssh(name, member).items()), []).append(member)
        return [
            {"name": name if i == 0 else f"{name}-{i + 1}", "provider": "ssh", "nodes": fold(mine),
             "addresses": _folded([self._host(m)[1] for m in mine]),
             **({"ssh": dict(ssh)} if ssh else {})}
            for i, (ssh, mine) in enumerate(alike.items())
        ]  # fmt: skip

    def _host(self, member: str) -> tuple[str, str]:
        """User and address, of DeepOps' ``ansible_host=user@address`` too."""
        user, _, address = (
            self.inventory.hosts.get(member, {}).get("ansible_host", member).rpartition("@")
        )
        return user, address

    def _ssh(self, name: str, member: str) -> dict[str, Any]:
        one = {**self.inventory.variables.get("all", {}), **self.inventory.hosts.get(member, {})}
        ssh: dict[str, Any] = {}
        user = one.get("ansible_user") or self._host(member)[0]
        if user:
            ssh["user"] = user
        port = one.get("ansible_port", "22")
        if port != "22":
            ssh["port"] = int(port) if port.isascii() and port.isdigit() else port
        if one.get("ansible_ssh_private_key_file"):
            ssh["key"] = one["ansible_ssh_private_key_file"]
        said = one.get("ansible_ssh_common_args", "")
        jump = _jump(said)
        if jump:
            ssh["jump"] = jump
        elif said:
            self._leave(f"ssh arguments of {name}: {said}")
        if "ansible_password" in one or "ansible_ssh_pass" in one:
            self._leave("passwords: corral keys install logs in by them once, and then by key")
        return ssh

    def _mount(self, mount: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
        where, path = str(mount.get("mountpoint", "")), str(mount.get("path", ""))
        server = str(mount.get("server", ""))
        named = _FIRST_OF.search(server)
        if named:
            server = next(iter(self.inventory.members(named[1])), server)
        if server not in known:
            self._leave(f"{where} is served by {server}, no machine of it")
            return {"mount": where, "kind": "existing"}
        squash = "no_root_squash" not in self.exports.get(path, "")
        return {"mount": where, "kind": "nfs", "server": server, "path": path,
                **({} if squash else {"root_squash": False})}  # fmt: skip

    def _leave_rest(self) -> None:
        for name, line in _NOT_CARRIED:
            if self.variables.get(name) in (True, "yes", "true"):
                self._leave(line)
        if len(self.inventory.members("slurm-master")) > 1:
            self._leave("a second slurm-master: Corral runs one")
        if self.inventory.members("kube_node") or self.inventory.members("kube-node"):
            self._leave("Kubernetes")
        people = [str(u.get("username", "")) for u in _entries(self.variables, "users")]
        if people:
            self._leave(f"users of its playbook users ({', '.join(people)}): declare users:")


_NOT_CARRIED: Final = (
    ("slurm_install_pyxis", "Enroot and Pyxis: say where they come from in software.pyxis"),
    ("slurm_cluster_install_nvidia_driver", "NVIDIA's driver: software: {nvidia: {}}, once the "
     "nodes have gpu:"),
    ("slurm_enable_ha", "a second slurmctld: Corral runs one"),
    ("slurm_enable_monitoring", "its Prometheus and Grafana: services: {metrics: true}"),
)  # fmt: skip

_FIRST_OF: Final = re.compile(r"""groups\[\s*['"]([\w.-]+)['"]\s*\]\s*\[\s*0\s*\]""")
_JUMP: Final = re.compile(r"ProxyJump=([\w.@:,-]+)")
_PROXY: Final = re.compile(r"""ProxyCommand=["']?ssh ([^"']+)["']?\s*$""")


def _jump(arguments: str) -> str:
    """The host that ssh goes through, "" for none or another way to say it."""
    plain = _JUMP.search(arguments)
    if plain:
        return plain[1]
    proxy = _PROXY.search(arguments)
    words = proxy[1].split() if proxy else []
    hosts = [w for w in words if w not in {"-W", "%h:%p", "-q"}]
    return hosts[0] if len(hosts) == 1 and "%h:%p" in words and hosts[0][0] != "-" else ""


def _entries(variables: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found: Any = variables.get(name)
    listed = cast("list[Any]", found) if isinstance(found, list) else []
    return [cast("Mapping[str, Any]", one) for one in listed if isinstance(one, dict)]


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
        f
        for f in files
        if f == INVENTORY or re.fullmatch(r"group_vars/[\w.-]+\.ya?ml|host_vars/[\w.-]+", f)
    )
