"""This machine's own NVIDIA GPUs: which there are, which node gets which, how it reaches them."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError
from corral.hosts.local import Local
from corral.hosts.quote import Script, filled, sh
from corral.inspect import nvidia
from corral.inspect.gpu import PCI, gpu_pci, type_of_name
from corral.inspect.nvidia import HostGpu
from corral.inspect.question import Answers, inquiry
from corral.inspect.rules import GpuFault, amd_only, driver_problem, gpu_problem
from corral.providers.containers.gpus import cdi
from corral.spec.models import Gpu
from corral.spec.nodes import Node

HERE: Final = "this machine"
TIMEOUT: Final = 100.0
QUESTIONS: Final = (*nvidia.QUESTIONS, nvidia.AMD, PCI)
FOLDER: Final = "/usr/local/nvidia"
"""Where a node finds the driver's libraries and programs."""

_KNOWN: Final = Path("/proc/driver/nvidia/gpus")
CONTROLS: Final = ("/dev/nvidiactl", "/dev/nvidia-uvm")
"""Files without which no process reaches any GPU."""


def _driven() -> list[Path]:
    return sorted(_KNOWN.glob("*/information"))


def driven() -> int:
    """How many GPUs the loaded NVIDIA driver has; 0 without one."""
    return len(_driven())


@dataclass(frozen=True, slots=True)
class HostGpus:
    """The GPUs of a machine and its driver.

    Attributes:
        gpus: those that the driver's tools list, by number.
        libraries: the driver's libraries, path by soname.
        programs: paths of its programs.
        cdi: what gives a container these GPUs and the driver, where the machine has it.
        version: of the driver; "" where it is unknown.
    """

    gpus: tuple[HostGpu, ...] = ()
    libraries: Mapping[str, str] | None = None
    programs: tuple[str, ...] = ()
    cdi: cdi.Devices = cdi.NOTHING
    version: str = ""

    def options(self, own: Sequence[HostGpu]) -> list[str]:
        """Options of ``podman run`` for a node with these GPUs."""
        names = self.cdi.of(gpu.device for gpu in own)
        if names is None:
            return [part for volume in self.volumes() for part in ("--volume", volume)]
        return [part for name in names for part in ("--device", name)]

    def method(self, own: Sequence[HostGpu]) -> str:
        """How a node gets these GPUs, in words."""
        if self.cdi.of(gpu.device for gpu in own) is not None:
            return "by CDI"
        return f"by device files ({self.cdi.reason or 'its CDI specification lacks a GPU'})"

    def volumes(self) -> list[str]:
        """``podman run``'s values of ``--volume``: the driver as a node finds it, read-only.

        Libraries end in the driver's version, as its installer names them; ldconfig links their
        sonames. libnvidia-container takes no other into a job's container (1.12.1,
        ``select_libraries`` of src/nvc_info.c).
        """
        libraries = self.libraries or {}
        files = {f"lib64/{self._file(name)}": path for name, path in libraries.items()}
        files |= {f"bin/{path.rpartition('/')[2]}": path for path in self.programs}
        return [f"{path}:{FOLDER}/{name}:ro" for name, path in sorted(files.items())]

    def _file(self, soname: str) -> str:
        return f"{soname.partition('.so')[0]}.so.{self.version}" if self.version else soname


async def host_gpus() -> HostGpus:
    """Look at this machine.

    Raises:
        CorralError: PROVIDER_FAILED, its GPUs cannot be used; TIMED_OUT, the driver hangs.
    """
    asked = inquiry(QUESTIONS)
    result = await Local(HERE).run(asked.script, timeout=TIMEOUT)
    known = await asyncio.to_thread(cdi.devices)
    here = read(asked.answers(result.stdout, HERE, "look at the GPUs"), known)
    return replace(here, version=await asyncio.to_thread(driver_version))


def read(answers: Answers, known: cdi.Devices = cdi.NOTHING) -> HostGpus:
    """The answers to ``QUESTIONS`` as GPUs.

    Args:
        answers: the answers.
        known: devices of the machine's CDI specifications, which bring the driver's libraries.

    Raises:
        CorralError: PROVIDER_FAILED, in one sentence why they cannot be used.
    """
    state = nvidia.driver_state(answers)
    devices = nvidia.DEVICES.read(answers)
    if not state.loaded:
        amd = amd_only(nvidia.AMD.read_or_empty(answers), gpu_pci(answers))
        other = "an AMD GPU" if amd else "no NVIDIA GPU with a loaded driver"
        raise _unusable(f"it has {other}")
    if problem := driver_problem(state.loaded, state.listed, state.programs):
        tail = state.printed[-500:] if problem.fault is GpuFault.UNLISTED else ""
        raise _unusable(problem.text, tail=tail, hint=problem.hint)
    if absent := [file for file in CONTROLS if file not in devices]:
        hint = "nvidia-modprobe -u -c 0, or run any CUDA program once"
        raise _unusable(f"{', '.join(absent)} does not exist", hint=hint)
    libraries = nvidia.LIBRARIES.read(answers)
    if "libcuda.so.1" not in libraries and known.of(gpu.device for gpu in state.gpus) is None:
        hint = "install the driver's libraries, then run ldconfig"
        why = known.reason or "its CDI specification lacks a GPU"
        raise _unusable(f"ldconfig lists no libcuda.so.1, and CDI is not used ({why})", hint=hint)
    return HostGpus(state.gpus, libraries, tuple(map(str, state.programs)), known)


