"""DeepOps' inventory and variables: written, read, and converted in both directions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.errors import Code, CorralError
from corral.providers.ssh.deepops import adoption, export
from corral.providers.ssh.deepops.adoption import UNKNOWN, read_inventory, variables
from corral.spec.load import load_or_raise, load_text
from corral.spec.models import ClusterSpec
from corral.spec.nodes import nodes_of
from corral.testing.rentals import KEY

EXAMPLES = Path(__file__).parents[4] / "examples"

# As DeepOps' own example has it, with its comments taken off and a jump host.
THEIRS = """\
######
[all]
login01     ansible_host=10.0.1.1
gpu[01:03]  ansible_user=dgx   # the DGX

[slurm-master]
login01
[slurm-nfs]
login01
[slurm-node]
gpu[01:03]
[slurm-login:children]
slurm-master
[slurm-cluster:children]
slurm-master
slurm-node
[all:vars]
ansible_user=ubuntu
ansible_ssh_common_args='-o ProxyCommand="ssh -W %h:%p -q ubuntu@10.0.0.1"'
"""
VARS = """\
slurm_version: 24.11.5
slurm_restrict_node_access: true
slurm_install_pyxis: true
nfs_mounts:
  - {mountpoint: /home, server: '{{ groups["slurm-master"][0] }}', path: /home, options: async}
  - {mountpoint: /data, server: filer.example, path: /data, options: async}
"""


def dgx() -> dict[str, str]:
    return export.deepops_files(load_or_raise(EXAMPLES / "dgx-infiniband.yaml"))


def test_golden(golden: Callable[[str, str], None]) -> None:
    for name, text in dgx().items():
        golden(f"deepops/{name}", text)


def test_there_and_back_it_is_the_same_machines() -> None:
    before = load_or_raise(EXAMPLES / "dgx-infiniband.yaml")
    text, _ = adoption.from_deepops(dgx())
    after = load_text(text, "back.yaml").spec
    assert after is not None
    logins = {n.name: (n.address, n.group.ssh) for n in nodes_of(before)}
    assert {n.name: (n.address, n.group.ssh) for n in nodes_of(after)} == logins
    assert after.controller == before.controller
    assert after.access == before.access
    kept = [(s.mount, s.kind, s.server, s.path) for s in before.storage]
    assert [(s.mount, s.kind, s.server, s.path) for s in after.storage] == kept


def test_folders_come_back_with_who_is_root_there() -> None:
    before = load_or_raise(EXAMPLES / "dgx-infiniband.yaml")
    open_data = before.storage[1].model_copy(update={"root_squash": False})
    spec = before.model_copy(update={"storage": (before.storage[0], open_data)})
    files = export.deepops_files(spec)
    assert set(files) == {
        "inventory",
        "group_vars/slurm-cluster.yml",
        "host_vars/nfs01.yml",
        "host_vars/nfs02.yml",
    }
    after = load_text(adoption.from_deepops(files)[0], "back.yaml").spec
    assert after is not None
    assert [s.root_squash for s in after.storage] == [True, False]


def test_the_playbooks_clients_are_all_that_mount() -> None:
    """DeepOps' play of NFS clients reads the group, not nfs_client_group of group_vars."""
    inventory = read_inventory(dgx()["inventory"])
    assert inventory.members("slurm-nfs-client") == [
        "head",
        "login01",
        *(f"dgx{i:02}" for i in range(1, 11)),
    ]
    assert inventory.members("slurm-nfs") == ["nfs01", "nfs02"]


# As its performance guide had it in 2020: users before addresses, the server in a separate group.
PERF = """\
[all]
head ansible_host=nvidia@10.0.0.100
dgx01 ansible_host=nvidia@10.0.1.101
dgx02 ansible_host=nvidia@10.0.1.102 ansible_user=ops
[slurm-master]
head
[slurm-node]
dgx01
dgx02
[nfs-server]
head
"""
NFS = """\
nfs_exports: [{path: /export/shared, options: '*(rw,sync,no_root_squash)'}]
nfs_mounts:
  - {mountpoint: /mnt/shared, server: '{{ groups["nfs-server"][0] }}', path: /export/shared}
"""


