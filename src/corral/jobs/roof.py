"""A user's own folder on shared storage, below folders of root's that nobody else can replace."""

from __future__ import annotations

from typing import Final

from corral.errors import Code, CorralError
from corral.hosts.quote import Script, sh
from corral.hosts.transport import Result
from corral.state.job_folders import ENVS, JOBS, TOP, user_folder

__all__ = ["ENVS", "JOBS", "guard_script", "not_ours", "roof_script", "user_folder"]

_TAKEN: Final = "belongs to"

# Shared storage is everybody's to write at its top: a link planted there would have root make a
# folder anywhere, and in a folder of another user's that user could replace what others upload.
_GUARD: Final = """\
roots() {{
  if [ -L "$1" ] || [ ! -d "$1" ] || [ "$(stat -c %u "$1")" != 0 ]; then
    echo "$1 {taken} $(stat -c %U "$1") and must be a folder of root" >&2
    exit 1
  fi
  case $(stat -c %A "$1") in ?????w*|????????w*)
    echo "$1 {taken} root and others may write to it" >&2
    exit 1
  esac
}}
"""

# mkdir may lose to another submission that makes the same folder; what is there then is checked.
_ROOF: Final = """\
{guard}
roof={mount}
for part in {top} {kind}; do
  roof=$roof/$part
  [ -e "$roof" ] || mkdir -m 0755 "$roof" 2>/dev/null || [ -e "$roof" ] || mkdir "$roof" || exit 1
  roots "$roof"
done
mine=$roof/{user}
if [ ! -e "$mine" ] && [ ! -L "$mine" ]; then
  mkdir -m 0700 "$mine" && chown -h "{user}:$(id -g {user})" "$mine" || exit 1
fi
if [ -L "$mine" ] || [ ! -d "$mine" ] || [ "$(stat -c %u "$mine")" != "$(id -u {user})" ]; then
  echo "$mine {taken} $(stat -c %U "$mine") and must be a folder of "{user} >&2
  exit 1
fi
"""

_CHECK: Final = """\
{guard}
if [ -e {top} ] || [ -L {top} ]; then roots {top}; fi
if [ -e {kind} ] || [ -L {kind} ]; then roots {kind}; fi
"""


def roof_script(mount: str, kind: str, user: str) -> Script:
    """Make ``MOUNT/corral/KIND/USER``, as root, where `up` has not."""
    return sh(
        _ROOF, guard=_guard(), mount=mount, top=TOP, kind=kind, user=user, taken=Script(_TAKEN)
    )


def guard_script(mount: str, kind: str) -> Script:
    """End with an error where ``MOUNT/corral/KIND`` is there and not root's."""
    top = f"{mount}/{TOP}"
    return sh(_CHECK, guard=_guard(), top=top, kind=f"{top}/{kind}")


def not_ours(result: Result) -> CorralError | None:
    """The error of a script that met a folder of somebody else's, None for any other end."""
    if result.ok:
        return None
    said = next((line for line in result.stderr.splitlines() if _TAKEN in line), "")
    if not said:
        return None
    return CorralError(
        Code.NOT_GOOD,
        f"{said}: nothing was read or written there",
        node=result.node,
        hint="corral up FILE sets it aside, with what is in it, and makes one of root's",
    )


def _guard() -> Script:
    return sh(_GUARD, taken=Script(_TAKEN))
