"""DeepOps' inventory and variables: written, read, and the way there and back."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.errors import Code, CorralError
from corral.providers import deepops
from corral.providers.deepops_inventory import read_inventory
from corral.spec.load import load_or_raise, load_text
from corral.spec.nodes import nodes_of

EXAMPLES = Path(__file__).parents[3] / "examples"

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
    return deepops.deepops_files(load_or_raise(EXAMPLES / "dgx-infiniband.yaml"))


def test_golden(golden: Callable[[str, str], None]) -> None:
    for name, text in dgx().items():
        golden(f"deepops/{name}", text)


def test_there_and_back_it_is_the_same_machines() -> None:
    before = load_or_raise(EXAMPLES / "dgx-infiniband.yaml")
    text, _ = deepops.from_deepops(dgx())
    after = load_text(text, "back.yaml").spec
    assert after is not None
    told = {n.name: (n.address, n.group.ssh) for n in nodes_of(before)}
    assert {n.name: (n.address, n.group.ssh) for n in nodes_of(after)} == told
    assert after.controller == before.controller
    assert after.access == before.access
    kept = [(s.mount, s.kind, s.server, s.path) for s in before.storage]
    assert [(s.mount, s.kind, s.server, s.path) for s in after.storage] == kept


def test_folders_come_back_with_who_is_root_there() -> None:
    before = load_or_raise(EXAMPLES / "dgx-infiniband.yaml")
    open_data = before.storage[1].model_copy(update={"root_squash": False})
    spec = before.model_copy(update={"storage": (before.storage[0], open_data)})
    files = deepops.deepops_files(spec)
    assert set(files) == {"inventory", "group_vars/slurm-cluster.yml", "host_vars/nfs01.yml",
                          "host_vars/nfs02.yml"}  # fmt: skip
    after = load_text(deepops.from_deepops(files)[0], "back.yaml").spec
    assert after is not None
    assert [s.root_squash for s in after.storage] == [True, False]


def test_the_playbooks_clients_are_all_that_mount() -> None:
    """DeepOps' play of NFS clients reads the group, not nfs_client_group of group_vars."""
    inventory = read_inventory(dgx()["inventory"])
    assert inventory.members("slurm-nfs-client") == [
        "head", "login01", *(f"dgx{i:02}" for i in range(1, 11))
    ]  # fmt: skip
    assert inventory.members("slurm-nfs") == ["nfs01", "nfs02"]


# As its performance guide had it in 2020: users before addresses, the server in a group of its own.
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
    text, left = deepops.from_deepops({"inventory": PERF, "group_vars/nfs.yml": NFS})
    spec = load_text(text, "perf.yaml").spec
    assert spec is not None, text
    told = {n.name: (n.address, n.group.ssh.user) for n in nodes_of(spec)}
    assert told == {"dgx01": ("10.0.1.101", "nvidia"), "dgx02": ("10.0.1.102", "ops"),
                    "head": ("10.0.0.100", "nvidia")}  # fmt: skip
    assert spec.partitions[0].groups == ("nodes", "nodes-2")
    assert [(s.server, s.path, s.root_squash) for s in spec.storage] == [
        ("head", "/export/shared", False)
    ]
    assert left == ()


@pytest.mark.parametrize(
    ("said", "jump"),
    [
        ('-o ProxyCommand="ssh -W %h:%p -q ubuntu@10.0.0.1"', "ubuntu@10.0.0.1"),
        ("-o ProxyJump=ops@bastion:2222", "ops@bastion:2222"),
        ('-o ProxyCommand="ssh -W %h:%p -i /k ubuntu@10.0.0.1"', None),
        ('-o ProxyCommand="nc %h %p"', None),
    ],
)
def test_the_way_through_another_host(said: str, jump: str | None) -> None:
    text, left = deepops.from_deepops(
        {"inventory": f"{PERF}[all:vars]\nansible_ssh_common_args='{said}'\n"}
    )
    spec = load_text(text, "perf.yaml").spec
    assert spec is not None, text
    assert {g.ssh.jump for g in spec.groups} == {jump}
    assert (jump is None) == any(said in line for line in left)


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
    text, left = deepops.from_deepops(files)
    assert all("\n" not in line for line in left)
    assert "\nname: evil" not in text
    assert load_text(text, "x.yaml").findings, "a port that is none is a finding of the file"


def test_deepops_own_form_is_read() -> None:
    files = {"inventory": THEIRS, "group_vars/slurm-cluster.yml": VARS}
    text, left = deepops.from_deepops(files)
    loaded = load_text(text, "theirs.yaml")
    assert loaded.spec is not None, loaded.findings
    assert [n.name for n in nodes_of(loaded.spec)] == ["gpu01", "gpu02", "gpu03", "login01"]
    assert loaded.spec.groups[0].ssh.user == "dgx"
    assert loaded.spec.slurm.version == "==24.11.5"
    assert [(s.mount, s.kind) for s in loaded.spec.storage] == [("/home", "nfs"),
                                                                ("/data", "existing")]  # fmt: skip
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
        deepops.from_deepops(files)
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
        deepops.deepops_files(load_or_raise(EXAMPLES / "laptop.yaml"))


def test_ansible_itself_reads_it(tmp_path: Path) -> None:
    program = os.environ.get("CORRAL_TEST_ANSIBLE_INVENTORY") or shutil.which("ansible-inventory")
    if not program:
        pytest.skip("ansible-inventory is not on PATH")
    for name, text in dgx().items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [program, "-i", tmp_path / "inventory", "--host", "dgx07"], capture_output=True, text=True,
        check=False, env={**os.environ, "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert '"ansible_host": "10.0.2.7"' in done.stdout
    assert '"mountpoint": "/nfs/home"' in done.stdout