def test_the_form_of_its_performance_guide_is_read() -> None:
    text, left = adoption.from_deepops({"inventory": PERF, "group_vars/nfs.yml": NFS})
    spec = load_text(text, "perf.yaml").spec
    assert spec is not None, text
    logins = {n.name: (n.address, n.group.ssh.user) for n in nodes_of(spec)}
    assert logins == {
        "dgx01": ("10.0.1.101", "nvidia"),
        "dgx02": ("10.0.1.102", "ops"),
        "head": ("10.0.0.100", "nvidia"),
    }
    assert spec.partitions[0].groups == ("nodes", "nodes-2")
    assert [(s.server, s.path, s.root_squash) for s in spec.storage] == [
        ("head", "/export/shared", False)
    ]
    assert left == (
        "nfs_exports: /export/shared is exported to *; Corral exports it to the cluster's nodes "
        "alone",
    )


@pytest.mark.parametrize(
    ("arguments", "jump"),
    [
        ('-o ProxyCommand="ssh -W %h:%p -q ubuntu@10.0.0.1"', "ubuntu@10.0.0.1"),
        ("-o ProxyJump=ops@bastion:2222", "ops@bastion:2222"),
        ('-o ProxyCommand="ssh -W %h:%p -i /k ubuntu@10.0.0.1"', None),
        ('-o ProxyCommand="nc %h %p"', None),
    ],
)
def test_a_jump_host_is_read(arguments: str, jump: str | None) -> None:
    text, left = adoption.from_deepops(
        {"inventory": f"{PERF}[all:vars]\nansible_ssh_common_args='{arguments}'\n"}
    )
    spec = load_text(text, "perf.yaml").spec
    assert spec is not None, text
    assert {g.ssh.jump for g in spec.groups} == {jump}
    assert (jump is None) == any(arguments in line for line in left)


def test_values_of_any_kind_make_no_lines_of_their_own() -> None:
    hostile = """\
nfs_mounts:
  - {mountpoint: "/a", server: "x\\nname: evil", path: /a}
  - nothing
  - {mountpoint: [1]}
users: [{username: "a\\nb"}, 7]
slurm_install_pyxis: [1]
"""
    files = {"inventory": PERF + "[all:vars]\nansible_port=ssh\n", "group_vars/all.yml": hostile}
    text, left = adoption.from_deepops(files)
    assert all("\n" not in line for line in left)
    assert "\nname: evil" not in text
    assert load_text(text, "x.yaml").findings, "a port that is none is a finding of the file"


def test_deepops_own_form_is_read() -> None:
    files = {"inventory": THEIRS, "group_vars/slurm-cluster.yml": VARS}
    text, left = adoption.from_deepops(files)
    loaded = load_text(text, "theirs.yaml")
    assert loaded.spec is not None, loaded.findings
    assert [n.name for n in nodes_of(loaded.spec)] == ["gpu01", "gpu02", "gpu03", "login01"]
    assert loaded.spec.groups[0].ssh.user == "dgx"
    assert loaded.spec.slurm.version == "==24.11.5"
    assert [(s.mount, s.kind) for s in loaded.spec.storage] == [
        ("/home", "nfs"),
        ("/data", "existing"),
    ]
    assert {g.ssh.jump for g in loaded.spec.groups} == {"ubuntu@10.0.0.1"}
    assert any("Pyxis" in line for line in left)
    assert all(line in text for line in left)


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({}, Code.NOT_FOUND),
        ({"inventory": "[all]\n"}, Code.NOT_FOUND),
        ({"inventory": THEIRS, "group_vars/all.yml": "a: [1"}, Code.PARSE_FAILED),
        ({"inventory": "[all]\n$(reboot) a=b\n"}, Code.PARSE_FAILED),
    ],
)
def test_what_is_none_is_refused(files: dict[str, str], code: Code) -> None:
    with pytest.raises(CorralError) as raised:
        adoption.from_deepops(files)
    assert raised.value.code is code


