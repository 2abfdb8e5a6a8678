"""A user's own folder on shared storage, below folders of root's that nobody else can replace."""

from __future__ import annotations

from typing import Final

from corral.errors import Code, CorralError
from corral.hosts.quote import Script, call
from corral.hosts.transport import Result
from corral.inspect.rules import OwnerFault, owner_fault
from corral.state.storage.job_folders import (
    ENVS,
    JOBS,
    TOP,
    remedy,
    unsafe_folders,
    user_folder,
)

MISSING: Final = "is not there, and only root can make it"
PERSON: Final = " is a person of the directory"
"""As ``person_of_directory`` of user-folders.sh prints it."""

__all__ = ["ENVS", "JOBS", "not_ours", "roof_script", "user_folder"]

_PROGRAM: Final = "jobs/user.sh"


def roof_script(mount: str, kind: str, user: str) -> Script:
    """Make ``MOUNT/corral/KIND/USER`` where `up` has not; without root it must be there."""
    return call(_PROGRAM, "roof_make", mount, TOP, kind, user, MISSING)


def entry_hint(user: str, *, person: bool) -> str:
    """How a user gets an account in Slurm and folders for jobs.

    Args:
        user: who.
        person: their entry is in the directory of people: one in the file with the same name
            would lock them out.
    """
    if person:
        return (
            f"an administrator adds {user} to a group of directory.groups; account and folders "
            "come with corral up FILE, or within the time of directory.every"
        )
    return (
        f"an administrator names {user} under users: of the cluster file and runs: corral up FILE"
    )


def not_ours(result: Result) -> CorralError | None:
    """The error of a script whose folder is somebody else's or is not there; None for others."""
    if result.ok:
        return None
    absent = next((x for x in result.stderr.splitlines() if x.endswith(f" {MISSING}")), "")
    if absent:
        return CorralError(
            Code.NOT_FOUND,
            absent,
            node=result.node,
            hint=entry_hint("you", person=PERSON in result.stderr),
        )
    refused = unsafe_folders(result.stderr)
    unsafe = next((x for x in refused if owner_fault(x) is OwnerFault.REPLACEABLE), None)
    if unsafe is None or unsafe.path is None:
        return None
    hint = "corral up FILE sets it aside, with what is in it, and makes one of root's"
    if TOP not in unsafe.path.parts:
        by_hand = remedy(str(unsafe.path))
        hint = f"corral up FILE does it where Corral serves the folder; else {by_hand}"
    return CorralError(
        Code.NOT_GOOD,
        f"{unsafe.shown}: nothing was read or written there",
        node=result.node,
        hint=hint,
    )
