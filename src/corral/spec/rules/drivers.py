"""Rules about drivers, CUDA and desktops: what fits which GPU, and what needs what."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Annotated, Final

from pydantic import BeforeValidator

from corral.spec.findings import Level
from corral.spec.models import NodeGroup
from corral.spec.nodes import partitions_of
from corral.spec.providers import OWNED
from corral.spec.view import GroupView, Problem, Rule, View
from corral.tables import Row, read_table


class Toolkit(Row):
    """The newest CUDA toolkit that a driver branch runs."""

    branch: int
    cuda: str


class Names(Row):
    """Names of GPUs by generation, as ``_plain`` writes them: regular expressions."""

    blackwell: re.Pattern[str]
    before_turing: re.Pattern[str]
    turing: re.Pattern[str]


class Newer(Row):
    """GPUs of a generation that need more than its first ones, as ``drivers.yaml`` explains."""

    names: re.Pattern[str]
    devices: frozenset[str]
    branch: int
    cuda: str


def _hexadecimal(value: object) -> object:
    return int(value, 16) if isinstance(value, str) else value


PciId = Annotated[int, BeforeValidator(_hexadecimal)]


class Drivers(Row):
    """The table ``drivers.yaml``, which explains each key."""

    turing: PciId
    blackwell: PciId
    names: Names
    switches: frozenset[str]
    subnet_manager: frozenset[str]
    subnet_manager_packages: tuple[str, ...]
    imex: re.Pattern[str]
    rack_gpus: int
    newer: tuple[Newer, ...]
    auto: str
    debian: Mapping[str, int]
    blackwell_branch: int
    blackwell_cuda: str
    fitting_branch: int
    open_branch: int
    one_fabric_manager: int
    needs: Mapping[str, int]
    toolkits: tuple[Toolkit, ...]
    below: str


@cache
def driver_table() -> Drivers:
    """Which GPUs need which driver, and which toolkits it runs."""
    return read_table("corral.spec.rules", "drivers.yaml", Drivers)


VENDOR: Final = "source: vendor"


def _real(view: View) -> list[GroupView]:
    return [g for g in view.groups if g.group.gpu_kinds and not g.group.capabilities.containers]


def _types(view: View) -> list[str]:
    return [gpu.type for g in _real(view) for gpu in g.group.gpu_kinds]


def _branch(driver: str) -> int:
    return int(driver[:3]) if driver[:3].isdigit() else 0


def fitting(view: View) -> str:
    """The driver that all declared GPUs and the toolkit run with; "" where there is none.

    A hint that fixed one fault only would lead to the next error.
    """
    nvidia = view.spec.software.nvidia
    if nvidia is None:
        return ""
    types = _types(view)
    new, old = any(map(is_blackwell, types)), any(map(is_before_turing, types))
    if new and old:
        return ""
    branch = max(_branch(nvidia.driver), _needed(nvidia.cuda))
    least = max(map(least_branch, types), default=0)
    branch = driver_table().fitting_branch if branch < least else branch
    server = "-server" if "-server" in nvidia.driver else ""
    opened = new or (nvidia.driver.endswith("-open") and not old)
    return f"{branch}{server}{'-open' if opened else ''}"


_SEPARATORS: Final = str.maketrans("", "", " _-")


def _plain(name: str) -> str:
    """One form of the names in cluster files, in gres.conf and of nvidia-smi: ``rtx5090``."""
    return name.lower().translate(_SEPARATORS).removeprefix("nvidia")


def is_blackwell(name: str) -> bool:
    """Whether a GPU's name is that of a Blackwell GPU."""
    return driver_table().names.blackwell.fullmatch(_plain(name)) is not None


def is_before_turing(name: str) -> bool:
    """Whether a GPU's name is that of one older than Turing."""
    names, plain = driver_table().names, _plain(name)
    return bool(names.before_turing.fullmatch(plain)) and not names.turing.fullmatch(plain)


def _newer(name: str) -> Newer | None:
    rows = (row for row in driver_table().newer if row.names.fullmatch(_plain(name)))
    return next(rows, None)


def least_branch(name: str) -> int:
    """The oldest driver branch that knows a GPU; 0 where none is known to be too old."""
    if not is_blackwell(name):
        return 0
    row = _newer(name)
    return row.branch if row else driver_table().blackwell_branch


def least_cuda(name: str) -> str:
    """The oldest toolkit that compiles for a Blackwell GPU."""
    row = _newer(name)
    return row.cuda if row else driver_table().blackwell_cuda


def least_branch_of(devices: Collection[str]) -> int:
    """The oldest driver branch that knows GPUs, by their PCI device ids."""
    table = driver_table()
    rows = [row.branch for row in table.newer if row.devices.intersection(devices)]
    return max((*rows, table.blackwell_branch))


