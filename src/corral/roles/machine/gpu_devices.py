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
from corral.slurm.version import has
from corral.spec.models import Gpu, NodeGroup
from corral.spec.nodes import Node
from corral.spec.slurm.releases import Feature


def gpus_of(group: NodeGroup, facts: Facts, traits: Traits) -> tuple[GpuConf, ...]:
    """The GPUs of a node of a group that jobs get, by type, with their device files."""
    devices = _for_jobs(group, facts, traits)
    if devices is None:
        # As declared: slurmd then reports what is really there, and the node goes INVALID when
        # fewer are found (F10), instead of a smaller cluster being made silently.
        return as_declared(group)
    kinds = kinds_of(group, _models(devices, facts))
    chosen = zip(devices, kinds or in_order(group), strict=True)
    files: dict[str, list[str]] = {gpu.type: [] for gpu in group.gpu_kinds}
    for device, kind in chosen:
        files[kind].append(device)
    return tuple(_conf(gpu, files[gpu.type]) for gpu in group.gpu_kinds)


def withheld(site: Site, node: Node) -> str:
    """Device files of the GPUs that no job gets, folded; "" for none.

    A group that declares no GPU is as before where they cannot be withheld: jobs can open them.
    """
    others = _others(node.group, site.facts[node.name], site.traits[node.name])
    return "" if _slurm_cannot(site) else others


def _others(group: NodeGroup, facts: Facts, traits: Traits) -> str:
    """Device files of the GPUs that the group does not declare, folded; "" for none."""
    if not _judged(group, traits):
        return ""
    mine = _for_jobs(group, facts, traits)
    others = [gpu.device for gpu in facts.gpus if mine is not None and gpu.device not in mine]
    return _folded(others) if others else ""


def _judged(group: NodeGroup, traits: Traits) -> bool:
    """The machine has the GPUs that it has: nobody chooses some of them for its node."""
    return group.capabilities.owned and not traits.gpu_devices


def _for_jobs(group: NodeGroup, facts: Facts, traits: Traits) -> tuple[str, ...] | None:
    """Device files of as many GPUs as the group declares; None where the machine has fewer.

    Of more than it declares: the first of each type by their models, else the first of all.
    """
    devices = traits.gpu_devices or tuple(gpu.device for gpu in facts.gpus)
    if len(devices) > group.gpu_count and _judged(group, traits):
        models = _models(devices, facts)
        by_model = _first_of_each(group, devices, models)
        known = any(_kind(group.gpu_kinds, model) for model in models)
        return by_model if known else devices[: group.gpu_count]
    return devices if len(devices) == group.gpu_count else None


def _first_of_each(
    group: NodeGroup, devices: Sequence[str], models: Sequence[str]
) -> tuple[str, ...] | None:
    """As many devices of each type as the group declares; None where a type has fewer."""
    left = Counter({gpu.type: gpu.count for gpu in group.gpu_kinds})
    chosen: list[str] = []
    for device, model in zip(devices, models, strict=True):
        kind = _kind(group.gpu_kinds, model)
        if left[kind] > 0:
            left[kind] -= 1
            chosen.append(device)
    return None if any(left.values()) else tuple(chosen)


def _models(devices: Sequence[str], facts: Facts) -> list[str]:
    """The model of each device, "" where nvidia-smi does not list it."""
    models = {gpu.device: gpu.name for gpu in facts.gpus}
    return [models.get(device, "") for device in devices]


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
    """The machines have the GPUs that their groups declare, and the others can be withheld.

    What is in no gres.conf Slurm keeps no job from: a job of one GPU could open those of others
    (docs/measurements/2026-11-22-h200x4-slurm.md). So GPUs that are not declared are in it under
    another name (docs/guide/gpus.md).

    Raises:
        CorralError: NOT_GOOD, a machine has others than its group declares, or more, and they
            cannot be withheld.
    """
    for node in site.compute:
        group, traits = node.group, site.traits[node.name]
        if not _judged(group, traits):
            continue
        facts = site.facts[node.name]
        there = [gpu.name for gpu in facts.gpus]
        counts = Counter(name or "that nvidia-smi does not list" for name in there)
        models = ", ".join(f"{count} {model}" for model, count in counts.items())
        if _of_other_types(group, there):
            declared = ", ".join(f"{gpu.count} {gpu.type}" for gpu in group.gpu_kinds)
            raise CorralError(
                Code.NOT_GOOD,
                f"this machine has {models}, and the file declares {declared}",
                node=node.name,
                hint="write the types and counts that it has: "
                f"gpus: {_flow(Counter(map(type_of_name, there)))} in group {group.name}; "
                "a machine unlike the others of its group needs a separate group",
            )
        more = len(there) > group.gpu_count > 0
        if more and (reason := _cannot_withhold(site, node)):
            raise CorralError(
                Code.NOT_GOOD,
                f"this machine has {plural(len(there), 'GPU')} ({models}), and the file declares "
                f"{group.gpu_count}: {reason}, so jobs could open the others",
                node=node.name,
                hint=_undeclared(group, there),
            )


def _cannot_withhold(site: Site, node: Node) -> str:
    """Why GPUs that are not declared cannot be kept from jobs; "" where they can."""
    if not _others(node.group, site.facts[node.name], site.traits[node.name]):
        return "nvidia-smi does not list all of them, and which ones are meant is unknown"
    return _slurm_cannot(site)


def _slurm_cannot(site: Site) -> str:
    """Why Slurm cannot keep GPUs from jobs; "" where it can."""
    if not has(site.version, Feature.EXPLICIT_GRES):
        return f"Slurm {site.version} gives them to jobs with a node to themselves"
    plugins = site.spec.slurm.settings.get("JobSubmitPlugins", "")
    if "lua" in plugins.split(","):
        return "slurm.settings.JobSubmitPlugins has another job_submit.lua"
    return ""


def _of_other_types(group: NodeGroup, models: Sequence[str]) -> bool:
    """The machine's models are among the declared types, and it has too few of one of them.

    Not judged where it has fewer GPUs than declared (Slurm reports that), where one type is
    declared for as many GPUs as it has, nor where nvidia-smi does not name a GPU: it may be of any
    type.
    """
    one_type = len(group.gpu_kinds) == 1 and len(models) == group.gpu_count
    if "" in models or one_type or len(models) < group.gpu_count:
        return False
    known = any(_kind(group.gpu_kinds, model) for model in models)
    return known and _first_of_each(group, models, models) is None


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
