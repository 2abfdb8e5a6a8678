"""Rules about where slurmctld keeps the state of jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from corral.slurm.adopt.rule import Problem, Rule, W
from corral.slurm.adopt.rules.cluster import adds, as_root, can_run, missing
from corral.slurm.adopt.source import Kind
from corral.slurm.adopt.view import Existing, Setting
from corral.spec.findings import Level, shown

_MANUAL: Final = "slurm.conf(5)"
# Folders that each machine has for itself unless something is mounted there.
_LOCAL: Final = re.compile(r"/(var/(spool|lib|run|tmp)|tmp|run|dev/shm)(/|$)")
_VOLATILE: Final = re.compile(r"/(tmp|run|var/run|dev/shm)(/|$)")


def state_save(existing: Existing) -> Iterator[Problem]:
    """State in a place that does not last or is not its own."""
    setting = existing.slurm.get("StateSaveLocation")
    default = setting is None or setting.value.rstrip("/") == "/var/spool"
    if default and (setting or missing(existing, "StateSaveLocation")):
        yield from _default_state(existing, setting)
    elif setting and _VOLATILE.match(setting.value):
        yield Problem(
            setting.spot,
            f"{shown(setting.value)} does not outlive a boot: all jobs are lost with it",
            "write StateSaveLocation=/var/spool/slurmctld, and move what is there while "
            "slurmctld is stopped",
            where="StateSaveLocation",
        )
    yield from _one_folder(existing, setting)


def _default_state(existing: Existing, setting: Setting | None) -> Iterator[Problem]:
    root = as_root(existing)
    what = "StateSaveLocation is /var/spool" + ("" if setting else ", the default")
    new = "StateSaveLocation=/var/spool/slurmctld"
    edits = (setting.replaced_by(new),) if setting else adds(existing, new)
    yield Problem(
        setting.spot if setting else existing.slurm.spot,
        f"{what}: slurmctld's files are between those of other services"
        if root
        else f"{what}: only root can write there, and SlurmUser is not root",
        "write StateSaveLocation=/var/spool/slurmctld"
        + ("; stop slurmctld and move its files first" if root else ""),
        () if root and can_run(existing) else edits,
        level=Level.INFO if root else None,
        where="StateSaveLocation",
    )


def _one_folder(existing: Existing, setting: Setting | None) -> Iterator[Problem]:
    spool = existing.slurm.get("SlurmdSpoolDir")
    if setting and spool and setting.value.rstrip("/") == spool.value.rstrip("/"):
        yield Problem(
            spot=spool.spot,
            message="SlurmdSpoolDir and StateSaveLocation are one folder: on the controller the "
            "daemons would write over each other's files",
            hint="write SlurmdSpoolDir=/var/spool/slurmd",
            level=Level.ERROR if set(existing.controllers) & set(existing.node_names) else None,
            where="SlurmdSpoolDir",
        )


def state_shared(existing: Existing) -> Iterator[Problem]:
    """Two controllers that cannot see each other's state."""
    setting = existing.slurm.get("StateSaveLocation")
    hosts = list(dict.fromkeys(existing.controllers))
    path = setting.value if setting else "/var/spool"
    if len(hosts) < 2 or not _LOCAL.match(path) or not (setting or not existing.slurm.lost):  # noqa: PLR2004
        return
    yield Problem(
        setting.spot if setting else existing.slurm.spot,
        f"{' and '.join(hosts)} are controllers, and {shown(path)} is usually a folder of each "
        "machine: a backup that takes over without the other's state cancels all jobs",
        "write a folder of a shared file system that all controllers mount; where one is mounted "
        "there, nothing is wrong",
        where="StateSaveLocation",
    )


RULES: Final = (
    Rule("state-location", W, Kind.SLURM,
         "StateSaveLocation is missing, does not last, or is slurmd's folder too.",
         "StateSaveLocation=/var/spool/slurmctld", state_save, "F53", _MANUAL),
    Rule("state-not-shared", W, Kind.SLURM,
         "Several controllers with a StateSaveLocation that each machine has for itself.",
         "a folder that all controllers mount", state_shared, "F53", _MANUAL),
)  # fmt: skip
