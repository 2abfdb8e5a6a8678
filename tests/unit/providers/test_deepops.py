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
    assert any("ProxyCommand" in line for line in left)
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
        deepops.read_inventory(text)
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
