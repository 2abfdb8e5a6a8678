"""A cluster that the Cluster Toolkit makes, in the words of any other cluster. Pure.

What the toolkit sets up automatically is in no other part of the file: its file systems are folders
that are mounted already, its users are Google's, and slurmrestd and node health are not Corral's.
"""

from __future__ import annotations

from typing import Any, Final

from corral.spec.gcp import Gcp, GcpStorage
from corral.spec.models import ClusterSpec, Slurm, Storage
from corral.spec.people import User

OS_LOGIN_UID: Final = 60000
"""Stands for the number that OS Login gives a user, which only Google knows; nothing is made."""


def made_by_toolkit(spec: ClusterSpec) -> bool:
    """Whether the toolkit makes the machines and all that is on them."""
    return any(group.capabilities.configures for group in spec.groups)


def storage_of(gcp: Gcp) -> tuple[GcpStorage, ...]:
    """The file systems, or the one that the release's own example has."""
    old = gcp.toolkit == "v1.39.0"
    return gcp.storage or (GcpStorage(mount="/home", kind="filestore" if old else "lustre"),)


def login_of(spec: ClusterSpec) -> str:
    """The OS Login user that the file names, "" when it names none."""
    return next((g.ssh.user for g in spec.groups if g.ssh.user != "root"), "")


def as_made(spec: ClusterSpec) -> ClusterSpec:
    """The same cluster with what the toolkit makes filled in; any other cluster as it is.

    What the file declares itself stays.
    """
    if spec.gcp is None or not made_by_toolkit(spec):
        return spec
    changes: dict[str, Any] = {}
    # A bucket is not a place for a job's files: no locks, no appending, no renaming of folders.
    mounts = [storage.mount for storage in storage_of(spec.gcp) if storage.kind != "bucket"]
    if not spec.storage:
        changes["storage"] = tuple(Storage(mount=mount, kind="existing") for mount in mounts)
    if not spec.users and login_of(spec):
        changes["users"] = (User(name=login_of(spec), uid=OS_LOGIN_UID),)
    if "rest" not in spec.slurm.model_fields_set:
        given = {name: getattr(spec.slurm, name) for name in spec.slurm.model_fields_set}
        changes["slurm"] = Slurm(**given, rest=False)
    if "every" not in spec.health.model_fields_set:
        changes["health"] = spec.health.model_copy(update={"every": "off"})
    return spec.model_copy(update=changes)
