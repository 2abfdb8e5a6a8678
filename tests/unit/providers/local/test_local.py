"""Provider local: the machine that Corral runs on, and its GPUs as recorded answers have them."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from corral.api.config import this_machine
from corral.api.config.cluster_draft import Reached, draft
from corral.api.config.this_machine import require_node
from corral.api.operations.nodes import ssh_argv
from corral.apply.session import Session
from corral.errors import Code, CorralError
from corral.hosts.local import Local
from corral.hosts.quote import sh
from corral.providers.containers.gpus import host_gpus
from corral.providers.local import provider
from corral.providers.local.gpus import require_usable
from corral.providers.local.provider import LocalProvider
from corral.spec.load import load_text
from corral.spec.models import ClusterSpec
from tests.unit.api.config.test_cluster_draft import machines
from tests.unit.providers.containers.gpus.test_host_gpus import answers, cards

FILE = """\
corral: v1
name: here
groups:
  - {name: gpu, provider: local, nodes: ws1, addresses: 10.0.0.5, gpu: {type: h200, count: 2}}
controller: ws1
partitions: [{name: main, groups: [gpu], default: true}]
"""


def spec_of(text: str = FILE) -> ClusterSpec:
    loaded = load_text(text, "here.yaml")
    assert loaded.spec is not None, loaded.findings
    return loaded.spec


@pytest.mark.parametrize(
    ("changes", "words", "hint"),
    [
        ({}, r"/dev/nvidia0 \(NVIDIA H200\) is in use by process 422 \(python3\)", "end it"),
        (
            {"cards": "Unable to determine the device handle for GPU0000:00:06.0: Unknown Error"},
            "nvidia-smi does not list the GPU at 0000:00:06.0",
            "Xid 79",
        ),
        ({"programs": ""}, "nvidia-smi is not installed", "PATH"),
        (cards("NVIDIA H200", mig="Enabled"), "is in MIG mode", "-mig 0"),
        (
            cards("NVIDIA H200", "NVIDIA L4"),
            r"they are of 2 models \(NVIDIA H200, NVIDIA L4\)",
            "embedded",
        ),
        (
            {"listed": "", "amd": "/dev/kfd"},
            "they are AMD's, and Corral supports NVIDIA's",
            "remove gpu: from the group",
        ),
    ],
)
def test_gpus_that_slurm_cannot_have(changes: dict[str, str], words: str, hint: str) -> None:
    with pytest.raises(CorralError, match=words) as caught:
        require_usable(answers(**changes))
    assert caught.value.code is Code.PROVIDER_FAILED
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "changes",
    [
        {"users": ""},
        {"listed": ""},
        cards(*["NVIDIA H200"] * 8),
        # A processor of AMD's with graphics, and a GPU whose driver the plan installs.
        {"listed": "", "amd": "/dev/kfd", "pci": "0x030000 0x2684 0000:01:00.0"},
    ],
)
def test_gpus_that_slurm_can_have(changes: dict[str, str]) -> None:
    require_usable(answers(**changes))


def test_gpus_are_checked_until_slurm_is_set_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Later they are in use by jobs, and a plan goes on."""

    async def used() -> None:
        raise CorralError(Code.PROVIDER_FAILED, "in use")

    conf = tmp_path / "slurm.conf"
    monkeypatch.setattr(provider, "check_gpus", used)
    monkeypatch.setattr(provider, "SLURM_CONF", conf)
    here = LocalProvider(spec_of())
    refusal = asyncio.run(here.read_machines()).refusal
    assert refusal is not None and refusal.message == "in use"
    conf.touch()
    assert asyncio.run(here.read_machines()).refusal is None


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        (
            "nodes: ws1, addresses: 10.0.0.5,",
            "nodes: 'ws[1-2]', addresses: '10.0.0.[5-6]',",
            "local-one",
        ),
        ("controller: ws1", "controller: ws1\nnetwork: {control: tailscale}", "mesh-local"),
    ],
)
def test_what_is_not_one_machine(old: str, new: str, rule: str) -> None:
    findings = load_text(FILE.replace(old, new), "here.yaml").findings
    assert rule in {finding.rule for finding in findings}