def divide(
    nodes: Sequence[Node],
    here: HostGpus,
    held: Mapping[str, Collection[str]],
    others: Mapping[str, str],
) -> dict[str, tuple[HostGpu, ...]]:
    """Each node's GPUs: those it has, else the lowest free ones of its group's type.

    Pure. A group's type chooses among several models: ``h200`` takes those whose model's name holds
    that word; where all are of one model, the type may be any.

    Args:
        nodes: those that get the machine's own GPUs.
        here: what the machine has.
        held: by node, uuids that its container was made with.
        others: by uuid, the container of another cluster that holds it.

    Raises:
        CorralError: PROVIDER_FAILED, too few are free, or one of them cannot be used.
    """
    by_uuid = {gpu.uuid: gpu for gpu in here.gpus}
    kept = {
        node.name: tuple(by_uuid[uuid] for uuid in held[node.name])
        for node in nodes
        if node.name in held
        and len(held[node.name]) == node.group.gpu_count
        and all(uuid in by_uuid for uuid in held[node.name])
    }
    taken = {gpu.uuid for gpus in kept.values() for gpu in gpus} | set(others)
    divided: dict[str, tuple[HostGpu, ...]] = {}
    for node in nodes:
        if node.name not in kept:
            free = [gpu for gpu in here.gpus if gpu.uuid not in taken]
            kept[node.name] = _chosen(node, here, free, others)
            taken |= {gpu.uuid for gpu in kept[node.name]}
        divided[node.name] = kept[node.name]
    return divided


def _chosen(
    node: Node, here: HostGpus, free: Sequence[HostGpu], others: Mapping[str, str]
) -> tuple[HostGpu, ...]:
    chosen: list[HostGpu] = []
    for declared in node.group.gpu_kinds:
        left = [gpu for gpu in free if gpu not in chosen]
        chosen += _of_type(node, declared, here, left, others)
    return tuple(sorted(chosen, key=lambda gpu: gpu.number))


def _of_type(
    node: Node,
    declared: Gpu,
    here: HostGpus,
    free: Sequence[HostGpu],
    others: Mapping[str, str],
) -> tuple[HostGpu, ...]:
    models = sorted({gpu.name for gpu in here.gpus})
    if len(models) > 1:
        word = _plain(declared.type)
        free = [gpu for gpu in free if word in _plain(gpu.name)]
    if len(free) < declared.count:
        held = "; ".join(f"{uuid} is held by {holder}" for uuid, holder in sorted(others.items()))
        raise _unusable(
            f"{node.name} declares {declared.count} GPUs of type {declared.type}, {len(free)} are "
            f"free of {len(here.gpus)} ({', '.join(models)})",
            tail=held,
            hint="declare fewer nodes or GPUs, name the type after the model, or remove the other "
            "cluster: corral down",
        )
    chosen = tuple(free[: declared.count])
    for problem in filter(None, map(gpu_problem, chosen)):
        fewer = problem.fault is GpuFault.IN_USE
        hint = f"{problem.hint}; or declare fewer GPUs" if fewer else problem.hint
        raise _unusable(problem.text, hint=hint)
    return chosen


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _unusable(why: str, *, tail: str = "", hint: str = "") -> CorralError:
    return CorralError(
        Code.PROVIDER_FAILED,
        f"nodes cannot have GPUs of this machine: {why}",
        tail=tail,
        hint=hint
        or "remove source: host from gpu: nodes then have stand-ins, which compute nothing",
    )


def for_template(each: str | float = 1) -> dict[str, str | int]:
    """Values of the template ``laptop``: nodes that share the GPUs here, none without GPUs.

    Of several models the most frequent one is taken.

    Args:
        each: GPUs of each node; the file's rules judge whether it is a count.
    """
    files = _driven()
    text = "".join(file.read_text() for file in files)
    models: list[str] = re.findall(r"^Model:\s*(.+?)\s*$", text, re.M)
    kinds = Counter(type_of_name(model) for model in models)
    if not kinds:
        return {}
    kind, count = kinds.most_common(1)[0]
    last = count // max(int(each), 1) - 1 if str(each).isdecimal() else 0
    nodes = f"node[0-{last}]" if last > 0 else "node0"
    return {"nodes": nodes, "gpu_type": kind, "gpu_count": 1, "gpu_source": "host"}


def label(gpus: Sequence[HostGpu]) -> str:
    """A container's label about the GPUs it has."""
    return ",".join(f"{gpu.uuid}={gpu.device}" for gpu in gpus)


def labelled(label: str) -> dict[str, str]:
    """Device file by uuid, from ``label``."""
    return dict(pair.split("=", 1) for pair in label.split(",") if pair)


def remembered(label: Mapping[str, str]) -> tuple[HostGpu, ...]:
    """The GPUs of a container that exists, as far as its label has them: no model, no memory."""
    return tuple(HostGpu(device, "", uuid, "", 0) for uuid, device in label.items())


def driver_version() -> str:
    """The version of this machine's NVIDIA kernel module, "" where none is loaded."""
    try:
        return Path("/sys/module/nvidia/version").read_text().strip()
    except OSError:
        return ""


def entry(gpus: Sequence[HostGpu]) -> Script:
    """What shows a node its own GPUs and no others, at every start before init."""
    script = filled(
        "containers/host-gpus.sh",
        devices=[gpu.device for gpu in gpus],
        buses=[gpu.bus for gpu in gpus],
        folder=FOLDER,
    )
    return sh("{script}\n", script=script)
