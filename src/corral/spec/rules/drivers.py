"""Rules about drivers, CUDA and desktops: what fits which GPU, and what needs what."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from corral.spec.findings import Level
from corral.spec.nodes import partitions_of
from corral.spec.providers import OWNED
from corral.spec.view import GroupView, Problem, Rule, View

NEED: Final = {"13": 580, "12.9": 575, "12.8": 570}
"""The oldest driver branch of CUDA releases (CUDA release notes, table of toolkit drivers)."""
BLACKWELL_BRANCH: Final = 570
FITTING_BRANCH: Final = 580
"""What hints name for Blackwell: the oldest branch that also runs CUDA 13."""
TOOLKITS: Final = (
    *((580, "13.0"), (575, "12.9"), (570, "12.8"), (565, "12.7"), (560, "12.6"), (555, "12.5")),
    *((550, "12.4"), (545, "12.3")),
)
"""The newest toolkit of each driver branch (CUDA release notes, table of toolkit drivers)."""
VENDOR: Final = "source: vendor"
# What people write as gpu.type; machines are asked by PCI id before anything is installed.
_BLACKWELL: Final = re.compile(r"(geforce_?)?(rtx)?_?50[5-9]0.*|g?b[123]00.*|rtx_?pro.*")
_OLD: Final = re.compile(
    r"(geforce_?)?gtx_?1[0-9]{3}.*|titan_?(v|xp?)|[pv]100.*|p40|tesla_?[kmpv].*"
)
_TURING: Final = re.compile(r"(geforce_?)?gtx_?16[0-9]{2}.*")


def _real(view: View) -> list[GroupView]:
    return [g for g in view.groups if g.group.gpu and not g.group.capabilities.containers]


def _branch(driver: str) -> int:
    return int(driver[:3]) if driver[:3].isdigit() else 0


def fitting(view: View) -> str:
    """The driver that all declared GPUs and the toolkit run with; "" where there is none.

    A hint that fixed one fault only would lead to the next error.
    """
    nvidia = view.spec.software.nvidia
    if nvidia is None:
        return ""
    types = [g.group.gpu.type for g in _real(view) if g.group.gpu]
    new = any(_BLACKWELL.fullmatch(name) for name in types)
    old = any(_OLD.fullmatch(name) and not _TURING.fullmatch(name) for name in types)
    if new and old:
        return ""
    branch = max(_branch(nvidia.driver), _needed(nvidia.cuda))
    branch = FITTING_BRANCH if new and branch < BLACKWELL_BRANCH else branch
    server = "-server" if "-server" in nvidia.driver else ""
    opened = new or (nvidia.driver.endswith("-open") and not old)
    return f"{branch}{server}{'-open' if opened else ''}"


def _needed(cuda: str) -> int:
    """The oldest driver branch of a toolkit, 0 where any does."""
    return NEED.get(cuda, NEED.get(cuda.partition(".")[0], 0))


def _release(branch: int) -> str:
    """The newest toolkit that a driver branch runs; 0: any."""
    return next((cuda for since, cuda in TOOLKITS if not branch or branch >= since), "12.2")


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
    for group in _real(view):
        name = group.group.gpu.type if group.group.gpu else ""
        if _BLACKWELL.fullmatch(name) and not opened:
            message = f"{name} (Blackwell) runs with the open kernel module only"
            yield Problem(where, message, hint)
        elif _BLACKWELL.fullmatch(name) and branch < BLACKWELL_BRANCH:
            message = f"branch {branch} does not know {name} (Blackwell)"
            yield Problem(where, message, hint)
        elif opened and _OLD.fullmatch(name) and not _TURING.fullmatch(name):
            message = f"{name} is older than Turing: the open kernel module does not know it"
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
        release = _release(_branch(nvidia.driver))
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
        older = f'cuda: "{_release(branch)}"'
        fit = fitting(view)
        hint = f"write driver: {fit}, or {older}" if fit else f"write {older}"
        yield Problem(("software", "nvidia", "cuda"), message, hint)


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
    if group is not None and group.group.gpu and group.group.name in used:
        message = f"the desktop takes memory of {view.controller}'s GPU from jobs there"
        hint = "count on some hundred MiB less there, or make another machine the controller"
        yield Problem(("software", "desktop"), message, hint)


_NVIDIA: Final = ("software.nvidia",)
_E, _W, _I = Level.ERROR, Level.WARNING, Level.INFO
RULES: Final = (
    Rule("driver-flavour", _E, "A driver that the declared GPUs do not run with: Blackwell needs "
         "the open kernel module of branch 570 or newer, GPUs before Turing the other one.",
         _NVIDIA, driver_flavour, ("groups.gpu.type",)),
    Rule("cuda-source", _E, "A CUDA toolkit that the chosen source does not have; driver and "
         "toolkit of two sources break each other at the next upgrade.", _NVIDIA, cuda_source),
    Rule("cuda-driver", _E, "A driver branch that is older than the CUDA release needs.",
         _NVIDIA, cuda_driver),
    Rule("vendor-repo", _E, "The vendor's repository has no digest or is not used.",
         _NVIDIA, vendor_repo),
    Rule("nvidia-unused", _W, "A driver is declared and no real machine has a GPU.",
         _NVIDIA, nvidia_unused, ("groups.gpu", "groups.provider")),
    Rule("desktop-gpu", _I, "A desktop on a machine whose GPU runs jobs: both share its memory.",
         ("software.desktop",), desktop_gpu, ("groups", "partitions", "controller")),
)  # fmt: skip
