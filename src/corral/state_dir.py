"""Where Corral keeps what belongs to one cluster on its own machine: keys, host keys, journal.

It is not a state file: what a cluster is like is always observed. (``facts.json`` is a guess of
what the next observation will read, see ``apply/observation.py``; ``asked-controller`` is used for
a minute, see ``apply/connection.py``.)
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import platformdirs

from corral.errors import Code, CorralError
from corral.variables import STATE_DIR

VARIABLE: Final = STATE_DIR
_PRIVATE: Final = 0o700
_NAME = re.compile(r"(?=.{1,40}\Z)[a-z0-9][a-z0-9_-]*(\.[a-z0-9_-]+)*\Z")


def state_dir() -> Path:
    """The folder of all clusters' folders: $CORRAL_STATE_DIR, or the user's state folder."""
    chosen = os.environ.get(VARIABLE, "")
    return Path(chosen) if chosen else platformdirs.user_state_path("corral")


def cluster_dir(name: str, *, create: bool = True) -> Path:
    """The folder of one cluster, private to its user.

    Args:
        name: the cluster's name.
        create: make it when it is not there.

    Raises:
        CorralError: USAGE, the name could leave the folder; PROVIDER_FAILED, it cannot be made.
    """
    if not _NAME.match(name):
        raise CorralError(
            Code.USAGE,
            f"{name!r} is not a cluster name",
            hint="lower-case letters, digits and hyphens, a letter first",
        )
    path = state_dir() / "clusters" / name
    if not create:
        return path
    try:
        path.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        if path.stat().st_mode & 0o777 != _PRIVATE:
            path.chmod(_PRIVATE)
    except OSError as error:
        raise CorralError(
            Code.PROVIDER_FAILED,
            f"the folder {path} cannot be made: {error.strerror}",
            hint=f"make it writable, or name another folder in ${VARIABLE}",
        ) from error
    return path


def cluster_names() -> tuple[str, ...]:
    """Names of the clusters that have a folder here, sorted."""
    folder = state_dir() / "clusters"
    if not folder.is_dir():
        return ()
    return tuple(sorted(p.name for p in folder.iterdir() if p.is_dir() and _NAME.match(p.name)))
