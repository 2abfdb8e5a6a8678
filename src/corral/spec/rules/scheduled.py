"""Rules about what a cluster does on a timer: health checks, the proof, the backup."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from corral.durations import interval_seconds
from corral.spec.findings import Level
from corral.spec.rules.shared_resources import system
from corral.spec.view import Problem, Rule, View

HEALTH_SHORTEST: Final = 30
HEALTH_LONGEST: Final = 18 * 3600
"""HealthCheckInterval is a 16-bit number of seconds: 65535 are 18 hours and some minutes."""
PROOF_SHORTEST: Final = 600
BACKUP_SHORTEST: Final = 3600
PARTITION: Final = "corral-proof"


def health_interval(view: View) -> Iterator[Problem]:
    """Too often, or more seldom than Slurm can count."""
    every = view.spec.health.every
    seconds = interval_seconds(every)
    if seconds and not HEALTH_SHORTEST <= seconds <= HEALTH_LONGEST:
        message = f"a health check every {every} is outside of 30s to 18h"
        yield Problem(("health", "every"), message, "write 5m, or off")


def proof_interval(view: View) -> Iterator[Problem]:
    """Too often."""
    every = view.spec.proof.every
    if 0 < interval_seconds(every) < PROOF_SHORTEST:
        message = f"a proof every {every} would keep nodes busy"
        yield Problem(("proof", "every"), message, "write 1d, or at least 10m")


def preempting(view: View) -> Iterator[Problem]:
    """QOS that preempt: Slurm has one kind of preemption for the entire cluster."""
    if not interval_seconds(view.spec.proof.every):
        return
    if any(qos.preempts for qos in view.spec.qos):
        message = (
            "a scheduled proof gives way by partition, and QOS of this file preempt by QOS: Slurm "
            "has one kind of preemption for the entire cluster"
        )
        hint = "leave preempts out, or run corral prove by hand and leave proof.every out"
        yield Problem(("proof", "every"), message, hint)


def name(view: View) -> Iterator[Problem]:
    """A partition of the name that the proof's own one has."""
    if not interval_seconds(view.spec.proof.every):
        return
    for index, partition in enumerate(view.spec.partitions):
        if partition.name == PARTITION:
            message = f"{PARTITION} is the partition of the scheduled proof"
            yield Problem(("partitions", index, "name"), message, "give yours another name")


def backup_interval(view: View) -> Iterator[Problem]:
    """Too often: each one reads the entire database."""
    every = view.spec.backup.every
    if 0 < interval_seconds(every) < BACKUP_SHORTEST:
        message = f"a backup every {every} would read the accounting database all the time"
        yield Problem(("backup", "every"), message, "write 1d, or at least 1h")


def recipients(view: View) -> Iterator[Problem]:
    """For nobody: an archive has all keys of the cluster."""
    backup = view.spec.backup
    if interval_seconds(backup.every) and not backup.to:
        yield Problem(
            ("backup", "to"),
            "a scheduled backup holds the cluster's keys and is always encrypted: backup.to is "
            "missing",
            "run age-keygen on a machine outside the cluster and write its public key here",
        )


def own_folder(view: View) -> Iterator[Problem]:
    """A folder that others use: it becomes root's alone."""
    backup = view.spec.backup
    if not interval_seconds(backup.every):
        return
    mounts = [s.mount for s in view.spec.storage if f"{s.mount}/".startswith(f"{backup.folder}/")]
    if mounts:
        place = f"has {mounts[0]} in it"
    elif backup.folder.count("/") == 1:
        place = "is at the top of the file system"
    elif system().has(PurePosixPath(backup.folder)):
        place = "is a folder of the system"
    else:
        return
    yield Problem(
        ("backup", "folder"),
        f"{backup.folder} {place}, and the folder of archives becomes root's alone (mode 0700)",
        "name a separate folder, such as /var/backups/corral, or one below a mount",
    )


def same_disk(view: View) -> Iterator[Problem]:
    """On a disk of the controller's, which an archive is there to survive."""
    backup = view.spec.backup
    if not interval_seconds(backup.every):
        return
    above = [s for s in view.spec.storage if f"{backup.folder}/".startswith(f"{s.mount}/")]
    where = max(above, key=lambda storage: len(storage.mount), default=None)
    if where is not None and (where.kind != "nfs" or where.server != view.controller):
        return
    disk = "the controller's own disk" if where is None else f"{where.mount}, which it serves"
    yield Problem(
        ("backup", "folder"),
        f"{backup.folder} is on {disk}: archives there are lost with the controller",
        "name a folder below a mount of `storage` that another machine serves, or copy the "
        "archives to another machine",
    )


def squashed_root(view: View) -> Iterator[Problem]:
    """Corral's own NFS makes root of the controller nobody, who can have no folder of root's."""
    backup = view.spec.backup
    above = [s for s in view.spec.storage if f"{backup.folder}/".startswith(f"{s.mount}/")]
    if not interval_seconds(backup.every) or not above:
        return
    where = max(above, key=lambda storage: len(storage.mount))
    if where.kind == "nfs" and where.root_squash and where.server != view.controller:
        yield Problem(
            ("backup", "folder"),
            f"{view.controller} cannot write archives to {where.mount}: its root is nobody there "
            "(root_squash)",
            "name a folder of another mount, or write root_squash: false for a mount of root's own",
        )


RULES: Final = (
    Rule("health-interval", Level.ERROR, "A health check too often or too seldom for Slurm.",
         ("health.every",), health_interval),
    Rule("proof-interval", Level.ERROR, "A scheduled proof too often.", ("proof.every",),
         proof_interval),
    Rule("proof-preempts", Level.ERROR, "A scheduled proof together with QOS that preempt.",
         ("proof.every", "qos.preempts"), preempting),
    Rule("proof-partition", Level.ERROR, "A partition with the name of the proof's own one.",
         ("proof.every", "partitions.name"), name),
    Rule("backup-interval", Level.ERROR, "A scheduled backup too often.", ("backup.every",),
         backup_interval),
    Rule("backup-recipients", Level.ERROR, "A scheduled backup that is encrypted for nobody.",
         ("backup.to", "backup.every"), recipients),
    Rule("backup-folder", Level.ERROR, "Archives in a folder that others use.",
         ("backup.folder", "storage.mount"), own_folder),
    Rule("backup-root-squash", Level.ERROR, "Archives on a folder of Corral's own NFS where root "
         "of the controller is nobody.",
         ("backup.folder", "storage.mount", "storage.root_squash", "storage.server"),
         squashed_root),
    Rule("backup-disk", Level.WARNING, "Archives on a disk of the controller's.",
         ("backup.folder", "storage.server", "controller"), same_disk),
)  # fmt: skip