@given(st.text(max_size=200))
@settings(max_examples=30, deadline=None)
def test_any_text_is_an_inventory_or_an_error(text: str) -> None:
    try:
        read_inventory(text)
    except CorralError as error:
        assert error.code is Code.PARSE_FAILED


def test_other_providers_are_refused() -> None:
    with pytest.raises(CorralError, match="embedded"):
        export.deepops_files(load_or_raise(EXAMPLES / "laptop.yaml"))


@pytest.fixture(scope="module")
def ansible(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A real ansible-inventory: the one on PATH, else ansible-core in a separate environment."""
    named = os.environ.get("CORRAL_TEST_ANSIBLE_INVENTORY") or shutil.which("ansible-inventory")
    if named:
        return named
    folder = tmp_path_factory.mktemp("ansible")
    for argv in ([sys.executable, "-m", "venv", "."], ["bin/pip", "install", "-q", "ansible-core"]):
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=400)
        if done.returncode:
            pytest.skip(f"no ansible-core here: {done.stderr[-300:]}")
    return str(folder / "bin" / "ansible-inventory")


def listed_by(ansible: str, files: dict[str, str], folder: Path) -> dict[str, Any]:
    """What Ansible makes of an exported inventory."""
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(text)
    done = subprocess.run(
        [ansible, "-i", folder / "inventory", "--list"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HOME": str(folder), "LC_ALL": "C.UTF-8"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("WARNING") <= 1, done.stderr  # of the "-" in DeepOps' own groups
    return json.loads(done.stdout)


@pytest.mark.slow
def test_ansible_itself_reads_it(ansible: str, tmp_path: Path) -> None:
    hostvars = listed_by(ansible, dgx(), tmp_path)["_meta"]["hostvars"]
    assert hostvars["dgx07"]["ansible_host"] == "10.0.2.7"
    assert hostvars["dgx07"]["nfs_mounts"][0]["mountpoint"] == "/nfs/home"


@pytest.mark.slow
def test_ansible_reads_an_adopted_cluster_as_its_own(ansible: str, tmp_path: Path) -> None:
    """DeepOps' inventory, adopted, exported: Ansible knows the same machines by the same groups."""
    text, _ = adoption.from_deepops({"inventory": THEIRS, "group_vars/all.yml": ""})
    loaded = load_text(text, "cluster.yaml")
    assert loaded.spec is not None, loaded.findings
    theirs = listed_by(ansible, {"inventory": THEIRS}, tmp_path / "theirs")
    ours = listed_by(ansible, export.deepops_files(loaded.spec), tmp_path / "ours")

    def addresses(answer: dict[str, Any]) -> dict[str, str]:
        hosts = answer["_meta"]["hostvars"].items()
        return {name: values.get("ansible_host", name) for name, values in hosts}

    assert addresses(ours) == addresses(theirs)
    for group in ("slurm-master", "slurm-node"):
        assert set(ours[group].get("hosts", [])) == set(theirs[group].get("hosts", []))


def carried(text: str, **files: str) -> tuple[str, str]:
    """The cluster file and all that it leaves behind, for variables of group_vars/all.yml."""
    imported, left = adoption.from_deepops(
        {"inventory": THEIRS, "group_vars/all.yml": text, **files}
    )
    body = "".join(line + "\n" for line in imported.splitlines() if not line.startswith("#"))
    return body, "\n".join(left)


MOUNTS = "nfs_mounts: [{mountpoint: /d, server: login01, path: /d}]"
# A value for each that is read; any other variable takes a word.
SAMPLES = {
    "slurm_cluster_name": "lab",
    "slurm_version": "24.11.5",
    "slurm_max_job_timelimit": "2-00:00:00",
    "slurm_restrict_node_access": "yes",
    "nfs_mounts": "[{mountpoint: /d, server: login01, path: /d}]",
    "nfs_exports": "[{path: /d, options: '*(rw)'}]",
    "slurm_enable_nfs_client_nodes": f"no\n{MOUNTS}",
    "slurm_enable_nfs_server": f"no\n{MOUNTS}",
    "users": "[{username: ann, uid: 2000}]",
    "slurm_cluster_install_nvidia_driver": "yes",
    "nvidia_driver_branch": "'570'\nslurm_cluster_install_nvidia_driver: true",
    "nvidia_driver_ubuntu_branch": "'570'\nslurm_cluster_install_nvidia_driver: true",
    "nvidia_driver_ubuntu_packages_suffix":
        "''\nnvidia_driver_branch: '570'\nslurm_cluster_install_nvidia_driver: true",
    "nvidia_driver_ubuntu_use_open_kernel_modules":
        "true\nnvidia_driver_branch: '570'\nslurm_cluster_install_nvidia_driver: true",
    "corral_software": "{containers: pyxis}",
}  # fmt: skip


def test_the_table_has_all_fields_that_are_read() -> None:
    fields = {name for name, variable in variables().items() if variable.field}
    assert fields == set(SAMPLES)
    schema = ClusterSpec.model_json_schema()["properties"]
    assert {variables()[name].field.split(".")[0].split("[")[0] for name in fields} <= set(schema)


@pytest.mark.parametrize("name", variables())
def test_each_variable_is_carried_over_or_reported(name: str) -> None:
    """Of the 62 variables that its example sets, 52 were neither."""
    body, left = carried(f"{name}: {SAMPLES.get(name, 'something')}\n")
    if variables()[name].field:
        assert body != carried("")[0] or name in left
    else:
        assert f"{name}" in left and variables()[name].note in left
    assert "something" not in f"{body}{left}", "no value is shown: it may be a password"


@pytest.mark.parametrize(
    "files",
    [
        {"group_vars/all.yml": "frobnicate: 1\n"},
        {"group_vars/slurm-cluster.yml": "frobnicate: 1\n"},
        {"group_vars/all/main.yml": "frobnicate: 1\n"},
        {"group_vars/slurm-node": "frobnicate: 1\n"},
        {"group_vars/k8s_cluster.yml": "frobnicate: 1\n"},
        {"host_vars/gpu01.yml": "frobnicate: 1\n"},
        {"host_vars/gpu01/more.yml": "frobnicate: 1\n"},
        {"inventory": f"{THEIRS}frobnicate=1\n"},
        {"inventory": THEIRS.replace("ansible_user=dgx", "ansible_user=dgx frobnicate=1")},
        {"inventory": f"{THEIRS}[slurm-node:vars]\nfrobnicate=1\n"},
    ],
    ids=lambda files: next(iter(files)),
)
def test_a_variable_that_nobody_knows_is_reported(files: dict[str, str]) -> None:
    given_files = {"inventory": THEIRS, **files}
    assert set(adoption.names(given_files)) == set(given_files)
    _, left = adoption.from_deepops(given_files)
    assert f"frobnicate: {UNKNOWN}" in left


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("slurm_cluster_name: My_Lab", "slurm_cluster_name: My_Lab is called my-lab here"),
        ("slurm_version: '{{ ours }}'", "slurm_version: its value is an expression"),
        ("slurm_version: latest", "slurm_version: latest is not a release"),
        ("slurm_version: !vault |\n  66", "slurm_version: its value is an expression"),
        ("slurm_max_job_timelimit: long", "slurm_max_job_timelimit: long is not a time"),
        ("$ANSIBLE_VAULT;1.1;AES256\n3130", "group_vars/all.yml: encrypted by Ansible Vault"),
        ("- a list", "group_vars/all.yml: holds no variables"),
        ("nfs_exports: [{path: /x, options: '*(ro)'}]", "/x is mounted by no node"),
        ("users: [{username: root, uid: 0}]", "users: root: uid"),
        ("users: [{username: ann, uid: 2000, password: x, groups: [sudo, docker]}]",
         "users: password, group docker of ann"),
        ("ansible_become: true", "ansible_become: how Ansible works"),
        ("nfs_mounts: '{{ shares }}'", "nfs_mounts: its value is an expression"),
        ("nfs_exports: '{{ shares }}'", "nfs_exports: its value is an expression"),
        ("users: !vault |\n  66", "users: its value is an expression"),
        ("nfs_mounts: {mountpoint: /home}", "nfs_mounts: not a list, not read"),
        ("users: [ann, {username: bob, uid: 2000}]", "users: 1 entries that are not mappings"),
        ("slurm_restrict_node_access: '{{ ours }}'", "slurm_restrict_node_access: its value is"),
        ("slurm_restrict_node_access: maybe", "slurm_restrict_node_access: neither true nor false"),
        ("slurm_cluster_install_nvidia_driver: [x]", "install_nvidia_driver: neither true nor"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_reported(text: str, word: str) -> None:
    body, left = carried(text)
    assert word in left
    assert load_text(body, "x.yaml").spec is not None


def test_exports_of_one_host_that_cannot_be_read_are_reported() -> None:
    given_files = {"inventory": THEIRS, "host_vars/login01.yml": "nfs_exports: '{{ shares }}'\n"}
    _, left = adoption.from_deepops(given_files)
    assert "nfs_exports of login01: not a list, not read" in left


def test_an_expression_is_not_taken_for_false() -> None:
    """Its mounts were dropped as "DeepOps does not mount them"."""
    shared = "nfs_mounts: [{mountpoint: /data, server: filer, path: /data}]\n"
    body, left = carried(f"{shared}slurm_enable_nfs_client_nodes: '{{{{ ours }}}}'\n")
    assert "mount: /data" in body
    assert "slurm_enable_nfs_client_nodes: its value is an expression" in left


def test_a_driver_is_installed_where_the_playbooks_default_does() -> None:
    """slurm-cluster.yml: slurm_cluster_install_nvidia_driver | default(true)."""
    assert "driver: 580-server" in carried("nvidia_driver_branch: '580'\n")[0]
    off = "slurm_cluster_install_nvidia_driver: false\nnvidia_driver_branch: '580'\n"
    assert "nvidia" not in carried(off)[0]


def test_mount_and_export_options_are_reported() -> None:
    text = """\
nfs_exports: [{path: /d, options: '10.0.0.0/8(ro,async,no_root_squash)'}]
nfs_mounts: [{mountpoint: /d, server: 10.0.1.1, path: /d, options: 'async,vers=3'}]
"""
    body, left = carried(text)
    spec = load_text(body, "x.yaml").spec
    assert spec is not None
    assert [(s.kind, s.server, s.root_squash) for s in spec.storage] == [("nfs", "login01", False)]
    assert "mount options async,vers=3 of /d" in left
    assert "options async,ro of /d" in left
    assert "/d is exported to 10.0.0.0/8" in left


def test_users_and_limits_are_carried_over() -> None:
    text = f"""\
slurm_max_job_timelimit: 90
users:
  - {{username: ann, uid: 2000, name: Ann, groups: [sudo], ssh_key: [{KEY}]}}
  - {{username: bob, uid: 2001, home: /data/bob, shell: /bin/zsh}}
nfs_mounts: []
"""
    spec = load_text(carried(text)[0], "x.yaml").spec
    assert spec is not None
    assert [(u.name, u.uid, u.admin, u.home, u.shell) for u in spec.users] == [
        ("ann", 2000, True, None, "/bin/bash"),
        ("bob", 2001, False, "/data/bob", "/bin/zsh"),
    ]
    assert spec.partitions[0].max_time == "01:30:00"


def test_hosts_outside_slurm_are_reported() -> None:
    inventory = THEIRS.replace(
        "gpu[01:03]  ansible_user=dgx   # the DGX", "gpu[01:03] ansible_user=dgx\nmgmt[1:2]"
    )
    inventory += "[slurm-metric]\nmgmt1\n[kube_node]\nmgmt2\n"
    _, left = adoption.from_deepops({"inventory": inventory})
    assert "hosts mgmt1, mgmt2: in none of Slurm's groups" in left
    assert "slurm-metric on mgmt1: Corral's services run on the controller" in left
    assert "Kubernetes" in left


def test_variables_of_kubernetes_do_not_replace_those_of_slurm() -> None:
    mounts = "nfs_mounts: [{mountpoint: /a, server: login01, path: /a}]\n"
    other = "nfs_mounts: [{mountpoint: /b, server: login01, path: /b}]\nhelm_enabled: true\n"
    body, left = carried(mounts, **{"group_vars/k8s_cluster.yml": other})
    assert "/a" in body and "/b" not in body
    assert "helm_enabled: Kubernetes" in left and "nfs_mounts: set for single hosts" in left


def test_a_groups_login_is_that_of_its_hosts() -> None:
    inventory = f"{THEIRS}[slurm-node:vars]\nansible_port=2222\n"
    body, _ = adoption.from_deepops({"inventory": inventory})
    spec = load_text(body, "x.yaml").spec
    assert spec is not None
    assert {n.name: n.group.ssh.port for n in nodes_of(spec)} == {
        "gpu01": 2222,
        "gpu02": 2222,
        "gpu03": 2222,
        "login01": 22,
    }


@pytest.mark.parametrize("driver", ["580", "580-open", "570-server", "570-server-open", "auto"])
def test_there_and_back_it_has_the_same_containers_drivers_and_gpus(driver: str) -> None:
    before = load_or_raise(EXAMPLES / "dgx-infiniband.yaml")
    data = before.model_dump(mode="json")
    data["software"]["nvidia"] = {"driver": driver}
    before = ClusterSpec.model_validate(data)
    text, left = adoption.from_deepops(export.deepops_files(before))
    after = load_text(text, "back.yaml").spec
    assert after is not None
    assert after.software == before.software
    gpus = {n.name: (n.group.name, n.group.gpu) for n in nodes_of(before)}
    assert {n.name: (n.group.name, n.group.gpu) for n in nodes_of(after)} == gpus
    assert after.partitions == before.partitions
    assert not [line for line in left if "nfs" in line or "mount" in line or "nvidia" in line]


@pytest.mark.parametrize("flavour", ["-server", ""])
@pytest.mark.parametrize("kernel", [True, False])
def test_the_driver_of_deepops_own_variables(flavour: str, kernel: bool) -> None:
    suffix = "" if flavour else "nvidia_driver_ubuntu_packages_suffix: ''\n"
    body, _ = carried(
        f"slurm_cluster_install_nvidia_driver: yes\nnvidia_driver_branch: '580'\n{suffix}"
        f"nvidia_driver_ubuntu_use_open_kernel_modules: {str(kernel).lower()}\n"
    )
    spec = load_text(body, "x.yaml").spec
    assert spec is not None and spec.software.nvidia is not None
    assert spec.software.nvidia.driver == f"580{flavour}{'-open' if kernel else ''}"


def test_what_deepops_has_no_variable_for_is_reported() -> None:
    lines = export.not_exported(load_or_raise(EXAMPLES / "dgx-infiniband.yaml"))
    text = "\n".join(lines)
    for field in ("users", "network.topology", "network.data", "slurm.prolog"):
        assert field in text
    assert all(f"# not carried over: {line}" in dgx()[export.VARIABLES] for line in lines)
    data = load_or_raise(EXAMPLES / "dgx-infiniband.yaml").model_dump(mode="json")
    data["partitions"].append({"name": "debug", "groups": ["dgx"]})
    data["storage"].append({"mount": "/scratch", "kind": "existing"})
    more = "\n".join(export.not_exported(ClusterSpec.model_validate(data)))
    assert "partitions: DeepOps makes one partition" in more
    queues = load_or_raise(EXAMPLES / "queues.yaml").model_dump(mode="json")
    queues["partitions"] = [{**queues["partitions"][0], "name": "batch", "max_nodes": 2}]
    left = "\n".join(export.not_exported(ClusterSpec.model_validate(queues)))
    for field in ("partitions[].max_nodes", "slurm.settings", "licenses", "reservations"):
        assert field in left
    assert "partitions[].name" not in left
    assert "storage[].kind: DeepOps mounts by NFS alone" in more