def driver_fault(name: str, branch: int, *, opened: bool) -> str:
    """Why a GPU does not run with a driver; "" where nothing is known against it."""
    if is_blackwell(name) and not opened:
        return f"{name} (Blackwell) runs with the open kernel module only"
    if branch < least_branch(name):
        return f"branch {branch} does not know {name} (Blackwell)"
    if opened and is_before_turing(name):
        return f"{name} is older than Turing: the open kernel module does not know it"
    return ""


def toolkit_fault(name: str, cuda: str) -> str:
    """Why a CUDA toolkit does not compile for a GPU; "" where nothing is known against it.

    Args:
        name: the GPU's.
        cuda: a release, ``12.4``.
    """
    if is_blackwell(name) and _release_key(cuda) < _release_key(least_cuda(name)):
        return f"CUDA {cuda} cannot compile for {name} (Blackwell)"
    return ""


def _release_key(cuda: str) -> tuple[int, ...]:
    return tuple(map(int, cuda.split(".")))


def _needed(cuda: str) -> int:
    """The oldest driver branch of a toolkit, 0 where any does."""
    needs = driver_table().needs
    return needs.get(cuda, needs.get(cuda.partition(".")[0], 0))


def _release(branch: int) -> str:
    """The newest toolkit that a driver branch runs; 0: any."""
    table = driver_table()
    fits = (row.cuda for row in table.toolkits if not branch or branch >= row.branch)
    return next(fits, table.below)


def _toolkit(view: View) -> str:
    """The newest toolkit that the driver runs which fits all declared GPUs.

    Where none fits them all: the oldest toolkit that compiles for the newest.
    """
    fit = fitting(view)
    needed = (least_cuda(name) for name in _types(view) if is_blackwell(name))
    return _release(_branch(fit)) if fit else max(needed, key=_release_key)


def driver_flavour(view: View) -> Iterator[Problem]:
    """A flavour that the GPUs do not run with."""
    nvidia = view.spec.software.nvidia
    branch = _branch(nvidia.driver) if nvidia else 0
    if nvidia is None or not branch:
        return
    opened = nvidia.driver.endswith("-open")
    where = ("software", "nvidia", "driver")
    fit = fitting(view)
    hint = f"write {fit}" if fit else "write none and install drivers by hand, or make two clusters"
    for name in _types(view):
        message = driver_fault(name, branch, opened=opened)
        if message:
            yield Problem(where, message, hint)


def cuda_source(view: View) -> Iterator[Problem]:
    """A toolkit that its source does not have."""
    nvidia = view.spec.software.nvidia
    if nvidia is None or nvidia.cuda == "none":
        return
    where = ("software", "nvidia", "cuda")
    if nvidia.source == "distribution" and nvidia.cuda != "distribution":
        message = f"the distribution has one toolkit, and it need not be {nvidia.cuda}"
        yield Problem(where, message, f"write cuda: distribution; or {VENDOR}")
    elif nvidia.from_vendor and nvidia.cuda == "distribution":
        message = "the driver is the vendor's, the toolkit the distribution's: two sources"
        release = _toolkit(view)
        yield Problem(where, message, f'write the release you want, such as cuda: "{release}"')


def cuda_driver(view: View) -> Iterator[Problem]:
    """A driver that is too old for the toolkit."""
    nvidia = view.spec.software.nvidia
    branch = _branch(nvidia.driver) if nvidia else 0
    if nvidia is None or not branch:
        return
    need = _needed(nvidia.cuda)
    if branch < need:
        message = f"CUDA {nvidia.cuda} needs driver {need} or newer, this is {branch}"
        release, fit = _release(branch), fitting(view)
        older = f'cuda: "{release}"'
        if fit and any(toolkit_fault(name, release) for name in _types(view)):
            hint = f"write driver: {fit}"
        else:
            hint = f"write driver: {fit}, or {older}" if fit else f"write {older}"
        yield Problem(("software", "nvidia", "cuda"), message, hint)


def cuda_gpu(view: View) -> Iterator[Problem]:
    """A toolkit that is too old for the GPUs."""
    nvidia = view.spec.software.nvidia
    if nvidia is None or not nvidia.cuda[:1].isdigit() or nvidia.source == "distribution":
        return  # the distribution has its one release, and cuda-source reports another one
    for name in _types(view):
        message = toolkit_fault(name, nvidia.cuda)
        if message:
            yield Problem(
                ("software", "nvidia", "cuda"), message, f'write cuda: "{_toolkit(view)}"'
            )


def vendor_repo(view: View) -> Iterator[Problem]:
    """The vendor's repository, where the file names it: with its digest, and used."""
    nvidia = view.spec.software.nvidia
    if nvidia is None:
        return
    repo, digest = nvidia.vendor_repo, nvidia.vendor_sha256
    if repo is not None and repo.startswith("https:") and digest is None:
        message = "an address without the package's digest: whoever answers there becomes root"
        hint = "download it once, look at it, and write sha256sum's answer in vendor_sha256"
        yield Problem(("software", "nvidia", "vendor_repo"), message, hint)
    elif nvidia.source == "distribution" and repo is not None:
        message = "vendor_repo has no effect with source distribution"
        hint = "write source: vendor, or remove it"
        yield Problem(("software", "nvidia", "vendor_repo"), message, hint)


