"""NVIDIA's CDI specifications of this machine: which device of theirs is which GPU.

``nvidia-ctk cdi generate`` and ``nvidia-cdi-refresh.service`` write them; podman gives a container
what a device of theirs lists (Container Device Interface 0.5 to 1.0, SPEC.md).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import BaseModel, Field

FOLDERS: Final = (Path("/etc/cdi"), Path("/var/run/cdi"))
"""Where podman looks for specifications; of one device in both the later counts."""
KIND: Final = "nvidia.com/gpu"
_GPU_FILE: Final = re.compile(r"/dev/nvidia\d+")


_MIG: Final = "/dev/nvidia-caps/"


class _Node(BaseModel):
    path: str
    host_path: str = Field(default="", alias="hostPath")
    type: str = ""
    major: int | None = None


class _Mount(BaseModel):
    host_path: str = Field(alias="hostPath")


class _Hook(BaseModel):
    path: str


class _Edits(BaseModel):
    device_nodes: list[_Node] = Field(default=[], alias="deviceNodes")
    mounts: list[_Mount] = []
    hooks: list[_Hook] = []

    def paths(self) -> list[str]:
        """Files that have to be there: podman looks at a device whose numbers are not given."""
        devices = [
            n.host_path or n.path for n in self.device_nodes if not n.type or n.major is None
        ]
        mounts = [mount.host_path for mount in self.mounts]
        return [*devices, *mounts, *(hook.path for hook in self.hooks)]


class _Device(BaseModel):
    name: str
    edits: _Edits = Field(alias="containerEdits")


class Specification(BaseModel):
    """What is read of a specification; other keys are podman's."""

    devices: list[_Device]
    edits: _Edits = Field(default=_Edits(), alias="containerEdits")


@dataclass(frozen=True, slots=True)
class Devices:
    """What ``podman run --device`` takes for each GPU.

    Attributes:
        names: by device file, such as ``/dev/nvidia0``; empty where CDI cannot be used.
        reason: why not; "" where it can.
    """

    names: Mapping[str, str]
    reason: str = ""

    def of(self, files: Iterable[str]) -> list[str] | None:
        """The names of these device files; None unless all have one."""
        names = [self.names.get(file) for file in files]
        return None if None in names else [name for name in names if name is not None]


NOTHING: Final = Devices({}, "no CDI specification")
NOT_WRITTEN: Final = Devices(
    {},
    "no CDI specification, which nvidia-ctk of this machine writes: "
    "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
)


def devices(folders: Collection[Path] = FOLDERS) -> Devices:
    """The devices of this machine's specifications.

    A specification that names files which are not there was written for another driver: podman
    would refuse it.
    """
    known = NOTHING
    for folder in folders:
        try:
            files = sorted(folder.iterdir()) if folder.is_dir() else []
        except OSError as error:
            known = known if known.names else Devices({}, f"{folder}: {error.strerror}")
            continue
        for file in files:
            if file.suffix in {".yaml", ".json"}:
                known = _added(known, file)
    return NOT_WRITTEN if known == NOTHING and shutil.which("nvidia-ctk") else known


def _added(known: Devices, file: Path) -> Devices:
    from ruamel.yaml import YAML  # noqa: PLC0415 - slow to import, and few machines have a file
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415

    try:
        text = file.read_text()
        content: object = YAML(typ="safe").load(text)  # pyright: ignore[reportUnknownMemberType]
        if not (isinstance(content, dict) and ("kind", KIND) in content.items()):
            return known
        names, paths = named(Specification.model_validate(content))
    except (YAMLError, OSError, ValueError):
        return known if known.names else Devices({}, f"{file} cannot be read as a specification")
    if absent := next((path for path in paths if not Path(path).exists()), ""):
        why = f"{file} names {absent}, which is not there: nvidia-ctk cdi generate --output={file}"
        return known if known.names else Devices({}, why)
    return Devices({**known.names, **names})


def named(specification: Specification) -> tuple[dict[str, str], list[str]]:
    """Names by device file, and the files of this machine that they need.

    Pure. Of several devices with the same file the one that is named by uuid is taken: numbers
    change with the order of the GPUs. A device with several GPUs, such as ``all``, and a part of
    one (MIG) is none of them.
    """
    names: dict[str, str] = {}
    paths = specification.edits.paths()
    for device in specification.devices:
        nodes = [node.path for node in device.edits.device_nodes]
        files = [path for path in nodes if _GPU_FILE.fullmatch(path)]
        if len(files) != 1 or any(path.startswith(_MIG) for path in nodes):
            continue
        paths += device.edits.paths()
        if files[0] not in names or device.name.startswith("GPU-"):
            names[files[0]] = f"{KIND}={device.name}"
    return names, paths
