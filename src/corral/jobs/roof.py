"""Folders above a user's own on shared storage: root's, no links, made where they are missing."""

from __future__ import annotations

from typing import Final

from corral.hosts.quote import Script, sh

JOBS: Final = "jobs"
ENVS: Final = "envs"

# Shared storage is everybody's to write at its top: a link planted there would have root make a
# folder anywhere. In the user's own folder only the user works.
_ROOF: Final = """\
roof={mount}
for part in corral {kind}; do
  roof=$roof/$part
  [ -d "$roof" ] || mkdir -m 0755 "$roof" || exit 1
  if [ -L "$roof" ] || [ "$(stat -c %u "$roof")" != 0 ]; then
    echo "$roof must be a folder of root" >&2
    exit 1
  fi
done
if [ ! -e "$roof/{user}" ]; then
  mkdir -m 0700 "$roof/{user}" && chown -h "{user}:$(id -g {user})" "$roof/{user}" || exit 1
fi
"""


def roof_script(mount: str, kind: str, user: str) -> Script:
    """Make ``MOUNT/corral/KIND/USER``, as root."""
    return sh(_ROOF, mount=mount, kind=kind, user=user)


def user_folder(mount: str, kind: str, user: str) -> str:
    """Its path."""
    return f"{mount}/corral/{kind}/{user}"