def _joined(group: NodeGroup, machines: int) -> str:
    """The GPUs of a group whose NVLink joins machines, "" where there are none or one machine."""
    several = machines > 1 and not group.capabilities.containers
    names = (gpu.type for gpu in group.gpu_kinds) if several else ()
    return next((n for n in names if driver_table().imex.fullmatch(_plain(n))), "")


def is_rack(group: NodeGroup, machines: int) -> bool:
    """Corral sets up NVLink between these machines: they are the user's, and fit in one rack.

    Args:
        group: the group.
        machines: how many it has.
    """
    fits = machines * group.gpu_count <= driver_table().rack_gpus
    return bool(_joined(group, machines)) and group.capabilities.owned and fits


def nvlink_rack(view: View) -> Iterator[Problem]:
    """GPUs whose NVLink joins machines, which it does with IMEX only."""
    for group in _real(view):
        machines = len(group.names)
        name = _joined(group.group, machines)
        if not name or is_rack(group.group, machines) or group.group.capabilities.configures:
            continue
        names = [gpu.type for gpu in group.group.gpu_kinds]
        why, hint = (
            (
                f"which joins at most {driver_table().rack_gpus} GPUs",
                "write a group for each rack: Corral sets up IMEX for groups of that size",
            )
            if group.group.capabilities.owned
            else (
                "which Corral does not set up here",
                "nvidia-imex of the driver's release on each node with the same "
                "/etc/nvidia-imex/nodes_config.cfg, and slurm.settings: "
                "{SwitchType: switch/nvidia_imex}",
            )
        )
        yield Problem(
            group.at(*group.gpu_paths[names.index(name)], "type"),
            f"NVLink joins the {name} of several machines by NVIDIA's IMEX, {why}: NCCL takes the "
            "network between machines",
            hint,
        )


def nvidia_unused(view: View) -> Iterator[Problem]:
    """A driver for machines that get none."""
    if view.spec.software.nvidia is not None and not _real(view):
        message = f"no group of provider {OWNED} declares a GPU: nothing gets a driver"
        yield Problem(("software", "nvidia"), message, "add gpu to the group, or remove nvidia")


def desktop_gpu(view: View) -> Iterator[Problem]:
    """A desktop that shares a GPU with jobs."""
    if view.spec.software.desktop == "none" or not view.complete:
        return
    group = view.names.get(view.controller)
    used = {name for p in partitions_of(view.spec) for name in p.groups}
    if group is not None and group.group.gpu_kinds and group.group.name in used:
        message = f"the desktop takes memory of {view.controller}'s GPU from jobs there"
        hint = "count on some hundred MiB less there, or make another machine the controller"
        yield Problem(("software", "desktop"), message, hint)


_NVIDIA: Final = ("software.nvidia",)
_GPU_TYPES: Final = ("groups.gpu.type", "groups.gpus.type")
_E, _W, _I = Level.ERROR, Level.WARNING, Level.INFO
_TABLE: Final = driver_table()
RULES: Final = (
    Rule("driver-flavour", _E, "A driver that the declared GPUs do not run with: Blackwell needs "
         f"the open kernel module of branch {_TABLE.blackwell_branch} or newer, GPUs before Turing "
         "the other one.", _NVIDIA, driver_flavour, _GPU_TYPES),
    Rule("cuda-source", _E, "A CUDA toolkit that the chosen source does not have; driver and "
         "toolkit of two sources break each other at the next upgrade.", _NVIDIA, cuda_source),
    Rule("cuda-driver", _E, "A driver branch that is older than the CUDA release needs.",
         _NVIDIA, cuda_driver),
    Rule("cuda-gpu", _E, "A CUDA toolkit that cannot compile for the declared GPUs: Blackwell "
         f"needs {_TABLE.blackwell_cuda} or newer.", _NVIDIA, cuda_gpu,
         _GPU_TYPES),
    Rule("vendor-repo", _E, "The vendor's repository has no digest or is not used.",
         _NVIDIA, vendor_repo),
    Rule("nvidia-unused", _W, "A driver is declared and no real machine has a GPU.",
         _NVIDIA, nvidia_unused, ("groups.gpu", "groups.gpus", "groups.provider")),
    Rule("nvlink-rack", _I, "GPUs whose NVLink joins the machines of a rack (GB200, GB300) in a "
         "group that is larger than a rack, or of rented machines: NVIDIA's IMEX is left to you.",
         _GPU_TYPES, nvlink_rack, ("groups.provider", "groups.nodes")),
    Rule("desktop-gpu", _I, "A desktop on a machine whose GPU runs jobs: both share its memory.",
         ("software.desktop",), desktop_gpu, ("groups", "partitions", "controller")),
)  # fmt: skip
