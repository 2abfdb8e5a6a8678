"""Rules about what keeps jobs apart: task plugins, process tracking, cgroup.conf."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from corral.slurm.adopt.rule import E, Problem, Rule, W
from corral.slurm.adopt.rules.cluster import NODES, there
from corral.slurm.adopt.source import Kind
from corral.slurm.adopt.view import Existing
from corral.slurm.conf.parse import switch
from corral.slurm.version import has
from corral.spec.findings import Level, shown
from corral.spec.slurm.releases import Feature, since

# No ConstrainSwapSpace: slurmd refuses to start with it where the kernel does not account swap.
CGROUP_TEXT: Final = "ConstrainCores=yes\nConstrainDevices=yes\nConstrainRAMSpace=yes\n"


_PLUGINS: Final = ("TaskPlugin", "ProctrackType", "JobAcctGatherType")
_CHOICE: Final = (
    "; --fix leaves it: nothing in these files uses cgroups, which may be meant, as where nodes "
    "are containers without their own cgroups"
)


def without_cgroups(existing: Existing) -> bool:
    """Whether somebody wrote plugins without cgroups and uses cgroups nowhere.

    Where nodes are containers that may be all that works (slurmd ends without a writable cgroup
    hierarchy), so it is a decision of the site.
    """
    values = [existing.slurm.text(key).lower() for key in _PLUGINS]
    used = bool(existing.confs[Kind.CGROUP]) or any("cgroup" in value for value in values)
    return not used and any(values[:2])


def task_plugin(existing: Existing) -> Iterator[Problem]:
    """TaskPlugin is missing, none or without cgroup."""
    setting = existing.slurm.get("TaskPlugin")
    if not there(existing) or (setting and "cgroup" in setting.value.lower()):
        return
    if setting is None and existing.slurm.lost:
        return
    value = setting.value if setting else ""
    if "none" in value.lower():
        what = f"{shown(value)} is silently cleared, so no job is confined"
    elif value:
        what = f"{shown(value)} has no task/cgroup: no job is confined to its cores and memory"
    else:
        what = "TaskPlugin is not set, so no job is confined"
    gpus = " or kept from other jobs' GPUs" if existing.gpus else ""
    plugins = "task/affinity,task/cgroup"
    edit = (
        setting.becomes(plugins)
        if setting
        else existing.slurm.adds(f"TaskPlugin={plugins}", *NODES)
    )
    choice = without_cgroups(existing)
    yield Problem(
        setting.spot if setting else existing.slurm.near("ProctrackType", "NodeName"),
        what + gpus,
        f"write TaskPlugin={plugins}" + (_CHOICE if choice else ""),
        () if choice else (edit,),
        level=Level.ERROR if existing.gpus else None,
        where="TaskPlugin",
    )


def proctrack(existing: Existing) -> Iterator[Problem]:
    """Processes that outlive their job."""
    setting = existing.slurm.get("ProctrackType")
    choice = without_cgroups(existing)
    if setting and setting.value.rpartition("/")[2] in ("pgid", "linuxproc"):
        yield Problem(
            setting.spot,
            f"{shown(setting.value)} loses processes that fork twice: they outlive their job and "
            "keep its GPU",
            "write ProctrackType=proctrack/cgroup" + (_CHOICE if choice else ""),
            () if choice else (setting.becomes("proctrack/cgroup"),),
            where="ProctrackType",
        )


def devices(existing: Existing) -> Iterator[Problem]:
    """cgroup.conf is missing or lets devices through."""
    conf = existing.confs[Kind.CGROUP]
    if not existing.gpus:
        return
    if conf:
        yield from _constrain(existing, "ConstrainDevices", "a job with one GPU opens all of them")
    elif existing.complete and there(existing):
        yield Problem(
            existing.slurm.near("TaskPlugin", "ProctrackType"),
            "there is no cgroup.conf, and ConstrainDevices=no is the default: a job with one "
            "GPU opens all of them",
            "write a cgroup.conf with ConstrainDevices=yes, ConstrainCores=yes and "
            "ConstrainRAMSpace=yes",
            # A file that no plugin reads would look like confinement.
            makes=None if without_cgroups(existing) else (Kind.CGROUP, CGROUP_TEXT),
            where="cgroup.conf",
        )


def cores_and_memory(existing: Existing) -> Iterator[Problem]:
    """Jobs are not held to their cores or memory."""
    if existing.confs[Kind.CGROUP]:
        yield from _constrain(existing, "ConstrainCores", "a job runs on cores of others")
        why = "a job takes memory of others, and the kernel kills at random"
        yield from _constrain(existing, "ConstrainRAMSpace", why)


def _constrain(existing: Existing, key: str, why: str) -> Iterator[Problem]:
    conf = existing.confs[Kind.CGROUP]
    setting = conf.get(key)
    if setting and switch(setting.value):
        return
    yield Problem(
        setting.spot if setting else conf.spot,
        f"{key} is no{'' if setting else ', the default'}: {why}",
        f"write {key}=yes",
        (setting.becomes("yes") if setting else conf.adds(f"{key}=yes"),),
        where=key,
    )


def plugin(existing: Existing) -> Iterator[Problem]:
    """A cgroup plugin that this release does not have, or none at all."""
    setting = existing.confs[Kind.CGROUP].get("CgroupPlugin")
    if setting is None:
        return
    word = setting.value.lower()
    if word == "disabled":
        yield Problem(
            setting.spot,
            "CgroupPlugin=disabled: nothing keeps jobs apart",
            "write CgroupPlugin=autodetect",
            (setting.becomes("autodetect"),),
            where="CgroupPlugin",
        )
    old = existing.version and not has(existing.version, Feature.CGROUP_V2)
    if word == "cgroup/v2" and old:
        yield Problem(
            setting.spot,
            f"cgroup/v2 came with {since(Feature.CGROUP_V2)}",
            "write CgroupPlugin=cgroup/v1 and boot the nodes with cgroup v1",
            level=Level.ERROR,
            where="CgroupPlugin",
        )


RULES: Final = (
    Rule("task-plugin", W, Kind.SLURM, "TaskPlugin is missing, none, or without task/cgroup.",
         "TaskPlugin=task/affinity,task/cgroup", task_plugin, "F16", "slurm.conf(5)"),
    Rule("process-tracking", W, Kind.SLURM, "Processes can outlive their job.",
         "ProctrackType=proctrack/cgroup", proctrack, "F16", "slurm.conf(5)"),
    Rule("devices-open", E, Kind.CGROUP,
         "No cgroup.conf, or one without ConstrainDevices: GPUs are open to all jobs.",
         "ConstrainDevices=yes", devices, "F16", "cgroup.conf(5)"),
    Rule("cores-memory-open", W, Kind.CGROUP, "Jobs are not held to their cores or memory.",
         "ConstrainCores=yes, ConstrainRAMSpace=yes", cores_and_memory, "F16", "cgroup.conf(5)"),
    Rule("cgroup-plugin", W, Kind.CGROUP, "A CgroupPlugin that is off or not there yet.",
         "CgroupPlugin=autodetect", plugin, "F15, F52", "cgroup.conf(5)"),
)  # fmt: skip
