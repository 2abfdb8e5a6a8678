"""Which device files the GPUs of each declared type are. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from corral.errors import Code, CorralError
from corral.inspect.facts import Facts, Traits
from corral.inspect.gpu import type_of_name
from corral.plurals import plural
from corral.roles.inventory import Site
from corral.slurm.conf.model import GpuConf
from corral.spec.models import Gpu, NodeGroup


def gpus_of(group: NodeGroup, facts: Facts, traits: Traits) -> tuple[GpuConf, ...]:
    """The GPUs of a node of a group, by type, with their device files."""
    devices = traits.gpu_devices or tuple(gpu.device for gpu in facts.gpus)
    if len(devices) != group.gpu_count:
        # As declared: slurmd then reports what is really there, and the node goes INVALID when
        # fewer are found (F10), instead of a smaller cluster being made silently.
        return as_declared(group)
    models = {gpu.device: gpu.name for gpu in facts.gpus}
    kinds = kinds_of(group, [models.get(device, "") for device in devices])
    chosen = zip(devices, kinds or in_order(group), strict=True)
    files: dict[str, list[str]] = {gpu.type: [] for gpu in group.gpu_kinds}
    for device, kind in chosen:
        files[kind].append(device)
    return tuple(_conf(gpu, files[gpu.type]) for gpu in group.gpu_kinds)


def as_declared(group: NodeGroup) -> tuple[GpuConf, ...]:
    """The GPUs of a node of which nothing is known, in the order of the file."""
    first, gpus = 0, list[GpuConf]()
    for gpu in group.gpu_kinds:
        files = [f"/dev/nvidia{number}" for number in range(first, first + gpu.count)]
        gpus.append(_conf(gpu, files))
        first += gpu.count
    return tuple(gpus)


def in_order(group: NodeGroup) -> list[str]:
    """The type of each GPU, where their order is all that is known."""
    return [gpu.type for gpu in group.gpu_kinds for _ in range(gpu.count)]


def kinds_of(group: NodeGroup, models: Sequence[str]) -> list[str] | None:
    """The declared type of each GPU by its model; None where they do not match."""
    kinds = [_kind(group.gpu_kinds, model) for model in models]
    known = [kind for kind in kinds if kind]
    if Counter(known) != {gpu.type: gpu.count for gpu in group.gpu_kinds}:
        return None
    return known if len(known) == len(kinds) else None


def _kind(kinds: Sequence[Gpu], model: str) -> str:
    """The type that a model is: the one of its name, else the longest that is words of it."""
    exact = type_of_name(model)
    words = _words(model)
    ends = range(1, len(words) + 1)
    runs = {"".join(words[first:end]) for end in ends for first in range(end)}
    parts = [gpu.type for gpu in kinds if _plain(gpu.type) in runs]
    return next((g.type for g in kinds if g.type == exact), max(parts, key=len, default=""))


def _words(name: str) -> list[str]:
    return re.findall("[a-z0-9]+", name.lower())


def _plain(name: str) -> str:
    return "".join(_words(name))


def _conf(gpu: Gpu, devices: Sequence[str]) -> GpuConf:
    return GpuConf(
        type=gpu.type,
        count=gpu.count,
        files=_folded(devices),
        shards=gpu.shards or 0,
    )


def _folded(devices: Sequence[str]) -> str:
    numbers = [device.removeprefix("/dev/nvidia") for device in devices]
    first = int(numbers[0]) if numbers[0].isdecimal() else -1
    last = first + len(numbers) - 1
    if len(numbers) > 1 and first >= 0 and numbers == [str(n) for n in range(first, last + 1)]:
        return f"/dev/nvidia[{first}-{last}]"
    return ",".join(devices)


def check(site: Site) -> None:
    """No machine has more GPUs than its group declares; groups without any are not judged.

    They would be in no gres.conf, and what is in none Slurm keeps no job from: a job of one GPU
    could open those of others (docs/measurements/2026-11-22-h200x4-slurm.md).

    Raises:
        CorralError: NOT_GOOD, a machine has more than its group declares, or others.
    """
    for node in site.compute:
        group = node.group
        owned = group.capabilities.owned and not site.traits[node.name].gpu_devices
        if not group.gpu_kinds or not owned:
            continue
        there = [gpu.name for gpu in site.facts[node.name].gpus]
        counts = Counter(name or "that nvidia-smi does not list" for name in there)
        models = ", ".join(f"{count} {model}" for model, count in counts.items())
        if len(there) > group.gpu_count:
            raise CorralError(
                Code.NOT_GOOD,
                f"this machine has {plural(len(there), 'GPU')} ({models}), and the file declares "
                f"{group.gpu_count}: Slurm keeps no job from those that it does not know",
                node=node.name,
                hint=_undeclared(group, there),
            )
        if len(there) == group.gpu_count and _others(group, there):
            declared = ", ".join(f"{gpu.count} {gpu.type}" for gpu in group.gpu_kinds)
            raise CorralError(
                Code.NOT_GOOD,
                f"this machine has {models}, and the file declares {declared}",
                node=node.name,
                hint="write the types and counts that it has: "
                f"gpus: {_flow(Counter(map(type_of_name, there)))} in group {group.name}; "
                "a machine unlike the others of its group needs a separate group",
            )


def _others(group: NodeGroup, models: Sequence[str]) -> bool:
    """Several types are declared, the machine's models are among them, and counts differ.

    Not judged where nvidia-smi does not name a GPU: it may be of any type.
    """
    if "" in models:
        return False
    if len(group.gpu_kinds) < 2 or kinds_of(group, models) is not None:  # noqa: PLR2004
        return False
    return any(_kind(group.gpu_kinds, model) for model in models)


def _undeclared(group: NodeGroup, there: Sequence[str]) -> str:
    """What to do about more GPUs than declared."""
    types = Counter(type_of_name(model) for model in there)
    out = (
        "take those that are not for jobs out of the machine, or keep NVIDIA's driver off them "
        "from boot on (driver_override of their PCI device, then unbind)"
    )
    if "" in types:
        return out
    if len(types) == 1:
        kind = group.gpu_kinds[0].type
        what = f"gpu: {{type: {kind}, count: {len(there)}}}"
    else:
        what = f"gpus: {_flow(types)}"
    return (
        f"{what} in group {group.name}; a machine unlike the others of its group needs a separate "
        f"group; or {out}"
    )


def _flow(types: Counter[str]) -> str:
    """Types and counts as the cluster file has them."""
    return f"[{', '.join(f'{{type: {kind}, count: {n}}}' for kind, n in types.items())}]"
