"""Where ssh's control sockets are, and whether a process listens at one."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError
from corral.hosts.target import MAX_CONTROL_PATH

# A connection that is being opened has this many characters more in its socket's name.
SUFFIX: Final = 6


def control_dir() -> Path:
    """Where the control sockets of all clusters go."""
    runtime = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    return Path(runtime) / f"corral-ssh-{os.getuid()}"


def answers(control: Path) -> bool:
    """True when a process listens at a control socket (a killed one leaves the file behind)."""
    if not control.exists():
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(control))
        except OSError:
            return False
    return True


def control_path(folder: Path, name: str) -> Path:
    """Where a control socket goes: a folder of this user's alone, made when missing.

    Raises:
        CorralError: USAGE, the folder belongs to somebody else or others may enter it.
    """
    path = folder.absolute() / name
    if len(os.fsencode(path)) + SUFFIX > MAX_CONTROL_PATH:
        runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
        path = runtime.absolute() / f"corral-ssh-{os.getuid()}" / name
    if len(os.fsencode(path)) + SUFFIX > MAX_CONTROL_PATH:
        raise CorralError(
            Code.USAGE,
            f"{path.parent} is too long a path for ssh's control sockets",
            hint="set XDG_RUNTIME_DIR or TMPDIR to a shorter folder",
        )
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.parent.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise CorralError(
            Code.USAGE,
            f"{path.parent} is not a folder of yours alone",
            hint=f"chmod 700 {path.parent}; where another user made it: set XDG_RUNTIME_DIR to a "
            "folder of yours",
        )
    return path
