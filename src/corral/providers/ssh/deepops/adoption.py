"""A cluster file from DeepOps' inventory and variables; each is carried over or reported. Pure.

Each variable is carried over or reported: a table lists which.

The table is ``variables.yaml``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, cast

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import YAMLError

from corral import durations
from corral.errors import Code, CorralError
from corral.providers.export_files import as_yaml
from corral.providers.ssh.deepops.export import INVENTORY
from corral.spec.providers import OWNED
from corral.spec.sections.people import User
from corral.spec.slurm.hostlist import expand, fold
from corral.state.storage.fstab import NFS_OPTIONS
from corral.tables import Row, read_table

_HOST: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[\d+:\d+\][A-Za-z0-9._-]*)?")


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
        hosts = list(self.groups.get(group, []))
        for child in self.children.get(group, []):
            if child not in seen:
                hosts += self.members(child, seen | {group})
        return list(dict.fromkeys(hosts))


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
            made.variables.setdefault(section, {})[name.strip()] = _bare(value.strip())
        else:
            _host(made, section, line, number)
    return made


def _host(made: Inventory, section: str, line: str, number: int) -> None:
    pattern, _, rest = line.partition(" ")
    if not _HOST.fullmatch(pattern):
        raise CorralError(
            Code.PARSE_FAILED,
            f"line {number} of the inventory is not Ansible's INI format: {line[:80]!r}",
            hint="give the folder config/ of DeepOps, with its INI inventory",
        )
    pairs = re.findall(r"(\w+)=('[^']*'|\"[^\"]*\"|\S+)", rest)
    for name in _spread(pattern):
        made.hosts.setdefault(name, {}).update({k: _bare(v) for k, v in pairs})
        if section not in ("all", "ungrouped"):
            made.groups.setdefault(section, []).append(name)


def _bare(text: str) -> str:
    """Without the quotes around it; those inside belong to it (a ProxyCommand's)."""
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


def _spread(pattern: str) -> list[str]:
    """Ansible's ``gpu[01:10]``."""
    match = re.fullmatch(r"(.*)\[(\d+):(\d+)\](.*)", pattern)
    if not match:
        return [pattern]
    before, first, last, after = match.groups()
    if int(last) - int(first) > 65535:  # noqa: PLR2004
        return [pattern]
    return [f"{before}{i:0{len(first)}}{after}" for i in range(int(first), int(last) + 1)]


UNKNOWN: Final = "not known here: neither DeepOps' configuration nor its roles have it"


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable.

    Attributes:
        field: the cluster file's field that it is carried to, "" for none.
        note: why it is not carried over, and what to do instead.
        off: nothing is lost where it is false or empty: Corral does not do it either.
    """

    field: str = ""
    note: str = ""
    off: bool = False


class NotCarried(Row):
    """Variables that are not carried over for one reason; ``variables.yaml`` has the meanings."""

    note: str
    off: bool
    names: str


class VariableTable(Row):
    """All variables of DeepOps."""

    carried: dict[str, str]
    not_carried: tuple[NotCarried, ...]


@cache
def variables() -> Mapping[str, Variable]:
    """The table, by variable."""
    table = read_table("corral.providers.ssh.deepops", "variables.yaml", VariableTable)
    by_name = {name: Variable(field=field) for name, field in table.carried.items()}
    for row in table.not_carried:
        by_name |= dict.fromkeys(row.names.split(), Variable(note=row.note, off=row.off))
    return by_name


def is_on(value: Any) -> bool:
    """Whether Ansible takes a value for true."""
    return value is True or str(value).strip().lower() in {"yes", "true", "on", "1"}


def left_behind(values: Mapping[str, Any]) -> list[str]:
    """Lines about the variables that are not carried over, those with one reason in one line.

    No value is shown: one may be a password.
    """
    by_note: dict[str, list[str]] = {}
    for name, value in values.items():
        known = variables().get(name)
        if known is None:
            by_note.setdefault(UNKNOWN, []).append(name)
        elif known.note and not (known.off and is_off(value)):
            by_note.setdefault(known.note, []).append(name)
    return [f"{', '.join(names)}: {note}" for note, names in by_note.items()]


def is_off(value: Any) -> bool:
    """Whether Ansible takes a value for false, or it is empty."""
    return not value or str(value).strip().lower() in {"no", "false", "off", "0"}


_SERVED: Final = frozenset(("rw", "sync", "no_subtree_check", "root_squash", "no_root_squash"))
_ADMINS: Final = frozenset(("sudo", "admin", "wheel"))
_USER_FIELDS: Final = frozenset(("username", "uid", "gid", "name", "home", "shell", "ssh_key"))
_OTHER_GROUPS: Final = ("k8s_cluster", "k8s-cluster", "netapp-trident")
"""Groups whose variables are not those of Slurm's nodes, though both have nfs_exports."""

_SERVICES: Final = ("slurm-cache", "slurm-metric")
_FIRST_OF: Final = re.compile(r"""groups\[\s*['"]([\w.-]+)['"]\s*\]\s*\[\s*0\s*\]""")
_JUMP: Final = re.compile(r"ProxyJump=([\w.@:,-]+)")
_PROXY: Final = re.compile(r"""ProxyCommand=["']?ssh ([^"']+)["']?\s*$""")
_FILE: Final = re.compile(r"(group_vars|host_vars)/([\w.-]+?)(?:\.ya?ml|\.json)?(?:/[\w./-]+)?")
_VERSION: Final = re.compile(r"\d\d\.\d\d(\.\d{1,2})?")
_GPU: Final = re.compile(r"([a-z0-9][a-z0-9_-]*):(\d{1,2})")
_LOGIN: Final = {
    "user": ("ansible_user", "ansible_ssh_user"),
    "port": ("ansible_port", "ansible_ssh_port"),
    "host": ("ansible_host", "ansible_ssh_host"),
    "key": ("ansible_ssh_private_key_file", "ansible_private_key_file"),
    "arguments": ("ansible_ssh_common_args", "ansible_ssh_extra_args"),
    "password": ("ansible_password", "ansible_ssh_pass"),
}
_KEPT: Final = (
    "slurm_install_enroot",
    "slurm_install_pyxis",
    "enroot_cache_path",
    "enroot_data_path",
)
"""What ``corral_software`` means in Corral's terms."""

_HOST_WORDS: Final = frozenset(
    (*(name for names in _LOGIN.values() for name in names), "corral_group", "corral_gpu")
)


def names(files: Iterable[str]) -> tuple[str, ...]:
    """Which files of a folder ``from_deepops`` reads."""
    return tuple(f for f in files if f == INVENTORY or _FILE.fullmatch(f))


def from_deepops(files: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """A cluster file from DeepOps' inventory and variables.

    Args:
        files: text by path below the folder config/: inventory, group_vars/*, host_vars/*.

    Returns:
        its text, and what could not be carried over.

    Raises:
        CorralError: NOT_FOUND, there is no inventory with nodes; PARSE_FAILED.
    """
    if INVENTORY not in files:
        raise CorralError(
            Code.NOT_FOUND,
            "there is no file called inventory",
            hint="give the folder config/ of DeepOps",
        )
    inventory = read_inventory(files[INVENTORY])
    masters, nodes = inventory.members("slurm-master"), inventory.members("slurm-node")
    if not masters or not nodes:
        raise CorralError(
            Code.NOT_FOUND,
            "the inventory has no slurm-master and slurm-node",
            hint="uncomment them there first",
        )
    return _Import(inventory, _Sources.read(files, inventory)).text(masters[0], nodes)


@dataclass(slots=True)
class _Opaque:
    """A value that cannot be read here: of Ansible Vault, or of a tag of Ansible's own."""

    tag: str


@dataclass(slots=True)
class _Sources:
    """Variables by where they are set.

    Attributes:
        slurm: those that hold for Slurm's nodes, as Ansible merges them.
        others: names of those that other groups and single hosts set.
        exports: options of each folder that any of them exports.
        left: lines about files that were not read.
    """

    slurm: dict[str, Any] = field(default_factory=dict[str, Any])
    others: dict[str, Any] = field(default_factory=dict[str, Any])
    exports: dict[str, str] = field(default_factory=dict[str, str])
    left: list[str] = field(default_factory=list[str])

    @classmethod
    def read(cls, files: Mapping[str, str], inventory: Inventory) -> _Sources:
        """Of all files; a host's login is put into the inventory."""
        made = cls()
        for path in sorted((p for p in files if p != INVENTORY), key=_precedence):
            kind, name = _kind(path)
            text = files[path]
            if text.startswith("$ANSIBLE_VAULT"):
                made.left.append(f"{path}: encrypted by Ansible Vault, not read")
                continue
            data = _read_yaml(path, text)
            if isinstance(data, dict):
                made._take(kind, name, cast("dict[str, Any]", data), inventory)
            else:
                made.left.append(f"{path}: holds no variables, not read")
        for group, values in inventory.variables.items():
            plain = {n: v for n, v in values.items() if n not in _HOST_WORDS}
            (made.others if group in _OTHER_GROUPS else made.slurm).update(plain)
        return made

    def _take(self, kind: str, name: str, data: dict[str, Any], inventory: Inventory) -> None:
        login = {n: str(v) for n, v in data.items() if n in _HOST_WORDS}
        rest = {n: v for n, v in data.items() if n not in _HOST_WORDS}
        if kind == "host_vars":
            inventory.hosts.setdefault(name, {}).update(login)
            self.others |= {n: v for n, v in rest.items() if n != "nfs_exports"}
        elif name in _OTHER_GROUPS:
            self.others |= {n: v for n, v in rest.items() if n != "nfs_exports"}
            return
        else:
            inventory.variables.setdefault(name, {}).update(login)
            self.slurm |= rest
        if (unread := _unread(rest.get("nfs_exports"))) and kind == "host_vars":
            self.left.append(f"nfs_exports of {name}: {unread}")
        for export in _entries(rest, "nfs_exports"):
            self.exports[str(export.get("path"))] = str(export.get("options"))


class _Import:
    """Puts the cluster file together and notes what is left behind."""

    def __init__(self, inventory: Inventory, sources: _Sources) -> None:
        self.inventory, self.sources = inventory, sources
        self.variables = sources.slurm
        self._left: dict[str, None] = {}

    def text(self, master: str, nodes: list[str]) -> tuple[str, tuple[str, ...]]:
        login = self.inventory.members("slurm-login")
        # nfs-server is the name in DeepOps before 20.08.
        servers = [
            h
            for g in ("slurm-nfs", "nfs-server")
            for h in self.inventory.members(g)
            if h in self.inventory.hosts
        ]
        groups: list[dict[str, Any]] = []
        jobs: list[str] = []
        taken: set[str] = set()
        for name, members in (
            ("nodes", nodes),
            ("controller", [master]),
            ("login", login),
            ("files", servers),
        ):
            mine = [m for m in dict.fromkeys(members) if m not in taken]
            taken.update(mine)
            made = self._groups(name, mine)
            for group in made:
                self._rename(group, {g["name"] for g in groups})
            groups += made
            jobs += [g["name"] for g in made if name == "nodes"]
        partition: dict[str, Any] = {"name": "batch", "groups": jobs, "default": True}
        data: dict[str, Any] = {
            "corral": "v1",
            "name": self._name(),
            "groups": groups,
            "controller": master,
            "partitions": [{**partition, **self._max_time()}],
            "network": {"control": "lan"},
            **self._version(),
            **self._optional("storage", self._storage(taken)),
            **self._optional("users", self._users()),
            **self._optional("access", self._access(login, master)),
            **self._optional("software", self._software()),
        }
        self._leave_rest(taken)
        left = tuple(self._left)
        comments = "".join(f"# not carried over: {line}\n" for line in left)
        gpus = (
            "" if any("gpu" in g for g in groups) else " GPUs of the nodes: add gpu: {type, count}."
        )
        return f"# From DeepOps' inventory.{gpus}\n{comments}" + as_yaml(data), left

    def _leave(self, line: str) -> None:
        self._left[" ".join(line.split())] = None  # one line: it becomes a comment

    @staticmethod
    def _optional(name: str, value: Any) -> dict[str, Any]:
        return {name: value} if value else {}

    def _value(self, name: str) -> Any:
        """A variable's value; None where it is not set, or an expression that Ansible evaluates."""
        value = self.variables.get(name)
        if isinstance(value, _Opaque) or (isinstance(value, str) and "{{" in value):
            self._leave(f"{name}: its value is an expression of Ansible's or encrypted")
            return None
        return value

    def _flag(self, name: str, *, default: bool) -> bool:
        """A variable that is true or false; the default where its value is not known here."""
        value = self._value(name)
        if value is not None and not is_on(value) and not is_off(value):
            self._leave(f"{name}: neither true nor false, taken for {str(default).lower()}")
            return default
        return default if value is None else is_on(value)

    def _leave_unread(self) -> None:
        """Lists that are carried over, where they are none."""
        for name in ("nfs_mounts", "nfs_exports", "users"):
            if unread := _unread(self._value(name)):
                self._leave(f"{name}: {unread}")

    def _name(self) -> str:
        declared = str(self._value("slurm_cluster_name") or "deepops")
        name = re.sub("[^a-z0-9-]", "-", declared.lower())
        if name != declared:
            self._leave(f"slurm_cluster_name: {declared} is called {name} here")
        return name

    def _version(self) -> dict[str, Any]:
        version = self._value("slurm_version")
        if not version:
            return {}
        if _VERSION.fullmatch(str(version)):
            return {"slurm": {"version": f"=={version}"}}
        self._leave(f"slurm_version: {version} is not a release such as 24.11.5")
        return {}

    def _max_time(self) -> dict[str, str]:
        value = self._value("slurm_max_job_timelimit")
        try:
            seconds = None if value is None else durations.seconds(str(value))
        except CorralError:
            self._leave(f"slurm_max_job_timelimit: {value} is not a time of Slurm's")
            return {}
        return {} if seconds is None else {"max_time": durations.clock(seconds)}

    def _access(self, login: list[str], master: str) -> dict[str, str]:
        access: dict[str, str] = {}
        if self._flag("slurm_restrict_node_access", default=False):
            access["ssh"] = "jobs_only"
        if login and login != [master]:
            access["login"] = fold(login)
        return access

    def _software(self) -> dict[str, Any]:
        kept = self._value("corral_software")
        if isinstance(kept, dict):
            return cast("dict[str, Any]", kept)
        # The playbook's default is true; where nothing of a driver is declared, none is asked for.
        driver_named = any(name.startswith("nvidia_driver_") for name in self.variables)
        if not self._flag("slurm_cluster_install_nvidia_driver", default=driver_named):
            return {}
        branch = self._value("nvidia_driver_ubuntu_branch") or self._value("nvidia_driver_branch")
        suffix = self._value("nvidia_driver_ubuntu_packages_suffix")
        suffix = "-server" if suffix is None else str(suffix)  # the playbook's default
        is_open = self._flag("nvidia_driver_ubuntu_use_open_kernel_modules", default=False)
        driver = f"{branch}{suffix}{'-open' if is_open else ''}"
        if branch is None:
            return {"nvidia": {}}
        if re.fullmatch(r"\d{3}(-server)?(-open)?", driver):
            return {"nvidia": {"driver": driver}}
        self._leave(f"nvidia_driver_branch: {driver} is not a branch such as 580-server")
        return {"nvidia": {}}

    def _groups(self, name: str, members: list[str]) -> list[dict[str, Any]]:
        """One group for each way to log in and kind of GPU."""
        alike: dict[str, tuple[dict[str, Any], list[str]]] = {}
        for member in members:
            own = self._own(name, member)
            alike.setdefault(repr(own), (own, []))[1].append(member)
        return [
            {
                "name": name if i == 0 else f"{name}-{i + 1}",
                "provider": OWNED,
                "nodes": fold(mine),
                "addresses": _folded([self._address(m) for m in mine]),
                **own,
            }
            for i, (own, mine) in enumerate(alike.values())
        ]

    def _rename(self, group: dict[str, Any], used: set[str]) -> None:
        """Rename a group whose name is taken."""
        original, number = group["name"], 2
        while group["name"] in used:
            group["name"] = f"{original}-{number}"
            number += 1
        if group["name"] != original:
            self._leave(f"group {original}: {group['nodes']} are group {group['name']} here")

    def _own(self, name: str, member: str) -> dict[str, Any]:
        """What a group of the cluster file declares about such a node."""
        words, own = self._words(member), self._optional("ssh", self._ssh(name, member))
        gpu = _GPU.fullmatch(words.get("corral_gpu", ""))
        if gpu:
            own["gpu"] = {"type": gpu[1], "count": int(gpu[2])}
        if re.fullmatch("[a-z][a-z0-9-]*", words.get("corral_group", "")):
            own["name"] = words["corral_group"]
        return own

    def _words(self, member: str) -> dict[str, str]:
        """A host's variables, as Ansible merges them: all, its groups, itself."""
        merged: dict[str, str] = {}
        for group, values in self.inventory.variables.items():
            if group == "all" or member in self.inventory.members(group):
                merged |= {k: v for k, v in values.items() if group != "all" or k not in merged}
        return {**merged, **self.inventory.hosts.get(member, {})}

    def _word(self, member: str, what: str) -> str:
        words = self._words(member)
        return next((words[name] for name in _LOGIN[what] if words.get(name)), "")

    def _address(self, member: str) -> str:
        """Also of DeepOps' ``ansible_host=user@address``."""
        return (self._word(member, "host") or member).rpartition("@")[2]

    def _ssh(self, name: str, member: str) -> dict[str, Any]:
        ssh: dict[str, Any] = {}
        user = self._word(member, "user") or self._word(member, "host").rpartition("@")[0]
        if user:
            ssh["user"] = user
        port = self._word(member, "port") or "22"
        if port != "22":
            ssh["port"] = int(port) if port.isascii() and port.isdigit() else port
        if key := self._word(member, "key"):
            ssh["key"] = key
        arguments = self._word(member, "arguments")
        jump = _jump(arguments)
        if jump:
            ssh["jump"] = jump
        elif arguments:
            self._leave(f"ssh arguments of {name}: {arguments}")
        if self._word(member, "password"):
            self._leave("passwords: corral keys install logs in by them once, and then by key")
        return ssh

    def _storage(self, known: set[str]) -> list[dict[str, Any]]:
        self._leave_unread()
        mounts = _entries(self.variables, "nfs_mounts")
        if not self._flag("slurm_enable_nfs_client_nodes", default=True) and mounts:
            self._leave("nfs_mounts: DeepOps does not mount them (slurm_enable_nfs_client_nodes)")
            return []
        by_options: dict[str, list[str]] = {}
        for mount in mounts:
            options = str(mount.get("options") or NFS_OPTIONS)
            if options != NFS_OPTIONS:
                by_options.setdefault(options, []).append(str(mount.get("mountpoint", "")))
        for options, where in by_options.items():
            self._leave(
                f"mount options {options} of {', '.join(where)}: Corral mounts with {NFS_OPTIONS}"
            )
        storage = [self._mount(m, known) for m in mounts]
        self._leave_exports({str(m.get("path", "")) for m in storage if m["kind"] == "nfs"})
        return storage

    def _mount(self, mount: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
        where, path = str(mount.get("mountpoint", "")), str(mount.get("path", ""))
        server = str(mount.get("server", ""))
        named = _FIRST_OF.search(server)
        if named:
            server = next(iter(self.inventory.members(named[1])), server)
        server = {self._address(host): host for host in known}.get(server, server)
        serving = self._flag("slurm_enable_nfs_server", default=True)
        if server not in known or not serving:
            why = "no machine of it" if server not in known else "where DeepOps sets up no server"
            self._leave(f"{where} is served by {server}, {why}")
            return {"mount": where, "kind": "existing"}
        squash = "no_root_squash" not in self.sources.exports.get(path, "")
        return {
            "mount": where,
            "kind": "nfs",
            "server": server,
            "path": path,
            **({} if squash else {"root_squash": False}),
        }

    def _leave_exports(self, mounted: set[str]) -> None:
        for path, text in self.sources.exports.items():
            if path not in mounted:
                self._leave(f"nfs_exports: {path} is mounted by no node through nfs_mounts")
                continue
            clients = re.findall(r"([^\s()]+)\(([^)]*)\)", text)
            other = sorted({o for _, options in clients for o in options.split(",")} - _SERVED)
            if other:
                self._leave(f"nfs_exports: options {','.join(other)} of {path}")
            own = {w for host in self.inventory.hosts for w in (host, self._address(host))}
            others = [who for who, _ in clients if who not in own]
            if others:
                self._leave(
                    f"nfs_exports: {path} is exported to {', '.join(others)}; Corral exports it to "
                    "the cluster's nodes alone"
                )

    def _users(self) -> list[dict[str, Any]]:
        users: list[dict[str, Any]] = []
        for entry in _entries(self.variables, "users"):
            name = str(entry.get("username", ""))
            groups = {str(g) for g in _list(entry.get("groups"))}
            user: dict[str, Any] = {"name": name, "uid": entry.get("uid")}
            if entry.get("home") not in (None, f"/home/{name}"):
                user["home"] = entry["home"]
            user |= {k: entry[k] for k in ("shell",) if entry.get(k)}
            keys = [str(key) for key in _list(entry.get("ssh_key"))]
            user |= self._optional("keys", keys) | self._optional("admin", bool(groups & _ADMINS))
            try:
                User.model_validate(user, strict=False)
            except ValidationError as error:
                where = ".".join(str(part) for part in error.errors()[0]["loc"])
                self._leave(f"users: {name}: {where}: {error.errors()[0]['msg']}; declare users:")
                continue
            users.append(user)
            other = [k for k in entry if k not in _USER_FIELDS | {"groups"}]
            other += [f"group {g}" for g in sorted(groups - _ADMINS)]
            if entry.get("gid") not in (None, entry.get("uid")):
                other.append("gid")
            if other:
                self._leave(
                    f"users: {', '.join(map(str, other))} of {name}: Corral sets name, uid,"
                    " home, shell and keys"
                )
        return users

    def _leave_rest(self, taken: set[str]) -> None:
        for line in self.sources.left:
            self._leave(line)
        rest = {**self.sources.others, **self.variables}
        for member in self.inventory.hosts:
            rest |= {n: v for n, v in self.inventory.hosts[member].items() if n not in _HOST_WORDS}
        kept = _KEPT if "corral_software" in self.variables else ()
        plain = {n: v for n, v in rest.items() if not n.startswith("ansible_") and n not in kept}
        mine = sorted(n for n in rest if n.startswith("ansible_"))
        if mine:
            self._leave(f"{', '.join(mine)}: how Ansible works; Corral logs in by groups[].ssh")
        for line in left_behind(plain):
            self._leave(line)
        for name in sorted(n for n in self.sources.others if n in _carried()):
            self._leave(f"{name}: set for single hosts or for another group than Slurm's")
        if len(self.inventory.members("slurm-master")) > 1:
            self._leave("a second slurm-master: Corral runs one")
        self._leave_hosts(taken)

    def _leave_hosts(self, taken: set[str]) -> None:
        for group in _SERVICES:
            away = [
                m
                for m in self.inventory.members(group)
                if m not in self.inventory.members("slurm-master")
            ]
            if away:
                self._leave(
                    f"{group} on {', '.join(away)}: Corral's services run on the controller"
                )
        kube = [g for g in ("kube_node", "kube-node") if self.inventory.members(g)]
        if kube:
            self._leave("Kubernetes")
        outside = [h for h in self.inventory.hosts if h not in taken]
        if outside:
            self._leave(f"hosts {', '.join(outside)}: in none of Slurm's groups")


def _carried() -> set[str]:
    return {name for name, variable in variables().items() if variable.field}


def _jump(arguments: str) -> str:
    """The host that ssh goes through, "" for none or another spelling."""
    plain = _JUMP.search(arguments)
    if plain:
        return plain[1]
    proxy = _PROXY.search(arguments)
    words = proxy[1].split() if proxy else []
    hosts = [w for w in words if w not in {"-W", "%h:%p", "-q"}]
    return hosts[0] if len(hosts) == 1 and "%h:%p" in words and hosts[0][0] != "-" else ""


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _unread(value: Any) -> str:
    """Why a list of mappings is not read, or not all of it; "" where it is."""
    if not isinstance(value, list):
        return "not a list, not read" if value else ""
    others = [entry for entry in cast("list[Any]", value) if not isinstance(entry, dict)]
    return f"{len(others)} entries that are not mappings are not read" if others else ""


def _entries(values: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    return [cast("Mapping[str, Any]", o) for o in _list(values.get(name)) if isinstance(o, dict)]


def _folded(addresses: list[str]) -> str:
    """Folded where that keeps their order: they belong to the nodes in that order."""
    short = fold(addresses)
    return short if list(expand(short)) == addresses else ",".join(addresses)


def _kind(path: str) -> tuple[str, str]:
    match = _FILE.fullmatch(path)
    return (match[1], match[2]) if match else ("group_vars", path)


def _precedence(path: str) -> tuple[bool, bool, str]:
    """Ansible reads those of all first, then those of groups, then those of hosts."""
    kind, name = _kind(path)
    return kind == "host_vars", name != "all", path


class _Constructor(SafeConstructor):
    """Plain YAML; Ansible's own tags (``!vault``) give a value that is not read."""


def _opaque(_: Any, node: Any) -> _Opaque:
    return _Opaque(str(node.tag))


_Constructor.add_constructor(None, _opaque)  # pyright: ignore[reportUnknownMemberType]


def _read_yaml(name: str, text: str) -> Any:
    yaml = YAML(typ="safe", pure=True)
    yaml.Constructor = _Constructor
    try:
        data = yaml.load(text)  # pyright: ignore[reportUnknownMemberType]
    except YAMLError as error:
        raise CorralError(
            Code.PARSE_FAILED, f"{name} is not YAML", tail=str(error)[:400], hint="fix it first"
        ) from error
    return {} if data is None else data
