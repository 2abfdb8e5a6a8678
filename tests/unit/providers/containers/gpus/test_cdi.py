"""NVIDIA's CDI specifications: which device is which GPU, and when they cannot be used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from corral.providers.containers.gpus import cdi

SPECIFICATION = """
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
  - name: "0"
    containerEdits: {deviceNodes: [{path: /dev/nvidia1}, {path: /dev/dri/card1}]}
  - name: GPU-b
    containerEdits: {deviceNodes: [{path: /dev/nvidia1}, {path: /dev/dri/card1}]}
  - name: GPU-a
    containerEdits: {deviceNodes: [{path: /dev/nvidia0}]}
  - name: "1"
    containerEdits: {deviceNodes: [{path: /dev/nvidia0}]}
  - name: "2:0"
    containerEdits: {deviceNodes: [{path: /dev/nvidia2}, {path: /dev/nvidia-caps/nvidia-cap3}]}
  - name: all
    containerEdits: {deviceNodes: [{path: /dev/nvidia0}, {path: /dev/nvidia1}]}
containerEdits:
  deviceNodes: [{path: /dev/nvidiactl}]
  hooks: [{hookName: createContainer, path: HOOK, args: [nvidia-cdi-hook]}]
  mounts: [{hostPath: LIBRARY, containerPath: /usr/lib/libcuda.so.1, options: [ro]}]
"""


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    made = [tmp_path / name for name in ("etc", "run")]
    for folder in made:
        folder.mkdir()
    return made


def write(file: Path, text: str = SPECIFICATION) -> None:
    text = re.sub(r"\{path: (/dev/[^}]*)\}", r"{path: \1, hostPath: DEVICE}", text)
    for word in ("HOOK", "LIBRARY", "DEVICE"):
        (file.parent / word).touch()
        text = text.replace(word, str(file.parent / word))
    file.write_text(text)


def test_a_gpu_is_found_by_its_file_and_named_by_its_uuid(folders: list[Path]) -> None:
    write(folders[1] / "nvidia.yaml")
    assert cdi.devices(folders) == cdi.Devices(
        {"/dev/nvidia0": "nvidia.com/gpu=GPU-a", "/dev/nvidia1": "nvidia.com/gpu=GPU-b"}
    )


def test_what_nvidia_ctk_writes_is_read(folders: list[Path]) -> None:
    """Of two H200 with driver 580.159.04; the uuids are made up."""
    recorded = Path(__file__).parents[4] / "recorded/host_gpus/nvidia-ctk-1.18.0.yaml"
    text = recorded.read_text()
    specification = cdi.Specification.model_validate(YAML(typ="safe").load(text))
    names, paths = cdi.named(specification)
    zeros = "00000000-0000-0000-0000-00000000000"
    assert names == {
        "/dev/nvidia0": f"nvidia.com/gpu=GPU-{zeros}a",
        "/dev/nvidia1": f"nvidia.com/gpu=GPU-{zeros}b",
    }
    assert "/usr/local/bin/nvidia-ctk" in paths
    assert "/usr/local/nvidia/lib64/libcuda.so.580.159.04" in paths
    # The files are not there: it is another machine's.
    (folders[0] / "nvidia.yaml").write_text(text)
    assert "which is not there" in cdi.devices(folders).reason


def test_specifications_in_json_are_read(folders: list[Path]) -> None:
    node = '{"path": "/dev/nvidia0", "hostPath": "DEVICE"}'
    device = f'{{"name": "0", "containerEdits": {{"deviceNodes": [{node}]}}}}'
    write(folders[0] / "nvidia.json", f'{{"kind": "nvidia.com/gpu", "devices": [{device}]}}')
    assert cdi.devices(folders).names == {"/dev/nvidia0": "nvidia.com/gpu=0"}


@pytest.mark.parametrize("absent", ["HOOK", "LIBRARY", "DEVICE"])
def test_one_of_another_driver_is_not_used(folders: list[Path], absent: str) -> None:
    write(folders[0] / "nvidia.yaml")
    (folders[0] / absent).unlink()
    known = cdi.devices(folders)
    assert not known.names
    assert known.reason.startswith(f"{folders[0]}/nvidia.yaml names {folders[0]}/{absent}, which")
    assert known.of(["/dev/nvidia0"]) is None


@pytest.mark.parametrize(
    "text", ["a: [", "\x00", "kind: nvidia.com/gpu\ndevices: 3", "kind: nvidia.com/gpu"]
)
def test_what_is_no_specification_is_named(folders: list[Path], text: str) -> None:
    (folders[0] / "nvidia.yaml").write_text(text)
    reason = f"{folders[0]}/nvidia.yaml cannot be read as a specification"
    assert cdi.devices(folders) == cdi.Devices({}, reason)


def test_a_specification_that_nobody_wrote_is_named_with_the_command(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = folders[0] / "nvidia-ctk"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(folders[0]))
    command = "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
    assert cdi.devices(folders) == cdi.NOT_WRITTEN
    assert cdi.NOT_WRITTEN.reason.endswith(command)
    (folders[1] / "nvidia.yaml").write_text("a: [")
    assert "cannot be read" in cdi.devices(folders).reason
    write(folders[1] / "nvidia.yaml")
    assert not cdi.devices(folders).reason


def test_specifications_of_others_and_other_files_do_not_count(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(folders[0]))
    write(folders[0] / "net.yaml", SPECIFICATION.replace("nvidia.com/gpu", "vendor.com/net"))
    write(folders[0] / "nvidia.yaml.old")
    (folders[1] / "list.yaml").write_text("- 1")
    folders[1].rename(folders[1].with_name("gone"))
    assert cdi.devices(folders) == cdi.NOTHING
