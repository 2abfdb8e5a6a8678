"""A user's own folder on shared storage, below folders of root's that nobody else can replace."""

from __future__ import annotations

from typing import Final

from corral.errors import Code, CorralError
from corral.hosts.quote import Script, sh
from corral.hosts.transport import Result
from corral.state.job_folders import (
    CHECKS,
    ENVS,
    JOBS,
    STICKY,
    TAKEN,
    TOP,
    held,
    remedy,
    user_folder,
)

MISSING: Final = "is not there, and only root can make it"

__all__ = ["ENVS", "JOBS", "guard_script", "not_ours", "roof_script", "user_folder"]

# mkdir may lose to another submission that makes the same folder; what is there then is checked.
_ROOF: Final = """\
{guard}
{held} || exit 1
roof={mount} mine={mount}/{top}/{kind}/{user}
if [ "$(id -u)" != 0 ] && [ ! -e "$mine" ] && [ ! -L "$mine" ]; then
  echo "$mine {missing}" >&2
  exit 1
fi
for part in {top} {kind}; do
  roof=$roof/$part
  [ -e "$roof" ] || mkdir -m 0755 "$roof" 2>/dev/null || [ -e "$roof" ] || mkdir "$roof" || exit 1
  roots "$roof" || exit 1
done
if [ ! -e "$mine" ] && [ ! -L "$mine" ]; then
  mkdir -m 0700 "$mine" && chown -h "{user}:$(id -g {user})" "$mine" || exit 1
fi
if [ -L "$mine" ] || [ ! -d "$mine" ] || [ "$(stat -c %u "$mine")" != "$(id -u {user})" ]; then
  echo "$mine {taken} $(stat -c %U "$mine") and must be a folder of "{user} >&2
  exit 1
fi
case $(stat -c %A "$mine") in ?????w*|????????w*)
  echo "$mine {taken} "{user}" and others may write to it" >&2
  exit 1
esac
"""

_CHECK: Final = """\
{guard}
if [ -e {top} ] || [ -L {top} ]; then {held} && roots {top} || exit 1; fi
if [ -e {kind} ] || [ -L {kind} ]; then roots {kind} || exit 1; fi
"""


def roof_script(mount: str, kind: str, user: str) -> Script:
    """Make ``MOUNT/corral/KIND/USER`` where `up` has not; without root it must be there."""
    return sh(
        _ROOF,
        guard=CHECKS,
        held=held(mount, user),
        mount=mount,
        top=TOP,
        kind=kind,
        user=user,
        taken=Script(TAKEN),
        missing=Script(MISSING),
    )


def guard_script(mount: str, kind: str, user: Script) -> Script:
    """End with an error where another user than this one could replace ``MOUNT/corral/KIND``.

    Args:
        mount: the shared folder.
        kind: what is read there.
        user: the shell's word for the name of the user whose files are read.
    """
    top = f"{mount}/{TOP}"
    of = sh('held {mount} "$(id -u {user})"', mount=mount, user=user)
    return sh(_CHECK, guard=CHECKS, held=of, top=top, kind=f"{top}/{kind}")


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
            hint="an administrator names you under users: of the cluster file and runs: "
            "corral up FILE",
        )
    marks = (f" {TAKEN} ", f" {STICKY}")
    line = next((x for x in result.stderr.splitlines() if any(mark in x for mark in marks)), "")
    if not line:
        return None
    top, _, _ = line.partition(f" {TAKEN} ")[0].partition(" is open to others")
    hint = "corral up FILE sets it aside, with what is in it, and makes one of root's"
    if f"/{TOP}" not in top:
        hint = f"corral up FILE does it where Corral serves the folder; else {remedy(top)}"
    return CorralError(
        Code.NOT_GOOD, f"{line}: nothing was read or written there", node=result.node, hint=hint
    )