def test_the_file_of_one_machine() -> None:
    """As ``init --from`` has it, without what only other machines need."""
    machine = machines("lab")[0]
    made = draft("here", [machine], Reached(here=True), {})
    spec = spec_of(made.text)
    (group,) = spec.groups
    assert group.provider == "local"
    assert group.gpu is not None and (group.gpu.type, group.gpu.count) == ("rtx5090", 1)
    assert "addresses: 192.168.1.10" in made.text
    assert "ssh" not in group.model_fields_set
    assert "corral down here.yaml" in made.text
    odd = draft("here", [machines("odd")[3]], Reached(here=True), {})
    assert [text for text in odd.warnings if "DHCP" in text]
    assert not [text for text in odd.warnings if "sshd takes passwords" in text]


def test_gpus_of_amd_are_named_in_the_file() -> None:
    machine = machines("lab")[0]
    assert not machine.amd
    warnings = draft("here", [replace(machine, amd=("/dev/kfd",))], Reached(here=True), {}).warnings
    assert not [text for text in warnings if "AMD" in text], "its GPU is NVIDIA's"
    only = replace(machine, amd=("/dev/kfd",), gpu="", gpus=0)
    made = draft("here", [only], Reached(here=True), {})
    assert [text for text in made.warnings if "GPUs are AMD's, which Corral does not" in text]
    assert spec_of(made.text).groups[0].gpu is None


def test_machines_that_are_no_node() -> None:
    machine = machines("lab")[0]
    require_node(machine, apt=True)
    with pytest.raises(CorralError, match=r"Ubuntu 24.04.* has no Slurm packages"):
        require_node(machine, apt=False)
    alone = replace(machine, facts=replace(machine.facts, address=""))
    with pytest.raises(CorralError, match="no address but loopback's"):
        require_node(alone, apt=True)
    bare = replace(machine, facts=replace(machine.facts, systemd=False))
    with pytest.raises(CorralError, match="no systemd runs on this machine"):
        require_node(bare, apt=True)


def test_other_systems_than_linux_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(this_machine.sys, "platform", "darwin")
    with pytest.raises(CorralError, match="runs darwin"):
        asyncio.run(this_machine.draft_here())


def test_no_ssh_to_the_machine_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    async def free() -> None:
        return

    monkeypatch.setattr(provider, "check_gpus", free)

    async def reached() -> tuple[str, ...]:
        async with await Session.open(spec_of()) as session:
            assert session.targets() == {}
            return session.fleet.nodes

    assert asyncio.run(reached()) == ("ws1",)
    argv = asyncio.run(ssh_argv(spec_of(), "ws1", ["echo", "$HOME"]))
    assert argv[-4:] == ["/bin/sh", "-l", "-c", "echo $HOME"]


def test_scripts_as_root_have_a_clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Corral's own virtual environment is not the machine's Python."""
    monkeypatch.setenv("PATH", f"/venv/bin:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", "/venv")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    script = sh('echo $PATH; echo "[${{PYTHONPATH:-}}]"')
    result = asyncio.run(Local("ws1", root=True).run(script))
    assert "/venv" not in result.stdout
    assert "[]" in result.stdout


def test_sudo_that_wants_a_password(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "sudo"
    program.write_text("#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(CorralError, match="without a password") as caught:
        asyncio.run(Local("ws1", root=True).run(sh("id")))
    assert caught.value.code is Code.FORBIDDEN
    assert "sudo -v" in caught.value.hint


@pytest.mark.parametrize(
    "changes",
    [{"programs": ""}, {"cards": "Unable to determine the device handle"}],
)
def test_what_is_wrong_with_the_driver_is_the_same_for_containers(changes: dict[str, str]) -> None:
    with pytest.raises(CorralError) as here:
        require_usable(answers(**changes))
    with pytest.raises(CorralError) as containers:
        host_gpus.read(answers(**changes))
    assert here.value.hint == containers.value.hint
    assert here.value.message.split(": ", 1)[1] == containers.value.message.split(": ", 1)[1]
