"""A cluster that the Cluster Toolkit makes, in the words of any other cluster. Pure.

What the toolkit sets up automatically is in no other part of the file: its file systems are folders
that are mounted already, its users are Google's, and slurmrestd and node health are not Corral's.
"""

from __future__ import annotations

from typing import Any, Final, cast

from corral.providers.gcp.section import Gcp
from corral.spec.models import ClusterSpec, Slurm, Storage
from corral.spec.sections.people import User
from corral.spec.sections.provider_setup import is_configured

NAME: Final = "gcp"
OS_LOGIN_UID: Final = 60000
"""Stands for the number that OS Login gives a user, which only Google knows; nothing is made."""


def section_of(spec: ClusterSpec) -> Gcp | None:
    """The file's section about Google Cloud."""
    return cast("Gcp | None", getattr(spec, NAME))


def login_of(spec: ClusterSpec) -> str:
    """The OS Login user that the file names, "" when it names none."""
    return next((g.ssh.user for g in spec.groups if g.ssh.user != "root"), "")


def as_made(spec: ClusterSpec) -> ClusterSpec:
    """The same cluster with what the toolkit makes filled in; any other cluster as it is.

    What the file declares itself stays.
    """
    gcp = section_of(spec)
    if gcp is None or not is_configured(spec):
        return spec
    changes: dict[str, Any] = {}
    # A bucket is not a place for a job's files: no locks, no appending, no renaming of folders.
    mounts = [storage.mount for storage in gcp.file_systems() if storage.kind != "bucket"]
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
